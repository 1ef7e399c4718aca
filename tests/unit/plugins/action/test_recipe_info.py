# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t
from pathlib import Path

from tests.unit import plays

REPOSITORY = Path(__file__).parents[4]


def run(directory: Path, arguments: dict[str, t.Any]) -> tuple[int, str]:
    done = plays.do(directory, {"dgx_spark.speculative.recipe_info": arguments})
    return done.returncode, " ".join((done.stdout + done.stderr).split())


def result(directory: Path, arguments: dict[str, t.Any], *options: str) -> dict[str, t.Any]:
    return plays.registered(directory, {"dgx_spark.speculative.recipe_info": arguments}, *options)[0]


def test_the_list_of_shipped_recipes(tmp_path: Path) -> None:
    answer = result(tmp_path, {})
    names = sorted(path.stem for path in (REPOSITORY / "playbooks" / "recipes").glob("*.yml"))
    assert [recipe["name"] for recipe in answer["recipes"]] == names
    assert [row["recipe"] for row in answer["table"]] == names
    assert [line.split()[0] for line in answer["lines"] if not line.startswith(" ")] == names


def test_recipes_of_the_user_are_listed_with_the_shipped_ones(tmp_path: Path) -> None:
    text = (REPOSITORY / "playbooks/recipes/single_first_light.yml").read_text(encoding="utf-8")
    (tmp_path / "own").mkdir()
    (tmp_path / "own/mine.yml").write_text(text, encoding="utf-8")
    (tmp_path / "own/wrong.yml").write_text("title: Wrong\n", encoding="utf-8")
    answer = result(tmp_path, {"own_directory": str(tmp_path / "own")})
    named = {recipe["name"]: recipe for recipe in answer["recipes"]}
    path = str(tmp_path / "own/mine.yml")
    assert {name for name, recipe in answer["named"].items() if recipe != named.get(name)} == {path}
    assert answer["named"][path]["name"] == "mine"
    (problem,) = answer["problems"]
    assert "target_model is missing" in problem
    assert result(tmp_path, {"own_directory": str(tmp_path / "absent")})["named"] == named
    assert "named" not in result(tmp_path, {})


def test_a_recipe_without_its_drafts(tmp_path: Path) -> None:
    arguments = {"recipe": "single_eagle3", "speculation": "{{ speculation | default(true) }}"}
    recipe = result(tmp_path, arguments)["recipe"]
    assert (recipe["method"], recipe["draft"]) == ("eagle3", "nvidia/gpt-oss-120b-Eagle3-long-context")
    alone = result(tmp_path, arguments, "-e", "speculation=off")["recipe"]
    assert (alone["name"], alone["method"], alone["draft"]) == ("single_eagle3", "none", "")


def test_a_variant_of_a_recipe(tmp_path: Path) -> None:
    recipe = result(tmp_path, {"recipe": "single_eagle3", "variant": "qa"})["recipe"]
    assert (recipe["name"], recipe["variant"], recipe["draft_length"]) == ("single_eagle3", "qa", 3)


def test_a_recipe_that_does_not_exist(tmp_path: Path) -> None:
    code, said = run(tmp_path, {"recipe": "single_draft_targt"})
    assert code == 2
    assert "'single_draft_target'" in said


def test_what_is_newer_takes_the_place_of_what_the_recipe_says(tmp_path: Path) -> None:
    recipe = result(tmp_path, {"recipe": "single_eagle3", "overrides": {"image": "newer"}})["recipe"]
    assert (recipe["image"], recipe["method"]) == ("newer", "eagle3")


def test_the_hosts_that_serve_are_counted(tmp_path: Path) -> None:
    assert result(tmp_path, {"recipe": "single_eagle3", "count_hosts_of": "run"})["recipe"]["sparks"] == 1
    code, said = run(tmp_path, {"recipe": "single_eagle3", "count_hosts_of": "inventory"})
    assert code == 2
    assert "'sparks'" in said


def test_engine_options_that_are_given_are_judged_at_once(tmp_path: Path) -> None:
    def given(**values: t.Any) -> tuple[int, str]:
        return run(tmp_path, {"recipe": "single_eagle3", "inputs": values})

    code, said = given(options={"kv_cache_config": {"free_gpu_memory_fracton": 0.8}})
    assert code == 2
    assert "speculative_serve_options: " in said
    assert "'free_gpu_memory_fraction'" in said
    assert given(options={"kv_cache_config": {"free_gpu_memory_fraction": 0.8}})[0] == 0
    # By the rules of the image that is served.
    one_engine = {"max_batch_size": 2}
    assert given(options=one_engine, image="mine:latest", family="1.2")[0] == 0
    assert given(options=one_engine, image="mine:latest")[0] == 0


def test_the_playbook_judges_them_before_it_looks_at_the_spark() -> None:
    tasks = (REPOSITORY / "playbooks/tasks/preflight_and_plan.yml").read_text(encoding="utf-8")
    assert 0 < tasks.index("speculative_serve_options") < tasks.index("inspect_machine.yml")

# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import subprocess
import sys
import typing as t
from pathlib import Path

REPOSITORY = Path(__file__).parents[4]


def run(directory: Path, arguments: dict[str, t.Any], *options: str) -> subprocess.CompletedProcess[str]:
    tasks = [
        {"dgx_spark.speculative.recipe_info": arguments, "register": "result"},
        {"dgx_spark.speculative.report": {"lines": [], "document": "{{ result }}", "json_path": "result.json"}},
    ]
    play = {"hosts": "localhost", "connection": "local", "gather_facts": False, "tasks": tasks}
    (directory / "play.yml").write_text(json.dumps([play]), encoding="utf-8")
    (directory / "ansible.cfg").write_text(f"[defaults]\ncollections_path={REPOSITORY}/collections\n", encoding="utf-8")
    command = [str(Path(sys.executable).with_name("ansible-playbook")), "-i", "localhost,", "play.yml", *options]
    return subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)


def result(directory: Path, arguments: dict[str, t.Any], *options: str) -> dict[str, t.Any]:
    done = run(directory, arguments, *options)
    assert done.returncode == 0, done.stdout + done.stderr
    answers = json.loads((directory / "result.json").read_text(encoding="utf-8"))
    return t.cast("dict[str, t.Any]", answers["localhost"])


def test_the_list_of_shipped_recipes(tmp_path: Path) -> None:
    answer = result(tmp_path, {})
    names = sorted(path.stem for path in (REPOSITORY / "playbooks" / "recipes").glob("*.yml"))
    assert [recipe["name"] for recipe in answer["recipes"]] == names
    assert [row["recipe"] for row in answer["table"]] == names
    assert [line.split()[0] for line in answer["lines"] if not line.startswith(" ")] == names


def test_a_recipe_without_its_drafts(tmp_path: Path) -> None:
    arguments = {"recipe": "single_eagle3", "speculation": "{{ speculation | default(true) }}"}
    recipe = result(tmp_path, arguments)["recipe"]
    assert (recipe["method"], recipe["draft"]) == ("eagle3", "nvidia/gpt-oss-120b-Eagle3-long-context")
    alone = result(tmp_path, arguments, "-e", "speculation=off")["recipe"]
    assert (alone["name"], alone["method"], alone["draft"]) == ("single_eagle3", "none", "")


def test_a_recipe_that_does_not_exist(tmp_path: Path) -> None:
    done = run(tmp_path, {"recipe": "single_draft_targt"})
    assert done.returncode == 2
    assert "did you mean 'single_draft_target'?" in done.stderr + done.stdout
    assert "Draft-Target, draft" in done.stderr + done.stdout


def test_speculation_is_yes_or_no(tmp_path: Path) -> None:
    done = run(tmp_path, {"recipe": "single_eagle3", "speculation": "sometimes"})
    assert done.returncode == 2
    assert "speculation" in done.stderr + done.stdout


def test_what_is_newer_takes_the_place_of_what_the_recipe_says(tmp_path: Path) -> None:
    recipe = result(tmp_path, {"recipe": "single_eagle3", "overrides": {"image": "newer"}})["recipe"]
    assert (recipe["image"], recipe["method"]) == ("newer", "eagle3")


def test_the_hosts_that_serve_are_counted(tmp_path: Path) -> None:
    assert result(tmp_path, {"recipe": "single_eagle3", "counted": "run"})["recipe"]["sparks"] == 1
    done = run(tmp_path, {"recipe": "single_eagle3", "counted": "inventory"})
    assert done.returncode == 2
    assert "needs 1 host(s) in the inventory's group 'sparks', but it has 0." in done.stdout + done.stderr


def test_engine_options_that_are_given_are_judged_at_once(tmp_path: Path) -> None:
    def given(**values: t.Any) -> subprocess.CompletedProcess[str]:
        return run(tmp_path, {"recipe": "single_eagle3", "given": values})

    done = given(options={"kv_cache_config": {"free_gpu_memory_fracton": 0.8}})
    assert done.returncode == 2
    said = " ".join((done.stdout + done.stderr).split())
    assert "speculative_serve_options: Validating the engine options" in said
    assert "did you mean 'free_gpu_memory_fraction'?" in said
    assert given(options={"kv_cache_config": {"free_gpu_memory_fraction": 0.8}}).returncode == 0
    # By the rules of the image that is served.
    one_engine = {"max_batch_size": 2}
    assert given(options=one_engine, image="mine:latest", family="1.2").returncode == 0
    assert given(options=one_engine, image="mine:latest").returncode == 0


def test_the_playbook_judges_them_before_it_looks_at_the_spark() -> None:
    tasks = (REPOSITORY / "playbooks/tasks/look_and_plan.yml").read_text(encoding="utf-8")
    assert 0 < tasks.index("speculative_serve_options") < tasks.index("machine.yml")

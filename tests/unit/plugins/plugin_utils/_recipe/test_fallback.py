# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a run says to run instead if a recipe's image cannot be had, or refuses its options."""

from __future__ import annotations

import shlex
import typing as t
from pathlib import Path

import pytest
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._recipe.fallback import advice, faults_of_drafts
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._recipe.recipe import RECIPES, RecipeError, load

ROOT = RECIPES.parents[1]
NAMED = [path.stem for path in sorted(RECIPES.glob("*.yml")) if load(path)["fallback"]]


def told(name: str) -> tuple[dict[str, t.Any], list[str]]:
    """A shipped recipe, and the commands that are printed for it."""
    recipe = load(RECIPES / f"{name}.yml")
    lines = advice(recipe, recipe["image"]).splitlines()
    return recipe, [line for line in lines if line.startswith("ansible-playbook ")]


@pytest.mark.parametrize("name", NAMED)
def test_the_printed_commands_name_what_there_is(name: str) -> None:
    recipe, commands = told(name)
    assert commands
    for command in commands:
        _program, playbook, *inputs = shlex.split(command)
        assert (ROOT / playbook).is_file()
        assert inputs[::2] == ["-e"] * (len(inputs) // 2)
        given = dict(one.split("=") for one in inputs[1::2])
        assert set(given) <= {"recipe", "speculation"}
        other = load(RECIPES / f"{given['recipe']}.yml")
        assert (other["name"], other["sparks"]) == (recipe["fallback"], recipe["sparks"])
        assert other["image"] != recipe["image"]
        # It goes no further: what the fallback names is not asked again.
        assert not other["fallback"]
        # As the preflight prints it, within its indentation.
        assert len(command) <= 96


def test_where_only_drafts_are_at_fault_both_ways_are_told() -> None:
    _recipe, commands = told("single_eagle3")
    run = "ansible-playbook playbooks/serve.yml -e recipe=single_eagle3_page"
    assert commands == [f"{run} -e speculation=off", run]
    assert faults_of_drafts(load(RECIPES / "single_eagle3_page.yml"))


@pytest.mark.parametrize("name", ["single_eagle3", "single_qwen3_30b"])
def test_each_command_is_for_the_sparks_of_the_run(name: str) -> None:
    recipe = load(RECIPES / f"{name}.yml")
    lines = advice(recipe, recipe["image"], " --limit spark-2").splitlines()
    commands = [line for line in lines if line.startswith("ansible-playbook ")]
    assert commands
    assert all(command.endswith(" --limit spark-2") for command in commands)


def test_what_has_no_drafts_has_one_command() -> None:
    _recipe, commands = told("single_qwen3_30b")
    assert commands == ["ansible-playbook playbooks/serve.yml -e recipe=single_qwen3_30b_page"]


@pytest.mark.parametrize(
    ("name", "difference"),
    [
        ("single_eagle3", ""),
        ("single_eagle3_chat", ". It serves 1 request at a time instead of 4"),
        (
            "single_eagle3_v3",
            ". It serves with the draft model nvidia/gpt-oss-120b-Eagle3-long-context instead of "
            "nvidia/gpt-oss-120b-Eagle3-v3",
        ),
    ],
)
def test_what_another_recipe_serves_otherwise_is_told(name: str, difference: str) -> None:
    recipe = load(RECIPES / f"{name}.yml")
    first, *_commands = advice(recipe, recipe["image"]).splitlines()
    start = f"Recipe {recipe['fallback']} has the image 1.3.0rc12{difference}"
    assert first.removeprefix(start) in (":", ". Its known issues do not matter without speculation:")


def test_nothing_is_told_of_an_image_of_ones_own_nor_without_a_fallback() -> None:
    recipe = load(RECIPES / "single_eagle3.yml")
    assert advice(recipe, "registry.example/release:1.3.0rc29") == ""
    page = load(RECIPES / "single_eagle3_page.yml")
    assert advice(page, page["image"]) == ""


@pytest.mark.parametrize(
    ("fallback", "error"),
    [
        ("single_eagle3_pag", r"fallback: there is no shipped recipe 'single_eagle3_pag'; did you mean .*page"),
        ("mine", "fallback names the recipe itself; name another one"),
    ],
)
def test_a_fallback_is_another_shipped_recipe(tmp_path: Path, fallback: str, error: str) -> None:
    path = tmp_path / "mine.yml"
    text = (RECIPES / "single_eagle3.yml").read_text(encoding="utf-8")
    path.write_text(text.replace("single_eagle3_page", fallback), encoding="utf-8")
    with pytest.raises(RecipeError, match=error):
        load(path)

# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest
from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible_collections.dgx_spark.speculative.plugins.action import recipe_import
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._recipe.recipe import load

from tests.unit import actions, plays

SOURCE = """
recipe_version: "1"
model: example/Example
container: vllm/vllm-openai:v0.32.0
defaults: {context: 8192}
command: vllm serve example/Example --max-model-len {context} --max-num-seqs 2
"""
Result = dict[str, t.Any]


@pytest.fixture(name="place")
def fixture_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    lists: Result = {"allow_code_of": [], "allow_options": []}
    defaults = {"name": "", "directory": "recipes", "replace": False, "without_mods": False, **lists}
    numbers = dict.fromkeys(("revision", "context", "concurrency", "sparks"))
    monkeypatch.setattr(
        ActionBase,
        "validate_argument_spec",
        lambda self, **_: ({}, {**defaults, **numbers, **self._task.args}),
    )
    monkeypatch.chdir(tmp_path)
    (tmp_path / "Example-1.5.yaml").write_text(SOURCE, encoding="utf-8")
    return tmp_path / "recipes"


def run(check: bool = False, **arguments: t.Any) -> Result:
    action = actions.made(recipe_import, {"source": "Example-1.5.yaml", **arguments})
    action._task.check_mode = check
    return t.cast(Result, action.run())


def test_a_second_run_changes_nothing(place: Path) -> None:
    first = run()
    assert (first["changed"], first["path"]) == (True, "recipes/example_1_5.yml")
    recipe = load(place / "example_1_5.yml")
    assert (recipe["context"], recipe["concurrency"], recipe["engine"]) == (8192, 2, "vllm")
    assert first["diff"]["before"] == ""
    assert first["diff"]["after"] == (place / "example_1_5.yml").read_text(encoding="utf-8")
    second = run()
    assert not second["changed"]
    assert second["diff"]["before"] == second["diff"]["after"]


def test_an_edited_file_is_replaced_only_if_that_is_wanted(place: Path) -> None:
    run(name="mine")
    (place / "mine.yml").write_text("edited", encoding="utf-8")
    with pytest.raises(AnsibleActionFail, match="replace=true"):
        run(name="mine")
    assert (place / "mine.yml").read_text(encoding="utf-8") == "edited"
    result = run(name="mine", replace=True)
    assert (result["changed"], result["diff"]["before"]) == (True, "edited")
    assert load(place / "mine.yml")["target"] == "example/Example"


def test_check_mode_predicts(place: Path) -> None:
    result = run(check=True)
    assert result["changed"]
    assert "max-num-seqs" not in result["diff"]["after"]
    assert "Would be written" in "\n".join(result["lines"])
    assert not place.exists()
    run()
    assert not run(check=True)["changed"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"source": ""}, "-e from=FILE"),
        ({"source": "absent.yaml"}, "There is no such file"),
        ({"name": "Upper"}, "lower-case letters"),
        ({"name": "../up"}, "must be a name"),
        ({"name": "single_eagle3"}, "A shipped recipe has the name single_eagle3"),
        ({"name": "single_first_light"}, "A shipped recipe"),
        ({"context": 0}, "context is 0"),
    ],
)
def test_nothing_is_written_after_an_error(place: Path, arguments: Result, words: str) -> None:
    with pytest.raises(AnsibleActionFail) as error:
        run(**arguments)
    assert words in str(error.value)
    assert "Nothing was written." in str(error.value)
    assert not place.exists()


def test_a_result_that_cannot_be_served_is_not_written(place: Path, tmp_path: Path) -> None:
    (tmp_path / "wrong.yaml").write_text(f"{SOURCE.strip()} --enable-prefx-caching\n", encoding="utf-8")
    with pytest.raises(AnsibleActionFail) as error:
        run(source="wrong.yaml")
    assert "options.enable-prefx-caching: " in str(error.value)
    assert not place.exists()


def test_a_directory_that_cannot_be_written(place: Path) -> None:
    place.write_text("a file", encoding="utf-8")
    with pytest.raises(AnsibleActionFail, match="cannot be written"):
        run()


def test_in_a_play(tmp_path: Path) -> None:
    (tmp_path / "example.yaml").write_text(SOURCE, encoding="utf-8")
    task = {"dgx_spark.speculative.recipe_import": {"source": "example.yaml", "directory": str(tmp_path / "own")}}
    result, told = plays.registered(tmp_path, task, "--diff")
    assert result["changed"]
    assert result["recipe"]["target_model"] == {"id": "example/Example"}
    assert "+target_model:" in told
    assert not plays.registered(tmp_path, task)[0]["changed"]

# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest
import yaml
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._recipe import RecipeError, find, load, validate

RECIPES = Path(__file__).parents[4] / "playbooks" / "recipes"


def recipe(**changes: t.Any) -> dict[str, t.Any]:
    """A small valid recipe; a change to None takes the key away."""
    base = {
        "title": "Two small models",
        "source": "https://example.com/recipe",
        "sparks": 1,
        "image": "registry.example.com/image:1.3.0rc12",
        "method": "eagle3",
        "draft_length": 3,
        "target_model": {"id": "example/target"},
        "draft_model": {"id": "example/draft"},
    }
    return {key: value for key, value in {**base, **changes}.items() if value is not None}


@pytest.mark.parametrize("path", sorted(RECIPES.glob("*.yml")), ids=lambda path: path.stem)
def test_every_shipped_recipe_is_valid(path: Path) -> None:
    recipe = load(path)
    assert recipe["name"] == path.stem
    assert recipe["repositories"][0]["id"] == recipe["target_model"]["id"]
    assert "chat" not in recipe["repositories"][0]


def test_defaults_are_filled_in() -> None:
    result = validate(recipe(probe=None))
    assert result["target_model"] == {
        "id": "example/target",
        "revision": "main",
        "include": [],
        "exclude": [],
        "chat": True,
    }
    assert result["probe"] == {"prompt": None, "expect": [], "max_tokens": 1024}
    assert result["options"] == {}


@pytest.mark.parametrize(
    ("key", "default"), [("options", {}), ("environment", {}), ("vocabularies", []), ("draft_length", 0)]
)
def test_a_key_without_a_value_is_left_to_its_default(key: str, default: t.Any) -> None:
    method = {"method": "none", "draft_model": None, "draft_length": None}
    assert validate({**recipe(**method), key: None})[key] == default


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"image": None}, "- image is missing"),
        ({"imgae": "x"}, "- imgae is not a key of a recipe; did you mean 'image'?"),
        ({"sparks": 3}, "- sparks is 3, but must be one of 1, 2"),
        ({"sparks": True}, "- sparks must be a whole number, not True"),
        (
            {"method": "eagle"},
            "- method is 'eagle', but must be one of eagle3, draft_target, none; did you mean 'eagle3'?",
        ),
        ({"options": ["x"]}, "- options must be a mapping, not ['x']"),
        (
            {"target_model": {"id": "no-slash"}},
            "- target_model.id is 'no-slash', but must be a Hub id such as 'organisation/model'",
        ),
        (
            {"target_model": {"id": "a/b", "exlude": []}},
            "- target_model.exlude is not a key of a recipe; did you mean 'exclude'?",
        ),
        ({"target_model": {"id": "a/b", "exclude": [1]}}, "- target_model.exclude[0] must be a string, not 1"),
        (
            {"vocabularies": ["o200k"]},
            "- vocabularies[0] is 'o200k', but must be one of o200k_base, cl100k_base; did you mean 'o200k_base'?",
        ),
        (
            {"target_model": {"id": "a/b\n"}},
            "- target_model.id is 'a/b\\n', but must be a Hub id such as 'organisation/model'",
        ),
        ({"environment": {"A;id": 1}}, "- environment.A;id is not the name of a variable"),
        ({"environment": {"A": None}}, "- environment.A must be a string or a number, not None"),
        (
            {"probe": {"expect": ["("]}},
            "- probe.expect[0] is not a regular expression: missing ), unterminated subpattern at position 0",
        ),
        ({"draft_model": None}, "- draft_model is missing, and method 'eagle3' needs one"),
        ({"draft_length": 0}, "- draft_length must be 1 or more for method 'eagle3'"),
        ({"method": "none", "draft_length": None}, "- draft_model is given, but method is 'none'"),
    ],
)
def test_a_wrong_recipe_says_where_and_what(changes: dict[str, t.Any], error: str) -> None:
    with pytest.raises(RecipeError) as caught:
        validate(recipe(**changes))
    assert str(caught.value) == error


def test_all_errors_come_at_once() -> None:
    with pytest.raises(RecipeError) as caught:
        validate(recipe(image=None, sparks="one", titel="x"))
    assert str(caught.value).count("\n") == 2


def test_method_none_needs_no_draft() -> None:
    assert validate(recipe(method="none", draft_model=None, draft_length=None))["draft_model"] is None


@pytest.mark.parametrize(
    ("name", "text", "error"),
    [
        ("Mine.yml", "{}", "file name 'Mine.yml' names the deployment"),
        ("models.yml", "{}", "'models' is the name of another directory"),
        ("mine.yml", "a: [", "is not valid YAML: line 1, column "),
        ("mine.yml", "title: 2024-13-45", "is not valid YAML: month must be in 1..12"),
        ("mine.yml", "a: " + "[" * 3000, "is not valid YAML: "),
        ("mine.yml", "- a", "it must be a mapping of keys"),
        ("mine.yml", "{}", "title is missing"),
    ],
)
def test_a_file_that_cannot_be_used(tmp_path: Path, name: str, text: str, error: str) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8")
    with pytest.raises(RecipeError, match=error):
        load(tmp_path / name)


def test_a_recipe_is_found_by_name_and_by_path(tmp_path: Path) -> None:
    (tmp_path / "mine.yml").write_text(yaml.safe_dump(recipe()), encoding="utf-8")
    assert find("single_eagle3", RECIPES, tmp_path) == RECIPES / "single_eagle3.yml"
    assert find("mine.yml", RECIPES, tmp_path) == tmp_path / "mine.yml"


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("single_eagle", "There is no recipe 'single_eagle'; did you mean 'single_eagle3'?"),
        ("", "No recipe was given; set recipe to a path or to one of: "),
    ],
)
def test_an_unknown_recipe_names_the_shipped_ones(tmp_path: Path, name: str, error: str) -> None:
    with pytest.raises(RecipeError) as caught:
        find(name, RECIPES, tmp_path)
    assert str(caught.value).startswith(error)
    assert "single_eagle3" in str(caught.value)

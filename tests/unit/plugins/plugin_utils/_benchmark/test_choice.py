# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.dgx_spark.speculative.plugins.module_utils._deployment.names import LABEL
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._benchmark.choice import (
    applicable_choice,
    choice_record,
    verdict,
)

IMAGE = "nvcr.io/nvidia/tensorrt-llm/release:1.3.0rc12"
MODELS: dict[str, dict[str, t.Any]] = {
    "target": {"commit": "aaa"},
    "/models/draft": {"commit": None, "fingerprint": "bbb"},
}
RECIPE: dict[str, t.Any] = {
    "name": "mine",
    "method": "eagle3",
    "draft_length": 5,
    "image": IMAGE,
    "engine": "tensorrt_llm",
}
RECORD: dict[str, t.Any] = {"image": {"reference": IMAGE}, "models": MODELS}
SECTION = {"decoding_type": "Eagle3", "max_draft_len": 5}


def choice(kind: str = "use", length: int | None = 3) -> dict[str, t.Any]:
    verdict = {"kind": kind, "draft_length": length, "sentence": "Use draft length 3."}
    return choice_record({"date": "2026-11-22", "verdict": verdict}, RECORD, RECIPE, SECTION)


def test_a_verdict_is_honoured_for_what_was_measured() -> None:
    expected = {"draft_length": 3, "method": "eagle3", "date": "2026-11-22", "sentence": "Use draft length 3."}
    assert applicable_choice(choice(), RECIPE, IMAGE, MODELS) == expected
    # As long as the models are unknown, too.
    assert applicable_choice(choice(), RECIPE, IMAGE, {}) == expected


@pytest.mark.parametrize("key", ["title", "source", "fallback", "note", "evidence", "figures", "variants"])
def test_a_choice_outlives_another_description(key: str) -> None:
    assert applicable_choice(choice(), {**RECIPE, key: "another"}, IMAGE, MODELS)


def test_it_holds_for_one_engine() -> None:
    # What follows from the engine is no value of its own.
    assert applicable_choice(choice(), {**RECIPE, "container_role": ""}, IMAGE, MODELS)
    assert applicable_choice(choice(), {**RECIPE, "engine": "another"}, IMAGE, MODELS) == {}


def test_drafts_can_be_turned_off() -> None:
    found = applicable_choice(choice("off", 0), RECIPE, IMAGE, MODELS)
    assert (found["draft_length"], found["method"]) == (0, "none")
    assert choice("off", 0)["speculative_config"] == SECTION


def test_without_a_verdict_nothing_is_kept() -> None:
    assert choice("undecided", None) == {}
    assert applicable_choice({}, RECIPE, IMAGE, MODELS) == {}
    assert applicable_choice(None, RECIPE, IMAGE, MODELS) == {}


@pytest.mark.parametrize(("kind", "kept"), [("use", True), ("off", True), ("again", True), ("undecided", False)])
def test_later_runs_are_told_the_verdict_and_that_there_is_none_to_rely_on(kind: str, kept: bool) -> None:
    report = {"date": "2026-11-22", "verdict": {"kind": kind, "draft_length": None, "sentence": "So it is."}}
    told = verdict(report, {"container": {"labels": {f"{LABEL}configuration": "abc"}}})
    assert told == ({"date": "2026-11-22", "sentence": "So it is.", "configuration": "abc"} if kept else {})


def test_speeds_that_cannot_be_compared_choose_nothing() -> None:
    assert choice("again", None) == {}


@pytest.mark.parametrize(
    ("recipe", "image", "models"),
    [
        ({**RECIPE, "draft_length": 4}, IMAGE, MODELS),
        (RECIPE, f"{IMAGE}-other", MODELS),
        (RECIPE, IMAGE, {**MODELS, "target": {"commit": "ccc"}}),
        (RECIPE, IMAGE, {**MODELS, "/models/draft": {"commit": None, "fingerprint": "ddd"}}),
    ],
)
def test_it_no_longer_holds_when_recipe_image_or_models_have_changed(
    recipe: dict[str, t.Any], image: str, models: dict[str, t.Any]
) -> None:
    assert applicable_choice(choice(), recipe, image, models) == {}

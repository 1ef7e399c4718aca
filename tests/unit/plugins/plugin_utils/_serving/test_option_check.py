# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What follows from the answer of the image about its options."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._query.query import Run
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._serving import served_query
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._serving.option_check import refusal, warnings

PLAN = {"engine_words": "vLLM", "served": {"image": "v:1"}, "fix": "Correct the options."}
WHOLE: dict[str, t.Any] = {
    "available": True,
    "accepted": True,
    "version": "0.32.0",
    "error": None,
    "with_models": True,
    "without_models": None,
}
REFUSED = {**WHOLE, "accepted": False, "error": "no such option: a."}
WITHOUT_MODELS = {**WHOLE, "with_models": False, "without_models": "ValueError: It requires Triton."}
NO_JUDGE = {**WHOLE, "available": False, "accepted": False, "version": "", "error": "importing vLLM failed"}


def test_a_refusal_names_engine_image_and_reason() -> None:
    assert refusal(PLAN, REFUSED) == (
        "vLLM 0.32.0 in v:1 rejects the engine options: no such option: a. This collection's rules accept them. "
        "Nothing was changed, and no weights were downloaded. Correct the options."
    )


@pytest.mark.parametrize("answer", [WHOLE, WITHOUT_MODELS, NO_JUDGE])
def test_an_image_that_could_not_judge_refuses_nothing(answer: dict[str, t.Any]) -> None:
    assert refusal(PLAN, answer) == ""


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (WITHOUT_MODELS, "judged the engine options without the models (ValueError: It requires Triton)."),
        (NO_JUDGE, "The image v:1 judged no engine options (importing vLLM failed)."),
    ],
)
def test_what_the_image_did_not_judge_is_said_with_the_reason(answer: dict[str, t.Any], words: str) -> None:
    (text,) = warnings("v:1", answer)
    assert words in text


@pytest.mark.parametrize("answer", [{}, WHOLE, REFUSED, {"available": True}])
def test_nothing_is_said_where_all_was_judged_or_nothing_asked(answer: dict[str, t.Any]) -> None:
    assert warnings("v:1", answer) == []


def test_the_query_fails_or_warns() -> None:
    run = Run(t.cast("t.Any", None), "spark-1", {})
    assert served_query.judged(run, PLAN, WHOLE) == {"warnings": []}
    assert served_query.judged(run, PLAN, NO_JUDGE) == {"warnings": warnings("v:1", NO_JUDGE)}
    assert served_query.judged(run, PLAN, REFUSED)["msg"].startswith("spark-1: vLLM 0.32.0 in v:1 rejects")

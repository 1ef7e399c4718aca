# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import math

import pytest
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._benchmark.comparison import (
    change,
    compare,
    judgement,
)

from tests.unit import benchmark_reports as reports


def figure(mean: float, low: float | None = None, high: float | None = None) -> dict[str, float | int | None]:
    return {"mean": mean, "low": low, "high": high, "n": 9}


def test_factors() -> None:
    found = compare(reports.older(), reports.wins())
    assert [row["drafts"] for row in found["rows"]] == [0, 1, 2, 3]
    for row in found["rows"]:
        # Passes became faster by a sixth, and drafts are accepted as before.
        assert row["figures"]["pass_ms"]["ratio"] == pytest.approx(20 / 24, rel=0.01)
        assert row["figures"]["tokens_per_second"]["ratio"] == pytest.approx(24 / 20, rel=0.01)
        if row["drafts"]:
            assert row["figures"]["acceptance_length"]["ratio"] == pytest.approx(1, rel=0.01)
    assert found["rows"][0]["figures"]["speedup"]["ratio"] is None


def test_intervals_of_independent_measurements() -> None:
    found = change(figure(10, 9, 11), figure(20, 19, 21))
    assert found["ratio"] == 2
    assert found["low"] is not None
    assert found["high"] is not None
    reach = math.hypot(math.log(11 / 9), math.log(21 / 19)) / 2
    assert math.log(found["high"] / 2) == pytest.approx(reach)
    assert found["low"] * found["high"] == pytest.approx(4)
    assert judgement(found) == "more"
    assert judgement(change(figure(20, 19, 21), figure(10, 9, 11))) == "less"
    assert judgement(change(figure(10, 9, 11), figure(10.5, 10, 11))) == "same"


@pytest.mark.parametrize(
    ("before", "after"),
    [(None, figure(1)), (figure(1), None), (None, None), (figure(0), figure(1)), (figure(1), figure(0, 0, 0))],
)
def test_unknown_is_no_factor(before: dict[str, float], after: dict[str, float]) -> None:
    found = change(before, after)
    assert (found["ratio"], found["low"], found["high"]) == (None, None, None)
    assert judgement(found) == "unknown"


def test_a_factor_without_an_interval() -> None:
    assert change(figure(2), figure(3, 2, 4)) == {"before": 2, "after": 3, "ratio": 1.5, "low": None, "high": None}
    assert change(figure(2, -1, 5), figure(3, 2, 4))["low"] is None
    assert change(figure(-2, -3, -1), figure(3, 2, 4))["low"] is None


def test_what_else_differs() -> None:
    after = reports.report(
        models={"openai/gpt-oss-120b": "9" * 40, "another": None},
        versions={"collection": "0.2.0", "tensorrt_llm": "1.3.0rc12"},
        settings={"max_tokens": 512, "repetitions": 3, "warmup": 2, "prompt_lengths": [1024, 8192]},
        hardware={"gpu": "NVIDIA GB10", "driver": "590.1", "sparks": 1},
    )
    found = compare(reports.wins(), after)
    assert {one["what"]: (one["before"], one["after"]) for one in found["differences"]} == {
        "model openai/gpt-oss-120b": ("3" * 40, "9" * 40),
        "model nvidia/gpt-oss-120b-Eagle3-long-context": ("4" * 40, None),
        "hardware driver": ("580.95.05", "590.1"),
        "version collection": ("0.1.0", "0.2.0"),
        "setting max tokens": ("256", "512"),
    }
    assert found["notes"] == [
        "The two did not ask the same: settings or prompts differ, so a factor is not of the change alone."
    ]


def test_nothing_differs() -> None:
    found = compare(reports.wins(), reports.wins())
    assert found["differences"] == []
    assert found["notes"] == [
        "Image, models and settings are the same in both: this is how much two measurements of the same differ."
    ]
    assert {row["figures"]["tokens_per_second"]["ratio"] for row in found["rows"]} == {1.0}


def test_nothing_in_common() -> None:
    found = compare(reports.report(draft_lengths=(0, 1)), reports.report(draft_lengths=(2, 3)))
    assert found["rows"] == []
    assert "nothing to compare" in found["notes"][0]


def test_a_failed_point_is_not_compared() -> None:
    found = compare(reports.fails(), reports.report(draft_lengths=(0, 8)))
    assert [row["drafts"] for row in found["rows"]] == [0]

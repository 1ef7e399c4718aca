# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How jobs say how much, how fast and how long."""

from __future__ import annotations

import json

import pytest
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._jobs import progress


@pytest.mark.parametrize(
    ("done", "total", "rate", "expected"),
    [
        (8_100_000_000, 65_200_000_000, 112_000_000, "8.1 of 65.2 GB, 112 MB/s, 8 min left"),
        (64_000_000_000, 65_200_000_000, 50_000_000, "64.0 of 65.2 GB, 50 MB/s, 24 s left"),
        (0, 65_200_000_000, 3_500_000, "0.0 of 65.2 GB, 3.5 MB/s, 5 h 10 min left"),
        (1_000_000, 290_000_000, 0, "1.0 of 290 MB"),
        (0, 130_000_000_000, 0, "0.0 of 130 GB"),
        (1_000_000, 4_300_000, 0, "1.0 of 4.3 MB"),
        (4_300_000, 4_300_000, 9_000_000, "4.3 of 4.3 MB"),
    ],
)
def test_how_far_and_how_fast(done: int, total: int, rate: float, expected: str) -> None:
    assert progress.share(done, total) + progress.pace(rate, total - done) == expected


def test_without_an_end_there_is_only_a_rate() -> None:
    assert progress.pace(3_500_000, None) == ", 3.5 MB/s"


def test_the_rate_is_that_of_the_last_seconds() -> None:
    rate = progress.Rate(30)
    assert [rate.at(now, count) for now, count in ((0.0, 0), (1.0, 100), (41.0, 4100))] == [0.0, 100.0, 0.0]
    # Something was begun anew.
    assert rate.at(42.0, 10) == 0.0
    assert rate.at(44.0, 30) == 10.0


def test_a_report_is_said_once_and_the_last_one_at_the_end(capsys: pytest.CaptureFixture[str]) -> None:
    state: progress.Message = {"percent": 1.0, "text": "one"}
    with progress.Reports(lambda: dict(state), 0.01) as reports:
        for _number in range(3):
            reports.tell()
        state["text"] = "two"
    lines = [json.loads(line)["progress"]["text"] for line in capsys.readouterr().out.splitlines()]
    assert lines == ["one", "two"]

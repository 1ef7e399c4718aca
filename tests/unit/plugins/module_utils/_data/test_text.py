# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How much and how long, in words."""

from __future__ import annotations

import pytest
from ansible_collections.dgx_spark.speculative.plugins.module_utils._data.text import (
    amount,
    clock,
    count_noun,
    duration,
    elapsed,
    in_brackets,
    one_line,
)


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        (130_400_000_000, "130 GB"),
        (65_248_815_744, "65.2 GB"),
        (430_943_640, "431 MB"),
        (12_300, "12 kB"),
        (7, "7 bytes"),
        (0, "0 bytes"),
    ],
)
def test_amount(size: int, expected: str) -> None:
    assert amount(size) == expected


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (0.2, "1 s"),
        (5, "5 s"),
        (89, "89 s"),
        (300, "5 min"),
        (700, "12 min"),
        (5340, "89 min"),
        (7000, "1 h 57 min"),
        (7200, "2 h"),
        (7260, "2 h 1 min"),
        (86400 * 3, "3 days"),
        (90000, "1 day 1 h"),
        (273000, "3 days 3 h"),
    ],
)
def test_duration(seconds: float, expected: str) -> None:
    assert duration(seconds) == expected


@pytest.mark.parametrize(
    ("seconds", "expected"), [(0.4, "0 s"), (59.9, "59 s"), (130, "2 min 10 s"), (3900, "1 h 5 min")]
)
def test_elapsed(seconds: float, expected: str) -> None:
    assert elapsed(seconds) == expected


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [(0.04, "0.0 s"), (59.4, "59.4 s"), (60, "1:00 min"), (754, "12:34 min"), (3700, "1:01 h")],
)
def test_clock(seconds: float, expected: str) -> None:
    assert clock(seconds) == expected


@pytest.mark.parametrize(("number", "expected"), [(0, "0 files"), (1, "1 file"), (2, "2 files")])
def test_count_noun(number: int, expected: str) -> None:
    assert count_noun(number, "file") == expected


def test_a_long_text_ends_with_dots() -> None:
    assert one_line(" a\nb  c ") == "a b c"
    assert (one_line("a b c d", 7), one_line("a b c d e", 7)) == ("a b c d", "a b ...")


@pytest.mark.parametrize(("host", "expected"), [("10.0.0.1", "10.0.0.1"), ("spark", "spark"), ("::1", "[::1]")])
def test_in_brackets(host: str, expected: str) -> None:
    assert in_brackets(host) == expected

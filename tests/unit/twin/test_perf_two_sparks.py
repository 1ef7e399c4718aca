# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which rates of a copy the figures of two Sparks judge."""

from __future__ import annotations

import pytest

from tests import perf_two_sparks


@pytest.mark.parametrize(
    ("mbit", "raw", "expected"),
    [
        (400, 48.5e6, "at least 0.8; the raw stream filled 97% of its wire"),
        (1000, 100e6, "not judged: the raw stream filled 80% of its wire, this machine was too busy"),
        (0, 2.4e9, "not judged: no cable here, only this machine's memory and cores"),
    ],
)
def test_a_copy_is_judged_where_the_wire_is_the_narrowest_part(mbit: int, raw: float, expected: str) -> None:
    assert perf_two_sparks.limit(mbit, raw) == expected

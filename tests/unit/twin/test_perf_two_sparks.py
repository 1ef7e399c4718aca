# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which rates of a copy the figures of two Sparks judge, and that a figure which misses its limit is an error."""

from __future__ import annotations

import pytest

from tests import perf, perf_two_sparks
from tests.perf import Limit


@pytest.mark.parametrize(
    ("mbit", "raw", "expected"),
    [
        (400, 48.5e6, "at least 0.8; the raw stream filled 97% of its wire"),
        (1000, 100e6, "not judged: the raw stream filled 80% of its wire, this machine was too busy"),
        (0, 2.4e9, "not judged: no cable here, only this machine's memory and cores"),
    ],
)
def test_a_copy_is_judged_where_the_wire_is_the_narrowest_part(mbit: int, raw: float, expected: str) -> None:
    assert str(perf_two_sparks.limit(mbit, raw)) == expected
    assert isinstance(perf_two_sparks.limit(mbit, raw), Limit) == expected.startswith("at least")


@pytest.mark.parametrize(
    ("value", "limit", "kept"),
    [
        (1.02, Limit(1.02), True),
        # Printed as 1.02, and yet more.
        (1.0201, Limit(1.02), False),
        (0.8, Limit(least=0.8), True),
        (0.79, Limit(least=0.8, note="the wire was full"), False),
        (0, Limit(0), True),
        (1, Limit(0), False),
        (float("nan"), Limit(1), False),
        (9e9, "not judged: this machine was too busy", True),
        (9e9, "", True),
    ],
)
def test_a_figure_beyond_its_limit_fails_the_run_at_its_end(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], value: float, limit: Limit | str, kept: bool
) -> None:
    monkeypatch.setattr(perf, "MISSED", [])
    perf.report("the figure", value, ".2f", limit)
    perf.report("another", 1, limit=Limit(1))
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith(f"{'the figure':<62} {value:>12.2f}  {limit}")
    assert first.endswith("MISSED") != kept
    assert second.split() == ["another", "1", "at", "most", "1"]
    if kept:
        perf.conclude()
    else:
        with pytest.raises(SystemExit, match="1 of the figures missed their limits: the figure"):
            perf.conclude()

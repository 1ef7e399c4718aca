# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Curves of the memory, replayed: which of them the guard ends, when, and what is left when the engine is gone."""

from __future__ import annotations

import dataclasses
import itertools
import signal
import typing as t

import pytest
from server import guard
from server.guard import GIB, Limits, Sample

# Seconds from the signal to the memory coming back, of an engine that is killed; one that is asked to end goes on.
KILL_S = 1.5
# With so much left a Spark froze (vllm-project/vllm issue 56824).
FROZE_AT = 2.5
SWAP = 16.0
LIMITS = Limits(4 * GIB, 3.0)
Points = t.Sequence[tuple[float, float]]


@dataclasses.dataclass(frozen=True)
class Curve:
    """MemAvailable in GiB over seconds, between its points on straight lines."""

    name: str
    # Where the curve, or the figures that it was drawn by, are from.
    source: str
    points: Points
    # The signal it has to end with; None if it has to be left alone.
    ends_by: signal.Signals | None
    # Where the plan has it land while it loads; None once it is ready.
    landing: float | None = None
    swap: Points = ((0, SWAP),)
    # Of the free memory what the page cache has taken; MemFree is less by that.
    cached: Points = ((0, 0),)

    def at(self, seconds: float, points: Points | None = None) -> float:
        points = points or self.points
        for (begin, high), (end, low) in itertools.pairwise(points):
            if begin <= seconds < end:
                return high + (low - high) * (seconds - begin) / (end - begin)
        return points[-1][1] if seconds >= points[-1][0] else points[0][1]

    def sample(self, seconds: float) -> Sample:
        available = self.at(seconds)
        free = available - self.at(seconds, self.cached)
        return Sample(seconds, *(int(max(0.0, one) * GIB) for one in (available, free, self.at(seconds, self.swap))))


def steps(begin: float, end: float, high: float, low: float, size: float) -> list[tuple[float, float]]:
    """A fall in pieces of one size, each in 50 ms."""
    count = round((high - low) / size)
    every = (end - begin) / count
    points = []
    for number in range(count):
        at, level = begin + number * every, high - number * size
        points += [(at, level), (at + 0.05, level - size)]
    return [*points, (end, low)]


def swings(
    period: float, highest: float, lowest: float, begin: float = 10, end: float = 190
) -> list[tuple[float, float]]:
    """Up and down with half a period each, ever deeper, until the lowest level is reached."""
    count = round((end - begin) / period)
    points = [(0.0, highest)]
    for number in range(count):
        at = begin + number * period
        depth = (highest - lowest) * min(1.0, (number + 1) / (count / 2))
        points += [(at, highest), (at + period / 2, highest - depth)]
    return [*points, (end, highest)]


COLLAPSE = "vllm-project/vllm issue 56824: 29 to 2.5 GiB in 9 s"
TRANSIENT = "hasso5703's README: 25 to 40 GB for a moment, which the engine does not count; drawn to land at 12 GiB"
AFTER_READY = "notes of gb10-services of 2026-07-17: 12.07 GiB of host memory after ready; over a minute is assumed"
MINEFIELD = "Blackwellboy/model-serving-minefield issue 134: a floor of 2 GiB ended what had run for weeks"
OWN = "assumed"
TERM, KILL = signal.SIGTERM, signal.SIGKILL

CURVES = (
    Curve("collapse while loading", COLLAPSE, [(0, 29), (5, 29), (14, 2.5), (16, 0)], KILL, landing=12),
    Curve("collapse, landing unknown", COLLAPSE, [(0, 29), (5, 29), (14, 2.5), (16, 0)], KILL, landing=None),
    Curve("collapse in pieces", COLLAPSE, [(0, 29), *steps(5, 14, 29, 2.6, 2.2), (16, 0)], KILL, landing=12),
    Curve("collapse of what serves", f"{COLLAPSE}, from 12 GiB", [(0, 12), (9.8, 12), (13.8, 0.2), (15, 0)], KILL),
    Curve("collapse with full swap", COLLAPSE, [(0, 29), (5, 29), (14, 2.5), (16, 0)], KILL, 12, swap=[(0, 0)]),
    Curve("faster collapse", f"{COLLAPSE}, twice as fast", [(0, 29), (5, 29), (9.5, 2.5), (10.5, 0)], KILL, landing=20),
    Curve("slower collapse", f"{COLLAPSE}, at a third", [(0, 29), (5, 29), (32, 2.5), (35, 0)], KILL, landing=12),
    Curve(
        "25 GB for a moment", TRANSIENT, [(0, 110), (120, 35.3), (122, 12), (124, 35.3), (130, 12), (140, 12)], None, 12
    ),
    Curve("40 GB for a moment", TRANSIENT, [(0, 110), (90, 49.3), (92, 12), (94, 49.3), (97, 12), (110, 12)], None, 12),
    Curve(
        "40 GB, 1.9 GiB too low", TRANSIENT, [(0, 110), (90, 49), (93, 10.1), (95, 49), (99, 12), (110, 12)], None, 12
    ),
    Curve("load in steps", OWN, [(0, 110), *steps(1, 60, 110, 12, 2), (70, 12)], None, landing=12),
    Curve("load of a small model", OWN, [(0, 110), (8, 80), (30, 80)], None, landing=80),
    Curve("load of more than was planned", OWN, [(0, 90), (8, 66), (9, 66), (10, 36), (60, 36)], None, landing=40),
    Curve("somebody takes 90 GiB at once", OWN, [(0, 110), (8, 108), (8.05, 18), (60, 18)], None, landing=40),
    Curve("a fraction of what is free", OWN, [(0, 110), (60, 50), (61, 4.7), (90, 4.7)], None, landing=4.5),
    Curve("12 GiB after ready, of 24", AFTER_READY, [(0, 24), (10, 24), (70, 12), (100, 12)], None),
    Curve("12 GiB after ready, of 17", AFTER_READY, [(0, 17), (10, 17), (70, 5), (100, 5)], None),
    Curve("one piece of 2 GiB after ready", OWN, [(0, 9), (10, 9), (10.05, 7), (30, 7)], None),
    Curve("slow leak, no swap", OWN, [(0, 8), (200, 0)], TERM, swap=[(0, 0)]),
    Curve("slow leak, swap fills", OWN, [(0, 8), (200, 0)], TERM, swap=[(0, 8), (90, 0)]),
    Curve("slow leak of what cannot be swapped", OWN, [(0, 8), (200, 0)], KILL),
    Curve(
        "page cache comes and goes",
        "vllm-project/vllm issue 54200: MemAvailable of 22 GiB, the rest of it files",
        [(0, 22), (60, 22)],
        None,
        cached=[(second, 1.0 if second % 4 < 2 else 21.5) for second in range(0, 60, 2)],
    ),
    Curve("the driver says NV_ERR_NO_MEMORY", "vllm-project/vllm issue 54200: 75 times at 22.5 GiB", [(0, 22.5)], None),
    Curve("below 2 GiB for weeks", MINEFIELD, [(0, 1.9), (20, 1.6), (40, 1.9), (60, 1.6)], None, swap=[(0, 9)]),
    Curve(
        "a desktop",
        OWN,
        [(0, 12), (20, 12), (23, 10.8), (60, 10.5), (64, 8.9), (100, 8.5), (110, 5), (140, 5), (150, 3.2), (200, 3.2)],
        None,
        swap=[(0, 16), (140, 16), (200, 14)],
    ),
    *(
        Curve(f"swings of {period:g} s down to 0.4 GiB", OWN, swings(period, 9, 0.4), KILL)
        for period in (2.0, 1.0, 0.5, 3.1)
    ),
    Curve("swings down to 5 GiB", OWN, swings(2.0, 9, 5), None),
    Curve(
        "a dip of 3 GiB while it lands", OWN, [(0, 110), (60, 12), (70, 12), (70.6, 9), (71, 12), (80, 12)], None, 12
    ),
    Curve(
        "a dip below 1 GiB that does not come again",
        OWN,
        [(0, 1.5), (20, 1.5), (20.4, 0.9), (20.8, 1.5), (60, 1.5)],
        None,
    ),
    Curve("a desktop without swap", OWN, [(0, 12), (60, 6), (100, 4.5), (200, 4.5)], None, swap=[(0, 0)]),
)


class Outcome(t.NamedTuple):
    """With which signal a curve was ended, when, and the GiB that were left then and when the memory came back."""

    by: int | None = None
    at: float = 0.0
    level: float = 0.0
    left: float = 0.0


def replay(curve: Curve, limits: Limits = LIMITS, end: float = 220) -> Outcome:
    """An engine that is asked to end goes on as if nothing was; the first signal counts if there is no second one."""
    samples: list[Sample] = []
    landing = None if curve.landing is None else int(curve.landing * GIB)
    watch = guard.watch_level(limits, landing, ready=curve.landing is None)
    seconds, asked = 0.0, Outcome()
    while seconds < end:
        samples.append(curve.sample(seconds))
        found = guard.decide(samples, limits, watch)
        if found:
            outcome = Outcome(found.signal, seconds, curve.at(seconds), curve.at(seconds + KILL_S))
            if found.signal == KILL or curve.ends_by == TERM:
                return outcome
            asked = asked if asked.by else outcome
        seconds += guard.next_look(samples, limits, watch)
    return asked


def come_out_right(curve: Curve, outcome: Outcome) -> bool:
    """What falls slowly may come down to the last; otherwise more is left than a Spark froze with."""
    slow = curve.at(outcome.at - 1) - curve.at(outcome.at) < 0.3
    # Of one that swings, what is left is a matter of the moment.
    swinging = curve.name.startswith("swings")
    return outcome.by == curve.ends_by and (not outcome.by or slow or swinging or outcome.left > FROZE_AT)


@pytest.mark.parametrize("curve", CURVES, ids=lambda curve: curve.name)
def test_a_curve(curve: Curve) -> None:
    outcome = replay(curve)
    assert come_out_right(curve, outcome), outcome
    # `pytest -s` shows the table.
    how = signal.Signals(outcome.by).name if outcome.by else "left alone"
    when = f"at {outcome.at:5.1f} s and {outcome.level:4.1f} GiB, left {outcome.left:3.1f}" if outcome.by else ""
    print(f"{curve.name:36} {how:11} {when:39} {curve.source}")


# Each threshold is where it is because some curve does not come out right with another one.
OTHERS: tuple[tuple[str, float, str], ...] = (
    ("floor", 3 * GIB, "collapse, landing unknown"),
    ("floor", 5 * GIB, "a desktop without swap"),
    ("seconds", 2, "collapse while loading"),
    ("seconds", 4, "one piece of 2 GiB after ready"),
    ("MARGIN", GIB, "40 GB, 1.9 GiB too low"),
    ("MARGIN", 6 * GIB, "collapse while loading"),
    ("STEEP", GIB // 4, "a desktop"),
    ("STEEP", GIB, "slower collapse"),
    ("FALL_S", 1, "one piece of 2 GiB after ready"),
    ("FALL_S", 0.5, "a dip of 3 GiB while it lands"),
    ("FALL_S", 3, "collapse of what serves"),
    ("SWAP_LEAST", 0, "slow leak, no swap"),
    ("QUICKLY_S", 0.5, "faster collapse"),
    ("AGAIN_S", 1, "swings of 2 s down to 0.4 GiB"),
    ("LASTS_S", 0, "a dip below 1 GiB that does not come again"),
)


@pytest.mark.parametrize(("name", "value", "curve"), OTHERS)
def test_another_threshold_does_not_do(monkeypatch: pytest.MonkeyPatch, name: str, value: float, curve: str) -> None:
    one = next(one for one in CURVES if one.name == curve)
    limits = LIMITS
    if hasattr(limits, name):
        limits = dataclasses.replace(limits, **t.cast("dict[str, t.Any]", {name: value}))
    else:
        monkeypatch.setattr(guard, name, value)
    assert not come_out_right(one, replay(one, limits))


def test_a_fall_in_words() -> None:
    curve = next(curve for curve in CURVES if curve.name == "collapse while loading")
    samples = [curve.sample(number / 4) for number in range(14 * 4 + 1)]
    assert guard.describe_fall(samples) == "memory fell from 29.0 GiB to 2.5 GiB in 9 s"


def test_what_is_said_of_a_kill() -> None:
    samples = [Sample(number / 20, int((12 - number * 0.15) * GIB), 0, 0) for number in range(41)]
    found = guard.decide(samples, LIMITS, 8 * GIB)
    assert found == (
        signal.SIGKILL,
        "memory fell from 12.0 GiB to 6.0 GiB in 2 s, 0.7 s from the 4.0 GiB to be kept free",
    )


@pytest.mark.parametrize(
    ("landing", "ready", "watch"),
    [(12, False, 10), (12, True, 8), (40, False, 16), (None, False, 8), (5, False, 4), (-3, False, 4)],
)
def test_below_which_level_a_fall_counts(landing: int | None, ready: bool, watch: int) -> None:
    assert guard.watch_level(LIMITS, None if landing is None else landing * GIB, ready) == watch * GIB

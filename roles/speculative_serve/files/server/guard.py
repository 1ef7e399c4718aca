# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Decide from the kernel's memory figures when an engine must end, before it freezes the whole Spark.

CPU and GPU share one memory, and control groups do not count the driver's part. The level alone is not enough: one
collapse took 9 s from 29 to 2.5 GiB (vllm-project/vllm issue 56824), and others have served for weeks below 2 GiB. So a
fall is judged by the seconds that it leaves, and only below the lowest level of a healthy start.

The thresholds come from tests/unit/roles/test_guard.py, which replays such curves. Bytes and seconds throughout.
"""

from __future__ import annotations

import dataclasses
import itertools
import signal
import typing as t

GIB = 2**30
# A start may come that far below the level at which it is planned to land.
MARGIN = 2 * GIB
# Ordinary programs take memory more slowly.
STEEP = GIB // 2
# With less swap than this, nothing gives way any more.
SWAP_LEAST = GIB
# For how long a level has to last, or after how long it comes again in a memory that swings.
LASTS_S = 1.0
AGAIN_S = 5.0
# Over which a fall is measured: what takes the memory takes it in pieces, and a single piece is no fall.
FALL_S = 2.0
SLOWLY_S, QUICKLY_S = 0.5, 0.05
# A fall that would come to the floor sooner than this is looked at more closely.
CLOSER_S = 10.0


class Sample(t.NamedTuple):
    """A sample of /proc/meminfo: MemAvailable, MemFree and SwapFree in bytes, with the monotonic time."""

    at: float
    available: int
    free: int
    swap: int


@dataclasses.dataclass(frozen=True)
class Limits:
    """A level in bytes, and the seconds before it at which the engine is ended; at half of them it is killed."""

    floor: int
    seconds: float

    @property
    def kill_s(self) -> float:
        return self.seconds / 2

    @property
    def last(self) -> int:
        """Return the level at which the engine always ends. Above it, a Spark with swap may run for weeks."""
        return self.floor // 4


class Verdict(t.NamedTuple):
    """The signal for the engine, and the reason in words."""

    signal: int
    reason: str


def watch_level(limits: Limits, landing: int | None, ready: bool) -> int:
    """Below which a fall counts: while loading, below where the plan has it land, if that is known.

    Where it lands high up, it may as well land much lower than planned.
    """
    if ready or landing is None:
        return 2 * limits.floor
    return min(max(limits.floor, landing - MARGIN), 4 * limits.floor)


def available_at(samples: t.Sequence[Sample], at: float) -> float | None:
    """MemAvailable at a moment, between two samples; None before the first."""
    later = samples[-1]
    for earlier in reversed(samples):
        if earlier.at <= at:
            span = later.at - earlier.at
            share = (at - earlier.at) / span if span > 0 else 0.0
            return earlier.available + share * (later.available - earlier.available)
        later = earlier
    return None


def falls_by(samples: t.Sequence[Sample]) -> float:
    """Return how many bytes of memory are lost per second; 0 if none."""
    now = samples[-1]
    before = available_at(samples, now.at - FALL_S)
    return 0.0 if before is None else max(0.0, (before - now.available) / FALL_S)


def lasts(samples: t.Sequence[Sample], low: t.Callable[[Sample], bool]) -> bool:
    """Return whether memory is low, and was low a second or some seconds ago, so that swings are not missed."""
    now = samples[-1]
    if not low(now):
        return False
    recent = itertools.takewhile(lambda one: now.at - one.at <= AGAIN_S, reversed(samples))
    return any(low(one) for one in recent if now.at - one.at >= LASTS_S)


def decide(samples: t.Sequence[Sample], limits: Limits, watch: int) -> Verdict | None:
    """Return the verdict on the last seconds; None if there is nothing to do."""
    now, rate = samples[-1], falls_by(samples)
    if now.available < watch and rate >= STEEP:
        left = max(0.0, (now.available - limits.floor) / rate)
        if left < limits.seconds:
            number = signal.SIGKILL if left < limits.kill_s else signal.SIGTERM
            return Verdict(
                number, f"{describe_fall(samples)}, {left:.1f} s from the {gib(limits.floor)} to be kept free"
            )
    if lasts(samples, lambda one: one.available < limits.last):
        return Verdict(signal.SIGKILL, f"only {gib(now.available)} of memory were left")
    if lasts(samples, lambda one: one.available < limits.floor and one.swap < SWAP_LEAST):
        kept = f"{gib(limits.floor)} must be kept free, and only {gib(now.swap)} of swap were left"
        return Verdict(signal.SIGTERM, f"only {gib(now.available)} of memory were left, {kept}")
    return None


def next_look(samples: t.Sequence[Sample], limits: Limits, watch: int) -> float:
    """Return the seconds until the next sample, fewer near the floor."""
    now, rate = samples[-1], falls_by(samples)
    near = now.available < watch * 5 // 4 or (rate > 0 and now.available - limits.floor < rate * CLOSER_S)
    return QUICKLY_S if near else SLOWLY_S


def describe_fall(samples: t.Sequence[Sample]) -> str:
    """Describe how memory fell at the end, and in how many seconds."""
    end = samples[-1]
    begin = max((sample for sample in samples if sample.at <= end.at - FALL_S), default=samples[0])
    rate = max(STEEP, (begin.available - end.available) / FALL_S)
    for sample in reversed(samples):
        if sample.at <= begin.at - FALL_S:
            if sample.available - begin.available < rate / 2 * (begin.at - sample.at):
                break
            begin = sample
    steep = [sample for sample in samples if sample.at >= begin.at - FALL_S]
    top = max(one.available for one in steep)
    # It may have been up there for long.
    began = max(one.at for one in steep if one.available >= top - (top - end.available) // 32)
    return f"memory fell from {gib(top)} to {gib(end.available)} in {max(1, round(end.at - began))} s"


def gib(size: float) -> str:
    return f"{size / GIB:.1f} GiB"

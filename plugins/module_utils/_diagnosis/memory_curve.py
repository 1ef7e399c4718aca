# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this module util is internal to the collection; its interface may change at any time.

"""What the memory guard in the container has written down, memory.log: what the memory did before a server was ended,
or before the Spark froze. Lines are JSON, with the Unix time in C(at); what was written last may be cut.
"""

from __future__ import annotations

import json
import typing as t

Line = dict[str, t.Any]

GIB = 2**30
# As files/server/guard.py has them: a fall that counts, and over which time.
STEEP = GIB // 2
FALL_S = 2.0
# So much may be missing at the end: lines are written that often.
WRITE_EVERY_S = 2.0
# What is said of the end of an engine that ended in order, or was ended.
ENDED = ("ended", "stopped")


def last_run(text: str) -> list[Line]:
    """The lines of the last server, from its start on as far as they are there."""
    lines: list[Line] = []
    for raw in text.splitlines():
        try:
            line = json.loads(raw)
        except ValueError:
            continue
        if not isinstance(line, dict) or not isinstance(line.get("at"), (int, float)):
            continue
        if line.get("event") == "loading":
            lines = []
        lines.append(line)
    return lines


def samples(lines: t.Iterable[Line]) -> list[tuple[float, int]]:
    """When, and the bytes that were available."""
    return [(line["at"], line["available"]) for line in lines if isinstance(line.get("available"), int)]


def fall(curve: t.Sequence[tuple[float, int]]) -> tuple[int, int, float]:
    """From how many bytes to how many the memory fell in the end, and in how many seconds."""
    end, low = curve[-1]
    begin, level = max((one for one in curve if one[0] <= end - FALL_S), default=curve[0])
    rate = max(float(STEEP), (level - low) / FALL_S)
    for at, above in reversed(curve):
        if at <= begin - FALL_S:
            if above - level < rate / 2 * (begin - at):
                break
            begin, level = at, above
    steep = [one for one in curve if one[0] >= begin - FALL_S]
    top = max(above for _at, above in steep)
    # It may have been up there for long.
    began = max(at for at, above in steep if above >= top - (top - low) // 32)
    return top, low, end - began


def describe_fall(curve: t.Sequence[tuple[float, int]]) -> str:
    top, low, seconds = fall(curve)
    return f"memory fell from {top / GIB:.0f} to {low / GIB:.0f} GiB in {max(1, round(seconds))} s"


def describe_plan(lines: t.Sequence[Line], context: t.Any) -> str:
    """What was there before the server, and what it was planned to take; empty if nobody knows."""
    begin = lines[0] if lines and lines[0].get("event") == "loading" else {}
    before, takes = begin.get("available"), begin.get("takes")
    if not isinstance(before, int):
        return ""
    text = f"{before / GIB:.0f} GiB were available before it"
    if isinstance(takes, int):
        text += f", and the plan takes {takes / GIB:.0f}"
        text += f" with a context of {context:,} tokens" if isinstance(context, int) and context else ""
    return text


def froze(text: str, boot_time: float | None, context: t.Any) -> str | None:
    """What the memory did before the Spark froze; None if it did not, or not for want of memory."""
    lines = last_run(text)
    curve = samples(lines)
    events = [line["event"] for line in lines if "event" in line]
    if boot_time is None or not curve or lines[-1]["at"] >= boot_time or set(ENDED) & set(events):
        return None
    top, low, seconds = fall(curve)
    rate = (top - low) / max(seconds, 1.0)
    floor = lines[0].get("floor")
    if low - rate * WRITE_EVERY_S > (floor if isinstance(floor, int) else 4 * GIB):
        # A power cut, or something else.
        return None
    phase = "while serving" if "ready" in events else "while loading"
    tried = "; the memory guard was too late" if {"SIGTERM", "SIGKILL"} & set(events) else ""
    plan = describe_plan(lines, context)
    return f"frozen {phase}: {describe_fall(curve)}{tried}" + (f"; {plan}" if plan else "")

# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this module util is internal to the collection; its interface may change at any time.

"""Read memory.log, in which the memory guard records the memory before a server ended or the Spark froze.

Lines are JSON, with the Unix time in C(at). The last line may be incomplete.
"""

from __future__ import annotations

import json
import typing as t

Line = dict[str, t.Any]

GIB = 2**30
# As in files/server/guard.py: the size of a fall that counts, and its duration.
STEEP = GIB // 2
FALL_S = 2.0
# Lines are written this often, so the last ones may be missing.
WRITE_EVERY_S = 2.0
# Events of an engine that ended by itself, or was stopped.
ENDED = ("ended", "stopped")
SIGNALS = ("SIGTERM", "SIGKILL")
# Seconds of a curve that are shown.
SHOWN_S = 12


def parse(text: str) -> list[Line]:
    """Return the valid lines."""
    lines: list[Line] = []
    for raw in text.splitlines():
        try:
            line = json.loads(raw)
        except ValueError:
            continue
        if isinstance(line, dict) and isinstance(line.get("at"), (int, float)):
            lines.append(line)
    return lines


def last_run(lines: t.Sequence[Line]) -> list[Line]:
    """Return the lines of the last server, from its start if that is in the log."""
    starts = [number for number, line in enumerate(lines) if line.get("event") == "loading"]
    return list(lines[starts[-1] if starts else 0 :])


def samples(lines: t.Iterable[Line]) -> list[tuple[float, int]]:
    """Return times with the available bytes."""
    return [(line["at"], line["available"]) for line in lines if isinstance(line.get("available"), int)]


def fall(curve: t.Sequence[tuple[float, int]]) -> tuple[int, int, float]:
    """Return highest and lowest available bytes of the fall at the end, and its seconds."""
    end, low = curve[-1]
    begin, level = max((point for point in curve if point[0] <= end - FALL_S), default=curve[0])
    rate = max(float(STEEP), (level - low) / FALL_S)
    for at, above in reversed(curve):
        if at <= begin - FALL_S:
            if above - level < rate / 2 * (begin - at):
                break
            begin, level = at, above
    steep = [point for point in curve if point[0] >= begin - FALL_S]
    top = max(above for _at, above in steep)
    # The memory may have been at the top for long, so the fall begins at the last high point.
    began = max(at for at, above in steep if above >= top - (top - low) // 32)
    return top, low, end - began


def describe_fall(curve: t.Sequence[tuple[float, int]]) -> str:
    top, low, seconds = fall(curve)
    return f"memory fell from {top / GIB:.0f} to {low / GIB:.0f} GiB in {max(1, round(seconds))} s"


def describe_curve(curve: t.Sequence[tuple[float, int]]) -> str:
    """Return the levels of the last seconds in GiB."""
    end = curve[-1][0]
    levels = [[level for at, level in curve if end - age - 1 < at <= end - age] for age in range(SHOWN_S - 1, -1, -1)]
    shown = " ".join(f"{level[-1] / GIB:.0f}" for level in levels if level)
    return f"GiB in its last seconds: {shown}"


def describe_plan(lines: t.Sequence[Line], context: t.Any) -> str:
    """Return the memory before the server and its planned use as text; empty if unknown."""
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
    """Return how memory fell before the Spark froze; None if it did not freeze, or not for lack of memory."""
    lines = last_run(parse(text))
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
    tried = "the memory guard was too late" if set(SIGNALS) & set(events) else ""
    parts = (f"frozen {phase}: {describe_fall(curve)}", tried, describe_curve(curve), describe_plan(lines, context))
    return "; ".join(part for part in parts if part)


def guarded(reason: str, text: str, context: t.Any) -> str:
    """Return how memory fell before the memory guard stopped a server. Another server may have run since."""
    lines = parse(text)
    acts = [number for number, line in enumerate(lines) if line.get("event") in SIGNALS]
    run = last_run(lines[: acts[-1] + 1]) if acts else []
    curve = samples(run)
    parts = (reason, describe_curve(curve) if curve else "", describe_plan(run, context))
    return "; ".join(part for part in parts if part)

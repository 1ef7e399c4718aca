# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this plugin util is internal to the collection; its interface may change at any time.

"""Two reports of benchmarks side by side: by how much the figures changed, and what else is not the same."""

from __future__ import annotations

import math
import typing as t

from .conditions import CONDITIONS, condition, differing_conditions, named
from .point import drafts, measured

Report = t.Mapping[str, t.Any]
Figure = t.Mapping[str, t.Any]

FIGURES = ("tokens_per_second", "speedup", "pass_ms", "acceptance_length", "ttft_s")
# Of these conditions a difference changes what was asked.
ASKED = {"settings", "prompts"}


class Change(t.TypedDict):
    """A figure in both reports, and by which factor it changed."""

    before: float | None
    after: float | None
    ratio: float | None
    low: float | None
    high: float | None


class Row(t.TypedDict):
    """A draft length that both reports measured."""

    drafts: int
    figures: dict[str, Change]


class Difference(t.TypedDict):
    """A difference of two reports besides their figures."""

    what: str
    before: str | None
    after: str | None


class Comparison(t.TypedDict):
    """The comparison of two reports."""

    date: str
    verdict: str
    rows: list[Row]
    differences: list[Difference]
    notes: list[str]


def compare(before: Report, after: Report) -> Comparison:
    """Return the later report seen from the earlier one."""
    old, new = _measured(before), _measured(after)
    return Comparison(
        date=before["date"],
        verdict=before["verdict"]["sentence"],
        rows=[
            Row(
                drafts=number,
                figures={key: change(old[number].get(key), new[number].get(key)) for key in FIGURES},
            )
            for number in sorted(old.keys() & new.keys())
        ],
        differences=list(_differences(before, after)),
        notes=list(_notes(differing_conditions((before, after)), old, new)),
    )


def change(before: Figure | None, after: Figure | None) -> Change:
    """By which factor a figure changed.

    The reports hold means and intervals only, so the prompts cannot be paired. The interval is that of two independent
    measurements, which is wider than need be, since most of their spread is that of the prompts.
    """
    old, new = (None if figure is None else figure["mean"] for figure in (before, after))
    if not old or not new:
        return Change(before=old, after=new, ratio=None, low=None, high=None)
    ratio = new / old
    reaches = [_reach(figure) for figure in (before, after) if figure]
    if None in reaches or ratio <= 0:
        return Change(before=old, after=new, ratio=ratio, low=None, high=None)
    factor = math.exp(math.hypot(*(reach for reach in reaches if reach is not None)))
    return Change(before=old, after=new, ratio=ratio, low=ratio / factor, high=ratio * factor)


def judgement(found: Change) -> str:
    """Return whether the factor is significantly above or below one."""
    if found["low"] is None or found["high"] is None:
        return "unknown"
    if found["low"] > 1:
        return "more"
    return "less" if found["high"] < 1 else "same"


def _reach(figure: Figure) -> float | None:
    """Half of the interval's width, on logarithms."""
    low, high = figure.get("low"), figure.get("high")
    return math.log(high / low) / 2 if low and high and 0 < low <= high else None


def _measured(report: Report) -> dict[int, t.Mapping[str, t.Any]]:
    return {drafts(p): p for p in measured(report["points"]) if not p["error"]}


def _differences(before: Report, after: Report) -> t.Iterator[Difference]:
    for path, what in CONDITIONS.items():
        old, new = (condition(report, path) for report in (before, after))
        for name in [*old, *(name for name in new if name not in old)]:
            if old.get(name) != new.get(name):
                yield Difference(what=f"{what} {named(name)}".strip(), before=old.get(name), after=new.get(name))


def _notes(differing: t.Collection[str], old: t.Mapping[int, t.Any], new: t.Mapping[int, t.Any]) -> t.Iterator[str]:
    if not old.keys() & new.keys():
        yield "No draft length was measured in both, so there is nothing to compare."
    counts = any(old[number]["n"] != new[number]["n"] for number in old.keys() & new.keys())
    if counts or not ASKED.isdisjoint(differing):
        yield "The two did not ask the same: settings or prompts differ, so a factor is not of the change alone."
    elif not differing:
        yield "Image, models and settings are the same in both: this is how much two measurements of the same differ."

# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this plugin util is internal to the collection; its interface may change at any time.

"""A benchmark's report on a terminal: the figures in a table, the verdict, and what to know besides."""

from __future__ import annotations

import re
import textwrap
import typing as t

from ...module_utils._deployment.lines import printable, width
from .comparison import Change, Comparison
from .point import Point, drafts, label
from .ranking import Ranking, fastest_way

Report = t.Mapping[str, t.Any]

# Left is words, right is numbers.
COLUMNS = (
    ("draft length", "<"),
    ("speed-up", "<"),
    ("tokens/s", ">"),
    ("a pass", ">"),
    ("tokens a pass", ">"),
    ("first token", ">"),
    ("same answers", ">"),
)
COMPARED = (
    ("draft length", "<"),
    ("tokens/s", ">"),
    ("factor", "<"),
    ("a pass", ">"),
    ("tokens a pass", ">"),
    ("first token", ">"),
)
UNKNOWN = "-"
_CHECKSUM = re.compile(r"((?<![0-9a-f])[0-9a-f]{12})(?:[0-9a-f]{28}|[0-9a-f]{52})(?![0-9a-f])")


def digits(value: float | None) -> str:
    """Return a number as exact as it is worth, in about three digits."""
    if value is None:
        return UNKNOWN
    return f"{value:.{2 if abs(value) < 9.995 else 1 if abs(value) < 99.95 else 0}f}"


def interval(figure: t.Mapping[str, t.Any] | None) -> str:
    """Return a figure with its interval, where there is one."""
    if figure is None:
        return UNKNOWN
    text = digits(figure["mean"])
    if figure.get("low") is None or figure.get("high") is None:
        return text
    return f"{text} ({digits(figure['low'])} to {digits(figure['high'])})"


def with_unit(value: float | None, unit: str) -> str:
    return UNKNOWN if value is None else f"{digits(value)} {unit}"


def short(text: str) -> str:
    """Text with the beginning only of each checksum."""
    return _CHECKSUM.sub(r"\1", text)


def mean(point: Point, key: str) -> float | None:
    """Return a point's mean figure; None if it is unknown."""
    figure = point.get(key)
    return None if figure is None else figure["mean"]


def acceptance_length(point: Point) -> t.Mapping[str, t.Any] | None:
    """By our own count or else the server's."""
    return point.get("acceptance_length") or point.get("server_acceptance_length")


def is_chosen(point: Point, report: Report) -> bool:
    verdict = report["verdict"]
    return verdict["kind"] in ("use", "off") and drafts(point) == verdict["draft_length"]


def title(report: Report, point: Point) -> str:
    """Return the draft length, and why it is looked at."""
    remarks = [word for word, holds in (("best", is_chosen(point, report)), ("now", point["serving"])) if holds]
    return label(drafts(point)) + (f" ({', '.join(remarks)})" if remarks else "")


def same_answers(point: Point) -> str:
    result = point.get("identical")
    return f"{result['same']} of {result['compared']}" if result else UNKNOWN


def cells(report: Report, point: Point) -> tuple[str, ...]:
    """Return a point in the order of COLUMNS."""
    with_drafts = bool(drafts(point))
    return (
        title(report, point),
        interval(point["speedup"]) if with_drafts else "1.00",
        digits(mean(point, "tokens_per_second")),
        with_unit(mean(point, "pass_ms"), "ms"),
        digits((acceptance_length(point) or {}).get("mean")) if with_drafts else "1.00",
        with_unit(mean(point, "ttft_s"), "s"),
        same_answers(point) if with_drafts else "",
    )


def align(columns: t.Sequence[tuple[str, str]], rows: t.Sequence[tuple[str, ...]]) -> list[str]:
    """Rows under their titles; a row that is shorter than the table ends with words, which are wrapped."""
    names = tuple(name for name, _side in columns)
    full = [row for row in (names, *rows) if len(row) == len(columns)]
    first = max(len(row[0]) for row in (names, *rows))
    widths = [first, *(max(map(len, column)) for column in list(zip(*full))[1:])]
    lines = []
    for row in (names, *rows):
        if len(row) == len(columns):
            parts = [f"{cell:{side}{width}}" for cell, (_name, side), width in zip(row, columns, widths)]
            lines.append(("  " + "  ".join(parts)).rstrip())
        else:
            lines += wrap_line(" ".join(row[1:]), f"  {row[0]:<{first}}  ", " " * (first + 4))
    return lines


def wrap_line(text: str, first: str = "  ", later: str = "  ") -> list[str]:
    words = " ".join(printable(text).split())
    return textwrap.wrap(words, width(), initial_indent=first, subsequent_indent=later, break_on_hyphens=False)


def table(report: Report) -> list[str]:
    """Return the points, the verdict, the findings, and what was not measured."""
    heading = f"{report['title']} ({report['deployment']}), {report['date']}"
    rows = [
        (title(report, point), f"failed: {point['error']}") if point["error"] else cells(report, point)
        for point in report["points"]
    ]
    lines = [*wrap_line(heading, "", ""), "", *align(COLUMNS, rows), "", *wrap_line(report["verdict"]["sentence"])]
    besides = [
        *(finding["message"] for finding in report["findings"]),
        *(f"Draft length {one['id']} was not measured: {one['reason']}" for one in report["skipped"]),
        *(f"Prompt {one['prompt']} was left out: {one['reason']}" for one in report["left_out"]),
    ]
    for sentence in besides:
        lines += wrap_line(sentence, "  - ", "    ")
    return lines


def from_to(change: Change, unit: str = "") -> str:
    """Both values; one that did not change once."""
    before, after = digits(change["before"]), digits(change["after"])
    return f"{before} -> {after}{unit}" if before != after else f"{after}{unit}"


def comparison_table(comparison: Comparison) -> list[str]:
    """Return the table of changes since an earlier report."""
    rows = []
    for row in comparison["rows"]:
        figures = row["figures"]
        factor = figures["tokens_per_second"]
        shown = None if factor["ratio"] is None else {"mean": factor["ratio"], **factor}
        rows.append(
            (
                label(row["drafts"]),
                from_to(factor),
                interval(shown),
                from_to(figures["pass_ms"], " ms"),
                from_to(figures["acceptance_length"]) if row["drafts"] else "1.00",
                from_to(figures["ttft_s"], " s"),
            )
        )
    lines = wrap_line(f"Compared with the report of {comparison['date']}, which said: {comparison['verdict']}", "", "")
    lines += ["", *align(COMPARED, rows), ""] if rows else [""]
    for difference in comparison["differences"]:
        change = f"{difference['what']}: {difference['before'] or 'unknown'} -> {difference['after'] or 'unknown'}"
        lines += wrap_line(short(change), "  - ", "    ")
    for note in comparison["notes"]:
        lines += wrap_line(note, "  - ", "    ")
    return lines


def ranking_table(ranking: Ranking) -> list[str]:
    """Return the speed of each engine and method, the fastest for each kind of prompt, and what limits that."""
    columns = (("engine and method", "<"), ("tokens/s", ">"), ("by the fastest", "<"))
    rows = [
        (place.way.words, digits(place.speed), interval(place.share) if place.share else "1.00")
        for kind in ranking.kinds[:1]
        for place in kind.places
    ]
    lines = ["Which engine and which method is fastest?", "", *align(columns, rows), ""]
    for text in (*map(fastest_way, ranking.kinds), *ranking.notes):
        lines += wrap_line(text, "  - ", "    ")
    return lines

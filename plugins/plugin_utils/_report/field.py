# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this plugin util is internal to the collection; its interface may change at any time.

"""Write the report of a field check as one HTML file that loads nothing else, and as lines for the screen."""

from __future__ import annotations

import json
import typing as t
from pathlib import Path

from ...module_utils._deployment.lines import printable, wrap_text
from .._benchmark import document as documents
from .._benchmark.plan import collection_version
from .._benchmark.template import page_template

Row = t.Mapping[str, t.Any]
Rows = t.Mapping[str, t.Collection[Row]]
Report = t.Mapping[str, t.Any]
Variables = t.Mapping[str, t.Any]

FORMAT = 1
TEMPLATE = Path(__file__).with_name("field.html.j2")
UNREACHABLE = {
    "id": "reached",
    "section": "Machine",
    "what": "Reached",
    "not_measured": "this Spark could not be reached, or looking at it failed",
}
# Of the curve of the memory, in its own units.
CURVE = (720, 180)


class Line(t.NamedTuple):
    """A row of the page: one cell for each Spark."""

    what: str
    how: str
    cells: list[Row | None]


class Curve(t.NamedTuple):
    """Free memory while the model was loaded, as points of a line, and in words."""

    points: str
    words: str


def report(rows: Rows, date: str, names: bool) -> dict[str, t.Any]:
    """Return the document, from the rows of each host in the order of the play."""
    return {
        "format": FORMAT,
        "collection": collection_version() or "unknown",
        "date": date,
        "sparks": [
            {"name": host if names else f"spark-{number}", "rows": [dict(row) for row in found] or [UNREACHABLE]}
            for number, (host, found) in enumerate(rows.items(), start=1)
        ],
    }


def redacted(rows: Rows, known: t.Sequence[Variables], names: bool) -> Rows:
    """Return the rows of each host without private details; the hosts' names stay on request.

    It runs before the Sparks get their names in the report, because an inventory may use the same names.
    """
    hosts, users = [] if names else documents.host_names(known), documents.user_names(known)
    return {
        host: documents.redacted({"image": image_of(row), "rows": row}, hosts, users)["rows"]
        for host, row in rows.items()
    }


def image_of(rows: t.Iterable[Row]) -> dict[str, t.Any]:
    """Return the deployment's image, whose registry may be private."""
    return {"reference": next((row.get("value") for row in rows if row.get("id") == "image"), None)}


def write(shown: Report, stem: Path) -> None:
    """Write it as a page, and as JSON beside that."""
    files = {".html": page(shown), ".json": json.dumps(shown, indent=2, allow_nan=False) + "\n"}
    documents.write({stem.with_name(stem.name + end): text for end, text in files.items()})


def counts(shown: Report) -> tuple[int, int]:
    """Return the number of measured rows and of all rows."""
    every = [row for spark in shown["sparks"] for row in spark["rows"]]
    return sum("value" in row for row in every), len(every)


def lines(shown: Report) -> list[str]:
    """For the screen: what was not measured, and why."""
    measured, every = counts(shown)
    result = [f"  {measured} of {every} rows were measured."]
    for spark in shown["sparks"]:
        missing = [f"{row['what']}: {row['not_measured']}" for row in spark["rows"] if "not_measured" in row]
        result += ["", f"  Not measured on {spark['name']}:"] if missing else []
        for text in missing:
            result += wrap_text(printable(text), "    - ", "      ")
    return [*result, ""]


def sections(shown: Report) -> dict[str, list[Line]]:
    """Return the rows under their headings, those of two Sparks side by side."""
    result: dict[str, dict[str, Line]] = {}
    for place, spark in enumerate(shown["sparks"]):
        for row in spark["rows"]:
            heading = result.setdefault(row["section"], {})
            line = heading.setdefault(row["id"], Line(row["what"], row.get("how", ""), [None] * len(shown["sparks"])))
            line.cells[place] = row
    return {heading: list(rows.values()) for heading, rows in result.items()}


def value_lines(row: Row) -> list[str]:
    """Return a value, in lines."""
    value, unit = row["value"], row.get("unit", "")
    if unit == "bytes":
        return [f"{value / 1e9:.1f} GB"]
    if isinstance(value, list):
        return [str(one) for one in value] or ["none"]
    return [f"{value:,} {unit}".strip() if isinstance(value, int) else f"{value} {unit}".strip()]


def curve(row: Row) -> Curve | None:
    """Return the line of a row that is one of samples: seconds, free and available bytes."""
    samples = row["value"]
    if not isinstance(samples, list) or not samples or not isinstance(samples[0], (list, tuple)):
        return None
    width, height = CURVE
    last, most = max(samples[-1][0], 1.0), max(sample[1] for sample in samples) or 1
    points = " ".join(f"{s / last * width:.1f},{height - free / most * height:.1f}" for s, free, *_more in samples)
    free = [sample[1] / 1e9 for sample in samples]
    taken = f"from {free[0]:.1f} to {free[-1]:.1f} GB free in {samples[-1][0]:.0f} s, at least {min(free):.1f} GB"
    return Curve(points, f"{free[0] - free[-1]:.1f} GB taken: {taken}")


def page(shown: Report) -> str:
    """Return the whole file."""
    measured, every = counts(shown)
    return page_template(TEMPLATE, words=value_lines, curve=curve).render(
        report=shown, sections=sections(shown), measured=measured, every=every, width=CURVE[0], height=CURVE[1]
    )

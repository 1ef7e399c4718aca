# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Check that every field report is valid, and that every claim about a Spark has the state from the reports.

A claim of docs/hardware.md is confirmed or refuted if, and only if, a file in reports/ says so.
"""

from __future__ import annotations

import dataclasses
import json
import re
import sys
import typing as t
from pathlib import Path

import jsonschema

ROOT = Path(__file__).resolve().parent.parent
TABLE = "docs/hardware.md"
SCHEMA = "reports/schema.json"
# States that need a report, with the verdict of that report.
REPORTED = {"confirmed on hardware": "confirmed", "refuted": "refuted"}
STATES = ("read in sources", "reported by owners", "seen on the twin only", *REPORTED)

Report = dict[str, t.Any]


@dataclasses.dataclass(frozen=True)
class Claim:
    """A row of the table, with the names of the reports that it links to."""

    id: str
    source: str
    state: str
    reports: tuple[str, ...]


def claims(text: str) -> list[Claim]:
    """Return the rows of the tables whose first column is named claim."""
    found = []
    in_table = False
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")] if line.startswith("|") else []
        in_table = cells[:1] == ["claim"] or (in_table and bool(cells))
        if in_table and len(cells) == 4 and cells[0] != "claim" and not cells[0].startswith("-"):
            state = re.match(r"\*([^*]+)\*", cells[3])
            linked = re.findall(r"\(\.\./(reports/[\w.-]+)\)", cells[3])
            found.append(Claim(cells[0], cells[2], state.group(1) if state else cells[3], tuple(linked)))
    return found


def report_findings(name: str, report: t.Any, schema: t.Mapping[str, t.Any]) -> t.Iterator[str]:
    """Yield the errors in a report."""
    errors = sorted(jsonschema.Draft202012Validator(schema).iter_errors(report), key=lambda error: error.json_path)
    yield from (f"{name}: {error.json_path}: {error.message}" for error in errors)
    if errors or not report.get("claims"):
        return
    for spark in report["sparks"]:
        values = {row["id"]: row.get("value") for row in spark["rows"]}
        if values.get("virtualisation") != "none":
            yield (
                f"{name}: {spark['name']} has no row virtualisation of the value 'none', so this report can neither"
                " confirm nor refute a claim about hardware: take its claims out."
            )


def claim_findings(claim: Claim, reports: t.Mapping[str, Report]) -> t.Iterator[str]:
    """Yield the errors in a claim."""
    here = f"{TABLE}: {claim.id}"
    if claim.state not in STATES:
        yield f"{here} has the state '{claim.state}', which is none of: {', '.join(STATES)}."
    if not claim.source:
        yield f"{here} does not say where it comes from."
    said = verdicts(claim.id, reports)
    if claim.state not in REPORTED:
        yield from (f"{here} is '{claim.state}', but {name} says {verdict}." for name, verdict in said)
        return
    for name in claim.reports:
        if name not in reports:
            yield f"{here} names {name}, which does not exist."
    if not any(name in claim.reports and verdict == REPORTED[claim.state] for name, verdict in said):
        yield f"{here} is '{claim.state}', but names no report in reports/ that says so in its claims."


def verdicts(claim: str, reports: t.Mapping[str, Report]) -> list[tuple[str, str]]:
    """Return the reports about a claim with their verdicts."""
    return [
        (name, said["verdict"])
        for name, report in reports.items()
        for said in report.get("claims", ())
        if said["claim"] == claim
    ]


def findings(root: Path) -> t.Iterator[str]:
    """Yield a sentence for each error in the table and the reports."""
    schema = json.loads((root / SCHEMA).read_text(encoding="utf-8"))
    table = claims((root / TABLE).read_text(encoding="utf-8"))
    reports: dict[str, Report] = {}
    for path in sorted((root / "reports").glob("*.json")):
        name = path.relative_to(root).as_posix()
        if name != SCHEMA:
            try:
                report = json.loads(path.read_text(encoding="utf-8"))
            except ValueError as error:
                yield f"{name} is no JSON: {error}."
                continue
            wrong = list(report_findings(name, report, schema))
            yield from wrong
            if not wrong:
                reports[name] = report
    ids = [claim.id for claim in table]
    yield from (f"{TABLE}: {id} is there more than once." for id in sorted({id for id in ids if ids.count(id) > 1}))
    for claim in table:
        yield from claim_findings(claim, reports)
    for name, report in reports.items():
        for said in report.get("claims", ()):
            if said["claim"] not in ids:
                yield f"{name} speaks of {said['claim']}, which is no claim of {TABLE}."


def main() -> int:
    """Print the findings in the repository around this file."""
    found = list(findings(ROOT))
    print("\n".join(found), file=sys.stderr, end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())

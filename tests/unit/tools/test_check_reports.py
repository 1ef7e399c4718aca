# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import copy
import json
import typing as t
from pathlib import Path

import pytest

from tools import check_reports

SCHEMA = json.loads((check_reports.ROOT / check_reports.SCHEMA).read_text())
NAME = "reports/2026-12-01-one-spark.json"
REPORT = {
    "format": 1,
    "collection": "0.1.0",
    "date": "2026-12-01T10:00:00Z",
    "sparks": [
        {
            "name": "spark-1",
            "rows": [
                {"id": "virtualisation", "section": "Machine", "what": "Simulated", "value": "none"},
                {"id": "kernel", "section": "Machine", "what": "Kernel", "not_measured": "there is no uname"},
            ],
        }
    ],
    "claims": [{"claim": "card-absent", "verdict": "confirmed", "because": "pci_connectx is empty"}],
}
CONFIRMED = f"*confirmed on hardware* ([2026-12-01](../{NAME}))"


@pytest.fixture
def found(tmp_path: Path) -> t.Callable[..., list[str]]:
    """The findings in a repository whose table has one row in this state, with these reports."""

    def look(state: str, *reports: t.Any, source: str = "NVIDIA", more: str = "") -> list[str]:
        for name, text in (
            ("docs/hardware.md", f"| state | means |\n|---|---|\n| *x* | y |\n\n{ROW_HEAD}{row(state, source)}{more}"),
            (check_reports.SCHEMA, json.dumps(SCHEMA)),
            *((NAME, report if isinstance(report, str) else json.dumps(report)) for report in reports),
        ):
            path = tmp_path / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
        return list(check_reports.findings(tmp_path))

    return look


ROW_HEAD = "| claim | what we say | from | state |\n|---|---|---|---|\n"


def row(state: str, source: str = "NVIDIA", claim: str = "card-absent") -> str:
    return f"| {claim} | what | {source} | {state} |\n"


def changed(**keys: t.Any) -> dict[str, t.Any]:
    return {**copy.deepcopy(REPORT), **keys}


def test_the_shipped_table_and_reports() -> None:
    assert list(check_reports.findings(check_reports.ROOT)) == []
    table = check_reports.claims((check_reports.ROOT / check_reports.TABLE).read_text())
    assert len(table) > 50
    # The README says that nothing has run on hardware; who files the first report changes that sentence, and this one.
    assert {claim.state for claim in table} == set(check_reports.STATES) - set(check_reports.REPORTED)


def test_a_claim_nobody_has_seen(found: t.Callable[..., list[str]]) -> None:
    assert found("*read in sources*") == []


def test_a_confirmed_claim_with_its_report(found: t.Callable[..., list[str]]) -> None:
    assert found(CONFIRMED, REPORT) == []


def test_a_confirmed_claim_without_a_report(found: t.Callable[..., list[str]]) -> None:
    nothing = (
        "docs/hardware.md: card-absent is 'confirmed on hardware', but names no report in reports/ that says so in"
        " its claims."
    )
    assert found("*confirmed on hardware*") == [nothing]
    assert found(CONFIRMED) == [f"docs/hardware.md: card-absent names {NAME}, which does not exist.", nothing]
    assert found(CONFIRMED, changed(claims=[])) == [nothing]


def test_a_report_that_says_the_opposite(found: t.Callable[..., list[str]]) -> None:
    claims = [{"claim": "card-absent", "verdict": "refuted", "because": "it was there"}]
    assert len(found(CONFIRMED, changed(claims=claims))) == 1
    assert found(CONFIRMED.replace("confirmed on hardware", "refuted"), changed(claims=claims)) == []


def test_a_report_that_the_table_does_not_know_of(found: t.Callable[..., list[str]]) -> None:
    assert found("*reported by owners*", REPORT) == [
        f"docs/hardware.md: card-absent is 'reported by owners', but {NAME} says confirmed."
    ]


def test_a_report_about_something_else(found: t.Callable[..., list[str]]) -> None:
    claims = [{"claim": "fan-noise", "verdict": "refuted", "because": "loud"}]
    assert found("*read in sources*", changed(claims=claims)) == [
        f"{NAME} speaks of fan-noise, which is no claim of docs/hardware.md."
    ]


def test_states_and_sources(found: t.Callable[..., list[str]]) -> None:
    assert found("*guessed*", source="", more=row("*refuted*", claim="x") + row("*read in sources*", claim="x")) == [
        "docs/hardware.md: x is there more than once.",
        "docs/hardware.md: card-absent has the state 'guessed', which is none of: read in sources, reported by owners,"
        " seen on the twin only, confirmed on hardware, refuted.",
        "docs/hardware.md: card-absent does not say where it comes from.",
        "docs/hardware.md: x is 'refuted', but names no report in reports/ that says so in its claims.",
    ]


def test_a_simulated_spark_confirms_nothing(found: t.Callable[..., list[str]]) -> None:
    report = changed()
    report["sparks"][0]["rows"][0]["value"] = "docker"
    assert f"{NAME}: spark-1 has no row virtualisation of the value 'none'" in found(CONFIRMED, report)[0]
    report["claims"] = []
    assert found("*read in sources*", report) == []


def test_no_json(found: t.Callable[..., list[str]]) -> None:
    assert found("*read in sources*", "{") == [
        f"{NAME} is no JSON: Expecting property name enclosed in double quotes: line 1 column 2 (char 1)."
    ]


@pytest.mark.parametrize(
    ("change", "finding"),
    [
        ({"format": 2}, "$.format: 2 is not one of [1]"),
        ({"date": "yesterday"}, "$.date: 'yesterday' does not match"),
        ({"sparks": []}, "$.sparks: [] should be non-empty"),
        ({"serial": "1"}, "$: Additional properties are not allowed ('serial' was unexpected)"),
    ],
)
def test_the_schema(found: t.Callable[..., list[str]], change: dict[str, t.Any], finding: str) -> None:
    assert found("*read in sources*", changed(claims=[], **change))[0].startswith(f"{NAME}: {finding}")


@pytest.mark.parametrize("row", [{}, {"value": 1, "not_measured": "both"}])
def test_a_row_is_measured_or_says_why_not(found: t.Callable[..., list[str]], row: dict[str, t.Any]) -> None:
    report = changed(claims=[])
    report["sparks"][0]["rows"] = [{"id": "kernel", "section": "Machine", "what": "Kernel", **row}]
    assert found("*read in sources*", report)[0].startswith(f"{NAME}: $.sparks[0].rows[0]: ")

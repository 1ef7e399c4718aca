# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import typing as t
from pathlib import Path

import jsonschema
import pytest
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._report import field as pages

SCHEMA = json.loads((Path(__file__).parents[5] / "reports/schema.json").read_text())
DATE = "2026-12-01T10:00:00Z"
KERNEL = {"id": "kernel", "section": "Machine", "what": "Kernel", "how": "uname", "value": "6.17 <b>\x1b[31m"}
MEMORY = {"id": "memory", "section": "Machine", "what": "Memory", "how": "x", "value": 130_700_000_000, "unit": "bytes"}
CARD = {"id": "card", "section": "Card", "what": "Card", "how": "sysfs", "not_measured": "there is none"}
LOADING = {
    "id": "loading",
    "section": "Server",
    "what": "Free",
    "how": "each second",
    "value": [[0.0, 100e9, 1], [1.0, 2e9, 1], [2.0, 30e9, 1]],
}


def report(**rows: t.Sequence[t.Mapping[str, t.Any]]) -> dict[str, t.Any]:
    return pages.report(rows, DATE, names=False)


def test_a_report_is_one_that_can_be_filed() -> None:
    found = report(athena=[KERNEL, MEMORY, CARD, LOADING], hera=[])
    jsonschema.Draft202012Validator(SCHEMA).validate(found)
    assert [spark["name"] for spark in found["sparks"]] == ["spark-1", "spark-2"]
    assert found["sparks"][1]["rows"][0]["not_measured"].startswith("this Spark could not be reached")


def test_names_only_if_wanted() -> None:
    assert "athena" not in json.dumps(report(athena=[KERNEL]))
    assert pages.report({"athena": [KERNEL]}, DATE, names=True)["sparks"][0]["name"] == "athena"


def test_the_page_escapes_what_machines_say() -> None:
    text = pages.page(report(athena=[KERNEL, CARD]))
    assert "6.17 &lt;b&gt; [31m" in text
    assert "<b>not measured</b> there is none" in text
    assert "1 of 2 rows were measured" in text


def test_two_sparks_side_by_side() -> None:
    found = pages.sections(report(athena=[KERNEL, CARD], hera=[KERNEL]))
    assert found["Machine"][0].cells == [KERNEL, KERNEL]
    assert found["Card"][0].cells == [CARD, None]
    assert ">spark-2</th>" in pages.page(report(athena=[KERNEL], hera=[KERNEL]))


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (MEMORY, ["130.7 GB"]),
        ({"value": []}, ["none"]),
        ({"value": ["a", "b"]}, ["a", "b"]),
        ({"value": 131104, "unit": "tokens"}, ["131,104 tokens"]),
        ({"value": 2.5}, ["2.5"]),
    ],
)
def test_values_in_words(row: dict[str, t.Any], said: list[str]) -> None:
    assert pages.value_lines(row) == said


def test_the_curve_of_the_memory() -> None:
    found = pages.curve(LOADING)
    assert found is not None
    assert found.points == "0.0,0.0 360.0,176.4 720.0,126.0"
    assert found.words == "70.0 GB taken: from 100.0 to 30.0 GB free in 2 s, at least 2.0 GB"
    assert pages.curve(MEMORY) is None
    assert '<polyline points="0.0,0.0 ' in pages.page(report(athena=[LOADING]))


def test_the_screen_says_what_was_not_measured() -> None:
    assert pages.lines(report(athena=[KERNEL, CARD])) == [
        "  1 of 2 rows were measured.",
        "",
        "  Not measured on spark-1:",
        "    - Card: there is none",
        "",
    ]

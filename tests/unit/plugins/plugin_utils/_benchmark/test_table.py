# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import copy

import pytest
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._benchmark import table as terminal
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._benchmark.analyse import analyse
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._benchmark.comparison import compare

from tests.unit import benchmark_reports as reports
from tests.unit import benchmark_results as measured

LONG = "\x1b[31mred\u202e " + "word " * 60 + "x" * 300


def test_the_table() -> None:
    lines = terminal.table(reports.wins())
    best = reports.wins()["verdict"]["draft_length"]
    assert lines[:3] == [
        "gpt-oss-120b with EAGLE-3 on one Spark (single_eagle3), 2026-11-22",
        "",
        "  draft length  speed-up             tokens/s   a pass  tokens a pass  first token  same answers",
    ]
    assert lines[3] == "  off           1.00                     50.0  20.0 ms           1.00       0.15 s"
    assert lines[4].startswith("  1             1.")
    assert lines[4].endswith("      15 of 15")
    assert [line.split("  ")[1] for line in lines[3:8]] == [
        "off",
        *(f"{k}{' (best)' if k == best else ''}" for k in (1, 2, 3)),
        "5 (now)",
    ]
    assert " ".join(" ".join(lines).split()).count(reports.wins()["verdict"]["sentence"]) == 1


def test_a_failed_point_and_what_was_not_measured() -> None:
    text = "\n".join(terminal.table(reports.fails()))
    assert "\n  8              failed: The server ended: CUDA out of memory.\n" in text
    assert "\n  - Draft length 5 was not measured: draft length 3 was no faster than 2.\n" in text
    assert "\n  - Prompt long-1 was left out: it has 18231 tokens, the server takes 16384." in text
    assert "  3 (best, now)  " in text


def test_off_is_the_best() -> None:
    text = "\n".join(terminal.table(reports.loses()))
    assert "\n  off (best)    1.00 " in text
    assert reports.loses()["verdict"]["sentence"] in " ".join(text.split())


def test_speeds_that_cannot_be_compared() -> None:
    text = " ".join("\n".join(terminal.table(reports.disturbed())).split())
    assert reports.disturbed()["verdict"]["sentence"] in text
    assert text.count(" - ") == 1
    assert "(best" not in text


def test_unknown_is_no_number() -> None:
    lines = terminal.table(reports.report(draft_lengths=(1, 2)))
    assert lines[3].startswith("  1             -  ")
    assert lines[3].endswith("  -")


def test_findings_are_told() -> None:
    results = measured.results()
    measured.change_answer(results, "3", "code-1", 30)
    report = analyse(results, measured.context())
    text = " ".join("\n".join(terminal.table(report)).split())
    assert "14 of 15" in text
    assert "- " + " ".join(report["findings"][0]["message"].split()) in text


@pytest.mark.parametrize("factor", [0.004, 1, 200])
def test_at_most_100_columns_and_nothing_that_steers_a_terminal(factor: float) -> None:
    results = measured.results(errors={2: LONG})
    report = copy.deepcopy(analyse(results, measured.context(title=LONG, deployment=LONG)))
    report["findings"] = [{"id": "x", "message": LONG}]
    report["skipped"] = [{"id": LONG, "reason": LONG}]
    for point in report["points"]:
        for key in ("tokens_per_second", "pass_ms", "ttft_s"):
            for end in ("mean", "low", "high"):
                if point[key]:
                    point[key][end] *= factor
    older = copy.deepcopy(reports.older())
    older["title"] = older["image"]["reference"] = LONG
    lines = [*terminal.table(report), *terminal.comparison_table(compare(older, report))]
    assert max(map(len, lines)) <= 100
    assert all(line.isprintable() for line in lines)
    assert "red" in "".join(lines)


def test_two_reports() -> None:
    lines = terminal.comparison_table(compare(reports.older(), reports.wins()))
    assert lines[0].startswith("Compared with the report of 2026-09-30, which said: Use draft length")
    (off,) = (line for line in lines if line.startswith("  off "))
    assert "41.7 -> 50.0  1.20 (1." in off
    assert "24.0 -> 20.0 ms" in off
    assert "  - image: nvcr.io/nvidia/tensorrt-llm/release:1.2.0 ->" in lines
    assert "  - image id: sha256:888888888888 -> sha256:111111111111" in lines
    assert not [line for line in lines if line.startswith("  5 ")]


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "-"),
        (0.1234, "0.12"),
        (9.994, "9.99"),
        (9.996, "10.0"),
        (52.08, "52.1"),
        (99.96, "100"),
        (1234.5, "1234"),
    ],
)
def test_digits(value: float | None, shown: str) -> None:
    assert terminal.digits(value) == shown


def test_checksums_are_shortened() -> None:
    commit, digest = "ab12" * 10, "cd34" * 16
    assert terminal.short(f"a@sha256:{digest} at {commit}, {commit[:39]}") == (
        f"a@sha256:cd34cd34cd34 at ab12ab12ab12, {commit[:39]}"
    )

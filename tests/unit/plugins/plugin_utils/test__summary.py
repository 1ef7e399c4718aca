# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._summary import Reach, first_lines, render

LOCAL = Reach(local=True)


def record(**changes: t.Any) -> dict[str, t.Any]:
    return {
        "target_model": "example/target",
        "served_model": "target",
        "method": "eagle3",
        "draft_length": 5,
        "url": "http://127.0.0.1:8000",
        "measurements": {"ttft_s": 0.214, "tokens_per_second": 61.26, "acceptance_length": 2.5},
        "memory_available": 54_200_000_000,
        "answer": {"text": "The distance is 276 km.", "reasoning": None},
        "findings": [],
        **changes,
    }


def test_the_figures_are_there() -> None:
    text = render("spark-1", record(), LOCAL)
    assert text.startswith("spark-1 serves example/target with EAGLE-3, draft length 5\n")
    assert "  first token        0.21 s\n" in text
    assert "  speed              61.3 tokens/s\n" in text
    assert "  acceptance length  2.50 tokens a pass, 6 at most\n" in text
    assert "  memory left        54.2 GB\n" in text
    assert "    The distance is 276 km.\n" in text


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("127.0.0.1", "(only from the Spark itself)"),
        ("::1", "(only from the Spark itself)"),
        ("0.0.0.0", "(open to everyone who can reach 0.0.0.0)"),
    ],
)
def test_who_can_use_the_api_is_said(address: str, words: str) -> None:
    assert f"  URL                http://127.0.0.1:8000/v1 {words}\n" in render("x", record(listens_on=address), LOCAL)


def test_what_was_not_measured_is_unknown_and_not_zero() -> None:
    text = render("spark-1", record(measurements={}), LOCAL)
    assert "  speed              unknown\n" in text
    assert "  acceptance length  unknown tokens" in text


def test_without_drafts_there_is_no_acceptance() -> None:
    text = render("spark-1", record(method="none", draft_length=0), LOCAL)
    assert "spark-1 serves example/target without drafts" in text
    assert "acceptance" not in text


def test_a_local_spark_needs_no_tunnel() -> None:
    assert "ssh" not in render("spark-1", record(), LOCAL)


@pytest.mark.parametrize(
    ("reach", "command"),
    [
        (Reach(False, "192.0.2.7", "me"), "ssh -N -L 8000:127.0.0.1:8000 me@192.0.2.7"),
        (
            Reach(False, "192.0.2.7", "", 2222, "a key", "-o StrictHostKeyChecking=yes"),
            "ssh -o StrictHostKeyChecking=yes -N -L 8000:127.0.0.1:8000 -p 2222 -i 'a key' 192.0.2.7",
        ),
    ],
)
def test_the_tunnel_is_the_way_ansible_goes(reach: Reach, command: str) -> None:
    assert f"    {command}\n" in render("spark-1", record(), reach)


def test_findings_come_last() -> None:
    text = render("spark-1", record(findings=[{"id": "repetition", "message": "the answer repeats itself"}]), LOCAL)
    assert text.endswith("  Findings:\n    - the answer repeats itself")


def test_a_long_answer_is_cut() -> None:
    assert first_lines("one\n\ntwo\nthree", count=2) == ["one", "two", "..."]

# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A benchmark of the pair, which keeps what it has chosen."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests import playbook
from tests.pair import Node


@pytest.fixture(scope="module", autouse=True)
def as_shipped() -> None:
    playbook.succeed("two_sparks")


def test_both_are_measured_on_the_head(head: Node, worker: Node, tmp_path: Path) -> None:
    before = [node.inspect()["Id"] for node in (head, worker)]
    path = tmp_path / "report.json"
    wishes = {
        "yes": True,
        "speculative_benchmark_draft_lengths": ["off", 1],
        "speculative_benchmark_max_tokens": 24,
        "speculative_benchmark_repetitions": 1,
        "speculative_benchmark_html_path": str(tmp_path / "report.html"),
        "speculative_benchmark_json_path": str(path),
    }
    playbook.succeed("benchmark", variables=wishes)
    report = json.loads(path.read_text(encoding="utf-8"))
    assert report["hardware"]["sparks"] == 2
    off, drafts = report["points"]
    assert off["error"] is drafts["error"] is None
    assert drafts["acceptance_length"]["mean"] > 1
    assert drafts["identical"]["same"] == drafts["identical"]["compared"] > 0
    # They are longer than what the recipe's max_num_tokens takes.
    assert {left["prompt"].rpartition("-")[0] for left in report["left_out"]} == {"long-context"}
    assert [node.inspect()["Id"] for node in (head, worker)] == before
    assert head.state["trial"] is None
    assert head.answers()

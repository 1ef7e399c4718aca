# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t
from pathlib import Path

from tests.unit import plays

RECORD: dict[str, t.Any] = {
    "deployed_at": "2026-10-04T09:12:44Z",
    "target_model": "example/target",
    "served_model": "target",
    "method": "eagle3",
    "draft_length": 5,
    "url": "http://127.0.0.1:8000",
    "measurements": {"ttft_s": 0.214, "tokens_per_second": 61.26, "acceptance_length": 2.5},
    "memory_available": 54_200_000_000,
    "answer": {"text": "The distance is 276 km.", "reasoning": None},
    "findings": [],
    "checks": ["The model called a tool."],
    "break_even": {"best": 2.59, "worst": 4.32},
}


def summary(**changes: t.Any) -> dict[str, t.Any]:
    return {"dgx_spark.speculative.report": {"summary": {**RECORD, **changes}}}


def test_a_remote_spark_gets_a_tunnel_and_needs_no_connection(tmp_path: Path) -> None:
    arguments = ["-e", "ansible_host=192.0.2.7", "-e", "ansible_user=me", "-e", "ansible_port=2222"]
    result, printed = plays.registered(tmp_path, summary(), "-c", "ssh", *arguments)
    assert result["changed"] is False
    # Plain lines, as they are to be copied: a debug task would quote them.
    assert "\n" + "\n".join(result["lines"]) + "\n" in printed
    assert result["lines"][0] == "spark-1 serves target with EAGLE-3, draft length 5"
    assert "    ssh -N -L 8000:127.0.0.1:8000 -p 2222 me@192.0.2.7" in result["lines"]
    assert "    - The model called a tool." in result["lines"]
    assert any("break-even 2.59)" in line for line in result["lines"])


def test_a_local_spark_needs_none(tmp_path: Path) -> None:
    printed = plays.registered(tmp_path, summary())[1]
    assert "ssh" not in printed
    assert "  Send a request:" in printed


def test_the_head_speaks_for_its_worker(tmp_path: Path) -> None:
    pair = {"rank": 1, "nodes": ["spark-1", "spark-2"], "rails": []}
    result, printed = plays.registered(tmp_path, summary(cluster=pair))
    assert result["lines"] == []
    assert "serve" not in printed

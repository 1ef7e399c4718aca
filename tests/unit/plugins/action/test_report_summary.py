# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import subprocess
import sys
import typing as t
from pathlib import Path

import pytest

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


def play(directory: Path, task: dict[str, t.Any], *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run one task with the real ansible-playbook, for a host that cannot be reached."""
    name = {"name": "Summarise", "dgx_spark.speculative.report": task, "register": "summarised"}
    show = {
        "name": "Show",
        "ansible.builtin.copy": {"content": "{{ summarised | to_json }}", "dest": f"{directory}/out.json"},
        "delegate_to": "localhost",
        "vars": {"ansible_connection": "local", "ansible_python_interpreter": sys.executable},
    }
    content = {"name": "Play", "hosts": "all", "gather_facts": False, "tasks": [name, show]}
    return plays.run(directory, content, "-c", "ssh", *arguments)


def test_a_remote_spark_gets_a_tunnel_and_needs_no_connection(tmp_path: Path) -> None:
    arguments = ["-e", "ansible_host=192.0.2.7", "-e", "ansible_user=me", "-e", "ansible_port=2222"]
    done = play(tmp_path, {"summary": RECORD}, *arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    result = json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))
    assert result["changed"] is False
    # Plain lines, as they are to be copied: a debug task would quote them.
    assert "\n" + "\n".join(result["lines"]) + "\n" in done.stdout
    assert result["lines"][0] == "spark-1 serves target with EAGLE-3, draft length 5"
    assert "    ssh -N -L 8000:127.0.0.1:8000 -p 2222 me@192.0.2.7" in result["lines"]
    assert "    - The model called a tool." in result["lines"]
    assert any("break-even 2.59)" in line for line in result["lines"])


def test_a_local_spark_needs_none(tmp_path: Path) -> None:
    done = play(tmp_path, {"summary": RECORD}, "-c", "local", "-e", f"ansible_python_interpreter={sys.executable}")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "ssh" not in done.stdout
    assert "  Ask it:" in done.stdout


@pytest.mark.parametrize(
    ("task", "refusal"),
    [
        ({}, "one of the following is required: lines, plans, statuses, summary, preflight, field, reveal"),
        ({"summary": RECORD, "lines": []}, "parameters are mutually exclusive: lines|plans|statuses|summary"),
    ],
)
def test_a_task_tells_one_thing(tmp_path: Path, task: dict[str, t.Any], refusal: str) -> None:
    done = play(tmp_path, task)
    assert done.returncode != 0
    assert refusal in done.stdout + done.stderr


def test_the_head_speaks_for_its_worker(tmp_path: Path) -> None:
    pair = {"rank": 1, "nodes": ["spark-1", "spark-2"], "rails": []}
    done = play(tmp_path, {"summary": {**RECORD, "pair": pair}})
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))["lines"] == []
    assert "serve" not in done.stdout

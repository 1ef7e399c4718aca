# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What happens to a pair that serves: a second run, looks, a power cut, a stop and a start."""

from __future__ import annotations

import json
from pathlib import Path

from tests import playbook
from tests.pair import Node
from tests.twin.control import Internet

pytest_plugins = ["tests.scenario"]


def test_a_second_run_changes_nothing_and_asks_nobody(internet: Internet) -> None:
    outcome = playbook.succeed("two_sparks", "-e", "ansible_become_password=")
    assert outcome.changed == []
    assert internet.counters()["requests"] == []


def test_preflight_compares_the_two_and_sees_what_the_worker_has(internet: Internet) -> None:
    outcome = playbook.succeed("preflight", variables={"recipe": "qwen3_235b_a22b_eagle3"})
    looked = outcome.tasks("ok")
    assert {"Compare the Sparks", "Compare with the copy source", "Determine the deployment"} <= set(looked)
    assert "not seen" not in outcome.output
    assert internet.counters()["requests"] == []


def test_status_tells_of_both(tmp_path: Path) -> None:
    path = tmp_path / "status.json"
    outcome = playbook.succeed("status", variables={"json": str(path)})
    known = json.loads(path.read_text(encoding="utf-8"))
    assert known["spark-1"]["state"] == "ready"
    assert known["spark-2"]["state"] == "rank_runs"
    assert "spark-2 is rank 1 of qwen3_235b_a22b_eagle3; its head is spark-1" in outcome.output


def test_both_come_back_after_a_power_cut_without_ansible(head: Node, worker: Node, internet: Internet) -> None:
    internet.set_faults([{"host": "*", "path": "*", "action": "status", "status": 503}])
    for node in (head, worker):
        node.spark.power_cut()
    head.wait_until_it_answers()
    assert internet.counters()["requests"] == []


def test_stop_and_start_are_for_both(head: Node, worker: Node) -> None:
    playbook.succeed("stop")
    for node in (head, worker):
        assert node.inspect()["State"]["Running"] is False
    playbook.succeed("start", "-e", "ansible_become_password=")
    assert head.answers()

# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The pair is the unit: what happens to one of the two, and what becomes of both."""

from __future__ import annotations

import json
from pathlib import Path

from tests import playbook
from tests.pair import HOME, NAME, Node
from tests.twin.control import Internet

pytest_plugins = ["tests.scenario"]

# Who logs in to which.
NAMES = {"ansible_user": "{{ {'spark-2': 'member'}[inventory_hostname] | default('spark') }}"}
MEMBERS = "/home/member"


def test_both_come_back_after_a_power_cut_without_ansible(head: Node, worker: Node, internet: Internet) -> None:
    internet.set_faults([{"host": "*", "path": "*", "action": "status", "status": 503}])
    for node in (head, worker):
        node.spark.power_cut()
    head.wait_until_it_answers()
    assert internet.counters()["requests"] == []


def test_both_are_measured_on_the_head(head: Node, worker: Node, tmp_path: Path) -> None:
    before = [node.inspect()["Id"] for node in (head, worker)]
    path = tmp_path / "report.json"
    wishes = {
        "yes": True,
        "speculative_benchmark_draft_lengths": ["off", 1],
        "speculative_benchmark_max_tokens": 24,
        "speculative_benchmark_repetitions": 1,
        "speculative_benchmark_html": str(tmp_path / "report.html"),
        "speculative_benchmark_json": str(path),
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


def test_stop_and_start_are_for_both(head: Node, worker: Node) -> None:
    playbook.succeed("stop")
    for node in (head, worker):
        assert node.inspect()["State"]["Running"] is False
    playbook.succeed("start", "-e", "ansible_become_password=")
    assert head.answers()


def test_login_names_may_differ(head: Node, worker: Node, internet: Internet) -> None:
    playbook.succeed("cleanup")
    playbook.succeed("two_sparks", variables=NAMES)
    assert head.answers()
    label = worker.inspect()["Config"]["Labels"]["dgx_spark.speculative.directory"]
    assert label == f"{MEMBERS}/.local/share/dgx-spark-speculative/{NAME}"
    files = worker.spark.mounted()
    places = [f"{files}/options.yml", f"{label}/../pair/authorized_keys", f"{MEMBERS}/.cache/huggingface/hub/models--*"]
    assert set(worker.spark.exec(f"stat -c %U {' '.join(places)}").stdout.split()) == {"member"}
    assert internet.bytes_to(worker.spark.address) == 0


def test_both_are_tidied_away(head: Node, worker: Node) -> None:
    # Each user what is that user's; the network needs sudo.
    playbook.succeed("cleanup", variables={**NAMES, "models": "all", "image": True})
    playbook.succeed("cleanup", variables={"models": "all", "network": True})
    assert worker.spark.exec(f"ls {MEMBERS}/.cache/huggingface/hub | grep models--").stdout == ""
    for node in (head, worker):
        assert node.spark.exec(["test", "-e", HOME]).returncode != 0
        assert node.spark.exec(["docker", "ps", "--all", "--quiet"]).stdout == ""
        # Neither what was made for two nor what that was made from.
        assert node.spark.exec("docker images | grep release").stdout == ""
        assert node.spark.exec("ls /etc/netplan /run/netplan 2>/dev/null | grep dgx-spark-speculative").stdout == ""
        assert node.spark.exec("ls /usr/local/sbin /etc/systemd/system | grep dgx-spark-speculative").stdout == ""
        assert node.spark.exec("ls ~spark/.cache/huggingface/hub | grep models--").stdout == ""
    assert "192.168.100" not in head.spark.exec(["ip", "-4", "addr"]).stdout

# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The plan in a play with two hosts, with the real ansible-playbook."""

from __future__ import annotations

import json
import subprocess
import typing as t
from pathlib import Path

from tests.unit import plays

REPOSITORY = Path(__file__).parents[4]
PORT = {
    "name": "enp1s0f1np1",
    "pci": "0000:01:00.1",
    "port": 1,
    "rdma": "rocep1s0f1",
    "mac": "",
    "up": True,
    "carrier": True,
    "operstate": "up",
    "speed_mbps": 200_000,
    "mtu": 1500,
    "max_mtu": 9978,
    "master": None,
    "addresses": [],
    "netplan_files": [],
    "rdma_state": "ACTIVE",
    "gids": [],
    "manager": "NetworkManager",
    "profile": None,
    "file": None,
}
TWIN = {**PORT, "name": "enP2p1s0f1np1", "pci": "0002:01:00.1", "rdma": "roceP2p1s0f1"}
INFO = {
    "ports": [{"number": 1, "place": "01:00.1", "interfaces": [PORT, TWIN]}],
    "management": [],
    "networks": [{"network": "192.0.2.0/24", "interface": "enP7s7"}],
    "renderer": "NetworkManager",
    "netplan": True,
    "netplan_unreadable": [],
    "own_file": False,
    "trial": None,
    "nccl_conf": None,
}
INPUTS = {
    "mode": "auto",
    "plan": "",
    "interfaces": "",
    "mtu": 9000,
    "renderer": "auto",
    "speed_mbps": 200_000,
    "minimum_speed_mbps": 0,
    "bandwidth_test": "auto",
    "start_on_nic": "auto",
    "keep_nic_on": "auto",
    "close_fabric": "auto",
    "worker_port": 2222,
    "copy_port": 2223,
}


def play(directory: Path, *arguments: str, **inputs: t.Any) -> subprocess.CompletedProcess[str]:
    """The role's own task, with what a look at each host would have found."""
    found = {"name": "Look", "ansible.builtin.set_fact": {"__spark_network_fabric_facts": {"fabric": INFO}}}
    role = (REPOSITORY / "roles/spark_network/tasks/plan.yml").read_text(encoding="utf-8")
    from_hosts = {"hosts": "__spark_network_fabric_facts.fabric"}
    assert "from_hosts: {hosts: __spark_network_fabric_facts.fabric}" in role
    task = {
        "name": "Plan",
        "dgx_spark.speculative.deployment_plan": {"fabric": {"plan": {**INPUTS, **inputs}}, "from_hosts": from_hosts},
        "register": "plan",
    }
    show = {
        "name": "Show",
        "ansible.builtin.copy": {
            "content": "{{ plan | to_json }}",
            "dest": f"{directory}/{{{{ inventory_hostname }}}}.json",
        },
        "check_mode": False,
    }
    content = {
        "name": "Play",
        "hosts": "all",
        "gather_facts": False,
        "vars_files": [str(REPOSITORY / "roles/spark_network/vars/main.yml")],
        "tasks": [found, task, show],
    }
    return plays.run(directory, content, *arguments, hosts="spark-b,spark-a,")


def test_each_host_gets_its_part_and_the_first_is_the_head(tmp_path: Path) -> None:
    done = play(tmp_path, "--check")
    assert done.returncode == 0, done.stdout + done.stderr
    head, worker = (json.loads((tmp_path / f"spark-{name}.json").read_text()) for name in "ba")
    assert (head["rank"], worker["rank"], head["changed"]) == (0, 1, False)
    assert (head["copy_source"], head["copy_target"], worker["copy_source"], worker["copy_target"]) == (
        "",
        "spark-a",
        "spark-b",
        "",
    )
    assert (head["configure"], head["any_configure"]) == (True, True)
    assert [rail["address"] for rail in head["rails"]] == ["192.168.100.10", "192.168.101.10"]
    assert [unit["title"] for unit in head["units"]] == ["NIC watcher", "fabric filter"]
    assert worker["document"]["network"]["ethernets"]["enp1s0f1np1"]["addresses"] == ["192.168.100.11/24"]


def test_a_refusal_is_its_sentences_and_nothing_else(tmp_path: Path) -> None:
    done = play(tmp_path, mode="adopt")
    assert done.returncode != 0
    assert "spark-b and spark-a: spark_network_mode is adopt" in " ".join((done.stdout + done.stderr).split())
    assert "the message of spark-b" in done.stdout
    assert done.stdout.count("of_another") == 1
    assert "Traceback" not in done.stdout + done.stderr


def test_one_host_has_nothing_to_be_joined_with(tmp_path: Path) -> None:
    done = play(tmp_path, "--limit", "spark-b")
    assert done.returncode == 0, done.stdout + done.stderr
    alone = json.loads((tmp_path / "spark-b.json").read_text())
    assert (alone["rails"], alone["copy_source"], alone["copy_target"], alone["any_configure"]) == ([], "", "", False)
    assert alone["units"] == []

# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The pair under two login names, one that is tidied away, and one Spark alone."""

from __future__ import annotations

from tests import playbook
from tests.pair import HOME, NAME, SLOT, Node
from tests.twin.control import Internet

pytest_plugins = ["tests.scenario"]

# Who logs in to which.
NAMES = {"ansible_user": "{{ {'spark-2': 'member'}[inventory_hostname] | default('spark') }}"}
MEMBERS = "/home/member"


def test_login_names_may_differ(head: Node, worker: Node, internet: Internet) -> None:
    playbook.succeed("cleanup")
    playbook.succeed("two_sparks", variables=NAMES)
    assert head.answers()
    label = worker.inspect()["Config"]["Labels"]["dgx_spark.speculative.directory"]
    assert label == f"{MEMBERS}/.local/share/dgx-spark-speculative/{NAME}"
    files = worker.spark.mounted()
    places = [
        f"{files}/options.yml",
        f"{label}/../cluster/authorized_keys",
        f"{MEMBERS}/.cache/huggingface/hub/models--*",
    ]
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


def test_one_spark_goes_on_alone_while_the_other_one_is_off(head: Node, worker: Node) -> None:
    refused = playbook.fail("single_eagle3")
    assert "--limit" in refused.message
    worker.spark.switch_off()
    try:
        playbook.succeed("single_eagle3", "--limit", "spark-1")
        slot = head.spark.exec(["docker", "inspect", "--format", "{{json .Config.Labels}}", SLOT]).stdout
        assert "single_eagle3" in slot
    finally:
        worker.spark.switch_on()
    assert "spark-2" in playbook.run("status").output

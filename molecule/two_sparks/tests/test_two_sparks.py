# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What two bare Sparks are after the shipped playbook: one server."""

from __future__ import annotations

import json

import pytest

from tests import slot
from tests.pair import DEPLOYMENT, HOME, SLOT, Node
from tests.twin import cables
from tests.twin.control import Internet
from tests.twin.names import STATE, spark_address

HUB = "/home/spark/.cache/huggingface/hub"
NETPLAN = "/etc/netplan/40-dgx-spark-speculative.yaml"
NETWORK = ("NCCL_SOCKET_IFNAME", "NCCL_IB_HCA", "UCX_NET_DEVICES", "OMPI_MCA_btl_tcp_if_include")


def test_it_answers_and_drafts_are_accepted(head: Node) -> None:
    assert head.answers()
    assert 1.2 < head.json("record.json")["measurements"]["acceptance_length"] <= 4


def test_a_prompt_that_one_pass_does_not_hold_is_answered(head: Node) -> None:
    answer = json.loads(head.complete(" ".join(["sky"] * 1500)))
    assert answer["usage"]["prompt_tokens"] >= 1500
    assert answer["choices"][0]["text"]


def test_it_was_told_that_it_fits_how_the_copy_got_on_and_what_serves() -> None:
    told = (STATE / "two_sparks.log").read_text(encoding="utf-8").rpartition("PLAY [Begin with two bare Sparks]")[2]
    assert "Fits with" in told
    assert "to spark-2:" in told
    assert "spark-1 and spark-2 serve Qwen3-235B-A22B-FP4 with EAGLE-3, draft length 3" in told


def test_everything_came_over_the_head() -> None:
    internet = Internet()
    assert internet.bytes_to(spark_address(2)) == 0
    assert internet.bytes_to(spark_address(1), "nvcr.io") > 0


def test_both_ranks_have_the_settings_of_the_fabric(head: Node) -> None:
    report = head.json("state/ranks.json")
    assert report["differences"] == []
    assert [rank["host"] for rank in report["ranks"]] == ["spark-1", "spark-2"]
    for rank in report["ranks"]:
        for name in NETWORK:
            assert rank["environment"][name], (rank["host"], name)
    recorded = head.json("record.json")["cluster"]["ranks"]
    # What they said before the start, and the network that their NCCL then said it uses.
    assert all(rank.pop("network")["rdma"] for rank in recorded)
    assert recorded == report["ranks"]


def test_only_the_spark_that_takes_logins_can_do_what_they_need(head: Node, worker: Node) -> None:
    assert slot.capabilities(head.spark) == slot.FILES | slot.FABRIC
    assert slot.capabilities(worker.spark) == slot.FILES | slot.FABRIC | slot.LOGIN


@pytest.mark.parametrize("number", [1, 2])
def test_each_spark_has_one_netplan_file_of_ours(number: int) -> None:
    spark = Node(number).spark
    assert spark.exec(["stat", "-c", "%a %U", NETPLAN]).stdout.split() == ["600", "root"]
    for rail, peer in enumerate(("192.168.100", "192.168.101")):
        interface = cables.interface(rail=rail)
        assert f"{peer}.{9 + number}/24" in spark.exec(["ip", "-4", "addr", "show", interface]).stdout
        ping = ["ping", "-c", "1", "-M", "do", "-s", "8972", "-I", interface, f"{peer}.{12 - number}"]
        assert spark.exec(ping).returncode == 0


def test_each_spark_starts_its_half_when_the_network_card_comes_late(head: Node, worker: Node) -> None:
    unit = "dgx-spark-speculative-nic.path"
    for node in (head, worker):
        states = node.spark.exec(f"systemctl is-enabled {unit}; systemctl is-active {unit}").stdout
        assert states.split() == ["enabled", "active"]
        assert node.spark.exec(["/usr/local/sbin/dgx-spark-speculative-nic"]).returncode == 0


def test_each_spark_closes_the_fabric_to_other_networks(head: Node, worker: Node) -> None:
    unit = "dgx-spark-speculative-fabric.service"
    for node in (head, worker):
        states = node.spark.exec(f"systemctl is-enabled {unit}; systemctl is-active {unit}").stdout
        assert states.split() == ["enabled", "active"]


def test_only_the_worker_lets_the_other_in_and_only_on_the_fabric(head: Node, worker: Node) -> None:
    listening = {
        node: node.spark.exec("ss -Hltn | awk '{print $4}' | grep -E ':(2233|2234|8355)$'").stdout.split()
        for node in (head, worker)
    }
    assert listening[worker] == ["192.168.100.11:2233"]
    assert listening[head] == ["127.0.0.1:8355"]


@pytest.mark.parametrize(
    ("number", "path", "mode"),
    [
        (1, f"{HOME}/cluster", "700"),
        (1, f"{HOME}/cluster/id_ed25519", "600"),
        (1, f"{HOME}/cluster/known_hosts", "600"),
        (2, f"{HOME}/cluster/ssh_host_ed25519_key", "600"),
        (2, f"{HOME}/cluster/authorized_keys", "600"),
        *((number, f"{DEPLOYMENT}/generations/*/options.yml", "644") for number in (1, 2)),
    ],
)
def test_files_belong_to_the_login_user(number: int, path: str, mode: str) -> None:
    assert Node(number).spark.exec(f"stat -c '%a %U' {path}").stdout.split() == [mode, "spark"]


def test_the_users_own_keys_stay_out_of_it(head: Node, worker: Node) -> None:
    for node in (head, worker):
        assert not [mount for mount in node.inspect()["Mounts"] if ".ssh" in mount["Source"]]
        assert node.spark.exec("ls ~spark/.ssh").stdout.split() == ["authorized_keys"]
    private = head.spark.read_file(f"{HOME}/cluster/id_ed25519")
    assert private not in worker.spark.exec(f"cat {HOME}/cluster/*").stdout
    assert "from=" in worker.spark.read_file(f"{HOME}/cluster/authorized_keys")


def test_a_login_as_the_head_opens_nothing_but_the_ranks(head: Node) -> None:
    command = [
        "docker",
        "exec",
        SLOT,
        "ssh",
        "-F",
        "/run/dgx-spark-cluster/ssh_config",
        "192.168.100.11",
        "cat /etc/passwd",
    ]
    refused = head.spark.exec(command)
    assert refused.returncode != 0
    assert "root:" not in refused.stdout


def test_both_sparks_hold_the_same(head: Node, worker: Node) -> None:
    def held(node: Node) -> str:
        return node.spark.exec(
            f"cd {HUB} && find models--* -type f -not -path '*/.locks/*' -exec sha256sum {{}} + | sort -k2;"
            " find models--* -type l -printf '%p %l\\n' | sort;"
            " find models--* -printf '%U %p\\n' | grep -v '^1000' "
        ).stdout

    assert held(head) == held(worker) != ""
    layers, commits = [], []
    for node in (head, worker):
        image = node.inspect()["Config"]["Image"]
        layers.append(node.spark.exec(["docker", "image", "inspect", "--format", "{{json .RootFS}}", image]).stdout)
        commits.append({name: model["commit"] for name, model in node.json("record.json")["models"].items()})
    assert layers[0] == layers[1] != ""
    assert commits[0] == commits[1] != {}

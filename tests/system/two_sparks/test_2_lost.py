# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The pair is the unit: what goes wrong with one of the two, and what becomes of both."""

from __future__ import annotations

import json
import typing as t
from pathlib import Path

import pytest

from tests import playbook
from tests.pair import HOME, NAME, SLOT, Node
from tests.twin import cables
from tests.twin.control import Internet

pytest_plugins = ["tests.scenario"]

HUB = "/home/spark/.cache/huggingface/hub"
TARGET = f"{HUB}/models--nvidia--Qwen3-235B-A22B-FP4"
# How soon a lost worker and an engine that hangs are taken for what they are.
QUICK = {
    "speculative_serve_probe_interval_s": 2,
    "speculative_serve_stall_timeout_s": 8,
    "speculative_serve_worker_timeout_s": 6,
}


def test_another_configuration_goes_to_both_and_a_lost_link_costs_the_copy_what_was_in_flight(
    head: Node, worker: Node, internet: Internet, tmp_path: Path
) -> None:
    before = [node.inspect()["Id"] for node in (head, worker)]
    worker.spark.exec(["rm", "-rf", TARGET])
    wishes = json.dumps({**QUICK, "speculative_serve_draft_length": 2})
    with cables.changed(mbit=100):
        run = playbook.Background(tmp_path / "log", "two_sparks", "-e", wishes)
        begun = f"find {HUB} -name '*.incomplete' -size +500k | grep -q ."
        run.wait_for(lambda: worker.spark.exec(begun).returncode == 0)
        cables.unplug()
        cables.plug()
    assert run.process.wait(timeout=240) == 0, run.log.read_text(encoding="utf-8")
    assert worker.spark.exec(f"find {HUB} -name '*.incomplete'").stdout == ""
    assert internet.bytes_to(worker.spark.address) == 0
    after = [node.inspect()["Id"] for node in (head, worker)]
    assert not set(before) & set(after), "one of the two was left as it was"
    assert head.json("record.json")["draft_length"] == 2
    options = [node.spark.read_file(f"{node.spark.mounted()}/options.yml") for node in (head, worker)]
    assert options[0] == options[1]


def test_a_killed_rank_comes_back(head: Node, worker: Node) -> None:
    worker.spark.exec("pkill -9 -f mgmn_worker_node")
    head.wait_until(lambda: head.state["state"] != "running")
    head.wait_until_it_answers()
    worker.wait_until(lambda: worker.state["state"] == "rank_runs")


def test_a_killed_head_comes_back(head: Node, worker: Node) -> None:
    kept = worker.inspect()["State"]["StartedAt"]
    container = head.inspect()
    head.spark.exec(["kill", "-9", str(container["State"]["Pid"])])
    head.wait_until(lambda: head.inspect()["RestartCount"] > container["RestartCount"])
    head.wait_until_it_answers()
    # The worker's container has let it in again.
    worker.wait_until(lambda: worker.state["state"] == "rank_runs")
    assert worker.inspect()["State"]["StartedAt"] == kept


def test_a_cable_that_is_out_while_it_serves_is_told_and_survived(head: Node, tmp_path: Path) -> None:
    path = tmp_path / "status.json"
    with cables.changed(rails=()):
        head.wait_until(lambda: head.state["state"] in ("peer lost", "waiting for the worker"))
        assert head.health == 1
        playbook.succeed("status", variables={"json": str(path)})
        # First lost, then waited for.
        assert json.loads(path.read_text(encoding="utf-8"))["spark-1"]["state"] in ("unhealthy", "waiting")
        assert head.state["restarts"] <= 1
    head.wait_until_it_answers()
    # The watchdog's word comes with its next look.
    head.wait_until(lambda: head.health == 0)


def test_a_worker_that_loses_power_while_it_serves_comes_back_with_the_head(head: Node, worker: Node) -> None:
    worker.spark.power_cut()
    head.wait_until(lambda: head.state["state"] != "running")
    head.wait_until_it_answers()
    worker.wait_until(lambda: worker.state["state"] == "rank_runs")


def test_an_engine_that_hangs_is_started_again_once_with_the_evidence(head: Node) -> None:
    before = head.state["restarts"]
    with head.spark.fault(hang_after_requests=0):
        head.wait_until(lambda: head.state["restarts"] > before)
    head.wait_until_it_answers()
    evidence = head.spark.read_file(f"{HOME}/{NAME}/state/stalled.log")
    assert "no token came" in evidence
    assert head.state["last_exit"]["by"] == "watchdog"


def test_a_worker_that_is_not_there_is_told_soon(head: Node, worker: Node) -> None:
    playbook.succeed("stop")
    told = playbook.fail("start", "--limit", "spark-1").message
    assert "192.168.100.11 port 2233" in told
    worker.spark.exec(["docker", "rename", SLOT, "aside"])
    try:
        told = " ".join(playbook.fail("start").output.split())
    finally:
        worker.spark.exec(["docker", "rename", "aside", SLOT])
    assert "spark-2: nothing is deployed here." in told
    assert "because spark-2 could not be started" in told
    playbook.succeed("start")
    assert head.answers()


@pytest.fixture
def give_back(worker: Node) -> t.Iterator[t.Callable[[int], None]]:
    """The worker is stopped and has lost its addresses on the cable; this gives it that of one rail back."""
    rails = [(f"192.168.{100 + rail}.11/24", f"dev {cables.interface(rail=rail)}") for rail in cables.RAILS]
    worker.spark.exec(["docker", "stop", SLOT])
    for address, interface in rails:
        assert worker.spark.exec(f"ip address del {address} {interface}").returncode == 0

    def give(rail: int) -> None:
        address, interface = rails[rail]
        worker.spark.exec(f"ip address replace {address} {interface}")

    yield give
    for rail in cables.RAILS:
        give(rail)


def test_addresses_that_are_gone_when_it_starts_are_told_and_waited_for(
    head: Node, worker: Node, give_back: t.Callable[[int], None], tmp_path: Path
) -> None:
    before = [node.inspect()["Id"] for node in (head, worker)], head.state["restarts"]
    interfaces = " and ".join(cables.interface(rail=rail) for rail in cables.RAILS)
    told = playbook.fail("start").message
    assert told.startswith(f"spark-2 no longer has 192.168.100.11 and 192.168.101.11 on {interfaces}")
    assert "'sudo netplan apply'" in told
    # As long as it takes, without a start in vain.
    head.wait_until(lambda: head.state["state"] in ("peer lost", "waiting for the worker"))
    assert worker.state["state"] == "waiting for the fabric"
    path = tmp_path / "status.json"
    playbook.succeed("status", variables={"json": str(path)})
    why = json.loads(path.read_text(encoding="utf-8"))["spark-2"]["reason"]
    assert "192.168.100.11" in why
    # Of two rails NCCL takes both.
    give_back(0)
    worker.wait_until(lambda: "192.168.101.11" in (worker.state["reason"] or ""))
    give_back(1)
    head.wait_until_it_answers()
    assert ([node.inspect()["Id"] for node in (head, worker)], head.state["restarts"]) == before


def test_a_worker_that_starts_before_its_rdma_devices_gets_them(head: Node, worker: Node, tmp_path: Path) -> None:
    nodes, before = "/dev/infiniband/uverbs*", worker.inspect()
    # As when the network card comes back on the bus a moment after Docker: only the connection manager's node is there.
    worker.spark.exec(f"mkdir /run/later && mv {nodes} /run/later && docker restart -t 5 {SLOT}")
    assert worker.spark.exec(["docker", "exec", SLOT, "ls", "/dev/infiniband"]).stdout.split() == ["rdma_cm"]
    worker.spark.exec("mv /run/later/* /dev/infiniband && rmdir /run/later")
    worker.wait_until(lambda: worker.inspect()["RestartCount"] > before["RestartCount"])
    head.wait_until_it_answers()
    path = tmp_path / "status.json"
    playbook.succeed("status", variables={"json": str(path)})
    status = json.loads(path.read_text(encoding="utf-8"))
    assert status["spark-1"]["cluster"]["rdma"] == "rocep1s0f1 and roceP2p1s0f1"
    assert [len(rank["rdma_nodes"]) for rank in head.json("state/ranks.json")["ranks"]] == [4, 4]

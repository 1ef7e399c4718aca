# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Two real ranks of vLLM: what listens where, and what becomes of both when one is lost."""

from __future__ import annotations

import json
from pathlib import Path

from tests import playbook
from tests.first_light import Rank, variables
from tests.pair import HOME, SLOT
from tests.twin import cables

FABRIC = {1: ("192.168.100.10", "192.168.101.10"), 2: ("192.168.100.11", "192.168.101.11")}
# Less than a rank needs to load, and more than one that is told.
AT_ONCE_S = 30.0


def run(node: Rank) -> set[int]:
    """The processes of the engine on a Spark."""
    return set(node.processes())


def wait_until_both_serve(head: Rank, worker: Rank) -> None:
    head.wait_until_it_runs()
    worker.wait_until(lambda: worker.state["state"] == "rank_runs")


def test_both_ranks_serve_and_a_second_run_changes_nothing(head: Rank, worker: Rank) -> None:
    wait_until_both_serve(head, worker)
    ranks = head.json("state/ranks.json")
    assert [rank["rank"] for rank in ranks["ranks"]] == [0, 1]
    assert ranks["differences"] == []
    assert {rank["versions"]["vLLM"] for rank in ranks["ranks"]} == {"0.32.0+cpu"}
    # The model's halves: the worker computes, too.
    assert any("Worker_TP1" in line for line in worker.spark.exec(["docker", "logs", SLOT]).stdout.splitlines())
    assert playbook.succeed("serve", variables=variables(head.name)).changed == []


def test_all_that_the_ranks_open_is_on_the_fabric(head: Rank, worker: Rank) -> None:
    for number, node in enumerate((head, worker), 1):
        pids = {f"pid={pid}," for pid in run(node) | {node.inspect()["State"]["Pid"]}}
        lines = node.spark.exec("ss -Hltnp").stdout.splitlines()
        own = [line.split()[3].rpartition(":") for line in lines if any(pid in line for pid in pids)]
        others = {(address, port) for address, _, port in own if address not in (*FABRIC[number], "127.0.0.1", "[::1]")}
        assert others == set(), lines
        assert own


def test_a_killed_rank_takes_both_down_and_both_come_back(head: Rank, worker: Rank) -> None:
    before = head.state["restarts"]
    ranks = run(head)
    worker.spark.exec("pkill -9 VLLM::Worker")
    head.wait_until(lambda: head.state["state"] != "running", AT_ONCE_S)
    assert "[ranks] the rank on the worker 192.168.100.11 has ended: " in head.state["last_exit"]["reason"]
    head.wait_until(lambda: not ranks & run(head), AT_ONCE_S)
    wait_until_both_serve(head, worker)
    assert head.state["restarts"] == before + 1


def test_an_engine_that_dies_with_status_0_takes_the_workers_rank_with_it(head: Rank, worker: Rank) -> None:
    ranks = run(worker)
    head.spark.exec("pkill -9 VLLM::EngineCor")
    worker.wait_until(lambda: not ranks & run(worker), AT_ONCE_S)
    wait_until_both_serve(head, worker)


def test_a_paused_rank_is_found_by_the_watchdog(head: Rank, worker: Rank) -> None:
    """Its health check answers all the time, and nothing is generated."""
    before = head.state["restarts"]
    worker.spark.exec("pkill -STOP VLLM::Worker")
    head.wait_until(lambda: head.state["restarts"] > before)
    assert head.state["last_exit"]["by"] == "watchdog"
    wait_until_both_serve(head, worker)


def test_a_cable_that_is_out_is_told_and_survived(head: Rank, worker: Rank, tmp_path: Path) -> None:
    path, ranks = tmp_path / "status.json", run(worker)
    with cables.changed(rails=()):
        head.wait_until(lambda: head.state["state"] in ("peer lost", "waiting for the worker"))
        # Neither rank waits for the other one.
        worker.wait_until(lambda: not ranks & run(worker))
        playbook.succeed("status", variables={"json": str(path)})
        assert json.loads(path.read_text(encoding="utf-8"))["spark-1"]["state"] in ("unhealthy", "waiting")
    wait_until_both_serve(head, worker)


def test_a_worker_that_loses_power_comes_back_with_the_head(head: Rank, worker: Rank) -> None:
    worker.spark.power_cut()
    head.wait_until(lambda: head.state["state"] != "running")
    wait_until_both_serve(head, worker)


def test_both_lose_power_and_serve_again(head: Rank, worker: Rank) -> None:
    for node in (head, worker):
        node.spark.power_cut()
    wait_until_both_serve(head, worker)


def test_stop_leaves_nothing_and_start_brings_both_back(head: Rank, worker: Rank) -> None:
    playbook.succeed("stop")
    assert [run(node) for node in (head, worker)] == [set(), set()]
    playbook.succeed("start")
    wait_until_both_serve(head, worker)


def test_what_one_rank_logs_is_in_the_heads_log(head: Rank) -> None:
    assert "[rank 1] " in head.spark.read_file(f"{HOME}/{head.name}/state/server.log")

# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Four real ranks of vLLM on a switch, each with a quarter of the model."""

from __future__ import annotations

import functools

from tests.first_light import LOADED_WITHIN_S, Rank
from tests.pair import SLOT


def serves(node: Rank) -> bool:
    return str(node.state["state"]) == "rank_runs"


def has_ended(node: Rank, ranks: set[int]) -> bool:
    return not ranks & set(node.processes())


def wait_until_all_serve(nodes: list[Rank]) -> None:
    head, *workers = nodes
    head.wait_until_it_runs()
    for worker in workers:
        worker.wait_until(functools.partial(serves, worker))


def test_each_spark_computes_a_quarter(nodes: list[Rank]) -> None:
    wait_until_all_serve(nodes)
    report = nodes[0].json("state/ranks.json")
    assert [rank["rank"] for rank in report["ranks"]] == [0, 1, 2, 3]
    assert report["differences"] == []
    for number, node in enumerate(nodes):
        assert f"Worker_TP{number}" in node.spark.exec(f"docker logs {SLOT} 2>&1").stdout


def test_a_killed_rank_takes_all_down_and_all_come_back(nodes: list[Rank]) -> None:
    before = [set(node.processes()) for node in nodes]
    assert all(before)
    nodes[2].spark.exec("pkill -9 VLLM::Worker")
    for node, ranks in zip(nodes, before):
        node.wait_until(functools.partial(has_ended, node, ranks), LOADED_WITHIN_S)
    wait_until_all_serve(nodes)
    reason = nodes[0].state["last_exit"]["reason"]
    assert reason.startswith("[ranks] the rank on the worker 192.168.100.12 has ended: ")

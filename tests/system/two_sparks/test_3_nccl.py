# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""RDMA between the ranks is proven by NCCL's own log, and not by what the Sparks have."""

from __future__ import annotations

import json
import typing as t
from pathlib import Path

import pytest

from tests import playbook
from tests.pair import DEPLOYMENT, SLOT, Node

DEVICES = ["rocep1s0f1", "roceP2p1s0f1"]
INTERFACES = ["enp1s0f1np1", "enP2p1s0f1np1"]
STATE = f"{DEPLOYMENT}/state"
# Devices that are there and that NCCL is to leave alone: nothing that a comparison of names before the start shows.
WRONG = "^roce"


@pytest.fixture(scope="module", autouse=True)
def as_shipped() -> t.Iterator[None]:
    playbook.succeed("two_sparks")
    yield
    playbook.succeed("two_sparks")


def words(text: str) -> str:
    return " ".join(text.split())


def status(path: Path) -> tuple[dict[str, t.Any], str]:
    """What status.yml writes down of each Spark, and what it prints."""
    text = playbook.succeed("status", variables={"json": str(path)}).output
    return json.loads(path.read_text(encoding="utf-8")), words(text)


def logs(node: Node) -> list[str]:
    return node.spark.exec(f"ls {STATE} | grep ^nccl").stdout.split()


def test_rdma_is_what_the_nccl_of_every_rank_says(head: Node, worker: Node, tmp_path: Path) -> None:
    found, text = status(tmp_path / "status.json")
    for name in ("spark-1", "spark-2"):
        network = found[name]["cluster"]["nccl"]
        assert (network["name"], network["rdma"], network["devices"], network["missing"]) == ("IB", True, DEVICES, [])
        assert "pair_by_tcp" not in [row["id"] for row in found[name]["findings"]]
    assert text.count(f"NCCL uses RDMA (IB) over {' and '.join(DEVICES)}") == 2
    # A run that changes nothing says so as well.
    assert "RDMA through the cable by NCCL's own log" in words(playbook.succeed("two_sparks").output)
    assert all("nccl.spark-" in name for node in (head, worker) for name in logs(node))


def test_another_start_leaves_no_files_of_the_one_before(head: Node, worker: Node) -> None:
    before = [logs(node) for node in (head, worker)]
    assert [len(names) for names in before] == [1, 1]
    head.spark.exec(f"docker restart -t 5 {SLOT}")
    head.wait_until(lambda: head.state["state"] == "loading")
    head.wait_until_it_answers()
    after = [logs(node) for node in (head, worker)]
    assert [len(names) for names in after] == [1, 1]


def test_a_log_that_is_gone_is_no_proof(head: Node, tmp_path: Path) -> None:
    head.spark.exec(f"rm {STATE}/nccl.*")
    found, text = status(tmp_path / "status.json")
    assert found["spark-1"]["cluster"]["nccl"] is None
    for shown in (text, words(playbook.succeed("two_sparks").output)):
        assert "not known whether NCCL uses " in shown


@pytest.mark.parametrize(
    ("environment", "why"),
    [
        ({"NCCL_IB_HCA": WRONG}, f"no active RDMA device matches NCCL_IB_HCA={WRONG}"),
        ({"NCCL_IB_DISABLE": "1"}, "NCCL_IB_DISABLE is set to 1"),
    ],
    ids=["wrong-hca", "sockets"],
)
def test_sockets_are_found_with_the_reason(environment: dict[str, str], why: str, tmp_path: Path) -> None:
    text = words(playbook.succeed("two_sparks", variables={"speculative_serve_environment": environment}).output)
    told = f"uses Socket over {' and '.join(INTERFACES)} and not RDMA"
    assert f"NCCL of spark-1 and spark-2 {told}" in text
    assert "by NCCL's own log" not in text
    found, text = status(tmp_path / "status.json")
    for name in ("spark-1", "spark-2"):
        network = found[name]["cluster"]["nccl"]
        assert (network["name"], network["rdma"], network["devices"]) == ("Socket", False, INTERFACES)
        assert [row["id"] for row in found[name]["findings"]].count("pair_by_tcp") == 1
    assert text.count(f"NCCL {told}: {why}") == 2
    assert f"NCCL {told}: {why}" in words(playbook.run("diagnose").output)

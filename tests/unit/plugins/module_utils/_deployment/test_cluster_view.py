# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import dataclasses
import socket
import typing as t
from pathlib import Path

import pytest
from ansible_collections.dgx_spark.speculative.plugins.module_utils._deployment import cluster_view

LABELS = {"dgx_spark.speculative.deployment": "big", "dgx_spark.speculative.rank": "1"}
ROW = {
    "interface": "enp1s0f1np1",
    "rdma": "rocep1s0f1",
    "address": "192.168.100.11",
    "peer_address": "192.168.100.10",
    "subnet": "192.168.100.0/24",
    "mtu": 9000,
    "speed_mbps": 200_000,
}
RECORD: dict[str, t.Any] = {"cluster": {"rank": 1, "nodes": ["spark-1", "spark-2"], "rails": [ROW]}}
ENVIRONMENT = {
    "DGX_SPARK_FABRIC_ADDRESSES": "192.168.100.11, 192.168.101.11",
    "DGX_SPARK_PEER_ADDRESSES": "192.168.100.10,192.168.101.10",
    "NCCL_SOCKET_IFNAME": "enp1s0f1np1,enP2p1s0f1np1",
    "DGX_SPARK_WORKER_PORT": "2244",
}
RAIL = cluster_view.Rail("enp1s0f1np1", "192.168.100.11", "192.168.100.10", "192.168.100.0/24", 9000, 200_000)


def test_the_record_tells_who_is_who() -> None:
    pair = cluster_view.cluster_of(LABELS, {}, RECORD)
    assert pair == cluster_view.ClusterView(1, (RAIL,), nodes=("spark-1", "spark-2"))
    assert (pair.role, pair.peer, pair.peer_address) == ("worker", "spark-1", "192.168.100.10")


def test_without_a_record_the_container_tells() -> None:
    pair = cluster_view.cluster_of(LABELS, ENVIRONMENT, None)
    assert pair
    assert [(rail.interface, rail.address, rail.peer_address) for rail in pair.rails] == [
        ("enp1s0f1np1", "192.168.100.11", "192.168.100.10"),
        ("enP2p1s0f1np1", "192.168.101.11", "192.168.101.10"),
    ]
    assert (pair.peer, pair.worker_port) == ("192.168.100.10", 2244)
    prefix = cluster_view.cluster_of(LABELS, {**ENVIRONMENT, "NCCL_SOCKET_IFNAME": "=enp1,enP2"}, None)
    assert prefix
    assert [rail.interface for rail in prefix.rails] == [None, None]


NODES = ["spark-1", "spark-2", "spark-3", "spark-4"]


def of_four(rank: int) -> cluster_view.ClusterView:
    """As a Spark of four sees it, from its record and its container."""
    own = [f"192.168.{third}.{10 + rank}" for third in (100, 101)]
    others = [f"192.168.{third}.{10 + other}" for third in (100, 101) for other in range(4) if other != rank]
    environment = {"DGX_SPARK_FABRIC_ADDRESSES": ",".join(own), "DGX_SPARK_PEER_ADDRESSES": ",".join(others)}
    record = {"cluster": {"rank": rank, "nodes": NODES, "rails": []}}
    found = cluster_view.cluster_of({**LABELS, "dgx_spark.speculative.rank": str(rank)}, environment, record)
    assert found
    return found


def test_of_four_the_head_needs_all_and_each_worker_the_head() -> None:
    head, last = of_four(0), of_four(3)
    assert (head.role, head.peer, head.worst_peer) == (
        "head",
        "spark-2, spark-3 and spark-4",
        "one of spark-2, spark-3 and spark-4",
    )
    assert head.peer_addresses == ("192.168.100.11", "192.168.100.12", "192.168.100.13")
    assert head.rails[1].peer_address == "192.168.101.11"
    assert (last.role, last.rank, last.peer, last.worst_peer) == ("worker", 3, "spark-1", "spark-1")
    assert last.peer_addresses == ("192.168.100.10",)


def test_of_several_the_one_that_does_worst_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = dict.fromkeys(of_four(0).peer_addresses, cluster_view.OPEN)
    monkeypatch.setattr(cluster_view, "_ask", lambda _pair, address, _timeout: answers[address])
    assert cluster_view.probe_peer(of_four(0)) == cluster_view.OPEN
    for last, answer in (("192.168.100.13", cluster_view.REFUSED), ("192.168.100.12", cluster_view.SILENT)):
        answers[last] = answer
        assert cluster_view.probe_peer(of_four(0)) == answer


@pytest.mark.parametrize(
    ("labels", "record", "rank"),
    [
        ({}, None, None),
        ({}, {"cluster": {}}, None),
        ({}, RECORD, 1),
        # What is in the slot now is one Spark's.
        ({"dgx_spark.speculative.deployment": "small"}, RECORD, None),
        ({"dgx_spark.speculative.rank": "0"}, None, 0),
        ({"dgx_spark.speculative.rank": "7"}, RECORD, None),
        ({"dgx_spark.speculative.rank": "1"}, {"cluster": {"rails": ["x", {"address": 3}]}}, 1),
        ({"dgx_spark.speculative.rank": "1"}, {"cluster": "x"}, 1),
        ({}, {"cluster": {"rank": True}}, None),
    ],
)
def test_which_half_it_is(labels: dict[str, str], record: t.Any, rank: int | None) -> None:
    pair = cluster_view.cluster_of(labels, {}, record)
    assert (pair.rank if pair else None) == rank


def interface(root: Path, **files: t.Any) -> Path:
    place = root / "sys/class/net/enp1s0f1np1"
    place.mkdir(parents=True)
    for name, content in files.items():
        (place / name).write_text(f"{content}\n")
    return root


def test_the_kernel_is_asked_how_the_link_is(tmp_path: Path) -> None:
    here = dataclasses.replace(RAIL, address="127.0.0.1")
    root = interface(tmp_path, carrier=1, operstate="up", mtu=1500, speed=100000)
    assert cluster_view.read_rail(here, root) == cluster_view.Link(True, True, 1500, 100_000)


@pytest.mark.parametrize(
    ("files", "up"),
    [({"carrier": 0, "operstate": "down"}, False), ({"operstate": "down"}, False), ({"mtu": 9000}, None)],
)
def test_a_link_that_is_down(tmp_path: Path, files: dict[str, t.Any], up: bool | None) -> None:
    assert cluster_view.read_rail(RAIL, interface(tmp_path, speed=-1, **files)).up is up


def test_an_interface_that_is_gone(tmp_path: Path) -> None:
    # Reserved for documentation: no machine has it.
    gone = dataclasses.replace(RAIL, address="192.0.2.77")
    assert cluster_view.read_rail(gone, tmp_path) == cluster_view.Link(up=False, address_here=False)
    assert cluster_view.read_rail(dataclasses.replace(gone, interface=None), tmp_path).up is None


def test_whether_the_other_one_answers() -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        port = server.getsockname()[1]
        rail = cluster_view.Rail(None, "127.0.0.1", "127.0.0.1")
        pair = cluster_view.ClusterView(0, (rail,), port)
        assert cluster_view.probe_peer(pair) == "refused"
        server.listen()
        assert cluster_view.probe_peer(pair) == "open"
        for link in (cluster_view.Link(up=False), cluster_view.Link(address_here=False)):
            assert cluster_view.probe_peer(pair, link) == "silent"
        # By the way round it is found, but not on the cable.
        away = cluster_view.Rail(None, "192.0.2.77", "127.0.0.1")
        assert cluster_view.probe_peer(cluster_view.ClusterView(0, (away,), port)) == "silent"
    assert cluster_view.probe_peer(cluster_view.ClusterView(0, ())) is None


def test_one_that_does_not_answer() -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen(0)
        rail = cluster_view.Rail(None, "127.0.0.1", "127.0.0.1")
        pair = cluster_view.ClusterView(0, (rail,), server.getsockname()[1])
        # A full queue takes nobody any more.
        waiting = [socket.socket() for _number in range(4)]
        for one in waiting:
            one.setblocking(False)
            one.connect_ex(server.getsockname())
        assert cluster_view.probe_peer(pair, timeout=0.3) == "silent"
        for one in waiting:
            one.close()


@pytest.mark.parametrize(
    ("subnets", "shared"),
    [
        (["192.168.100.0/24", "192.168.101.0/24"], None),
        (["192.168.200.0/24", "192.168.200.0/24"], "192.168.200.0/24"),
        (["10.0.0.0/8", "10.1.0.0/16"], "10.1.0.0/16"),
        ([None, "x"], None),
    ],
)
def test_twins_in_one_network(subnets: list[str | None], shared: str | None) -> None:
    assert cluster_view.one_subnet([dataclasses.replace(RAIL, subnet=subnet) for subnet in subnets]) == shared


@pytest.mark.parametrize(
    ("link", "words"),
    [
        (cluster_view.Link(True, True, 9000, 200_000), ""),
        (cluster_view.Link(), ""),
        (cluster_view.Link(False, False, 9000), ": the link is down, the address is gone"),
        (cluster_view.Link(True, True, 1500, 100_000), ": its MTU is 1500 now, it runs at 100 Gb/s now"),
    ],
)
def test_a_rail_in_words(link: cluster_view.Link, words: str) -> None:
    text = "enp1s0f1np1 192.168.100.11 - 192.168.100.10, 200 Gb/s, MTU 9000"
    assert cluster_view.describe_rail(RAIL, link) == text + words
    assert cluster_view.describe_rail(cluster_view.Rail(None, "10.0.0.1", None)) == "10.0.0.1"


def test_a_rail_of_four_leads_to_all_others() -> None:
    told = cluster_view.describe_rail(RAIL, None, 4)
    assert told == "enp1s0f1np1 192.168.100.11 in 192.168.100.0/24, with 3 others, 200 Gb/s, MTU 9000"


def test_of_several_the_one_that_is_not_reached_is_told_of() -> None:
    peers = [{"reachable": True}, {"reachable": False, "since": 5.0}, {"reachable": True}]
    assert cluster_view.last_seen({"peers": peers}) == peers[1]
    assert cluster_view.last_seen({"peers": peers[:1]}) == peers[0]
    assert cluster_view.last_seen({"peers": []}) is None


def test_what_the_ranks_said() -> None:
    differences = [{"message": "a", "severity": "error"}, {"message": "b", "severity": "warning"}, "x", {}]
    data = {"ranks": [{"cores": 20}, "x"], "differences": differences}
    assert [cluster_view.cores(rank) for rank in cluster_view.ranks_of(data)] == [20]
    assert cluster_view.differences_of(data, "error") == ["a"]
    assert cluster_view.differences_of(data, "warning") == ["b"]
    nothings: tuple[t.Any, ...] = (None, [], {}, {"ranks": 1, "differences": {}})
    for nothing in nothings:
        assert (cluster_view.ranks_of(nothing), cluster_view.differences_of(nothing, "error")) == ([], [])

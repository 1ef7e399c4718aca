# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What NCCL's own log says of its network. The lines are spelled as the sources print them that each test names."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest
from ansible_collections.dgx_spark.speculative.plugins.module_utils._deployment import nccl

OOB = "OOB enp1s0f1np1:192.168.100.10<0>"
FILTER = "NCCL_IB_HCA set to rocep1s0f1,roceP2p1s0f1"
BOTH = f"NET/IB : Using [0]rocep1s0f1:1/RoCE [1]roceP2p1s0f1:1/RoCE [RO]; {OOB}"
# NVIDIA/nccl prints the list of devices, empty, after "No device found" as well (src/transport/net_ib.cc, v2.28.9-1).
NO_DEVICE = ["NET/IB : No device found.", f"NET/IB : Using ; {OOB}"]
SOCKET = [
    "NET/Socket : Using [0]enp1s0f1np1:192.168.100.10<0> [1]enP2p1s0f1np1:192.168.101.10<0>",
    "Initialized NET plugin Socket",
    "Assigned NET plugin Socket to comm",
    "Using network Socket",
]
INTERFACES = ["enp1s0f1np1", "enP2p1s0f1np1"]
DEVICES = ["rocep1s0f1", "roceP2p1s0f1"]


def log(*lines: str) -> str:
    """Lines as src/debug.cc begins them; a warning has an empty line, a time and its place in the source before it."""
    begun = (
        f"\n[2026-11-25 10:00:00] spark-1:71:90 [0] transport/net_ib.cc:715 NCCL {line}"
        if line.startswith("WARN")
        else f"spark-1:71:90 [0] NCCL INFO {line}"
        for line in lines
    )
    return "NCCL version 2.28.9+cuda13.0\n" + "\n".join(begun) + "\n"


@pytest.mark.parametrize(
    ("lines", "name"),
    [
        # v2.21.5-1 to v2.26.6-1
        ([BOTH, "Using network IB"], "IB"),
        # v2.27.3-1 to v2.30.7-1
        ([FILTER, BOTH, "Initialized NET plugin IB", "Assigned NET plugin IB to comm", "Using network IB"], "IB"),
        # With NCCL_DEBUG_SUBSYS=NET
        ([BOTH, "Initialized NET plugin IB", "Assigned NET plugin IB to comm"], "IB"),
        # The plug-in of NVIDIA's images on a DGX Spark (mark-ramsey-ri/vllm-dgx-spark issue 1)
        (
            [
                "NET/Plugin: Loaded net plugin NCCL RDMA Plugin v10 (v10)",
                "P2P plugin v10 IBext_v10",
                "NET/IB : Made virtual device [0] name=rocep1s0f1 speed=200000 ndevs=1",
                BOTH.replace("/RoCE [1]", "/RoCE/SHARP [1]"),
                "Using network IBext_v10",
            ],
            "IBext_v10",
        ),
    ],
)
def test_rdma(lines: list[str], name: str) -> None:
    assert nccl.parse(log(*lines)) == nccl.Network(name, True, DEVICES, [])


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        ([FILTER, *NO_DEVICE], "no active RDMA device matches NCCL_IB_HCA=rocep1s0f1,roceP2p1s0f1"),
        (
            [FILTER, *NO_DEVICE, "Failed to initialize NET plugin IB"],
            "no active RDMA device matches NCCL_IB_HCA=rocep1s0f1,roceP2p1s0f1",
        ),
        (["NCCL_IB_HCA set to ^roce", *NO_DEVICE], "no active RDMA device matches NCCL_IB_HCA=^roce"),
        (NO_DEVICE, "no RDMA device is active"),
        # src/misc/ibvsymbols.cc, to v2.29.7-1 and from v2.30.3-1 on, with its slip of the pen
        (["Failed to open libibverbs.so[.1]"], "it cannot load libibverbs"),
        (["Count not open libibverbs.so", "Count not open libibverbs.so.1"], "it cannot load libibverbs"),
        (["WARN dlvsym failed on ibv_reg_mr - (null) version IBVERBS_1.1"], "it cannot load libibverbs"),
        (["WARN NET/IB : No IP interface found."], "it finds no IP interface for RDMA"),
        (
            [
                FILTER,
                "WARN Call to ibv_open_device failed",
                "WARN NET/IB : Unable to open device rocep1s0f1",
                "WARN Call to ibv_open_device failed",
                "WARN NET/IB : Unable to open device roceP2p1s0f1",
                *NO_DEVICE,
            ],
            "it cannot open rocep1s0f1 and roceP2p1s0f1",
        ),
        # All devices are opened before the names are compared: one that nobody has chosen is no reason.
        (
            ["NCCL_IB_HCA set to =rocep1s0f1:2", "WARN NET/IB : Unable to open device rocep1s0f0", *NO_DEVICE],
            "no active RDMA device matches NCCL_IB_HCA==rocep1s0f1:2",
        ),
        # src/misc/param.cc
        (["NCCL_IB_DISABLE set by environment to 1."], "NCCL_IB_DISABLE is set to 1"),
        # Another library than that of mlx5 is none of verbs.
        (
            [
                "Count not open libibverbs.so",
                "WARN dlvsym failed on mlx5dv_reg_dmabuf_mr - x version MLX5_1.25",
                FILTER,
                *NO_DEVICE,
            ],
            "no active RDMA device matches NCCL_IB_HCA=rocep1s0f1,roceP2p1s0f1",
        ),
        # NCCL_NET is told by no line.
        ([], "it has not tried RDMA, as with NCCL_NET=Socket"),
        (["Failed to initialize NET plugin IB"], "its log does not say"),
    ],
)
def test_sockets_and_why(lines: list[str], why: str) -> None:
    found = nccl.parse(log(*lines, *SOCKET))
    assert found is not None
    assert (found.name, found.rdma, list(found.devices), found.why) == ("Socket", False, INTERFACES, why)
    assert found.fix


def test_a_device_that_is_not_used() -> None:
    found = nccl.parse(log(FILTER, f"NET/IB : Using [0]rocep1s0f1:1/RoCE [RO]; {OOB}", "Using network IB"))
    assert found == nccl.Network("IB", True, ["rocep1s0f1"], ["roceP2p1s0f1"])
    told = nccl.finding(found, "spark-1")
    assert told is not None
    assert told["id"] == nccl.PARTLY
    assert "NCCL of spark-1 uses RDMA over rocep1s0f1 only: roceP2p1s0f1 is not active" in told["message"]


def test_the_plug_in_does_not_say_which_devices_it_should_use() -> None:
    text = log(f"NET/IB : Using [0]rocep1s0f1:1/RoCE [RO]; {OOB}", "Using network IBext_v10")
    assert nccl.parse(text) == nccl.Network("IBext_v10", True, ["rocep1s0f1"], [])
    found = nccl.parse(text, "rocep1s0f1,roceP2p1s0f1")
    assert found == nccl.Network("IBext_v10", True, ["rocep1s0f1"], ["roceP2p1s0f1"])


@pytest.mark.parametrize("wanted", ["rocep1s0f1:1,roceP2p1s0f1:1", "=rocep1s0f1,roceP2p1s0f1", "roce", "^mlx5"])
def test_other_ways_to_choose_both(wanted: str) -> None:
    found = nccl.parse(log(f"NCCL_IB_HCA set to {wanted}", BOTH, "Using network IB"))
    assert found == nccl.Network("IB", True, DEVICES, [])


@pytest.mark.parametrize(
    "lines",
    [[], ["WARN Bootstrap : no socket interface found"], [BOTH], ["Failed to initialize any NET plugin"]],
)
def test_not_known(lines: list[str]) -> None:
    assert nccl.parse(log(*lines)) is None


def test_of_several_communicators_one_without_rdma_counts() -> None:
    found = nccl.parse(log(FILTER, BOTH, "Using network IB", *SOCKET))
    assert found is not None
    assert (found.name, found.rdma) == ("Socket", False)


def test_another_plug_in_is_no_proof_of_rdma() -> None:
    found = nccl.parse(log("Using network AWS Libfabric"))
    assert found is not None
    assert (found.name, found.rdma, found.devices) == ("AWS Libfabric", False, [])


def test_the_files_of_a_rank(tmp_path: Path) -> None:
    assert nccl.rank_network(tmp_path, "") is None
    # A process that has only loaded the library, and the engine's.
    (tmp_path / "nccl.spark-1.70").write_text("NCCL version 2.28.9+cuda13.0\n", encoding="utf-8")
    assert nccl.rank_network(tmp_path, "") is None
    (tmp_path / "nccl.spark-1.71").write_text(log(FILTER, BOTH, "Using network IB"), encoding="utf-8")
    assert nccl.rank_network(tmp_path, "") == nccl.Network("IB", True, DEVICES, [])
    # What is no text, and what is no file.
    (tmp_path / "nccl.spark-1.72").write_bytes(b"\xff\xfe\0")
    (tmp_path / "nccl.spark-1.73").mkdir()
    assert nccl.rank_network(tmp_path, "") == nccl.Network("IB", True, DEVICES, [])


def test_a_log_that_goes_on_for_weeks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nccl, "MOST_BYTES", 2000)
    text = log(FILTER, BOTH, "Using network IB") + log("Channel 00/0 : 0[0] -> 1[0] [send] via NET/IB/0") * 1000
    (tmp_path / "nccl.spark-1.71").write_text(text, encoding="utf-8")
    assert nccl.rank_network(tmp_path, "") == nccl.Network("IB", True, DEVICES, [])


def test_it_is_told_in_a_line_and_as_a_finding() -> None:
    rdma = nccl.parse(log(FILTER, BOTH, "Using network IB"))
    assert rdma is not None
    assert nccl.describe_network(rdma) == "NCCL uses RDMA (IB) over rocep1s0f1 and roceP2p1s0f1"
    assert nccl.finding(rdma, "spark-1") is None
    assert nccl.finding(None, "spark-1") is None
    sockets = nccl.parse(log("NCCL_IB_HCA set to ^roce", *NO_DEVICE, *SOCKET))
    assert sockets is not None
    assert nccl.describe_network(sockets) == (
        "NCCL uses Socket over enp1s0f1np1 and enP2p1s0f1np1 and not RDMA: "
        "no active RDMA device matches NCCL_IB_HCA=^roce"
    )
    told = nccl.finding(sockets, "spark-2")
    assert told == {
        "id": nccl.BY_TCP,
        "message": (
            "NCCL of spark-2 uses Socket over enp1s0f1np1 and enP2p1s0f1np1 and not RDMA, which costs most of the "
            "link's speed. Reason: no active RDMA device matches NCCL_IB_HCA=^roce. What to do: compare that with "
            "'rdma link' on the Spark; take NCCL_ variables of your own out of speculative_serve_environment and run "
            "the playbook again."
        ),
    }


def test_facts_come_back_as_they_were() -> None:
    for found in (nccl.parse(log(FILTER, BOTH, "Using network IB")), nccl.parse(log(*NO_DEVICE, *SOCKET))):
        assert found is not None
        assert nccl.parse_facts(found.facts()) == found


@pytest.mark.parametrize("facts", [None, {}, [], "IB", {"name": "IB"}, {"name": 1, "rdma": True}, {"rdma": True}])
def test_what_is_no_network(facts: t.Any) -> None:
    assert nccl.parse_facts(facts) is None


def test_what_somebody_has_edited() -> None:
    found = nccl.parse_facts({"name": "IB", "rdma": True, "devices": 3, "missing": "x"})
    assert found is not None
    assert (found.devices, found.missing, found.why, found.fix) == ([], [], "", "")

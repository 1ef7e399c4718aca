# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the stand-in's engine on several hosts refuses, and how its parts fail.

That its ranks load and generate together is for the scenarios on two and on four Sparks.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import signal
import socket
import threading
import typing as t
from pathlib import Path

import pytest
from ansible_collections.dgx_spark.speculative.plugins.module_utils._deployment import nccl as reader
from server.engines.tensorrt_llm import TENSORRT_LLM
from server.loading import Loading

from tests.twin import models
from tests.twin.trtllm.server import checkpoint, loading, machine, nccl, ranks
from tests.twin.trtllm.server.machine import Faults, Gpu
from tests.unit.waiting import WITHIN_S

# Interfaces


@pytest.mark.parametrize(("level", "warned"), [("WARN", True), ("INFO", True), ("", False)])
def test_a_name_that_does_not_exist(level: str, warned: bool, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(nccl.NcclError, match="invalid usage"):
        nccl.Communicator(0, 2, {"NCCL_SOCKET_IFNAME": "enp9s9", "NCCL_DEBUG": level})
    assert ("NCCL WARN Bootstrap : no socket interface found" in capsys.readouterr().out) is warned


HCA = "rocep1s0f1,roceP2p1s0f1"


@pytest.fixture(name="rdma")
def fixture_rdma(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two RDMA devices that are active, each with its node, which is that of /dev/null."""
    for number, name in enumerate(("rocep1s0f1", "roceP2p1s0f1")):
        entry, port = tmp_path / "verbs" / f"uverbs{number}", tmp_path / "devices" / name / "ports/1"
        entry.mkdir(parents=True)
        (entry / "ibdev").write_text(f"{name}\n", encoding="ascii")
        (entry / "dev").write_text("1:3\n", encoding="ascii")
        port.mkdir(parents=True)
        (port / "state").write_text("4: ACTIVE\n", encoding="ascii")
        (tmp_path / "nodes").mkdir(exist_ok=True)
        (tmp_path / f"nodes/uverbs{number}").symlink_to("/dev/null")
    for constant, directory in (("CLASS", "verbs"), ("PORTS", "devices"), ("NODES", "nodes")):
        monkeypatch.setattr(nccl, constant, tmp_path / directory)
    monkeypatch.setattr(nccl, "NETWORKS", {"IB": "NCCL_IB_DISABLE"})
    return tmp_path


def written(directory: Path, **environment: str) -> str:
    """What NCCL writes down of a rank with this environment."""
    file = str(directory / "nccl.%h.%p")
    debug = {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "INIT,ENV", "NCCL_DEBUG_FILE": file}
    nccl.Communicator(0, 2, {"NCCL_SOCKET_IFNAME": "lo", "NCCL_IB_HCA": HCA, **debug, **environment})
    name = f"nccl.{socket.gethostname().partition('.')[0]}.{os.getpid()}"
    return (directory / name).read_text(encoding="utf-8")


def network(text: str) -> reader.Network:
    """The same, as the collection reads it."""
    found = reader.parse(text)
    assert found is not None, text
    return found


def test_rdma_is_told(rdma: Path) -> None:
    text = written(rdma)
    assert "NCCL INFO NET/IB : Using [0]rocep1s0f1:1/RoCE [1]roceP2p1s0f1:1/RoCE [RO]; OOB lo:127.0.0.1<0>\n" in text
    assert network(text) == reader.Network("IB", True, HCA.split(","), [])


@pytest.mark.parametrize(
    ("environment", "why"),
    [
        ({"NCCL_IB_HCA": "^roce"}, "no active RDMA device matches NCCL_IB_HCA=^roce"),
        ({"NCCL_IB_HCA": "rocep1s0f1:2"}, "no active RDMA device matches NCCL_IB_HCA=rocep1s0f1:2"),
        ({"NCCL_IB_DISABLE": "1"}, "NCCL_IB_DISABLE is set to 1"),
        ({"NCCL_NET": "Socket"}, "it has not tried RDMA, as with NCCL_NET=Socket"),
    ],
)
def test_sockets_are_told_with_the_reason(rdma: Path, environment: dict[str, str], why: str) -> None:
    found = network(written(rdma, **environment))
    assert (found.name, found.rdma, found.devices, found.why) == ("Socket", False, ["lo"], why)


def test_a_port_that_is_down(rdma: Path) -> None:
    (rdma / "devices/roceP2p1s0f1/ports/1/state").write_text("1: DOWN\n", encoding="ascii")
    assert network(written(rdma)) == reader.Network("IB", True, ["rocep1s0f1"], ["roceP2p1s0f1"])
    (rdma / "devices/rocep1s0f1/ports/1/state").write_text("1: DOWN\n", encoding="ascii")
    assert network(written(rdma)).why == f"no active RDMA device matches NCCL_IB_HCA={HCA}"


def test_devices_that_the_container_cannot_open(rdma: Path) -> None:
    (rdma / "nodes/uverbs0").unlink()
    (rdma / "verbs/uverbs1/dev").write_text("231:192\n", encoding="ascii")
    text = written(rdma)
    assert "NCCL WARN NET/IB : Unable to open device rocep1s0f1\n" in text
    assert network(text).why == "it cannot open rocep1s0f1 and roceP2p1s0f1"


# The ring


class Elsewhere(nccl.Communicator):
    """A rank on a host of its own."""

    @property
    def me(self) -> nccl.Peer:
        return super().me._replace(host=f"host of {self._rank}")


LOOPBACK = {"NCCL_SOCKET_IFNAME": "=lo"}


@contextlib.contextmanager
def ring(monkeypatch: pytest.MonkeyPatch, size: int = 2) -> t.Iterator[tuple[Elsewhere, list[Elsewhere]]]:
    """Joined ranks with two rails: the leader, and the others."""
    monkeypatch.setattr(nccl, "interface_addresses", lambda: {"lo": "127.0.0.1", "lo2": "127.0.0.2"})
    leader, *workers = (Elsewhere(rank, size, {"NCCL_SOCKET_IFNAME": "lo"}) for rank in range(size))
    joining = [threading.Thread(target=one.follow, args=(leader.identity,)) for one in workers]
    for one in joining:
        one.start()
    leader.lead()
    for one in joining:
        one.join(timeout=WITHIN_S)
    yield leader, workers
    for rank in (leader, *workers):
        for connection in (*rank._in, *rank._out):
            connection.close()


@pytest.mark.parametrize("size", [2, 4])
def test_a_rank_that_is_gone(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    with ring(monkeypatch, size) as (leader, [*_others, last]):
        for connection in (*last._in, *last._out):
            connection.close()
        with pytest.raises(nccl.NcclError, match="remote process exited"):
            leader.exchange(nccl.PASS, 8192)


def test_two_ranks_on_one_host_share_a_gpu() -> None:
    leader, worker = (nccl.Communicator(rank, 2, LOOPBACK) for rank in (0, 1))
    failures: list[Exception] = []

    def follow() -> None:
        try:
            worker.follow(leader.identity)
        except nccl.NcclError as failure:
            failures.append(failure)

    following = threading.Thread(target=follow)
    following.start()
    with pytest.raises(nccl.NcclError, match="invalid usage"):
        leader.lead()
    following.join(timeout=WITHIN_S)
    assert len(failures) == 1


def test_a_peer_that_cannot_be_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    worker = nccl.Communicator(1, 2, LOOPBACK)

    def unreachable(*_arguments: t.Any) -> t.NoReturn:
        raise OSError(113, "No route to host")

    monkeypatch.setattr(nccl.socket, "create_connection", unreachable)
    with pytest.raises(nccl.NcclError, match="unhandled system error"):
        worker.follow(("192.168.100.10", 1))


# What a rank loads


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The bytes that were held on this host's GPU."""
    sizes: list[float] = []
    monkeypatch.setattr(loading, "count_gpus", lambda: 1)
    monkeypatch.setattr(loading, "occupy", sizes.append)
    # What this machine's own page cache has of the files is another test's.
    monkeypatch.setattr(loading.meminfo, "cached_bytes", lambda _model: 0)
    return sizes


def task(hub: Path, **changes: t.Any) -> loading.Task:
    given = loading.Task(
        model=str(hub / models.LARGE_TARGET),
        revision=None,
        draft=str(hub / models.LARGE_DRAFT),
        eagle=True,
        world_size=2,
        free_fraction=0.9,
        max_tokens=40_992,
        tokens_per_block=32,
        max_seq_len=40_960,
        max_batch_size=1,
        max_num_tokens=1024,
        chunked_prefill=False,
        log_level="info",
    )
    return dataclasses.replace(given, **changes)


def test_a_context_that_has_no_room_is_smaller_than_that_of_the_drafts(
    hub: Path, held: list[float], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(machine.log, "propagate", True)
    caplog.set_level("INFO", machine.log.name)
    loading.load(task(hub), Gpu(memory_bytes=73e9, system_bytes=4e9))
    (tmp_path / "options.yml").write_text("kv_cache_config:\n  max_tokens: 40992\n", encoding="utf-8")
    heard = Loading(tmp_path / "options.yml", TENSORRT_LLM)
    heard.hear("\n".join([*caplog.messages, ""]).encode())
    known = heard.kv_cache()
    assert known["planned"] == 40_992
    assert known["tokens"] is not None
    assert known["tokens"] < 40_992


def test_a_layer_that_predicts_has_a_kv_cache(hub: Path) -> None:
    target = checkpoint.inspect(hub / models.LARGE_TARGET)
    own = task(hub, draft=None, eagle=False)
    (plain,), (predicting,) = (
        loading._kv_bytes_per_token(given, target, None)
        for given in (own, dataclasses.replace(own, prediction_layers=2))
    )
    assert predicting / plain == pytest.approx((94 + 2) / 94, rel=1e-4)


def test_one_spark_is_too_small_for_all_of_it(hub: Path, held: list[float]) -> None:
    with pytest.raises(loading.OutOfMemoryError, match="CUDA out of memory"):
        loading.load(task(hub, world_size=1), Gpu(memory_bytes=128e9))
    assert held == []


def test_a_smaller_spark_is_too_small_for_its_half(hub: Path, held: list[float]) -> None:
    with pytest.raises(loading.OutOfMemoryError, match=r"Tried to allocate 62\.40 GiB"):
        loading.load(task(hub), Gpu(memory_bytes=64e9))


@pytest.mark.parametrize("key", ["model", "draft"])
def test_a_directory_that_is_on_the_other_host_only(hub: Path, held: list[float], key: str) -> None:
    with pytest.raises(FileNotFoundError, match="No such file or directory: '/tmp/models/elsewhere/"):
        loading.load(task(hub, **{key: "/tmp/models/elsewhere"}), Gpu(memory_bytes=128e9))


def test_a_host_without_a_gpu(hub: Path, held: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "count_gpus", lambda: 0)
    with pytest.raises(RuntimeError, match="No CUDA GPUs are available"):
        loading.load(task(hub), Gpu())


# What a rank does when it is told to


@pytest.mark.parametrize(
    ("family", "fault", "message"),
    [
        ("1.3", "dies", "killed"),
        ("1.3", "hangs", "hanging"),
        ("1.3", None, ""),
        ("1.2", "dies", ""),
        ("1.2", "hangs", ""),
    ],
)
def test_the_first_all_reduce_fails_when_it_is_told_to_and_the_release_has_the_tactic(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], family: str, fault: str | None, message: str
) -> None:
    def hang() -> t.NoReturn:
        raise RuntimeError("hanging")

    def kill(_process: int, number: int) -> t.NoReturn:
        assert number == signal.SIGSEGV
        raise RuntimeError("killed")

    monkeypatch.setattr(ranks.os, "kill", kill)
    monkeypatch.setattr(ranks.nccl, "hang", hang)
    expectation = pytest.raises(RuntimeError, match=message) if message else contextlib.nullcontext()
    with expectation:
        ranks._reduce_first(lambda: Faults(all_reduce=fault), family)
    said = capfd.readouterr()
    assert ("finalMNNVL=0" in said.out) is bool(message)
    assert ("ncclGinGdakiQueryLastError" in said.err) is (message == "killed")

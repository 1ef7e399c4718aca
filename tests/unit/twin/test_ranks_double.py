# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The stand-in's engine on several hosts: who reaches whom, what each of them loads, and what a lost one does."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import dataclasses
import json
import os
import platform
import signal
import socket
import subprocess
import threading
import typing as t
from pathlib import Path

import pytest
from ansible_collections.dgx_spark.speculative.plugins.module_utils._deployment import nccl as reader
from server.loading import Loading

from tests.twin import models
from tests.twin.trtllm import repository, tiny_library
from tests.twin.trtllm.server import engine, loading, machine, nccl, proxy, ranks
from tests.twin.trtllm.server.machine import Faults, Gpu
from tests.twin.trtllm.server.runtime import Job, Runtime
from tests.unit.waiting import WITHIN_S, until

LAUNCHER = Path(tiny_library.__file__).with_name("bin") / "trtllm-llmapi-launch"
SPARK = {
    "lo": "127.0.0.1",
    "enP7s7": "192.0.2.11",
    "docker0": "172.17.0.1",
    "enp1s0f1np1": "192.168.100.10",
    "enP2p1s0f1np1": "192.168.101.10",
}


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("hub")
    models.write_models(directory)
    return directory


# Interfaces


@pytest.mark.parametrize(
    ("wanted", "names"),
    [
        ("enp1s0f1np1,enP2p1s0f1np1", ["enp1s0f1np1", "enP2p1s0f1np1"]),
        ("en", ["enP7s7", "enp1s0f1np1", "enP2p1s0f1np1"]),
        ("=enp1s0f1np1", ["enp1s0f1np1"]),
        ("=enp1s0f1", []),
        ("^docker,lo,enP7", ["enp1s0f1np1", "enP2p1s0f1np1"]),
        ("enp1s0f0np0", []),
        # The environment did not reach this rank.
        ("", ["enP7s7"]),
    ],
)
def test_interfaces_that_nccl_takes(wanted: str, names: list[str]) -> None:
    assert nccl.choose(wanted, SPARK, "enP7s7") == {name: SPARK[name] for name in names}


@pytest.mark.parametrize(("default", "name"), [(None, "enP7s7"), ("docker0", "enP7s7"), ("enp1s0f1np1", "enp1s0f1np1")])
def test_interface_without_a_wish(default: str | None, name: str) -> None:
    assert list(nccl.choose("", SPARK, default)) == [name]


def test_the_default_route_with_the_lowest_metric_counts(tmp_path: Path) -> None:
    routes = tmp_path / "route"
    head = "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT\n"
    rows = [
        ("wlP9s9", "00000000", "0100000A", "0003", "0", "0", "600", "00000000"),
        ("enP7s7", "00000000", "0100000A", "0003", "0", "0", "100", "00000000"),
        ("enp1s0f1np1", "0064A8C0", "00000000", "0001", "0", "0", "0", "00FFFFFF"),
    ]
    routes.write_text(head + "".join("\t".join((*row, "0", "0", "0")) + "\n" for row in rows))
    assert nccl.default_interface(routes) == "enP7s7"
    routes.write_text(head)
    assert nccl.default_interface(routes) is None


def test_this_machines_loopback_has_its_address() -> None:
    assert nccl.interface_addresses()["lo"] == "127.0.0.1"


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


def test_the_plug_in_is_tried_first(rdma: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nccl, "NETWORKS", {"IBext_v10": "NCCL_IBEXT_DISABLE", "IB": "NCCL_IB_DISABLE"})
    assert network(written(rdma, NCCL_IB_DISABLE="1")).name == "IBext_v10"
    assert network(written(rdma, NCCL_IBEXT_DISABLE="1")).name == "IB"


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


@pytest.mark.parametrize(
    ("environment", "says", "silent"),
    [
        ({"NCCL_DEBUG": "WARN"}, "", "NCCL INFO"),
        ({"NCCL_DEBUG_SUBSYS": "NET"}, "Assigned NET plugin IB to comm", "Using network"),
        ({"NCCL_DEBUG_SUBSYS": "ENV"}, "NCCL_IB_HCA set to", "NET/IB : Using"),
        ({"NCCL_DEBUG_SUBSYS": "^NET"}, "NCCL_SOCKET_IFNAME set by environment", "NET/IB : Using"),
        ({"NCCL_DEBUG_SUBSYS": "all"}, "Using network IB", "nothing"),
    ],
)
def test_only_what_is_asked_for_is_written(rdma: Path, environment: dict[str, str], says: str, silent: str) -> None:
    text = written(rdma, **environment)
    assert says in text
    assert silent not in text


def test_without_a_file_it_goes_to_the_output(rdma: Path, capsys: pytest.CaptureFixture[str]) -> None:
    environment = {"NCCL_SOCKET_IFNAME": "lo", "NCCL_IB_HCA": HCA, "NCCL_DEBUG": "INFO"}
    nccl.Communicator(0, 2, environment)
    assert network(capsys.readouterr().out).rdma
    nccl.Communicator(0, 2, {**environment, "NCCL_DEBUG_FILE": str(rdma / "not/there")})
    assert network(capsys.readouterr().out).rdma


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
def test_every_exchange_takes_every_rail_and_every_rank(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    with ring(monkeypatch, size) as (leader, workers):
        kinds: list[list[bytes]] = [[] for _worker in workers]

        def answer(number: int) -> None:
            kinds[number] += [workers[number].answer() for _ in range(3)]

        answering = [threading.Thread(target=answer, args=(number,)) for number in range(len(workers))]
        for one in answering:
            one.start()
        leader.exchange(nccl.REQUEST, 100_001)
        leader.exchange(nccl.PASS, 8192)
        leader.stop()
        for one in answering:
            one.join(timeout=WITHIN_S)
        assert kinds == [[nccl.REQUEST, nccl.PASS, nccl.STOP]] * (size - 1)
        for rank in (leader, *workers):
            assert [connection.getpeername()[0] for connection in rank._out] == ["127.0.0.1", "127.0.0.2"]
        # Ranks that are paused, whose cards answer, are waited for.
        looks: list[int] = []
        unanswered = nccl.unanswered
        monkeypatch.setattr(nccl, "SECONDS", 0.2)

        def look(connection: socket.socket) -> int:
            looks.append(unanswered(connection))
            return looks[-1]

        monkeypatch.setattr(nccl, "unanswered", look)
        passing = threading.Thread(target=leader.exchange, args=(nccl.PASS, 8192))
        passing.start()
        until(lambda: len(looks) >= 4)
        assert passing.is_alive()
        for worker in workers:
            worker.answer()
        passing.join(timeout=WITHIN_S)
        assert not passing.is_alive()
        # The last rank's Spark answers no more: nothing comes round, and what was sent is not acknowledged.
        monkeypatch.setattr(nccl, "unanswered", lambda _connection: 1)
        monkeypatch.setattr(nccl, "hang", lambda: (_ for _ in ()).throw(TimeoutError("hanging")))
        with pytest.raises(TimeoutError, match="hanging"):
            leader.exchange(nccl.PASS, 8192)


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


def test_each_of_two_ranks_takes_half_of_the_model(hub: Path, held: list[float]) -> None:
    limits = loading.load(task(hub), Gpu(memory_bytes=128e9, system_bytes=4e9))
    # Half of the weights, all of the head, half of the KV cache: 2 x (94 + 1 layers) x 4 heads x 128 bytes a token, in
    # FP8, as the target's checkpoint asks.
    assert held == [67e9 + 0.6e9 + 40_992 * 2 * 95 * 4 * 128 / 2]
    assert (limits.max_seq_len, limits.kv_blocks) == (40_960, 1281)


def test_the_page_cache_counts_as_used_down_to_the_kernels_watermark(
    hub: Path, held: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    gpu, weights = Gpu(memory_bytes=128e9, system_bytes=4e9), 67e9 + 0.6e9
    each = 2 * 95 * 4 * 128 / 2
    for cached, free in ((27e9, 2.4e9), (67e9, 1.5e9)):
        monkeypatch.setattr(loading.meminfo, "cached_bytes", lambda _model, cached=cached: cached)
        limits = loading.load(task(hub), gpu)
        assert limits.kv_blocks == min(40_992, int(free * 0.9 / each)) // 32
        assert held.pop() == weights + limits.kv_blocks * 32 * each


def test_an_estimate_comes_before_the_kv_cache(
    hub: Path, held: list[float], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine.log, "propagate", True)
    caplog.set_level("INFO", machine.log.name)
    gpu = Gpu(memory_bytes=128e9, system_bytes=4e9)

    def told() -> list[str]:
        caplog.clear()
        loading.load(task(hub), gpu)
        lines = [line for line in caplog.messages if line.startswith(("[MemUsageChange]", "Peak memory"))]
        return [line.removeprefix("[MemUsageChange] Allocated ").partition(" during")[0] for line in lines]

    words = "GiB for max tokens in paged KV cache"
    # Newer releases have a cache for the drafts besides, and say how the estimate ended.
    assert told() == [
        *(f"0.19 {words} (4128).", f"0.00 {words} (4128).", "Peak memory"),
        *(f"1.84 {words} (40992).", f"0.02 {words} (40992)."),
    ]
    monkeypatch.setattr(loading, "FAMILY", "1.2")
    assert told() == [f"0.19 {words} (4128).", "Peak memory", f"1.86 {words} (40992)."]


def test_a_context_that_has_no_room_is_smaller_than_that_of_the_drafts(
    hub: Path, held: list[float], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(machine.log, "propagate", True)
    caplog.set_level("INFO", machine.log.name)
    loading.load(task(hub), Gpu(memory_bytes=73e9, system_bytes=4e9))
    (tmp_path / "options.yml").write_text("kv_cache_config:\n  max_tokens: 40992\n", encoding="utf-8")
    heard = Loading(tmp_path / "options.yml")
    heard.hear("\n".join([*caplog.messages, ""]).encode())
    known = heard.kv_cache()
    assert known["planned"] == 40_992
    assert known["tokens"] is not None
    assert known["tokens"] < 40_992


def test_a_newer_release_sizes_the_cache_of_some_models_by_bytes_alone(
    hub: Path, held: list[float], caplog: pytest.LogCaptureFixture
) -> None:
    each = 2 * 95 * 4 * 128 // 2
    given = task(hub, by_bytes=True, max_bytes=50_000 * each, max_tokens=100)
    limits = loading.load(given, Gpu(memory_bytes=128e9, system_bytes=4e9))
    assert limits.kv_blocks == 50_000 // 32
    assert "paged KV cache" not in caplog.text
    # Without a limit it takes what the fraction allows.
    limits = loading.load(dataclasses.replace(given, max_bytes=0), Gpu(memory_bytes=128e9, system_bytes=4e9))
    assert limits.kv_blocks == int((128e9 - 4e9 - 67.6e9) * 0.9 / each) // 32


def test_the_options_win_over_the_checkpoints_type_of_the_kv_cache(hub: Path, held: list[float]) -> None:
    loading.load(task(hub, kv_dtype="bfloat16"), Gpu(memory_bytes=128e9, system_bytes=4e9))
    assert held == [67e9 + 0.6e9 + 40_992 * 2 * 95 * 4 * 128 * 2 / 2]


def test_what_drafts_add_counts_against_the_window(
    hub: Path, held: list[float], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine.log, "propagate", True)
    gpu = Gpu(memory_bytes=128e9, system_bytes=4e9)
    assert loading.load(task(hub, extra_tokens=9, max_seq_len=40_983), gpu).max_seq_len == 40_983
    assert "Attention window" not in caplog.text
    assert loading.load(task(hub, extra_tokens=9, max_seq_len=41_000), gpu).max_seq_len == 40_992
    assert "size 41009 exceeds upper bound 40992 for available blocks. Reducing to 40992" in caplog.text


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


def test_the_smallest_kv_cache_counts() -> None:
    large = loading.Limits(1, 1024, 40_960, False, 1281, 32)
    small = dataclasses.replace(large, kv_blocks=100, max_seq_len=3200)
    assert loading.common([large, small]) == loading.common([small, large]) == small


# Front, leader and worker


class FakeMpi:
    rank, size = 0, 2

    def __init__(self, answer: t.Any) -> None:
        self.sent: list[t.Any] = []
        self._answer = answer

    def send(self, _rank: int, message: bytes) -> None:
        self.sent.append(json.loads(message))

    def receive(self, _rank: int) -> bytes:
        return json.dumps(self._answer).encode()


class FakeRing:
    identity = ("192.168.100.10", 4711)

    def __init__(self) -> None:
        self.done: list[t.Any] = []

    def lead(self) -> None:
        self.done.append("lead")

    def exchange(self, kind: bytes, size: int) -> None:
        self.done.append((kind, size))

    def stop(self) -> None:
        self.done.append("stop")


LIMITS = loading.Limits(1, 1024, 40_960, False, 1281, 32)


@dataclasses.dataclass
class Leader:
    environment: dict[str, str]
    mpi: FakeMpi
    ring: FakeRing
    stopped: list[bool]


@contextlib.contextmanager
def leader(monkeypatch: pytest.MonkeyPatch, answer: t.Any) -> t.Iterator[Leader]:
    """A leader on a port of its own, whose worker gives this answer to what it shall load."""
    ring = FakeRing()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        environment = {proxy.ADDRESS: f"tcp://127.0.0.1:{listener.getsockname()[1]}", proxy.KEY: "secret"}
        monkeypatch.setenv(proxy.KEY, "secret")
        monkeypatch.setenv("OMPI_COMM_WORLD_RANK", "0")
        monkeypatch.setattr(ranks.nccl, "Communicator", lambda *_place: ring)
        monkeypatch.setattr(ranks, "load", lambda _task, _gpu: LIMITS)
        mpi = FakeMpi(answer)
        made = ranks._Leader(t.cast(t.Any, mpi))
        stopped: list[bool] = []

        def serve() -> None:
            while not any(stopped):
                connection, _ = listener.accept()
                with connection:
                    stopped.append(made.serve(connection))

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield Leader(environment, mpi, ring, stopped)
        proxy.stop(environment)
        thread.join(timeout=WITHIN_S)
        assert stopped[-1]


def test_the_front_loads_and_generates_by_the_leader(monkeypatch: pytest.MonkeyPatch, hub: Path) -> None:
    with leader(monkeypatch, {"limits": dataclasses.asdict(dataclasses.replace(LIMITS, kv_blocks=1000))}) as there:

        async def passes() -> None:
            await front.step(1, new=True)
            await front.step(4, new=False)

        front = proxy.Ranks.connect(there.environment)
        assert front.load(task(hub)).kv_blocks == 1000
        assert there.mpi.sent == [{"task": dataclasses.asdict(task(hub)), "leader": ["192.168.100.10", 4711]}]
        asyncio.run(passes())
        assert there.ring.done == ["lead", (nccl.REQUEST, 8192), (nccl.PASS, 4 * 8192)]
        front._connection.close()
    assert there.ring.done[-1] == "stop"
    # A front that leaves without a word ends nothing.
    assert there.stopped == [False, True]


@pytest.mark.parametrize(("memory", "cause"), [(True, loading.OutOfMemoryError), (False, proxy.RankError)])
def test_what_a_rank_cannot_load_the_front_tells(
    monkeypatch: pytest.MonkeyPatch, hub: Path, memory: bool, cause: type[Exception]
) -> None:
    answer = {"error": "it went wrong there", "memory": memory, "traceback": "Traceback"}
    with leader(monkeypatch, answer) as there:
        front = proxy.Ranks.connect(there.environment)
        with pytest.raises(proxy.RankError, match="Executor worker returned error") as failure:
            front.load(task(hub))
        assert type(failure.value.__cause__) is cause
        assert str(failure.value.__cause__) == "it went wrong there"
        front._connection.close()


def test_a_stranger_is_not_served(monkeypatch: pytest.MonkeyPatch, hub: Path) -> None:
    with leader(monkeypatch, {}) as there:
        stranger = proxy.Ranks.connect({**there.environment, proxy.KEY: "guessed"})
        with pytest.raises((proxy.RankError, ConnectionError)):
            stranger.load(task(hub))
        stranger._connection.close()


def test_a_client_that_leaves_does_not_take_the_answer_along(monkeypatch: pytest.MonkeyPatch, hub: Path) -> None:
    with leader(monkeypatch, {"limits": dataclasses.asdict(LIMITS)}) as there:

        async def passes() -> None:
            leaving = asyncio.ensure_future(front.step(1, new=True))
            await asyncio.sleep(0)
            leaving.cancel()
            await asyncio.wait_for(front.step(2, new=True), timeout=WITHIN_S)

        front = proxy.Ranks.connect(there.environment)
        front.load(task(hub))
        asyncio.run(passes())
        assert there.ring.done[1:] == [(nccl.REQUEST, 8192), (nccl.REQUEST, 2 * 8192)]
        front._connection.close()


class Kinds:
    """A ring whose leader does these things."""

    def __init__(self, *kinds: bytes) -> None:
        self._kinds = iter(kinds)

    def answer(self) -> bytes:
        return next(self._kinds)


def always(faults: Faults) -> t.Callable[[], Faults]:
    return lambda: faults


def test_a_worker_fails_when_it_is_told_to(monkeypatch: pytest.MonkeyPatch) -> None:
    def end(name: str) -> t.Callable[..., t.NoReturn]:
        def raising(*_arguments: t.Any) -> t.NoReturn:
            raise RuntimeError(name)

        return raising

    monkeypatch.setattr(ranks.os, "_exit", end("ended"))
    monkeypatch.setattr(ranks.nccl, "hang", end("hanging"))
    two = (nccl.REQUEST, nccl.PASS, nccl.REQUEST, nccl.PASS, nccl.STOP)
    for faults, message in (
        (Faults(exit_after_requests=1), "ended"),
        (Faults(hang_after_requests=1), "hanging"),
    ):
        with pytest.raises(RuntimeError, match=message):
            ranks._take_part(t.cast(t.Any, Kinds(*two)), always(faults))
    for faults in (Faults(), Faults(exit_after_requests=2)):
        ranks._take_part(t.cast(t.Any, Kinds(*two)), always(faults))


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
        ranks._reduce_first(always(Faults(all_reduce=fault)), family)
    said = capfd.readouterr()
    assert ("finalMNNVL=0" in said.out) is bool(message)
    assert ("ncclGinGdakiQueryLastError" in said.err) is (message == "killed")


def test_there_is_no_token_without_the_other_rank() -> None:
    class Silent:
        steps = 0

        async def step(self, _tokens: int, *, new: bool) -> None:
            assert new is (self.steps == 0)
            self.steps += 1
            if self.steps > 2:
                await asyncio.Event().wait()

    silent = Silent()
    documents = engine.read_corpus(Path(engine.__file__).with_name("corpus.txt"))
    runtime = Runtime(documents, Gpu(pass_ms=0), LIMITS, None, Faults, ranks=t.cast(t.Any, silent))

    pieces = []

    async def generate() -> None:
        async for piece in runtime.run(Job("What is the capital of France?", 7, False, 20, engine.Sampling())):
            pieces.append(piece)

    async def for_a_while() -> None:
        await asyncio.wait_for(generate(), timeout=0.5)

    with pytest.raises(asyncio.TimeoutError):
        asyncio.run(for_a_while())
    assert len(pieces) == 2


# The launcher


def launch(tmp_path: Path, environment: dict[str, str], *command: str) -> tuple[int, str, str]:
    """Run it with a python3 that tells what it was told."""
    program = tmp_path / "python3"
    program.write_text('#!/bin/bash\necho "python3 $* ($tllm_mpi_size ranks, UCX=$UCX_NET_DEVICES)"\n')
    program.chmod(0o755)
    path = f"{tmp_path}:{os.environ['PATH']}"
    given = {"PATH": path, "UCX_NET_DEVICES": "a", "NCCL_SOCKET_IFNAME": "b", **environment}
    done = subprocess.run(
        ["bash", str(LAUNCHER), *command], env=given, capture_output=True, text=True, timeout=WITHIN_S, check=False
    )
    return done.returncode, done.stdout, done.stderr


def test_rank_0_leads_and_hides_mpi_from_the_command(tmp_path: Path) -> None:
    environment = {"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "2", "OMPI_MCA_pml": "ob1"}
    show = 'echo "command UCX=$UCX_NET_DEVICES OMPI=$OMPI_MCA_pml NCCL=$NCCL_SOCKET_IFNAME $tllm_mpi_size"'
    status, output, errors = launch(tmp_path, environment, "bash", "-c", show)
    lines = output.splitlines()
    assert status == 0
    assert "command UCX= OMPI= NCCL=b 2" in lines
    assert "python3 -m tensorrt_llm.llmapi.mgmn_leader_node (2 ranks, UCX=a)" in lines
    assert "rank0 run mgmn leader node with mpi_world_size: 2 ..." in errors


def test_another_rank_works(tmp_path: Path) -> None:
    environment = {"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2"}
    status, output, _ = launch(tmp_path, environment, "false")
    assert (status, output) == (0, "python3 -m tensorrt_llm.llmapi.mgmn_worker_node (2 ranks, UCX=a)\n")


def test_without_mpirun_there_is_one_rank(tmp_path: Path) -> None:
    status, output, _ = launch(tmp_path, {}, "bash", "-c", 'echo "$tllm_mpi_size UCX=$UCX_NET_DEVICES"; exit 3')
    assert (status, output) == (3, "1 UCX=\n")


# What the image has and may install


def test_the_nccl_library_tells_its_version(tmp_path: Path) -> None:
    path = tmp_path / tiny_library.NCCL
    path.write_bytes(tiny_library.nccl(platform.machine(), 22903))
    version = ctypes.c_int()
    assert ctypes.CDLL(str(path)).ncclGetVersion(ctypes.byref(version)) == 0
    assert version.value == 22903


@pytest.mark.parametrize("error", [0, 999])
def test_the_cuda_library_starts_or_does_not(tmp_path: Path, error: int) -> None:
    path = tmp_path / f"{error}-{tiny_library.CUDA}"
    path.write_bytes(tiny_library.cuda(platform.machine(), error))
    assert ctypes.CDLL(str(path)).cuInit(0) == error


def test_the_cuda_library_tells_how_much_is_free(tmp_path: Path) -> None:
    path = tmp_path / f"sizes-{tiny_library.CUDA}"
    path.write_bytes(tiny_library.cuda(platform.machine(), 0, 0x1122334455, 0x1DEC900000))
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    driver = ctypes.CDLL(str(path))
    assert driver.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total)) == 0
    assert (free.value, total.value) == (0x1122334455, 0x1DEC900000)
    assert (driver.cuCtxSetCurrent(None), driver.cuDevicePrimaryCtxRelease_v2(0)) == (0, 0)


@pytest.mark.parametrize("machine", tiny_library.MACHINES)
@pytest.mark.parametrize("make", [tiny_library.nccl, tiny_library.cuda])
def test_a_library_is_for_its_machine(make: t.Callable[[str], bytes], machine: str) -> None:
    content = make(machine)
    assert content[:4] == b"\x7fELF"
    assert int.from_bytes(content[18:20], "little") == tiny_library.MACHINES[machine]


def test_an_index_names_file_size_and_checksum() -> None:
    text = repository.entry("Package: x\nVersion: 1:2+3\n", "x_1_2+3_all.deb", b"content")
    assert text == (
        "Package: x\nVersion: 1:2+3\nFilename: pool/x_1_2+3_all.deb\nSize: 7\n"
        "SHA256: ed7002b439e9ac845f22357d822bac1444730fbdb6016d3ec9432297b9ec9f73\n"
    )
    release = repository.release({"main/binary-arm64/Packages": text.encode()}, "arm64")
    assert "Architectures: arm64\n" in release
    assert release.endswith(f" {len(text)} main/binary-arm64/Packages\n")

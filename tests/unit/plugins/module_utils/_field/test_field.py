# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The sensors of a field check, over made-up files and a stand-in for programs; and with all of that taken away."""

from __future__ import annotations

import base64
import json
import os
import re
import socket
import threading
import typing as t
from pathlib import Path

import pytest
from ansible_collections.dgx_spark.speculative.plugins.lookup.job import program
from ansible_collections.dgx_spark.speculative.plugins.module_utils._deployment import bandwidth
from ansible_collections.dgx_spark.speculative.plugins.module_utils._deployment.cluster_view import RANK_LABEL
from ansible_collections.dgx_spark.speculative.plugins.module_utils._field import link, machine, serving
from ansible_collections.dgx_spark.speculative.plugins.module_utils._field.sensor import (
    NotMeasured,
    Sensor,
    World,
    measured,
)

from tests.unit.docker_server import DockerServer
from tests.unit.replay_server import Server
from tests.unit.waiting import WITHIN_S

# As perftest 24 prints it with --report_gbits and -D.
IB_WRITE_BW = """
 #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]
 65536      353008           0.00               92.57              0.176557
---------------------------------------------------------------------------------------
"""
RAIL = {
    "interface": "enp1s0f1np1",
    "address": "192.168.100.10",
    "peer_address": "192.168.100.11",
    "rdma": "rocep1s0f1",
}
Answer = tuple[int, str, str]


class Programs:
    """Answers as the programs that a test names would; the others are not installed."""

    def __init__(self, **answers: Answer) -> None:
        self.answers = answers
        self.asked: list[tuple[str, ...]] = []

    def __call__(self, command: t.Sequence[str], deadline: float = 15.0) -> Answer:
        self.asked.append(tuple(command))
        return self.answers.get(command[0].replace("-", "_"), (127, "", f"{command[0]} is not installed"))


@pytest.fixture(name="world")
def fixture_world(tmp_path: Path) -> World:
    """A machine on which there is nothing at all."""
    return World(tmp_path / "root", tmp_path / "state", "slot", str(tmp_path / "docker.sock"), Programs())


def write(world: World, name: str, text: str) -> None:
    path = world.path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.fixture(name="deployed")
def fixture_deployed(world: World) -> t.Iterator[t.Callable[..., None]]:
    """Deploys something: a container, its record, its state and its log."""
    servers = []

    def deploy(log: str = "", state: t.Any = None, spark: World = world, **record: t.Any) -> None:
        labels = {"dgx_spark.speculative.deployment": "demo", "dgx_spark.speculative.configuration": "abc"}
        container = {"Config": {"Labels": labels}, "State": {"Status": "running"}, "Image": "sha256:1"}
        whole = {"deployment": "demo", "container": {"labels": labels}, "url": "http://127.0.0.1:9", **record}
        folder = spark.state_directory / "demo" / "state"
        folder.mkdir(parents=True)
        (folder.parent / "record.json").write_text(json.dumps(whole))
        (folder / "state.json").write_text(json.dumps(state or {"state": "running", "since": 1.0}))
        (folder / "server.log").write_text(log)
        servers.append(DockerServer(Path(spark.socket), {"/containers/slot/json": container}))

    yield deploy
    for server in servers:
        server.shutdown()
        server.server_close()


def reason(sensor: t.Callable[[World], t.Any], world: World) -> str:
    with pytest.raises(NotMeasured) as caught:
        sensor(world)
    return str(caught.value)


def test_with_everything_taken_away_each_row_says_why(world: World) -> None:
    rows = [measured(sensor, world) for sensor in (*machine.MACHINE, *link.sensors("1/0"), *serving.SERVING)]
    # What can be seen where there is nothing: no marker, no card, no specifications, and the processor.
    seen = {row["id"]: row["value"] for row in rows if "value" in row}
    assert seen.pop("architecture")
    assert seen == {"cdi": [], "hotplug_marker": "not armed", "pci_connectx": [], "infiniband_nodes": []}
    assert all(len(row["not_measured"]) > 10 for row in rows if "value" not in row)
    assert len({row["id"] for row in rows}) == len(rows)


def test_a_sensor_that_stumbles_hides_no_other(world: World) -> None:
    row = measured(Sensor("a", "S", "A", lambda world: os.environ["GONE_FROM_HERE"], "how"), world)
    assert row["not_measured"] == "what was found cannot be read (KeyError: 'GONE_FROM_HERE')"


def test_the_serial_number_is_left_out(world: World) -> None:
    write(
        world,
        "/etc/dgx-release",
        'DGX_NAME="DGX Spark"\nDGX_SERIAL_NUMBER="123"\nDGX_OTA_VERSION="7.4"\nDGX_OTA_VERSION="7.5"\n',
    )
    assert machine.dgx_release(world) == ["DGX_NAME DGX Spark", "DGX_OTA_VERSION 7.5"]


def test_no_virtualisation_is_an_answer(world: World) -> None:
    # systemd-detect-virt exits with 1 then.
    world.run = Programs(systemd_detect_virt=(1, "none\n", ""))
    assert machine.virtualisation(world) == "none"


def test_what_nvidia_smi_complains_of(world: World) -> None:
    world.run = Programs(nvidia_smi=(18, "Failed to initialize NVML: Driver/library version mismatch\n", ""))
    said = "'nvidia-smi' ended with 18: Failed to initialize NVML: Driver/library version mismatch"
    assert reason(machine.gpu, world) == said


def test_packages_that_are_there(world: World) -> None:
    # dpkg-query exits with 1 where it does not know one of them.
    world.run = Programs(dpkg_query=(1, "docker-ce 5:29.2.1\nperftest \n", "no packages found matching rdma-core"))
    assert machine.packages(world) == ["docker-ce 5:29.2.1"]


def test_the_card(world: World) -> None:
    write(world, machine.MARKER, "")
    write(world, machine.SLOT_STATE, "powered\n")
    device = "/sys/bus/pci/devices/0000:01:00.1"
    for name, text in (
        ("vendor", "0x15b3"),
        ("device", "0x1021"),
        ("current_link_width", "4"),
        ("current_link_speed", "32.0 GT/s PCIe"),
    ):
        write(world, f"{device}/{name}", f"{text}\n")
    write(world, "/sys/bus/pci/devices/0000:02:00.0/vendor", "0x10de\n")
    write(world, "/sys/class/infiniband/rocep1s0f1/fw_ver", "28.45.4028\n")
    assert machine.hotplug_marker(world) == "armed"
    assert machine.hotplug_state(world) == "powered"
    assert machine.pci_connectx(world) == ["0000:01:00.1: link x4 32.0 GT/s PCIe, at best unknown"]
    assert machine.card_firmware(world) == ["28.45.4028"]


def test_the_store_of_docker(world: World) -> None:
    info = {"Driver": "overlayfs", "DriverStatus": [["driver-type", "io.containerd.snapshotter.v1"]]}
    server = DockerServer(Path(world.socket), {"/info": info})
    assert machine.docker_store(world) == "overlayfs io.containerd.snapshotter.v1"
    server.shutdown()
    server.server_close()


def test_the_last_kv_cache_of_the_run_that_serves_counts(world: World, deployed: t.Callable[..., None]) -> None:
    deployed(
        "[MemUsageChange] Allocated 0.19 GiB for max tokens in paged KV cache (4128).\n"
        "[W] Attention window size 131104 exceeds upper bound 65536 for available blocks. Reducing to 65536\n"
        "[MemUsageChange] Allocated 4.62 GiB for max tokens in paged KV cache (65536).\n",
        options={"kv_cache_config": {"max_tokens": 131104}},
    )
    assert serving.kv_made(world) == "65,536 tokens, 4.62 GiB, reduced to 65,536"
    assert serving.kv_planned(world) == 131104


def test_what_cuda_called_free(world: World, deployed: t.Callable[..., None]) -> None:
    deployed(free_for_gpu="101 GB according to CUDA, 118 GB available")
    assert serving.free_for_gpu(world) == "101 GB according to CUDA, 118 GB available"


def test_the_curve_of_the_memory_guard(world: World, deployed: t.Callable[..., None]) -> None:
    gib = 2**30

    def samples(begin: float, levels: t.Sequence[float]) -> list[dict[str, t.Any]]:
        every = (len(levels) - 1) / 60
        found = [(begin + number / every, int(level * gib)) for number, level in enumerate(levels)]
        return [{"at": at, "available": level, "free": level // 2, "swap": 0} for at, level in found]

    plan = {"landing": 12 * gib, "takes": 98 * gib, "floor": 4 * gib, "watch": 10 * gib}
    older = [{"at": 0, "event": "loading", "available": 1}, *samples(0, [50, 3]), {"at": 90, "event": "ended"}]
    newer = [
        {"at": 100, "event": "loading", "available": 110 * gib, **plan},
        *samples(100, [110 - number * 0.1 for number in range(980)]),
        {"at": 150, "event": "SIGTERM", "reason": "it fell"},
        {"at": 161, "event": "ready"},
        *samples(162, [2, 2]),
    ]
    deployed()
    assert "does not reach back to the load" in reason(serving.guard_curve, world)
    state = world.state_directory / "demo/state"
    lines = [json.dumps(line) + "\n" for line in (*older, *newer)]
    (state / "memory.log.1").write_text("".join(lines[:500]), encoding="utf-8")
    # What was written last may be cut.
    (state / "memory.log").write_text("".join(lines[500:]) + '{"at": 1', encoding="utf-8")
    curve = serving.guard_curve(world)
    assert curve[0][:2] == [pytest.approx(0, abs=0.3), pytest.approx(110 * gib, rel=0.01)]
    assert curve[-1] == [pytest.approx(60, abs=0.3), int(12.1 * gib), int(12.1 * gib) // 2]
    assert 250 < len(curve) <= 301
    assert serving.guard_plan(world) == [
        "lands at 12.0 GiB",
        "a fall counts below 10.0 GiB",
        "kept free 4.0 GiB",
        "lowest 12.1 GiB",
        "SIGTERM: it fell",
    ]


def test_what_serves(world: World, deployed: t.Callable[..., None]) -> None:
    plan = [{"name": "weights of a", "bytes": 65_250_000_000}, {"name": "unknown", "bytes": None}]
    deployed(state={"state": "running", "loading_s": 91.5}, plan=plan, measurements={"tokens_per_second": 40.5})
    assert serving.deployment(world) == "demo"
    assert serving.state(world) == "running, running"
    assert serving.loading_time(world) == 91.5
    assert serving.plan(world) == ["weights of a: 65.2 GB", "together: 65.2 GB"]
    assert serving.measurement("tokens_per_second")(world) == 40.5
    assert "was not asked when this was deployed" in reason(serving.free_for_gpu, world)
    assert "did not tell" in reason(serving.measurement("acceptance_length"), world)
    assert reason(serving.kv_made, world) == "no line of the server's log says so"
    assert reason(serving.figures, world).startswith("the server does not answer (")
    assert reason(link.by_rdma, world) == "what is deployed here serves on one Spark"


def test_all_rows_of_the_server_are_of_one_moment(world: World, deployed: t.Callable[..., None]) -> None:
    deployed(state={"state": "running", "loading_s": 91.5}, image={"reference": "release:1"})
    before = serving.image(world), serving.loading_time(world)
    for path in world.state_directory.glob("demo/**/*.json"):
        path.unlink()
    Path(world.socket).unlink()
    assert (serving.image(world), serving.loading_time(world)) == before == ("release:1", 91.5)
    assert serving.state(world) == "running, running"


PEAK = "[TRT-LLM] [I] Peak memory during memory usage profiling (torch + non-torch): 91.46 GiB"
ALLOCATED = "[MemUsageChange] Allocated {} GiB for max tokens in paged KV cache ({})."


def test_every_kv_cache_of_the_engine_is_told(world: World, deployed: t.Callable[..., None]) -> None:
    lines = [ALLOCATED.format("0.19", 4128)] * 2 + [PEAK, ALLOCATED.format("4.62", 65536), ALLOCATED.format("0.20", 9)]
    # A second rank says the same.
    deployed("\n".join(lines + lines[2:]))
    assert serving.kv_made(world) == "65,536 tokens, 4.62 GiB and 9 tokens, 0.20 GiB"


MADE = "(EngineCore pid=38) INFO 11-28 04:18:49 [kv_cache_utils.py:2327] GPU KV cache size: 65,536 tokens, Maximum"


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("", "65,536 tokens"),
        ("Available KV cache memory: 35.78 GiB", "65,536 tokens, 35.78 GiB"),
        ("Initial free memory 90.1 GiB, reserved 4.0 GiB memory for KV Cache as", "65,536 tokens, 4.0 GiB"),
        ("Explicitly set (0.12/16.71) GiB for KV cache on node 0.", "65,536 tokens, 0.12 GiB"),
    ],
)
def test_the_kv_cache_of_vllm(world: World, deployed: t.Callable[..., None], line: str, told: str) -> None:
    # An earlier start made another one.
    earlier = (
        f"{MADE.replace('65,536', '9')}\nAvailable KV cache memory: 1.0 GiB\n[entrypoint] the server ended with 1\n"
    )
    deployed(f"{earlier}{line}\n{MADE}\n", engine="vllm", options={"kv-cache-memory-bytes": 4 * 2**30})
    assert serving.kv_made(world) == told
    # Its options have bytes, which are no tokens.
    assert reason(serving.kv_planned, world) == "the engine options plan no number of tokens"


@pytest.mark.parametrize(
    ("engine", "said"),
    [
        ("tensorrt_llm", "/prometheus/metrics answers with 404; it needs return_perf_metrics: true"),
        ("vllm", "/metrics answers with 404"),
    ],
)
def test_a_server_without_figures(
    world: World, deployed: t.Callable[..., None], monkeypatch: pytest.MonkeyPatch, engine: str, said: str
) -> None:
    deployed(engine=engine)
    monkeypatch.setattr(serving, "page", lambda _world, _path: (404, ""))
    assert reason(serving.figures, world) == said


def test_the_network_between_the_ranks_is_told_by_nccl(world: World, deployed: t.Callable[..., None]) -> None:
    deployed(cluster={"rank": 1, "rails": [RAIL]}, state={"state": "rank_runs"})
    assert reason(serving.network, world) == "no log of NCCL in the state directory tells"
    text = "a:7:9 [0] NCCL INFO NET/IB : Using [0]rocep1s0f1:1/RoCE [RO]; OOB a\na:7:9 [0] NCCL INFO Using network IB\n"
    (world.directory() / "state/nccl.a.7").write_text(text, encoding="utf-8")
    assert serving.network(world) == "NCCL uses RDMA (IB) over rocep1s0f1"


def test_health_is_asked_of_the_head(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(world, "labels", lambda: {RANK_LABEL: "2"})
    assert reason(serving.health, world) == "a worker has no API; the head is asked"


def test_one_spark_has_no_network_between_ranks(world: World, deployed: t.Callable[..., None]) -> None:
    deployed()
    assert reason(serving.network, world) == "what is deployed here serves on one Spark"


@pytest.mark.parametrize("sent", [b"nonsense\r\n", b""])
def test_a_server_that_breaks_off_its_answer(world: World, deployed: t.Callable[..., None], sent: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def break_off() -> None:
            connection, _address = server.accept()
            with connection:
                connection.recv(4096)
                connection.sendall(sent)

        threading.Thread(target=break_off, daemon=True).start()
        deployed(url=f"http://127.0.0.1:{server.getsockname()[1]}")
        assert reason(serving.health, world).startswith("the server does not answer (")


def test_what_a_server_answers(world: World, deployed: t.Callable[..., None]) -> None:
    server = Server()
    deployed(engine="vllm", url=server.url)
    assert (serving.health(world), reason(serving.figures, world)) == (200, "/metrics answers with 404")
    server.close()


def test_the_import_leaves_the_server_its_memory(world: World, deployed: t.Callable[..., None]) -> None:
    deployed()
    world.run = programs = Programs(docker=(0, "banner\ndgx-spark-import cold 71.3\ndgx-spark-import warm 9.0\n", ""))
    write(world, "/proc/meminfo", "MemAvailable: 8000000 kB\n")
    assert reason(serving.cold_import, world).startswith("only 8 GB of memory are available, and 16 are wanted")
    assert programs.asked == []
    write(world, "/proc/meminfo", "MemAvailable: 80000000 kB\n")
    assert serving.cold_import(world) == ["cold 71.3 s", "warm 9.0 s"]
    assert programs.asked[-1] == ("docker", "rm", "--force", serving.IMPORT_NAME)


def test_the_memory_is_watched_until_a_file_is_there(world: World, tmp_path: Path) -> None:
    write(world, "/proc/meminfo", "MemFree: 2 kB\nMemAvailable: 3 kB\n")
    end = tmp_path / "end"
    assert len(serving.watch(world, end, deadline=0.05, pause=0.01)) > 1
    end.touch()
    assert [sample[1:] for sample in serving.watch(world, end, deadline=60)] == [[2048, 3072]]
    assert not end.exists()


@pytest.mark.parametrize(("rank", "peer"), [(0, ["192.168.100.11"]), (1, [])])
def test_rdma(world: World, deployed: t.Callable[..., None], rank: int, peer: list[str]) -> None:
    deployed(cluster={"rank": rank, "rails": [RAIL]})
    world.run = programs = Programs(ib_write_bw=(0, IB_WRITE_BW, ""))
    assert link.by_rdma(world) == ["enp1s0f1np1 92.57 Gb/s"]
    assert list(programs.asked[0][-len(peer) :] if peer else []) == peer


def test_rdma_of_a_worker_that_begins_later(world: World, deployed: t.Callable[..., None]) -> None:
    deployed(cluster={"rank": 0, "rails": [RAIL]})
    answers = [(1, "", "Couldn't connect to 192.168.100.11:2236"), (0, IB_WRITE_BW, "")]
    world.run = lambda _command, deadline: answers.pop(0)
    assert link.by_rdma(world) == ["enp1s0f1np1 92.57 Gb/s"]
    assert answers == []


def test_rdma_without_the_tool(world: World, deployed: t.Callable[..., None]) -> None:
    deployed(cluster={"rank": 0, "rails": [RAIL]})
    assert reason(link.by_rdma, world) == "ib_write_bw is not installed"


# By TCP, with the role's own program at both ends of this machine, all of whose addresses begin with 127.

BANDWIDTH = base64.b64encode(program("bandwidth")).decode()


class Ends(t.NamedTuple):
    head: World
    worker: World


@pytest.fixture(name="ends")
def fixture_ends(tmp_path: Path, deployed: t.Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> Ends:
    """Two Sparks that serve as one, with the programs of this machine."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        monkeypatch.setattr(link, "PORT", server.getsockname()[1])
    monkeypatch.setattr(link, "BYTES", 20_000_000)
    addresses = ("127.0.0.1", "127.0.0.2")
    ends = Ends(*(World(tmp_path, tmp_path / f"state-{n}", "slot", str(tmp_path / f"{n}.sock")) for n in (0, 1)))
    for rank, spark in enumerate(ends):
        way = {"interface": "rail0", "address": addresses[rank], "peer_address": addresses[1 - rank]}
        deployed(spark=spark, cluster={"rank": rank, "rails": [way]})
    return ends


def test_tcp(ends: Ends) -> None:
    said: list[str] = []
    read = link.by_tcp(BANDWIDTH)
    worker = threading.Thread(target=lambda: said.append(reason(read, ends.worker)))
    worker.start()
    (line,) = read(ends.head)
    worker.join(timeout=WITHIN_S)
    assert re.fullmatch(r"rail0 [\d.]+ Gb/s by TCP", line)
    assert said == ["the head tells what has arrived here"]
    # A field check changes nothing, so the role measures as if nobody had.
    assert [bandwidth.read_bandwidth(spark.state_directory) for spark in ends] == [[], []]


def test_tcp_that_cannot_be_measured(ends: Ends) -> None:
    with socket.create_server(("127.0.0.2", link.PORT)):
        said = reason(link.by_tcp(BANDWIDTH), ends.worker)
    assert said.startswith(f"The bandwidth test failed: port {link.PORT} of 127.0.0.2 cannot be opened")

# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The two containers of a pair, as processes; sshd and mpirun's daemon are test doubles where the test says so."""

from __future__ import annotations

import fcntl
import functools
import json
import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import time
import types
import typing as t
from pathlib import Path

import pytest
import yaml
from server import cluster, health, loading, rdma
from server import head as heads
from server.launchers.mpi import login as launching
from server.launchers.mpi import sshd as workers
from server.launchers.mpi.launcher import LAUNCHER

from tests.twin.spark.meminfo import resident_bytes
from tests.unit.entrypoint_container import FILES, SAY_OPTIONS, Benchmark
from tests.unit.memory import QUICK, Memory, Seen
from tests.unit.pair_container import (
    HEAD,
    SSHD,
    THIRD,
    WORKER,
    Listener,
    PairContainer,
    Server,
    rdma_device,
    rdma_node,
)
from tests.unit.replay_server import free_port
from tests.unit.waiting import WITHIN_S, until

# As Open MPI 4.1.4 of Debian, HPC-X's of NVIDIA's images and Open MPI 5.0.7 send them.
OPEN_MPI_4 = (
    ' orted -mca ess "env" -mca ess_base_jobid "1326579712" -mca ess_base_vpid 1 -mca orte_hnp_uri '
    '"1326579712.0;tcp://10.77.0.1:53893" --mca oob_tcp_if_include "10.77.0.0/24" -mca plm "rsh" --tree-spawn '
    '-mca plm_rsh_agent "ssh -F /run/dgx-spark-cluster/ssh_config" -mca pmix "^s1,s2,cray,isolated"'
)
HPCX = (
    "   OPAL_PREFIX=/opt/hpcx/ompi ; export OPAL_PREFIX;    PATH=/opt/hpcx/ompi/bin:$PATH ; export PATH ; "
    "LD_LIBRARY_PATH=/opt/hpcx/ompi/lib:${LD_LIBRARY_PATH:-} ; export LD_LIBRARY_PATH ; "
    "DYLD_LIBRARY_PATH=/opt/hpcx/ompi/lib:${DYLD_LIBRARY_PATH:-} ; export DYLD_LIBRARY_PATH ;   "
    '/opt/hpcx/ompi/bin/orted -mca ess "env" -mca orte_node_regex "spark-[4:1000-1001]@0(2)"'
)
OPEN_MPI_5 = (
    "PRTE_PREFIX=/usr;export PRTE_PREFIX;LD_LIBRARY_PATH=/usr/lib:/usr/lib/pmix2/lib:$LD_LIBRARY_PATH;"
    'export LD_LIBRARY_PATH;/usr/bin/prted --allow-run-as-root --prtemca ess "env" --prtemca prte_hnp_uri '
    '"prterun-spark-a-6@0.0;tcp://10.77.0.1:43015:24" --prtemca prte_if_include "enp1s0f1np1" --tree-spawn'
)


def test_the_daemon_of_open_mpi_4_is_taken_from_its_line() -> None:
    command, environment = launching.daemon_command(OPEN_MPI_4, {"PATH": "/bin"})
    assert command[:3] == ["orted", "-mca", "ess"]
    assert "1326579712.0;tcp://10.77.0.1:53893" in command
    assert "ssh -F /run/dgx-spark-cluster/ssh_config" in command
    assert environment == {"PATH": "/bin"}


def test_what_mpirun_sets_for_its_daemon_is_set_upon_the_containers_environment() -> None:
    command, environment = launching.daemon_command(HPCX, {"PATH": "/bin", "NCCL_IB_HCA": "x"})
    assert command[0] == "/opt/hpcx/ompi/bin/orted"
    assert command[-1] == "spark-[4:1000-1001]@0(2)"
    assert environment == {
        "PATH": "/opt/hpcx/ompi/bin:/bin",
        "NCCL_IB_HCA": "x",
        "OPAL_PREFIX": "/opt/hpcx/ompi",
        "LD_LIBRARY_PATH": "/opt/hpcx/ompi/lib:",
        "DYLD_LIBRARY_PATH": "/opt/hpcx/ompi/lib:",
    }


def test_open_mpi_5_gets_the_workers_own_interfaces() -> None:
    command, environment = launching.daemon_command(OPEN_MPI_5, {"LD_LIBRARY_PATH": "/own"})
    assert environment["LD_LIBRARY_PATH"] == "/usr/lib:/usr/lib/pmix2/lib:/own"
    changed = launching.with_own_interfaces(command, {"NCCL_SOCKET_IFNAME": "=enp1s0f0np0,enP2p1s0f0np0"})
    assert [new for old, new in zip(command, changed) if old != new] == ["enp1s0f0np0,enP2p1s0f0np0"]
    assert launching.with_own_interfaces(command, {}) == command


@pytest.mark.parametrize(
    "line",
    [
        "",
        "id",
        "sh -c orted",
        "orted; id",
        "id; orted",
        "orted && id",
        "orted | id",
        "orted > /etc/passwd",
        "orted `id`",
        "orted $(id)",
        'orted "$(id)"',
        "orted\nid",
        "PATH=$(id); export PATH; orted",
        "LD_PRELOAD=/x; export LD_PRELOAD; orted",
        "PATH=/x id; orted",
        "( test ! -r ./.profile || . ./.profile; orted",
        "orted 'not closed",
        "/usr/bin/env orted",
        "orted; ''",
    ],
)
def test_everything_else_is_refused(line: str) -> None:
    with pytest.raises(launching.Refused):
        launching.daemon_command(line, {"PATH": "/bin"})


@pytest.mark.parametrize(
    ("value", "known", "expected"),
    [
        ("/a:$X", {"X": "b"}, "/a:b"),
        ("/a:$X", {}, "/a:"),
        ("/a:${X}", {"X": "$HOME"}, "/a:$HOME"),
        ("/a${X:+:}$X", {"X": "b"}, "/a:b"),
        ("/a${X:+:}$X", {}, "/a"),
    ],
)
def test_variables_are_put_in_as_a_shell_would(value: str, known: dict[str, str], expected: str) -> None:
    assert launching.expand(value, known) == expected


def test_an_environment_that_describes_no_pair_is_refused() -> None:
    with pytest.raises(ValueError, match="DGX_SPARK_FABRIC_ADDRESSES"):
        cluster.Cluster.from_environment({"DGX_SPARK_RANK": "0"})


def test_why_nobody_opens_is_said() -> None:
    port = free_port(WORKER)
    assert cluster.knock(WORKER, port, HEAD) == (
        f"nothing listens at {WORKER} port {port}: its container does not run or is still starting"
    )
    assert cluster.knock(WORKER, port, "192.0.2.1") == "this Spark's own fabric address 192.0.2.1 is gone"
    listener = Listener(b"HTTP/1.1 400\r\n")
    listener.open()
    assert cluster.knock(WORKER, listener.port, HEAD) is None
    assert cluster.knock(WORKER, listener.port, HEAD, greeting=LAUNCHER.greeting) == (
        f"what listens at {WORKER} port {listener.port} is not the worker's container"
    )
    listener.close()
    # A kernel that lives takes connections until its queue is full; sshd may not.
    with socket.create_server((WORKER, 0)) as silent:
        where = f"{WORKER} port {silent.getsockname()[1]}"
        assert cluster.knock(WORKER, silent.getsockname()[1], HEAD) is None
        assert cluster.knock(WORKER, silent.getsockname()[1], HEAD, timeout=0.2, greeting=LAUNCHER.greeting) == (
            f"no greeting from {where} within 0.2 s: its container is paused, hangs or waits for memory"
        )


@pytest.fixture(name="listener")
def fixture_listener() -> t.Iterator[Listener]:
    listener = Listener()
    yield listener
    listener.close()


@pytest.fixture(name="server")
def fixture_server() -> t.Iterator[Server]:
    with Server() as server:
        yield server


@pytest.fixture(name="start")
def fixture_start(tmp_path: Path) -> t.Iterator[t.Callable[..., PairContainer]]:
    started: list[PairContainer] = []

    def start(*arguments: str, **options: t.Any) -> PairContainer:
        started.append(PairContainer(tmp_path, arguments, **options))
        return started[-1]

    yield start
    for container in started:
        container.end()
        container.process.wait()


Start = t.Callable[..., PairContainer]


def test_the_head_waits_for_its_worker(start: Start, listener: Listener, server: Server) -> None:
    head = start(port=listener.port, url=server.url)
    state = head.wait_for("waiting for the worker")
    assert state["reason"] == (
        f"nothing listens at {WORKER} port {listener.port}: its container does not run or is still starting"
    )
    assert (state["peers"][0]["address"], state["peers"][0]["reachable"]) == (WORKER, False)
    listener.open()
    state = head.wait_for("running")
    assert (state["restarts"], state["reason"], state["peers"][0]["reachable"]) == (0, None, True)
    assert head.stop() == 0


@pytest.mark.parametrize("addresses", ["192.0.2.1,127.0.1.1", f"{HEAD},192.0.2.1"])
def test_the_head_waits_for_its_own_addresses(start: Start, addresses: str) -> None:
    state = start(environment={"DGX_SPARK_FABRIC_ADDRESSES": addresses}).wait_for("waiting for the worker")
    assert state["reason"] == (
        "this Spark does not have its fabric address 192.0.2.1: is the cable in, and does 'ip address' show it?"
    )


def test_a_head_that_waits_obeys_the_order_to_stop(start: Start, listener: Listener) -> None:
    head = start(port=listener.port)
    head.wait_for("waiting for the worker")
    assert head.stop() == 0
    assert head.state()["state"] == "stopped"


def test_a_lost_worker_ends_the_server_which_comes_back_with_it(
    start: Start, listener: Listener, server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    listener.open()
    head = start(port=listener.port, url=server.url, lost_s=0.6)
    pid = head.wait_for("running")["pid"]
    listener.close()
    state = head.wait_for("peer lost")
    # Said when it is lost, when its server has ended, and when it is waited for.
    lost = "the worker has not answered for 0.6 s (nothing listens at "
    assert state["reason"].startswith((lost, f"peer lost: {lost}", "nothing listens at "))
    assert health.main(head.directory, server.url) == 1
    assert capsys.readouterr().out.startswith("peer lost: ")
    head.wait_until(lambda state: state["pid"] is None)
    assert not Path(f"/proc/{pid}").exists()
    assert "peer lost: the worker has not answered for 0.6 s" in (head.directory / "state/peer-lost.log").read_text()
    # That is for an engine that hangs.
    assert not (head.directory / "state/stalled.log").exists()
    # However long it stays away: it is looked for ten times a second.
    time.sleep(0.5)
    assert head.state()["state"] == "peer lost"
    listener.open()
    state = head.wait_for("running")
    assert (state["restarts"], state["peers"][0]["reachable"]) == (0, True)
    assert state["last_exit"]["by"] == "watchdog"
    assert state["last_exit"]["reason"].startswith("peer lost: ")
    assert state["last_exit"]["excused"] is True


def test_a_worker_that_stands_still_while_its_kernel_takes_connections_is_lost(
    start: Start, listener: Listener, server: Server
) -> None:
    listener.open()
    head = start(port=listener.port, url=server.url, lost_s=1.2)
    head.wait_for("running")
    listener.paused.set()
    state = head.wait_for("peer lost")
    assert f"no greeting from {WORKER} port {listener.port}" in state["reason"]
    head.wait_until(lambda state: state["pid"] is None)
    listener.paused.clear()
    assert head.wait_for("running")["restarts"] == 0


@pytest.mark.parametrize("ready", [True, False], ids=["ready", "loading"])
def test_with_the_default_inputs_a_paused_worker_is_lost_in_the_promised_time(
    monkeypatch: pytest.MonkeyPatch, ready: bool
) -> None:
    """The promise is 60 s, and counts from the end of the pause: what is found while it lasts is found in time."""
    defaults = yaml.safe_load((FILES.parent / "defaults/main.yml").read_text(encoding="utf-8"))
    given = {
        "DGX_SPARK_RANK": "0",
        "DGX_SPARK_FABRIC_ADDRESSES": HEAD,
        "DGX_SPARK_PEER_ADDRESSES": WORKER,
        "DGX_SPARK_PEER_LOST_S": str(defaults["speculative_serve_worker_timeout_s"]),
    }
    peer = heads.Peer(WORKER, cluster.Cluster.from_environment(given), LAUNCHER)
    peer.greets = ready
    now = 0.0
    lost_at: list[float] = []

    def knock(_address: str, _port: int, _source: str, timeout: float, greeting: bytes = b"") -> str | None:
        nonlocal now
        # Paused from the beginning: the kernel takes connections all the same.
        now += timeout if greeting else 0
        return "no greeting" if greeting else None

    def wait(seconds: float) -> bool:
        nonlocal now
        if peer.lost_for >= peer.cluster.lost_s:
            lost_at.append(now)
        now += seconds
        return now > 300

    monkeypatch.setattr(heads, "knock", knock)
    monkeypatch.setattr(heads, "time", types.SimpleNamespace(monotonic=lambda: now, time=lambda: now))
    monkeypatch.setattr(peer.unwanted, "wait", wait)
    peer.run()
    # While weights are read nothing can be concluded from a silence.
    assert (min(lost_at) <= 80) if ready else not lost_at


def test_a_short_loss_ends_nothing(start: Start, listener: Listener, server: Server) -> None:
    listener.open()
    # So short that it is over before a slow machine has counted that many seconds.
    head = start(port=listener.port, url=server.url, lost_s=600, head__LOOK_EVERY_S=0.2, head__METER_EVERY_S=0.2)
    pid = head.wait_for("running")["pid"]
    listener.close()
    head.wait_until(lambda state: state["peers"][0]["reachable"] is False)
    assert head.state()["state"] == "running"
    listener.open()
    state = head.wait_until(lambda state: state["peers"][0]["reachable"] is True)
    assert (state["state"], state["pid"]) == ("running", pid)


def test_a_server_that_generates_is_not_ended_though_its_worker_does_not_answer(
    start: Start, listener: Listener, server: Server
) -> None:
    server.moving = True
    listener.open()
    head = start(port=listener.port, url=server.url, lost_s=0.6, head__METER_EVERY_S=0.2)
    pid = head.wait_for("running")["pid"]
    listener.close()
    head.wait_until(lambda state: state["peers"][0]["reachable"] is False)
    # The figures are asked for when it is lost, and then again and again.
    until(lambda: server.asked > 5)
    assert (head.state()["state"], head.state()["pid"]) == ("running", pid)
    server.moving = False
    head.wait_for("peer lost")


def test_a_head_tells_its_worker_that_the_server_is_ready_until_it_has_heard(
    start: Start, listener: Listener, server: Server, tmp_path: Path
) -> None:
    said = tmp_path / "said"
    add_program(tmp_path, "ssh", f'#!/bin/sh\n[ ! -e {said} ] || echo {cluster.HEARD}\necho "$@" >> {said}\n')
    listener.open()
    head = start(port=listener.port, url=server.url, lost_s=0.6)
    head.wait_for("running")
    until(lambda: said.exists() and said.read_text("utf-8").count("\n") > 1)
    # And not again: it is looked at five times a second.
    time.sleep(0.5)
    assert said.read_text(encoding="utf-8") == 2 * f"-F {tmp_path}/run/ssh_config {WORKER} {cluster.READY}\n"


def test_a_head_of_three_waits_for_both_workers_and_ends_without_one(
    start: Start, listener: Listener, server: Server
) -> None:
    third = Listener(address=THIRD, port=listener.port)
    peers = {"DGX_SPARK_PEER_ADDRESSES": f"{WORKER},{THIRD},127.0.1.2,127.0.1.3"}
    listener.open()
    head = start(port=listener.port, url=server.url, lost_s=0.6, environment=peers)
    state = head.wait_for("waiting for the worker")
    assert [(peer["address"], peer["reachable"]) for peer in state["peers"]] == [(WORKER, True), (THIRD, False)]
    assert state["reason"].startswith(f"nothing listens at {THIRD} port {listener.port}")
    third.open()
    state = head.wait_for("running")
    assert [peer["reachable"] for peer in state["peers"]] == [True, True]
    third.close()
    state = head.wait_for("peer lost")
    assert state["reason"].startswith(("the worker has not answered", "peer lost: ", f"nothing listens at {THIRD}"))
    assert state["restarts"] == 0
    third.open()
    head.wait_for("running")
    third.close()


def wait_for(file: Path) -> str:
    """In a script of a server."""
    return f"until [ -e {file} ]; do sleep 0.05; done"


def test_the_end_of_a_server_without_its_worker_does_not_count(
    start: Start, listener: Listener, tmp_path: Path
) -> None:
    listener.open()
    head = start(port=listener.port, script=f"{wait_for(tmp_path / 'end')}; echo lost communication; exit 1")
    head.wait_for("loading")
    listener.close()
    (tmp_path / "end").touch()
    # Not even for a moment is it one that ended by itself.
    state = head.wait_until(lambda state: state["state"] != "loading")
    assert (state["state"], state["restarts"]) == ("waiting for the worker", 0)
    assert (state["last_exit"]["reason"], state["last_exit"]["excused"]) == ("lost communication", True)


def test_nor_does_that_of_one_whose_worker_is_back_already(start: Start, listener: Listener, tmp_path: Path) -> None:
    listener.open()
    script = f"{wait_for(tmp_path / 'end')}; echo ----; exit 1"
    head = start(port=listener.port, script=script, lost_s=600, head__LOOK_EVERY_S=0.2)
    head.wait_for("loading")
    listener.close()
    head.wait_until(lambda state: state["peers"][0]["reachable"] is False)
    listener.open()
    head.wait_until(lambda state: state["peers"][0]["reachable"] is True)
    (tmp_path / "end").touch()
    state = head.wait_until(lambda state: state["last_exit"] is not None)
    assert (state["restarts"], state["last_exit"]["excused"]) == (0, True)


def test_with_its_worker_there_it_counts(start: Start, listener: Listener) -> None:
    listener.open()
    state = start(port=listener.port, script="exit 3").wait_for("failed")
    assert (state["restarts"], state["last_exit"]["excused"]) == (3, False)


def test_a_trial_ends_with_the_worker(start: Start, listener: Listener, server: Server, tmp_path: Path) -> None:
    listener.open()
    benchmark = Benchmark(tmp_path)
    head = start(port=listener.port, url=server.url, script=f"{SAY_OPTIONS}; exec sleep 60", lost_s=0.6)
    head.wait_for("running")
    trial = benchmark.try_out(3)
    head.wait_until(lambda state: (state["state"], state["trial"]) == ("running", trial))
    listener.close()
    state = head.wait_for("trial failed")
    assert state["reason"].startswith("peer lost: the worker has not answered for 0.6 s")
    assert state["trial"] == trial
    # The deployment's own server waits for the worker as ever.
    benchmark.take_back()
    state = head.wait_for("peer lost")
    assert (state["trial"], state["last_exit"]) == (None, None)
    listener.open()
    state = head.wait_for("running")
    assert (state["trial"], state["restarts"]) == (None, 0)
    assert head.options() == ["options.yml", "trial/options.yml", "options.yml"]


def test_a_launcher_that_outlives_its_server_is_ended(
    start: Start, listener: Listener, server: Server, tmp_path: Path
) -> None:
    front = tmp_path / "bin" / "trtllm-serve"
    front.parent.mkdir()
    front.write_text(f"#!/bin/sh\necho 'CUDA out of memory'; {wait_for(tmp_path / 'end')}\n", encoding="utf-8")
    front.chmod(0o755)
    server.status = 503
    listener.open()
    head = start(
        port=listener.port,
        url=server.url,
        script="trtllm-serve & sleep 600",
        head__FRONT_EVERY_S=0,
        head__FRONT_GONE_S=0.5,
    )
    until(lambda: "CUDA out of memory" in head.log())
    # Between two looks at the server's health is one at what runs.
    looked = server.looked
    until(lambda: server.looked > looked + 2)
    (tmp_path / "end").touch()
    state = head.wait_until(lambda state: state.get("last_exit"))
    assert (
        state["last_exit"]["reason"]
        == "unhealthy: trtllm-serve has ended, but its launcher still runs: CUDA out of memory"
    )


# RDMA devices, of which NCCL says nothing when they are missing.
RAILS = {"NCCL_IB_HCA": "rocep1s0f1,roceP2p1s0f1:1"}


@pytest.mark.parametrize(
    ("environment", "named"),
    [
        (RAILS, ["rocep1s0f1", "roceP2p1s0f1"]),
        ({"NCCL_IB_HCA": "=mlx5_0"}, ["mlx5_0"]),
        # NCCL takes a name for the beginning of one, but after '='.
        ({"NCCL_IB_HCA": "mlx5"}, ["mlx5_0", "mlx5_1"]),
        ({"NCCL_IB_HCA": "=mlx5"}, ["mlx5"]),
        ({"NCCL_IB_HCA": "mlx,mlx5_1"}, ["mlx5_0", "mlx5_1"]),
        ({"NCCL_IB_HCA": "^mlx5_0"}, []),
        ({**RAILS, "NCCL_IB_DISABLE": "1"}, []),
        ({**RAILS, "NCCL_NET": "Socket"}, []),
        ({}, []),
    ],
)
def test_the_devices_that_nccl_is_to_use(environment: dict[str, str], named: list[str]) -> None:
    assert rdma.devices(environment, ["mlx5_0", "mlx5_1"]) == named


def test_a_card_that_counts_anew_is_not_what_the_container_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rdma, "CLASS", tmp_path / "verbs")
    monkeypatch.setattr(rdma, "NODES", tmp_path / "nodes")
    rdma_device(tmp_path, "rocep1s0f1", number="231:196")
    rdma_device(tmp_path, "roceP2p1s0f1", "uverbs2")
    for node in ("uverbs0", "uverbs2"):
        rdma_node(tmp_path, node)
    assert rdma.look(RAILS) == {"rocep1s0f1": None, "roceP2p1s0f1": "uverbs2"}


def test_a_card_that_leaves_again_does_not_end_the_container(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rdma, "CLASS", tmp_path / "verbs")
    monkeypatch.setattr(rdma, "NODES", tmp_path / "nodes")
    monkeypatch.setattr(rdma, "WAIT_S", 0.0)
    gate = rdma.RdmaReadiness({"NCCL_IB_HCA": "rocep1s0f1"})
    # Without a complaint nobody looks at all.
    assert not gate.too_early
    rdma_device(tmp_path, "rocep1s0f1")
    assert "was started too early" in (gate.problem() or "")
    assert gate.too_early
    # Nobody asks what the problem is before the container is to end: it is looked at once more.
    shutil.rmtree(tmp_path / "verbs")
    assert not gate.too_early
    assert gate.late_since is None
    rdma_device(tmp_path, "rocep1s0f1")
    assert gate.problem() is not None
    rdma_node(tmp_path)
    assert not gate.too_early


def test_a_head_without_a_network_card_waits_for_it(start: Start, listener: Listener, tmp_path: Path) -> None:
    listener.open()
    head = start(port=listener.port, environment={"NCCL_IB_HCA": "rocep1s0f1"}, rdma__WAIT_S=0.1)
    assert head.wait_for("waiting for the worker")["reason"] == (
        "this Spark has no RDMA device rocep1s0f1: is the cable plugged in, and does 'lspci' show the NIC?"
    )
    rdma_node(tmp_path)
    rdma_device(tmp_path, "rocep1s0f1")
    head.wait_for("loading")


def test_a_head_that_was_started_before_the_card_was_there_is_started_again(
    start: Start, listener: Listener, tmp_path: Path
) -> None:
    listener.open()
    rdma_device(tmp_path, "rocep1s0f1")
    head = start(port=listener.port, environment={"NCCL_IB_HCA": "rocep1s0f1"}, rdma__WAIT_S=0.3)
    assert head.process.wait(timeout=WITHIN_S) == rdma.AGAIN
    assert head.state()["reason"] == ("this container was started too early to have rocep1s0f1; it is started again")


# The worker.


def add_keys(directory: Path) -> None:
    (directory / "cluster").mkdir(exist_ok=True)
    (directory / "cluster" / "ssh_host_ed25519_key").write_text("host key", encoding="utf-8")
    (directory / "cluster" / "authorized_keys").write_text("keys", encoding="utf-8")


def add_program(directory: Path, name: str, text: str) -> Path:
    path = directory / "bin" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)
    return path


@pytest.fixture(name="worker")
def fixture_worker(start: Start, tmp_path: Path) -> t.Callable[..., PairContainer]:
    add_keys(tmp_path)
    add_program(tmp_path, "sshd", SSHD)

    def worker(**options: t.Any) -> PairContainer:
        return start("worker", **{"own": WORKER, "peer": HEAD, "port": free_port(WORKER), **options})

    return worker


def how_it_is(worker: PairContainer, port: int, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    settings = {
        "DGX_SPARK_RANK": "1",
        "DGX_SPARK_FABRIC_ADDRESSES": WORKER,
        "DGX_SPARK_PEER_ADDRESSES": HEAD,
        "DGX_SPARK_WORKER_PORT": str(port),
        "DGX_SPARK_PEER_LOST_S": "60",
    }
    with pytest.MonkeyPatch.context() as patch:
        for name, value in settings.items():
            patch.setenv(name, value)
        code = health.main(worker.directory, "")
    return code, capsys.readouterr().out.strip()


def test_a_worker_is_ready_when_sshd_is(
    worker: t.Callable[..., PairContainer], capsys: pytest.CaptureFixture[str]
) -> None:
    port = free_port(WORKER)
    container = worker(port=port)
    container.wait_for("ready")
    assert how_it_is(container, port, capsys) == (0, "ready")
    run = container.directory / "run"
    assert stat.S_IMODE(run.stat().st_mode) == 0o700
    assert {path.name: stat.S_IMODE(path.stat().st_mode) for path in run.iterdir()} == dict.fromkeys(
        ("ssh_host_ed25519_key", "authorized_keys", "sshd_config", "worker.json"), 0o600
    )
    configuration = (run / "sshd_config").read_text(encoding="utf-8")
    for line in (
        f"ListenAddress {WORKER}",
        "AuthenticationMethods publickey",
        "PermitRootLogin forced-commands-only",
        "UsePAM no",
        "DisableForwarding yes",
        f"ForceCommand {sys.executable} {container.directory / 'entrypoint.py'} launch {run / 'worker.json'}",
    ):
        assert line in configuration.splitlines()
    # A port check is not logged. The line of sshd may arrive later than its port opens.
    assert until(lambda: container.log().splitlines()) == ["this is a test double of sshd"]
    assert container.stop() == 0
    assert container.state()["state"] == "stopped"
    assert how_it_is(container, port, capsys) == (1, "stopped")
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((WORKER, port))


@pytest.mark.parametrize("spoil", [Path.unlink, lambda path: path.write_text('{"state": null}')])
def test_a_worker_writes_its_state_again_where_that_was_lost(
    worker: t.Callable[..., PairContainer], spoil: t.Callable[[Path], object]
) -> None:
    container = worker()
    since = container.wait_for("ready")["since"]
    spoil(container.directory / "state" / "state.json")
    assert container.wait_for("ready")["since"] == since


def test_a_worker_waits_for_the_engine_of_another_container(
    worker: t.Callable[..., PairContainer], tmp_path: Path
) -> None:
    """What is there of one Spark alone, and of another pair, too; what cannot be started gives way."""
    port = free_port(WORKER)
    turn = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(turn, fcntl.LOCK_EX)
    with socket.create_server((WORKER, port)):
        container = worker(port=port, loading__ENGINE_LOCK=str(tmp_path))
        waiting = container.wait_until(lambda state: state.get("reason"))
        assert (waiting["state"], waiting["reason"]) == ("starting", loading.TAKEN)
        fcntl.flock(turn, fcntl.LOCK_UN)
        container.wait_for("failed")
        fcntl.flock(turn, fcntl.LOCK_EX)
        fcntl.flock(turn, fcntl.LOCK_UN)
    container.wait_for("ready")
    with pytest.raises(BlockingIOError):
        fcntl.flock(turn, fcntl.LOCK_EX | fcntl.LOCK_NB)
    assert container.stop() == 0
    fcntl.flock(turn, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(turn)


def test_an_sshd_that_dies_comes_back(
    worker: t.Callable[..., PairContainer], capsys: pytest.CaptureFixture[str]
) -> None:
    port = free_port(WORKER)
    container = worker(port=port)
    pid = container.wait_for("ready")["pid"]
    os.kill(pid, signal.SIGSTOP)
    # A port that takes connections is not enough for its health.
    code, text = how_it_is(container, port, capsys)
    assert code == 1
    assert text.startswith("ready, but no greeting from ")
    os.kill(pid, signal.SIGKILL)
    state = container.wait_until(lambda state: state["state"] == "ready" and state["pid"] != pid)
    assert state["pid"] is not None
    assert "failed: sshd ended with signal 9" in container.log()


def test_a_worker_that_was_started_before_the_card_was_there_is_started_again(
    worker: t.Callable[..., PairContainer], tmp_path: Path
) -> None:
    rdma_device(tmp_path, "rocep1s0f1")
    container = worker(environment={"NCCL_IB_HCA": "rocep1s0f1"}, rdma__WAIT_S=0.3)
    assert container.process.wait(timeout=WITHIN_S) == rdma.AGAIN
    assert container.state()["state"] == "waiting for the fabric"


def test_a_worker_whose_card_comes_back_as_another_one_is_started_again(
    worker: t.Callable[..., PairContainer], tmp_path: Path
) -> None:
    rdma_device(tmp_path, "rocep1s0f1")
    rdma_node(tmp_path)
    container = worker(environment={"NCCL_IB_HCA": "rocep1s0f1"}, rdma__WAIT_S=0.3)
    container.wait_for("ready")
    (tmp_path / "verbs" / "uverbs0" / "dev").write_text("231:196\n", encoding="ascii")
    assert container.process.wait(timeout=WITHIN_S) == rdma.AGAIN


def test_a_port_that_is_taken_is_named_and_waited_for(worker: t.Callable[..., PairContainer]) -> None:
    with socket.create_server((WORKER, 0)) as other:
        port = other.getsockname()[1]
        container = worker(port=port)
        state = container.wait_for("failed")
        assert state["reason"].startswith(f"port {port} of {WORKER} is taken by another program of this Spark; ")
    container.wait_for("ready")


def test_missing_keys_are_named(worker: t.Callable[..., PairContainer], tmp_path: Path) -> None:
    (tmp_path / "cluster" / "authorized_keys").unlink()
    container = worker()
    assert container.wait_for("failed")["reason"] == (
        f"{tmp_path / 'cluster' / 'authorized_keys'} cannot be used (No such file or directory); run the playbook again"
    )
    add_keys(tmp_path)
    container.wait_for("ready")


def test_an_image_without_sshd_is_named(start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if shutil.which("sshd", path=workers.SSHD_PATH):
        pytest.skip("this machine has an sshd")
    add_keys(tmp_path)
    state = start("worker", own=WORKER, peer=HEAD).wait_for("failed")
    assert state["reason"].startswith("there is no sshd in this image")


@pytest.mark.parametrize("addresses", ["192.0.2.1,127.0.1.1", f"{WORKER},192.0.2.1"])
def test_the_worker_waits_for_the_fabric(worker: t.Callable[..., PairContainer], addresses: str) -> None:
    state = worker(environment={"DGX_SPARK_FABRIC_ADDRESSES": addresses}).wait_for("waiting for the fabric")
    assert state["reason"].startswith("this Spark does not have its fabric address 192.0.2.1")


# A test double of mpirun's daemon: it says what it was given, and stays.
ORTED = """#!/bin/sh
echo "$NCCL_IB_HCA $LEAKED $*" > {0}
exec sleep 71
"""


def launch(container: PairContainer, command: str) -> subprocess.Popen[str]:
    """As sshd does: with nothing of the container's environment. The test stands in for the login."""
    worker_file = str(container.directory / "run" / "worker.json")
    return subprocess.Popen(
        [sys.executable, str(FILES / "entrypoint.py"), "launch", worker_file],
        env={"PATH": os.environ["PATH"], "SSH_ORIGINAL_COMMAND": command, "LEAKED": "leaked"},
        stderr=subprocess.PIPE,
        text=True,
    )


def test_a_rank_has_the_environment_of_the_workers_container(
    worker: t.Callable[..., PairContainer], tmp_path: Path
) -> None:
    add_program(tmp_path, "orted", ORTED.format(tmp_path / "given"))
    rdma_device(tmp_path, "rocep1s0f1")
    rdma_node(tmp_path)
    container = worker(environment={"NCCL_IB_HCA": "rocep1s0f1"})
    container.wait_for("ready")
    process = launch(container, ' orted -mca ess "env"')
    try:
        given = tmp_path / "given"
        assert until(lambda: given.exists() and given.read_text("utf-8")) == "rocep1s0f1  -mca ess env\n"
    finally:
        process.kill()
        process.communicate()


def test_launch_refuses_aloud(worker: t.Callable[..., PairContainer]) -> None:
    container = worker()
    container.wait_for("ready")
    process = launch(container, "cat /etc/shadow")
    said = process.communicate(timeout=WITHIN_S)[1]
    assert process.returncode == 126
    assert said == "[launch] only mpirun may log in here: 'cat /etc/shadow' is not mpirun's daemon\n"
    assert f"[entrypoint] {said.removeprefix('[').replace('launch] ', 'launch: ')}" in container.log()
    process = launch(container, "/opt/other/orted")
    assert "/opt/other/orted cannot be run on the worker (No such file" in process.communicate(timeout=WITHIN_S)[1]


# An sshd, as a test double, that has let somebody in who left a rank in a session of its own.
SSHD_WITH_RANK = SSHD.replace(
    "while True:",
    "import subprocess\nsubprocess.run(['sh', '-c', 'setsid sleep 72 & echo $! > RANK'], check=True)\nwhile True:",
    1,
)


def test_while_a_rank_runs_its_models_pages_are_given_back(
    worker: t.Callable[..., PairContainer], tmp_path: Path
) -> None:
    model = tmp_path / "model"
    model.mkdir()
    shard = model / "model.safetensors"
    shard.write_bytes(os.urandom(1_000_000))
    with shard.open("rb") as file:
        os.fsync(file.fileno())
    add_program(tmp_path, "sshd", SSHD_WITH_RANK.replace("RANK", str(tmp_path / "rank")))
    environment = {"DGX_SPARK_TARGET": str(model), "DGX_SPARK_DRAFT": ""}
    container = worker(environment=environment, loading__LOW_MEMORY=2**62)
    container.wait_for("rank_runs")
    # Again and again: nobody tells the worker when all has been read.
    for _time in range(2):
        shard.read_bytes()
        container.wait_until(lambda _state: not resident_bytes(shard))


def says(words: str, state: dict[str, t.Any]) -> bool:
    return words in (state["reason"] or "")


def is_gone(process: Path) -> bool:
    return not process.exists()


def wait_for_rank(directory: Path, number: int) -> None:
    """Until the memory guard knows of it."""
    until(lambda: Seen(directory / "state").events().count("loading") == number)


def test_a_rank_that_takes_all_of_the_memory_is_ended_and_comes_back_once(
    worker: t.Callable[..., PairContainer], tmp_path: Path
) -> None:
    memory = Memory(tmp_path / "meminfo", 50)
    add_program(tmp_path, "sshd", SSHD_WITH_RANK.replace("RANK", str(tmp_path / "rank")))
    container = worker(sampler__MEMINFO=str(memory.path), **QUICK)
    for number, ended in enumerate(("its memory is not free yet", "for the second time"), 1):
        wait_for_rank(tmp_path, number)
        # It enters the state first, and then says how the guard is.
        container.wait_until(lambda state: state["state"] == "rank_runs" and (state["guard"] or {}).get("on"))
        memory.set(0.5)
        said = container.wait_until(functools.partial(says, ended))
        assert said["state"] == "failed"
        assert said["reason"].startswith("the memory guard has ended the rank: ")
        rank = Path("/proc") / (tmp_path / "rank").read_text(encoding="ascii").strip()
        # Its parent collects it.
        until(functools.partial(is_gone, rank))
        memory.set(50)
    assert container.stop() == 0


def test_the_memory_guard_of_a_worker_hears_when_its_rank_has_landed(
    worker: t.Callable[..., PairContainer], tmp_path: Path
) -> None:
    seen = Seen(tmp_path / "state")
    memory = Memory(tmp_path / "meminfo", 50)
    add_program(tmp_path, "sshd", SSHD_WITH_RANK.replace("RANK", str(tmp_path / "rank")))
    # Planned to land at 5 GiB: while it loads, a fall counts below 4 GiB only.
    container = worker(
        sampler__MEMINFO=str(memory.path), **QUICK, environment={"DGX_SPARK_TAKES_BYTES": str(45 * 2**30)}
    )
    wait_for_rank(tmp_path, 1)
    for level in (6.5, 4.7):
        memory.set(level)
        seen.level(level)
    assert container.state()["state"] == "rank_runs"
    memory.set(6.5)
    assert launch(container, cluster.READY).wait(timeout=WITHIN_S) == 0
    container.wait_until(lambda _state: "ready" in seen.events())
    seen.level(6.5)
    memory.set(4.7)
    said = container.wait_until(functools.partial(says, "its memory is not free yet"))
    assert said["reason"].startswith("the memory guard has ended the rank: memory fell from 6.5 GiB to 4.7 GiB")
    # The next one loads again.
    memory.set(50)
    container.wait_for("rank_runs")
    container.wait_until(lambda _state: seen.events() == ["loading", "ready", "SIGKILL", "ended", "loading"])


def test_a_rank_that_takes_the_place_of_another_loads(worker: t.Callable[..., PairContainer], tmp_path: Path) -> None:
    """The head lost its power: its login ends the old one, and nobody sees the worker without a rank."""
    seen = Seen(tmp_path / "state")
    memory = Memory(tmp_path / "meminfo", 50)
    add_program(tmp_path, "sshd", SSHD_WITH_RANK.replace("RANK", str(tmp_path / "rank")))
    container = worker(
        sampler__MEMINFO=str(memory.path), **QUICK, environment={"DGX_SPARK_TAKES_BYTES": str(45 * 2**30)}
    )
    container.wait_for("rank_runs")
    assert launch(container, cluster.READY).wait(timeout=WITHIN_S) == 0
    container.wait_until(lambda _state: seen.events() == ["loading", "ready"])
    # As launch does before it becomes the new one.
    os.kill(json.loads((tmp_path / "run/worker.json").read_text("utf-8"))["pid"], signal.SIGUSR2)
    container.wait_until(lambda _state: seen.events()[-1:] == ["loading"] and len(seen.events()) > 2)
    # What would be too steep for one that has landed is not for one that loads.
    for level in (6.5, 4.7):
        memory.set(level)
        seen.level(level)
    assert container.state()["state"] == "rank_runs"


def test_what_was_ended_long_ago_does_not_count(worker: t.Callable[..., PairContainer], tmp_path: Path) -> None:
    memory = Memory(tmp_path / "meminfo", 50)
    add_program(tmp_path, "sshd", SSHD_WITH_RANK.replace("RANK", str(tmp_path / "rank")))
    container = worker(sampler__MEMINFO=str(memory.path), **QUICK, sampler__ONCE_WITHIN_S=0)
    for number in (1, 2):
        wait_for_rank(tmp_path, number)
        memory.set(0.5)
        container.wait_until(functools.partial(says, "its memory is not free yet"))
        memory.set(50)
    container.wait_for("rank_runs")


def test_what_is_left_of_an_earlier_rank_is_ended_first(
    worker: t.Callable[..., PairContainer], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    port = free_port(WORKER)
    add_program(tmp_path, "sshd", SSHD_WITH_RANK.replace("RANK", str(tmp_path / "rank")))
    add_program(tmp_path, "orted", ORTED.format(tmp_path / "given"))
    container = worker(port=port)
    sshd = container.wait_for("rank_runs")["pid"]
    rank = int((tmp_path / "rank").read_text(encoding="utf-8"))
    assert how_it_is(container, port, capsys) == (0, "rank_runs")
    process = launch(container, "orted")
    try:
        container.wait_until(lambda _state: not Path(f"/proc/{rank}").exists())
        assert f"ending what is left of an earlier rank: sleep ({rank})" in container.log()
        # sshd goes on, and the new rank is not a process of this container: it was started by the test.
        assert container.wait_for("ready")["pid"] == sshd
        assert how_it_is(container, port, capsys)[0] == 0
    finally:
        process.kill()
        process.communicate()

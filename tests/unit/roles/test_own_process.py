# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Ranks that are processes of their own: a head and a worker, each in a process of its own."""

from __future__ import annotations

import contextlib
import json
import os
import select
import shlex
import signal
import socket
import sys
import typing as t
from pathlib import Path

import pytest
from server.guard import GIB
from server.launchers.own_process import messages
from server.worker import UNSETTLED

from tests.unit.entrypoint_container import FILES, Benchmark
from tests.unit.memory import QUICK, Memory, Seen
from tests.unit.pair_container import HEAD, THIRD, WORKER, Listener, PairContainer, Server, rdma_device, rdma_node
from tests.unit.replay_server import free_port
from tests.unit.waiting import WITHIN_S, until

ENGINE = {
    "DGX_SPARK_ENGINE": "vllm",
    "NCCL_DEBUG": "WARN",
    "VLLM_HOST_IP": "here",
    "NCCL_SOCKET_IFNAME": "lo",
    "NCCL_IB_HCA": "rocep1s0f1",
}
# `ranks` of the entrypoint for one of two Sparks of this machine, with a host name of its own.
RANKS = """
import json, os, pathlib, socket, sys
sys.path.insert(0, sys.argv.pop(1))
directory = pathlib.Path(sys.argv.pop(1))
name = sys.argv.pop(1)
socket.gethostname = lambda: name
from server import ranks, rdma
from server.launchers import launcher
from server.launchers.own_process import start
launcher.ITSELF = json.loads(sys.argv.pop(1))
start.TOLD_WITHIN_S = float(os.environ.get("TOLD_WITHIN_S", "1"))
start.STORE = [sys.executable, "-c", f"print({start.READY!r}, flush=True); input()"]
rdma.CLASS, rdma.NODES = directory / "verbs", directory / "nodes"
ranks.STATE = directory / "state"
sys.exit(ranks.main(sys.argv[1:]))
"""
# As serve_vllm.sh.j2: one script for all ranks. A rank says what it was given, and does what the test says.
SCRIPT = """
rank="echo rank $DGX_SPARK_RANK with $(cat $DGX_SPARK_OPTIONS); echo \\$\\$ > {directory}/pid; {action}"
if [ "$DGX_SPARK_RANK" -gt 0 ]; then
  exec bash -c "$rank"
fi
exec {ranks} serve --head {head} --worker {worker} --port {port} --path {options} -- bash -c "$rank"
"""
STAY = "exec sleep 60"


def ranks_of(directory: Path, name: str) -> list[str]:
    """Return the command of a Spark that stands for `entrypoint.py ranks`."""
    program = directory / "ranks.py"
    program.write_text(RANKS, encoding="utf-8")
    itself = [sys.executable, str(program), str(FILES), str(directory), name]
    return [*itself, json.dumps([*itself, "[]"])]


class Pair:
    """A head and its worker, on loopback addresses."""

    def __init__(self, directory: Path, url: str) -> None:
        self.directory = directory
        self.url = url
        self.port = free_port(WORKER)
        self.memory = Memory(directory / "meminfo", 32)
        self.containers: dict[str, PairContainer] = {}

    def start(self, name: str, action: str = STAY, **options: t.Any) -> PairContainer:
        """Start the container of the head or of the worker."""
        place = self.directory / name
        if not place.exists():
            place.mkdir()
            rdma_device(place, "rocep1s0f1")
            rdma_node(place)
        (place / "options.yml").write_text("max-num-seqs: 2\n", encoding="utf-8")
        ranks = ranks_of(place, f"spark-{name}")
        own, peer = (HEAD, WORKER) if name == "head" else (WORKER, HEAD)
        script = SCRIPT.format(
            directory=place,
            action=action,
            ranks=shlex.join(ranks),
            head=HEAD,
            worker=WORKER,
            port=self.port,
            options=place / "options.yml",
        )
        container = PairContainer(
            place,
            () if name == "head" else ("worker",),
            script=script,
            url=self.url,
            port=self.port,
            own=own,
            peer=peer,
            environment={**ENGINE, **options.pop("environment", {})},
            **self.constants(ranks),
            **options,
        )
        self.containers[name] = container
        return container

    def constants(self, ranks: list[str]) -> dict[str, t.Any]:
        return {"launchers.launcher__ITSELF": ranks, "sampler__MEMINFO": str(self.memory.path), **QUICK}

    def pid(self, name: str, but: int = 0) -> int:
        """Return the process of a rank, another one than an earlier rank's."""
        file = self.directory / name / "pid"

        def new() -> int:
            found = int(file.read_text(encoding="utf-8").strip() or 0) if file.exists() else 0
            return 0 if found == but else found

        return until(new) or 0

    def end(self) -> None:
        for container in self.containers.values():
            container.end()
            container.process.wait()


def has_ended(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True


@pytest.fixture(name="server")
def fixture_server() -> t.Iterator[Server]:
    with Server() as server:
        yield server


@pytest.fixture(name="pair")
def fixture_pair(tmp_path: Path, server: Server) -> t.Iterator[Pair]:
    pair = Pair(tmp_path, server.url)
    yield pair
    pair.end()


def ask(pair: Pair, request: t.Any, source: str = HEAD) -> bytes:
    """Return all that a worker answers to a request; nothing if it closes the connection."""
    with (
        contextlib.suppress(ConnectionError),
        socket.create_connection((WORKER, pair.port), WITHIN_S, (source, 0)) as connection,
    ):
        connection.sendall(json.dumps(request).encode() + b"\n")
        return connection.makefile("rb").read()
    return b""


def test_both_ranks_start_with_the_heads_options_and_end_with_the_head(pair: Pair) -> None:
    worker = pair.start("worker")
    worker.wait_for("ready")
    head = pair.start("head")
    head.wait_for("running")
    worker.wait_for("rank_runs")
    report = json.loads((head.directory / "state/ranks.json").read_text(encoding="utf-8"))
    assert [(rank["rank"], rank["host"]) for rank in report["ranks"]] == [(0, "spark-head"), (1, "spark-worker")]
    assert (report["differences"], report["problem"]) == ([], None)
    # What the worker's rank says is in both logs.
    assert until(lambda: "[rank 1] rank 1 with max-num-seqs: 2" in head.log())
    assert "rank 0 with max-num-seqs: 2" in head.log()
    assert "rank 1 with max-num-seqs: 2" in worker.log()
    its = pair.pid("worker")
    assert head.stop() == 0
    worker.wait_for("ready")
    assert has_ended(its)
    assert "the head has ended its server, and so this rank is ended" in worker.log()


def test_a_rank_that_dies_takes_the_server_with_it_and_both_come_back(pair: Pair) -> None:
    worker, head = pair.start("worker"), pair.start("head")
    head.wait_for("running")
    mine, its = pair.pid("head"), pair.pid("worker")
    os.kill(its, signal.SIGKILL)
    state = head.wait_until(lambda state: state.get("last_exit"))
    assert state["last_exit"]["reason"].startswith(f"[ranks] the rank on the worker {WORKER} has ended: signal 9")
    assert has_ended(mine)
    pair.pid("worker", but=its)
    assert head.wait_for("running")["restarts"] == 1
    worker.wait_for("rank_runs")


def test_a_head_whose_rank_ends_ends_the_workers(pair: Pair) -> None:
    worker, head = pair.start("worker"), pair.start("head")
    head.wait_for("running")
    mine, its = pair.pid("head"), pair.pid("worker")
    os.kill(mine, signal.SIGKILL)
    pair.pid("worker", but=its)
    assert has_ended(its)
    assert head.wait_until(lambda state: state.get("last_exit"))["last_exit"]["code"] == 128 + signal.SIGKILL
    worker.wait_for("rank_runs")


@pytest.mark.parametrize("code", [0, 1])
def test_the_cause_on_the_worker_is_the_reason_also_when_the_head_ends_first(pair: Pair, code: int) -> None:
    pid = pair.directory / "head/pid"
    # Once the head has seen that its own rank has ended.
    until_then = f"until [ -s {pid} ] && ! kill -0 \\$(cat {pid}); do sleep 0.05; done 2>/dev/null"
    pair.start("worker", action=f"echo no memory here; {until_then}; exit 3")
    dead = "echo vllm.v1.engine.exceptions.EngineDeadError: its engine is dead"
    head = pair.start("head", action=f"{dead}; exit {code}", environment={"TOLD_WITHIN_S": str(WITHIN_S)})
    reason = head.wait_until(lambda state: state.get("last_exit"))["last_exit"]["reason"]
    assert reason == f"[ranks] the rank on the worker {WORKER} has ended: exit code 3: no memory here"


def test_a_rank_that_ends_has_words_of_its_own(pair: Pair) -> None:
    """And none of the one before it."""
    first = pair.directory / "first"
    pair.start(
        "worker",
        action=f"if [ -e {first} ]; then echo no memory; else touch {first}; echo EngineDeadError: it; fi; exit 3",
    )
    head = pair.start("head")
    told = "has ended: exit code 3: "
    head.wait_until(lambda state: f"{told}EngineDeadError: it" in str(state.get("last_exit")))
    head.wait_until(lambda state: f"{told}no memory" in str(state.get("last_exit")))


def test_a_worker_that_ends_while_it_is_asked_is_named(pair: Pair) -> None:
    listener = Listener(messages.GREETING, port=pair.port)
    listener.open()
    reason = pair.start("head").wait_until(lambda state: state.get("last_exit"))["last_exit"]["reason"]
    listener.close()
    told = f"[ranks] the ranks cannot be started: the worker at {WORKER} has not sent the facts of its rank ("
    assert reason.startswith(told)


def test_a_trial_of_a_benchmark_reaches_the_worker(pair: Pair) -> None:
    worker = pair.start("worker")
    head = pair.start("head")
    head.wait_for("running")
    Benchmark(head.directory).try_out(3)
    assert until(lambda: "rank 1 with x: 1" in worker.log())
    head.wait_until(lambda state: state["state"] == "running" and state["trial"])


def test_a_worker_that_stops_ends_the_server_which_waits_for_it(pair: Pair) -> None:
    worker, head = pair.start("worker"), pair.start("head")
    head.wait_for("running")
    assert worker.stop() == 0
    assert head.wait_for("waiting for the worker")["last_exit"]["excused"] is True
    pair.start("worker")
    head.wait_for("running")
    assert head.state()["restarts"] == 0


def test_the_worker_is_told_that_the_server_is_ready(pair: Pair, server: Server) -> None:
    server.status = 503
    worker, head = pair.start("worker"), pair.start("head", lost_s=6)
    worker.wait_for("rank_runs")
    server.status = 200
    head.wait_for("running")
    worker.wait_until(lambda _state: "ready" in Seen(worker.directory / "state").events())


def test_a_rank_that_takes_all_of_the_memory_is_ended_on_its_spark(pair: Pair) -> None:
    pair.start("worker", environment={"DGX_SPARK_TAKES_BYTES": str(20 * GIB)})
    head = pair.start("head", environment={"DGX_SPARK_GUARD": "off"})
    head.wait_for("running")
    its = pair.pid("worker")
    pair.memory.set(0.5)
    reason = head.wait_until(lambda state: state.get("last_exit"))["last_exit"]["reason"]
    assert "has ended: the memory guard has ended it: " in reason
    assert has_ended(its)
    head.wait_for("waiting for the worker")
    pair.memory.set(32)
    head.wait_for("running")


def test_a_worker_greets_when_the_memory_of_its_last_rank_is_back(pair: Pair) -> None:
    """Until then the head starts nothing, and the end of the rank counts."""
    worker = pair.start("worker")
    head = pair.start("head", environment={"DGX_SPARK_GUARD": "off"})
    head.wait_for("running")
    its = pair.pid("worker")
    pair.memory.set(20)
    Seen(worker.directory / "state").level(20)
    os.kill(its, signal.SIGKILL)
    worker.wait_until(lambda state: (state["state"], state["reason"]) == ("starting", UNSETTLED))
    state = head.wait_until(lambda state: state["restarts"] == 1)
    assert state["last_exit"]["excused"] is False
    with socket.create_connection((WORKER, pair.port), WITHIN_S, (HEAD, 0)) as connection:
        assert not select.select([connection], [], [], 0.5)[0]
        pair.memory.set(32)
        assert connection.recv(len(messages.GREETING), socket.MSG_WAITALL) == messages.GREETING
    head.wait_for("running")
    worker.wait_for("rank_runs")


def test_who_is_not_the_head_is_not_heard(pair: Pair) -> None:
    worker = pair.start("worker")
    worker.wait_for("ready")
    # Another Spark on a switch gets no word, and the worker's own health check no more than the greeting.
    assert ask(pair, {"ask": "start", "options": ""}, THIRD) == b""
    assert ask(pair, {"ask": "start", "options": ""}, WORKER) == messages.GREETING
    assert worker.state()["state"] == "ready"


@pytest.mark.parametrize("request_line", [{"ask": "shell"}, ["start"], {"ask": "start", "options": ["x"]}, "x"])
def test_what_is_no_request_is_ignored(pair: Pair, request_line: t.Any) -> None:
    worker = pair.start("worker")
    worker.wait_for("ready")
    assert ask(pair, request_line) == messages.GREETING
    assert worker.state()["state"] == "ready"


def test_a_new_start_takes_the_place_of_an_earlier_one(pair: Pair) -> None:
    """A head that was cut off may come back before the worker has noticed."""
    worker = pair.start("worker")
    worker.wait_for("ready")
    first, second = (
        lambda: messages.connect(WORKER, pair.port, HEAD, {"ask": "start", "options": "a: 1\n"}),
        lambda: messages.connect(WORKER, pair.port, HEAD, {"ask": "start", "options": "b: 2\n"}),
    )
    with first():
        its = pair.pid("worker")
        with second():
            pair.pid("worker", but=its)
            assert has_ended(its)
            assert until(lambda: "rank 1 with b: 2" in worker.log())
            worker.wait_for("rank_runs")
    worker.wait_for("ready")

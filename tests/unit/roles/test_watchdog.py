# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The entrypoint's watchdog against real servers that answer, hang, fail, or serve somebody else."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import threading
import time
import typing as t
from pathlib import Path

import pytest
from server import health as health_check
from server import watchdog as watching
from server.engines.engine import Engine
from server.engines.tensorrt_llm import TENSORRT_LLM
from server.engines.vllm import VLLM

from tests.unit import web
from tests.unit.entrypoint_container import Container
from tests.unit.waiting import WITHIN_S, Clock, until

COMPLETION = {"choices": [{"index": 0, "text": " 4", "finish_reason": "length"}]}


class Server(web.Server):
    """Answers like trtllm-serve; its engine hangs while `hanging` is set, or replies what it is told."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.hanging = threading.Event()
        self.health = 200
        self.reply: tuple[int, object] = (200, COMPLETION)
        self.metrics: t.Callable[[], str] | None = None
        super().__init__(Handler)

    @contextlib.contextmanager
    def visitor(self) -> t.Iterator[None]:
        """Somebody who has begun to ask and waits."""
        with socket.create_connection(("127.0.0.1", self.server_port)) as connection:
            connection.sendall(b"POST ")
            yield

    def server_close(self) -> None:
        self.hanging.clear()
        super().server_close()


class Handler(web.Handler):
    def do_GET(self) -> None:
        path = self.path.removesuffix("?asked-by=watchdog")
        self.server.asked.append(path)
        if path == "/health":
            self.reply(self.server.health)
        elif path == "/v1/models":
            self.reply(200, {"data": [{"id": "some/model"}]})
        elif path in ("/prometheus/metrics", "/metrics") and self.server.metrics:
            self.reply(200, self.server.metrics().encode())
        else:
            self.reply(404)

    def do_POST(self) -> None:
        self.server.asked.append(self.path.removesuffix("?asked-by=watchdog"))
        question = json.loads(self.read())
        assert (question["model"], question["max_tokens"]) == ("some/model", 1)
        while self.server.hanging.is_set():
            time.sleep(0.02)
        self.reply(*self.server.reply)


@pytest.fixture(name="server")
def fixture_server() -> t.Iterator[Server]:
    with Server() as server:
        yield server


@pytest.fixture(name="quick", autouse=True)
def fixture_quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "TICK_S", 0.05)
    monkeypatch.setattr(watching, "METER_EVERY_S", 0.1)
    monkeypatch.setattr(watching, "BUSY_AFTER_S", 0.2)
    monkeypatch.setattr(watching, "SMALL_REQUEST_S", 2.0)
    monkeypatch.setattr(watching, "TOGETHER_S", 0.0)


@pytest.fixture(name="clock")
def fixture_clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """By which it judges, where nobody else is there: the kernel tells of others by its own."""
    clock = Clock(step=0.01)
    monkeypatch.setattr(watching, "TICK_S", 0.001)
    monkeypatch.setattr(watching, "time", clock)
    return clock


def watchdog(server: Server, stall: float = 1.0, engine: Engine = TENSORRT_LLM) -> t.Any:
    return watching.Watchdog(server.url, engine, 60, stall)


def asks(dog: t.Any, server: Server) -> threading.Thread:
    """Have it look, and come back when its question is there."""
    thread = threading.Thread(target=dog.look, daemon=True)
    thread.start()
    until(lambda: "/v1/completions" in server.asked)
    return thread


def verdicts(dog: t.Any) -> list[tuple[str | None, str | None]]:
    found = []
    while not dog.verdicts.empty():
        verdict = dog.verdicts.get()
        found.append((verdict.name, verdict.reason))
    return found


def test_a_server_that_generates_answers(server: Server) -> None:
    dog = watchdog(server)
    dog.look()
    dog.look()
    assert verdicts(dog) == [("answering", None)] * 2
    # Its name is asked for once.
    assert server.asked == ["/v1/models", "/v1/completions", "/v1/completions"]
    assert dog.http.own == set()


def test_an_engine_that_hangs_alone_is_stalled(server: Server, clock: Clock) -> None:
    server.hanging.set()
    dog = watchdog(server, stall=5)
    dog.look()
    assert 5 <= clock.monotonic() < 6
    assert verdicts(dog) == [("stalled", "no token came for 5 s, although no other request was served")]


def test_it_asks_though_others_are_connected(server: Server) -> None:
    dog = watchdog(server)
    with server.visitor():
        dog.look()
    assert verdicts(dog) == [("answering", None)]


def test_somebody_who_asked_before_it_stops_the_clock(server: Server) -> None:
    server.hanging.set()
    dog = watchdog(server, stall=0.3)
    thread = threading.Thread(target=dog.look, daemon=True)
    with server.visitor():
        thread.start()
        time.sleep(1)
        assert thread.is_alive()
        server.hanging.clear()
        thread.join(WITHIN_S)
    assert verdicts(dog) == [("busy", "others are served"), ("answering", None)]


def test_an_engine_that_hangs_is_found_though_somebody_is_always_there(server: Server) -> None:
    """Clients give up after some time and ask again: each of them came after the watchdog's question."""
    server.hanging.set()
    dog = watchdog(server, stall=0.8)
    thread = asks(dog, server)
    with contextlib.ExitStack() as before:
        before.enter_context(server.visitor())
        deadline = time.monotonic() + WITHIN_S
        while thread.is_alive():
            assert time.monotonic() < deadline, "the clock is stopped for ever"
            with contextlib.ExitStack() as now:
                now.enter_context(server.visitor())
                before.close()
                before = now.pop_all()
            time.sleep(0.2)
        before.close()
    assert [name for name, _reason in verdicts(dog)] == ["stalled"]


def test_somebody_who_comes_at_the_same_moment_may_be_served_first(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "TOGETHER_S", 600.0)
    server.hanging.set()
    dog = watchdog(server, stall=3600)
    thread = asks(dog, server)
    with server.visitor():
        # It may take a while until somebody is there.
        dog.stall = 0.3
        thread.join(1)
        assert thread.is_alive()
        server.hanging.clear()
        thread.join(WITHIN_S)
    assert verdicts(dog)[-1] == ("answering", None)


def test_visitors_who_only_look_in_do_not_stop_the_clock(server: Server) -> None:
    """Docker's health check comes every 30 s, and finds no answer for 8 s each time when the server hangs."""
    server.hanging.set()
    dog = watchdog(server, stall=0.8)
    thread = asks(dog, server)
    while thread.is_alive():
        with server.visitor():
            time.sleep(0.1)
        time.sleep(0.05)
    assert [name for name, _reason in verdicts(dog)] == ["stalled"]


def test_a_server_whose_figures_stand_still_is_not_condemned_while_others_wait(server: Server) -> None:
    """As those of the real one do through a long answer, for which the watchdog's question waits."""
    server.hanging.set()
    server.metrics = lambda: 'trtllm_num_requests_running{model_name="x"} 1.0\n'
    dog = watchdog(server, stall=0.3)
    thread = threading.Thread(target=dog.look, daemon=True)
    with server.visitor():
        thread.start()
        time.sleep(1)
        assert thread.is_alive()
        server.hanging.clear()
        thread.join(WITHIN_S)
    assert [name for name, _reason in verdicts(dog)] == ["busy", "answering"]


@pytest.mark.parametrize(
    ("engine", "figures"),
    [
        (TENSORRT_LLM, "trtllm_num_requests_running 1.0\ntrtllm_kv_cache_utilization {}\n"),
        (VLLM, "vllm:num_requests_running 1.0\nvllm:generation_tokens_total {}\n"),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_figures_that_move_stop_the_clock_for_visitors_who_stay_only_briefly(
    server: Server, clock: Clock, engine: Engine, figures: str
) -> None:
    server.hanging.set()
    server.metrics = lambda: figures.format(time.monotonic())
    dog = watchdog(server, stall=0.5, engine=engine)
    thread = threading.Thread(target=dog.look, daemon=True)
    thread.start()
    until(lambda: clock.looks > 300 or not thread.is_alive())
    assert thread.is_alive()
    server.hanging.clear()
    thread.join(WITHIN_S)
    assert verdicts(dog) == [("answering", None)]


def test_figures_that_stand_still_do_not_stop_the_clock(server: Server, clock: Clock) -> None:
    server.hanging.set()
    server.metrics = lambda: 'trtllm_num_requests_running{model_name="x"} 1.0\n'
    dog = watchdog(server, stall=0.5)
    asks(dog, server).join(WITHIN_S)
    assert verdicts(dog) == [("stalled", "no token came for 0.5 s, although no other request was served")]


@pytest.mark.parametrize("text", ["trtllm_request_success_total {}\n", "trtllm_num_requests_running 0.0\nx {}\n"])
def test_figures_that_only_count_finished_requests_prove_nothing(server: Server, clock: Clock, text: str) -> None:
    server.hanging.set()
    server.metrics = lambda: text.format(time.monotonic())
    dog = watchdog(server, stall=0.5)
    dog.look()
    assert [name for name, _reason in verdicts(dog)] == ["stalled"]


@pytest.mark.parametrize(
    "reply", [(500, {"message": "engine is dead"}), (200, {"object": "error"}), (200, {"choices": []})]
)
def test_three_failed_looks_in_a_row_are_unhealthy(server: Server, reply: tuple[int, object]) -> None:
    dog = watchdog(server)
    server.reply = reply
    dog.look()
    dog.look()
    assert [name for name, _reason in verdicts(dog)] == [None, None]
    server.reply = (200, COMPLETION)
    dog.look()
    assert verdicts(dog) == [("answering", None)]
    server.reply = reply
    for _ in range(3):
        dog.look()
    found = verdicts(dog)
    assert [name for name, _reason in found] == ["answering", "answering", "unhealthy"]
    assert found[0][1] is not None
    assert found[0][1].startswith("look 1 of 3 failed at /v1/completions: status ")


def test_a_refused_connection_is_a_failed_look(server: Server) -> None:
    dog = watchdog(server)
    server.server_close()
    for _ in range(3):
        dog.look()
    assert verdicts(dog)[-1][0] == "unhealthy"


def test_a_dead_engine_is_found_though_others_wait_for_it(server: Server) -> None:
    server.health = 503
    server.hanging.set()
    dog = watchdog(server)
    with server.visitor():
        for _ in range(3):
            dog.look()
    assert verdicts(dog)[-1] == ("unhealthy", "3 looks in a row failed, the last one at /health: status 503")


@pytest.mark.parametrize("status", [400, 422])
def test_a_question_that_was_never_taken_condemns_nobody(server: Server, status: int) -> None:
    server.reply = (status, {"message": "no such route"})
    dog = watchdog(server)
    for _ in range(4):
        dog.look()
    assert {name for name, _reason in verdicts(dog)} == {None}
    server.reply = (200, COMPLETION)
    dog.look()
    # Once it was taken, the same question cannot be wrong: some releases say 400 for a dead engine.
    server.reply = (status, {"message": "engine is dead"})
    for _ in range(3):
        dog.look()
    assert verdicts(dog)[-1][0] == "unhealthy"


class Script:
    """A container whose serve script only sleeps; the test's own server answers for it."""

    def __init__(self, directory: Path, server: Server, stall: float = 1, interval: float = 0.2) -> None:
        environment = {"DGX_SPARK_STALL_S": str(stall), "DGX_SPARK_PROBE_INTERVAL_S": str(interval)}
        self.container = Container(
            directory,
            "sleep 60 & echo $!; wait",
            server.url,
            environment=environment,
            watchdog__TICK_S=0.05,
            watchdog__SMALL_REQUEST_S=0.5,
        )

    def wait_for(self, **values: object) -> dict[str, t.Any]:
        return self.container.wait_until(lambda state: all(state.get(key) == value for key, value in values.items()))


@pytest.fixture(name="start")
def fixture_start(tmp_path: Path, server: Server) -> t.Iterator[t.Callable[..., Script]]:
    started: list[Script] = []

    def start(**options: float) -> Script:
        started.append(Script(tmp_path, server, **options))
        return started[-1]

    yield start
    for script in started:
        script.container.end()
        script.container.process.wait()


def health(script: Script, server: Server, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    code = health_check.main(script.container.directory, server.url)
    return code, capsys.readouterr().out.strip()


def test_the_first_verdict_comes_at_once(
    start: t.Callable[..., Script], server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    script = start(interval=3600)
    state = script.wait_for(verdict="answering")
    assert (state["state"], state["reason"]) == ("running", None)
    assert health(script, server, capsys) == (0, "answering")
    server.health = 503
    assert health(script, server, capsys)[0] == 1


def test_a_stalled_server_is_restarted_and_then_left_alone(
    start: t.Callable[..., Script], server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    script = start(stall=0.3)
    script.wait_for(verdict="answering")
    server.hanging.set()
    state = script.wait_for(restarts=1)
    assert state["last_exit"]["by"] == "watchdog"
    assert state["last_exit"]["reason"] == "stalled: no token came for 0.3 s, although no other request was served"
    state = script.wait_for(state="failed")
    assert (state["restarts"], state["verdict"]) == (3, "stalled")
    assert script.container.log().count("[entrypoint] the watchdog ends the server, which is stalled") == 4
    assert health(script, server, capsys) == (
        1,
        "failed: stalled: no token came for 0.3 s, although no other request was served",
    )
    pids = [line for line in script.container.log().splitlines() if line.isdigit()]
    assert len(pids) == 4
    assert not any(Path(f"/proc/{pid}/cmdline").exists() and is_alive(pid) for pid in pids)
    assert script.container.stop() == 0


def is_alive(pid: str) -> bool:
    return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] != "Z"


def test_a_server_that_loads_is_not_asked(start: t.Callable[..., Script], server: Server) -> None:
    server.health = 503
    server.hanging.set()
    script = start(stall=0.2, interval=0.1)
    until(lambda: len(server.asked) > 5)
    assert script.container.state()["state"] == "loading"
    assert set(server.asked) == {"/health"}


def test_the_watchdog_can_be_turned_off(
    start: t.Callable[..., Script], server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    server.hanging.set()
    script = start(stall=0.1, interval=0)
    script.wait_for(state="running")
    time.sleep(0.5)
    assert script.container.state()["verdict"] is None
    assert health(script, server, capsys) == (0, "running, not asked yet")


def test_a_pause_is_no_stall(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr(watching, "time", clock)
    server.hanging.set()
    dog = watchdog(server, stall=10)
    thread = asks(dog, server)
    # A container that was paused for hours has looked at the clock before it and after.
    clock.sleep(10_000)
    looks = clock.looks
    until(lambda: clock.looks > looks + 20 or not thread.is_alive())
    assert thread.is_alive()
    server.hanging.clear()
    thread.join(WITHIN_S)
    assert verdicts(dog) == [("answering", None)]


def test_an_order_to_stop_does_not_wait_for_the_watchdog(start: t.Callable[..., Script], server: Server) -> None:
    script = start(stall=3600)
    script.wait_for(verdict="answering")
    server.hanging.set()
    asked = len(server.asked)
    until(lambda: len(server.asked) > asked)
    assert script.container.stop() == 0
    assert script.container.state()["state"] == "stopped"


def test_what_a_hanging_server_looked_like_is_kept(start: t.Callable[..., Script], server: Server) -> None:
    server.metrics = lambda: "trtllm_num_requests_running 0.0\n"
    script = start(stall=0.3)
    script.wait_for(verdict="answering")
    server.hanging.set()
    script.wait_for(restarts=1)
    kept = (script.container.directory / "state" / "stalled.log").read_text(encoding="utf-8")
    assert "stalled: no token came for 0.3 s, although no other request was served" in kept.splitlines()[0]
    # Its processes, with their command lines; the engine's figures; its last words.
    assert "sleep 60" in kept
    assert "trtllm_num_requests_running 0.0" in kept
    assert script.container.said().splitlines()[0] in kept
    # The one before is kept, too.
    script.wait_for(restarts=2)
    assert (script.container.directory / "state" / "stalled.log.1").exists()


def test_nothing_is_kept_of_a_server_that_ends_by_itself(start: t.Callable[..., Script], server: Server) -> None:
    script = start(stall=60)
    state = script.wait_for(verdict="answering")
    os.killpg(state["pid"], signal.SIGKILL)
    script.wait_for(restarts=1)
    assert not (script.container.directory / "state" / "stalled.log").exists()

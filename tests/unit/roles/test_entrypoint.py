# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import select
import signal
import socket
import subprocess
import threading
import time
import typing as t
from pathlib import Path

import pytest
from server import health, loading, processes, supervisor
from server.engines.registry import ENGINES
from server.state import Log, State

from tests.unit import web
from tests.unit.entrypoint_container import SAY_OPTIONS, SAYS_OPTIONS, Container
from tests.unit.waiting import WITHIN_S, Clock, until

ENGINE_DEAD = (
    b"(APIServer pid=9) ERROR 11-29 01:18:55 [async_llm.py:906] AsyncLLM output_handler failed.\n"
    b"(APIServer pid=9) ERROR 11-29 01:18:55 [async_llm.py:906] vllm.v1.engine.exceptions.EngineDeadError: EngineCore "
    b"encountered an issue. See stack trace (above) for the root cause.\n"
    b"INFO:     Shutting down\nINFO:     Finished server process [9]\n"
    b"(APIServer pid=9) INFO 11-29 01:18:59 [core_client.py:777] [shutdown] MPClient: complete\n"
)


class Healthy(web.Handler):
    def do_GET(self) -> None:
        self.reply(200)


@pytest.fixture
def url() -> t.Iterator[str]:
    """A server whose health route says 200."""
    with web.Server(Healthy) as server:
        yield server.url


@pytest.fixture
def start(tmp_path: Path) -> t.Iterator[t.Callable[..., Container]]:
    started: list[Container] = []

    def run(script: str, url: str = "http://127.0.0.1:1", **options: t.Any) -> Container:
        started.append(Container(tmp_path, script, url, **options))
        return started[-1]

    yield run
    for container in started:
        container.end()
        container.process.wait()


def process_state(pid: int) -> str:
    """R, S, Z (a zombie), ... as the kernel says, or nothing."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return ""


def children_of(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="utf-8").split()]


def test_a_server_that_answers_is_running(start: t.Callable[..., Container], url: str) -> None:
    container = start("echo hello; sleep 60", url)
    assert container.wait_for("running")["restarts"] == 0
    # The watchdog may have asked this server, which has no models, by now.
    assert container.said().splitlines()[0] == "hello"


def test_sigterm_reaches_the_server_and_its_children(start: t.Callable[..., Container]) -> None:
    container = start("trap 'echo bye; exit 0' TERM; sleep 61 & echo $! ; wait")
    state = container.wait_for("loading")
    child = int(until(container.said))
    assert container.stop() == 0
    assert container.state()["state"] == "stopped"
    assert process_state(state["pid"]) in ("", "Z")
    assert process_state(child) in ("", "Z")
    assert "bye" in container.log()


def test_one_engine_at_a_time(tmp_path: Path) -> None:
    """Docker, restarting, may start one container while it still ends another."""
    places = [tmp_path / name for name in ("aside", "successor")]
    for place in places:
        place.mkdir()
    first = Container(places[0], "sleep 60", loading__ENGINE_LOCK=str(tmp_path))
    try:
        loading = first.wait_for("loading")
        second = Container(places[1], "sleep 60", loading__ENGINE_LOCK=str(tmp_path))
        try:
            waiting = second.wait_until(lambda found: found.get("reason"))
            assert waiting["state"] == "starting"
            assert "another container still runs an engine" in waiting["reason"]
            # Its main process is killed first, as the kernel does it; the server may take its time.
            first.process.kill()
            first.process.wait()
            # Several looks later.
            time.sleep(0.5)
            assert second.state()["state"] == "starting"
            os.killpg(loading["pid"], signal.SIGKILL)
            assert second.wait_for("loading")["reason"] is None
        finally:
            second.end()
    finally:
        first.end()


def test_who_has_given_up_keeps_nobody_from_the_engine(tmp_path: Path) -> None:
    places = [tmp_path / name for name in ("aside", "successor")]
    for place in places:
        place.mkdir()
    first = Container(places[0], "exit 1", loading__ENGINE_LOCK=str(tmp_path))
    try:
        first.wait_for("failed")
        second = Container(places[1], "sleep 60", loading__ENGINE_LOCK=str(tmp_path))
        try:
            second.wait_for("loading")
        finally:
            second.end()
        assert first.state()["state"] == "failed"
    finally:
        first.end()


def test_who_waits_for_another_engine_stops_when_told(tmp_path: Path) -> None:
    place = tmp_path / "aside"
    place.mkdir()
    descriptor = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    container = Container(place, "sleep 60", loading__ENGINE_LOCK=str(tmp_path))
    try:
        container.wait_until(lambda found: found.get("reason"))
        assert container.stop() == 0
        assert container.state()["state"] == "stopped"
    finally:
        container.end()
        os.close(descriptor)


def test_orphans_are_collected(start: t.Callable[..., Container]) -> None:
    container = start("(sleep 0.3 & echo $!); exec sleep 60")
    orphan = int(until(container.said))
    until(lambda: process_state(orphan) == "")


def test_a_killed_server_comes_back(start: t.Callable[..., Container], url: str) -> None:
    container = start("echo one line; exec sleep 60", url)
    pid = container.wait_for("running")["pid"]
    os.kill(pid, signal.SIGKILL)
    state = container.wait_until(lambda state: state["state"] == "running" and state["pid"] != pid)
    assert state["restarts"] == 1
    assert state["last_exit"]["signal"] == signal.SIGKILL
    assert state["last_exit"]["reason"] == "one line"


def test_a_server_that_keeps_dying_is_left_alone_with_its_reason(start: t.Callable[..., Container]) -> None:
    container = start("echo CUDA out of memory; exit 3")
    state = container.wait_for("failed")
    assert state["restarts"] == 3
    assert state["last_exit"]["code"] == 3
    assert state["last_exit"]["reason"] == "CUDA out of memory"
    assert container.log().count("CUDA out of memory") == 4
    assert container.process.poll() is None
    assert container.stop() == 0


@pytest.mark.parametrize(
    ("answer", "driver", "lost"),
    [
        ("999", "version", True),
        ("100", "version", True),
        ("0", "version", False),
        # Without a driver on the host, another container would have no GPU either.
        ("999", "none", False),
        # No libcuda at all: it was never there.
        ("1/0", "version", False),
    ],
)
def test_a_container_that_has_lost_its_gpu_ends(
    start: t.Callable[..., Container], url: str, tmp_path: Path, answer: str, driver: str, lost: bool
) -> None:
    (tmp_path / "version").write_text("NVRM version: NVIDIA UNIX Open Kernel Module for aarch64  580.95.05\n")
    container = start(
        "sleep 60", url, supervisor__DRIVER=str(tmp_path / driver), supervisor__ASK_GPU=f"print({answer})"
    )
    os.killpg(container.wait_for("running")["pid"], signal.SIGKILL)
    if lost:
        assert container.process.wait(timeout=WITHIN_S) == 1
        assert "the container has lost the GPU that the host has" in container.log()
        assert container.state()["state"] == "restarting"
    else:
        assert container.wait_until(lambda state: state["restarts"] == 1 and state["state"] == "running")


def test_a_container_that_never_served_does_not_end_for_the_gpu(
    start: t.Callable[..., Container], tmp_path: Path
) -> None:
    (tmp_path / "version").touch()
    container = start("exit 1", supervisor__DRIVER=str(tmp_path / "version"), supervisor__ASK_GPU="print(999)")
    assert container.wait_for("failed")["restarts"] == 3


def test_a_stranger_on_the_port_does_not_end_it(start: t.Callable[..., Container]) -> None:
    greeted: list[int] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def greet() -> None:
            with contextlib.suppress(OSError):
                while True:
                    # Whoever only looks whether somebody listens is gone by now.
                    with listener.accept()[0] as connection, contextlib.suppress(OSError):
                        connection.sendall(b"SSH-2.0-OpenSSH\r\n")
                    greeted.append(1)

        threading.Thread(target=greet, daemon=True).start()
        container = start("sleep 60", f"http://127.0.0.1:{listener.getsockname()[1]}")
        container.wait_for("loading")
        until(lambda: len(greeted) > 3)
        assert container.process.poll() is None
        assert container.state()["state"] == "loading"


def test_only_its_own_server_is_running(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    port = int(url.rpartition(":")[2])
    assert processes.has_listener(port)
    # In a container no other process can be seen, whoever listens beside it.
    monkeypatch.setattr(processes, "processes", dict)
    assert not processes.has_listener(port)
    # Nobody listens there, as far as the kernel shows it: whoever answers is taken at his word.
    assert processes.has_listener(1)


def test_whose_files_cannot_be_seen_may_have_the_port(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_pid: int) -> set[str]:
        raise PermissionError

    monkeypatch.setattr(processes, "open_files", refuse)
    assert processes.has_listener(int(url.rpartition(":")[2]))


def test_a_full_disk_has_room_for_what_is_written_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    state = State(tmp_path)
    state.write("running", reason="a long one")

    def refuse(_path: Path, _text: str, **_options: t.Any) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as full:
        full.setattr(Path, "write_text", refuse)
        state.write("loading", reason=None)
        assert json.loads((tmp_path / "state.json").read_text())["state"] == "loading"
        (tmp_path / "state.json").unlink()
        state.write("running")
    assert not (tmp_path / "state.json").exists()
    state.keep()
    assert json.loads((tmp_path / "state.json").read_text())["state"] == "running"


STILL = {"loading__STILL_EVERY_S": 0.1, "loading__STILL_AT_LEAST_S": 1.0}


def test_a_server_that_stands_still_while_it_loads_is_ended(start: t.Callable[..., Container]) -> None:
    container = start("echo begins; sleep 60", environment={"DGX_SPARK_STALL_S": "0.5"}, **STILL)
    last_exit = container.wait_for("restarting")["last_exit"]
    assert last_exit["by"] == "watchdog"
    assert last_exit["reason"] == "stalled: it has neither said nor done anything for 1 s while it loaded"


@pytest.mark.parametrize(
    ("works", "speaks", "patience", "still"),
    [
        (0, 0, 300, True),
        # Seconds and bytes at each look.
        (0.06, 0, 300, False),
        (0.04, 0, 300, True),
        (0, 1, 300, False),
        # Nobody is to watch.
        (0, 0, 0, False),
    ],
)
def test_who_works_or_speaks_does_not_stand_still(
    monkeypatch: pytest.MonkeyPatch, works: float, speaks: int, patience: float, still: bool
) -> None:
    clock, looks = Clock(), 0
    monkeypatch.setattr(loading, "time", clock)
    monkeypatch.setattr(loading, "seconds_worked", lambda _pid: works * looks)
    stillness = loading.Stillness(patience)
    found = False
    for looks in range(300):
        found = found or stillness.look(1, speaks * looks)
        clock.sleep(loading.STILL_EVERY_S)
    assert found == still


def test_what_a_server_has_worked_is_told() -> None:
    with subprocess.Popen(["sh", "-c", "(while :; do :; done) & wait"], start_new_session=True) as busy:
        until(lambda: processes.seconds_worked(busy.pid) > 0.1)
        os.killpg(busy.pid, signal.SIGKILL)


def test_no_variable_makes_bash_run_something_before_the_script(
    start: t.Callable[..., Container], tmp_path: Path
) -> None:
    (tmp_path / "before.sh").write_text("export DGX_SPARK_OPTIONS=/evil\n", encoding="utf-8")
    container = start(f"{SAY_OPTIONS}; exec sleep 60", environment={"BASH_ENV": str(tmp_path / "before.sh")})
    until(lambda: SAYS_OPTIONS in container.log())
    assert container.options() == ["options.yml"]


def test_a_script_that_is_gone_is_named(start: t.Callable[..., Container], tmp_path: Path) -> None:
    container = start("sleep 60", script_name="other.sh")
    assert "serve.sh cannot be read" in container.wait_for("failed")["last_exit"]["reason"]
    assert container.stop() == 0
    assert not (tmp_path / "serve.sh").exists()


def test_a_child_that_goes_on_talking_does_not_hide_the_death(start: t.Callable[..., Container]) -> None:
    script = "(setsid sh -c 'while :; do echo heartbeat; sleep 0.1; done') & sleep 0.5; exit 3"
    container = start(script, supervisor__MAX_RESTARTS=0)
    state = container.wait_for("failed")
    assert state["last_exit"]["code"] == 3
    until(lambda: children_of(container.process.pid) == [])


def test_what_hides_in_other_sessions_goes_with_the_server(start: t.Callable[..., Container], tmp_path: Path) -> None:
    # mpirun's ranks have sessions of their own, and their children become this process's only when they have died.
    nest = (
        "setsid sh -c 'setsid sleep 63 & echo $! >> {0}; setsid sleep 64 & echo $! >> {0}; sleep 65' & echo $! >> {0}"
    )
    all_there = f"until [ $(wc -l < {tmp_path}/pids) -ge 3 ]; do sleep 0.05; done"
    container = start(f"touch {tmp_path}/pids; {nest.format(tmp_path / 'pids')}; {all_there}; exit 3")
    container.wait_for("restarting")
    pids = [int(line) for line in (tmp_path / "pids").read_text(encoding="utf-8").split()][:3]
    assert len(pids) == 3
    assert [process_state(pid) for pid in pids] == ["", "", ""]


def test_the_log_of_the_container_before_is_kept(start: t.Callable[..., Container], tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "server.log").write_text("before\n", encoding="utf-8")
    container = start("echo now; sleep 60")
    container.wait_for("loading")
    until(lambda: container.log() == "[entrypoint] the server starts\nnow\n", container.log)
    assert (tmp_path / "state" / "server.log.1").read_text(encoding="utf-8") == "before\n"


@pytest.mark.parametrize(("state", "expected"), [("running", 0), ("loading", 1), ("failed", 1)])
def test_health_says_whether_it_serves(tmp_path: Path, url: str, state: str, expected: int) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "state.json").write_text(json.dumps({"state": state}), encoding="utf-8")
    assert health.main(tmp_path, url) == expected
    assert health.main(tmp_path, "http://127.0.0.1:1") == 1


@pytest.mark.parametrize("text", ["{}", "[]", "7", '"state"', "[" * 100_000])
def test_health_of_a_state_of_another_shape(
    tmp_path: Path, url: str, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "state.json").write_text(text, encoding="utf-8")
    assert health.main(tmp_path, url) == 1
    assert capsys.readouterr().out.startswith("no state: ")


def test_the_last_words_of_a_server_that_ends_between_two_looks_are_heard(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "serve.sh").write_text("sleep 0.3; echo out of memory; exit 1\n", encoding="utf-8")
    monkeypatch.setenv("DGX_SPARK_GUARD", "off")
    found = supervisor.Supervisor(tmp_path, "http://127.0.0.1:1")
    look = select.select

    def too_early(*arguments: t.Any) -> t.Any:
        """Nothing to read yet; then it speaks and ends before anything else is done."""
        monkeypatch.setattr(supervisor.select, "select", look)
        assert found.server is not None
        os.waitid(os.P_PID, found.server.pid, os.WEXITED | os.WNOWAIT)
        return [], [], []

    monkeypatch.setattr(supervisor.select, "select", too_early)
    assert found.serve_once() == 1
    assert found.log.last_line() == "out of memory"


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        # As tensorrt_llm/serve/openai_server.py and uvicorn say it.
        (
            b"[11/25/2026-10:00:00] [TRT-LLM] [E] Health check detected fatal engine error, initiating server "
            b"shutdown: CUDA error: an illegal instruction was encountered\n"
            b'INFO:     127.0.0.1:41 - "GET /health HTTP/1.1" 503 Service Unavailable\n'
            b"INFO:     Shutting down\nINFO:     Application shutdown complete.\n"
            b"INFO:     Finished server process [71]\nAborted!\n",
            "Health check detected fatal engine error, initiating server shutdown: "
            "CUDA error: an illegal instruction was encountered",
        ),
        # As pydantic says it, with an address below.
        (
            b"pydantic_core._pydantic_core.ValidationError: 1 validation error for VllmConfig\n"
            b"  Value error, --kv-cache-dtype is not for this model. [type=value_error]\n"
            b"    For further information visit https://errors.pydantic.dev/2.14/v/value_error\n",
            "Value error, --kv-cache-dtype is not for this model. [type=value_error]",
        ),
        # As vLLM 0.32.0 says it, whose front ends in order after its engine.
        (
            b"(EngineCore pid=24) ERROR 11-29 01:18:55 [multiproc_executor.py:315] Worker proc VllmWorker-0 died "
            b"unexpectedly (exit code: -9), shutting down executor.\n" + ENGINE_DEAD,
            "Worker proc VllmWorker-0 died unexpectedly (exit code: -9), shutting down executor.",
        ),
        (
            b"(APIServer pid=9) WARNING 11-29 01:18:55 [core_client.py:817] [shutdown] MPClient: engine core exited "
            b"unexpectedly; starting cleanup\n" + ENGINE_DEAD,
            "engine core exited unexpectedly; starting cleanup",
        ),
        (
            ENGINE_DEAD,
            "EngineDeadError: EngineCore encountered an issue. See stack trace (above) for the root cause.",
        ),
    ],
    ids=["health check", "pydantic", "worker killed", "engine killed", "engine died"],
)
def test_the_reason_of_a_server_that_ends_itself_is_its_engines_error(tmp_path: Path, said: bytes, reason: str) -> None:
    (tmp_path / "state").mkdir()
    log = Log(tmp_path / "state", [words for engine in ENGINES.values() for words in engine.last_words])
    log.write(said)
    assert log.last_line() == reason

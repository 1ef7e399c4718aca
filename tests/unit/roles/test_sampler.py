# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The memory guard in the container's main process: what it samples, writes down, and ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import typing as t
from pathlib import Path

import pytest
from server import sampler
from server.guard import GIB, Limits, Sample, Verdict, watch_level
from server.sampler import MemoryLog, Sampler, limits_from

from tests.unit.entrypoint_container import FILES, GUARD, Benchmark, Container
from tests.unit.memory import QUICK, Memory, Seen
from tests.unit.waiting import WITHIN_S, Clock, until

TAKES = {"DGX_SPARK_TAKES_BYTES": str(20 * GIB)}


@pytest.fixture(autouse=True)
def unlocked(monkeypatch: pytest.MonkeyPatch) -> None:
    """The process of the tests stays unlocked: as another user it could start no thread any more."""
    monkeypatch.setattr(sampler, "lock_pages", lambda: True)


@pytest.fixture
def memory(tmp_path: Path) -> Memory:
    return Memory(tmp_path / "meminfo", 32)


@pytest.fixture
def start(tmp_path: Path, memory: Memory) -> t.Iterator[t.Callable[..., Container]]:
    started: list[Container] = []

    def run(script: str, **options: t.Any) -> Container:
        environment = {**TAKES, **options.pop("environment", {})}
        constants = {**QUICK, "sampler__MEMINFO": str(memory.path), **options}
        container = Container(tmp_path, script, environment=environment, **constants)
        started.append(container)
        return container

    yield run
    for container in started:
        container.end()


@pytest.fixture
def seen(tmp_path: Path) -> Seen:
    return Seen(tmp_path / "state")


def test_a_server_is_ended_in_time_started_again_once_and_then_left_with_the_cause(
    start: t.Callable[..., Container], memory: Memory, seen: Seen
) -> None:
    container = start("trap '' TERM; echo loading; sleep 60")
    first = container.wait_for("loading")["pid"]
    seen.level(32)
    memory.set(6)
    state = container.wait_until(lambda found: (found["last_exit"] or {}).get("by") == "memory guard")
    assert state["last_exit"]["signal"] == signal.SIGKILL
    assert state["reason"].startswith("memory fell from 32.0 GiB to 6.0 GiB in ")
    assert state["guard"]["on"]
    at = next(line for line in seen.lines() if line.get("event") == "SIGKILL")
    assert at["reason"] == state["reason"]
    # The memory is not back, so nothing is started.
    time.sleep(0.5)
    assert container.state()["state"] == "restarting"
    memory.set(31)
    container.wait_until(lambda found: found["pid"] not in (None, first))
    seen.level(31)
    memory.set(5)
    state = container.wait_for("failed")
    assert state["reason"].startswith("memory fell from 31.0 GiB to 5.0 GiB in ")
    assert "the memory guard has ended it twice" in container.log()
    assert container.stop() == 0
    assert seen.events() == ["loading", "SIGKILL", "ended", "loading", "SIGKILL", "ended", "stopped"]


@pytest.mark.parametrize("memory_comes_back", [True, False])
def test_the_next_server_waits_for_the_memory_of_the_last_one(
    start: t.Callable[..., Container], memory: Memory, seen: Seen, memory_comes_back: bool
) -> None:
    """A killed engine may hold its memory for a while. That of another program does not come back at all."""
    within = 600 if memory_comes_back else 0.5
    container = start("echo loading; sleep 60", sampler__SETTLED_WITHIN_S=within)
    first = container.wait_for("loading")["pid"]
    memory.set(20)
    seen.level(20)
    os.killpg(first, signal.SIGKILL)
    container.wait_for("restarting")
    if memory_comes_back:
        time.sleep(0.5)
        assert container.state()["state"] == "restarting"
        memory.set(32)
    container.wait_until(lambda found: found["pid"] not in (None, first))


def test_a_fall_is_ended_on_the_way(memory: Memory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampler, "WRITTEN_WITHIN_S", 0.0)
    sent: list[int] = []
    guard = Sampler(tmp_path, {**GUARD, **TAKES}, sent.append)
    guard.meminfo, guard.runs = sampler.Meminfo(), True
    guard.watch = watch_level(Limits(4 * GIB, 3.0), 12 * GIB, ready=False)
    # Half a minute of peace, and then from 32 GiB to 4 in five seconds, twenty looks a second.
    levels = [32.0] * 600 + [32 - 28 * step / 100 for step in range(100)]
    for number, level in enumerate(levels):
        if sent:
            break
        guard.look(Sample(number / 20, int(level * GIB), int(level * GIB), 8 * GIB))
    assert sent == [signal.SIGKILL]
    assert 4 * GIB < guard.samples[-1].available < 10 * GIB


def test_a_slow_leak_ends_in_order(start: t.Callable[..., Container], memory: Memory) -> None:
    memory.set(3)
    container = start("trap 'echo bye; exit 0' TERM; echo up; sleep 61 & wait")
    until(container.said)
    # The level stays: only what gives way goes.
    memory.set(3, swap=0.5)
    state = container.wait_until(lambda found: found["last_exit"])
    assert (state["last_exit"]["by"], state["last_exit"]["code"]) == ("memory guard", 0)
    assert "bye" in container.log()


def test_who_does_not_heed_the_order_is_killed(start: t.Callable[..., Container], memory: Memory) -> None:
    memory.set(3)
    container = start("trap '' TERM; echo up; sleep 61", sampler__GRACE_S=1)
    until(container.said)
    memory.set(3, swap=0.5)
    state = container.wait_until(lambda found: found["last_exit"])
    assert (state["last_exit"]["by"], state["last_exit"]["signal"]) == ("memory guard", signal.SIGKILL)
    assert state["reason"].startswith("only 3.0 GiB")


def test_a_trial_of_a_benchmark_is_guarded_too_and_does_not_count(
    start: t.Callable[..., Container], memory: Memory, tmp_path: Path
) -> None:
    benchmark = Benchmark(tmp_path)
    trial = benchmark.try_out(3)
    container = start("exec sleep 60")
    assert container.wait_for("loading")["trial"] == trial
    memory.set(0.5)
    state = container.wait_for("trial failed")
    assert (state["last_exit"]["by"], state["restarts"]) == ("memory guard", 0)
    benchmark.take_back()
    # The deployment's own server waits for the memory, too.
    container.wait_for("restarting")
    time.sleep(0.5)
    assert container.state()["pid"] is None
    memory.set(31)
    assert container.wait_for("loading")["trial"] is None


def test_nothing_else_is_ended(start: t.Callable[..., Container], memory: Memory) -> None:
    other = subprocess.Popen(["sleep", "60"])
    container = start("sleep 60")
    container.wait_for("loading")
    memory.set(0.5)
    container.wait_until(lambda found: found["last_exit"])
    assert (other.poll(), container.process.poll()) == (None, None)
    other.kill()
    other.wait()


def test_it_can_be_off(start: t.Callable[..., Container], memory: Memory, tmp_path: Path) -> None:
    container = start("sleep 60", environment={"DGX_SPARK_GUARD": "off"})
    state = container.wait_for("loading")
    memory.set(0.1)
    time.sleep(0.5)
    assert container.state()["state"] == "loading"
    assert state["guard"] == {"on": False, "why": "off by speculative_serve_memory_guard"}
    assert not (tmp_path / "state/memory.log").exists()


def test_without_a_memory_to_read_it_says_so(start: t.Callable[..., Container], memory: Memory) -> None:
    memory.path.write_text("MemTotal: 1 kB\n", encoding="utf-8")
    assert "cannot be read" in start("sleep 60").wait_for("loading")["guard"]["why"]


@pytest.mark.parametrize("said", ["MemTotal: 1 kB", "MemAvailable:      -5 kB"])
def test_a_memory_that_cannot_be_read_any_more_is_no_guard(
    start: t.Callable[..., Container], memory: Memory, said: str
) -> None:
    container = start("sleep 60", supervisor__MEMORY_EVERY_S=0.1, sampler__BLIND_S=0.2)
    container.wait_until(lambda found: found["state"] == "loading" and found["guard"]["on"])
    memory.path.write_text(f"{said}\n", encoding="utf-8")
    guard = container.wait_until(lambda found: not found["guard"]["on"])["guard"]
    assert guard["why"] == f"{memory.path} cannot be read ('MemAvailable')"
    # It may come back.
    memory.set(20)
    container.wait_until(lambda found: found["guard"]["on"])


def test_the_lowest_level_is_told(start: t.Callable[..., Container], memory: Memory, seen: Seen) -> None:
    container = start("sleep 60", supervisor__MEMORY_EVERY_S=0.1)
    container.wait_for("loading")
    memory.set(12)
    seen.level(12)
    memory.set(20)
    guard = container.wait_until(lambda found: found["guard"]["lowest"] == 12 * GIB)["guard"]
    assert (guard["on"], guard["floor"]) == (True, 4 * GIB)


def test_what_did_not_end_in_order_is_kept(tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.mkdir()
    for text, kept in (
        ('{"at": 1, "event": "loading"}\n{"at": 2, "available": 5', True),
        ('{"at": 3, "event": "ended"}\n{"at": 3, "event": "stopped"}\n', False),
    ):
        (state / "memory.log").write_text(text, encoding="utf-8")
        diary = MemoryLog(state)
        diary.start()
        assert diary.add('{"at": 4, "event": "loading"}\n').wait(WITHIN_S)
        assert Seen(state).events() == ["loading"]
        if kept:
            assert (state / "memory-before.log").read_text(encoding="utf-8") == text
    # That was in order, so what was before it is of no interest any more.
    assert not (state / "memory-before.log").exists()


def test_a_full_file_makes_way_and_two_minutes_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampler, "LOG_BYTES", 100)
    (tmp_path / "state").mkdir()
    diary = MemoryLog(tmp_path / "state")
    diary.start()
    for number in range(20):
        assert diary.add(json.dumps({"at": number, "event": "x" * 20}) + "\n").wait(WITHIN_S)
    found = [line["at"] for name in ("memory.log.1", "memory.log") for line in Seen(tmp_path / "state").lines(name)]
    assert found[-4:] == [16, 17, 18, 19]


@pytest.mark.parametrize("gone", ["file", "directory"])
def test_what_is_gone_costs_lines_and_no_other_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gone: str) -> None:
    monkeypatch.setattr(sampler, "LOG_BYTES", 20)
    state = tmp_path / "state"
    state.mkdir()
    diary = MemoryLog(state)
    diary.start()
    assert diary.add(json.dumps({"event": "x" * 20}) + "\n").wait(WITHIN_S)
    (state / "memory.log").unlink()
    if gone == "directory":
        state.rmdir()
    assert diary.add('{"event": "first"}\n').wait(WITHIN_S)
    # What is opened meanwhile gets the number that was closed.
    others = [os.open(os.devnull, os.O_RDONLY) for _number in range(8)]
    state.mkdir(exist_ok=True)
    assert diary.add('{"event": "second"}\n').wait(WITHIN_S)
    for other in others:
        os.close(other)
    assert Seen(state).events() == (["second"] if gone == "directory" else ["first", "second"])


def test_a_disk_that_hangs_does_not_keep_an_engine_alive(
    tmp_path: Path, memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sampler, "MEMINFO", memory.path)
    sent: list[int] = []
    guard = Sampler(tmp_path, GUARD, sent.append)
    guard.meminfo, guard.runs = sampler.Meminfo(), True
    # Nobody takes what is to be written.
    guard.act(Verdict(signal.SIGKILL, "why"), time.monotonic())
    assert sent == [signal.SIGKILL]


@pytest.mark.parametrize(("takes", "share", "landing"), [("", "", None), (20, "", 12), (12, "0.9", 2)])
def test_where_it_lands(
    tmp_path: Path, memory: Memory, monkeypatch: pytest.MonkeyPatch, takes: t.Any, share: str, landing: float | None
) -> None:
    monkeypatch.setattr(sampler, "MEMINFO", memory.path)
    told = {"DGX_SPARK_TAKES_BYTES": str(takes * GIB)} if takes else {}
    guard = Sampler(
        tmp_path, {**GUARD, **told, **({"DGX_SPARK_TAKES_SHARE": share} if share else {})}, lambda _number: None
    )
    guard.begin()
    guard.loads()
    guard.stop()
    assert guard.landing == (None if landing is None else pytest.approx(landing * GIB, abs=1))


def test_how_it_came_down_while_loading_is_no_fall_of_what_serves(
    tmp_path: Path, memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sampler, "MEMINFO", memory.path)
    # It looks when the test says so, by the clock of the test.
    monkeypatch.setattr(Sampler, "start", lambda _guard: None)
    clock = Clock()
    monkeypatch.setattr(sampler, "time", clock)
    sent: list[int] = []
    guard = Sampler(tmp_path, {**GUARD, "DGX_SPARK_TAKES_BYTES": str(26 * GIB)}, sent.append)
    guard.begin()

    def passes(seconds: float) -> None:
        for _look in range(round(seconds * 20)):
            clock.sleep(0.05)
            assert guard.meminfo is not None
            guard.look(guard.meminfo.sample())

    passes(2.2)
    guard.loads()
    memory.set(5)
    passes(0.6)
    guard.is_ready()
    passes(2.5)
    guard.stop()
    assert sent == []


@pytest.mark.parametrize(
    ("given", "limits"),
    [
        ("off", None),
        (f"floor={GIB} seconds=4.5", Limits(floor=GIB, seconds=4.5)),
    ],
)
def test_what_the_playbook_hands_over(given: str, limits: Limits | None) -> None:
    assert limits_from({"DGX_SPARK_GUARD": given}) == limits


def test_what_it_costs(tmp_path: Path) -> None:
    """A thousandth of a core on a Spark; here there is slack for a slower one. Work is counted, and not time."""
    program = """
import resource, sys
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from server.sampler import Sampler
import json
def cpu(): return sum(resource.getrusage(resource.RUSAGE_SELF)[:2])
def kb(): return int(next(l for l in open("/proc/self/status") if l.startswith("VmRSS")).split()[1])
guard = Sampler(Path(sys.argv[2]), json.loads(sys.argv[3]), lambda number: None)
guard.begin()
# Its own thread would sample between two looks of this one.
guard.unwanted.set(); guard.join()
guard.loads(); guard.is_ready()
def looks(number):
    # What it does in so many looks, and after every twentieth on the disk.
    for look in range(number):
        guard.look(guard.meminfo.sample())
        if look % 20 == 0:
            guard.flush().wait()
looks(100)
before = cpu()
looks(1000)
print(json.dumps([(cpu() - before) / (1000 * guard.pause()), kb(), guard.off, guard.pause()]))
"""
    done = subprocess.run(
        [sys.executable, "-c", program, str(FILES), str(tmp_path), json.dumps(GUARD)],
        check=True,
        capture_output=True,
        text=True,
    )
    share, size, off, pause = json.loads(done.stdout)
    assert (off, pause) == (None, 0.5)
    assert share < 0.004
    assert size < 30_000
    print(f"{100 * share:.3f} % of a core, {size / 1000:.1f} MB with all of Python")

# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Run serve.sh in its own process group, and restart it when it ends or no longer generates.

It restarts three times an hour at most. After that the container stays up without a server, so that the reason can be
read. A shell as main process would neither forward SIGTERM nor reap children, and Docker would kill the server.

The memory guard ends a server that is about to use up the Spark's memory. Such a server is restarted once.

A benchmark may have other engine options served while its lease is valid: a trial. Clients do not reach the server of a
trial. It is not restarted when it ends; afterwards the deployment's own options are served again.
"""

from __future__ import annotations

import collections
import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time
import typing as t
import urllib.parse
from pathlib import Path

from server.engines.registry import engine_of
from server.loading import TAKEN, EngineLock, Loading, Stillness
from server.processes import (
    collect_dead,
    describe_exit,
    describe_tree,
    end_descendants,
    has_listener,
    signal_engine,
    signal_group,
)
from server.sampler import Sampler
from server.state import Log, State, give_to_owner
from server.watchdog import Watchdog, answers, engine_figures

MAX_RESTARTS = 3
RESTART_WINDOW_S = 3600
# A server that dies while loading mostly dies again: leave time to read why, and the memory time to be given back.
RESTART_DELAY_S = 5
# Seconds between two records of the lowest memory level.
MEMORY_EVERY_S = 10
# Seconds between two health checks of a loading server.
HEALTH_EVERY_S = 1.0
# Docker kills after engine_container_stop_timeout (120 s); the server has to be gone before that.
STOP_GRACE_S = 100
# A benchmark that takes its trial back, or whose lease has run out, waits for no answer any more.
SWITCH_GRACE_S = 30
LOCK_EVERY_S = 0.5
# A lease is renewed all the time: one that would last longer is a mistake, or from before a reboot, and not obeyed.
LONGEST_LEASE_S = 900
PROBE_INTERVAL_S = 60.0
STALL_S = 300.0
# The host driver's version, which each container sees.
DRIVER = "/proc/driver/nvidia/version"
# In a separate process, because the caller keeps the GPU open.
ASK_GPU = "import ctypes; print(ctypes.CDLL('libcuda.so.1').cuInit(0))"
ASK_GPU_S = 30.0


class Trial(t.NamedTuple):
    """Engine options that a benchmark serves instead of the deployment's own."""

    id: str
    title: str


def leased_trial(directory: Path) -> Trial | None:
    """Return the trial with a valid lease. A lease that is unreadable, expired or days long is invalid."""
    try:
        lease = json.loads((directory / "lease.json").read_text(encoding="utf-8"))
        trial, until = Trial(lease["id"], lease["title"]), lease["until"]
        # The time of day may be set back.
        now = time.clock_gettime(time.CLOCK_BOOTTIME)
        words = all(isinstance(word, str) and word and word.isprintable() for word in trial)
        valid = words and now < until <= now + LONGEST_LEASE_S
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
    return trial if valid else None


def seconds_from(variable: str, default: float) -> float:
    """Return seconds from the environment; an invalid number counts as missing."""
    with contextlib.suppress(KeyError, ValueError):
        return float(os.environ[variable])
    return default


def gpu_is_lost() -> bool:
    """Return whether CUDA cannot be initialized here although the host's driver is loaded.

    If the toolkit's hook provides the GPU, a container loses it at 'systemctl daemon-reload', which apt also runs
    (NVIDIA/nvidia-container-toolkit issue 48). No server that starts in that container finds the GPU again.
    """
    if not Path(DRIVER).exists():
        return False
    try:
        asked = subprocess.run([sys.executable, "-c", ASK_GPU], capture_output=True, timeout=ASK_GPU_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    code = asked.stdout.strip()
    return code.isdigit() and code != b"0"


class Supervisor:
    """Runs serve.sh, and runs it again when it dies or no longer generates."""

    def __init__(self, deployment: Path, url: str) -> None:
        self.deployment = deployment
        self.script = deployment / "serve.sh"
        self.url = url
        self.port = urllib.parse.urlsplit(url).port or 0
        self.state = State(deployment / "state")
        self.restarts: collections.deque[float] = collections.deque()
        self.stop_signal: int | None = None
        self.server: subprocess.Popen[bytes] | None = None
        self.condemned: str | None = None
        # A server was ready since the start of the container.
        self.served = False
        # Of the server that runs or ran last, and whether it is ended for another one's sake.
        self.trial: Trial | None = None
        self.switching = False
        self.engine = engine_of(os.environ)
        self.log = Log(deployment / "state", self.engine.last_words)
        self.loading = Loading(deployment / "options.yml", self.engine)
        self.stillness = Stillness(0)
        self.guard = Sampler(deployment / "state", os.environ, self.end_engine)
        self.engine_lock = EngineLock()
        # Variables of the server besides the container's.
        self.settings: dict[str, str] = {}

    def take_signals(self) -> None:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self.on_signal)

    def run(self) -> int:
        self.take_signals()
        try:
            self.script.open("rb").close()
        except OSError as error:
            return self.refuse(f"serve.sh cannot be read ({error}); run the playbook again")
        self.guard.begin()
        self.acquire_engine_lock()
        while self.stop_signal is None:
            self.wait_for_memory()
            self.make_ready()
            if self.stop_signal is not None:
                break
            code = self.serve_once()
            if self.stop_signal is not None:
                break
            if self.guard.verdict is not None:
                self.log.say(f"the memory guard ends the server: {self.guard.verdict.reason}")
            self.log.say(f"the server ended with {describe_exit(code)}")
            self.note_memory()
            if self.switching:
                self.state.note(pid=None)
                continue
            last_exit = self.last_exit(code)
            ended_as = self.ended_as if self.trial is None else "trial failed"
            self.state.write(ended_as, pid=None, last_exit=last_exit, reason=last_exit["reason"])
            if self.trial is not None:
                self.log.say("it was a trial's and is not started again; what comes next is the benchmark's to say")
                self.wait_for_switch()
                continue
            if self.guard.verdict is not None and self.guard.count():
                self.log.say("the memory guard has ended it twice within an hour, and it is not started again")
                self.give_up()
                break
            if not self.at_fault():
                continue
            if self.served and gpu_is_lost():
                self.log.say(
                    "the container has lost the GPU that the host has, and ends: Docker's restart brings it back"
                )
                return 1
            if not self.may_restart():
                self.log.say(f"it ended {MAX_RESTARTS + 1} times within an hour and is not started again")
                self.give_up()
                break
            self.idle(RESTART_DELAY_S)
        self.guard.stop()
        self.state.write("stopped", pid=None, trial=None, reason=None)
        return 0

    @property
    def ended_as(self) -> str:
        """Return the state between a server's end and its next start."""
        return "restarting"

    @property
    def evidence(self) -> str:
        """Return the file for the evidence of a server that had to be ended."""
        return "stalled.log"

    def make_ready(self) -> None:
        """Wait for what has to be there before the server is started; one Spark needs nothing."""

    def is_ready(self) -> None:
        """Record that the server answers for the first time."""
        self.guard.is_ready()

    def check_server(self) -> None:
        """Condemn a server that stands still while it loads and has no watchdog; of a pair one may await another."""
        if self.server is None or self.state.values["state"] != "loading":
            return
        if self.stillness.look(self.server.pid, self.log.size):
            still_s = self.stillness.patience
            self.condemned = f"stalled: it has neither said nor done anything for {still_s:g} s while it loaded"
            self.log.say("the watchdog ends the server, which stands still while it loads")

    def at_fault(self) -> bool:
        """Return whether the end of a server counts against its restarts."""
        return True

    def end_engine(self, number: int) -> None:
        """End the engine for the memory guard."""
        if self.server is not None:
            signal_engine(self.server, number)

    def note_memory(self) -> None:
        """Record the lowest memory level so far."""
        if self.guard.summary() != self.state.values["guard"]:
            self.state.note(guard=self.guard.summary())

    def wait_for_memory(self) -> None:
        """Wait until the memory of the last server is free: the next one needs it."""
        while self.stop_signal is None and not self.guard.is_settled():
            self.idle(0.5)

    def acquire_engine_lock(self) -> None:
        """Wait until no other container has an engine here. The lock is kept until this one gives up or ends."""
        waited = False
        while self.stop_signal is None and self.engine_lock.is_taken():
            if not waited:
                waited = True
                self.log.say(TAKEN)
                self.state.write("starting", reason=TAKEN)
            self.idle(LOCK_EVERY_S)
        if waited:
            self.state.note(reason=None)

    def begin_switch(self) -> bool:
        """Return whether the leased trial has changed; if so, record it."""
        wanted = leased_trial(self.deployment / "trial")
        if wanted == self.trial:
            return False
        reason = "switching back to the deployment's own options"
        if wanted is not None:
            reason = f"switching to a trial: {wanted.title}"
        self.switching = True
        self.log.say(reason)
        # The end of this server, or of a trial's, is no fault of the next one.
        self.state.write("restarting", trial=wanted and wanted._asdict(), last_exit=None, reason=reason)
        return True

    def wait_for_switch(self) -> None:
        """Stay without a server until the benchmark is done with its trial, or no longer there."""
        while self.stop_signal is None and not self.begin_switch():
            self.idle(0.5)

    def give_up(self) -> None:
        """Stay without a server, so that the reason can be read, and release the engine lock."""
        self.state.write("failed", pid=None)
        self.engine_lock.give_back()
        self.idle(None)

    def refuse(self, reason: str) -> int:
        self.log.say(reason)
        last_exit = {"code": None, "signal": None, "at": time.time(), "reason": reason}
        self.state.write("failed", last_exit=last_exit, reason=reason)
        self.idle(None)
        self.state.write("stopped", pid=None, reason=None)
        return 0

    def serve_once(self) -> int:
        """Start the server and stay with it until it ends; returns its exit status as Popen gives it."""
        self.trial = leased_trial(self.deployment / "trial")
        self.switching = False
        options = self.deployment / ("options.yml" if self.trial is None else "trial/options.yml")
        self.loading = Loading(options, self.engine)
        self.stillness = Stillness(self.patience)
        self.loading.pages.give_back()
        self.guard.loads()
        # Readers of the log have to know where that of this server begins.
        self.log.say("the server starts")
        self.server = subprocess.Popen(
            # Privileged, so that no variable makes bash run something before the script (BASH_ENV).
            ["/bin/bash", "-p", str(self.script)],
            env={**os.environ, **self.settings, "DGX_SPARK_OPTIONS": str(options)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            # A main process that is killed ends before its server does.
            pass_fds=[] if self.engine_lock.file is None else [self.engine_lock.file],
        )
        self.log.tail.clear()
        self.condemned = None
        trial = self.trial and self.trial._asdict()
        nothing_yet = {"verdict": None, "kv_cache": None}
        self.state.write("loading", pid=self.server.pid, trial=trial, guard=self.guard.summary(), **nothing_yet)
        assert self.server.stdout is not None
        self.pump(self.server.stdout.fileno(), self.server)
        self.guard.is_over()
        return self.end_group(self.server)

    def pump(self, output: int, server: subprocess.Popen[bytes]) -> None:
        """Pass output on until the server has ended or must, watch for readiness and for orders to stop or switch."""
        ready = False
        watchdog: Watchdog | None = None
        began = look_at = memory_at = time.monotonic()
        kill_at: float | None = None
        ended_at: float | None = None
        os.set_blocking(output, False)
        while True:
            # The last output is in the pipe when the server has ended, so its end is checked before the read.
            ended = self.reap(server)
            readable = select.select([output], [], [], 0.25)[0]
            data = os.read(output, 65536) if readable else b""
            if data:
                self.log.write(data)
                if not ready:
                    self.read_kv_line(data)
            elif readable:
                time.sleep(0.25)  # the server closed its output but still runs: do not spin
            now = time.monotonic()
            if ended:
                # Later output of its children is ignored.
                ended_at = ended_at or now
                if not data or now - ended_at > 1:
                    break
            if kill_at is None and (self.stop_signal is not None or (not ended and self.begin_switch())):
                signal_group(server, signal.SIGTERM)
                kill_at = now + (SWITCH_GRACE_S if self.switching else STOP_GRACE_S)
            if kill_at is not None:
                if now > kill_at:
                    signal_group(server, signal.SIGKILL)
                continue
            if now >= memory_at:
                memory_at = now + MEMORY_EVERY_S
                self.note_memory()
                self.state.keep()
            if not ready and not ended:
                self.loading.look()
            if not ready and not ended and now >= look_at:
                # While this server loads, another process may have its port.
                ready = answers(self.url, timeout=2) and has_listener(self.port)
                look_at = now + HEALTH_EVERY_S
                if ready:
                    self.served = True
                    self.is_ready()
                    self.state.write("running", reason=None, loading_s=round(time.monotonic() - began, 1))
                    watchdog = self.watch()
            if not ended:
                if watchdog is not None:
                    self.apply_verdict(watchdog)
                self.check_server()
                if self.condemned is not None:
                    self.keep_evidence(server)
                    break
        if watchdog is not None:
            watchdog.stop()

    def read_kv_line(self, output: bytes) -> None:
        """Record the KV cache line of a loading server, before the server is ready."""
        self.loading.hear(output)
        said = self.loading.kv_cache()
        if said != self.state.values["kv_cache"]:
            self.state.note(kv_cache=said)

    @property
    def patience(self) -> float:
        """Return the seconds after which a loading server has stalled; 0 if the watchdog is off."""
        watched = self.trial is None and seconds_from("DGX_SPARK_PROBE_INTERVAL_S", PROBE_INTERVAL_S) > 0
        return max(seconds_from("DGX_SPARK_STALL_S", STALL_S), 0.0) if watched else 0.0

    def watch(self) -> Watchdog | None:
        """Return a watchdog for the server that has become ready, if it is to be watched."""
        if not self.patience:
            return None
        interval = seconds_from("DGX_SPARK_PROBE_INTERVAL_S", PROBE_INTERVAL_S)
        watchdog = Watchdog(self.url, self.engine, interval, self.patience)
        watchdog.start()
        return watchdog

    def apply_verdict(self, watchdog: Watchdog) -> None:
        """Record the watchdog's verdict, and condemn the server if it says so."""
        while not watchdog.verdicts.empty():
            verdict = watchdog.verdicts.get()
            if verdict.reason not in (None, self.state.values["reason"]) and verdict.name != "busy":
                self.log.say(f"watchdog: {verdict.reason}")
            self.state.note(verdict=verdict.name, reason=verdict.reason)
            if verdict.fatal:
                self.condemned = f"{verdict.name}: {verdict.reason}"
                self.log.say(f"the watchdog ends the server, which is {verdict.name}")

    def keep_evidence(self, server: subprocess.Popen[bytes]) -> None:
        """Before a server that does not end by itself is ended: what it looked like, and what it said last."""
        path = self.state.directory / self.evidence
        parts = [
            f"# {time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime())} {self.condemned}",
            f"# state.json\n{json.dumps(self.state.values)}",
            "# processes: number, parent, state, what the kernel waits for, command\n" + describe_tree(server.pid),
            f"# the engine's figures\n{engine_figures(self.url, self.engine)}",
            "# the last lines of the log\n" + "\n".join(self.log.tail),
        ]
        # A full disk costs the evidence, and not the server.
        with contextlib.suppress(OSError):
            if path.exists():
                path.replace(path.with_suffix(".log.1"))
            path.write_text("\n\n".join(parts) + "\n", encoding="utf-8")
            give_to_owner(path)
            self.log.say(f"what it looked like is kept in state/{path.name}")

    def reap(self, server: subprocess.Popen[bytes]) -> bool:
        """Collect every dead child, orphans too, as the first process of a container must; True if the server ended."""
        if server.poll() is not None:
            return True
        collect_dead(but=server.pid)
        return server.poll() is not None

    def end_group(self, server: subprocess.Popen[bytes]) -> int:
        """Leave nothing of a dead server behind: its workers hold the memory the next one needs."""
        signal_group(server, signal.SIGKILL)
        left = end_descendants(but=server.pid)
        if left:
            self.log.say(f"these processes of the server cannot be ended: {' '.join(map(str, sorted(left)))}")
        if server.stdout is not None:
            server.stdout.close()
        self.server = None
        return server.wait()

    def may_restart(self) -> bool:
        now = time.monotonic()
        while self.restarts and now - self.restarts[0] > RESTART_WINDOW_S:
            self.restarts.popleft()
        if len(self.restarts) >= MAX_RESTARTS:
            return False
        self.restarts.append(now)
        self.state.values["restarts"] += 1
        return True

    def idle(self, seconds: float | None) -> None:
        """Wait, but not past the order to stop."""
        end = None if seconds is None else time.monotonic() + seconds
        while self.stop_signal is None and (end is None or time.monotonic() < end):
            collect_dead()
            time.sleep(0.2)

    def last_exit(self, code: int) -> dict[str, t.Any]:
        guarded = self.guard.verdict
        by = "memory guard" if guarded else "watchdog" if self.condemned else None
        return {
            "code": code if code >= 0 else None,
            "signal": -code if code < 0 else None,
            "at": round(time.time(), 3),
            "by": by,
            "reason": guarded.reason if guarded else self.condemned or self.log.last_line(),
        }

    def on_signal(self, number: int, _frame: object) -> None:
        self.stop_signal = number

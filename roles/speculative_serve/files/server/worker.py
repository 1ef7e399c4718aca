# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Run a worker: it accepts the head, whose launcher starts a rank here, and knows whether a rank runs."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path

from server import rdma
from server.cluster import RETRY_S, Cluster, is_free, is_here, knock, no_address
from server.engines.registry import engine_of
from server.guard import Verdict
from server.loading import TAKEN, EngineLock, PageCache, memory_is_short
from server.processes import Process, collect_dead, descendants, end_descendants
from server.sampler import Sampler
from server.state import Log, State

STOP_RANKS_S = 20.0
GUARDED = "the memory guard has ended the rank"
UNSETTLED = "the memory of the last rank is not free yet"
# A reason, after the name of the state.
StateAndReason = tuple[str, str]


class BaseWorker:
    """The worker of any launcher: the fabric, the memory guard and the state. A launcher's own one opens its port."""

    def __init__(self, deployment: Path, cluster: Cluster) -> None:
        self.cluster = cluster
        self.deployment = deployment
        self.state = State(deployment / "state")
        self.log = Log(deployment / "state", engine_of(os.environ).last_words)
        self.stop_signal: int | None = None
        self.failures = 0
        self.verbs = rdma.RdmaReadiness(os.environ)
        self.pages = PageCache()
        self.guard = Sampler(deployment / "state", os.environ, self.end_ranks)
        # For what it has ended a rank last, and whether it was the last one.
        self.heeded: Verdict | None = None
        self.given_up = False
        # The head has reported that the running rank is ready.
        self.ready = False
        # A new rank replaces it; the Spark may never have been seen without one.
        self.replaced = False
        self.engine_lock = EngineLock()

    def prepare(self) -> None:
        """Prepare for ranks, before anything is opened."""

    def open(self) -> StateAndReason | None:
        """Open the port for the head; returns the state and the reason if that is not possible."""
        raise NotImplementedError

    def stay(self) -> StateAndReason | None:
        """Serve the head until that must end; returns why."""
        raise NotImplementedError

    def close(self) -> None:
        """Accept the head no longer."""
        raise NotImplementedError

    def ranks(self) -> dict[int, Process]:
        """Return the processes of a rank."""
        raise NotImplementedError

    @property
    def pid(self) -> int | None:
        """Return the process that accepts the head."""
        return os.getpid()

    def run(self) -> int:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self.on_signal)
        self.state.write("starting")
        self.prepare()
        self.guard.begin()
        while self.stop_signal is None and not self.verbs.too_early:
            problem = self.start()
            if problem is None:
                problem = self.stay()
            if problem is not None:
                self.enter(*problem)
                if not self.ranks():
                    self.engine_lock.give_back()
                # Pause before a port that keeps closing is opened again.
                self.idle(min(RETRY_S * 2**self.failures, 30))
        self.end()
        self.guard.stop()
        if self.stop_signal is None:
            return rdma.AGAIN
        self.state.write("stopped", pid=None, reason=None)
        return 0

    def enter(self, state: str, reason: str | None) -> None:
        """Write a state down when it is a new one."""
        if (state, reason) == (self.state.values["state"], self.state.values["reason"]):
            return
        if reason is not None:
            self.log.say(f"{state}: {reason}")
        self.state.write(state, pid=self.pid, reason=reason)

    def start(self) -> StateAndReason | None:
        """Open the port; returns the state and the reason if that is not possible."""
        short = self.lacks_memory()
        if short is not None:
            return "failed", short
        own, port = self.cluster.own, self.cluster.port
        gone = self.cluster.gone()
        if gone is not None:
            return "waiting for the fabric", no_address(gone)
        lacking = self.verbs.problem()
        if lacking is not None:
            return "waiting for the fabric", lacking
        # Before that there is no rank, and the head waits. The other container may still have the port.
        if self.engine_lock.is_taken():
            return "starting", TAKEN
        if not is_free(own, port):
            return "failed", (
                f"port {port} of {own} is taken by another program of this Spark; "
                f"'sudo ss -ltnp sport = :{port}' shows which one"
            )
        return self.open()

    def look(self) -> None:
        """Record the present state, and tell the memory guard of a new rank."""
        self.state.keep()
        if not is_here(self.cluster.own):
            self.enter("waiting for the fabric", no_address(self.cluster.own))
            return
        if self.ranks():
            self.enter("rank_runs", None)
            if self.replaced:
                self.no_rank()
            if not self.guard.runs:
                self.guard.loads()
                self.heeded = None
            if self.ready and not self.guard.ready:
                self.guard.is_ready()
            if self.guard.summary() != self.state.values["guard"]:
                self.state.note(guard=self.guard.summary())
            # The line that all weights are read is in the head's log.
            if self.pages.due() and memory_is_short():
                self.pages.give_back()
            return
        self.no_rank()
        if (lacking := self.verbs.problem()) is not None:
            self.enter("waiting for the fabric", lacking)
        elif not self.may_start():
            self.enter("starting", UNSETTLED)
        elif self.state.values["state"] == "ready" or self.is_open():
            self.failures = 0
            self.enter("ready", None)

    def may_start(self) -> bool:
        """Return whether the head may start a rank."""
        return True

    def is_open(self) -> bool:
        """Return whether the head can connect."""
        return knock(self.cluster.own, self.cluster.port, self.cluster.own) is None

    def is_guarded(self) -> bool:
        """Return whether the memory guard has ended the rank since it was last asked."""
        return self.guard.verdict is not self.heeded and not self.guard.runs

    def no_rank(self) -> None:
        """Clear the facts of the last rank, which do not apply to the next one."""
        self.replaced = self.ready = False
        self.guard.is_over()

    def end_ranks(self, number: int) -> None:
        """End the ranks for the memory guard. The head sees that its rank is gone, and ends the others."""
        for pid in self.ranks():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def apply_guard_verdict(self) -> StateAndReason:
        """Accept no rank after the guard has ended one, until there is memory for another one."""
        self.heeded = self.guard.verdict
        self.given_up = self.guard.count()
        self.close()
        return "failed", self.lacks_memory() or f"{GUARDED}: {self.heeded and self.heeded.reason}"

    def lacks_memory(self) -> str | None:
        """Return why the memory guard forbids a new rank after it has ended one; None if it does not."""
        if self.heeded is None:
            return None
        reason = f"{GUARDED}: {self.heeded.reason}"
        if self.given_up:
            return f"{reason}, for the second time within an hour; no rank is started until this container restarts"
        return None if self.guard.is_back() else f"{reason}; its memory is not free yet"

    def end(self) -> None:
        """End the ranks."""
        until = time.monotonic() + STOP_RANKS_S
        for pid in descendants(os.getpid()):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
        while time.monotonic() < until and descendants(os.getpid()):
            collect_dead()
            time.sleep(0.1)
        end_descendants()

    def idle(self, seconds: float) -> None:
        """Wait, but not past the order to stop."""
        until = time.monotonic() + seconds
        while self.stop_signal is None and time.monotonic() < until:
            collect_dead()
            time.sleep(0.1)

    def on_signal(self, number: int, _frame: object) -> None:
        self.stop_signal = number

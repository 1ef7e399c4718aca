# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Run the head of a cluster: wait for its workers, and stop the server if one is lost.

A server that waits for a lost rank never ends by itself.
"""

from __future__ import annotations

import os
import sys
import threading
import time
import typing as t
from pathlib import Path

from server import nccl, rdma
from server.cluster import LOOK_TIMEOUT_S, RETRY_S, Cluster, knock, no_address
from server.launchers.launcher import Launcher
from server.launchers.registry import launcher_of
from server.processes import descendants
from server.state import read_or
from server.supervisor import Supervisor
from server.watchdog import METER_EVERY_S, Http, ProgressMeter

# Seconds between two checks of a worker.
LOOK_EVERY_S = 10.0
# The launcher may outlive the server.
FRONT_EVERY_S = 5.0
FRONT_GONE_S = 60.0
# A server may end some time after the worker that it lost is back.
AWAY_LATELY_S = 60.0


class Peer(threading.Thread):
    """The head's watch on a worker. A short loss does not count: the server may continue to generate meanwhile."""

    def __init__(self, address: str, cluster: Cluster, launcher: Launcher) -> None:
        super().__init__(name=f"peer {address}", daemon=True)
        self.address = address
        self.cluster = cluster
        self.launcher = launcher
        self.every = min(LOOK_EVERY_S, cluster.lost_s / 6)
        self.reason: str | None = None
        self.lost_for = 0.0
        self.changed_at = time.time()
        self.away_at: float | None = None
        # Once the server is ready, weights no longer keep the worker from a greeting.
        self.greets = False
        # The server is ready, and the worker is not informed yet.
        self.has_news = False
        self.unwanted = threading.Event()

    def run(self) -> None:
        before = time.monotonic()
        while not self.unwanted.wait(self.every):
            timeout = min(LOOK_TIMEOUT_S, self.every)
            greeting = self.launcher.greeting if self.greets else b""
            reason = knock(self.address, self.cluster.port, self.cluster.own, timeout, greeting)
            now = time.monotonic()
            # A container that was paused has not looked: of a long silence only the longest usual step is counted.
            step = min(now - before, 2 * self.every + 1)
            before = now
            if (reason is None) != (self.reason is None):
                self.changed_at = time.time()
            # The loss begins with the first failed check.
            self.lost_for = 0.0 if reason is None or self.reason is None else self.lost_for + step
            self.reason = reason
            if reason is not None:
                self.away_at = now
            elif self.has_news:
                self.has_news = not self.launcher.tell_ready(self.cluster, self.address)

    def was_away(self) -> bool:
        """Return whether the worker has not answered recently, even if it answers again."""
        return self.away_at is not None and time.monotonic() - self.away_at < AWAY_LATELY_S

    def stop(self) -> None:
        self.unwanted.set()

    def describe(self) -> dict[str, t.Any]:
        """For state.json."""
        return {
            "address": self.address,
            "reachable": self.reason is None,
            "since": round(self.changed_at, 3),
            "reason": self.reason,
        }


class Head(Supervisor):
    """Serves with a rank on each worker."""

    def __init__(self, deployment: Path, url: str, cluster: Cluster) -> None:
        super().__init__(deployment, url)
        self.cluster = cluster
        self.launcher = launcher_of(self.engine)
        self.peers: list[Peer] = []
        self.peer_lost = False
        self.alone = False
        self.front_seen_at: float | None = None
        self.front_look_at = 0.0
        self.meter = ProgressMeter(Http(url), self.engine)
        self.meter_at = 0.0
        self.verbs = rdma.RdmaReadiness(os.environ)
        self.settings = nccl.settings(self.state.directory, os.environ)
        unknown = {"reachable": None, "since": None, "reason": None}
        self.state.values["peers"] = [{"address": address, **unknown} for address in cluster.peers]

    @property
    def ended_as(self) -> str:
        if self.peer_lost:
            return "peer lost"
        return "waiting for the worker" if self.alone else super().ended_as

    @property
    def evidence(self) -> str:
        # A cable that is pulled often must not cost what an engine that hung looked like.
        return "peer-lost.log" if self.peer_lost else super().evidence

    def last_exit(self, code: int) -> dict[str, t.Any]:
        """Add whether a worker was missing, which is checked before the state is written."""
        # One that only waits for the memory of its rank accepts connections, and sends no greeting.
        missing = self.missing(greeting=b"")
        self.alone = self.peer_lost or bool(missing) or any(peer.was_away() for peer in self.peers)
        return {**super().last_exit(code), "excused": self.alone}

    def make_ready(self) -> None:
        """Wait for the fabric and the workers, for as long as that takes: neither is the server's fault."""
        for peer in self.peers:
            peer.stop()
        self.peers = []
        waited = False
        while self.stop_signal is None:
            missing = self.missing(self.launcher.greeting)
            if not missing:
                break
            if not waited or self.state.values["reason"] not in missing.values():
                self.wait_on(missing)
            waited = True
            if self.verbs.too_early:
                sys.exit(rdma.AGAIN)
            self.idle(RETRY_S)
        if self.stop_signal is not None:
            return
        if waited:
            self.log.say(f"the worker answers at {' and '.join(self.cluster.peers)} port {self.cluster.port}")
        nccl.remove_files(self.state.directory)
        self.peer_lost = False
        self.front_seen_at = None
        self.peers = [Peer(address, self.cluster, self.launcher) for address in self.cluster.peers]
        self.state.values["peers"] = [peer.describe() for peer in self.peers]
        for peer in self.peers:
            peer.start()

    def wait_on(self, missing: t.Mapping[str, str]) -> None:
        """Write down what the server waits for."""
        name = "peer lost" if self.peer_lost else "waiting for the worker"
        reason = next(iter(missing.values()))
        self.log.say(f"{name}: {reason}")
        since = round(time.time(), 3)
        self.state.values["peers"] = [
            {"address": peer, "reachable": peer not in missing, "since": since, "reason": missing.get(peer)}
            for peer in self.cluster.peers
        ]
        if self.state.values["state"] == name:
            self.state.note(reason=reason)
        else:
            self.state.write(name, pid=None, verdict=None, reason=reason)

    def missing(self, greeting: bytes) -> dict[str, str]:
        """By a worker's address, why the server cannot start yet; what the head itself lacks, it lacks for all."""
        gone = self.cluster.gone()
        own = no_address(gone) if gone is not None else self.verbs.problem()
        port, source = self.cluster.port, self.cluster.own
        result = {address: own or knock(address, port, source, greeting=greeting) for address in self.cluster.peers}
        return {address: reason for address, reason in result.items() if reason is not None}

    def is_ready(self) -> None:
        super().is_ready()
        for peer in self.peers:
            peer.greets = peer.has_news = True

    def check_server(self) -> None:
        self.look_at_peers()
        self.look_for_front()

    def look_at_peers(self) -> None:
        for peer, before in zip(self.peers, self.state.values["peers"]):
            seen = peer.describe()
            if seen["reachable"] != before["reachable"]:
                self.log.say(f"the worker answers again at {peer.address}" if seen["reachable"] else seen["reason"])
                told = [seen if peer is before else peer for peer in self.state.values["peers"]]
                self.state.note(peers=told)
        lost = next((peer for peer in self.peers if peer.lost_for >= self.cluster.lost_s), None)
        if lost is None or self.gets_on():
            return
        reason = f"the worker has not answered for {self.cluster.lost_s:g} s ({lost.reason})"
        self.peer_lost = True
        self.condemned = f"peer lost: {reason}"
        self.state.write("peer lost", verdict=None, reason=reason)
        self.log.say(f"{reason}; the server is stopped, and restarted when the worker is back")

    def gets_on(self) -> bool:
        """Return whether the engine generates although a worker does not answer: busy is not dead."""
        now = time.monotonic()
        if now < self.meter_at:
            return True
        self.meter_at = now + METER_EVERY_S
        # The first sample may be compared with an old one or with none; the second one decides.
        return self.meter.moved()

    def look_for_front(self) -> None:
        """Check the front process of the server, which the launcher of the ranks may outlive, also while loading."""
        now = time.monotonic()
        if self.server is None or now < self.front_look_at:
            return
        self.front_look_at = now + FRONT_EVERY_S
        front = self.engine.front
        if any(runs(pid, front) for pid in descendants(self.server.pid)):
            self.front_seen_at = now
        elif self.front_seen_at is not None and now - self.front_seen_at > FRONT_GONE_S:
            self.condemned = f"unhealthy: {front} has ended, but its launcher still runs: {self.log.last_line()}"
            self.log.say(f"{front} has ended, but its launcher still runs; the launcher is stopped as well")

    def at_fault(self) -> bool:
        """Return whether the server is to blame; one that ends because a worker is gone is not."""
        return not self.alone


def runs(pid: int, program: str) -> bool:
    """Return whether a process runs a program, directly or with an interpreter."""
    command = read_or(Path(f"/proc/{pid}/cmdline"), "").split("\0")
    return any(os.path.basename(word) == program for word in command[:2])  # noqa: PTH119 (no path that is used)

# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this module util is internal to the collection; its interface may change at any time.

"""Determine whether a server is ready, from its port, its routes and the supervisor's state file."""

from __future__ import annotations

import dataclasses
import json
import time
import typing as t
from pathlib import Path

from .._data.files import TAIL_BYTES, read_end
from .._data.text import duration
from . import completions
from .client import BadReply, Expired, ProbeError, Refused, Unreachable
from .server_facts import (
    STARTS_WITHIN_S,
    TRIAL_FAILED,
    ended_by_itself,
    is_its_own,
    load_progress,
    missing_worker,
    trial_of,
    why_ended,
)

LOOK_EVERY_S = 0.5
# A state file may still be the one of the container before, until the new one's main process has written its own.
DEAD_FOR_S = 3.0
QUIET_S = 60


# Seconds until the head can log in to a started or restarted worker.
REFUSED_FOR_S = 90.0
# The head's message about a running worker whose container does not run.
REFUSED = "nothing listens at "


def refused_for(server: t.Mapping[str, t.Any]) -> float:
    """Return for how many seconds a running worker has refused logins, according to the head; else 0."""
    peers = server.get("peers")
    since = [
        peer["since"]
        for peer in (peers if isinstance(peers, list) else [])
        if isinstance(peer, dict)
        and str(peer.get("reason") or "").startswith(REFUSED)
        and isinstance(peer.get("since"), (int, float))
    ]
    return time.time() - min(since) if since else 0.0


@dataclasses.dataclass
class Observation:
    """The result of one check of the server."""

    state: str
    error: str | None = None
    percent: float | None = None
    text: str = ""
    health: int | None = None
    version: str | None = None
    models: list[str] = dataclasses.field(default_factory=list)
    server: dict[str, t.Any] | None = None


@dataclasses.dataclass(frozen=True)
class ReadinessWait:
    """Looks at a server until there is something to say of it."""

    client: completions.Client
    url: str
    # Files of the main process, if known.
    state_file: Path | None
    log_file: Path | None
    # Unix time of the container's start; what was written before it is another one's.
    since: float
    # For how many seconds a head waits for its workers before that is said; 0 for as long as it takes.
    patience: float
    # The model that is asked for: a server that lists none may still have it.
    model: str | None
    # Called with a warning about an unreadable file.
    warn: t.Callable[[str], None]

    def until(self, seconds: float) -> Observation:
        """Look until there is something to report, or the time is up."""
        begin = time.monotonic()
        end = begin + seconds
        dead_since: float | None = None
        while True:
            look = self.look()
            now = time.monotonic()
            dead_since = (dead_since or now) if look.state == "dead" else None
            certain = dead_since is not None and now - dead_since >= DEAD_FOR_S
            if look.state == "ready" or certain or now >= end:
                return look
            time.sleep(max(0.0, min(LOOK_EVERY_S, end - now)))

    def look(self) -> Observation:
        """One look at the port, the routes and the files."""
        server = self.read_state()
        if not is_its_own(server, self.since):
            return self.by_files(server)
        try:
            health = self.client.get("/health")
        except Refused as exc:
            return self.by_files(server, str(exc))
        except Unreachable as exc:
            return Observation("absent", f"The server at {self.url} cannot be asked: {exc}.", server=server)
        except Expired:
            message = f"The server at {self.url} takes connections, but /health does not answer."
            return Observation("unhealthy", message, server=server)
        except BadReply as exc:
            message = f"What listens at {self.url} does not answer /health properly: {exc}."
            return Observation("unhealthy", message, server=server)
        if health.status != 200:
            said = completions.error_text(health.json) or health.text or "no reason given"
            message = f"/health at {self.url} answers {health.status}: {said.rstrip('.')}."
            return Observation("unhealthy", message, health=health.status, server=server)
        look = Observation("ready", health=200, server=server)
        try:
            look.models = self.client.models()
            look.version = self.client.version()
        except ProbeError as exc:
            reason = str(exc) or "it does not answer in time"
            look.state, look.error = (
                "unhealthy",
                f"/health at {self.url} is fine, the next route not: {reason}.",
            )
            return look
        if not look.models and not self.model:
            look.state = "unhealthy"
            look.error = f"What listens at {self.url} lists no model on /v1/models; is it a model server?"
        return look

    def read_state(self) -> dict[str, t.Any] | None:
        """Return the state that the supervisor reports."""
        if self.state_file is None:
            return None
        try:
            data = json.loads(self.state_file.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, RecursionError) as exc:
            self.warn(f"The state file {self.state_file} cannot be read: {exc}.")
            return None
        return data if isinstance(data, dict) else None

    def read_log(self) -> str:
        if self.log_file is None:
            return ""
        try:
            return read_end(self.log_file, TAIL_BYTES)[0]
        except FileNotFoundError:
            return ""
        except OSError as exc:
            self.warn(f"The log {self.log_file} cannot be read: {exc}.")
            return ""

    def by_files(self, server: dict[str, t.Any] | None, reason: str = "") -> Observation:
        """Return loading, dead or absent by the files. `reason` is why no server answers, if known."""
        url = self.url
        if server is None and not reason:
            return self.not_yet_started(url, server)
        if server is None:
            return Observation("absent", f"No server at {url}: {reason}, and no server is being started.")
        state = server.get("state")
        if (server.get("since") or 0) < self.since:
            return self.not_yet_started(url, server)
        if state == "stopped":
            return Observation("absent", f"The server at {url} is stopped. Run start.yml.", server=server)
        if state == TRIAL_FAILED:
            # The benchmark tries the next options, or restores the deployment's own ones.
            return Observation("loading", text=f"a benchmark tried {trial_of(server)}, which failed", server=server)
        missing = missing_worker(server)
        if missing:
            return self.waiting_for_worker(server, missing)
        last_exit = ended_by_itself(server, self.since)
        if last_exit is not None:
            return Observation("dead", why_ended(last_exit, self.read_log()), server=server)
        if state == "failed":
            return Observation(
                "absent", f"No server at {url}: it failed earlier and was not started since.", server=server
            )
        if state == "running":
            message = f"The state file says that the server runs, but {reason}; start the container again."
            return Observation("dead", message, server=server)
        percent, text = load_progress(server, self.read_log())
        return Observation("loading", None, percent, text + self.log_silence(), server=server)

    def waiting_for_worker(self, server: dict[str, t.Any], missing: str) -> Observation:
        """Observe a head that waits for its worker, however its server ended."""
        refused = refused_for(server)
        if refused >= REFUSED_FOR_S:
            text = (
                f"{missing} That Spark has answered so for {int(refused)} s: its container ends again and again, or "
                "was never started; 'docker logs' and diagnose.yml on it say why."
            )
            return Observation("waiting", text, server=server)
        if self.patience and time.time() - (server.get("since") or 0) >= self.patience:
            text = f"{missing} The head keeps waiting and serves when its worker runs. Start the worker."
            return Observation("waiting", text, server=server)
        return Observation("loading", text=load_progress(server, "")[1], server=server)

    def not_yet_started(self, url: str, server: dict[str, t.Any] | None) -> Observation:
        """Observe a container whose supervisor has not written its state yet: the file is its predecessor's."""
        if time.time() - self.since < STARTS_WITHIN_S:
            return Observation("loading", text="starting the container", server=server)
        message = (
            f"No server at {url}: the container's main process has not begun within {STARTS_WITHIN_S} s; "
            "read the container's log."
        )
        return Observation("absent", message, server=server)

    def log_silence(self) -> str:
        """Return a note on a log without new lines: slow loading and a hang look alike."""
        if self.log_file is None:
            return ""
        try:
            silence = time.time() - self.log_file.stat().st_mtime
        except OSError:
            return ""
        # In whole minutes: a new text is a new report of progress.
        return f" (nothing new in the log for {duration(silence // 60 * 60)})" if silence >= QUIET_S else ""

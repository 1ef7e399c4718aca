# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Send liveness probes to the server, because Docker does not restart a process that runs but does not generate.

/health of some releases returns 200 for a dead engine. So the watchdog requests one token at intervals, and condemns
the server if none arrives.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import queue
import select
import threading
import time
import typing as t
import urllib.parse
import urllib.request

from server.client_connections import ClientConnections, End
from server.engines.engine import Engine

# The server logs every request; this name distinguishes the watchdog's from those of clients.
ASKED_BY = "?asked-by=watchdog"
# So many looks in a row have to fail before a server that replies with errors is ended.
MAX_FAILED_LOOKS = 3
# While the watchdog waits for its token: seconds between two checks of the clients, and of health and metrics.
TICK_S = 1.0
METER_EVERY_S = 5.0
# Seconds until it logs that it waits behind other requests.
BUSY_AFTER_S = 15.0
SMALL_REQUEST_S = 10.0
# Of those who ask at about the same time another one may be taken first.
TOGETHER_S = 10.0


class Failed(Exception):
    """The server gave no proper reply."""


class RequestRejected(Exception):
    """The server refused the probe, which tells nothing about its engine."""


class Stalled(Exception):
    """No token came for so long that the engine hangs."""


class Interrupted(Exception):
    """The watchdog was stopped."""


class Verdict(t.NamedTuple):
    """The watchdog's verdict on the server: answering, busy, stalled, unhealthy, or None if unknown."""

    name: str | None
    reason: str | None

    @property
    def fatal(self) -> bool:
        return self.name in ("stalled", "unhealthy")


class Reply:
    """The reply on a connection."""

    def __init__(self, connection: http.client.HTTPConnection) -> None:
        self.connection = connection

    def begins_within(self, seconds: float) -> bool:
        return bool(select.select([self.connection.sock], [], [], seconds)[0])

    def read(self) -> tuple[int, bytes]:
        response = self.connection.getresponse()
        return response.status, response.read(4_000_000)


class Http:
    """Requests to the server. Their own connections are known, and do not count as those of clients."""

    def __init__(self, url: str) -> None:
        parts = urllib.parse.urlsplit(url)
        self.host = parts.hostname or "127.0.0.1"
        self.port = parts.port or 80
        self.own: set[End] = set()

    @contextlib.contextmanager
    def request(self, method: str, path: str, body: dict[str, t.Any] | None = None) -> t.Iterator[Reply]:
        """Send a request; the reply is still to come, and may never."""
        connection = http.client.HTTPConnection(self.host, self.port, timeout=SMALL_REQUEST_S)
        own: End = ("", 0)
        try:
            connection.connect()
            own = connection.sock.getsockname()[:2]
            self.own.add(own)
            headers = {"Content-Type": "application/json"} if body else {}
            connection.request(method, path + ASKED_BY, json.dumps(body) if body else None, headers)
            yield Reply(connection)
        except (OSError, http.client.HTTPException) as error:
            raise Failed(f"{path}: {error or type(error).__name__}") from error
        finally:
            connection.close()
            self.own.discard(own)

    def get(self, path: str) -> tuple[int, bytes]:
        with self.request("GET", path) as reply:
            return reply.read()


class ProgressMeter:
    """Detect progress of the engine from the server's metrics, if it has any.

    Unchanged metrics mean nothing: the server updates them when a request ends, and not during a long answer.
    """

    def __init__(self, http: Http, engine: Engine) -> None:
        self.http = http
        self.engine = engine
        self.offered = True
        self.samples: list[str] | None = None

    def moved(self) -> bool:
        """Return whether a figure has changed since the last call; the first call counts as a change."""
        if not self.offered:
            return False
        try:
            status, body = self.http.get(self.engine.metrics)
        except Failed:
            return False
        self.offered = status != 404
        samples = figures(self.engine, body)
        running = [sample.split()[-1] for sample in samples if sample.startswith(self.engine.running)]
        # With none running there is nothing to move, or this figure is not kept.
        if status != 200 or not any(count not in ("0", "0.0") for count in running):
            return False
        before, self.samples = self.samples, samples
        return before is None or before != samples


class Stopwatch:
    """Counts the time in which this process ran: a paused container's server stood still as well."""

    def __init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        self.counted = 0.0
        self.last = time.monotonic()

    def seconds(self) -> float:
        """To be asked often: of a longer silence only the longest step that is usual is counted."""
        now = time.monotonic()
        self.counted += min(now - self.last, TICK_S + 2 * SMALL_REQUEST_S)
        self.last = now
        return self.counted


class Watchdog(threading.Thread):
    """Watch a running server. Busy is not dead: only an engine that owes a token to the watchdog is condemned.

    With a concurrency of one, the probe waits behind earlier requests. While one of them is served, or the engine's
    metrics change, the clock starts again. Later or repeated requests of clients do not stop the clock: otherwise a
    hung engine would never be found while clients retry.
    """

    def __init__(self, url: str, engine: Engine, interval: float, stall: float) -> None:
        super().__init__(name="watchdog", daemon=True)
        self.http = Http(url)
        self.clients = ClientConnections(self.http.port, self.http.own)
        self.meter = ProgressMeter(self.http, engine)
        self.interval = interval
        self.stall = stall
        self.verdicts: queue.SimpleQueue[Verdict] = queue.SimpleQueue()
        self.last = Verdict(None, None)
        self.model: str | None = None
        self.proven = False
        self.failures = 0
        self.unwanted = threading.Event()

    def run(self) -> None:
        try:
            while not self.last.fatal:
                self.look()
                if self.unwanted.wait(self.interval):
                    return
        except Interrupted:
            return
        except Exception as error:
            # A failed watchdog is logged; it is no fault of the server.
            self.publish(None, f"the watchdog itself failed: {type(error).__name__}: {error}")

    def stop(self) -> None:
        self.unwanted.set()

    def look(self) -> None:
        """One look at the server; publishes what it shows."""
        try:
            self.ask()
            self.publish("answering", None)
            self.failures = 0
        except Stalled as error:
            self.publish("stalled", str(error))
        except RequestRejected as error:
            self.failures = 0
            self.publish(None, f"the server rejects the watchdog's request: {error}")
        except Failed as error:
            self.failures += 1
            if self.failures >= MAX_FAILED_LOOKS:
                self.publish("unhealthy", f"{self.failures} looks in a row failed, the last one at {error}")
            else:
                self.verdicts.put(
                    self.last._replace(reason=f"look {self.failures} of {MAX_FAILED_LOOKS} failed at {error}")
                )

    def publish(self, name: str | None, reason: str | None) -> None:
        self.last = Verdict(name, reason)
        self.verdicts.put(self.last)

    def check_health(self) -> None:
        """Check the engine's own health report: a dead engine is dead, and a slow one is busy."""
        try:
            status, body = self.http.get("/health")
        except Failed as error:
            if isinstance(error.__cause__, TimeoutError):
                return
            raise
        if status >= 500:
            raise Failed(f"/health: {describe_reply(status, body)}")

    def ask(self) -> None:
        """Have one token generated."""
        if self.model is None:
            self.model = first_model(self.wait_for("GET", "/v1/models"))
        question = {"model": self.model, "prompt": "1, 2, 3,", "max_tokens": 1, "temperature": 0}
        try:
            answer = self.wait_for("POST", "/v1/completions", question)
        except RequestRejected as error:
            # Some releases report a dead engine as a bad request; the same question was good enough before.
            if self.proven:
                raise Failed(str(error)) from error
            raise
        if not isinstance(answer, dict) or not answer.get("choices"):
            raise Failed("/v1/completions: status 200, but no completion")
        self.proven = True

    def wait_for(self, method: str, path: str, body: dict[str, t.Any] | None = None) -> t.Any:
        """Return the data of the reply, however long other requests take first."""
        with self.http.request(method, path, body) as reply:
            quiet = Stopwatch()
            asked_at = look_at = time.monotonic()
            while not reply.begins_within(TICK_S):
                if self.unwanted.is_set():
                    raise Interrupted
                if time.monotonic() >= look_at + METER_EVERY_S:
                    look_at = time.monotonic()
                    self.check_health()
                    if self.meter.moved():
                        quiet.restart()
                if why := self.clients.older_client(asked_at + TOGETHER_S):
                    quiet.restart()
                    if self.last.name != "busy" and time.monotonic() >= asked_at + BUSY_AFTER_S:
                        self.publish("busy", why)
                if quiet.seconds() >= self.stall:
                    raise Stalled(f"no token came for {self.stall:g} s, although no other request was served")
            status, data = reply.read()
        if 400 <= status < 500:
            raise RequestRejected(f"{path}: {describe_reply(status, data)}")
        if status != 200:
            raise Failed(f"{path}: {describe_reply(status, data)}")
        try:
            return json.loads(data)
        except (ValueError, RecursionError) as error:
            raise Failed(f"{path}: status 200, but no JSON") from error


def first_model(listing: t.Any) -> str:
    try:
        return str(listing["data"][0]["id"])
    except (KeyError, IndexError, TypeError) as error:
        raise Failed("/v1/models: it lists no model") from error


def describe_reply(status: int, body: bytes) -> str:
    text = " ".join(body.decode("utf-8", "replace").split())[:200]
    return f"status {status}" + (f" ({text})" if text else "")


def figures(engine: Engine, body: bytes) -> list[str]:
    """Return the lines of an engine's own figures."""
    return [line for line in body.decode("utf-8", "replace").splitlines() if line.startswith(engine.figures)]


def engine_figures(url: str, engine: Engine) -> str:
    """Return the figures of the engine, if it reports any."""
    try:
        status, body = Http(url).get(engine.metrics)
    except Failed as error:
        return str(error)
    return "\n".join(figures(engine, body)) or describe_reply(status, b"")


def answers(url: str, timeout: float) -> bool:
    """Return whether the server's health route returns 200."""
    try:
        with urllib.request.urlopen(f"{url}/health{ASKED_BY}", timeout=timeout) as reply:
            return bool(reply.status == 200)
    except (OSError, ValueError, http.client.HTTPException):
        return False

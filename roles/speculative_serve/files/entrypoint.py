# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The container's main process: starts the server, keeps it alive, and writes down what happens to it.

A shell as main process would neither forward SIGTERM nor reap children, and Docker would kill the server hard. This one
runs serve.sh in a process group of its own, forwards signals to it, restarts it when it dies (three times an hour at
most; after that the container stays up without a server, so that the reason can still be read) and keeps state.json.
Its watchdog asks a server that nobody uses for one token now and then, and ends it when none comes: /health of some
releases says 200 for a dead engine, and a process that lives but does not generate is nothing that Docker restarts.

A benchmark may have other engine options served for as long as its lease is valid: a trial. Nobody else asks the server
meanwhile, and a trial's server that ends is not started again; afterwards the deployment's own options come back.

Run as: entrypoint.py            serve
        entrypoint.py health     Docker's health check: the watchdog's verdict; exit 0 if the server answers, 1 if not
        entrypoint.py worker     of two Sparks the second one: see pair.py, which is needed for two only
        entrypoint.py launch     what the worker's sshd runs, whatever it was asked for

Environment: DGX_SPARK_URL               where the server listens
             DGX_SPARK_IMAGE             the image of this container
             DGX_SPARK_PROBE_INTERVAL_S  seconds between two looks of the watchdog (60; 0 turns it off)
             DGX_SPARK_STALL_S           seconds without a token after which an engine hangs (300)
             DGX_SPARK_TARGET            the target model's directory, and
             DGX_SPARK_DRAFT             the draft model's: what their files hold of the memory is given back
             DGX_SPARK_RANK              only of two Sparks: 0 the head, 1 the worker; pair.py names the others
"""

from __future__ import annotations

import collections
import contextlib
import http.client
import json
import os
import queue
import re
import select
import signal
import subprocess
import sys
import threading
import time
import typing as t
import urllib.parse
import urllib.request
from pathlib import Path

DEPLOYMENT = Path("/deployment")
MAX_RESTARTS = 3
RESTART_WINDOW_S = 3600
# A server that dies while loading mostly dies again: leave time to read why, and the memory time to be given back.
RESTART_DELAY_S = 5
# Docker kills after trtllm_container_stop_timeout (120 s); the server has to be gone before that.
STOP_GRACE_S = 100
# The kernel may need some time to take back the memory of a killed process.
KILL_WITHIN_S = 20
# A benchmark that takes its trial back, or whose lease has run out, waits for no answer any more.
SWITCH_GRACE_S = 30
# A lease is renewed all the time: one that would last longer than this is a mistake, and not obeyed.
LONGEST_LEASE_S = 24 * 3600
LOG_BYTES = 20_000_000
LOG_LINE_BYTES = 65536
SERVER_IMAGE_MARK = "# image: "
# The server writes every request into its log: these are told from the users' by it.
ASKED_BY = "?asked-by=watchdog"

PROBE_INTERVAL_S = 60.0
STALL_S = 300.0
# So many looks in a row have to fail before a server that replies with errors is ended.
MAX_FAILED_LOOKS = 3
# While the watchdog waits for its token: how often it looks who is connected, and how often at the engine's figures.
TICK_S = 1.0
METER_EVERY_S = 5.0
# Health checks and scrapers come, give up and come again; whoever is served, or waits to be, stays longer.
HELD_S = 15.0
SMALL_REQUEST_S = 10.0

# What the host's driver tells of itself, in each container, too.
DRIVER = "/proc/driver/nvidia/version"
# In a process of its own, since whoever has asked keeps hold of the GPU.
ASK_GPU = "import ctypes; print(ctypes.CDLL('libcuda.so.1').cuInit(0))"
ASK_GPU_S = 30.0
# On a GB10 the page cache counts as used GPU memory, and the engine makes its KV cache of what is free.
MEMINFO = Path("/proc/meminfo")
LOW_MEMORY = 8 * 2**30
GIVE_BACK_EVERY_S = 1.0
# From here on nothing is read from the files any more.
ALL_READ = (b"Loading weights: 100%", b"Model init total")
# What the engine says of its KV cache: a small one for an estimate first, so that the last line counts.
KV_CACHE = re.compile(rb"Allocated [0-9.]+ GiB for max tokens in paged KV cache \(([0-9]+)\)")
# All that a release says which makes its cache another way.
KV_CACHE_BOUND = re.compile(rb"Attention window size [0-9]+ exceeds upper bound ([0-9]+) for available blocks")
# In the engine options, as the playbook writes them.
KV_CACHE_PLANNED = re.compile(r"^kv_cache_config:\n(?:[ ]+.*\n)*?[ ]+max_tokens: ([0-9]+)$", re.MULTILINE)


class State:
    """state.json: what the server is doing, for the probe, the health check and a curious person."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.values: dict[str, t.Any] = {
            "state": "starting",
            "pid": None,
            "restarts": 0,
            "last_exit": None,
            "verdict": None,
            "verdict_at": None,
            "reason": None,
            "trial": None,
            "loading_s": None,
            "kv_cache": None,
        }

    def write(self, state: str, **values: t.Any) -> None:
        """Enter a state."""
        self.note(**values, state=state, since=round(time.time(), 3))

    def note(self, **values: t.Any) -> None:
        """Add to what is known; the state goes on."""
        self.values.update(values)
        path = self.directory / "state.json"
        draft = path.with_suffix(".tmp")
        # A full disk is no reason to end a server that serves.
        with contextlib.suppress(OSError):
            draft.write_text(json.dumps(self.values) + "\n", encoding="utf-8")
            give_to_owner(draft)
            draft.replace(path)


class Log:
    """The server's output: passed on to Docker, kept in server.log (and one older file), its last lines remembered."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / "server.log"
        self.tail: collections.deque[str] = collections.deque(maxlen=200)
        self.size = LOG_BYTES

    def write(self, data: bytes) -> None:
        self.tail.extend(line for line in data.decode("utf-8", "replace").splitlines() if line.strip())
        # A full disk costs lines of the log, and not the server.
        with contextlib.suppress(OSError):
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()
        with contextlib.suppress(OSError):
            if self.size >= LOG_BYTES:
                self.rotate()
            with self.path.open("ab", buffering=0) as file:
                file.write(data)
            self.size += len(data)

    def rotate(self) -> None:
        """Begin a new file; the one before is kept, also that of the container before."""
        if self.path.exists():
            self.path.replace(self.path.with_suffix(".log.1"))
        self.path.touch()
        give_to_owner(self.path)
        self.size = 0

    def say(self, text: str) -> None:
        self.write(f"[entrypoint] {text}\n".encode())

    def last_line(self) -> str:
        # That a request was answered, the watchdog's own among them, is no last word.
        lines = [line for line in self.tail if not line.startswith("[entrypoint]") and 'HTTP/1.1" 200' not in line]
        return lines[-1].strip() if lines else "the server printed nothing"


def give_to_owner(path: Path) -> None:
    """Files in the mounted directory belong to whom the directory belongs to, not to the container's root."""
    owner = path.parent.stat()
    os.chown(path, owner.st_uid, owner.st_gid)


def script_image(script: Path) -> str:
    """The image a serve script was rendered for, from its own mark."""
    for line in script.read_text(encoding="utf-8", errors="replace").splitlines():
        if line.startswith(SERVER_IMAGE_MARK):
            return line[len(SERVER_IMAGE_MARK) :].strip()
    return ""


class Trial(t.NamedTuple):
    """What a benchmark has served instead of the deployment's own options."""

    id: str
    title: str


def leased_trial(directory: Path) -> Trial | None:
    """The trial whose lease is valid now; a lease that cannot be read, is over or lasts for days is none."""
    try:
        lease = json.loads((directory / "lease.json").read_text(encoding="utf-8"))
        trial, until = Trial(lease["id"], lease["title"]), lease["until"]
        now = time.time()
        words = all(isinstance(word, str) and word and word.isprintable() for word in trial)
        valid = words and now < until <= now + LONGEST_LEASE_S
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
    return trial if valid else None


def answers(url: str, timeout: float) -> bool:
    """Whether the server's health route says 200."""
    try:
        with urllib.request.urlopen(f"{url}/health{ASKED_BY}", timeout=timeout) as reply:
            return bool(reply.status == 200)
    except (OSError, ValueError, http.client.HTTPException):
        return False


class Failed(Exception):
    """The server gave no proper reply."""


class Declined(Exception):
    """The server replied that it does not take the question, which says nothing about its engine."""


class Stalled(Exception):
    """No token came for so long that the engine hangs."""


class Interrupted(Exception):
    """The watchdog is no longer wanted."""


class Verdict(t.NamedTuple):
    """What the watchdog makes of the server: answering, busy, stalled, unhealthy, or None if it cannot tell."""

    name: str | None
    reason: str | None
    at: float | None

    @property
    def fatal(self) -> bool:
        return self.name in ("stalled", "unhealthy")


class Reply:
    """What comes back on a connection."""

    def __init__(self, connection: http.client.HTTPConnection) -> None:
        self.connection = connection

    def begins_within(self, seconds: float) -> bool:
        return bool(select.select([self.connection.sock], [], [], seconds)[0])

    def read(self) -> tuple[int, bytes]:
        response = self.connection.getresponse()
        return response.status, response.read(4_000_000)


class Http:
    """Requests to the server; the ports they come from are known, so that they are not taken for somebody else's."""

    def __init__(self, url: str) -> None:
        parts = urllib.parse.urlsplit(url)
        self.host = parts.hostname or "127.0.0.1"
        self.port = parts.port or 80
        self.own_ports: set[int] = set()

    @contextlib.contextmanager
    def request(self, method: str, path: str, body: dict[str, t.Any] | None = None) -> t.Iterator[Reply]:
        """Send a request; the reply is still to come, and may never."""
        connection = http.client.HTTPConnection(self.host, self.port, timeout=SMALL_REQUEST_S)
        own_port = 0
        try:
            connection.connect()
            own_port = connection.sock.getsockname()[1]
            self.own_ports.add(own_port)
            headers = {"Content-Type": "application/json"} if body else {}
            connection.request(method, path + ASKED_BY, json.dumps(body) if body else None, headers)
            yield Reply(connection)
        except (OSError, http.client.HTTPException) as error:
            raise Failed(f"{path}: {error or type(error).__name__}") from error
        finally:
            connection.close()
            self.own_ports.discard(own_port)

    def get(self, path: str) -> tuple[int, bytes]:
        with self.request("GET", path) as reply:
            return reply.read()


class Visitors:
    """Who else is connected to the server's port, from the kernel's tables."""

    TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
    ESTABLISHED = "01"

    def __init__(self, port: int, own_ports: set[int]) -> None:
        self.port = port
        self.own_ports = own_ports
        self.since: dict[str, float] = {}

    def longest(self) -> float | None:
        """Seconds for which somebody else has been seen; None if nobody is connected."""
        now = time.monotonic()
        peers = self.peers()
        self.since = {peer: self.since.get(peer, now) for peer in peers}
        return max((now - since for since in self.since.values()), default=None)

    def peers(self) -> set[str]:
        found = set()
        for table in self.TABLES:
            # Without IPv6 there is no second table.
            with contextlib.suppress(FileNotFoundError):
                for line in table.read_text(encoding="ascii").splitlines()[1:]:
                    _number, local, peer, state, *_rest = line.split()
                    ours = port_of(peer) in self.own_ports
                    if state == self.ESTABLISHED and port_of(local) == self.port and not ours:
                        found.add(peer)
        return found


def port_of(address: str) -> int:
    """The port in an address as the kernel's tables have it: 0100007F:1F40."""
    return int(address.rpartition(":")[2], 16)


class Meter:
    """Whether the engine is seen to get on, by the figures of this server, if it offers them.

    That they stand still says nothing: the server collects them from a request that ends until its engine pauses, and
    else they stay as they are, also through a long answer that is being generated.
    """

    RUNNING = "trtllm_num_requests_running"

    def __init__(self, http: Http) -> None:
        self.http = http
        self.offered = True
        self.samples: list[str] | None = None

    def moved(self) -> bool:
        """Whether a figure was seen to change since the last look; the first look counts as that."""
        if not self.offered:
            return False
        try:
            status, body = self.http.get("/prometheus/metrics")
        except Failed:
            return False
        self.offered = status != 404
        samples = [line for line in body.decode("utf-8", "replace").splitlines() if line.startswith("trtllm_")]
        running = [sample.split()[-1] for sample in samples if sample.startswith(self.RUNNING)]
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
        self.counted += min(now - self.last, TICK_S + SMALL_REQUEST_S)
        self.last = now
        return self.counted


class Watchdog(threading.Thread):
    """Looks after a server that runs. Busy is not dead: it condemns only an engine that owes a token to itself.

    With one request at a time the watchdog's question waits behind everybody else's. So it does not ask while others
    are served, and while it waits, the clock starts anew as long as somebody else stays connected, or the engine's own
    figures move.
    """

    def __init__(self, url: str, interval: float, stall: float) -> None:
        super().__init__(name="watchdog", daemon=True)
        self.http = Http(url)
        self.visitors = Visitors(self.http.port, self.http.own_ports)
        self.meter = Meter(self.http)
        self.interval = interval
        self.stall = stall
        self.verdicts: queue.SimpleQueue[Verdict] = queue.SimpleQueue()
        self.last = Verdict(None, None, None)
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
            # A watchdog that fails says so; the server is not to blame.
            self.publish(None, f"the watchdog itself failed: {type(error).__name__}: {error}")

    def stop(self) -> None:
        self.unwanted.set()

    def look(self) -> None:
        """One look at the server; publishes what it shows."""
        try:
            if self.others_are_served():
                self.check_health()
                self.publish("busy", "others are connected")
            else:
                self.ask()
                self.publish("answering", None)
            self.failures = 0
        except Stalled as error:
            self.publish("stalled", str(error))
        except Declined as error:
            self.failures = 0
            self.publish(None, f"the server does not take the watchdog's question: {error}")
        except Failed as error:
            self.failures += 1
            if self.failures >= MAX_FAILED_LOOKS:
                self.publish("unhealthy", f"{self.failures} looks in a row failed, the last one at {error}")
            else:
                self.verdicts.put(
                    self.last._replace(reason=f"look {self.failures} of {MAX_FAILED_LOOKS} failed at {error}")
                )

    def publish(self, name: str | None, reason: str | None) -> None:
        self.last = Verdict(name, reason, round(time.time(), 3))
        self.verdicts.put(self.last)

    def others_are_served(self) -> bool:
        return self.visitors.longest() is not None

    def check_health(self) -> None:
        """An engine that says itself that it is dead is so for everybody; one that takes its time is busy."""
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
        except Declined as error:
            # Some releases report a dead engine as a bad request; the same question was good enough before.
            if self.proven:
                raise Failed(str(error)) from error
            raise
        if not isinstance(answer, dict) or not answer.get("choices"):
            raise Failed("/v1/completions: status 200, but no completion")
        self.proven = True

    def wait_for(self, method: str, path: str, body: dict[str, t.Any] | None = None) -> t.Any:
        """The reply's data, however long others are served first."""
        with self.http.request(method, path, body) as reply:
            quiet = Stopwatch()
            look_at = time.monotonic()
            while not reply.begins_within(TICK_S):
                if self.unwanted.is_set():
                    raise Interrupted
                connected_for = self.visitors.longest()
                if time.monotonic() >= look_at + METER_EVERY_S:
                    look_at = time.monotonic()
                    if self.meter.moved():
                        quiet.restart()
                if (connected_for or 0) >= HELD_S:
                    quiet.restart()
                    if self.last.name != "busy":
                        self.publish("busy", "others are connected")
                if quiet.seconds() >= self.stall:
                    raise Stalled(f"no token came for {self.stall:g} s though nobody else was served")
            status, data = reply.read()
        if 400 <= status < 500:
            raise Declined(f"{path}: {describe_reply(status, data)}")
        if status != 200:
            raise Failed(f"{path}: {describe_reply(status, data)}")
        try:
            return json.loads(data)
        except ValueError as error:
            raise Failed(f"{path}: status 200, but no JSON") from error


def first_model(listing: t.Any) -> str:
    try:
        return str(listing["data"][0]["id"])
    except (KeyError, IndexError, TypeError) as error:
        raise Failed("/v1/models: it lists no model") from error


def describe_reply(status: int, body: bytes) -> str:
    text = " ".join(body.decode("utf-8", "replace").split())[:200]
    return f"status {status}" + (f" ({text})" if text else "")


class PageCache:
    """Pages of the models' files in the memory. Giving them back needs no root, and leaves alone what is mapped."""

    def __init__(self) -> None:
        given = (os.environ.get(name) for name in ("DGX_SPARK_TARGET", "DGX_SPARK_DRAFT"))
        self.models = [Path(path) for path in given if path]
        self.look_at = 0.0

    def give_back(self) -> None:
        for model in self.models:
            # What cannot be read, a directory or one file in it, is the server's to complain about.
            with contextlib.suppress(OSError):
                for file in model.rglob("*"):
                    with contextlib.suppress(OSError):
                        if file.is_file():
                            forget(file)

    def due(self) -> bool:
        """Whether it is time to look again."""
        now = time.monotonic()
        if now < self.look_at:
            return False
        self.look_at = now + GIVE_BACK_EVERY_S
        return True


def forget(file: Path) -> None:
    """Have the kernel drop a file's pages."""
    descriptor = os.open(file, os.O_RDONLY)
    try:
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(descriptor)


def memory(name: str) -> int | None:
    """A figure of /proc/meminfo in bytes."""
    for line in read_or(MEMINFO, "").splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    return None


def memory_is_short() -> bool:
    free = memory("MemFree")
    return free is not None and free < LOW_MEMORY


class Loading:
    """A server until it answers: sees that files do not take its memory, and hears how large its KV cache became."""

    def __init__(self, options: Path) -> None:
        self.pages = PageCache()
        self.read = False
        self.rest = b""
        self.tokens: int | None = None
        self.bound: int | None = None
        planned = KV_CACHE_PLANNED.search(read_or(options, ""))
        self.planned = int(planned[1]) if planned else None

    def hear(self, output: bytes) -> None:
        """What the server says, in pieces that end anywhere."""
        *lines, rest = re.split(rb"[\r\n]", self.rest + output)
        self.rest = rest[-LOG_LINE_BYTES:]
        for line in lines:
            if any(mark in line for mark in ALL_READ):
                self.read = True
                self.pages.look_at = 0.0
            if found := KV_CACHE.search(line):
                self.tokens = int(found[1])
            if found := KV_CACHE_BOUND.search(line):
                self.bound = int(found[1])

    def look(self) -> None:
        """Give pages back when memory is short, and whenever nothing will be read again."""
        if self.pages.due() and (self.read or memory_is_short()):
            self.pages.give_back()

    def kv_cache(self) -> dict[str, int | None]:
        """For state.json: how many tokens it holds, and how many were planned; None for what nobody has said."""
        return {"tokens": self.bound if self.tokens is None else self.tokens, "planned": self.planned}


class Supervisor:
    """Runs serve.sh, and runs it again when it dies or no longer generates."""

    def __init__(self, deployment: Path, url: str) -> None:
        self.deployment = deployment
        self.script = deployment / "serve.sh"
        self.url = url
        self.state = State(deployment / "state")
        self.log = Log(deployment / "state")
        self.restarts: collections.deque[float] = collections.deque()
        self.stop_signal: int | None = None
        self.server: subprocess.Popen[bytes] | None = None
        self.condemned: str | None = None
        # Whether a server was ready in this life of the container.
        self.served = False
        # Of the server that runs or ran last, and whether it is ended for another one's sake.
        self.trial: Trial | None = None
        self.switching = False
        self.loading = Loading(deployment / "options.yml")

    def take_signals(self) -> None:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self.on_signal)

    def run(self) -> int:
        self.take_signals()
        image = os.environ.get("DGX_SPARK_IMAGE", "")
        try:
            rendered_for = script_image(self.script)
        except OSError as error:
            return self.refuse(f"serve.sh cannot be read ({error}); run the playbook again")
        if rendered_for != image:
            return self.refuse(
                f"serve.sh was rendered for image '{rendered_for}', this container is '{image}'; run the playbook again"
            )
        while self.stop_signal is None:
            self.make_ready()
            if self.stop_signal is not None:
                break
            code = self.serve_once()
            if self.stop_signal is not None:
                break
            self.log.say(f"the server ended with {describe_exit(code)}")
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
            if not self.at_fault():
                continue
            if self.served and gpu_is_lost():
                self.log.say(
                    "the container has lost the GPU that the host has, and ends: Docker's restart brings it back"
                )
                return 1
            if not self.may_restart():
                self.log.say(f"it ended {MAX_RESTARTS + 1} times within an hour and is not started again")
                self.state.write("failed", pid=None)
                self.idle(None)
                break
            self.idle(RESTART_DELAY_S)
        self.state.write("stopped", pid=None, trial=None, reason=None)
        return 0

    @property
    def ended_as(self) -> str:
        """What a server is called between its end and the next start."""
        return "restarting"

    @property
    def evidence(self) -> str:
        """Where to keep what a server looked like that had to be ended."""
        return "stalled.log"

    def make_ready(self) -> None:
        """Wait for what has to be there before the server is started; one Spark needs nothing."""

    def look_round(self) -> None:
        """Condemn a server for what its own watchdog cannot see; one Spark has nothing of that kind."""

    def at_fault(self) -> bool:
        """Whether the end of a server counts against its restarts."""
        return True

    def begin_switch(self) -> bool:
        """Whether another trial than the server's, or none, is wanted by now; writes it down if so."""
        wanted = leased_trial(self.deployment / "trial")
        if wanted == self.trial:
            return False
        reason = "switching back to the deployment's own options"
        if wanted is not None:
            reason = f"switching to a trial: {wanted.title}"
        self.switching = True
        self.log.say(reason)
        # How the server ends that has to go says nothing about the next one, and neither does how a trial's ended.
        self.state.write("restarting", trial=wanted and wanted._asdict(), last_exit=None, reason=reason)
        return True

    def wait_for_switch(self) -> None:
        """Stay without a server until the benchmark is done with its trial, or no longer there."""
        while self.stop_signal is None and not self.begin_switch():
            self.idle(0.5)

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
        self.loading = Loading(options)
        self.loading.pages.give_back()
        self.server = subprocess.Popen(
            ["/bin/bash", str(self.script)],
            env={**os.environ, "DGX_SPARK_OPTIONS": str(options)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        self.log.tail.clear()
        self.condemned = None
        trial = self.trial and self.trial._asdict()
        self.state.write("loading", pid=self.server.pid, trial=trial, verdict=None, verdict_at=None, kv_cache=None)
        assert self.server.stdout is not None
        self.pump(self.server.stdout.fileno(), self.server)
        return self.end_group(self.server)

    def pump(self, output: int, server: subprocess.Popen[bytes]) -> None:
        """Pass output on until the server has ended or must, watch for readiness and for orders to stop or switch."""
        ready = False
        watchdog: Watchdog | None = None
        began = look_at = time.monotonic()
        kill_at: float | None = None
        ended_at: float | None = None
        os.set_blocking(output, False)
        while True:
            readable = select.select([output], [], [], 0.25)[0]
            data = os.read(output, 65536) if readable else b""
            if data:
                self.log.write(data)
                if not ready:
                    self.hear(data)
            elif readable:
                time.sleep(0.25)  # the server closed its output but still runs: do not spin
            ended = self.reap(server)
            now = time.monotonic()
            if ended:
                # What it said last is still in the pipe; what its children go on saying is not waited for.
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
            if not ready and not ended:
                self.loading.look()
            if not ready and not ended and now >= look_at:
                ready = answers(self.url, timeout=2)
                look_at = now + 1
                if ready:
                    self.served = True
                    self.state.write("running", reason=None, loading_s=round(time.monotonic() - began, 1))
                    watchdog = self.watch()
            if not ended:
                if watchdog is not None:
                    self.heed(watchdog)
                self.look_round()
                if self.condemned is not None:
                    self.keep_evidence(server)
                    break
        if watchdog is not None:
            watchdog.stop()

    def hear(self, output: bytes) -> None:
        """Note what a server that loads says of its KV cache; whoever asks it first wants to know."""
        self.loading.hear(output)
        said = self.loading.kv_cache()
        if said != self.state.values["kv_cache"]:
            self.state.note(kv_cache=said)

    def watch(self) -> Watchdog | None:
        """A watchdog for the server that has become ready; none if it is turned off, or would be measured, too."""
        interval = seconds_from("DGX_SPARK_PROBE_INTERVAL_S", PROBE_INTERVAL_S)
        stall = seconds_from("DGX_SPARK_STALL_S", STALL_S)
        if interval <= 0 or stall <= 0 or self.trial is not None:
            return None
        watchdog = Watchdog(self.url, interval, stall)
        watchdog.start()
        return watchdog

    def heed(self, watchdog: Watchdog) -> None:
        """Write down what the watchdog has found; condemn the server if it says so."""
        while not watchdog.verdicts.empty():
            verdict = watchdog.verdicts.get()
            if verdict.reason not in (None, self.state.values["reason"]) and verdict.name != "busy":
                self.log.say(f"watchdog: {verdict.reason}")
            self.state.note(verdict=verdict.name, verdict_at=verdict.at, reason=verdict.reason)
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
            f"# the engine's figures\n{engine_figures(self.url)}",
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
        return {
            "code": code if code >= 0 else None,
            "signal": -code if code < 0 else None,
            "at": round(time.time(), 3),
            "by": "watchdog" if self.condemned else None,
            "reason": self.condemned or self.log.last_line(),
        }

    def on_signal(self, number: int, _frame: object) -> None:
        self.stop_signal = number


class Process(t.NamedTuple):
    """What the kernel says of a process; the state is R, S, D, Z (ended, and waiting to be collected), ..."""

    name: str
    state: str
    parent: int


def processes() -> dict[int, Process]:
    """Every process in sight."""
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            # It may have ended since.
            with contextlib.suppress(OSError):
                text = (entry / "stat").read_text(encoding="utf-8", errors="replace")
                head, _mark, tail = text.rpartition(")")
                state, parent = tail.split()[:2]
                found[int(entry.name)] = Process(head.partition("(")[2], state, int(parent))
    return found


def descendants(of: int, known: t.Mapping[int, Process] | None = None) -> dict[int, Process]:
    """Children, their children and so on, that have not ended, in whatever session they are."""
    known = processes() if known is None else known
    family = {of}
    size = 0
    while size != len(family):
        size = len(family)
        family |= {pid for pid, process in known.items() if process.parent in family}
    return {pid: known[pid] for pid in family - {of} if pid in known and known[pid].state not in "ZX"}


def end_descendants(but: int = 0) -> set[int]:
    """Kill all that this process has started, and wait until it is gone; returns what could not be ended.

    One look is not enough: an orphan comes to this process only when its parent has died. `but` is collected by
    the object that started it.
    """
    until = time.monotonic() + KILL_WITHIN_S
    while True:
        left = set(descendants(os.getpid()))
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        collect_dead(but)
        if not left or time.monotonic() > until:
            return left
        time.sleep(0.05)


def describe_tree(top: int) -> str:
    """A server's processes, a line each."""
    known = processes()
    lines = []
    for pid, process in sorted({**descendants(top, known), top: known.get(top, Process("?", "?", 0))}.items()):
        waits = read_or(Path(f"/proc/{pid}/wchan"), "?") or "?"
        command = read_or(Path(f"/proc/{pid}/cmdline"), "").replace("\0", " ").strip() or f"[{process.name}]"
        lines.append(f"{pid} {process.parent} {process.state} {waits} {command[:200]}")
    return "\n".join(lines)


def engine_figures(url: str) -> str:
    """What the engine counts, if it tells."""
    try:
        status, body = Http(url).get("/prometheus/metrics")
    except Failed as error:
        return str(error)
    lines = [line for line in body.decode("utf-8", "replace").splitlines() if line.startswith("trtllm_")]
    return "\n".join(lines) or describe_reply(status, b"")


def read_or(path: Path, otherwise: str) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return otherwise


def gpu_is_lost() -> bool:
    """Whether CUDA does not start here though the host's driver is there.

    Where the toolkit's hook hands out the GPU, a container's right to it lapses at 'systemctl daemon-reload', which apt
    does, too (NVIDIA/nvidia-container-toolkit issue 48). A server that starts anew in it finds no GPU, ever.
    """
    if not Path(DRIVER).exists():
        return False
    try:
        asked = subprocess.run([sys.executable, "-c", ASK_GPU], capture_output=True, timeout=ASK_GPU_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    code = asked.stdout.strip()
    return code.isdigit() and code != b"0"


def collect_dead(but: int = 0) -> None:
    """Reap what has ended; a server's own end is left to the object that started it."""
    me = os.getpid()
    for pid, process in processes().items():
        if process.parent == me and process.state == "Z" and pid != but:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)


def signal_group(server: subprocess.Popen[bytes], number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(server.pid, number)


def describe_exit(code: int) -> str:
    return f"signal {-code}" if code < 0 else f"exit code {code}"


def seconds_from(variable: str, default: float) -> float:
    """Seconds from the environment; what is no number there is as good as nothing."""
    with contextlib.suppress(KeyError, ValueError):
        return float(os.environ[variable])
    return default


def health(deployment: Path, url: str) -> int:
    """Say the state, or the watchdog's verdict on a server that runs; `docker inspect` shows it."""
    try:
        state = json.loads((deployment / "state" / "state.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        print(f"no state: {error}")
        return 1
    running, trial = state["state"] == "running", state.get("trial")
    name, reason = state.get("verdict") if running else state["state"], state.get("reason")
    if running and trial:
        # Nobody else asks its server.
        text = f"a benchmark tries {trial['title']}"
    else:
        text = f"{name or 'no verdict'}: {reason}" if reason else name or "running, not asked yet"
    if not running or name in ("stalled", "unhealthy"):
        print(text)
        return 1
    if not answers(url, timeout=8):
        print(f"running, but /health does not answer; the last word: {text}")
        return 1
    print(text)
    return 0


def main(arguments: list[str]) -> int:
    url = os.environ.get("DGX_SPARK_URL", "http://127.0.0.1:8000")
    if "DGX_SPARK_RANK" in os.environ or arguments[:1] in (["worker"], ["launch"]):
        # Only two Sparks have it.
        import pair

        return pair.main(arguments, DEPLOYMENT, url)
    if arguments == ["health"]:
        return health(DEPLOYMENT, url)
    return Supervisor(DEPLOYMENT, url).run()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The container's main process: starts the server, keeps it alive, and writes down what happens to it.

A shell as main process would neither forward SIGTERM nor reap children, and Docker would kill the server hard. This one
runs serve.sh in a process group of its own, forwards signals to it, restarts it when it dies (three times an hour at
most; after that the container stays up without a server, so that the reason can still be read) and keeps state.json.

Run as: entrypoint.py            serve
        entrypoint.py health     Docker's health check: exit 0 if the server answers, 1 if not
"""

from __future__ import annotations

import collections
import contextlib
import http.client
import json
import os
import select
import signal
import subprocess
import sys
import time
import typing as t
import urllib.request
from pathlib import Path

DEPLOYMENT = Path("/deployment")
MAX_RESTARTS = 3
RESTART_WINDOW_S = 3600
# A server that dies while loading mostly dies again: leave time to read why, and the memory time to be given back.
RESTART_DELAY_S = 5
# Docker kills after trtllm_container_stop_timeout (120 s); the server has to be gone before that.
STOP_GRACE_S = 100
LOG_BYTES = 20_000_000
SERVER_IMAGE_MARK = "# image: "


class State:
    """state.json: what the server is doing, for the probe, the health check and a curious person."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.values: dict[str, t.Any] = {"state": "starting", "pid": None, "restarts": 0, "last_exit": None}

    def write(self, state: str, **values: t.Any) -> None:
        self.values.update(values, state=state, since=round(time.time(), 3))
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
        lines = [line for line in self.tail if not line.startswith("[entrypoint]")]
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


def answers(url: str, timeout: float) -> bool:
    """Whether the server's health route says 200."""
    try:
        with urllib.request.urlopen(f"{url}/health", timeout=timeout) as reply:
            return bool(reply.status == 200)
    except (OSError, ValueError, http.client.HTTPException):
        return False


class Supervisor:
    """Runs serve.sh, and runs it again when it dies."""

    def __init__(self, deployment: Path, url: str) -> None:
        self.script = deployment / "serve.sh"
        self.url = url
        self.state = State(deployment / "state")
        self.log = Log(deployment / "state")
        self.restarts: collections.deque[float] = collections.deque()
        self.stop_signal: int | None = None
        self.server: subprocess.Popen[bytes] | None = None

    def run(self) -> int:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self.on_signal)
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
            code = self.serve_once()
            if self.stop_signal is not None:
                break
            self.state.write("restarting", pid=None, last_exit=self.last_exit(code))
            self.log.say(f"the server ended with {describe_exit(code)}")
            if not self.may_restart():
                self.log.say(f"it ended {MAX_RESTARTS + 1} times within an hour and is not started again")
                self.state.write("failed", pid=None)
                self.idle(None)
                break
            self.idle(RESTART_DELAY_S)
        self.state.write("stopped", pid=None)
        return 0

    def refuse(self, reason: str) -> int:
        self.log.say(reason)
        self.state.write("failed", last_exit={"code": None, "signal": None, "at": time.time(), "reason": reason})
        self.idle(None)
        self.state.write("stopped", pid=None)
        return 0

    def serve_once(self) -> int:
        """Start the server and stay with it until it ends; returns its exit status as Popen gives it."""
        self.server = subprocess.Popen(
            ["/bin/bash", str(self.script)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        self.log.tail.clear()
        self.state.write("loading", pid=self.server.pid)
        assert self.server.stdout is not None
        self.pump(self.server.stdout.fileno(), self.server)
        return self.end_group(self.server)

    def pump(self, output: int, server: subprocess.Popen[bytes]) -> None:
        """Pass output on until the server has ended, watch for readiness and for the order to stop."""
        ready = False
        look_at = time.monotonic()
        kill_at: float | None = None
        ended_at: float | None = None
        os.set_blocking(output, False)
        while True:
            readable = select.select([output], [], [], 0.25)[0]
            data = os.read(output, 65536) if readable else b""
            if data:
                self.log.write(data)
            elif readable:
                time.sleep(0.25)  # the server closed its output but still runs: do not spin
            ended = self.reap(server)
            now = time.monotonic()
            if ended:
                # What it said last is still in the pipe; what its children go on saying is not waited for.
                ended_at = ended_at or now
                if not data or now - ended_at > 1:
                    return
            if self.stop_signal is not None and kill_at is None:
                signal_group(server, signal.SIGTERM)
                kill_at = now + STOP_GRACE_S
            if kill_at is not None and now > kill_at:
                signal_group(server, signal.SIGKILL)
            if not ready and not ended and now >= look_at:
                ready = answers(self.url, timeout=2)
                look_at = now + 1
                if ready:
                    self.state.write("running")

    def reap(self, server: subprocess.Popen[bytes]) -> bool:
        """Collect every dead child, orphans too, as the first process of a container must; True if the server ended."""
        if server.poll() is not None:
            return True
        collect_dead(but=server.pid)
        return server.poll() is not None

    def end_group(self, server: subprocess.Popen[bytes]) -> int:
        """Leave nothing of a dead server behind: its workers hold the memory the next one needs."""
        signal_group(server, signal.SIGKILL)
        for pid in children():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
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
            "reason": self.log.last_line(),
        }

    def on_signal(self, number: int, _frame: object) -> None:
        self.stop_signal = number


def children(state: str = "") -> list[int]:
    """Children of this process, or those in a state such as Z: ended, and waiting to be collected."""
    found = []
    me = str(os.getpid())
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
            except OSError:
                continue
            if fields[1] == me and state in ("", fields[0]):
                found.append(int(entry.name))
    return found


def collect_dead(but: int = 0) -> None:
    """Reap what has ended; a server's own end is left to the object that started it."""
    for pid in children("Z"):
        if pid != but:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)


def signal_group(server: subprocess.Popen[bytes], number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(server.pid, number)


def describe_exit(code: int) -> str:
    return f"signal {-code}" if code < 0 else f"exit code {code}"


def health(deployment: Path, url: str) -> int:
    try:
        state = json.loads((deployment / "state" / "state.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        print(f"no state: {error}")
        return 1
    if state["state"] == "running" and answers(url, timeout=8):
        print("serving")
        return 0
    print(state["state"] if state["state"] != "running" else "running, but not answering")
    return 1


def main(arguments: list[str]) -> int:
    url = os.environ.get("DGX_SPARK_URL", "http://127.0.0.1:8000")
    if arguments == ["health"]:
        return health(DEPLOYMENT, url)
    return Supervisor(DEPLOYMENT, url).run()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

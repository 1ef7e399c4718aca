# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this module util is internal to the collection; its interface may change at any time.

"""Run a job that outlives its caller. Its supervisor is a detached process that imports no more modules."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import json
import os
import secrets
import select
import shutil
import signal
import subprocess
import sys
import time
import typing as t
from pathlib import Path

from .._data.files import read_tail
from .detached import OK, start_detached
from .processes import boot_id, process_stat, running_processes
from .whole import write_whole

# A zip application or source text: Python runs both.
PROGRAM = "program.pyz"
POLL_S = 0.25
# The supervisor writes its file no more often than this, however often the program prints progress.
WRITE_EVERY_S = 0.5
TERMINATE_GRACE_S = 5.0
NO_PROGRESS: dict[str, t.Any] = {"percent": None, "text": ""}

State = dict[str, t.Any]

NUMBER = (int, float)
# The fields of a state, each with its type and its value while unknown.
FIELDS: dict[str, tuple[t.Any, t.Any]] = {
    "id": (str, ""),
    "key": (str, ""),
    "boot": (str, ""),
    "pid": (int, None),
    "start_time": (int, None),
    "program_pid": (int, None),
    "program_start": (int, None),
    "started": (NUMBER, 0.0),
    "ended": (NUMBER, None),
    "progress": (dict, NO_PROGRESS),
    "finished": (bool, False),
    "seen": (bool, False),
    "rc": (int, None),
    "result": (dict, None),
    "error": (str, None),
}


class WatchedJobError(Exception):
    """The job could not be started, read or stopped; the text is one sentence for the user."""


def job_key(program: bytes, arguments: t.Sequence[str]) -> str:
    """Return a key that identifies the work. It excludes standard input, because a new token is not new work."""
    return hashlib.sha256(json.dumps([hashlib.sha256(program).hexdigest(), *arguments]).encode()).hexdigest()


def is_same_process(pid: int | None, start: int | None) -> bool:
    """Return whether the process still runs. A later process with the same PID does not count."""
    stat = process_stat(pid) if pid else None
    return stat is not None and stat.runs and stat.start == start


def group_lives(group: int) -> bool:
    """Return whether a process of the program's session still runs."""
    return any(stat.group == stat.session == group for stat in running_processes().values())


def terminate_program(state: State, grace_s: float = TERMINATE_GRACE_S) -> None:
    """End the program and its children with SIGTERM, then with SIGKILL."""
    pid, start = state.get("program_pid"), state.get("program_start")
    if not pid or state.get("boot") != boot_id():
        return
    stat = process_stat(pid)
    if stat is not None and stat.start != start:
        # The PID was reused, which happens only after the whole group has ended.
        return
    deadline = time.monotonic() + grace_s
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, number)
        while group_lives(pid) and time.monotonic() < deadline:
            time.sleep(0.05)
        deadline = time.monotonic() + grace_s


def give_to_owner(path: Path) -> None:
    """Give a file of root, or of Docker's group under sg, to the directory's owner, who may run the next job."""
    owner = path.parent.stat()
    with contextlib.suppress(PermissionError):
        os.chown(path, owner.st_uid, owner.st_gid)


def write_private(path: Path, data: bytes) -> None:
    """Replace a file atomically. On a full disk, overwrite it instead, which needs no new block."""
    try:
        write_whole(path, data, 0o600)
    except OSError as e:
        if e.errno not in (errno.ENOSPC, errno.EDQUOT) or not path.exists():
            raise
        with path.open("r+b") as file:
            file.write(data)
            file.truncate()


def last_line(path: Path) -> str:
    """Return the last non-blank line of a log."""
    lines = [line.strip() for line in read_tail(path).splitlines()]
    return next((line for line in reversed(lines) if line), "")[:500]


def of_any(state: t.Mapping[str, t.Any]) -> State:
    """Return a state with all fields and valid types. Another release or a user may have written the file."""
    return {
        name: state[name] if isinstance(state.get(name), kind) else unknown for name, (kind, unknown) in FIELDS.items()
    }


def how_it_ended(rc: int) -> str:
    return f"exit code {rc}" if rc >= 0 else f"signal {-rc}"


class Job:
    """A named job in its directory."""

    def __init__(self, parent: Path, name: str) -> None:
        self.parent = parent
        self.name = name
        self.directory = parent / name
        self.log = self.directory / "log"
        self._state_file = self.directory / "job.json"

    @contextlib.contextmanager
    def locked(self) -> t.Iterator[None]:
        """Hold the job's lock, so that only one of two calls starts it. The lock file outlives the directory."""
        # With parents=True, mkdir would make the parents accessible to the group.
        for directory in reversed([path for path in (self.parent, *self.parent.parents) if not path.exists()]):
            directory.mkdir(mode=0o700, exist_ok=True)
            give_to_owner(directory)
        lock = self.parent / f"{self.name}.lock"
        descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        give_to_owner(lock)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            # An explicit unlock also releases the copy of the descriptor in a child that is being forked.
            fcntl.flock(descriptor, fcntl.LOCK_UN)
            os.close(descriptor)

    def read(self) -> State | None:
        """Return the state of the job; None if there is none."""
        for attempt in range(3):
            try:
                state = json.loads(self._state_file.read_bytes())
            except FileNotFoundError:
                return None
            except (ValueError, RecursionError):
                # The file is being overwritten because the disk is full, or a power loss cut it.
                time.sleep(0.05 * attempt)
                continue
            return of_any(state) if isinstance(state, dict) else None
        return None

    def write(self, state: State) -> None:
        write_private(self._state_file, json.dumps(state).encode())

    def is_running(self, state: State) -> bool:
        return (
            not state["finished"] and state["boot"] == boot_id() and is_same_process(state["pid"], state["start_time"])
        )

    def settled(self) -> tuple[State | None, bool]:
        """Return the state and whether the job runs.

        A job that is not running is read again: it may have ended, with a new state, since the first read.
        """
        state = self.read()
        if state is None or self.is_running(state):
            return state, state is not None
        return self.read(), False

    def start(
        self, key: str, program: bytes, arguments: t.Sequence[str], stdin: bytes, replaced: State | None = None
    ) -> State:
        """Start the job detached from this process, its terminal and its session. The caller must hold the lock."""
        if replaced is not None and not replaced["finished"]:
            # If the supervisor was killed, the program may still run.
            terminate_program(replaced)
        self.directory.mkdir(mode=0o700, exist_ok=True)
        self.directory.chmod(0o700)
        give_to_owner(self.directory)
        program_file = self.directory / PROGRAM
        write_private(program_file, program)
        state = of_any({"id": secrets.token_hex(8), "key": key, "boot": boot_id(), "started": time.time()})
        command = [sys.executable, "-u", str(program_file), *arguments]
        stuck = start_detached(lambda ready: supervise(self, state, command, stdin, ready))
        if stuck:
            raise WatchedJobError(f"starting the {self.name} job failed: {stuck}")
        started = self.read()
        if started is None:
            raise WatchedJobError(f"starting the {self.name} job failed: {self._state_file} is not there or not valid")
        return started

    def wait(self, job_id: str, seconds: float) -> tuple[State | None, bool]:
        """Wait until the job ends or the time is over. Return no state if the job was removed or replaced."""
        deadline = time.monotonic() + seconds
        while True:
            state, running = self.settled()
            if state is None or state["id"] != job_id:
                return None, False
            left = deadline - time.monotonic()
            if not running or left <= 0:
                return state, running
            time.sleep(min(POLL_S, left))

    def mark_seen(self, job_id: str) -> bool:
        """Record that the job's end was reported. Return False if it already was. The caller must hold the lock."""
        state = self.read()
        if state is None or state["id"] != job_id or state["seen"]:
            return False
        self.write({**state, "seen": True})
        return True

    def is_at_work(self) -> bool:
        """Return whether the job or its program runs. A program may outlive its supervisor."""
        state, running = self.settled()
        if state is None or running:
            return running
        return state["boot"] == boot_id() and is_same_process(state["program_pid"], state["program_start"])

    def stop(self) -> None:
        """End the job and remove its directory. The caller must hold the lock."""
        if not self.directory.exists():
            return
        state, _changed = self.settled()
        if state is not None:
            terminate_program(state)
            deadline = time.monotonic() + TERMINATE_GRACE_S
            while self.is_running(state) and time.monotonic() < deadline:
                time.sleep(0.05)
            if self.is_running(state):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(state["pid"], signal.SIGKILL)
        shutil.rmtree(self.directory)


def supervise(job: Job, state: State, command: list[str], stdin: bytes, ready: int) -> None:
    """Run the program to its end and keep the job's state file up to date."""
    log_descriptor = os.open(job.log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o600)
    give_to_owner(job.log)
    with os.fdopen(log_descriptor, "wb", buffering=0) as log:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            bufsize=0,
            cwd=job.directory,
            start_new_session=True,
        )
        own, program = process_stat(os.getpid()), process_stat(process.pid)
        state.update(
            pid=os.getpid(),
            start_time=own.start if own else None,
            program_pid=process.pid,
            program_start=program.start if program else None,
        )
        try:
            job.write(state)
        except OSError:
            terminate_program(state)
            raise
        os.write(ready, OK)
        os.close(ready)
        reader = _Reader(state, log)
        _pump(process, stdin, reader, lambda: _write_if_possible(job, state))
        rc = process.wait()
    state.update(outcome(job, rc, reader.result, reader.error))
    job.write(state)


def _write_if_possible(job: Job, state: State) -> None:
    # A failed write of the progress must not end the work. The end is written again anyway.
    with contextlib.suppress(OSError):
        job.write(state)


def outcome(job: Job, rc: int, result: t.Any, error: str | None) -> State:
    """Return the final state of the job, from the exit status and the last output."""
    if error is None and rc != 0:
        said = last_line(job.log)
        error = f"The {job.name} job ended with {how_it_ended(rc)} and without saying why; its log is {job.log}"
        error += f", which ends with: {said}" if said else "."
    finished: State = {"finished": True, "ended": time.time(), "rc": rc, "error": error, "result": None}
    if error is None:
        finished["result"] = result if isinstance(result, dict) else {}
    return finished


class _Reader:
    """Parser of the program's output: progress, result and error. Other lines go to the log.

    The program prints a JSON object a line: {"progress": {"percent": 12.5, "text": "8.1 of 65.2 GB"}} at any time. At
    the end it prints {"result": {...}} with exit status 0, or {"error": "One sentence."} with 1. The `warnings` of a
    result are shown.
    """

    def __init__(self, state: State, log: t.BinaryIO) -> None:
        self._state = state
        self._log = log
        self._rest = b""
        self.result: t.Any = None
        self.error: str | None = None

    def feed(self, data: bytes) -> None:
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._line(line)

    def close(self) -> None:
        self.feed(b"\n")

    def _line(self, line: bytes) -> None:
        if not line.strip():
            return
        try:
            message = json.loads(line)
        except ValueError:
            message = None
        if not isinstance(message, dict) or not message.keys() & {"progress", "result", "error"}:
            with contextlib.suppress(OSError):
                self._log.write(line + b"\n")
            return
        progress = message.get("progress")
        if isinstance(progress, dict):
            percent = progress.get("percent")
            self._state["progress"] = {
                "percent": float(percent) if isinstance(percent, (int, float)) else None,
                "text": str(progress.get("text") or ""),
            }
        if "result" in message:
            self.result = message["result"]
        if message.get("error"):
            self.error = str(message["error"])


def _pump(process: subprocess.Popen[bytes], stdin: bytes, reader: _Reader, write: t.Callable[[], None]) -> None:
    """Write standard input to the program and read its output, until it has ended."""
    if process.stdin is None or process.stdout is None:
        raise ValueError("the program has to be started with pipes")
    os.set_blocking(process.stdin.fileno(), False)
    pending = stdin
    if not pending:
        process.stdin.close()
    written, dirty, open_ = 0.0, False, True
    while open_:
        writers = [process.stdin] if pending else []
        readable, writable, _failed = select.select([process.stdout], writers, [], WRITE_EVERY_S)
        if writable:
            try:
                pending = pending[os.write(process.stdin.fileno(), pending) :]
            except BrokenPipeError:
                pending = b""
            if not pending:
                process.stdin.close()
        if readable:
            data = os.read(process.stdout.fileno(), 65536)
            reader.feed(data)
            dirty, open_ = True, bool(data)
        elif process.poll() is not None:
            # A child of the program may keep its standard output open.
            open_ = False
        if dirty and time.monotonic() - written >= WRITE_EVERY_S:
            write()
            written, dirty = time.monotonic(), False
    reader.close()

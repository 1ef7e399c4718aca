# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Start the ranks of the workers over a connection to each, and the head's own rank as a child.

All ranks end together: a worker ends its rank with the connection, and this program ends with the first rank.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import subprocess
import sys
import time
import typing as t
from pathlib import Path

from server.launchers.launcher import Facts, Plan, Problem, show_command
from server.launchers.own_process.messages import END, FACTS, OUTPUT, START, Request, connect
from server.launchers.own_process.store import READY
from server.processes import describe_exit
from server.rank import MARK, from_output

STORE = (sys.executable, str(Path(__file__).with_name("store.py")))
# Checksums of models take their time.
ASKED_WITHIN_S = 60.0
# A rank that has lost another one may end seconds before that one's main process does.
TOLD_WITHIN_S = 10.0
END_WITHIN_S = 10.0


class RemoteRank:
    """The rank of a worker, by its connection."""

    def __init__(self, number: int, address: str, connection: socket.socket) -> None:
        self.number = number
        self.address = address
        self.connection = connection
        self.rest = b""
        # Why it has ended.
        self.reason: str | None = None

    def read(self) -> list[bytes]:
        """Return its new lines of output; with its end, the reason is set."""
        try:
            data = self.connection.recv(65536)
        except OSError as error:
            data = b""
            self.reason = error.strerror or str(error)
        if not data:
            self.reason = self.reason or "its container has closed the connection"
        *lines, self.rest = (self.rest + data).split(b"\n")
        ends = [line[1:] for line in lines if line[:1] == END]
        if ends:
            self.reason = ends[0].decode("utf-8", "replace")
        return [line[1:] for line in lines if line[:1] == OUTPUT]


class OwnStart:
    """The ranks by a connection to each worker."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.ranks: list[RemoteRank] = []
        self.stopped = False

    def request(self, address: str, request: Request) -> socket.socket:
        """Send a request to a worker; raises Problem."""
        try:
            return connect(address, self.plan.port, self.plan.head, request)
        except OSError as error:
            raise Problem(
                f"the worker at {address} port {self.plan.port} does not answer ({error.strerror or error}); check "
                "the cable, the other Spark and the log of its container"
            ) from error

    def ask(self) -> Facts:
        asked: Request = {"ask": FACTS, "paths": list(self.plan.paths)}
        connections = [(address, self.request(address, asked)) for address in self.plan.workers]
        own = subprocess.run(show_command(self.plan.paths), stdout=subprocess.PIPE, text=True, check=False).stdout
        return from_output(own + "".join(self.answer(*one) for one in connections))

    def answer(self, address: str, connection: socket.socket) -> str:
        """Return what a worker sends until it closes the connection; raises Problem."""
        connection.settimeout(ASKED_WITHIN_S)
        try:
            with connection, connection.makefile(encoding="utf-8", errors="replace") as file:
                text = file.read()
            if MARK not in text:
                raise ConnectionError("it has closed the connection")
        except OSError as error:
            raise Problem(
                f"the worker at {address} has not sent the facts of its rank ({error.strerror or error}); see the log "
                "of its container"
            ) from error
        return text

    def run(self, command: t.Sequence[str]) -> int:
        # The rank is told to stop, too, and decides how long that takes.
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self.on_signal)
        options = Path(os.environ["DGX_SPARK_OPTIONS"]).read_text(encoding="utf-8")
        store = open_store(self.plan)
        for rank, address in enumerate(self.plan.workers, 1):
            connection = self.request(address, {"ask": START, "options": options})
            connection.setblocking(False)
            self.ranks.append(RemoteRank(rank, address, connection))
        if self.stopped:
            return 0
        own = subprocess.Popen(command, stdin=subprocess.DEVNULL)
        while own.poll() is None and not self.ended():
            self.listen(0.25)
        code = own.poll()
        store.kill()
        # One rank takes the others with it, and vLLM then ends with status 0: the cause is what a worker reports.
        until = time.monotonic() + TOLD_WITHIN_S
        while code is not None and not self.stopped and not self.ended() and time.monotonic() < until:
            self.listen(0.25)
        if code is None:
            end(own)
        for lost in self.ended():
            say(f"the rank on the worker {lost.address} has ended: {lost.reason}")
        return 1 if code is None else 128 - code if code < 0 else code

    def on_signal(self, _number: int, _frame: object) -> None:
        self.stopped = True

    def ended(self) -> list[RemoteRank]:
        return [rank for rank in self.ranks if rank.reason is not None]

    def listen(self, seconds: float) -> None:
        """Print what the workers' ranks print, waiting for it for so long."""
        running = {rank.connection: rank for rank in self.ranks if rank.reason is None}
        if not running:
            time.sleep(seconds)
        for connection in select.select(list(running), [], [], seconds)[0] if running else ():
            rank = running[connection]
            for line in rank.read():
                sys.stdout.buffer.write(b"[rank %d] %s\n" % (rank.number, line))
            sys.stdout.flush()


def open_store(plan: Plan) -> subprocess.Popen[str]:
    """Return the process with the store where the ranks meet; raises Problem."""
    store = subprocess.Popen(
        [*STORE, plan.head, str(plan.port)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert store.stdout is not None
    said = ""
    for line in store.stdout:
        if line.strip() == READY:
            return store
        said = line.strip() or said
    raise Problem(f"the store where the ranks meet cannot be opened on {plan.head} port {plan.port} ({said})")


def end(rank: subprocess.Popen[bytes]) -> None:
    """End the head's rank, in order if it can."""
    rank.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        rank.wait(END_WITHIN_S)
        return
    rank.kill()
    say(f"the head's rank did not end in order: {describe_exit(rank.wait())}")


def say(text: str) -> None:
    print(f"[ranks] {text}", flush=True)

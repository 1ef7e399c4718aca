# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Run a worker whose rank is a process of its own: it lives as long as the head's connection."""

from __future__ import annotations

import contextlib
import os
import select
import socket
import subprocess
import time
import typing as t
from pathlib import Path

from server import nccl
from server.cluster import HEARD, RUN, Cluster, write_private
from server.launchers.launcher import show_command
from server.launchers.own_process.messages import (
    END,
    FACTS,
    GREETING,
    OUTPUT,
    READY,
    START,
    Request,
    close_when_lost,
    read_request,
)
from server.processes import Process, collect_dead, descendants, describe_exit, end_descendants
from server.worker import BaseWorker, StateAndReason

# A request: engine options and paths.
REQUEST_BYTES = 1_000_000
# Output that the head does not take; its log has the rest.
UNSENT_BYTES = 1_000_000
# Seconds until a connection must have sent its request.
REQUEST_WITHIN_S = 10.0
MOST_CONNECTIONS = 16


class Connection:
    """A connection of the head, or of this Spark's health check."""

    def __init__(self, connection: socket.socket, may_ask: bool) -> None:
        self.socket = connection
        self.may_ask = may_ask
        connection.setblocking(False)
        self.since = time.monotonic()
        self.is_greeted = False
        self.received = b""
        self.unsent = bytearray()

    def fileno(self) -> int:
        return self.socket.fileno()

    def send(self, data: bytes) -> None:
        """Send soon. Drop what a head that stands still does not take."""
        if len(self.unsent) + len(data) <= UNSENT_BYTES:
            self.unsent += data
        self.flush()

    def flush(self) -> None:
        # The end of the connection is seen when it is read.
        with contextlib.suppress(OSError):
            while self.unsent:
                del self.unsent[: self.socket.send(self.unsent)]

    def read(self) -> bytes | None:
        """Return what the head sends; None at the end of the connection."""
        try:
            return self.socket.recv(65536) or None
        except BlockingIOError:
            return b""
        except OSError:
            return None


class ProcessWorker(BaseWorker):
    """Runs serve.sh as a rank while the head keeps its connection open."""

    def __init__(self, deployment: Path, cluster: Cluster) -> None:
        super().__init__(deployment, cluster)
        self.listener: socket.socket | None = None
        self.connections: list[Connection] = []
        # Programs that send facts, and the rank with the connection on which its life depends.
        self.answering: list[subprocess.Popen[bytes]] = []
        self.rank: subprocess.Popen[bytes] | None = None
        self.owner: Connection | None = None
        self.rest = b""

    def open(self) -> StateAndReason | None:
        try:
            self.listener = socket.create_server((self.cluster.own, self.cluster.port), backlog=MOST_CONNECTIONS)
        except OSError as error:
            return "failed", f"{self.cluster.own} port {self.cluster.port} cannot be used ({error.strerror})"
        self.listener.setblocking(False)
        return None

    def stay(self) -> StateAndReason | None:
        """Serve the head until the container stops, or the memory guard has ended the rank."""
        look_at = time.monotonic()
        while self.stop_signal is None and not self.verbs.too_early:
            self.turn_once(0.25)
            self.answering = [one for one in self.answering if one.poll() is None]
            collect_dead(but=self.rank.pid if self.rank else 0)
            if time.monotonic() >= look_at:
                self.look()
                look_at = time.monotonic() + 0.5
                if self.is_guarded():
                    return self.apply_guard_verdict()
        return None

    def may_start(self) -> bool:
        return self.guard.is_settled()

    def turn_once(self, seconds: float) -> None:
        """Take in what the head and the rank have sent within so many seconds."""
        assert self.listener is not None
        # Before its output is read: the last of it is in the pipe then.
        ended = self.rank is not None and self.rank.poll() is not None
        output = self.rank.stdout if self.rank else None
        waited: list[t.Any] = [self.listener, *self.connections, *([output] if output else [])]
        late = [connection for connection in self.connections if connection.unsent]
        readable, writable, _exceptional = select.select(waited, late, [], 0 if ended else seconds)
        for connection in writable:
            connection.flush()
        if output and output in readable and not self.pass_on(output) and not ended:
            # It has closed its output and still runs.
            time.sleep(seconds)
        if ended:
            self.report_end()
        if self.listener in readable:
            self.accept()
        # The head waits for the greeting, and starts no rank that finds too little memory.
        if self.rank is not None or self.may_start():
            self.greet()
        now = time.monotonic()
        for connection in list(self.connections):
            if connection in readable:
                self.receive(connection)
            elif connection is not self.owner and now - connection.since > REQUEST_WITHIN_S:
                self.dismiss(connection)

    def accept(self) -> None:
        """Accept the head and the health check; close the connection of any other."""
        assert self.listener is not None
        with contextlib.suppress(OSError):
            connection, (address, _port) = self.listener.accept()
            head = self.cluster.peers[0]
            if address not in (head, self.cluster.own) or len(self.connections) >= MOST_CONNECTIONS:
                connection.close()
                return
            close_when_lost(connection, self.cluster.lost_s)
            self.connections.append(Connection(connection, may_ask=address == head))

    def greet(self) -> None:
        """Greet each connection once."""
        for connection in self.connections:
            if not connection.is_greeted:
                connection.is_greeted = True
                connection.send(GREETING)

    def receive(self, connection: Connection) -> None:
        """Take in a part of a request, or the end of a connection."""
        data = connection.read()
        if data is None:
            self.dismiss(connection)
            return
        connection.received += data
        line, newline, _rest = connection.received.partition(b"\n")
        if connection is self.owner or (not newline and len(line) <= REQUEST_BYTES):
            return
        self.obey(connection, (read_request(line) if connection.may_ask else None) or {})

    def obey(self, connection: Connection, request: Request) -> None:
        asked = request.get("ask")
        if asked == START:
            self.start_rank(connection, request)
            return
        if asked == FACTS:
            self.answering.append(
                subprocess.Popen(
                    show_command(request.get("paths", ())),
                    stdin=subprocess.DEVNULL,
                    stdout=connection.fileno(),
                    env=self.environment(),
                )
            )
        elif asked == READY:
            self.ready = True
            connection.send(HEARD.encode() + b"\n")
        self.dismiss(connection)

    def dismiss(self, connection: Connection) -> None:
        """Close a connection, and end the rank that depends on it."""
        if connection in self.connections:
            self.connections.remove(connection)
        connection.socket.close()
        if connection is self.owner:
            self.owner = None
            self.log.say("the head has ended its server, and so this rank is ended")
            self.end_rank()

    def environment(self) -> dict[str, str]:
        return {**os.environ, **nccl.settings(self.deployment / "state", os.environ)}

    def start_rank(self, owner: Connection, request: Request) -> None:
        """Start a rank in place of an earlier one."""
        if self.rank is not None:
            self.log.say("ending the rank of an earlier start")
            self.end_rank()
        nccl.remove_files(self.deployment / "state")
        options = RUN / "options.yml"
        RUN.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_private(options, request.get("options", ""))
        self.guard.loads()
        self.heeded = None
        self.log.tail.clear()
        self.owner = owner
        self.rank = subprocess.Popen(
            # Privileged, so that no variable makes bash run something before the script (BASH_ENV).
            ["/bin/bash", "-p", str(self.deployment / "serve.sh")],
            env={**self.environment(), "DGX_SPARK_OPTIONS": str(options)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        assert self.rank.stdout is not None
        os.set_blocking(self.rank.stdout.fileno(), False)

    def pass_on(self, output: t.IO[bytes]) -> bool:
        """Log new output of the rank and send it to the head; returns whether there was any."""
        try:
            data = os.read(output.fileno(), 65536)
        except BlockingIOError:
            return False
        self.log.write(data)
        *lines, self.rest = (self.rest + data).split(b"\n")
        if self.owner is not None and lines:
            self.owner.send(b"".join(OUTPUT + line + b"\n" for line in lines))
        return bool(data)

    def report_end(self) -> None:
        """Tell the head why the rank has ended, and close the connection."""
        assert self.rank is not None
        assert self.rank.stdout is not None
        while self.pass_on(self.rank.stdout):
            pass
        reason = f"{describe_exit(self.rank.returncode)}: {self.log.last_line()}"
        if self.guard.verdict is not None:
            reason = f"the memory guard has ended it: {self.guard.verdict.reason}"
        self.log.say(f"the rank has ended: {reason}")
        owner, self.owner = self.owner, None
        self.end_rank()
        if owner is not None:
            owner.send(END + reason.encode() + b"\n")
            self.dismiss(owner)

    def end_rank(self) -> None:
        """End the rank with all that it has started; it has nothing to save."""
        rank, self.rank, self.rest = self.rank, None, b""
        if rank is None:
            return
        left = end_descendants(but=rank.pid)
        if left:
            self.log.say(f"these processes of the rank cannot be ended: {' '.join(map(str, sorted(left)))}")
        if rank.stdout is not None:
            rank.stdout.close()
        rank.wait()
        self.no_rank()

    def ranks(self) -> dict[int, Process]:
        """Return the processes of the rank, in any session; none without a rank."""
        family = descendants(os.getpid()) if self.rank is not None else {}
        return {pid: process for pid, process in family.items() if pid not in {one.pid for one in self.answering}}

    def close(self) -> None:
        if self.rank is not None and self.rank.poll() is not None:
            self.report_end()
        if self.listener is not None:
            self.listener.close()
            self.listener = None
        self.owner = None
        for connection in list(self.connections):
            self.dismiss(connection)
        self.end_rank()

    def end(self) -> None:
        """Stop: no new rank, and the present one ends."""
        if self.listener is not None:
            self.listener.close()
        super().end()

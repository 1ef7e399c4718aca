# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The requests of a head to a worker, and the answers, over TCP on the fabric.

A worker greets with a line. The head then sends one request, a line of JSON with the key `ask`:

facts  the worker sends the facts of its rank, a line, and closes the connection; `paths` as in rank.py
ready  the worker notes that the server is ready, confirms that and closes the connection
start  the worker runs a rank with the engine options `options`, for as long as the connection is open. It sends the
       rank's output, a line each behind OUTPUT, and the reason of its end behind END.

No password protects it, as none protects the ranks' own connections: a machine with the head's address on the fabric
could send code to either.
"""

from __future__ import annotations

import json
import socket
import typing as t

from server.cluster import LOOK_TIMEOUT_S

GREETING = b"DGX-SPARK-WORKER\n"
OUTPUT, END = b"|", b"!"
FACTS, READY, START = "facts", "ready", "start"
# Seconds between two checks of a silent connection, and checks without an answer until it is closed.
CHECK_EVERY_S, CHECKS = 5, 3


class Request(t.TypedDict, total=False):
    """A request of the head."""

    # One of those above.
    ask: str
    paths: list[str]
    options: str


def connect(address: str, port: int, source: str, request: Request) -> socket.socket:
    """Send a request to a worker; returns the connection. Raises OSError."""
    connection = socket.create_connection((address, port), LOOK_TIMEOUT_S, (source, 0))
    try:
        if connection.recv(len(GREETING), socket.MSG_WAITALL) != GREETING:
            raise ConnectionError("what listens there is not the worker's container")
        connection.sendall(json.dumps(request).encode() + b"\n")
    except OSError:
        connection.close()
        raise
    return connection


def read_request(line: bytes) -> Request | None:
    """Return a request; None if it is none."""
    try:
        request = json.loads(line)
    except (ValueError, RecursionError):
        return None
    kinds = {"ask": str, "options": str, "paths": list}
    if not isinstance(request, dict) or any(
        not isinstance(request.get(key, kind()), kind) for key, kind in kinds.items()
    ):
        return None
    return t.cast("Request", request)


def close_when_lost(connection: socket.socket, lost_s: float) -> None:
    """Have the kernel close a connection whose other end no longer answers, after about so many seconds."""
    every = max(1, round(lost_s / (CHECKS + 1)))
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, every)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, every)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, CHECKS)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, round(lost_s * 1000))

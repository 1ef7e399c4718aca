# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A real HTTP server that replays recorded answers of trtllm-serve, for the tests of the probe."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import re
import socket
import threading
import time
import typing as t
from pathlib import Path

from tests.unit import web

FIXTURES = Path(__file__).parent / "fixtures"


class Server:
    """A server on a real port that replays what it is told."""

    def __init__(self) -> None:
        self.requests: list[dict[str, t.Any]] = []
        self.headers: list[dict[str, str]] = []
        self.health: tuple[int, bytes] = (200, b"")
        self.ask: t.Callable[[Handler], None] = lambda handler: handler.reply(200, b"{}")
        self.release = threading.Event()
        self.http = web.Server(Handler, self)
        self.url = self.http.url

    def close(self) -> None:
        self.release.set()
        self.http.server_close()


class Handler(web.Handler):
    protocol_version = "HTTP/1.1"

    def stream(self, pieces: t.Iterable[bytes], pause: float = 0.0) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream; charset=utf-8")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        # The client leaves when it has heard enough.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            for piece in pieces:
                self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
                self.wfile.flush()
                time.sleep(pause)
            self.wfile.write(b"0\r\n\r\n")

    def do_GET(self) -> None:
        self.told.headers.append(dict(self.headers))
        if self.path == "/health":
            self.reply(*self.told.health)
        elif self.path == "/version":
            self.reply(200, b'{"version": "1.3.0rc12"}')
        elif self.path == "/v1/models":
            self.reply(200, b'{"object": "list", "data": [{"id": "openai/gpt-oss-120b", "object": "model"}]}')
        else:
            self.reply(404, b'{"detail": "Not Found"}')

    def do_POST(self) -> None:
        self.told.requests.append(json.loads(self.read()))
        self.told.ask(self)


def events(name: str) -> list[bytes]:
    """The events of a recorded stream, one by one."""
    return re.findall(rb".+?\n\n|.+", (FIXTURES / f"{name}.txt").read_bytes(), re.DOTALL)


def replay(name: str, pause: float = 0.0) -> t.Callable[[Handler], None]:
    return lambda handler: handler.stream(events(name), pause)


# Each process of the tests counts from a place of its own, below what the kernel gives away by itself: a port that was
# free stays free.
_ports = itertools.count(os.getpid() * 997)


def free_port(address: str = "127.0.0.1") -> int:
    while True:
        port = 10_000 + next(_ports) % 20_000
        with socket.socket() as sock, contextlib.suppress(OSError):
            sock.bind((address, port))
            return port

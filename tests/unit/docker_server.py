# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A real HTTP server on a unix socket that answers as the Docker Engine does, for the tests of what looks at Docker."""

from __future__ import annotations

import json
import socketserver
import threading
import time
import typing as t
from pathlib import Path

from tests.unit import web

CUT = "cut"


class Handler(web.Handler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        page = self.server.pages.get(self.path, (404, {"message": "nothing of the kind"}))
        status, body = page if isinstance(page, tuple) else (200, page)
        self.reply(status, body)

    def do_POST(self) -> None:
        self.read()
        self.do_GET()

    def reply(self, status: int, page: t.Any = b"", *more: t.Any) -> None:
        self.close_connection = True
        super().reply(status, page, *more)

    def tell(self, status: int, stream: t.Sequence[t.Any]) -> None:
        """Answer line by line; a number is a wait of so many seconds, and CUT the end of the connection."""
        self.close_connection = True
        self.send_response(status)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for line in stream:
            if line == CUT:
                return
            if isinstance(line, float):
                time.sleep(line)
                continue
            data = json.dumps(line).encode() + b"\r\n"
            self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.write(b"0\r\n\r\n")

    def address_string(self) -> str:
        return "unix"


class DockerServer(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    """Answers each path with its page: data, or a status and data."""

    daemon_threads = True
    handler = Handler

    def __init__(self, path: Path, pages: dict[str, t.Any]) -> None:
        self.path = path
        self.pages = pages
        super().__init__(str(path), self.handler)
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    def server_close(self) -> None:
        self.shutdown()
        super().server_close()

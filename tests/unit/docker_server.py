# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A real HTTP server on a unix socket that answers as the Docker Engine does, for the tests of what looks at Docker."""

from __future__ import annotations

import json
import socketserver
import threading
import typing as t
from http.server import BaseHTTPRequestHandler
from pathlib import Path


class DockerServer(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    """Answers each path with its page: data, or a status and data."""

    daemon_threads = True

    def __init__(self, path: Path, pages: dict[str, t.Any]) -> None:
        self.path = path
        self.pages = pages
        super().__init__(str(path), Handler)
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()


class Handler(BaseHTTPRequestHandler):
    server: DockerServer

    def do_GET(self) -> None:
        page = self.server.pages.get(self.path, (404, {"message": "nothing of the kind"}))
        status, body = page if isinstance(page, tuple) else (200, page)
        self.send_response(status)
        self.end_headers()
        self.wfile.write(json.dumps(body).encode())

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.do_GET()

    def log_message(self, format: str, *args: t.Any) -> None: ...

    def address_string(self) -> str:
        return "unix"

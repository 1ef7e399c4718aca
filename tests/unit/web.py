# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""HTTP servers of the tests' own, each on a port of the loopback address."""

from __future__ import annotations

import http.server
import json
import sys
import threading
import typing as t


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers in one piece, and keeps no log."""

    server: t.Any

    @property
    def told(self) -> t.Any:
        """What the test has told the server."""
        return self.server.told

    def reply(
        self, status: int, page: t.Any = b"", kind: str = "application/json", headers: t.Mapping[str, str] | None = None
    ) -> None:
        """Answer with bytes, or with data as JSON."""
        body = page if isinstance(page, bytes) else json.dumps(page).encode()
        self.send_response(status)
        for name, value in {"Content-Type": kind, "Content-Length": str(len(body)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def read(self) -> bytes:
        """Read the body of the request."""
        return self.rfile.read(int(self.headers["Content-Length"]))

    def log_message(self, format: str, *args: t.Any) -> None:
        pass


class Server(http.server.ThreadingHTTPServer):
    """Serves from the beginning until it is closed."""

    daemon_threads = True

    def __init__(self, handler: type[http.server.BaseHTTPRequestHandler], told: t.Any = None) -> None:
        super().__init__(("127.0.0.1", 0), handler)
        self.told = told
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def server_close(self) -> None:
        self.shutdown()
        super().server_close()

    def handle_error(self, request: t.Any, client_address: t.Any) -> None:
        # Clients may leave early.
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)

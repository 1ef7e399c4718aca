# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this module util is internal to the collection; its interface may change at any time.

"""Query the Docker Engine through its socket, for modules and jobs."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import typing as t
from urllib.parse import quote

from .._deployment.names import LABEL, STANDBY

SOCKET = "/var/run/docker.sock"

Answer = dict[str, t.Any]


class EngineError(Exception):
    """The Engine returned an error or an unexpected response. The text is one sentence for the user."""


class Connection(http.client.HTTPConnection):
    """HTTP connection through the Engine's socket."""

    def __init__(self, path: str, timeout: float | None) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


class Engine:
    """Client of the Docker Engine. OSError means that the Engine cannot be reached."""

    def __init__(self, path: str = SOCKET, timeout: float = 30) -> None:
        self.path = path
        self._timeout = timeout

    def request(
        self,
        method: str,
        path: str,
        silence_s: float | None = None,
        body: t.Any = None,
        sent: t.Callable[[], None] = lambda: None,
    ) -> http.client.HTTPResponse:
        """Send a request and return the response. Raise socket.timeout after silence_s without data.

        A body is JSON data if it is a dict, else an archive: bytes, or an iterable of them that is sent in chunks.
        """
        connection = Connection(self.path, silence_s)
        kind = "json" if isinstance(body, dict) else "x-tar"
        headers = {"Content-Type": f"application/{kind}"} if body is not None else {}
        body = json.dumps(body).encode() if isinstance(body, dict) else body
        pieces = body is not None and not isinstance(body, bytes)
        # The Engine may reject the remaining chunks; its response has the reason.
        with contextlib.suppress(*([BrokenPipeError, ConnectionResetError] if pieces else [])):
            connection.request(method, path, body, headers, encode_chunked=pieces)
            sent()
        response = connection.getresponse()
        if connection.sock:
            # The response keeps its own reference to the socket.
            connection.sock.close()
        return response

    def find(self, path: str) -> t.Any:
        """Return the Engine's JSON for a path; None if it does not exist (status 404)."""
        try:
            with self.request("GET", path, self._timeout) as response:
                body = response.read()
        except http.client.HTTPException as e:
            raise EngineError(f"Asking the Docker Engine for {path} failed: {type(e).__name__} {e}.") from e
        if response.status == 404:
            return None
        try:
            answer = json.loads(body)
        except ValueError as e:
            raise EngineError(f"Asking the Docker Engine for {path} failed: it did not answer with JSON.") from e
        if response.status != 200:
            reason = (answer.get("message") if isinstance(answer, dict) else None) or response.reason
            raise EngineError(f"Asking the Docker Engine for {path} failed with status {response.status}: {reason}.")
        return answer

    def get(self, path: str) -> t.Any:
        answer = self.find(path)
        if answer is None:
            raise EngineError(f"Asking the Docker Engine for {path} failed with status 404: it has no such page.")
        return answer

    def container(self, name: str) -> Answer | None:
        answer: Answer | None = self.find(f"/containers/{quote(name, safe='')}/json")
        return answer

    def own_container(self, name: str) -> Answer | None:
        """Return a container if this collection created it. The name alone does not show that."""
        result = self.container(name)
        labels = ((result or {}).get("Config") or {}).get("Labels") or {}
        return result if any(label.startswith(LABEL) for label in labels) else None

    def standby(self, name: str) -> Answer | None:
        """Return the standby container."""
        return self.own_container(f"{name}{STANDBY}")

    def slot(self, name: str) -> Answer | None:
        """Return the serving container, or the standby container if that runs again, as after a power cut.

        If both run, only the one with the engine lock is healthy.
        """
        return max(filter(None, (self.container(name), self.standby(name))), key=_serves, default=None)

    def image(self, name: str) -> Answer | None:
        answer: Answer | None = self.find(f"/images/{quote(name, safe='/:@')}/json")
        return answer


def _serves(container: Answer) -> tuple[bool, bool]:
    state = container.get("State") or {}
    return bool(state.get("Running")), (state.get("Health") or {}).get("Status") == "healthy"

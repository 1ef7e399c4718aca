# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this plugin util is internal to the collection; its interface may change at any time.

"""The Docker Engine by its socket: what jobs ask of it, and what it says while it works."""

from __future__ import annotations

import contextlib
import http.client
import json
import shutil
import socket
import typing as t
from urllib.parse import quote

from .said import Message, amount

SOCKET = "/var/run/docker.sock"
# For an answer that takes no work.
ASK_S = 30.0


class EngineError(Exception):
    """It does not answer, or no longer: why, in a few words."""


class Connection(http.client.HTTPConnection):
    """HTTP over the Engine's socket."""

    def __init__(self, path: str, silence_s: float | None) -> None:
        super().__init__("localhost", timeout=silence_s)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


def reason_of(error: BaseException) -> str:
    return str(getattr(error, "strerror", None) or error or type(error).__name__)


def message_of(body: str) -> str:
    """What an answer that is an error says."""
    try:
        answer = json.loads(body)
    except ValueError:
        return body.strip()
    return str(answer.get("message") or "") if isinstance(answer, dict) else body.strip()


def image_path(reference: str, what: str) -> str:
    return f"/images/{quote(reference, safe='/:@')}/{what}"


class Engine:
    """The Engine, and the directory where it keeps its images."""

    def __init__(self, path: str = SOCKET, images: str = "") -> None:
        self.path = path
        self._images = images

    def request(
        self,
        method: str,
        path: str,
        silence_s: float | None = None,
        body: t.Any = None,
        sent: t.Callable[[], None] = lambda: None,
    ) -> http.client.HTTPResponse:
        """Ask for something; a body is data, or an archive, in pieces if it is no bytes.

        Raises socket.timeout after a silence.
        """
        connection = Connection(self.path, silence_s)
        kind = "json" if isinstance(body, dict) else "x-tar"
        headers = {"Content-Type": f"application/{kind}"} if body is not None else {}
        body = json.dumps(body).encode() if isinstance(body, dict) else body
        pieces = body is not None and not isinstance(body, bytes)
        try:
            # Of pieces the Engine may refuse the rest and say why.
            with contextlib.suppress(*([BrokenPipeError, ConnectionResetError] if pieces else [])):
                connection.request(method, path, body, headers, encode_chunked=pieces)
                sent()
            return connection.getresponse()
        except socket.timeout:
            raise
        except (OSError, http.client.HTTPException) as e:
            raise EngineError(
                f"the Docker Engine does not answer on {self.path} ({reason_of(e)}); is it running?"
            ) from e

    def ask(self, path: str, lost: str = "went away") -> tuple[int, Message]:
        """The status and the answer, which is one object; what to say if it is cut."""
        try:
            response = self.request("GET", path, ASK_S)
            answer = json.loads(response.read())
        except (OSError, ValueError, http.client.HTTPException) as e:
            raise EngineError(f"the Docker Engine {lost}") from e
        return (response.status, answer) if isinstance(answer, dict) else (0, {})

    def find(self, reference: str, lost: str = "went away") -> Message | None:
        """An image, if it is there."""
        status, answer = self.ask(image_path(reference, "json"), lost)
        return answer if status == 200 else None

    def room(self) -> str:
        """How much space is left where it keeps its images, for an error message."""
        try:
            free = shutil.disk_usage(self._images).free
        except OSError:
            return ""
        return f"; {amount(free)} are free in {self._images}"


def stream(response: http.client.HTTPResponse) -> t.Iterator[Message]:
    """The messages of an answer that comes as work is done. Raises as reading does, and ValueError."""
    rest = b""
    # Reading by lines would take a stream that was cut for one that ended.
    while data := response.read1(65536):
        *lines, rest = (rest + data).split(b"\n")
        yield from (json.loads(line) for line in lines if line.strip())
    if rest.strip():
        yield json.loads(rest)


def error_in(message: Message) -> str:
    """What a message of the stream calls an error."""
    return str((message.get("errorDetail") or {}).get("message") or message.get("error") or "")

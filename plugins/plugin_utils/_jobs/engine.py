# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this plugin util is internal to the collection; its interface may change at any time.

"""Call the Docker Engine by its socket, and read the progress of its work."""

from __future__ import annotations

import http.client
import json
import shutil
import socket
import typing as t
from urllib.parse import quote

from ...module_utils._data.text import amount
from ...module_utils._docker import engine
from ...module_utils._docker.engine import SOCKET, EngineError
from .progress import Message


def reason_of(error: BaseException) -> str:
    return str(getattr(error, "strerror", None) or error or type(error).__name__)


def message_of(body: str) -> str:
    """Return the message in the body of an error answer."""
    try:
        answer = json.loads(body)
    except ValueError:
        return body.strip()
    return str(answer.get("message") or "") if isinstance(answer, dict) else body.strip()


class Engine(engine.Engine):
    """The Engine, if it is what the job works with: why it does not answer is a sentence, too."""

    def __init__(self, path: str = SOCKET, images: str = "") -> None:
        super().__init__(path)
        # Its image store.
        self._images = images

    def request(self, *arguments: t.Any, **more: t.Any) -> http.client.HTTPResponse:
        try:
            return super().request(*arguments, **more)
        except socket.timeout:
            raise
        except (OSError, http.client.HTTPException) as e:
            raise EngineError(
                f"the Docker Engine does not answer on {self.path} ({reason_of(e)}); start it with 'sudo "
                "systemctl start docker', then run again."
            ) from e

    def find(self, path: str) -> t.Any:
        try:
            return super().find(path)
        except OSError as e:
            raise EngineError("the Docker Engine went away") from e

    def remove_image(self, image: str) -> None:
        """Remove an image with its layers, which a power cut may have left incomplete."""
        try:
            response = self.request("DELETE", f"/images/{quote(image, safe='/:@')}?force=1")
            body = response.read().decode(errors="replace")
        except (OSError, http.client.HTTPException) as e:
            raise EngineError(f"the Docker Engine went away while it removed {image}; run the same again.") from e
        if response.status not in (200, 404):
            raise EngineError(
                f"the image {image} may be incomplete after a power cut, and the Docker Engine refuses to remove it "
                f"({message_of(body) or response.reason}); remove its containers, then run the same again."
            )

    def room(self) -> str:
        """Return the free space of the image store as text for an error message."""
        try:
            free = shutil.disk_usage(self._images).free
        except OSError:
            return ""
        return f"; {amount(free)} are free in {self._images}"


def stream(response: http.client.HTTPResponse) -> t.Iterator[Message]:
    """Yield the messages of an answer that comes as work is done. Raises as reading does, and ValueError."""
    rest = b""
    # Reading by lines would take a stream that was cut for one that ended.
    while data := response.read1(65536):
        *lines, rest = (rest + data).split(b"\n")
        yield from (json.loads(line) for line in lines if line.strip())
    if rest.strip():
        yield json.loads(rest)


def error_in(message: Message) -> str:
    """Return the error in a message of the stream."""
    return str((message.get("errorDetail") or {}).get("message") or message.get("error") or "")

# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this plugin util is internal to the collection; its interface may change at any time.

"""Have the Docker Engine build an image, telling how far it is: a program for the module watched_job.

The arguments: the image's reference, and the text of its Dockerfile, which is all there is to build it from.
"""

from __future__ import annotations

import argparse
import collections
import http.client
import io
import json
import os
import re
import socket
import sys
import tarfile
import threading
import time
import typing as t
from pathlib import Path
from urllib.parse import unquote, urlencode

from ...module_utils._data.text import clause, duration
from ...module_utils._docker import image_marks
from .engine import SOCKET, Engine, EngineError, error_in, message_of, stream
from .progress import Message, Reports, emit, log

# Apt tries an unreachable mirror for minutes, without output.
SILENCE_S = 900.0
REPORT_EVERY_S = 1.0
QUIET_S = 30.0
LINE_LENGTH = 100
STEP = re.compile(r"Step (\d+)/(\d+) : ")
# The Engine shows red what a command writes to its standard error.
COLOUR = re.compile(r"\x1b\[[0-9;]*m")

# Docker takes these as arguments of any build, gives them to its commands, and keeps them out of the image and of its
# history, also with a password in them: docs.docker.com/reference/dockerfile, "Predefined ARGs".
PROXIES = {"HTTP_PROXY": "HttpProxy", "HTTPS_PROXY": "HttpsProxy", "NO_PROXY": "NoProxy"}
# The part of a URL before the host, with or without a scheme; a password may contain an @.
CREDENTIALS = re.compile(r"^(?:[a-z0-9+.-]+://)?([^/]*)@", re.IGNORECASE)
# The Engine's replacement of a login; it is no secret.
MASKED = "xxxxx:xxxxx@"
LOOPBACK = re.compile(r"^(?:[a-z0-9+.-]+://)?(?:[^/]*@)?(?:localhost|127[.][0-9.]+|\[::1\])(?:[:/]|$)", re.IGNORECASE)


class BuildError(Exception):
    """The build failed. The text is a few words."""


def proxies(environment: t.Mapping[str, str], info: Message) -> dict[str, str]:
    """Return the proxy settings for the build: the login user's, or those of the Engine.

    Neither reaches a build by itself, as the settings of the command line's own configuration do.
    """
    result = {}
    for name, engines in PROXIES.items():
        value = environment.get(name.lower()) or environment.get(name) or str(info.get(engines) or "")
        if value and MASKED not in value:
            result[name] = result[name.lower()] = value
    return result


def secrets(settings: t.Mapping[str, str]) -> list[str]:
    """Return the logins of the proxies in all forms that a command may print, the longest first."""
    result = {match[1] for value in settings.values() if (match := CREDENTIALS.match(value))}
    result |= {login.partition(":")[2] for login in result}
    result |= {unquote(secret) for secret in result}
    # A shorter one would hide ordinary words.
    return sorted((one for one in result if len(one) > 3), key=len, reverse=True)


def context(dockerfile: str) -> bytes:
    """Return the build context for the Engine."""
    file, data = io.BytesIO(), dockerfile.encode()
    with tarfile.open(fileobj=file, mode="w") as archive:
        info = tarfile.TarInfo("Dockerfile")
        info.size = len(data)
        archive.addfile(info, io.BytesIO(data))
    return file.getvalue()


class Output:
    """The output of the commands, which arrives in pieces."""

    def __init__(self, hidden: t.Sequence[str] = ()) -> None:
        self._hidden = hidden
        self._rest = ""
        self._last: collections.deque[str] = collections.deque(maxlen=20)
        self._apt: list[str] = []
        self._heard = time.monotonic()
        self._step = ""
        self.percent: float | None = None
        # One thread receives the output, another one reports it.
        self.lock = threading.Lock()

    def state(self) -> Message:
        """Return the progress of the build."""
        with self.lock:
            return {"percent": self.percent, "text": self.text()}

    def feed(self, text: str) -> None:
        self._heard = time.monotonic()
        *lines, self._rest = re.split(r"[\r\n]+", self._rest + COLOUR.sub("", text))
        for line in map(self.hide, filter(None, map(str.strip, lines))):
            log(line)
            if step := STEP.match(line):
                number, count = int(step[1]), int(step[2])
                self._step, self.percent = f"step {number} of {count}", round(100 * (number - 1) / count, 1)
            # The Engine's own remarks are of no use.
            if not line.startswith("---> "):
                self._last.append(line)
            if line.startswith("E: "):
                self._apt.append(line)

    def hide(self, text: str) -> str:
        for secret in self._hidden:
            text = text.replace(secret, "***")
        return text

    def text(self) -> str:
        parts = [self._step, self._last[-1][:LINE_LENGTH] if self._last else ""]
        quiet = time.monotonic() - self._heard
        if quiet >= QUIET_S:
            parts.append(f"nothing more for {duration(quiet)}")
        return "making the image: " + (", ".join(filter(None, parts)) or "Docker begins")

    def explain(self, problem: str) -> str:
        """Apt knows better than the Engine, which sees an exit code only."""
        self.feed("\n")
        if self._apt:
            return self._apt[0]
        problem = clause(self.hide(problem))
        return f"{problem}; it ended with: {self._last[-1]}" if "non-zero code" in problem and self._last else problem


def messages(
    engine: Engine, reference: str, dockerfile: str, arguments: t.Mapping[str, str], *, uncached: bool
) -> t.Iterator[Message]:
    """Yield the messages of the Engine during the build."""
    # The base is there, and is to be the one that was looked at.
    query = {"t": reference, "rm": "1", "forcerm": "1", "pull": "0", "nocache": str(int(uncached))}
    if arguments:
        query["buildargs"] = json.dumps(arguments)
    if any(LOOPBACK.match(value) for name, value in arguments.items() if name.lower() != "no_proxy"):
        # A proxy of this machine alone is not reached from a network of the build's own.
        query["networkmode"] = "host"
    try:
        response = engine.request("POST", f"/build?{urlencode(query)}", SILENCE_S, context(dockerfile))
        if response.status != 200:
            raise BuildError(message_of(response.read().decode(errors="replace")) or response.reason)
        yield from stream(response)
    except socket.timeout as e:
        raise BuildError(f"neither the build nor the Docker Engine said anything for {duration(SILENCE_S)}") from e
    except (OSError, ValueError, http.client.HTTPException) as e:
        raise BuildError("the Docker Engine went away while it made the image") from e


def build(engine: Engine, reference: str, dockerfile: str, *, uncached: bool = False) -> Message:
    """Build the image and say what came of it; `uncached` uses no layer of an earlier build."""
    arguments = proxies(os.environ, engine.find("/info") or {})
    output = Output(secrets(arguments))
    with Reports(output.state, REPORT_EVERY_S):
        for message in messages(engine, reference, dockerfile, arguments, uncached=uncached):
            with output.lock:
                output.feed(str(message.get("stream") or ""))
                if problem := error_in(message):
                    raise BuildError(output.explain(problem))
    made = engine.image(reference)
    if made is None:
        raise BuildError(f"the Docker Engine does not know {reference} after it made it")
    return {"id": made.get("Id"), "bytes": made.get("Size")}


def build_again(engine: Engine, reference: str, dockerfile: str) -> Message:
    """Build an image with none of the layers that a power cut has left."""
    engine.remove_image(reference)
    return build(engine, reference, dockerfile, uncached=True)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--socket", default=SOCKET, help="the Engine's socket")
    parser.add_argument("--marks", type=Path, required=True, help="the directory of the marks of unfinished images")
    parser.add_argument("reference")
    parser.add_argument("dockerfile")
    options = parser.parse_args(arguments)
    try:
        work = (Engine(options.socket), options.reference, options.dockerfile)
        result = image_marks.to_disk(options.marks, options.reference, lambda: build(*work), lambda: build_again(*work))
        emit({"result": result})
    except (BuildError, EngineError) as e:
        emit({"error": f"{str(e).rstrip('.')}."})
        return 1
    except OSError as e:
        emit({"error": f"the mark of {options.reference} cannot be written ({e.strerror}: {e.filename})."})
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

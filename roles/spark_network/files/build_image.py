# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

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
from urllib.parse import quote, unquote, urlencode

SOCKET = "/var/run/docker.sock"
# Apt tries a mirror that does not answer for minutes, and says nothing meanwhile.
SILENCE_S = 900.0
ASK_S = 30.0
REPORT_EVERY_S = 1.0
QUIET_S = 30.0
LINE_LENGTH = 100
STEP = re.compile(r"Step (\d+)/(\d+) : ")
# The Engine shows red what a command writes to its standard error.
COLOUR = re.compile(r"\x1b\[[0-9;]*m")

# Docker takes these as arguments of any build, gives them to its commands, and keeps them out of the image and of its
# history, also with a password in them: docs.docker.com/reference/dockerfile, "Predefined ARGs".
PROXIES = {"HTTP_PROXY": "HttpProxy", "HTTPS_PROXY": "HttpsProxy", "NO_PROXY": "NoProxy"}
# What stands before the host of a URL, with or without a scheme; a password may hold an @.
CREDENTIALS = re.compile(r"^(?:[a-z0-9+.-]+://)?([^/]*)@", re.IGNORECASE)
# What the Engine shows in the place of a login; nobody can use it.
MASKED = "xxxxx:xxxxx@"
LOOPBACK = re.compile(r"^(?:[a-z0-9+.-]+://)?(?:[^/]*@)?(?:localhost|127[.][0-9.]+|\[::1\])(?:[:/]|$)", re.IGNORECASE)

Message = dict[str, t.Any]


class BuildError(Exception):
    """Why there is no image, in a few words."""


def emit(message: Message) -> None:
    print(json.dumps(message), flush=True)


class Connection(http.client.HTTPConnection):
    """HTTP over the Engine's socket."""

    def __init__(self, path: str, silence_s: float) -> None:
        super().__init__("localhost", timeout=silence_s)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


def proxies(environment: t.Mapping[str, str], info: Message) -> dict[str, str]:
    """The proxy settings for what runs in the build, under both spellings: the login user's, else those of the Engine.

    Neither reaches a build by itself, as the settings of the command line's own configuration do.
    """
    found = {}
    for name, engines in PROXIES.items():
        value = environment.get(name.lower()) or environment.get(name) or str(info.get(engines) or "")
        if value and MASKED not in value:
            found[name] = found[name.lower()] = value
    return found


def secrets(settings: t.Mapping[str, str]) -> list[str]:
    """Who logs in to the proxies, and with what, as a command may print it; the longest first."""
    found = {match[1] for value in settings.values() if (match := CREDENTIALS.match(value))}
    found |= {login.partition(":")[2] for login in found}
    found |= {unquote(secret) for secret in found}
    # A shorter one would hide ordinary words.
    return sorted((one for one in found if len(one) > 3), key=len, reverse=True)


def context(dockerfile: str) -> bytes:
    """What the Engine builds from."""
    file, data = io.BytesIO(), dockerfile.encode()
    with tarfile.open(fileobj=file, mode="w") as archive:
        info = tarfile.TarInfo("Dockerfile")
        info.size = len(data)
        archive.addfile(info, io.BytesIO(data))
    return file.getvalue()


class Output:
    """What the commands print, which comes in pieces."""

    def __init__(self, hidden: t.Sequence[str] = ()) -> None:
        self._hidden = hidden
        self._rest = ""
        self._last: collections.deque[str] = collections.deque(maxlen=20)
        self._apt: list[str] = []
        self._heard = time.monotonic()
        self._step = ""
        self.percent: float | None = None

    def feed(self, text: str) -> None:
        self._heard = time.monotonic()
        *lines, self._rest = re.split(r"[\r\n]+", self._rest + COLOUR.sub("", text))
        for line in map(self.hide, filter(None, map(str.strip, lines))):
            print(line, file=sys.stderr, flush=True)
            if step := STEP.match(line):
                number, count = int(step[1]), int(step[2])
                self._step, self.percent = f"step {number} of {count}", round(100 * (number - 1) / count, 1)
            # The Engine's own remarks tell nobody anything.
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
            parts.append(f"nothing more for {quiet:.0f} s")
        return "making the image: " + (", ".join(filter(None, parts)) or "Docker begins")

    def explain(self, problem: str) -> str:
        """Apt knows better than the Engine, which sees an exit code only."""
        self.feed("\n")
        if self._apt:
            return self._apt[0]
        problem = " ".join(self.hide(problem).split()).rstrip(".")
        return f"{problem}; it ended with: {self._last[-1]}" if "non-zero code" in problem and self._last else problem


class Teller(threading.Thread):
    """Tells how far it is, also while the Engine is silent."""

    def __init__(self, output: Output, lock: threading.Lock) -> None:
        super().__init__(daemon=True)
        self._output = output
        self._lock = lock
        self._stopped = threading.Event()

    def __enter__(self) -> Teller:
        self.start()
        return self

    def __exit__(self, *_exception: object) -> None:
        self._stopped.set()
        self.join()

    def run(self) -> None:
        last = None
        while True:
            with self._lock:
                progress = {"percent": self._output.percent, "text": self._output.text()}
            if progress != last:
                emit({"progress": progress})
                last = progress
            if self._stopped.wait(REPORT_EVERY_S):
                return


class Engine:
    """The requests that a build needs."""

    def __init__(self, path: str) -> None:
        self._path = path

    def _request(self, method: str, path: str, silence_s: float, body: bytes | None = None) -> http.client.HTTPResponse:
        connection = Connection(self._path, silence_s)
        try:
            connection.request(method, path, body, {"Content-Type": "application/x-tar"} if body else {})
            return connection.getresponse()
        except TimeoutError:
            raise
        except (OSError, http.client.HTTPException) as e:
            reason = getattr(e, "strerror", None) or e or type(e).__name__
            raise BuildError(f"the Docker Engine does not answer on {self._path} ({reason}); is it running?") from e

    def info(self) -> Message:
        """What the Engine tells of itself."""
        return self._get("/info", "went away before it made the image")[1]

    def build(self, reference: str, dockerfile: str, arguments: t.Mapping[str, str]) -> t.Iterator[Message]:
        """The lines of the Engine's stream."""
        # The base is there, and is to be the one that was looked at.
        query = {"t": reference, "rm": "1", "forcerm": "1", "pull": "0"}
        if arguments:
            query["buildargs"] = json.dumps(arguments)
        if any(LOOPBACK.match(value) for name, value in arguments.items() if name.lower() != "no_proxy"):
            # A proxy of this machine alone is not reached from a network of the build's own.
            query["networkmode"] = "host"
        wishes = urlencode(query)
        try:
            response = self._request("POST", f"/build?{wishes}", SILENCE_S, context(dockerfile))
            if response.status != 200:
                raise BuildError(message_of(response.read().decode(errors="replace")) or response.reason)
            rest = b""
            # Reading by lines would take a stream that was cut for one that ended.
            while data := response.read1(65536):
                *lines, rest = (rest + data).split(b"\n")
                yield from (json.loads(line) for line in lines if line.strip())
            if rest.strip():
                yield json.loads(rest)
        except TimeoutError as e:
            raise BuildError(
                f"neither the build nor the Docker Engine said anything for {SILENCE_S / 60:.0f} min"
            ) from e
        except (OSError, ValueError, http.client.HTTPException) as e:
            raise BuildError("the Docker Engine went away while it made the image") from e

    def find(self, reference: str) -> Message:
        path = f"/images/{quote(reference, safe='/:@')}/json"
        status, answer = self._get(path, "went away when it had made the image")
        if status != 200:
            raise BuildError(f"the Docker Engine does not know {reference} after it made it")
        return answer

    def _get(self, path: str, lost: str) -> tuple[int, Message]:
        try:
            response = self._request("GET", path, ASK_S)
            answer = json.loads(response.read())
        except (OSError, ValueError, http.client.HTTPException) as e:
            raise BuildError(f"the Docker Engine {lost}") from e
        return (response.status, answer) if isinstance(answer, dict) else (0, {})


def message_of(body: str) -> str:
    try:
        answer = json.loads(body)
    except ValueError:
        return body.strip()
    return str(answer.get("message") or "") if isinstance(answer, dict) else body.strip()


def build(engine: Engine, reference: str, dockerfile: str) -> Message:
    """Build the image and say what came of it."""
    arguments = proxies(os.environ, engine.info())
    output, lock = Output(secrets(arguments)), threading.Lock()
    with Teller(output, lock):
        for message in engine.build(reference, dockerfile, arguments):
            with lock:
                output.feed(str(message.get("stream") or ""))
                problem = (message.get("errorDetail") or {}).get("message") or message.get("error")
                if problem:
                    raise BuildError(output.explain(str(problem)))
    made = engine.find(reference)
    return {"id": made.get("Id"), "bytes": made.get("Size")}


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--socket", default=SOCKET, help="the Engine's socket")
    parser.add_argument("reference")
    parser.add_argument("dockerfile")
    options = parser.parse_args(arguments)
    try:
        emit({"result": build(Engine(options.socket), options.reference, options.dockerfile)})
    except BuildError as e:
        emit({"error": f"{str(e).rstrip('.')}."})
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Pull an image through the Docker Engine, telling how far it is: a program for the module watched_job.

Standard input may hold {"layers": [{"digest": "sha256:...", "size": 123}, ...]}, as the module registry_image_info
returns them. Without it, the whole size is not known before the last layer has been begun.
"""

from __future__ import annotations

import argparse
import collections
import http.client
import json
import os
import re
import socket
import sys
import threading
import time
import typing as t
from dataclasses import dataclass
from urllib.parse import quote, urlencode

SOCKET = "/var/run/docker.sock"
# Layers are unpacked one after the other while others are fetched; this is about their share in the time.
UNPACK_SHARE = 0.25
RATE_WINDOW_S = 15.0
STALLED_S = 30.0
DONE = ("Pull complete", "Already exists")
FETCHED = ("Verifying Checksum", "Download complete", "Extracting")


class PullError(Exception):
    """One sentence for the user."""


class Connection(http.client.HTTPConnection):
    """HTTP over the Engine's socket."""

    def __init__(self, path: str) -> None:
        super().__init__("localhost")
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.connect(self._path)


def split_reference(reference: str) -> tuple[str, str]:
    """The repository, and the digest or the tag."""
    name, at, digest = reference.partition("@")
    if at:
        # With a digest, a tag is only a comment.
        return split_reference(name)[0], digest
    folder, slash, last = name.rpartition("/")
    last, _colon, tag = last.partition(":")
    return folder + slash + last, tag or "latest"


def registry_host(reference: str) -> str:
    host, slash, _path = reference.partition("/")
    return host if slash and (re.search("[.:]", host) or host == "localhost") else "docker.io"


def size_text(count: float) -> str:
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{count / 1e6:.0f} MB"


def time_text(seconds: float) -> str:
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"


@dataclass
class Layer:
    """How far one layer is."""

    size: int | None = None
    fetched: int = 0
    unpacked: float = 0.0
    is_fetched: bool = False
    is_done: bool = False


class Progress:
    """Makes one progress of the progress of the layers."""

    def __init__(self, sizes: dict[str, int], clock: t.Callable[[], float] = time.monotonic) -> None:
        self._sizes = sizes
        self._clock = clock
        self._layers: dict[str, Layer] = {}
        self._samples: collections.deque[tuple[float, int]] = collections.deque()
        self._grew = clock()
        self._retrying = False

    def feed(self, message: dict[str, t.Any]) -> None:
        """Take in one line of the Engine's stream."""
        name, status = message.get("id"), str(message.get("status") or "")
        if not name or status.startswith("Pulling from"):
            return
        layer = self._layers.setdefault(name, Layer(size=self._sizes.get(name)))
        detail = message.get("progressDetail") or {}
        current, total = detail.get("current") or 0, detail.get("total") or 0
        if status == "Downloading":
            self._retrying = False
            layer.fetched = current
            layer.size = total if total > 0 else layer.size
        elif status.startswith("Retrying"):
            self._retrying = True
        elif status in FETCHED:
            layer.is_fetched = True
            layer.size = layer.size or layer.fetched
            layer.fetched = layer.size
            if status == "Extracting" and total > 0:
                layer.unpacked = current / total
        elif status == "Already exists":
            layer.size = layer.fetched = 0
        if status in DONE:
            layer.is_fetched = layer.is_done = True
            layer.size = layer.size or layer.fetched
            layer.fetched, layer.unpacked = layer.size, 1.0

    def state(self) -> dict[str, t.Any] | None:
        """What to tell now; None before there is anything to tell."""
        layers = list(self._layers.values())
        if not layers:
            return None
        fetched, done = sum(layer.fetched for layer in layers), sum(layer.is_done for layer in layers)
        sizes = [layer.size for layer in layers]
        known = all(size is not None for size in sizes)
        total = sum(size or 0 for size in sizes)
        count = f"; {done} of {len(layers)} layers done"
        if done == len(layers):
            text = f"pulled: {size_text(total)} fetched and unpacked{count}"
        elif all(layer.is_fetched for layer in layers):
            text = f"pulling: {size_text(total)} fetched, unpacking{count}"
        else:
            of = f"{size_text(fetched)} of {size_text(total)}" if known else f"{size_text(fetched)} fetched"
            text = f"pulling: {of}{self._pace(fetched, total - fetched if known else None)}{count}"
        percent = 100.0 if done == len(layers) else None
        if known and total:
            unpacked = sum(layer.unpacked * (layer.size or 0) for layer in layers)
            percent = round(100 * ((1 - UNPACK_SHARE) * fetched + UNPACK_SHARE * unpacked) / total, 1)
        return {"percent": percent, "text": text}

    def _pace(self, fetched: int, left: int | None) -> str:
        now = self._clock()
        if not self._samples or fetched > self._samples[-1][1]:
            self._grew = now
        if self._samples and fetched < self._samples[-1][1]:
            # A layer was begun anew.
            self._samples.clear()
        self._samples.append((now, fetched))
        while now - self._samples[0][0] > RATE_WINDOW_S:
            self._samples.popleft()
        if now - self._grew >= STALLED_S:
            return f", nothing came for {time_text(now - self._grew)}" + (", trying again" if self._retrying else "")
        seconds, count = now - self._samples[0][0], fetched - self._samples[0][1]
        if seconds < 1 or not count:
            return ""
        rate = count / seconds
        return f", {rate / 1e6:.0f} MB/s" + (f", {time_text(left / rate)} left" if left is not None else "")


def explain(image: str, message: str, free: str = "") -> str:
    """One sentence for what the Engine said."""
    host = registry_host(image)
    message = " ".join(message.split()).rstrip(".")
    if re.search(r"no matching manifest|does not (match|provide) the (specified|requested) platform", message):
        return f"The image {image} is not offered for this machine's architecture ({message})."
    if re.search(r"unauthorized|authentication required|denied|forbidden", message, re.IGNORECASE):
        return (
            f"The registry does not hand out {image} ({message}); check the name, and run 'docker login {host}' and "
            "'docker pull' by hand if the image is not public."
        )
    if "content digest" not in message and re.search(
        r"manifest unknown|name unknown|not found|invalid reference format", message, re.IGNORECASE
    ):
        return f"There is no image {image} ({message}); check the name and the tag."
    if "no space left on device" in message:
        return (
            f"Pulling {image} failed because the disk is full ({message}){free}; "
            "free some space, for example with 'docker image prune', and run the same again."
        )
    if "toomanyrequests" in message:
        return f"The registry refuses {image} for now because of too many requests ({message}); wait and run it again."
    if re.search(r"no such host|dial tcp|timeout|deadline exceeded|EOF|x509|tls:|reset by peer|refused", message):
        return f"Pulling {image} failed because {host} could not be reached well enough ({message}); run it again."
    return f"Pulling {image} failed: {message}."


class Engine:
    """The few requests that a pull needs."""

    def __init__(self, path: str, images: str = "") -> None:
        self._path = path
        self._images = images

    def _request(self, method: str, path: str) -> http.client.HTTPResponse:
        connection = Connection(self._path)
        try:
            connection.request(method, path)
            return connection.getresponse()
        except (OSError, http.client.HTTPException) as e:
            reason = getattr(e, "strerror", None) or e or type(e).__name__
            raise PullError(f"The Docker Engine does not answer on {self._path} ({reason}); is it running?") from e

    def find(self, path: str) -> dict[str, t.Any] | None:
        response = self._request("GET", path)
        try:
            answer = json.loads(response.read())
        except (OSError, ValueError, http.client.HTTPException):
            return None
        return answer if response.status == 200 and isinstance(answer, dict) else None

    def free(self) -> str:
        """How much space is left where the Engine keeps its images, for an error message."""
        try:
            status = os.statvfs(self._images)
        except OSError:
            return ""
        return f"; {size_text(status.f_bavail * status.f_frsize)} are free in {self._images}"

    def pull(self, image: str) -> t.Iterator[dict[str, t.Any]]:
        """The lines of the Engine's stream."""
        repository, tag = split_reference(image)
        response = self._request("POST", "/images/create?" + urlencode({"fromImage": repository, "tag": tag}))
        try:
            if response.status != 200:
                body = response.read().decode(errors="replace")
                raise PullError(explain(image, message_of(body) or response.reason))
            rest = b""
            # Reading by lines would take a stream that was cut for one that ended.
            while data := response.read1(65536):
                *lines, rest = (rest + data).split(b"\n")
                for line in lines:
                    if line.strip():
                        yield json.loads(line)
        except (OSError, ValueError, http.client.HTTPException) as e:
            raise PullError(
                f"The Docker Engine went away while it pulled {image}; when it is back, run the same again."
            ) from e


def message_of(body: str) -> str:
    try:
        answer = json.loads(body)
    except ValueError:
        return body.strip()
    return str(answer.get("message") or "") if isinstance(answer, dict) else body.strip()


def layer_sizes(hint: str) -> dict[str, int]:
    """The sizes of the layers by the short names that the Engine's stream gives them."""
    layers = json.loads(hint).get("layers") or [] if hint.strip() else []
    return {layer["digest"].partition(":")[2][:12]: layer["size"] for layer in layers}


def say(**message: t.Any) -> None:
    print(json.dumps(message), flush=True)


class Teller(threading.Thread):
    """Tells the progress once a second, also while the Engine is silent."""

    def __init__(self, progress: Progress, lock: threading.Lock) -> None:
        super().__init__(daemon=True)
        self._progress = progress
        self._lock = lock
        self._stopped = threading.Event()
        self._last: dict[str, t.Any] | None = None

    def run(self) -> None:
        while not self._stopped.wait(1):
            self.tell()

    def tell(self) -> None:
        with self._lock:
            state = self._progress.state()
        if state is not None and state != self._last:
            say(progress=state)
            self._last = state

    def stop(self) -> None:
        self._stopped.set()
        self.join()
        self.tell()


def pull(engine: Engine, image: str, sizes: dict[str, int]) -> dict[str, t.Any]:
    """Pull the image and say what came of it."""
    progress, lock = Progress(sizes), threading.Lock()
    teller = Teller(progress, lock)
    teller.start()
    try:
        for message in engine.pull(image):
            detail = message.get("errorDetail") or {}
            error = detail.get("message") or message.get("error")
            if error:
                raise PullError(explain(image, error, engine.free() if "no space left" in error else ""))
            if not message.get("progressDetail"):
                print(message.get("id", ""), message.get("status"), file=sys.stderr)
            with lock:
                progress.feed(message)
    finally:
        teller.stop()
    found = engine.find(f"/images/{quote(image, safe='/:@')}/json")
    if found is None:
        raise PullError(f"The Docker Engine does not know {image} after it pulled it; was it removed meanwhile?")
    return {"id": found["Id"], "repo_digests": found.get("RepoDigests") or [], "bytes": found.get("Size")}


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--socket", default=SOCKET, help="the Engine's socket")
    parser.add_argument("--images", default="", help="the directory where the Engine keeps its images")
    parser.add_argument("image", help="the reference of the image")
    options = parser.parse_args(arguments)
    try:
        sizes = layer_sizes(sys.stdin.read())
        say(result=pull(Engine(options.socket, options.images), options.image, sizes))
    except PullError as e:
        say(error=str(e))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this plugin util is internal to the collection; its interface may change at any time.

"""Pull an image through the Docker Engine, telling how far it is: a program for the module watched_job.

Standard input may hold {"layers": [{"digest": "sha256:...", "size": 123}, ...]}, as the module registry_image_info
returns them. Without it, the whole size is not known before the last layer has been begun.
"""

from __future__ import annotations

import argparse
import http.client
import json
import re
import sys
import threading
import time
import typing as t
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlencode

from ...module_utils._data.text import amount, clause, duration
from ...module_utils._docker import image_marks
from .engine import SOCKET, Engine, EngineError, error_in, message_of, stream
from .progress import Message, Rate, Reports, emit, log, pace

# Layers are unpacked one after the other while others are fetched; this is about their share in the time.
UNPACK_SHARE = 0.25
RATE_WINDOW_S = 15.0
STALLED_S = 30.0
REPORT_EVERY_S = 1.0
DONE = ("Pull complete", "Already exists")
FETCHED = ("Verifying Checksum", "Download complete", "Extracting")


class PullError(Exception):
    """One sentence for the user."""


def split_reference(reference: str) -> tuple[str, str]:
    """Return the repository, and the digest or the tag."""
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


@dataclass
class Layer:
    """The progress of a layer."""

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
        self._rate = Rate(RATE_WINDOW_S)
        self._count = 0
        # One thread receives messages, another one reports them.
        self.lock = threading.Lock()
        self._grew = clock()
        self._retrying = False

    def feed(self, message: Message) -> None:
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

    def state(self) -> Message | None:
        """Return the progress to report; None if there is none yet."""
        with self.lock:
            return self._state()

    def _state(self) -> Message | None:
        layers = list(self._layers.values())
        if not layers:
            return None
        fetched, done = sum(layer.fetched for layer in layers), sum(layer.is_done for layer in layers)
        sizes = [layer.size for layer in layers]
        known = all(size is not None for size in sizes)
        total = sum(size or 0 for size in sizes)
        count = f"; {done} of {len(layers)} layers done"
        if done == len(layers):
            text = f"pulled: {amount(total)} fetched and unpacked{count}"
        elif all(layer.is_fetched for layer in layers):
            text = f"pulling: {amount(total)} fetched, unpacking{count}"
        else:
            of = f"{amount(fetched)} of {amount(total)}" if known else f"{amount(fetched)} fetched"
            text = f"pulling: {of}{self._pace(fetched, total - fetched if known else None)}{count}"
        percent = 100.0 if done == len(layers) else None
        if known and total:
            unpacked = sum(layer.unpacked * (layer.size or 0) for layer in layers)
            percent = round(100 * ((1 - UNPACK_SHARE) * fetched + UNPACK_SHARE * unpacked) / total, 1)
        return {"percent": percent, "text": text}

    def _pace(self, fetched: int, left: int | None) -> str:
        now = self._clock()
        if fetched > self._count:
            self._grew = now
        self._count = fetched
        rate = self._rate.at(now, fetched)
        if now - self._grew >= STALLED_S:
            return f", nothing came for {duration(now - self._grew)}" + (", trying again" if self._retrying else "")
        return pace(rate, left)


def explain(image: str, message: str, free: str = "") -> str:
    """One sentence for what the Engine said."""
    host = registry_host(image)
    message = clause(message)
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


def messages(engine: Engine, image: str) -> t.Iterator[Message]:
    """Yield the messages of the Engine during the pull."""
    repository, tag = split_reference(image)
    try:
        response = engine.request("POST", "/images/create?" + urlencode({"fromImage": repository, "tag": tag}))
        if response.status != 200:
            body = response.read().decode(errors="replace")
            raise PullError(explain(image, message_of(body) or response.reason))
        yield from stream(response)
    except EngineError as e:
        raise PullError(f"The{str(e).removeprefix('the')}") from e
    except (OSError, ValueError, http.client.HTTPException) as e:
        raise PullError(
            f"The Docker Engine went away while it pulled {image}; when it is back, run the same again."
        ) from e


def layer_sizes(hint: str) -> dict[str, int]:
    """Return the sizes of the layers by the short names that the Engine's stream gives them."""
    layers = json.loads(hint).get("layers") or [] if hint.strip() else []
    return {layer["digest"].partition(":")[2][:12]: layer["size"] for layer in layers}


def pull(engine: Engine, image: str, sizes: dict[str, int]) -> Message:
    """Pull the image and say what came of it."""
    progress = Progress(sizes)
    with Reports(progress.state, REPORT_EVERY_S):
        for message in messages(engine, image):
            if error := error_in(message):
                raise PullError(explain(image, error, engine.room() if "no space left" in error else ""))
            if not message.get("progressDetail"):
                log(f"{message.get('id', '')} {message.get('status')}")
            with progress.lock:
                progress.feed(message)
    try:
        result = engine.image(image)
    except EngineError:
        result = None
    if result is None:
        raise PullError(f"The Docker Engine does not know {image} after it pulled it; was it removed meanwhile?")
    return {"id": result["Id"], "repo_digests": result.get("RepoDigests") or [], "bytes": result.get("Size")}


def pull_again(engine: Engine, image: str, sizes: dict[str, int]) -> Message:
    """Pull an image with none of the layers that a power cut has left."""
    # The Engine removes layers only with an image that has them.
    if engine.image(image) is None:
        pull(engine, image, sizes)
    engine.remove_image(image)
    again = f"{image} was pulled again, because a power cut ended its last pull."
    return {**pull(engine, image, sizes), "warnings": [again]}


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--socket", default=SOCKET, help="the Engine's socket")
    parser.add_argument("--images", default="", help="the directory where the Engine keeps its images")
    parser.add_argument("--marks", type=Path, required=True, help="the directory of the marks of unfinished images")
    parser.add_argument("image", help="the reference of the image")
    options = parser.parse_args(arguments)
    try:
        sizes = layer_sizes(sys.stdin.read())
        engine = Engine(options.socket, options.images)
        work = (engine, options.image, sizes)
        result = image_marks.to_disk(options.marks, options.image, lambda: pull(*work), lambda: pull_again(*work))
        emit({"result": result})
    except PullError as e:
        emit({"error": str(e)})
        return 1
    except EngineError as e:
        emit({"error": f"The{str(e).removeprefix('the')}"})
        return 1
    except OSError as e:
        emit({"error": f"The mark of {options.image} cannot be written ({e.strerror}: {e.filename}); free some space."})
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

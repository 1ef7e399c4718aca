# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this plugin util is internal to the collection; its interface may change at any time.

"""Hand an image that the other Spark has sent to the Docker Engine: a program for the module watched_job.

The arguments: the image's reference, and the directory in which receive.py has gathered its members. What the Engine
has got is deleted there at once, since it keeps a copy of its own while it unpacks.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import http.client
import json
import os
import re
import shutil
import socket
import sys
import tarfile
import time
import typing as t
from pathlib import Path

from ...module_utils._data.text import clause, duration
from ...module_utils._docker import image_marks
from .engine import SOCKET, Engine, EngineError, error_in, reason_of
from .progress import Message, emit, share

CHUNK = 1024 * 1024
BLOCK = 512
REPORT_EVERY_S = 1.0
# Docker unpacks without output: longer than for a large image on a slow disk.
SILENCE_S = 1800.0

UNPACKING = "Error unpacking image"


class LoadError(Exception):
    """One sentence for the user."""


class Archive:
    """The saved image as the Engine made it, from its members."""

    def __init__(self, reference: str, folder: Path, *, keep: bool = False) -> None:
        self.reference = reference
        self.folder = folder
        # Hand it over, and delete nothing.
        self._keep = keep
        try:
            self.members: list[Message] = json.loads((folder / "index.json").read_text(encoding="utf-8"))
        except (OSError, ValueError) as e:
            raise LoadError(
                f"The image {reference} has not come whole from the other Spark; run the same again."
            ) from e
        self.total = sum(member["size"] for member in self.members) or 1
        self._sent = 0
        self._told = 0.0

    def path(self, member: Message) -> Path:
        return self.folder / hashlib.sha256(member["name"].encode()).hexdigest()

    def __iter__(self) -> t.Iterator[bytes]:
        # Without it the next run copies again what this one deletes.
        if not self._keep:
            (self.folder / "index.json").unlink()
        for member in self.members:
            yield self.header(member)
            if member["data"]:
                yield from self.content(member)
        yield bytes(2 * BLOCK)

    @staticmethod
    def header(member: Message) -> bytes:
        info = tarfile.TarInfo(member["name"])
        info.size, info.mode, info.mtime = member["size"], member["mode"], member["mtime"]
        info.type, info.linkname = member["type"].encode("ascii"), member["link"]
        return info.tobuf(tarfile.PAX_FORMAT)

    def content(self, member: Message) -> t.Iterator[bytes]:
        path = self.path(member)
        try:
            with path.open("rb") as file:
                if os.fstat(file.fileno()).st_size != member["size"]:
                    raise LoadError(f"A part of the image {self.reference} changed on the disk; run the same again.")
                while data := file.read(CHUNK):
                    yield data
                    self.tell(len(data))
        except FileNotFoundError as e:
            raise LoadError(f"A part of the image {self.reference} vanished; run the same again.") from e
        yield bytes(-member["size"] % BLOCK)
        if not self._keep:
            path.unlink()

    def tell(self, count: int) -> None:
        self._sent += count
        now = time.monotonic()
        if now - self._told >= REPORT_EVERY_S:
            self._told = now
            percent = round(min(99.0, 100 * self._sent / self.total), 1)
            emit({"progress": {"percent": percent, "text": f"loading the image: {share(self._sent, self.total)}"}})


def unpacking() -> None:
    emit({"progress": {"percent": 99.0, "text": "loading the image: Docker is unpacking it"}})


def load(engine: Engine, archive: Archive) -> None:
    """Hand it over, and wait until it is unpacked."""
    try:
        response = engine.request("POST", "/images/load?quiet=1", SILENCE_S, archive, unpacking)
        text = response.read().decode(errors="replace")
    except socket.timeout as e:
        raise LoadError(
            f"The Docker Engine has said nothing for {duration(SILENCE_S)} while it loaded the image "
            f"{archive.reference}, so it hangs: see 'journalctl --unit docker', restart it with 'sudo systemctl "
            "restart docker', and run the same again."
        ) from e
    except (OSError, http.client.HTTPException, EngineError) as e:
        why = reason_of(e.__cause__ or e)
        raise LoadError(f"The Docker Engine went away while it loaded the image ({why}); run it again.") from e
    problem = problem_in(text) if response.status == 200 else text
    if problem is not None:
        raise LoadError(explain(archive.reference, clause(problem), engine.room()))


def load_again(engine: Engine, reference: str, folder: Path) -> None:
    """Load an image with none of the layers that a power cut has left."""
    # The Engine removes layers only with an image that has them.
    if engine.image(reference) is None:
        load(engine, Archive(reference, folder, keep=True))
    engine.remove_image(reference)
    load(engine, Archive(reference, folder))


def explain(reference: str, problem: str, room: str) -> str:
    if "no space left" in problem:
        return f"Loading {reference} failed because Docker's disk is full ({problem}){room}; make room there."
    if re.search("content digest .*not found", problem):
        # moby issue 49473: what another image of the same layers had packed differently is not handed out.
        return (
            f"Loading {reference} failed because the other Spark's Docker handed out an image that lacks a layer "
            f"({problem}): pull the base once more on the head ('docker pull' of the recipe's image), and "
            "run again."
        )
    return f"Loading {reference} into Docker failed: {problem}."


def problem_in(text: str) -> str | None:
    """Return the error in the Engine's stream; containerd's store reports unpacking errors as progress."""
    for line in text.splitlines():
        with contextlib.suppress(ValueError, AttributeError):
            message = json.loads(line)
            if error := error_in(message):
                return error
            if UNPACKING in str(message.get("stream")):
                return str(message["stream"])
    return None


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--socket", default=SOCKET, help="the Engine's socket")
    parser.add_argument("--images", default="", help="the directory where the Engine keeps its images")
    parser.add_argument("--marks", type=Path, required=True, help="the directory of the marks of unfinished images")
    parser.add_argument("reference")
    parser.add_argument("folder", type=Path)
    options = parser.parse_args(arguments)
    try:
        engine, archive = Engine(options.socket, options.images), Archive(options.reference, options.folder)
        image_marks.to_disk(
            options.marks,
            options.reference,
            lambda: load(engine, archive),
            lambda: load_again(engine, options.reference, options.folder),
        )
    except LoadError as e:
        emit({"error": str(e)})
        return 1
    except EngineError as e:
        emit({"error": f"The{str(e).removeprefix('the')}"})
        return 1
    except OSError as e:
        emit({"error": f"The mark of {options.reference} cannot be written ({reason_of(e)}); free some space."})
        return 1
    shutil.rmtree(options.folder, ignore_errors=True)
    emit({"result": {"bytes": archive.total}})
    return 0


if __name__ == "__main__":
    sys.exit(main())

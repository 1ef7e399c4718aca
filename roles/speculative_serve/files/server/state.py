# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The state file of a container's main process, and the log of its server."""

from __future__ import annotations

import collections
import contextlib
import json
import os
import re
import sys
import time
import typing as t
from pathlib import Path

LOG_BYTES = 20_000_000
NO_WORDS = re.compile(r'HTTP/1\.1" 200|^\s*For further information visit ')


class State:
    """state.json: what the server is doing, for the probe, the health check and a curious person."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        # By which the file is known again that was written last; None if that could not be.
        self.written: tuple[int, int, int] | None = None
        self.values: dict[str, t.Any] = {
            "state": "starting",
            "pid": None,
            "restarts": 0,
            "last_exit": None,
            "verdict": None,
            "reason": None,
            "trial": None,
            "loading_s": None,
            "kv_cache": None,
            "guard": None,
        }

    def write(self, state: str, **values: t.Any) -> None:
        """Enter a state."""
        self.note(**values, state=state, since=round(time.time(), 3))

    def note(self, **values: t.Any) -> None:
        """Add values without a change of the state."""
        self.values.update(values)
        path = self.directory / "state.json"
        draft = path.with_suffix(".tmp")
        text = json.dumps(self.values) + "\n"
        self.written = None
        # A full disk is no reason to end a server that serves.
        with contextlib.suppress(OSError):
            try:
                draft.write_text(text, encoding="utf-8")
                give_to_owner(draft)
                draft.replace(path)
            except OSError:
                write_over(path, text)
            self.written = identity(path)

    def keep(self) -> None:
        """Write the file again if it was lost or changed: a running server has no news to write."""
        if self.written is None or identity(self.directory / "state.json") != self.written:
            self.note()


class Log:
    """The server's output: passed on to Docker, kept in server.log (and one older file), its last lines remembered."""

    def __init__(self, directory: Path, last_words: t.Sequence[str] = ()) -> None:
        self.path = directory / "server.log"
        self.last_words = last_words
        self.tail: collections.deque[str] = collections.deque(maxlen=200)
        self.size = LOG_BYTES

    def write(self, data: bytes) -> None:
        self.tail.extend(line for line in data.decode("utf-8", "replace").splitlines() if line.strip())
        # A full disk costs lines of the log, and not the server.
        with contextlib.suppress(OSError):
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()
        with contextlib.suppress(OSError):
            if self.size >= LOG_BYTES:
                self.rotate()
            with self.path.open("ab", buffering=0) as file:
                file.write(data)
            self.size += len(data)

    def rotate(self) -> None:
        """Begin a new file; the one before is kept, also that of the container before."""
        if self.path.exists():
            self.path.replace(self.path.with_suffix(".log.1"))
        self.path.touch()
        give_to_owner(self.path)
        self.size = 0

    def say(self, text: str) -> None:
        self.write(f"[entrypoint] {text}\n".encode())

    def last_line(self) -> str:
        # Access log lines, such as those of the watchdog, are no last words, and neither is what follows an error.
        lines = [line for line in self.tail if not line.startswith("[entrypoint]") and not NO_WORDS.search(line)]
        found = (re.search(words, line) for words in self.last_words for line in reversed(lines))
        fatal = next((match.group() for match in found if match), None)
        return (fatal or lines[-1]).strip() if lines else "the server printed nothing"


def write_over(path: Path, text: str) -> None:
    """Put a text into the room that a file has already, which a full disk still has."""
    with path.open("r+b", buffering=0) as file:
        file.write(text.encode())
        file.truncate()


def identity(path: Path) -> tuple[int, int, int] | None:
    """Return the identity of a file, which changes with its content; None if there is no file."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns


def give_to_owner(path: Path) -> None:
    """Files in the mounted directory belong to whom the directory belongs to, not to the container's root."""
    owner = path.parent.stat()
    os.chown(path, owner.st_uid, owner.st_gid)


def read_or(path: Path, otherwise: str) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return otherwise

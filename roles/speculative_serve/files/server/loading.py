# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A server until it answers: the engine lock, the memory that its models' files take, and its KV cache.

On a GB10 the page cache counts as used GPU memory, and the engine makes its KV cache of what is free.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import time
from pathlib import Path

from server.engines.engine import Engine
from server.processes import seconds_worked
from server.state import read_or

# On a GB10 the page cache counts as used GPU memory, and the engine makes its KV cache of what is free.
MEMINFO = Path("/proc/meminfo")
LOW_MEMORY = 8 * 2**30
GIVE_BACK_EVERY_S = 1.0
LOG_LINE_BYTES = 65536
# Less than this fraction of a processor counts as no work. The minimum time allows for a slow disk.
STILL_SHARE = 0.01
STILL_EVERY_S = 5.0
STILL_AT_LEAST_S = 60.0
# The volume for downloaded code, which all containers of this name have on a Spark: who has it locked has the engine.
ENGINE_LOCK = Path("/cache/modules")
TAKEN = "another container still runs an engine on this Spark; this one waits until it ends"


class EngineLock:
    """A lock for one engine at a time on a Spark. It ends with its holder.

    A restarted Docker starts the container on standby, perhaps while the new one still runs.
    """

    def __init__(self) -> None:
        self.file: int | None = None

    def is_taken(self) -> bool:
        """Return whether another container has the lock; if not, acquire it. An error counts as free."""
        with contextlib.suppress(OSError):
            if self.file is None:
                self.file = os.open(ENGINE_LOCK, os.O_RDONLY)
            try:
                fcntl.flock(self.file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
        return False

    def give_back(self) -> None:
        if self.file is not None:
            os.close(self.file)
        self.file = None


class PageCache:
    """Pages of the models' files in the memory. Giving them back needs no root, and leaves alone what is mapped."""

    def __init__(self) -> None:
        given = (os.environ.get(name) for name in ("DGX_SPARK_TARGET", "DGX_SPARK_DRAFT"))
        self.models = [Path(path) for path in given if path]
        self.look_at = 0.0

    def give_back(self) -> None:
        for model in self.models:
            # The server reports an unreadable directory or file itself.
            with contextlib.suppress(OSError):
                for file in model.rglob("*"):
                    with contextlib.suppress(OSError):
                        if file.is_file():
                            forget(file)

    def due(self) -> bool:
        """Return whether the next check is due."""
        now = time.monotonic()
        if now < self.look_at:
            return False
        self.look_at = now + GIVE_BACK_EVERY_S
        return True


def forget(file: Path) -> None:
    """Have the kernel drop a file's pages."""
    descriptor = os.open(file, os.O_RDONLY)
    try:
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(descriptor)


def memory(name: str) -> int | None:
    """Return a value of /proc/meminfo in bytes."""
    for line in read_or(MEMINFO, "").splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    return None


def memory_is_short() -> bool:
    free = memory("MemFree")
    return free is not None and free < LOW_MEMORY


class Stillness:
    """Detect a loading server that has stalled: for a long time it logs nothing and uses no processor.

    A healthy one reads, compiles or computes. Looks are counted, so that a container that was paused is not blamed.
    """

    def __init__(self, patience: float) -> None:
        """Set the seconds after which a server has stalled; 0 means never."""
        self.patience = max(patience, STILL_AT_LEAST_S) if patience > 0 else 0.0
        self.looks = 0
        self.look_at = time.monotonic()
        # Log size and processor time at the first of these checks.
        self.said = 0
        self.worked = 0.0

    def look(self, pid: int, said: int) -> bool:
        """Return whether a process has been silent for too long; `said` is the current size of the log."""
        now = time.monotonic()
        if not self.patience or now < self.look_at:
            return False
        self.look_at = now + STILL_EVERY_S
        worked = seconds_worked(pid)
        self.looks += 1
        if said != self.said or abs(worked - self.worked) > STILL_SHARE * self.patience:
            self.looks, self.said, self.worked = 0, said, worked
        return self.looks * STILL_EVERY_S >= self.patience


class Loading:
    """A server until it answers: sees that files do not take its memory, and hears how large its KV cache became."""

    def __init__(self, options: Path, engine: Engine) -> None:
        self.engine = engine
        self.pages = PageCache()
        self.read = False
        self.rest = b""
        self.cache = engine.cache_lines()
        self.planned = engine.cache_planned(read_or(options, ""))

    def hear(self, output: bytes) -> None:
        """Read the server's output, in pieces that may end anywhere."""
        *lines, rest = re.split(rb"[\r\n]", self.rest + output)
        self.rest = rest[-LOG_LINE_BYTES:]
        for line in lines:
            if any(mark in line for mark in self.engine.all_read):
                self.read = True
                self.pages.look_at = 0.0
            self.cache.hear(line)

    def look(self) -> None:
        """Give pages back when memory is short, and whenever nothing will be read again."""
        if self.pages.due() and (self.read or memory_is_short()):
            self.pages.give_back()

    def kv_cache(self) -> dict[str, int | None]:
        """Return the tokens of the KV cache and the planned ones for state.json; None if unknown."""
        return {"tokens": self.cache.tokens, "planned": self.planned}

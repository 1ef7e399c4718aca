# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this plugin util is internal to the collection; its interface may change at any time.

"""Write a file whose bytes come in over time: its part is continued, hashed while it is written, and then renamed."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import io
import os
import queue
import threading
import time
import typing as t
from pathlib import Path

from ...module_utils._models.disk import drop_page_cache, size_of
from ...module_utils._spark.whole import put
from .wire import CHUNK

BUFFERS = 8
# Bytes between two requests to the kernel to write received pages and drop them.
GIVE_BACK_BYTES = 64 * CHUNK
# Four files at once lose four times this at a power cut.
SYNC_BYTES = 16 * CHUNK
# Seconds until a receiver notices a broken connection: three times sshd's ClientAliveInterval.
LOCK_WAIT_S = 30.0

# Reads into a buffer as many bytes, or fewer at the end.
Read = t.Callable[[bytearray, int], int]


class CutError(Exception):
    """The bytes ended before the file did, or another program writes it. Another try continues it."""


class Checksums:
    """Compute the sha256 of a stream in a thread, and its git blob id if `git_size` is given."""

    def __init__(self, git_size: int | None) -> None:
        self.sha256 = hashlib.sha256()
        self.sha1 = None if git_size is None else hashlib.sha1(b"blob %d\0" % git_size)
        self.free: queue.SimpleQueue[bytearray] = queue.SimpleQueue()
        for _number in range(BUFFERS):
            self.free.put(bytearray(CHUNK))
        self._full: queue.SimpleQueue[tuple[bytearray, int] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def add(self, buffer: bytearray, count: int) -> None:
        self._full.put((buffer, count))

    def close(self) -> None:
        """Wait until the checksums are complete."""
        self._full.put(None)
        self._thread.join()

    def _run(self) -> None:
        while (item := self._full.get()) is not None:
            buffer, count = item
            with memoryview(buffer) as view:
                self.sha256.update(view[:count])
                if self.sha1:
                    self.sha1.update(view[:count])
            self.free.put(buffer)


def fill(source: int, buffer: bytearray, count: int) -> int:
    """Read as many bytes, or as many as there are before the end."""
    got = 0
    with memoryview(buffer) as view:
        while got < count:
            read = os.readv(source, [view[got:count]])
            if not read:
                break
            got += read
    return got


def add_file(sums: Checksums, path: Path) -> None:
    """Count what is in a file already."""
    with path.open("rb", buffering=0) as file:
        while True:
            buffer = sums.free.get()
            count = fill(file.fileno(), buffer, CHUNK)
            if not count:
                break
            sums.add(buffer, count)
        drop_page_cache(file.fileno())


def write(file: io.FileIO, buffer: bytearray, count: int) -> None:
    written = 0
    try:
        with memoryview(buffer) as view:
            while written < count:
                written += file.write(view[written:count]) or 0
    except OSError as e:
        # The kernel does not say of which file.
        e.filename = file.name
        raise


def settle(descriptor: int, durable: bool) -> None:
    """Have written pages go to the disk, and wait for it if that is to be certain; their memory is free then."""
    if durable:
        os.fdatasync(descriptor)
    drop_page_cache(descriptor)


class Incoming:
    """A file that comes in: where it goes, and what it must be."""

    def __init__(self, path: Path, size: int, git: bool = False, sha256: str | None = None) -> None:
        self.path = path
        self.size = size
        # The name is a git blob id, not a sha256.
        self.git = git
        self.sha256 = sha256
        # As huggingface_hub calls it, whose versions before 1.18 continue such a file, too.
        self.part = path.with_name(path.name + ".incomplete")

    def sums(self) -> Checksums:
        return Checksums(self.size if self.git else None)

    def usable_part(self) -> int:
        """Return how many bytes came earlier. A part that is larger than its file is deleted."""
        have = size_of(self.part) or 0
        if have > self.size:
            self.part.unlink()
            return 0
        return have

    def append(self, have: int, sums: Checksums, read: Read, durable: bool = False) -> None:
        """Write behind the part what `read` brings. Raises CutError if it ends too early; what came until then counts.

        If it is durable, a power cut loses SYNC_BYTES of it at most.
        """
        left, unsettled = self.size - have, 0
        with self.part.open("ab", buffering=0) as file:
            while left:
                buffer = sums.free.get()
                wanted = min(left, CHUNK)
                count = read(buffer, wanted)
                write(file, buffer, count)
                sums.add(buffer, count)
                left -= count
                unsettled += count
                if count < wanted:
                    raise CutError("the connection ended before the file did")
                if unsettled >= (SYNC_BYTES if durable else GIVE_BACK_BYTES):
                    settle(file.fileno(), durable)
                    unsettled = 0
            settle(file.fileno(), durable=True)

    def is_right(self, sums: Checksums, sha256: str | None) -> bool:
        """Return whether the checksums are those of the file. A blob of git is named by another one."""
        if self.git and sums.sha1 and sums.sha1.hexdigest() != self.path.name:
            return False
        return sha256 in (None, sums.sha256.hexdigest())

    def keep(self) -> None:
        """Give the complete part its name."""
        self.part.chmod(0o644)
        put(self.part, self.path)


@contextlib.contextmanager
def locked(path: Path) -> t.Iterator[None]:
    """Keep others from writing the same file: another stream, whose connection broke, or huggingface_hub."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        deadline = time.monotonic() + LOCK_WAIT_S
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    # No error of the receiver: the sender tries again.
                    raise CutError(f"{path} is locked by another program") from None
                time.sleep(0.1)
        yield
    finally:
        os.close(descriptor)

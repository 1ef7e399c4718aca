# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this plugin util is internal to the collection; its interface may change at any time.

"""Receive files from another Spark. The forced command of the copy service's only key.

Its argument has the writable directories: spool, and for models cache, receipts and tiktoken_encodings.
The sender writes one JSON object a line to the standard input, and gets one as answer:

{"put": "blob", "repository": ..., "blob": ..., "size": ..., "sha256": ...}   a file of a model
{"put": "tiktoken_encoding", "name": ..., "size": ..., "sha256": ...}                a tokenizer file
{"put": "member", "fingerprint": ..., "name": ..., "size": ...}               a member of a saved image
    The answer is {"have": BYTES, "complete": BOOL}. If it is not complete, the remaining bytes follow at once, and then
    {"sha256": ...}. The answer to that is {"stored": true} or {"wrong": SHA256}.
{"finish": {...}}           creates the snapshot, the refs and the receipt of a complete model
{"index": {...}}            stores the members of an image in their order
{"indexed": FINGERPRINT}    asks whether they are stored

{"error": "..."} is the last message, for an error that another attempt does not fix.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import io
import json
import os
import queue
import re
import shutil
import sys
import threading
import time
import typing as t
from pathlib import Path

from ansible_collections.dgx_spark.speculative.plugins.module_utils._models.disk import (
    BLOB,
    COMMIT,
    ModelSpec,
    drop_page_cache,
    folder_name,
    read_receipt,
    size_of,
    write_receipt,
)
from ansible_collections.dgx_spark.speculative.plugins.module_utils._spark.whole import put, write_whole

from .progress import Message, amount
from .wire import CHUNK, GREETING, widen

BUFFERS = 8
# Bytes between two requests to the kernel to write received pages and drop them.
GIVE_BACK_BYTES = 64 * CHUNK
# Seconds until a receiver notices a broken connection: three times sshd's ClientAliveInterval.
LOCK_WAIT_S = 30.0
SHA256 = re.compile(r"[0-9a-f]{64}")
REPOSITORY = re.compile(r"[\w.-]+(/[\w.-]+)?")


class RefusedError(Exception):
    """Invalid data. The text has the fix."""


class CutError(Exception):
    """The connection ended."""


def invalid(message: str, value: t.Any) -> RefusedError:
    """Return the error for something that no sender of this release sends."""
    return RefusedError(
        f"The sending Spark sent an invalid {message}: {value!r}. Run again. If it happens again, update the "
        "collection on both Sparks"
    )


def checked(value: t.Any, pattern: re.Pattern[str]) -> str:
    """Return a name that becomes part of a path. Raises RefusedError."""
    if not isinstance(value, str) or not pattern.fullmatch(value) or ".." in value:
        raise invalid("name", value)
    return value


def inside(value: t.Any) -> str:
    """Return a relative path that stays inside its directory. Raises RefusedError."""
    if not isinstance(value, str) or not value or value.startswith("/") or {"", ".", ".."} & set(value.split("/")):
        raise invalid("file name", value)
    return value


def length(value: t.Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise invalid("length", value)
    return value


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


class Target:
    """A file that comes in: where it goes, and what it must be."""

    def __init__(self, path: Path, size: int, git: bool = False, sha256: str | None = None) -> None:
        self.path = path
        self.size = size
        # The name is a git blob id, not a sha256.
        self.git = git
        self.sha256 = sha256
        # As huggingface_hub calls it, which continues such a file, too.
        self.part = path.with_name(path.name + ".incomplete")

    def is_right(self, sums: Checksums, sha256: str) -> bool:
        if self.git and sums.sha1 and sums.sha1.hexdigest() != self.path.name:
            return False
        return sums.sha256.hexdigest() == sha256

    def sums(self) -> Checksums:
        return Checksums(self.size if self.git else None)


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


class Receiver:
    """One stream."""

    def __init__(self, config: Message, source: int = 0, out: t.TextIO = sys.stdout) -> None:
        self._places = {name: Path(path) for name, path in config.items()}
        self.spool = self._places["spool"]
        self._source = source
        self._out = out
        self._rest = b""

    def place(self, name: str) -> Path:
        """Return the directory of a kind of data. A copy of an image has none for models."""
        if name not in self._places:
            raise invalid("directory", name)
        return self._places[name]

    def say(self, **message: t.Any) -> None:
        print(json.dumps(message), file=self._out, flush=True)

    def read_line(self) -> Message | None:
        """Return the next line; None at the end."""
        while b"\n" not in self._rest:
            data = os.read(self._source, 65536)
            if not data:
                return None
            self._rest += data
            if len(self._rest) > 64 * CHUNK:
                raise invalid("line length", len(self._rest))
        line, _newline, self._rest = self._rest.partition(b"\n")
        try:
            message = json.loads(line)
        except ValueError:
            message = None
        if not isinstance(message, dict):
            raise invalid("line", line[:80].decode(errors="replace"))
        return message

    def run(self) -> None:
        widen(self._source)
        print(GREETING, file=self._out, flush=True)
        while (message := self.read_line()) is not None:
            if "put" in message:
                self.receive_file(message)
            elif "finish" in message:
                self.finish(message["finish"])
                self.say(finished=True)
            elif "index" in message:
                self.index(message["index"])
                self.say(indexed=True)
            elif "indexed" in message:
                folder = self.spool / checked(message["indexed"], SHA256)
                self.say(indexed=(folder / "index.json").exists())
            else:
                raise invalid("request", ", ".join(message))

    def receive_file(self, message: Message) -> None:
        """Receive one file."""
        target, lock = self.target(message)
        target.path.parent.mkdir(parents=True, exist_ok=True)
        with locked(lock):
            here = size_of(target.path) == target.size
            if self.is_complete(target, message):
                self.say(have=target.size, complete=True)
                return
            have = self.usable_part(target)
            sums = target.sums()
            if have:
                add_file(sums, target.part)
            self.say(have=have, complete=False, wrong=here)
            self.write_stream(target, have, sums)
            trailer = self.read_line()
            if trailer is None:
                raise CutError
            sums.close()
            self.keep(target, sums, checked(trailer.get("sha256"), SHA256))

    def target(self, message: Message) -> tuple[Target, Path]:
        """Return the target of a file, and the lock for it."""
        size = length(message.get("size"))
        sha256 = message.get("sha256") and checked(message["sha256"], SHA256)
        if message["put"] == "blob":
            repository, blob = checked(message.get("repository"), REPOSITORY), checked(message.get("blob"), BLOB)
            folder = folder_name(repository)
            path = self.place("cache") / folder / "blobs" / blob
            return Target(path, size, len(blob) == 40, sha256), self.place("cache") / ".locks" / folder / f"{blob}.lock"
        if message["put"] == "tiktoken_encoding":
            name = inside(message.get("name")).replace("/", "_")
            # The lock is in the spool, because users look into the directory.
            return Target(self.place("tiktoken_encodings") / name, size, sha256=sha256), self.spool / f"{name}.lock"
        if message["put"] == "member":
            folder_path = self.spool / checked(message.get("fingerprint"), SHA256)
            name = hashlib.sha256(inside(message.get("name")).encode()).hexdigest()
            return Target(folder_path / name, size, sha256=sha256), folder_path / f"{name}.lock"
        raise invalid("kind of file", message["put"])

    def is_complete(self, target: Target, message: Message) -> bool:
        """Return whether the file is present and correct. A wrong file is deleted."""
        if size_of(target.path) != target.size:
            return False
        if message["put"] == "member" and not target.sha256:
            # It was verified on arrival, and only this program writes to its directory.
            return True
        trusted = message["put"] == "blob" and not message.get("verify")
        if trusted and self.is_noted(target, message["repository"]):
            return True
        sums = target.sums()
        add_file(sums, target.path)
        sums.close()
        if target.sha256 and target.is_right(sums, target.sha256):
            return True
        target.path.unlink()
        return False

    def is_noted(self, target: Target, repository: str) -> bool:
        """Return whether an earlier receipt has the checksum of a file that has not changed since."""
        status = target.path.stat()
        noted = (status.st_size, status.st_mtime_ns, target.sha256)
        files = (read_receipt(self.place("receipts"), repository) or {"files": {}})["files"]
        return any((file.get("size"), file.get("mtime_ns"), file.get("sha256")) == noted for file in files.values())

    @staticmethod
    def usable_part(target: Target) -> int:
        """Return how many bytes an earlier copy received."""
        have = size_of(target.part) or 0
        if have > target.size:
            target.part.unlink()
            return 0
        return have

    def write_stream(self, target: Target, have: int, sums: Checksums) -> None:
        """Write the stream to disk and add it to the checksums."""
        left = target.size - have
        with target.part.open("ab", buffering=0) as file:
            while left:
                buffer = sums.free.get()
                count = self.read(buffer, min(left, CHUNK))
                if count:
                    write(file, buffer, count)
                    sums.add(buffer, count)
                left -= count
                if count < CHUNK and left:
                    raise CutError
                if (target.size - left) % GIVE_BACK_BYTES < CHUNK:
                    drop_page_cache(file.fileno())
            os.fdatasync(file.fileno())
            drop_page_cache(file.fileno())

    def read(self, buffer: bytearray, count: int) -> int:
        """Bytes of the file: what was read together with the line before them, and what comes."""
        begin = self._rest[:count]
        self._rest = self._rest[count:]
        if not begin:
            return fill(self._source, buffer, count)
        rest = bytearray(count - len(begin))
        got = fill(self._source, rest, len(rest))
        buffer[:count] = begin + rest
        return len(begin) + got

    def keep(self, target: Target, sums: Checksums, sha256: str) -> None:
        if target.is_right(sums, sha256):
            target.part.chmod(0o644)
            put(target.part, target.path)
            self.say(stored=True)
            return
        target.part.unlink()
        self.say(wrong=sums.sha256.hexdigest())

    def finish(self, model: Message) -> None:
        """Make a model of files that are all there: the snapshot's links, the refs, and last the receipt."""
        repository, commit = checked(model.get("repository"), REPOSITORY), checked(model.get("commit"), COMMIT)
        directory = self.place("cache") / folder_name(repository)
        noted: dict[str, Message] = {}
        for path, file in model["files"].items():
            blob = directory / "blobs" / checked(file.get("blob"), BLOB)
            status = blob.stat()
            if status.st_size != file["size"]:
                raise RefusedError(f"The file {blob} changed while it was copied. Run again")
            self.link(directory / "snapshots" / commit / inside(path), blob)
            sha256 = checked(file.get("sha256"), SHA256)
            noted[path] = {"size": status.st_size, "mtime_ns": status.st_mtime_ns, "sha256": sha256}
        revisions = {inside(revision) for revision in model["revisions"]}
        for revision in revisions - {commit}:
            write_whole(directory / "refs" / revision, commit)
        wanted = ModelSpec(repository, commit, tuple(model["include"]), tuple(model["exclude"]))
        write_receipt(self.place("receipts"), wanted, commit, revisions, noted)

    @staticmethod
    def link(pointer: Path, blob: Path) -> None:
        """Let a file of a snapshot be a link to its blob, as huggingface_hub makes it."""
        target = os.path.relpath(blob, pointer.parent)
        if pointer.is_symlink() and str(pointer.readlink()) == target:
            return
        pointer.parent.mkdir(parents=True, exist_ok=True)
        new = pointer.with_name(f".{pointer.name}.{os.getpid()}.new")
        new.symlink_to(target)
        put(new, pointer)

    def index(self, image: Message) -> None:
        """Note the members of an image: with that it is ready to be loaded."""
        folder = self.spool / checked(image.get("fingerprint"), SHA256)
        for member in image["members"]:
            name = hashlib.sha256(inside(member["name"].rstrip("/")).encode()).hexdigest()
            if member["data"] and size_of(folder / name) != member["size"]:
                raise RefusedError(f"The file {member['name']} of the image did not arrive. Run again")
        write_whole(folder / "index.json", json.dumps(image["members"]))

    def explain(self, error: OSError) -> str:
        """Return an error of the operating system as one sentence."""
        where = error.filename or self.spool
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            place = Path(str(where))
            while not place.exists():
                place = place.parent
            return (
                f"The disk under {place} is full ({amount(shutil.disk_usage(place).free)} are free). Free space "
                "there, then run again; the copy continues"
            )
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            return (
                f"{where} cannot be written ({error.strerror}). Give it to the login user with 'sudo chown -R', "
                "then run again"
            )
        return f"{where} cannot be written ({error.strerror}). Check the disk, then run again"


def main(places: Message) -> int:
    os.umask(0o022)
    receiver = Receiver(places)
    try:
        receiver.run()
    except CutError as e:
        print(e, file=sys.stderr)
        return 2
    except BrokenPipeError:
        return 2
    except RefusedError as e:
        receiver.say(error=str(e))
        return 1
    except OSError as e:
        receiver.say(error=receiver.explain(e))
        return 1
    except (KeyError, TypeError, ValueError, AttributeError) as e:
        receiver.say(error=str(invalid("message", e)))
        return 1
    return 0

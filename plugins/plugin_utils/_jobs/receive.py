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

import errno
import hashlib
import json
import os
import re
import shutil
import sys
import typing as t
from pathlib import Path

from ...module_utils._data.numbers import natural_int
from ...module_utils._data.text import amount
from ...module_utils._models.disk import (
    BLOB,
    COMMIT,
    ModelSpec,
    folder_name,
    link_to_blob,
    read_receipt,
    size_of,
    write_receipt,
)
from ...module_utils._spark.whole import write_whole
from .incoming import Checksums, CutError, Incoming, add_file, fill, locked
from .progress import Message
from .wire import CHUNK, GREETING, widen

SHA256 = re.compile(r"[0-9a-f]{64}")
REPOSITORY = re.compile(r"[\w.-]+(/[\w.-]+)?")


class RefusedError(Exception):
    """Invalid data. The text has the fix."""


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
    if natural_int(value) is None:
        raise invalid("length", value)
    return value


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
            have = target.usable_part()
            sums = target.sums()
            if have:
                add_file(sums, target.part)
            self.say(have=have, complete=False, wrong=here)
            target.append(have, sums, self.read)
            trailer = self.read_line()
            if trailer is None:
                raise CutError
            sums.close()
            self.keep(target, sums, checked(trailer.get("sha256"), SHA256))

    def target(self, message: Message) -> tuple[Incoming, Path]:
        """Return the target of a file, and the lock for it."""
        size = length(message.get("size"))
        sha256 = message.get("sha256") and checked(message["sha256"], SHA256)
        if message["put"] == "blob":
            repository, blob = checked(message.get("repository"), REPOSITORY), checked(message.get("blob"), BLOB)
            folder = folder_name(repository)
            path = self.place("cache") / folder / "blobs" / blob
            lock = self.place("cache") / ".locks" / folder / f"{blob}.lock"
            return Incoming(path, size, len(blob) == 40, sha256), lock
        if message["put"] == "tiktoken_encoding":
            name = inside(message.get("name")).replace("/", "_")
            # The lock is in the spool, because users look into the directory.
            return Incoming(self.place("tiktoken_encodings") / name, size, sha256=sha256), self.spool / f"{name}.lock"
        if message["put"] == "member":
            folder_path = self.spool / checked(message.get("fingerprint"), SHA256)
            name = hashlib.sha256(inside(message.get("name")).encode()).hexdigest()
            return Incoming(folder_path / name, size, sha256=sha256), folder_path / f"{name}.lock"
        raise invalid("kind of file", message["put"])

    def is_complete(self, target: Incoming, message: Message) -> bool:
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

    def is_noted(self, target: Incoming, repository: str) -> bool:
        """Return whether an earlier receipt has the checksum of a file that has not changed since."""
        status = target.path.stat()
        noted = (status.st_size, status.st_mtime_ns, target.sha256)
        files = (read_receipt(self.place("receipts"), repository) or {"files": {}})["files"]
        return any((file.get("size"), file.get("mtime_ns"), file.get("sha256")) == noted for file in files.values())

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

    def keep(self, target: Incoming, sums: Checksums, sha256: str) -> None:
        if target.is_right(sums, sha256):
            target.keep()
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
            link_to_blob(directory / "snapshots" / commit / inside(path), blob)
            sha256 = checked(file.get("sha256"), SHA256)
            noted[path] = {"size": status.st_size, "mtime_ns": status.st_mtime_ns, "sha256": sha256}
        revisions = {inside(revision) for revision in model["revisions"]}
        for revision in revisions - {commit}:
            write_whole(directory / "refs" / revision, commit)
        wanted = ModelSpec(repository, commit, tuple(model["include"]), tuple(model["exclude"]))
        write_receipt(self.place("receipts"), wanted, commit, revisions, noted)

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

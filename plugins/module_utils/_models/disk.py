# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this module util is internal to the collection; its interface may change at any time.

"""Models as they lie in the Hugging Face cache, and their receipts. Jobs have this file, too."""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import fnmatch
import json
import os
import re
import stat
import time
import typing as t
from pathlib import Path

from .._spark.whole import put, write_whole

COMMIT = re.compile(r"[0-9a-f]{40}")
BLOB = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")

Receipt = dict[str, t.Any]


@dataclasses.dataclass(frozen=True)
class ModelSpec:
    """A repository at a revision, and which of its files."""

    id: str
    revision: str = "main"
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()

    @classmethod
    def of(cls, item: t.Mapping[str, t.Any]) -> ModelSpec:
        """One of a module's repositories, or a view of it."""
        return cls(item["id"], item["revision"], tuple(item["include"]), tuple(item["exclude"]))


@dataclasses.dataclass(frozen=True)
class RemoteFile:
    """A file of a repository. The cache stores it as C(blobs/<blob>): the sha256 for large files, else git's sha1."""

    path: str
    size: int
    blob: str


@dataclasses.dataclass(frozen=True)
class Part:
    """An incomplete download in C(blobs)."""

    path: Path
    blob: str
    size: int
    # huggingface_hub continues <blob>.incomplete; later versions write <blob>.<random>.incomplete and start from zero.
    resumable: bool


def matches_any(path: str, patterns: t.Iterable[str]) -> bool:
    return any(fnmatch.fnmatch(path, pattern + "*" if pattern.endswith("/") else pattern) for pattern in patterns)


def is_wanted(path: str, wanted: ModelSpec) -> bool:
    """Choose files as huggingface_hub's allow_patterns and ignore_patterns do; no include pattern means every file."""
    included = not wanted.include or matches_any(path, wanted.include)
    return included and not matches_any(path, wanted.exclude)


def folder_name(repository: str) -> str:
    """Return the directory of a model in the cache."""
    return "models--" + repository.replace("/", "--")


def size_of(path: Path) -> int | None:
    """Return the size of the file that a path leads to; None if there is none."""
    try:
        return path.stat().st_size
    except (FileNotFoundError, NotADirectoryError):
        return None


def own_size(path: Path) -> int:
    """Return the bytes that a file itself occupies: 0 for a link, or for a file that has vanished."""
    try:
        status = path.lstat()
    except FileNotFoundError:
        return 0
    return 0 if stat.S_ISLNK(status.st_mode) else status.st_size


def link_to_blob(pointer: Path, blob: Path) -> None:
    """Let a file of a snapshot be a link to its blob, as huggingface_hub makes it."""
    target = os.path.relpath(blob, pointer.parent)
    if pointer.is_symlink() and str(pointer.readlink()) == target:
        return
    pointer.parent.mkdir(parents=True, exist_ok=True)
    new = pointer.with_name(f".{pointer.name}.{os.getpid()}.new")
    new.unlink(missing_ok=True)
    new.symlink_to(target)
    put(new, pointer)


def drop_page_cache(descriptor: int) -> None:
    """Have the kernel drop a file's pages, which on a Spark count as used GPU memory; new ones it begins to write."""
    with contextlib.suppress(OSError):
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)


@contextlib.contextmanager
def lock_if_free(path: Path) -> t.Iterator[bool]:
    """Acquire the lock of a file against huggingface_hub; yield whether it was free."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW)
    except OSError:
        yield True
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield True
    except BlockingIOError:
        yield False
    finally:
        os.close(descriptor)


class CachedRepository:
    """The directory of one model in the cache."""

    def __init__(self, cache: Path, repository: str) -> None:
        self.directory = cache / folder_name(repository)
        self.blobs = self.directory / "blobs"

    def snapshot(self, commit: str) -> Path:
        return self.directory / "snapshots" / commit

    def blob(self, commit: str, path: str, sha256: str | None) -> str:
        """Return the name of a file's blob. A cache that was copied without links has none, and gets the checksum's."""
        pointer = self.snapshot(commit) / path
        name = pointer.readlink().name if pointer.is_symlink() else ""
        return name if BLOB.fullmatch(name) else str(sha256)

    def lock(self, blob: str) -> Path:
        """Return the file that huggingface_hub locks while it writes a blob."""
        return self.directory.parent / ".locks" / self.directory.name / f"{blob}.lock"

    def parts(self) -> list[Part]:
        """Every incomplete download."""
        result = []
        for path in sorted(self.blobs.glob("*.incomplete")):
            size = size_of(path)
            if size is not None:
                blob, _dot, middle = path.name[: -len(".incomplete")].partition(".")
                result.append(Part(path, blob, size, resumable=not middle))
        return result

    def bytes_on_disk(self) -> int:
        """Return the bytes that removing the directory frees."""
        # Snapshots normally have only links; a cache that was copied without links has files.
        walked = (Path(parent) / name for parent, _dirs, names in os.walk(self.directory) for name in names)
        return sum(own_size(path) for path in walked)

    def missing(self, commit: str, files: t.Iterable[RemoteFile]) -> list[RemoteFile]:
        """Return the files that the snapshot lacks, or has with another size."""
        snapshot = self.snapshot(commit)
        return [file for file in files if size_of(snapshot / file.path) != file.size]

    def bytes_missing(self, missing: t.Iterable[RemoteFile]) -> int:
        """Return the bytes still to download; a part that can be continued counts as present."""
        parts = {part.blob: part.size for part in self.parts() if part.resumable}
        needed = {}
        for file in missing:
            there = size_of(self.blobs / file.blob)
            if there != file.size:
                part = parts.get(file.blob, 0)
                needed[file.blob] = file.size - part if part <= file.size else file.size
        return sum(needed.values())

    def orphans(self, missing: t.Iterable[RemoteFile]) -> list[Part]:
        """Incomplete downloads that no missing file will continue."""
        awaited = {file.blob for file in missing if size_of(self.blobs / file.blob) != file.size}
        return [part for part in self.parts() if not (part.resumable and part.blob in awaited)]


def receipt_file(receipts: Path, repository: str) -> Path:
    return receipts / f"{folder_name(repository)}.json"


def read_receipt(receipts: Path, repository: str) -> Receipt | None:
    """Return the receipt of a verified download; None if it is missing or unreadable."""
    try:
        data = json.loads(receipt_file(receipts, repository).read_text(encoding="utf-8"))
        usable = (
            COMMIT.fullmatch(data["commit"])
            and isinstance(data["revisions"], list)
            and all(
                isinstance(file["size"], int) and isinstance(file["mtime_ns"], int) and isinstance(file["sha256"], str)
                for file in data["files"].values()
            )
            and all(isinstance(one, str) for name in ("include", "exclude") for one in data.get(name) or [])
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    return data if usable else None


def receipt_commit(receipt: t.Mapping[str, t.Any] | None, revision: str) -> str | None:
    """Return the commit that a revision was resolved to when its files were downloaded."""
    if receipt and (revision in receipt["revisions"] or revision == receipt["commit"]):
        return str(receipt["commit"])
    return None


def receipt_covers(receipt: t.Mapping[str, t.Any], wanted: ModelSpec) -> bool:
    """Return whether a receipt covers exactly these files of this revision."""
    return (
        receipt_commit(receipt, wanted.revision) is not None
        and sorted(receipt.get("include") or []) == sorted(wanted.include)
        and sorted(receipt.get("exclude") or []) == sorted(wanted.exclude)
    )


def is_unchanged(receipt: t.Mapping[str, t.Any], snapshot: Path) -> bool:
    """Return whether all files of a receipt still have the size and time of their verification."""
    for path, noted in receipt["files"].items():
        try:
            result = (snapshot / path).stat()
        except (FileNotFoundError, NotADirectoryError):
            return False
        if (result.st_size, result.st_mtime_ns) != (noted["size"], noted["mtime_ns"]):
            return False
    return bool(receipt["files"])


def write_receipt(
    receipts: Path, wanted: ModelSpec, commit: str, revisions: t.Iterable[str], files: t.Mapping[str, t.Any]
) -> None:
    """Note of a model whose checksums were right what is there, and by which revisions it was asked for until now."""
    earlier = read_receipt(receipts, wanted.id)
    before = earlier["revisions"] if earlier and earlier["commit"] == commit else []
    receipt = {
        "id": wanted.id,
        "revisions": sorted({*revisions, *(revision for revision in before if isinstance(revision, str))}),
        "commit": commit,
        "include": list(wanted.include),
        "exclude": list(wanted.exclude),
        "checked": int(time.time()),
        "files": dict(sorted(files.items())),
    }
    receipts.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_whole(receipt_file(receipts, wanted.id), json.dumps(receipt, indent=1) + "\n")

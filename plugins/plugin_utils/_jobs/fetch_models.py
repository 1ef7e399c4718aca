# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this plugin util is internal to the collection; its interface may change at any time.

"""Download models into the Hugging Face cache and check them. A program for a watched job.

The only argument is a JSON object: endpoint, cache, receipts and repositories (id, revision, commit, include, exclude,
and verify to ignore its receipt). The standard input is another one: the token, or nothing; and the files of each model
as the Hub lists them: path, size and blob. Files that a repository's patterns leave out are not downloaded, and such a
part of a model gets no receipt.

A file comes as one stream into `<blob>.incomplete`, four at once, and is hashed on the way. What was stopped continues
at the part. The cache is huggingface_hub's own.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import errno
import functools
import hashlib
import http.client
import json
import os
import shutil
import ssl
import sys
import threading
import time
import traceback
import typing as t
import urllib.error
from pathlib import Path

from ...module_utils._data.text import amount, duration, one_line
from ...module_utils._models.disk import (
    CachedRepository,
    ModelSpec,
    RemoteFile,
    drop_page_cache,
    is_wanted,
    link_to_blob,
    lock_if_free,
    read_receipt,
    size_of,
    write_receipt,
)
from ...module_utils._models.refusals import HubError
from ...module_utils._spark.whole import write_whole
from .hub_files import HubFiles, LimitedError
from .incoming import Checksums, CutError, Incoming, Read, add_file, locked
from .progress import Rate, Reports, emit, log, pace, share

TRIES = 5
# So long at a stretch it is waited for.
LONGEST_LIMIT_S = 3600.0
FIRST_DELAY_S = 2.0
REPORT_EVERY_S = 2.0
RATE_WINDOW_S = 30.0
WORKERS = 4
READ_BYTES = 8 * 1024 * 1024
FULL = (errno.ENOSPC, errno.EDQUOT)
RANGE_NOT_SATISFIABLE = 416
# What another try may mend.
PASSING = (CutError, OSError, http.client.HTTPException)


# The receipt of a file, and of all files by their paths.
File = dict[str, t.Any]
Noted = dict[str, File]


class FetchError(Exception):
    """The download failed. The text is one sentence with the fix."""


class WrongChecksumError(Exception):
    """A file is not what the Hub lists, and is deleted. The text is its name."""


class StoppedError(Exception):
    """Another file failed for good, so this one is not read any further."""


class Repository:
    """A model to download, and its place in the cache."""

    def __init__(self, cache: Path, spec: t.Mapping[str, t.Any], files: t.Iterable[t.Mapping[str, t.Any]]) -> None:
        self.wanted = ModelSpec.of(spec)
        self.id, self.commit = self.wanted.id, str(spec["commit"])
        self.verify = bool(spec.get("verify"))
        # All of the model, of which perhaps a part is wanted.
        self.listed = [RemoteFile(**file) for file in files]
        self.files = [file for file in self.listed if is_wanted(file.path, self.wanted)]
        self.cached = CachedRepository(cache, self.id)
        self.blobs = self.cached.blobs

    def pointer(self, file: RemoteFile) -> Path:
        return self.cached.snapshot(self.commit) / file.path

    def missing(self) -> list[RemoteFile]:
        return self.cached.missing(self.commit, self.files)

    @property
    def is_part(self) -> bool:
        return len(self.files) < len(self.listed)

    def bytes_wanted(self) -> int:
        return sum({file.blob: file.size for file in self.files}.values())

    def bytes_there(self) -> int:
        """Return the downloaded bytes of the files, with parts. A blob of two files counts once."""
        parts = self.parts()
        total = 0
        for file in {file.blob: file for file in self.files}.values():
            done = file.size in (size_of(self.pointer(file)), size_of(self.blobs / file.blob))
            total += file.size if done else min(parts.get(file.blob, 0), file.size)
        return total

    def parts(self) -> dict[str, int]:
        """Return the bytes that are there in part, by blob."""
        return {part.blob: part.size for part in sorted(self.cached.parts(), key=lambda part: part.size)}


def cause_of(error: BaseException) -> BaseException:
    """Return what urllib wraps."""
    reason = error.reason if isinstance(error, urllib.error.URLError) else None
    return reason if isinstance(reason, BaseException) else error


def reason_of(error: BaseException) -> str:
    """Return the reason in one short line."""
    cause = cause_of(error)
    return one_line(str(getattr(cause, "reason", None) or cause), 200) or type(cause).__name__


def by_blob(files: t.Iterable[RemoteFile]) -> t.Iterable[list[RemoteFile]]:
    """Return the files in groups of the same content."""
    groups: dict[str, list[RemoteFile]] = {}
    for file in files:
        groups.setdefault(file.blob, []).append(file)
    return groups.values()


def remove_orphans(repository: Repository) -> int:
    """Delete incomplete downloads that no missing file continues, except those that are being written."""
    freed = 0
    for part in repository.cached.orphans(repository.cached.missing(repository.commit, repository.listed)):
        with lock_if_free(repository.cached.lock(part.blob)) as free:
            if free:
                freed += part.size
                # No failure in a complete cache that belongs to another user.
                with contextlib.suppress(OSError):
                    part.path.unlink()
    return freed


def discard_unusable(repository: Repository) -> None:
    """Delete files of a wrong size, and links that lead elsewhere."""
    for file in repository.missing():
        pointer = repository.pointer(file)
        if pointer.is_symlink() and repository.blobs.resolve() not in pointer.resolve().parents:
            log(f"deleting the link {pointer}: it leads out of the model's own files")
            pointer.unlink()
        for path in (pointer.resolve(), repository.blobs / file.blob):
            result = size_of(path)
            if result is not None and result != file.size:
                log(f"deleting {path}: it has {result} bytes and not {file.size}")
                path.unlink()


def digests(path: Path, blob: str) -> tuple[str, str]:
    """Return the sha256 of a file, and the name that its blob should have: the sha256 or git's sha1."""
    sha256, sha1 = hashlib.sha256(), hashlib.sha1(b"blob %d\0" % path.stat().st_size)
    is_git = len(blob) == 2 * sha1.digest_size
    with path.open("rb") as file:
        while data := file.read(READ_BYTES):
            sha256.update(data)
            if is_git:
                sha1.update(data)
        # They have to be on the disk.
        with contextlib.suppress(OSError):
            os.fdatasync(file.fileno())
        drop_page_cache(file.fileno())
    return sha256.hexdigest(), (sha1 if is_git else sha256).hexdigest()


def is_noted(known: File | None, file: RemoteFile, status: os.stat_result) -> bool:
    """Return whether a file is unchanged since its checksum was verified."""
    noted = {"size": status.st_size, "mtime_ns": status.st_mtime_ns, "sha256": file.blob}
    return known is not None and noted.items() <= known.items()


def wrong_again(names: t.Sequence[str]) -> FetchError:
    return FetchError(
        f"The checksum of {' and of '.join(names)} is not the Hub's, though it was fetched again, so it was deleted: "
        "see whether memory and disk of this Spark are sound, and what answers for the Hub, and run again"
    )


def replaced_text(wrong: t.Sequence[str]) -> str:
    """Return the sentence about files that were fetched again."""
    return (
        f"The checksum of {' and of '.join(wrong)} was not the Hub's, so it was deleted and fetched again. A server "
        "that has loaded it before answers with the wrong bytes: stop.yml and then start.yml load it again. If "
        "this happens again, the memory or the disk of this Spark is faulty."
    )


def write_ref(repository: Repository) -> None:
    """Note the commit of a branch or tag as huggingface_hub does, for the user's own programs."""
    revision = repository.wanted.revision
    if revision == repository.commit:
        return
    ref = repository.cached.directory / "refs" / revision
    try:
        if not ref.exists() or ref.read_text(encoding="utf-8").strip() != repository.commit:
            write_whole(ref, repository.commit)
    except OSError as e:
        log(f"not noting the commit of {revision}: {e}")


class Download:
    """One file on its way to the cache, over as many tries as it takes."""

    def __init__(
        self, hub: HubFiles, repository: Repository, files: t.Sequence[RemoteFile], stopped: threading.Event
    ) -> None:
        """Take the files of one blob."""
        self.hub = hub
        self.repository = repository
        self.files, self.file = files, files[0]
        self.incoming = Incoming(repository.blobs / self.file.blob, self.file.size, git=len(self.file.blob) == 40)
        self.stopped = stopped
        # A server that refuses a range is asked for the whole.
        self.ranged = True
        # For what it waits before another try.
        self.note = ""
        self.is_active = False

    def run(self) -> File | None:
        """Return the note of the complete file, or nothing if another program has brought it.

        Raises WrongChecksumError if it is not what the Hub lists; it is deleted then.
        """
        self.is_active = True
        try:
            with contextlib.ExitStack() as held:
                lock = locked(self.repository.cached.lock(self.file.blob))
                self.persist(lambda: held.enter_context(lock))
                return self.bring()
        finally:
            self.is_active = False

    def bring(self) -> File | None:
        blob = self.incoming.path
        blob.parent.mkdir(parents=True, exist_ok=True)
        noted = None if size_of(blob) == self.file.size else self.receive()
        for file in self.files:
            link_to_blob(self.repository.pointer(file), blob)
        return noted

    def receive(self) -> File:
        sums = self.incoming.sums()
        try:
            if self.incoming.usable_part():
                add_file(sums, self.incoming.part)
            self.persist(lambda: self.read_on(sums))
        finally:
            sums.close()
        if not self.incoming.is_right(sums, None if self.incoming.git else self.file.blob):
            log(f"deleting {self.incoming.part}: its sha256 is {sums.sha256.hexdigest()}")
            self.incoming.part.unlink()
            raise WrongChecksumError(f"{self.file.path} of {self.repository.id}")
        self.incoming.keep()
        status = self.incoming.path.stat()
        return {"size": status.st_size, "mtime_ns": status.st_mtime_ns, "sha256": sums.sha256.hexdigest()}

    def read_on(self, sums: Checksums) -> None:
        """Read from the end of the part to the end of the file."""
        have = self.incoming.usable_part()
        if have == self.file.size:
            # Nothing is left to read, and an empty file has no part yet.
            self.incoming.append(have, sums, lambda _buffer, _count: 0, durable=True)
            return
        with self.hub.opened(self.repository.id, self.repository.commit, self.file, have, self.ranged) as read:
            self.incoming.append(have, sums, functools.partial(self.read, read), durable=True)

    def read(self, read: Read, buffer: bytearray, count: int) -> int:
        if self.stopped.is_set():
            raise StoppedError
        return read(buffer, count)

    def persist(self, action: t.Callable[[], t.Any]) -> None:
        """Repeat what failed for a time. Tries with progress and waits that the Hub asks for do not count."""
        tries, limited = 0, 0.0
        while True:
            there = self.bytes_there()
            try:
                action()
                return
            except LimitedError as e:
                limited = e.seconds if self.bytes_there() > there else limited + e.seconds
                self.wait_out(e.seconds, limited)
                continue
            except PASSING as e:
                self.refuse(e)
                self.ranged = self.ranged and getattr(e, "status", None) != RANGE_NOT_SATISFIABLE
                tries = 1 if self.bytes_there() > there else tries + 1
                reason = reason_of(e)
                if tries >= TRIES:
                    raise FetchError(
                        f"Downloading {self.repository.id} from {self.hub.endpoint} failed {TRIES} times in a row "
                        f"({reason}): check this host's network, then run again, which continues where this ended; or "
                        f"fetch it into the same cache with {self.by_hand()}"
                    ) from e
            delay = FIRST_DELAY_S * 2 ** (tries - 1)
            log(f"{self.file.path} of {self.repository.id}: {reason}; trying again in {delay:.0f} s")
            self.wait(delay, f"the connection failed, trying again ({tries} of {TRIES - 1})")

    def bytes_there(self) -> int:
        return self.repository.parts().get(self.file.blob, 0)

    def by_hand(self) -> str:
        """Return the command that brings the model without this program."""
        cache = self.repository.cached.directory.parent
        return f"'hf download {self.repository.id} --revision {self.repository.commit} --cache-dir {cache}'"

    def wait_out(self, seconds: float, altogether: float) -> None:
        """Wait as long as the Hub requests, and report the remaining time."""
        if altogether > LONGEST_LIMIT_S:
            raise FetchError(
                f"The Hub {self.hub.endpoint} limits the requests of this network, so that {self.repository.id} does "
                f"not get on for {duration(altogether)}: run again later, which continues where this ended, or give "
                "a token"
            )
        log(f"{self.repository.id}: the Hub limits requests; waiting {seconds:.0f} s")
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            self.wait(min(left, 10.0), f"the Hub limits requests: continues in {duration(left)}")

    def wait(self, seconds: float, note: str) -> None:
        self.note = note
        if self.stopped.wait(seconds):
            raise StoppedError
        self.note = ""

    def refuse(self, error: BaseException) -> None:
        """Raise FetchError for an error of this machine, which no other try mends."""
        cause = cause_of(error)
        if isinstance(cause, ssl.SSLCertVerificationError):
            raise FetchError(
                f"What answers for {self.hub.endpoint} has a certificate that is not trusted here ({cause.strerror}), "
                "as a proxy has that reads along: use a network without one, or add its certificate to those of this "
                "host with 'sudo update-ca-certificates', then run again"
            ) from error
        if not isinstance(cause, OSError) or isinstance(error, urllib.error.URLError):
            return
        cache = self.repository.cached.directory.parent
        if cause.errno in FULL:
            raise cause
        if cause.errno in (errno.EACCES, errno.EPERM, errno.EROFS) and cause.filename:
            raise FetchError(
                f"The Hugging Face cache {cache} cannot be written ({cause.strerror}: {cause.filename}): give it back "
                "to the login user with 'sudo chown -R', then run again"
            ) from error


class Progress(Reports):
    """The progress of all downloads. If all of them wait, it says for what."""

    def __init__(self, total: int, measure: t.Callable[[], int], downloads: t.Sequence[Download]) -> None:
        super().__init__(self.state, REPORT_EVERY_S)
        self._total = total
        self._measure = measure
        self._rate = Rate(RATE_WINDOW_S)
        self._downloads = downloads

    def state(self) -> dict[str, t.Any]:
        done = self._measure()
        notes = [download.note for download in self._downloads if download.is_active]
        speed = pace(self._rate.at(time.monotonic(), done), self._total - done)
        text = share(done, self._total) + (f", {notes[0]}" if notes and all(notes) else speed)
        return {"percent": round(100 * done / self._total if self._total else 100.0, 1), "text": text}


class Fetch:
    """The whole job."""

    def __init__(self, spec: dict[str, t.Any], token: str, files: t.Mapping[str, t.Any]) -> None:
        self.cache = Path(spec["cache"])
        self.receipts = Path(spec["receipts"])
        self.hub = HubFiles(spec["endpoint"], token)
        self.repositories = [Repository(self.cache, item, files[item["id"]]) for item in spec["repositories"]]
        self.fetched = 0
        # Whose checksums this run has compared.
        self.checked: dict[Path, File] = {}

    def run(self) -> dict[str, t.Any]:
        for repository in self.repositories:
            discard_unusable(repository)
        freed = sum(remove_orphans(repository) for repository in self.repositories)
        spoilt = self.complete()
        freed += sum(remove_orphans(repository) for repository in self.repositories)
        return {
            **({"warnings": [replaced_text(spoilt)]} if spoilt else {}),
            "bytes_fetched": self.fetched,
            "bytes_freed": freed,
            "repositories": [
                {"id": item.id, "commit": item.commit, "bytes": sum(file.size for file in item.files)}
                for item in self.repositories
            ],
        }

    def complete(self) -> list[str]:
        """Fetch and compare all, and what is wrong once again; returned is what was wrong in the cache."""
        known = self.noted()
        self.fetch()
        spoilt = self.compare(known)
        if spoilt:
            log(f"fetching again: {', '.join(spoilt)}")
            self.fetch()
            # Verified files are not read again.
            if again := self.compare(known):
                raise wrong_again(again)
        # A part is no model: a receipt of it would speak of files that are not there.
        for item in (item for item in self.repositories if not item.is_part):
            write_ref(item)
            write_receipt(self.receipts, item.wanted, item.commit, [item.wanted.revision], known[item.id])
        return spoilt

    def fetch(self) -> None:
        """Download what is missing of all. What has a wrong checksum comes once again."""
        before = self.bytes_there()
        if wrong := self.fetch_missing():
            log(f"fetching again: {', '.join(wrong)}")
            if again := self.fetch_missing():
                raise wrong_again(again)
        self.fetched += self.bytes_there() - before

    def fetch_missing(self) -> list[str]:
        """Download what is missing, four files at once; returned is what had a wrong checksum."""
        stopped = threading.Event()
        downloads = [
            Download(self.hub, repository, files, stopped)
            for repository in self.repositories
            for files in by_blob(repository.missing())
        ]
        wrong = []
        with (
            Progress(self.bytes_wanted(), self.bytes_there, downloads),
            concurrent.futures.ThreadPoolExecutor(WORKERS) as pool,
        ):
            futures = {pool.submit(download.run): download for download in downloads}
            try:
                for future in concurrent.futures.as_completed(futures):
                    try:
                        if noted := future.result():
                            self.checked[futures[future].incoming.path] = noted
                    except WrongChecksumError as e:
                        wrong.append(str(e))
            except BaseException:
                stopped.set()
                pool.shutdown(wait=False, cancel_futures=True)
                raise
        return sorted(wrong)

    def noted(self) -> dict[str, Noted]:
        """Return the notes of earlier receipts on the files of each model, if they are to be trusted."""
        receipts = {
            item.id: None if item.verify else read_receipt(self.receipts, item.id) for item in self.repositories
        }
        return {name: receipt["files"] if receipt else {} for name, receipt in receipts.items()}

    def bytes_there(self) -> int:
        return sum(repository.bytes_there() for repository in self.repositories)

    def bytes_wanted(self) -> int:
        return sum(repository.bytes_wanted() for repository in self.repositories)

    def compare(self, known: dict[str, Noted]) -> list[str]:
        """Compare the checksums that are not known, and note what is right; what is wrong is deleted and returned."""
        work = [(item, file) for item in self.repositories for file in item.files]
        wrong = []
        noted: dict[str, Noted] = {item.id: {} for item in self.repositories}
        hashed, total = 0, sum(file.size for _item, file in work)
        with concurrent.futures.ThreadPoolExecutor(WORKERS) as pool:
            futures = {
                pool.submit(self.check_file, item, file, known[item.id].get(file.path)): (item, file)
                for item, file in work
            }
            for number, future in enumerate(concurrent.futures.as_completed(futures), 1):
                item, file = futures[future]
                entry = future.result()
                if entry is None:
                    wrong.append(f"{file.path} of {item.id}")
                else:
                    noted[item.id][file.path] = entry
                hashed += file.size
                percent = round(100 * hashed / total, 1) if total else 100.0
                emit({"progress": {"percent": percent, "text": f"checking {number} of {len(work)} files"}})
        known.update(noted)
        return sorted(wrong)

    def check_file(self, repository: Repository, file: RemoteFile, known: File | None) -> File | None:
        """Return the note of a file; None if it was wrong and is deleted."""
        path = repository.pointer(file).resolve()
        if path in self.checked:
            return self.checked[path]
        status = path.stat()
        sha256 = file.blob
        if not is_noted(known, file, status):
            sha256, name = digests(path, file.blob)
            if name != file.blob:
                log(f"deleting {path}: its sha256 is {sha256}")
                path.unlink()
                return None
        self.checked[path] = {"size": status.st_size, "mtime_ns": status.st_mtime_ns, "sha256": sha256}
        return self.checked[path]

    def disk_full(self) -> str:
        left = self.bytes_wanted() - self.bytes_there()
        free = shutil.disk_usage(self.cache).free
        return (
            f"The disk under {self.cache} is full: {amount(left)} are still to be downloaded and "
            f"{amount(free)} are free, so make room for the difference and run again, which continues here"
        )


def main() -> int:
    os.umask(0o022)
    # The standard input is not among the arguments, which all users see, and where a long list of files has no room.
    fetch = Fetch(json.loads(sys.argv[1]), **json.load(sys.stdin))
    try:
        emit({"result": fetch.run()})
        return 0
    except Exception as e:
        traceback.print_exc()
        if isinstance(e, OSError) and e.errno in FULL:
            emit({"error": fetch.disk_full()})
        elif isinstance(e, (FetchError, HubError)):
            emit({"error": str(e)})
        else:
            emit({"error": f"Downloading failed unexpectedly ({reason_of(e)})"})
    return 1


if __name__ == "__main__":
    sys.exit(main())

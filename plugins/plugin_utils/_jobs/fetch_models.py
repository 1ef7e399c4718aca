# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this plugin util is internal to the collection; its interface may change at any time.

"""Download models into the Hugging Face cache and check them.

Runs inside the fetch container with the image's huggingface_hub, as the login user. Its inputs: endpoint, cache and
receipts (directories in the container), host_cache (the cache's name for messages) and repositories (id, revision,
commit, include, exclude, and verify to ignore its receipt); the token, or nothing; and the files of each model as the
Hub lists them: path, size and blob. Those that a repository's patterns leave out are not downloaded, and such a part
of a model gets no receipt.
It prints one JSON object a line: progress, and at the end a result or an error.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import errno
import functools
import glob
import hashlib
import importlib
import os
import shutil
import signal
import ssl
import time
import traceback
import typing as t
from pathlib import Path

from ansible_collections.dgx_spark.speculative.plugins.module_utils._models.disk import (
    CachedRepository,
    ModelSpec,
    RemoteFile,
    drop_page_cache,
    is_wanted,
    lock_if_free,
    read_receipt,
    size_of,
    write_receipt,
    write_whole,
)
from ansible_collections.dgx_spark.speculative.plugins.module_utils._models.limits import limited_s, wait_text

from .progress import Rate, Reports, amount, emit, log, pace, share

# These are read when huggingface_hub is imported. Downloads by plain HTTP continue after an interruption; those by
# Xet are not known to.
SETTINGS = {
    "HF_HUB_DISABLE_XET": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "HF_HUB_DISABLE_PROGRESS_BARS": "1",
    "HF_HUB_DISABLE_IMPLICIT_TOKEN": "1",
    "HF_HUB_DOWNLOAD_TIMEOUT": "30",
    "HF_HUB_ETAG_TIMEOUT": "30",
}

TRIES = 5
# So long at a stretch it is waited for.
LONGEST_LIMIT_S = 3600.0
FIRST_DELAY_S = 2.0
REPORT_EVERY_S = 2.0
RATE_WINDOW_S = 30.0
CHUNK = 8 * 1024 * 1024
WORKERS = 4
# Bytes that a broken connection loses: huggingface_hub writes 10 MB at a time, and drops an incomplete piece.
DOWNLOAD_PIECE = 256 * 1024
# The networking libraries of huggingface_hub before and since 1.0.
NETWORK_LIBRARIES = frozenset({"requests", "urllib3", "httpx", "httpcore"})


class FetchError(Exception):
    """The download failed. The text is one sentence with the fix."""


class IncompleteError(OSError):
    """huggingface_hub came back without an error and without all files, as it does when the Hub is down."""


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

    def part(self, file: RemoteFile) -> Path:
        """Return the path of a file's part, which huggingface_hub continues."""
        return self.blobs / f"{file.blob}.incomplete"

    def bytes_wanted(self) -> int:
        return sum({file.blob: file.size for file in self.files}.values())

    def bytes_there(self) -> int:
        """Return the downloaded bytes of the files, with parts. A blob of two files counts once."""
        parts: dict[str, int] = {}
        for part in self.cached.parts():
            parts[part.blob] = max(parts.get(part.blob, 0), part.size)
        total = 0
        for file in {file.blob: file for file in self.files}.values():
            done = file.size in (size_of(self.pointer(file)), size_of(self.blobs / file.blob))
            total += file.size if done else min(parts.get(file.blob, 0), file.size)
        return total


class Progress(Reports):
    """The progress of the download."""

    def __init__(self, total: int, measure: t.Callable[[], int], waits: t.Callable[[], str]) -> None:
        super().__init__(self.state, REPORT_EVERY_S)
        self._total = total
        self._measure = measure
        self._rate = Rate(RATE_WINDOW_S)
        self._waits = waits

    def state(self) -> dict[str, t.Any]:
        done = self._measure()
        rate, note = self._rate.at(time.monotonic(), done), self._waits()
        text = share(done, self._total) + (f", {note}" if note else pace(rate, self._total - done))
        return {"percent": round(100 * done / self._total if self._total else 100.0, 1), "text": text}


def chain(error: BaseException | None) -> t.Iterator[BaseException]:
    """Yield an error and what it was raised from."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def status_of(error: BaseException) -> int | None:
    return getattr(getattr(error, "response", None), "status_code", None)


def refused_s(error: BaseException) -> float | None:
    """For how many seconds the Hub refuses requests because there were too many; None if that is not why."""
    for one in chain(error):
        if status_of(one) == 429:
            return limited_s(getattr(getattr(one, "response", None), "headers", {}))
    return None


def is_passing(error: BaseException) -> bool:
    """Return whether another attempt may help: an error of the network, the Hub or the connection."""
    library = type(error).__module__.partition(".")[0]
    return isinstance(error, OSError) or library in NETWORK_LIBRARIES or status_of(error) is not None


def reason_of(error: BaseException) -> str:
    """Return the innermost reason in one short line."""
    innermost = list(chain(error))[-1]
    words = " ".join(str(innermost).split()) or type(innermost).__name__
    return words if len(words) <= 200 else words[:199] + "…"


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
    """Delete what huggingface_hub would take for good or stumble over: files and parts of a wrong size."""
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
        part = repository.part(file)
        if (size_of(part) or 0) > file.size:
            log(f"deleting {part}: it is larger than the file of {file.size} bytes")
            part.unlink()


def digests(path: Path, blob: str) -> tuple[str, str]:
    """Return the sha256 of a file, and the name that its blob should have: the sha256 or git's sha1."""
    sha256, sha1 = hashlib.sha256(), hashlib.sha1(b"blob %d\0" % path.stat().st_size)
    is_git = len(blob) == 2 * sha1.digest_size
    with path.open("rb") as file:
        while data := file.read(CHUNK):
            sha256.update(data)
            if is_git:
                sha1.update(data)
        # They have to be on the disk.
        with contextlib.suppress(OSError):
            os.fdatasync(file.fileno())
        drop_page_cache(file.fileno())
    return sha256.hexdigest(), (sha1 if is_git else sha256).hexdigest()


# The receipt of a file, and of all files by their paths.
File = dict[str, t.Any]
Noted = dict[str, File]


def is_noted(known: File | None, file: RemoteFile, status: os.stat_result) -> bool:
    """Return whether a file is unchanged since its checksum was verified."""
    noted = {"size": status.st_size, "mtime_ns": status.st_mtime_ns, "sha256": file.blob}
    return known is not None and noted.items() <= known.items()


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


class Fetch:
    """The whole job."""

    def __init__(self, spec: dict[str, t.Any], token: str, files: t.Mapping[str, t.Any]) -> None:
        self.cache = Path(spec["cache"])
        self.cache_name = spec["host_cache"]
        self.receipts = Path(spec["receipts"])
        self.endpoint = spec["endpoint"]
        self.token = token
        self.repositories = [Repository(self.cache, item, files[item["id"]]) for item in spec["repositories"]]
        self.fetched = 0
        # For what the download waits before another try.
        self.note = ""

    def run(self) -> dict[str, t.Any]:
        constants: t.Any = importlib.import_module("huggingface_hub.constants")
        constants.DOWNLOAD_CHUNK_SIZE = DOWNLOAD_PIECE
        for repository in self.repositories:
            discard_unusable(repository)
        freed = sum(remove_orphans(repository) for repository in self.repositories)
        self.fetch()
        wrong = self.check()
        freed += sum(remove_orphans(repository) for repository in self.repositories)
        return {
            **({"warnings": [replaced_text(wrong)]} if wrong else {}),
            "bytes_fetched": self.fetched,
            "bytes_freed": freed,
            "repositories": [
                {"id": item.id, "commit": item.commit, "bytes": sum(file.size for file in item.files)}
                for item in self.repositories
            ],
        }

    def fetch(self) -> None:
        """Download what is missing of all."""
        before = self.bytes_there()
        with Progress(self.bytes_wanted(), self.bytes_there, lambda: self.note):
            for repository in self.repositories:
                self.persist(repository, functools.partial(self.download, repository))
        self.fetched += self.bytes_there() - before

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

    def download(self, repository: Repository) -> None:
        missing = repository.missing()
        if not missing:
            return
        importlib.import_module("huggingface_hub").snapshot_download(
            repository.id,
            revision=repository.commit,
            allow_patterns=[glob.escape(file.path) for file in missing],
            cache_dir=self.cache,
            endpoint=self.endpoint,
            token=self.token or False,
            max_workers=WORKERS,
        )
        missing = repository.missing()
        if missing:
            raise IncompleteError(f"{len(missing)} files of {repository.id} did not arrive")

    def persist(self, repository: Repository, action: t.Callable[[], None]) -> None:
        """Repeat a download after a temporary error. Attempts with progress and requested waits do not count."""
        tries, limited = 0, 0.0
        while True:
            there = self.bytes_there()
            try:
                return action()
            except Exception as e:
                self.refuse(repository, e)
                seconds = refused_s(e)
                if seconds is not None:
                    limited = seconds if self.bytes_there() > there else limited + seconds
                    self.wait_out(repository, seconds, limited)
                    continue
                tries = 1 if self.bytes_there() > there else tries + 1
                reason = reason_of(e)
                if tries >= TRIES:
                    raise FetchError(
                        f"Downloading {repository.id} from {self.endpoint} failed {TRIES} times in a row ({reason}): "
                        "check this host's network, then run again, which continues where this ended"
                    ) from e
            delay = FIRST_DELAY_S * 2 ** (tries - 1)
            log(f"{repository.id}: {reason}; trying again in {delay:.0f} s")
            self.wait(delay, f"the connection failed, trying again ({tries} of {TRIES - 1})")

    def wait_out(self, repository: Repository, seconds: float, altogether: float) -> None:
        """Wait as long as the Hub requests, and report the remaining time."""
        if altogether > LONGEST_LIMIT_S:
            raise FetchError(
                f"The Hub {self.endpoint} limits the requests of this network, so that {repository.id} does not get on "
                f"for {altogether / 60:.0f} min: run again later, which continues where this ended, or give a token"
            )
        log(f"{repository.id}: the Hub limits requests; waiting {seconds:.0f} s")
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            self.wait(min(left, 10.0), f"the Hub limits requests: continues in {wait_text(left)}")

    def wait(self, seconds: float, note: str) -> None:
        self.note = note
        time.sleep(seconds)
        self.note = ""

    def refuse(self, repository: Repository, error: BaseException) -> None:
        """Raise FetchError for an error that no other try will mend."""
        page = f"{self.endpoint}/{repository.id}"
        for one in chain(error):
            kind = type(one).__name__
            if isinstance(one, FetchError):
                raise one
            if kind == "GatedRepoError" and self.token:
                raise FetchError(
                    f"The Hub does not let the token's owner download {repository.id}: "
                    f"accept the licence on {page} as that user, then run again"
                ) from error
            if kind == "GatedRepoError" or (kind == "RepositoryNotFoundError" and not self.token):
                raise FetchError(
                    f"The Hub requires a token to download {repository.id}: "
                    f"accept the licence on {page} and give a read token"
                ) from error
            if kind in ("RepositoryNotFoundError", "RevisionNotFoundError"):
                raise FetchError(
                    f"The Hub no longer has {repository.id} at {repository.commit}: look at {page}"
                ) from error
            if kind in ("EntryNotFoundError", "RemoteEntryNotFoundError"):
                missing = ", ".join(file.path for file in repository.missing())
                raise FetchError(
                    f"The Hub lists files of {repository.id} at {repository.commit} that it does not have (one of "
                    f"{missing}): look at {page}/tree/{repository.commit}, and give another revision"
                ) from error
            if status_of(one) == 401:
                raise FetchError(
                    f"The Hub refuses the token as invalid while downloading {repository.id}: "
                    f"make a new one on {self.endpoint}/settings/tokens and give that one"
                ) from error
            if isinstance(one, OSError) and one.errno in (errno.ENOSPC, errno.EDQUOT):
                raise self.disk_full() from error
            if isinstance(one, ssl.SSLCertVerificationError):
                raise FetchError(
                    f"What answers for {self.endpoint} has a certificate that is not trusted here "
                    f"({one.strerror}), as a proxy has that reads along: use a network without "
                    f"one, or fetch {repository.id} by hand with 'hf download', then run again"
                ) from error
            if isinstance(one, OSError) and one.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
                raise FetchError(
                    f"The Hugging Face cache {self.cache_name} cannot be written ({one.strerror}: "
                    f"{one.filename}): give it back to the login user with 'sudo chown -R', then run again"
                ) from error
        if not is_passing(error):
            raise error

    def disk_full(self) -> FetchError:
        left = self.bytes_wanted() - self.bytes_there()
        free = shutil.disk_usage(self.cache).free
        return FetchError(
            f"The disk under {self.cache_name} is full: {amount(left)} are still to be downloaded and "
            f"{amount(free)} are free, so make room for the difference and run again, which continues here"
        )

    def check(self) -> list[str]:
        """Compare every checksum, fetch again what is wrong, and write the receipts; returned is what was wrong."""
        known = self.noted()
        wrong = self.compare(known)
        if wrong:
            log(f"fetching again: {', '.join(wrong)}")
            self.fetch()
            # Verified files are not read again.
            if again := self.compare(known):
                raise FetchError(
                    f"The checksum of {' and of '.join(again)} is not the Hub's, though it was fetched again, so it "
                    "was deleted: see whether memory and disk of this Spark are sound, and what answers for the Hub, "
                    "and run again"
                )
        # A part is no model: a receipt of it would speak of files that are not there.
        for item in (item for item in self.repositories if not item.is_part):
            write_ref(item)
            write_receipt(self.receipts, item.wanted, item.commit, [item.wanted.revision], known[item.id])
        return wrong

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
        status = path.stat()
        sha256 = file.blob
        if not is_noted(known, file, status):
            sha256, name = digests(path, file.blob)
            if name != file.blob:
                log(f"deleting {path}: its sha256 is {sha256}")
                path.unlink()
                return None
        return {"size": status.st_size, "mtime_ns": status.st_mtime_ns, "sha256": sha256}


def main(spec: dict[str, t.Any], token: str, files: t.Mapping[str, t.Any]) -> int:
    # As the first process of a container this one gets no default action for SIGTERM. Parts stay for the next run.
    signal.signal(signal.SIGTERM, lambda _number, _frame: os._exit(143))
    os.environ.update(SETTINGS)
    fetch = Fetch(spec, token, files)
    try:
        result = fetch.run()
    except FetchError as e:
        traceback.print_exc()
        emit({"error": str(e)})
        return 1
    except ImportError as e:
        emit({"error": f"The image cannot download models, since its Python cannot import huggingface_hub ({e})"})
        return 1
    except Exception as e:
        traceback.print_exc()
        full = next((one for one in chain(e) if isinstance(one, OSError) and one.errno == errno.ENOSPC), None)
        emit({"error": str(fetch.disk_full()) if full else f"Downloading failed unexpectedly ({reason_of(e)})"})
        return 1
    emit({"result": result})
    return 0

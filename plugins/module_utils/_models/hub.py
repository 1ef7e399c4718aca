# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this module util is internal to the collection; its interface may change at any time.

"""Compare models on the Hugging Face Hub with the cache on disk: requested, present and missing files."""

from __future__ import annotations

import dataclasses
import http.client
import json
import os
import queue
import re
import shutil
import threading
import time
import typing as t
import urllib.error
import urllib.parse
from pathlib import Path

from ansible.module_utils.urls import ConnectionError as UrlsConnectionError
from ansible.module_utils.urls import open_url

from .._data.files import nearest_existing
from .._data.numbers import natural_int
from .._data.text import duration
from .._spark.lock import user_name
from .config import MOST_BYTES, TOKENIZER, WEIGHTS, ModelFiles, weight_bytes
from .disk import (
    BLOB,
    COMMIT,
    CachedRepository,
    ModelSpec,
    Part,
    RemoteFile,
    folder_name,
    is_unchanged,
    is_wanted,
    matches_any,
    read_receipt,
    receipt_commit,
    receipt_covers,
)
from .limits import WINDOW_S, limited_s
from .refusals import GeneralHubError, HubError, Refusal, TokenNeededError, refusal

TRANSIENT = frozenset({408, 429, 500, 502, 503, 504})
CONTROL = re.compile(rb"[\x00-\x1f\x7f]")
# A page has a thousand files; more pages than this are an endless list.
MOST_PAGES = 100
MOST_ANSWER_BYTES = 32 * 1024 * 1024
# As file systems of Linux have them, with room for the cache's own directories.
MOST_PATH_BYTES, MOST_NAME_BYTES = 2048, 255
# The module option for models of the Hub.
REPOSITORIES_ARGUMENT: dict[str, t.Any] = {
    "type": "list",
    "elements": "dict",
    "options": {
        "id": {"type": "str", "required": True},
        "revision": {"type": "str", "default": "main"},
        "include": {"type": "list", "elements": "str", "default": []},
        "exclude": {"type": "list", "elements": "str", "default": []},
    },
}
T = t.TypeVar("T")
NEXT_PAGE = re.compile(r'<([^>]*)>\s*;\s*rel="next"')


class CacheError(Exception):
    """The cache on disk cannot be used. The text is one sentence with the fix."""


def within(seconds: float, ask: t.Callable[[], T]) -> T:
    """Return what a call returns, or raise what it raises; TimeoutError if it takes longer than that."""
    outcome: queue.SimpleQueue[tuple[t.Any, BaseException | None]] = queue.SimpleQueue()

    def work() -> None:
        try:
            outcome.put((ask(), None))
        except BaseException as error:
            outcome.put((None, error))

    threading.Thread(target=work, daemon=True).start()
    try:
        result, error = outcome.get(timeout=seconds)
    except queue.Empty:
        raise TimeoutError(f"its answer was not complete after {seconds:g} s") from None
    if error is not None:
        raise error
    return t.cast("T", result)


def choose_files(wanted: ModelSpec, files: t.Sequence[RemoteFile], endpoint: str) -> list[RemoteFile]:
    """Return the requested files; raise HubError for a pattern that can only be a mistake."""
    where = f"{endpoint}/{wanted.id}/tree/{wanted.revision}"
    idle = [pattern for pattern in wanted.include if not any(matches_any(file.path, [pattern]) for file in files)]
    if idle:
        names = ", ".join(f"'{pattern}'" for pattern in idle)
        raise HubError(
            f"The include pattern {names} matches none of the {len(files)} files of {wanted.id}: "
            f"compare it with {where}"
        )
    chosen = [file for file in files if is_wanted(file.path, wanted)]
    if not chosen:
        raise HubError(
            f"The include and exclude patterns leave none of the {len(files)} files of {wanted.id}: "
            f"compare them with {where}"
        )
    return chosen


class Hub:
    """The requests of the Hub's API for the files of a repository and the permission to read it."""

    def __init__(
        self,
        endpoint: str,
        token: str = "",
        delays: t.Sequence[float] = (1.0, 3.0),
        timeout: float = 20.0,
        deadline: float = 120.0,
    ) -> None:
        """Create the client. The timeout is for one read, the deadline for a whole answer."""
        self.endpoint = endpoint.rstrip("/")
        # A line break at its end would make http.client refuse the header, and quote it in the error.
        self._token = token.strip()
        self._delays = delays
        self._timeout = timeout
        self._deadline = deadline
        # Since the last request was refused for there were too many: for how long that will be so.
        self.limited_s: float | None = None
        # The files of a commit never change.
        self._lists: dict[tuple[str, str], list[RemoteFile]] = {}
        self._objects: dict[tuple[str, str, str], dict[str, t.Any] | None] = {}

    def resolve(self, repository: str, revision: str) -> tuple[str, bool]:
        """Return the commit of a revision, and whether the repository is gated."""
        quoted = urllib.parse.quote(revision, safe="")
        data, _link = self._get_json(repository, revision, f"/api/models/{repository}/revision/{quoted}")
        commit = data.get("sha") if isinstance(data, dict) else None
        if not isinstance(commit, str) or not COMMIT.fullmatch(commit):
            raise self._strange()
        return commit, bool(data.get("gated"))

    def files(self, repository: str, commit: str) -> list[RemoteFile]:
        """All files of a commit."""
        key = (repository, commit)
        if key not in self._lists:
            self._lists[key] = self._ask_for_files(repository, commit)
        return self._lists[key]

    def _ask_for_files(self, repository: str, commit: str) -> list[RemoteFile]:
        path = f"/api/models/{repository}/tree/{commit}"
        query = "recursive=true"
        result = []
        for _page in range(MOST_PAGES):
            entries, link = self._get_json(repository, commit, f"{path}?{query}")
            try:
                result += [_remote_file(entry) for entry in entries if entry["type"] == "file"]
            except (KeyError, TypeError, ValueError, AttributeError) as e:
                raise self._strange() from e
            next_page = NEXT_PAGE.search(link)
            try:
                # Only the query is taken over: the token must not follow a link to another host.
                query = urllib.parse.urlsplit(next_page.group(1)).query if next_page else ""
            except ValueError as e:
                raise self._strange() from e
            if not query:
                return result
        raise self._strange()

    def small_json(self, repository: str, commit: str, path: str) -> dict[str, t.Any] | None:
        """Return a small file of a commit; None if it is not there, cannot be read or is not small."""
        key = (repository, commit, path)
        if key not in self._objects:
            self._objects[key] = self._ask_for_json(repository, commit, path)
        return self._objects[key]

    def _ask_for_json(self, repository: str, commit: str, path: str) -> dict[str, t.Any] | None:
        try:
            body, _link = self._request("GET", repository, commit, f"/{repository}/resolve/{commit}/{path}", MOST_BYTES)
            data = json.loads(body)
        except (TokenNeededError, GeneralHubError):
            raise
        except (HubError, ValueError, RecursionError):
            return None
        return data if isinstance(data, dict) else None

    def check_access(self, repository: str, commit: str, path: str) -> None:
        """Raise HubError if the file may not be downloaded. A gated repository can be listed without permission."""
        self._request("HEAD", repository, commit, f"/{repository}/resolve/{commit}/{urllib.parse.quote(path)}")

    def _get_json(self, repository: str, revision: str, path: str) -> tuple[t.Any, str]:
        body, link = self._request("GET", repository, revision, path)
        try:
            return json.loads(body), link
        except (ValueError, RecursionError) as e:
            raise self._strange() from e

    def _request(
        self, method: str, repository: str, revision: str, path: str, most: int | None = None
    ) -> tuple[bytes, str]:
        """Return the body, cut off after so many bytes, and the Link header."""
        reason = ""
        for delay in (*self._delays, None):
            try:
                answer = within(self._deadline, lambda: self._ask(method, path, most))
                self.limited_s = None
                return answer
            except urllib.error.HTTPError as e:
                self.limited_s = None
                if method == "HEAD" and 300 <= e.code < 400:
                    return b"", ""
                if e.code not in TRANSIENT:
                    raise self._refusal(repository, revision, e) from e
                if e.code == 429:
                    self.limited_s = limited_s(e.headers, WINDOW_S if delay is None else 0)
                    if delay is None or self.limited_s > delay:
                        raise self._limit(self.limited_s) from e
                reason = f"it answered {e.code}"
            except (UrlsConnectionError, OSError, http.client.HTTPException) as e:
                reason = str(getattr(e, "reason", None) or e) or type(e).__name__
            if delay is not None:
                time.sleep(delay)
        raise GeneralHubError(
            f"The Hub {self.endpoint} could not be asked for {repository} in {len(self._delays) + 1} attempts "
            f"({reason}): check this host's network, name resolution and proxy, then run again"
        )

    def _ask(self, method: str, path: str, most: int | None) -> tuple[bytes, str]:
        with open_url(
            self.endpoint + path,
            method=method,
            headers={"Authorization": f"Bearer {self._token}"} if self._token else {},
            unredirected_headers=["Authorization"],
            # A large file is redirected to another host; that the Hub does so is answer enough.
            follow_redirects="none" if method == "HEAD" else "safe",
            timeout=self._timeout,
            http_agent="ansible-dgx-spark-speculative",
            use_netrc=False,
        ) as response:
            body = response.read(most or MOST_ANSWER_BYTES + 1)
            if len(body) > MOST_ANSWER_BYTES:
                raise self._strange()
            return body, response.headers.get("Link") or ""

    def _limit(self, seconds: float) -> GeneralHubError:
        return GeneralHubError(
            f"The Hub {self.endpoint} limits the requests of this network and answers again in {duration(seconds)}: "
            "wait that long, then run again; requests with a token have a limit of their own"
        )

    def _refusal(self, repository: str, revision: str, error: urllib.error.HTTPError) -> HubError:
        said = Refusal(error.code, error.reason, error.headers.get("X-Error-Code", ""))
        return refusal(self.endpoint, repository, revision, said, bool(self._token))

    def _strange(self) -> GeneralHubError:
        return GeneralHubError(
            f"What answers at {self.endpoint} is not a Hugging Face Hub: check the endpoint, and for a proxy or a "
            "login page in between"
        )


def _remote_file(entry: t.Mapping[str, t.Any]) -> RemoteFile:
    path = entry["path"]
    # A lone surrogate is a ValueError here, too.
    raw = path.encode("utf-8")
    names = raw.split(b"/")
    if CONTROL.search(raw) or len(raw) > MOST_PATH_BYTES or max(map(len, names)) > MOST_NAME_BYTES:
        raise ValueError(path)
    if path.startswith("/") or b".." in names:
        raise ValueError(path)
    lfs = entry.get("lfs") or {}
    # Both become names below blobs/.
    blob = lfs.get("oid") or lfs.get("sha256") or entry["oid"]
    if not BLOB.fullmatch(blob):
        raise ValueError(blob)
    size = lfs.get("size", entry["size"])
    if natural_int(size) is None:
        raise ValueError(size)
    return RemoteFile(path=path, size=size, blob=blob)


def unreadable(cache: object, error: PermissionError) -> str:
    """Return the fix for a cache that cannot be read."""
    return (
        f"The Hugging Face cache {cache} cannot be read ({error.filename}: {error.strerror}): give it back with "
        f"'sudo chown -R {user_name(os.geteuid())}: {cache}', then run again"
    )


def unwritable_path_error(path: Path, cache: Path) -> CacheError:
    owner, user = user_name(path.stat().st_uid), user_name(os.geteuid())
    if os.statvfs(path).f_flag & os.ST_RDONLY:
        return CacheError(
            f"The Hugging Face cache {cache} cannot be written: the file system of {path} is mounted read-only; mount "
            "it for writing, or set huggingface_cache_directory to a directory on another one"
        )
    if owner == user:
        return CacheError(
            f"The Hugging Face cache {cache} cannot be written: {path} is write-protected; allow it with "
            f"'chmod -R u+rwX {cache}', then run again"
        )
    return CacheError(
        f"The Hugging Face cache {cache} cannot be written: {path} belongs to {owner} and not to {user}, as a "
        f"container run by {owner} leaves it; give it back with 'sudo chown -R {user}: {cache}', then run again"
    )


def is_taken_over(path: Path, cache: Path) -> bool:
    """Return whether a change of owner, which follows no link, makes a directory writable."""
    real = Path(os.path.realpath(cache))
    within = real in (path, *path.parents) and Path(os.path.realpath(path)) == path
    # A change of owner creates a missing cache.
    return (within or not real.exists()) and path.stat().st_uid != os.geteuid()


def check_writable(cache: Path, repository: str, take_over: bool = False) -> None:
    """Raise CacheError for the first directory that a download must write to and cannot."""
    cache = Path(os.path.realpath(cache)) if take_over else cache
    folder = folder_name(repository)
    model = cache / folder
    directories = [nearest_existing(cache), cache / ".locks", cache / ".locks" / folder, model, model / "blobs"]
    for top in (model / "refs", model / "snapshots"):
        directories += [Path(parent) for parent, _directories, _files in os.walk(top)]
    for directory in directories:
        if directory.is_dir() and not os.access(directory, os.W_OK | os.X_OK, effective_ids=True):
            read_only = os.statvfs(directory).f_flag & os.ST_RDONLY
            if read_only or not (take_over and is_taken_over(directory, cache)):
                raise unwritable_path_error(directory, cache)


def free_space(path: Path) -> tuple[int, Path]:
    """Free bytes for an ordinary user where a path is or would be, and the mount point."""
    path = nearest_existing(path)
    free = shutil.disk_usage(path).free
    while not path.is_mount():
        path = path.parent
    return free, path


View = dict[str, t.Any]


def view_of_receipt(wanted: ModelSpec, cache: Path, receipt: t.Mapping[str, t.Any]) -> View:
    """Return a repository whose files are all there and unchanged since they were checked."""
    cached = CachedRepository(cache, wanted.id)
    return {
        **_frame(wanted, cached, receipt["commit"]),
        "complete": True,
        "verified": True,
        "bytes_total": sum(file["size"] for file in receipt["files"].values()),
        "bytes_weights": weight_bytes({path: file["size"] for path, file in receipt["files"].items()}),
        "bytes_missing": 0,
        "files": [
            {"path": path, "size": file["size"], "blob": cached.blob(receipt["commit"], path, file["sha256"])}
            for path, file in receipt["files"].items()
        ],
        "incomplete_downloads": [_described(part) for part in cached.orphans([])],
        "source": "receipt",
    }


def view_of_hub(
    wanted: ModelSpec, cache: Path, receipt: t.Mapping[str, t.Any] | None, hub: Hub, take_over: bool = False
) -> View:
    """Return a repository as the Hub lists it, compared with the cache."""
    commit, gated = hub.resolve(wanted.id, receipt_commit(receipt, wanted.revision) or wanted.revision)
    files = choose_files(wanted, hub.files(wanted.id, commit), hub.endpoint)
    cached = CachedRepository(cache, wanted.id)
    missing = cached.missing(commit, files)
    if gated and missing:
        hub.check_access(wanted.id, commit, min(missing, key=lambda file: file.size).path)
    if missing:
        check_writable(cache, wanted.id, take_over)
    return {
        **_frame(wanted, cached, commit),
        "complete": not missing,
        "missing": [{"path": file.path, "size": file.size} for file in missing],
        "bytes_total": sum(file.size for file in files),
        "bytes_weights": weight_bytes({file.path: file.size for file in files}),
        "bytes_missing": cached.bytes_missing(missing),
        "files": [dataclasses.asdict(file) for file in files],
        "gated": gated,
        "incomplete_downloads": [_described(part) for part in cached.orphans(missing)],
        "source": "hub",
    }


def unknown_view(wanted: ModelSpec, cache: Path) -> View:
    """Return a repository of which nothing can be said without the Hub."""
    commit = wanted.revision if COMMIT.fullmatch(wanted.revision) else None
    return _frame(wanted, CachedRepository(cache, wanted.id), commit)


def _frame(wanted: ModelSpec, cached: CachedRepository, commit: str | None) -> View:
    return {
        "id": wanted.id,
        "revision": wanted.revision,
        "include": list(wanted.include),
        "exclude": list(wanted.exclude),
        "commit": commit,
        "directory": str(cached.directory),
        "snapshot": str(cached.snapshot(commit)) if commit else None,
        "complete": False,
        "verified": False,
        "missing": [],
        "bytes_total": None,
        "bytes_weights": None,
        "bytes_missing": None,
        "bytes_on_disk": cached.bytes_on_disk(),
        "files": [],
        "gated": None,
        "incomplete_downloads": [],
        "source": "none",
    }


def configuration_of(view: View) -> View | None:
    """Return what of a repository tells its configuration, as a request; None if all of that is there."""
    if all(matches_any(file["path"], WEIGHTS) for file in view["missing"]):
        return None
    request = {key: view[key] for key in ("id", "revision", "commit", "include")}
    return {**request, "exclude": [*view["exclude"], *WEIGHTS]}


def _described(part: Part) -> dict[str, t.Any]:
    return {"path": str(part.path), "size": part.size}


@dataclasses.dataclass
class Survey:
    """The facts of several repositories."""

    views: list[View]
    errors: list[str]
    token_needed: list[str]


def view(
    wanted: ModelSpec, cache: Path, receipts: Path, hub: Hub | None, take_over: bool = False, verify: bool = False
) -> View:
    """Return the facts of a repository. The Hub is queried only for files without a receipt, and never if it is None.

    With `verify`, files with a receipt are included: its sizes and times prove nothing about the bytes, and only the
    Hub knows the right ones.
    """
    receipt = read_receipt(receipts, wanted.id)
    snapshot = CachedRepository(cache, wanted.id).snapshot(receipt["commit"]) if receipt else None
    asked = verify and hub and not isinstance(hub, OtherHost)
    if receipt and snapshot and not asked and receipt_covers(receipt, wanted) and is_unchanged(receipt, snapshot):
        return {**view_of_receipt(wanted, cache, receipt), "verified": not verify}
    return view_of_hub(wanted, cache, receipt, hub, take_over) if hub else unknown_view(wanted, cache)


def survey(
    wanted: t.Sequence[ModelSpec],
    cache: Path,
    receipts: Path,
    hub: Hub | None,
    take_over: bool = False,
    verify: bool = False,
) -> Survey:
    """Return the facts of all repositories with the problems of each."""
    result = Survey([], [], [])
    for item in wanted:
        try:
            result.views.append(view(item, cache, receipts, hub, take_over, verify))
            continue
        except TokenNeededError as e:
            result.token_needed.append(str(e))
        except GeneralHubError as e:
            result.errors.append(str(e))
            hub = None
        except (HubError, CacheError) as e:
            result.errors.append(str(e))
        except PermissionError as e:
            result.errors.append(unreadable(cache, e))
        result.views.append(unknown_view(item, cache))
    return result


class OtherHost(Hub):
    """The Hub of a host that copies from another one: the other host's facts. The real Hub is not queried."""

    def __init__(self, views: t.Iterable[View]) -> None:
        super().__init__("the other host")
        self._views = {view["id"]: view for view in views}

    def wanted(self, wanted: ModelSpec) -> ModelSpec:
        """Return the same model at the very commit that the other host has."""
        return dataclasses.replace(wanted, revision=self._view(wanted.id)["commit"])

    def _view(self, repository: str) -> View:
        view = self._views.get(repository) or {}
        if not view.get("commit") or not view.get("files"):
            raise HubError(f"The other host does not know what the model {repository} consists of")
        return view

    def resolve(self, repository: str, revision: str) -> tuple[str, bool]:
        return str(self._view(repository)["commit"]), False

    def _ask_for_files(self, repository: str, commit: str) -> list[RemoteFile]:
        return [RemoteFile(file["path"], file["size"], file["blob"]) for file in self._view(repository)["files"]]

    def _ask_for_json(self, repository: str, commit: str, path: str) -> dict[str, t.Any] | None:
        return None

    def check_access(self, repository: str, commit: str, path: str) -> None:
        return None


class CachedModelFiles(ModelFiles):
    """The small files of a model: those in the cache, else the Hub's, if it has to be asked about the model anyway."""

    def __init__(self, view: View, hub: Hub | None) -> None:
        super().__init__(Path(view["snapshot"] or os.devnull))
        self._wanted, self._commit = ModelSpec.of(view), view["commit"]
        self._hub = hub if view["source"] == "hub" else None

    def json(self, name: str) -> dict[str, t.Any] | None:
        cached = super().json(name)
        listed = None if cached else self._listed(name)
        # The server does not see files that were not requested.
        if self._hub and listed and listed.size <= MOST_BYTES and is_wanted(name, self._wanted):
            return self._hub.small_json(self._wanted.id, self._commit, name)
        return cached

    def tokenizer(self) -> frozenset[str]:
        listed = self._listed(TOKENIZER)
        return super().tokenizer() or frozenset({listed.blob} if listed else ())

    def _listed(self, name: str) -> RemoteFile | None:
        files = self._hub.files(self._wanted.id, self._commit) if self._hub else []
        return next((file for file in files if file.path == name), None)

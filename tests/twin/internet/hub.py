# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Simulate the twin's internet: image hosts, a Hugging Face Hub with its file network, a file host, a Debian mirror.

Requests use TLS or plain HTTP, as with the real hosts. Each request is counted, and a test can set faults for it.
"""

from __future__ import annotations

import base64
import dataclasses
import fnmatch
import functools
import hashlib
import http.client
import http.server
import io
import json
import pathlib
import re
import secrets
import socket
import ssl
import sys
import threading
import time
import typing as t
import urllib.parse

REGISTRY_HOST = "nvcr.io"
HUB_HOST = "huggingface.co"
CDN_HOST = "cdn-lfs.huggingface.co"
VOCABULARY_HOST = "openaipublic.blob.core.windows.net"
DOCKER_HUB_HOST, DOCKER_HUB_INDEX, DOCKER_HUB_TOKENS = "registry-1.docker.io", "index.docker.io", "auth.docker.io"
GITHUB_HOST = "ghcr.io"
PACKAGE_HOST = "packages.dgx-spark-twin.test"

# Valid tokens of the Hub: True if their owner has accepted the licences of gated repositories.
TOKENS = {"hf_twin_valid": True, "hf_twin_unaccepted": False}
REGISTRY_TOKEN = "anonymous-pull"
# Images in the registry that all twins of a machine share.
KEPT_IMAGES = "vllm/"
DOCKER_HUB = (f"https://{DOCKER_HUB_TOKENS}/token", "registry.docker.io", ("library/", KEPT_IMAGES))
# Each image host: the URL of its tokens, the service name in its challenge, and its images.
IMAGE_HOSTS: dict[str, tuple[str, str, tuple[str, ...]]] = {
    REGISTRY_HOST: (f"https://{REGISTRY_HOST}/proxy_auth", "", ("nvidia/",)),
    DOCKER_HUB_HOST: DOCKER_HUB,
    DOCKER_HUB_INDEX: DOCKER_HUB,
    GITHUB_HOST: (f"https://{GITHUB_HOST}/token", GITHUB_HOST, ("open-webui/",)),
}
LFS_POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:{oid}\nsize {size}\n"
LAST_MODIFIED = "2025-08-26T17:25:03.000Z"
CHUNK = 1 << 18

Json = dict[str, t.Any]


# --- Faults and counters ---------------------------------------------------------------------------------------------

ACTIONS: dict[str, set[str]] = {
    "status": {"status", "body", "retry_after"},
    "cut": {"after_bytes"},
    "slow": {"bytes_per_second"},
    "corrupt": {"after_bytes"},
    # A request for a range is answered with 416 if it is refused, else with the whole file.
    "no_ranges": {"refused"},
    # The file is another one than the listing says.
    "etag": {"etag"},
    "gate": {"repository"},
    "missing": set(),
    "unauthorized": set(),
    "down": set(),
}
REQUIRED = {"status": "status", "cut": "after_bytes", "slow": "bytes_per_second", "gate": "repository", "etag": "etag"}


def fault_error(fault: t.Any) -> str | None:
    """Return the error in a fault's definition, if there is one."""
    if not isinstance(fault, dict) or fault.get("action") not in ACTIONS:
        return f"A fault has an `action`, one of {', '.join(ACTIONS)}: {fault!r}"
    action = fault["action"]
    unknown = set(fault) - ACTIONS[action] - {"action", "host", "path", "times"}
    if unknown:
        return f"The fault {action!r} has no {', '.join(sorted(unknown))}."
    needed = REQUIRED.get(action)
    if needed and fault.get(needed) is None:
        return f"The fault {action!r} needs {needed}."
    if fault.get("bytes_per_second") is not None and fault["bytes_per_second"] <= 0:
        return "bytes_per_second must be positive."
    return None


class Faults:
    """The active faults. A fault with `times` ends after this number of requests."""

    def __init__(self) -> None:
        self._faults: list[Json] = []
        self._lock = threading.Lock()

    def replace(self, faults: list[Json]) -> None:
        with self._lock:
            self._faults = [dict(fault) for fault in faults]

    def listing(self) -> list[Json]:
        with self._lock:
            return [dict(fault) for fault in self._faults]

    def strike(self, action: str, places: t.Iterable[tuple[str, str]]) -> Json | None:
        """Return the first fault with this action for one of these (host, path) places, and count its use."""
        with self._lock:
            for fault in self._faults:
                if fault["action"] != action or fault.get("times") == 0:
                    continue
                if any(
                    fnmatch.fnmatchcase(host, fault.get("host") or "*")
                    and fnmatch.fnmatchcase(path, fault.get("path") or "*")
                    for host, path in places
                ):
                    if fault.get("times") is not None:
                        fault["times"] -= 1
                    return dict(fault)
        return None

    def rate(self, slow: Json | None) -> float | None:
        """Return the limit of a transfer in bytes per second, while a slow fault is active."""
        with self._lock:
            lasts = slow and any(fault["action"] == "slow" for fault in self._faults)
        return slow["bytes_per_second"] if slow and lasts else None

    def gated(self, repository: str) -> bool:
        """Return whether a test has gated this repository."""
        with self._lock:
            return any(fault["action"] == "gate" and fault["repository"] == repository for fault in self._faults)


class Counters:
    """The requests with their clients, and the bytes of content sent."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.reset()

    def reset(self) -> None:
        with self._lock:
            self._requests: list[Json] = []
            self._bytes: dict[str, dict[str, int]] = {}

    def request(self, entry: Json) -> None:
        with self._lock:
            self._requests.append(entry)

    def sent(self, entry: Json, name: str, count: int) -> None:
        """Add bytes to a request, and to its client's sum of `host/path`."""
        with self._lock:
            entry["bytes"] += count
            account = self._bytes.setdefault(entry["client"], {})
            account[name] = account.get(name, 0) + count

    def report(self) -> Json:
        with self._lock:
            # A deep copy, because current requests continue to count.
            return t.cast(
                "Json",
                json.loads(
                    json.dumps(
                        {"requests": self._requests, "bytes": self._bytes, "total_requests": len(self._requests)}
                    )
                ),
            )


# --- The Hub's content -----------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class File:
    """A file of a repository, with its ids in git and LFS."""

    path: pathlib.Path
    name: str
    size: int
    blob: str
    lfs: str | None

    @property
    def etag(self) -> str:
        return self.lfs or self.blob

    def entry(self) -> Json:
        """Return the file's entry in a listing."""
        result: Json = {"type": "file", "oid": self.blob, "size": self.size, "path": self.name}
        if self.lfs:
            result["lfs"] = {"oid": self.lfs, "size": self.size, "pointerSize": len(pointer(self.lfs, self.size))}
        return result


def pointer(oid: str, size: int) -> bytes:
    """Return the pointer that git stores for a file in LFS."""
    return LFS_POINTER.format(oid=oid, size=size).encode()


def blob_id(size: int, chunks: t.Iterable[bytes]) -> str:
    """Return git's id of a content."""
    digest = hashlib.sha1(f"blob {size}\0".encode(), usedforsecurity=False)
    for chunk in chunks:
        digest.update(chunk)
    return digest.hexdigest()


def chunks_of(path: pathlib.Path) -> t.Iterator[bytes]:
    with path.open("rb") as stream:
        while chunk := stream.read(CHUNK):
            yield chunk


@dataclasses.dataclass(frozen=True)
class Repository:
    """A model repository with one commit."""

    id: str
    sha: str
    references: dict[str, str]
    files: dict[str, File]
    gated: bool
    license: str = ""

    def commit(self, revision: str) -> str | None:
        """Return the commit of a revision."""
        return self.references.get(revision) or (revision if revision == self.sha else None)


class Content:
    """The repositories in a directory: their files in ORG/NAME/ beside ORG/NAME.json."""

    def __init__(self, root: pathlib.Path) -> None:
        self.root = root
        self._files: dict[tuple[str, int, int, bool], File] = {}
        self._lock = threading.Lock()

    def repository(self, name: str) -> Repository | None:
        """Return the repository with this id. It is read each time, so that tests can change it."""
        description = self.root / f"{name}.json"
        if not re.fullmatch(r"[\w.-]+/[\w.-]+", name) or ".." in name or not description.is_file():
            return None
        facts = json.loads(description.read_text())
        top = self.root / name
        paths = sorted(path for path in top.rglob("*") if path.is_file())
        files = [self._file(path, path.relative_to(top).as_posix(), facts.get("lfs") or []) for path in paths]
        return Repository(
            id=facts["id"],
            sha=facts["sha"],
            references={"main": facts["sha"], **(facts.get("refs") or {})},
            files={file.name: file for file in files},
            gated=bool(facts.get("gated")),
            license=facts.get("license") or "",
        )

    def _file(self, path: pathlib.Path, name: str, patterns: list[str]) -> File:
        lfs = any(fnmatch.fnmatch(name, pattern) or fnmatch.fnmatch(path.name, pattern) for pattern in patterns)
        stat = path.stat()
        key = (str(path), stat.st_size, stat.st_mtime_ns, lfs)
        with self._lock:
            if key not in self._files:
                oid = None
                if lfs:
                    digest = hashlib.sha256()
                    for chunk in chunks_of(path):
                        digest.update(chunk)
                    oid = digest.hexdigest()
                stored = [pointer(oid, stat.st_size)] if oid else chunks_of(path)
                size = len(pointer(oid, stat.st_size)) if oid else stat.st_size
                self._files[key] = File(path, name, stat.st_size, blob_id(size, stored), oid)
            return self._files[key]


def tree(repository: Repository, folder: str, recursive: bool, expand: bool) -> list[Json] | None:
    """Return the listing of a directory; None if it does not exist."""
    prefix = f"{folder.strip('/')}/" if folder.strip("/") else ""
    names = [name for name in repository.files if name.startswith(prefix)]
    if prefix and not names:
        return None
    entries: list[Json] = []
    folders: set[str] = set()
    for name in names:
        parents = name[len(prefix) :].split("/")[:-1]
        for depth in range(1, len(parents) + 1 if recursive else min(len(parents), 1) + 1):
            inner = prefix + "/".join(parents[:depth])
            if inner not in folders:
                folders.add(inner)
                oid = hashlib.sha1(inner.encode(), usedforsecurity=False).hexdigest()
                entries.append({"type": "directory", "oid": oid, "size": 0, "path": inner})
        if recursive or not parents:
            entries.append(repository.files[name].entry())
    if expand:
        commit = {"id": repository.sha, "title": "Upload files", "date": LAST_MODIFIED}
        entries = [{**entry, "lastCommit": commit} for entry in entries]
    return entries


# --- Answers ---------------------------------------------------------------------------------------------------------


@dataclasses.dataclass
class Answer:
    """A response before faults are applied. Its bytes count for `name` if it is set, else for the requested path."""

    status: int
    headers: dict[str, str]
    body: t.BinaryIO
    length: int
    name: str | None = None


def text(status: int, content: str | bytes, kind: str = "text/plain; charset=utf-8", **headers: str) -> Answer:
    data = content.encode() if isinstance(content, str) else content
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Answer(status, {"Content-Type": kind, **named}, io.BytesIO(data), len(data))


def as_json(status: int, document: t.Any, **headers: str) -> Answer:
    return text(status, json.dumps(document), "application/json; charset=utf-8", **headers)


def refusal(status: int, message: str, code: str | None = None) -> Answer:
    """Return an error in the Hub's form: a code for programs and a message for users, both in headers."""
    headers = {"X_Error_Message": message, **({"X_Error_Code": code} if code else {})}
    return as_json(status, {"error": message}, **headers)


def unauthorized(host: str, path: str) -> Answer:
    """Return a host's response to a client without credentials."""
    if host in IMAGE_HOSTS or host == DOCKER_HUB_TOKENS:
        answer = as_json(401, {"errors": [{"code": "UNAUTHORIZED", "message": "authentication required"}]})
        answer.headers["Docker-Distribution-Api-Version"] = "registry/2.0"
        realm, service, _ = IMAGE_HOSTS.get(host, ("", "", ()))
        if realm and realm != f"https://{host}{path}":
            name = re.fullmatch(r"/v2/(.+)/(?:manifests|blobs|tags)/[^/]+", path)
            asked = [("realm", realm), ("service", service), ("scope", f"repository:{name[1]}:pull" if name else "")]
            answer.headers["WWW-Authenticate"] = "Bearer " + ",".join(
                f'{key}="{value}"' for key, value in asked if value
            )
        return answer
    if host == HUB_HOST:
        return refusal(401, "Invalid username or password.")
    return text(401, "Unauthorized")


def missing(host: str) -> Answer:
    """Return a host's response for a missing file."""
    if host == HUB_HOST:
        return refusal(404, "Entry not found", "EntryNotFound")
    if host in IMAGE_HOSTS:
        return as_json(404, {"errors": [{"code": "MANIFEST_UNKNOWN", "message": "manifest unknown"}]})
    if host == VOCABULARY_HOST:
        message = "The specified blob does not exist."
        return text(404, f"<Error><Code>BlobNotFound</Code><Message>{message}</Message></Error>", "application/xml")
    return text(404, "<Error><Code>NoSuchKey</Code></Error>")


def ranged(answer: Answer, wanted: str | None) -> Answer:
    """Return the part of a file that a Range header requests."""
    match = re.fullmatch(r"bytes=(\d*)-(\d*)", (wanted or "").strip())
    if answer.status != 200 or not match or match[0] == "bytes=-":
        return answer
    size = answer.length
    if match[1]:
        first = int(match[1])
        last = min(int(match[2]) if match[2] else size - 1, size - 1)
    else:
        first, last = max(size - int(match[2]), 0), size - 1
    if first >= size or first > last:
        answer.body.close()
        return text(416, "", Content_Range=f"bytes */{size}")
    answer.body.seek(first)
    headers = {**answer.headers, "Content-Range": f"bytes {first}-{last}/{size}"}
    return Answer(206, headers, answer.body, last - first + 1, answer.name)


def file_answer(path: pathlib.Path, etag: str, headers: dict[str, str]) -> Answer:
    basic = {"Content-Type": "application/octet-stream", "Accept-Ranges": "bytes", "ETag": f'"{etag}"'}
    return Answer(200, {**basic, **headers}, path.open("rb"), path.stat().st_size)


@dataclasses.dataclass(frozen=True)
class Request:
    """The parts of a request that the hosts need."""

    method: str
    path: str
    query: dict[str, str]
    headers: t.Mapping[str, str]
    body: bytes

    @property
    def authorization(self) -> str:
        return self.headers.get("Authorization") or ""


class World:
    """The hosts and their responses."""

    def __init__(
        self,
        content: pathlib.Path,
        vocabularies: pathlib.Path,
        registry: tuple[str, int] = ("127.0.0.1", 5000),
        packages: pathlib.Path = pathlib.Path("/srv/packages"),
        kept: tuple[str, int] = ("127.0.0.1", 5001),
    ) -> None:
        self.content = Content(content)
        self.vocabularies = vocabularies
        self.packages = packages
        self.registry = registry
        self.kept = kept
        self.faults = Faults()
        self.counters = Counters()
        # Links to the file network by signature: the path there and the path at the Hub.
        self.links: dict[str, tuple[str, str]] = {}

    def hosts(self) -> dict[str, t.Callable[[Request], Answer]]:
        return {
            **{host: functools.partial(self.image_host, host) for host in IMAGE_HOSTS},
            DOCKER_HUB_TOKENS: functools.partial(self.image_host, DOCKER_HUB_TOKENS),
            HUB_HOST: self.hub,
            CDN_HOST: self.file_network,
            VOCABULARY_HOST: self.vocabulary_host,
            PACKAGE_HOST: self.package_host,
        }

    def places(self, host: str, request: Request) -> list[tuple[str, str]]:
        """Return the places of a request for faults. For a signed link, the original file is one of them."""
        _, origin = self.links.get(request.query.get("Signature", ""), ("", ""))
        return [(host, request.path), *([(HUB_HOST, origin)] if host == CDN_HOST and origin else [])]

    # The Hub

    def hub(self, request: Request) -> Answer:
        token = request.authorization.partition(" ")[2].strip()
        if request.authorization and token not in TOKENS:
            return refusal(401, "Invalid credentials in Authorization header")
        if request.path == "/api/whoami-v2":
            return self.whoami(token)
        if request.path.startswith("/api/telemetry/"):
            return as_json(200, {})
        if match := re.fullmatch(r"/api/models/([^/]+/[^/]+)(?:/([^/]+))?(?:/([^/]+))?(?:/(.*))?", request.path):
            return self.models_interface(request, token, *match.groups())
        if match := re.fullmatch(r"/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", request.path):
            return self.resolve(request, token, *match.groups())
        return text(404, "Not Found")

    def whoami(self, token: str) -> Answer:
        if not token:
            return refusal(401, "Invalid username or password.")
        access = {"displayName": "twin", "role": "read"}
        return as_json(
            200,
            {
                "type": "user",
                "id": "64a1f0c2e4b0a1b2c3d4e5f6",
                "name": "twin",
                "fullname": "Twin",
                "orgs": [],
                "auth": {"type": "access_token", "accessToken": access},
            },
        )

    def missing(self, token: str) -> Answer:
        """Return the error for a missing repository. Without a token, the Hub hides which repositories exist."""
        if token:
            return refusal(404, "Repository not found", "RepoNotFound")
        return refusal(401, "Invalid username or password.")

    def gate(self, repository: Repository, token: str) -> Answer | None:
        """Return the error for a gated repository's files, unless the token has access."""
        if not (repository.gated or self.faults.gated(repository.id)) or TOKENS.get(token):
            return None
        if not token:
            message = (
                f"Access to model {repository.id} is restricted. "
                "You must have access to it and be authenticated to access it. Please log in."
            )
            return refusal(401, message, "GatedRepo")
        message = (
            f"Access to model {repository.id} is restricted and you are not in the authorized list. "
            f"Visit https://{HUB_HOST}/{repository.id} to ask for access."
        )
        return refusal(403, message, "GatedRepo")

    def models_interface(
        self, request: Request, token: str, name: str, what: str | None, revision: str | None, rest: str | None
    ) -> Answer:
        """Return the facts of a repository, or its listing. Both are public, also for gated repositories."""
        repository = self.content.repository(name)
        if repository is None:
            return self.missing(token)
        if what == "auth-check" and revision is None:
            return self.gate(repository, token) or as_json(200, {})
        if what == "refs" and revision is None:
            branches = [
                {"name": key, "ref": f"refs/heads/{key}", "targetCommit": value}
                for key, value in repository.references.items()
            ]
            return as_json(200, {"branches": branches, "tags": [], "converts": []})
        if what not in (None, "revision", "tree", "paths-info") or (what and not revision):
            return text(404, "Not Found")
        commit = repository.commit(urllib.parse.unquote(revision or "main"))
        if commit is None:
            return refusal(404, f"Invalid rev id: {urllib.parse.unquote(revision or '')}", "RevisionNotFound")
        if what == "tree":
            listing = tree(
                repository,
                urllib.parse.unquote(rest or ""),
                request.query.get("recursive", "").lower() in ("true", "1"),
                request.query.get("expand", "").lower() in ("true", "1"),
            )
            if listing is None:
                return refusal(404, f'{rest} does not exist on "{revision}"', "EntryNotFound")
            return as_json(200, listing)
        if what == "paths-info":
            return self.paths_info(request, repository)
        return as_json(200, self.facts(repository, commit, "blobs" in request.query))

    def facts(self, repository: Repository, commit: str, blobs: bool) -> Json:
        siblings: list[Json] = []
        for file in repository.files.values():
            sibling: Json = {"rfilename": file.name}
            if blobs:
                sibling.update(blobId=file.blob, size=file.size)
                if file.lfs:
                    pointer_size = file.entry()["lfs"]["pointerSize"]
                    sibling["lfs"] = {"sha256": file.lfs, "size": file.size, "pointerSize": pointer_size}
            siblings.append(sibling)
        gated = "manual" if repository.gated or self.faults.gated(repository.id) else False
        return {
            "_id": hashlib.sha1(repository.id.encode(), usedforsecurity=False).hexdigest()[:24],
            "id": repository.id,
            "modelId": repository.id,
            "author": repository.id.partition("/")[0],
            "sha": commit,
            "lastModified": LAST_MODIFIED,
            "createdAt": LAST_MODIFIED,
            "private": False,
            "gated": gated,
            "disabled": False,
            "downloads": 0,
            "likes": 0,
            "tags": [f"license:{repository.license}"] if repository.license else [],
            "siblings": siblings,
            **({"cardData": {"license": repository.license}} if repository.license else {}),
        }

    def paths_info(self, request: Request, repository: Repository) -> Answer:
        if request.method != "POST":
            return text(404, "Not Found")
        if "json" in (request.headers.get("Content-Type") or ""):
            paths = json.loads(request.body or b"{}").get("paths") or []
        else:
            paths = urllib.parse.parse_qs(request.body.decode()).get("paths") or []
        wanted = [paths] if isinstance(paths, str) else paths
        return as_json(200, [repository.files[name].entry() for name in wanted if name in repository.files])

    def resolve(self, request: Request, token: str, name: str, revision: str, filename: str) -> Answer:
        """Return a small file, or for a file in LFS a link to the file network."""
        repository = self.content.repository(name)
        if repository is None:
            return self.missing(token)
        if refused := self.gate(repository, token):
            return refused
        commit = repository.commit(urllib.parse.unquote(revision))
        if commit is None:
            return refusal(404, f"Invalid rev id: {urllib.parse.unquote(revision)}", "RevisionNotFound")
        file = repository.files.get(urllib.parse.unquote(filename))
        if file is None:
            answer = missing(HUB_HOST)
            answer.headers["X-Repo-Commit"] = commit
            return answer
        headers = {"X-Repo-Commit": commit}
        if not file.lfs:
            return ranged(file_answer(file.path, file.blob, headers), request.headers.get("Range"))
        path = f"/repos/{repository.id}/{file.lfs}"
        signature = hashlib.sha256(f"{SECRET}{path} {request.path}".encode()).hexdigest()
        self.links[signature] = (path, request.path)
        expires = int(time.time()) + 3600
        headers.update(
            {
                "Location": f"https://{CDN_HOST}{path}?Expires={expires}&Signature={signature}&Key-Pair-Id=TWIN",
                "X-Linked-Size": str(file.size),
                "X-Linked-ETag": f'"{file.lfs}"',
                "Accept-Ranges": "bytes",
                "ETag": f'"{file.blob}"',
            }
        )
        answer = text(302, f"Found. Redirecting to {headers['Location']}")
        answer.headers.update(headers)
        return answer

    def file_network(self, request: Request) -> Answer:
        """Return a file for a link that the Hub has signed. No other authorization is needed."""
        if request.authorization:
            message = "Only one auth mechanism allowed"
            return text(400, f"<Error><Code>InvalidArgument</Code><Message>{message}</Message></Error>")
        path, origin = self.links.get(request.query.get("Signature", ""), ("", ""))
        match = re.fullmatch(r"/repos/([^/]+/[^/]+)/([0-9a-f]{64})", request.path)
        repository = self.content.repository(match[1]) if match else None
        if not match or path != request.path or repository is None:
            return text(403, "<Error><Code>AccessDenied</Code><Message>Access denied</Message></Error>")
        file = next((file for file in repository.files.values() if file.lfs == match[2]), None)
        if file is None:
            return missing(CDN_HOST)
        answer = file_answer(file.path, match[2], {})
        answer.name = f"{HUB_HOST}{origin}"
        return ranged(answer, request.headers.get("Range"))

    # The vocabularies

    def vocabulary_host(self, request: Request) -> Answer:
        match = re.fullmatch(r"/encodings/([\w.-]+)", request.path)
        path = self.vocabularies / match[1] if match else None
        if path is None or not path.is_file():
            return missing(VOCABULARY_HOST)
        digest = hashlib.md5(path.read_bytes(), usedforsecurity=False)
        checksum = base64.b64encode(digest.digest()).decode()
        headers = {"x-ms-blob-type": "BlockBlob", "Content-MD5": checksum}
        answer = file_answer(path, f"0x{digest.hexdigest()[:15].upper()}", headers)
        return ranged(answer, request.headers.get("Range"))

    # The Debian mirror

    def package_host(self, request: Request) -> Answer:
        # apt quotes the plus sign in a version.
        match = re.fullmatch(r"/debian/((?:[\w.+~-]+/)*[\w.+~-]+)", urllib.parse.unquote(request.path))
        path = self.packages / match[1] if match and ".." not in match[1].split("/") else None
        if path is None or not path.is_file():
            return missing(PACKAGE_HOST)
        stat = path.stat()
        answer = file_answer(path, f"{stat.st_size:x}-{stat.st_mtime_ns:x}", {})
        return ranged(answer, request.headers.get("Range"))

    # The image host

    def image_host(self, host: str, request: Request) -> Answer:
        """Return responses of Docker's registry, which needs an anonymous token as on the real hosts."""
        if any(realm == f"https://{host}{request.path}" for realm, _, _ in IMAGE_HOSTS.values()):
            return as_json(200, {"token": REGISTRY_TOKEN, "expires_in": 600})
        if host not in IMAGE_HOSTS or not request.path.startswith("/v2"):
            return text(404, "Not Found")
        if request.authorization != f"Bearer {REGISTRY_TOKEN}":
            return unauthorized(host, request.path)
        if request.method not in ("GET", "HEAD"):
            return as_json(
                403, {"errors": [{"code": "DENIED", "message": "requested access to the resource is denied"}]}
            )
        image = request.path.removeprefix("/v2").lstrip("/")
        if image and not image.startswith(IMAGE_HOSTS[host][2]):
            return missing(host)
        return self.registry_answer(host, request, self.kept if image.startswith(KEPT_IMAGES) else self.registry)

    def registry_answer(self, host: str, request: Request, registry: tuple[str, int]) -> Answer:
        connection = http.client.HTTPConnection(*registry, timeout=60)
        query = f"?{urllib.parse.urlencode(request.query)}" if request.query else ""
        headers = {name: request.headers[name] for name in ("Accept", "Range") if name in request.headers}
        headers.update({"Host": host, "X-Forwarded-Proto": "https"})
        try:
            connection.request(request.method, f"{request.path}{query}", headers=headers)
            response = connection.getresponse()
        except OSError as error:
            connection.close()
            return text(502, f"The registry does not answer: {error}")
        dropped = {"connection", "date", "server", "transfer-encoding", "content-length", "keep-alive"}
        kept = {name: value for name, value in response.getheaders() if name.lower() not in dropped}
        if request.method == "HEAD":
            length = int(response.getheader("Content-Length") or 0)
            response.close()
            return Answer(response.status, kept, io.BytesIO(), length)
        if response.length is None:
            data = response.read()
            return Answer(response.status, kept, io.BytesIO(data), len(data))
        return Answer(response.status, kept, t.cast("t.BinaryIO", response), response.length)


SECRET = secrets.token_hex(16)


# --- Servers ---------------------------------------------------------------------------------------------------------


class Cut(Exception):
    """The connection is to be cut."""


class Handler(http.server.BaseHTTPRequestHandler):
    """Handler that counts requests, applies faults, and passes requests to the host."""

    protocol_version = "HTTP/1.1"
    server_version = "twin"
    sys_version = ""
    timeout = 120
    world: World
    # The hosts of this handler; None for all hosts.
    reached: t.ClassVar[frozenset[str] | None] = None

    def setup(self) -> None:
        if isinstance(self.request, ssl.SSLSocket):
            self.request.settimeout(10)
            self.request.do_handshake()
        super().setup()

    def log_message(self, format: str, *arguments: t.Any) -> None:
        """Log nothing, because the counters have more."""

    def parsed(self) -> Request:
        address = urllib.parse.urlsplit(self.path)
        query = dict(urllib.parse.parse_qsl(address.query, keep_blank_values=True))
        length = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(length) if length else b""
        # Docker repeats its Accept header, and a plain dictionary would keep only one.
        names = {name.title() for name in self.headers}
        headers = {name: ", ".join(self.headers.get_all(name) or []) for name in names}
        # Parts are unquoted where they are used: a revision may contain a quoted slash.
        return Request(self.command, address.path, query, headers, body)

    def serve(self) -> None:
        request = self.parsed()
        host = (self.headers.get("Host") or "").partition(":")[0].lower()
        entry: Json = {
            "time": time.time(),
            "client": self.client_address[0],
            "method": request.method,
            "host": host,
            "path": request.path,
            "status": None,
            "bytes": 0,
            "range": self.headers.get("Range"),
            "authorized": bool(request.authorization),
        }
        self.world.counters.request(entry)
        places = self.world.places(host, request)
        try:
            if self.world.faults.strike("down", places):
                raise Cut
            if fault := self.world.faults.strike("status", places):
                body = fault.get("body")
                answer = (
                    text(fault["status"], body) if body is not None else as_json(fault["status"], {"error": "twin"})
                )
                if "retry_after" in fault:
                    # The Hub's response to too many requests.
                    seconds = int(fault["retry_after"])
                    answer.headers |= {"Retry-After": str(seconds), "RateLimit": f'"resolvers";r=0;t={seconds}'}
            elif self.world.faults.strike("unauthorized", places):
                answer = unauthorized(host, request.path)
            elif self.world.faults.strike("missing", places):
                answer = missing(host)
            else:
                answer = self.answered(host, request, places)
            with answer.body:
                self.send(request, entry, answer, places)
        except (Cut, OSError):
            # A cut line ends without a TLS close message.
            self.close_connection = True
            self.connection.close()

    def answered(self, host: str, request: Request, places: list[tuple[str, str]]) -> Answer:
        """Return a host's answer, with the faults of a file in it."""
        if "Range" in request.headers and (fault := self.world.faults.strike("no_ranges", places)):
            if fault.get("refused"):
                return text(416, "")
            headers = {name: value for name, value in request.headers.items() if name != "Range"}
            request = dataclasses.replace(request, headers=headers)
        respond = self.world.hosts().get(host) if self.reached is None or host in self.reached else None
        answer = respond(request) if respond else text(404, f"The twin does not serve {host}.")
        if fault := self.world.faults.strike("etag", places):
            answer.headers["X-Linked-ETag" if answer.status == 302 else "ETag"] = f'"{fault["etag"]}"'
        return answer

    def send(self, request: Request, entry: Json, answer: Answer, places: list[tuple[str, str]]) -> None:
        entry["status"] = answer.status
        self.send_response(answer.status)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(answer.length))
        self.end_headers()
        if request.method == "HEAD" or not answer.length:
            return
        # Faults of a transfer hit only content, not errors and redirects.
        faults = self.world.faults if answer.status in (200, 206) else Faults()
        slow = faults.strike("slow", places)
        self.transfer(
            answer,
            lambda count: self.world.counters.sent(entry, answer.name or f"{entry['host']}{entry['path']}", count),
            lambda: faults.rate(slow),
            faults.strike("corrupt", places),
            faults.strike("cut", places),
        )

    def transfer(
        self,
        answer: Answer,
        count: t.Callable[[int], None],
        allowed: t.Callable[[], float | None],
        corrupt: Json | None,
        cut: Json | None,
    ) -> None:
        rate = allowed()
        size = max(1, min(CHUNK, int(rate / 10))) if rate else CHUNK
        end = min(answer.length, cut["after_bytes"]) if cut else answer.length
        spoilt = corrupt.get("after_bytes") if corrupt else None
        if corrupt and (spoilt is None or spoilt >= answer.length):
            spoilt = answer.length // 2
        started, sent = time.monotonic(), 0
        while sent < end:
            chunk = answer.body.read(min(size, end - sent))
            if not chunk:
                raise Cut
            if spoilt is not None and sent <= spoilt < sent + len(chunk):
                changed = bytearray(chunk)
                changed[spoilt - sent] ^= 0xFF
                chunk = bytes(changed)
            # Count first, so that a received byte is always counted.
            count(len(chunk))
            self.wfile.write(chunk)
            sent += len(chunk)
            if rate and (rate := allowed()):
                time.sleep(max(0.0, started + sent / rate - time.monotonic()))
        if sent < answer.length:
            raise Cut

    do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = serve


class PlainHandler(Handler):
    """Handler without TLS, for hosts that use plain HTTP."""

    reached: t.ClassVar[frozenset[str] | None] = frozenset({PACKAGE_HOST})


class ControlHandler(http.server.BaseHTTPRequestHandler):
    """The interface for tests."""

    protocol_version = "HTTP/1.1"
    world: World

    def log_message(self, format: str, *arguments: t.Any) -> None:
        """Log nothing."""

    def reply(self, status: int, document: t.Any) -> None:
        data = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self) -> None:
        if self.path == "/counters":
            self.reply(200, self.world.counters.report())
        elif self.path == "/faults":
            self.reply(200, self.world.faults.listing())
        else:
            self.reply(404, {"error": f"There is no {self.path}."})

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.path == "/counters/reset":
            self.world.counters.reset()
            self.reply(200, {})
        elif self.path == "/faults":
            self.replace_faults(body)
        else:
            self.reply(404, {"error": f"There is no {self.path}."})

    def replace_faults(self, body: bytes) -> None:
        try:
            faults = json.loads(body)
        except ValueError as error:
            return self.reply(400, {"error": f"The faults are not JSON: {error}"})
        if not isinstance(faults, list):
            return self.reply(400, {"error": "The faults are not a list."})
        wrong = next((error for error in map(fault_error, faults) if error), None)
        if wrong:
            return self.reply(400, {"error": wrong})
        self.world.faults.replace(faults)
        return self.reply(200, {})


class Server(http.server.ThreadingHTTPServer):
    """A server, optionally with TLS, that ignores disconnected clients."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(
        self,
        address: tuple[str, int],
        handler: type[http.server.BaseHTTPRequestHandler],
        world: World,
        context: ssl.SSLContext | None = None,
    ) -> None:
        self.context = context
        super().__init__(address, type(handler.__name__, (handler,), {"world": world}))

    def get_request(self) -> tuple[t.Any, t.Any]:
        connection, address = super().get_request()
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self.context:
            # The handshake waits for the client, so it is done in the request's own thread.
            connection = self.context.wrap_socket(connection, server_side=True, do_handshake_on_connect=False)
        return connection, address

    def shutdown_request(self, request: t.Any) -> None:
        try:
            super().shutdown_request(request)
        except OSError:
            request.close()

    def handle_error(self, request: t.Any, client_address: t.Any) -> None:
        """Ignore clients that disconnect or do not trust the certificate. Report other errors."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)


def main() -> None:
    world = World(pathlib.Path("/srv/hub"), pathlib.Path("/srv/vocabularies"))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain("/srv/tls/server.pem")
    front = Server(("", 443), Handler, world, context)
    plain = Server(("", 80), PlainHandler, world)
    control = Server(("", 8099), ControlHandler, world)
    for server in (front, plain):
        threading.Thread(target=server.serve_forever, daemon=True).start()
    control.serve_forever()


if __name__ == "__main__":
    main()

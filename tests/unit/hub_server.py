# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A Hugging Face Hub in a thread: the routes that the collection and huggingface_hub use, and faults."""

from __future__ import annotations

import contextlib
import dataclasses
import fnmatch
import hashlib
import time
import typing as t
import urllib.parse

from tests.unit import web

COMMIT = "0123456789abcdef0123456789abcdef01234567"
ACCEPTED = "hf_accepted"
UNACCEPTED = "hf_unaccepted"


@dataclasses.dataclass
class Model:
    files: dict[str, bytes]
    # Files stored by their sha256; the others by git's sha1.
    large: set[str] = dataclasses.field(default_factory=set)
    commit: str = COMMIT
    revisions: tuple[str, ...] = ("main",)
    gated: bool = False
    # What the listing says of files that nobody writes for a test.
    claimed: dict[str, int] = dataclasses.field(default_factory=dict)

    def blob(self, path: str) -> str:
        data = self.files[path]
        if path in self.large:
            return hashlib.sha256(data).hexdigest()
        return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()

    def entry(self, path: str) -> dict[str, t.Any]:
        size = self.claimed.get(path, len(self.files[path]))
        entry: dict[str, t.Any] = {"type": "file", "path": path, "size": size, "oid": self.blob(path)}
        if path in self.large:
            entry["oid"] = "f" * 40
            entry["lfs"] = {"oid": self.blob(path), "size": size, "pointerSize": 134}
        return entry


@dataclasses.dataclass
class Fault:
    """What happens to the next requests whose path matches."""

    path: str
    status: int = 0
    # The Hub's own word for it.
    code: str = ""
    headers: t.Mapping[str, str] = dataclasses.field(default_factory=dict)
    # In the place of what the Hub would say.
    body: bytes | None = None
    cut_after: int | None = None
    corrupt: bool = False
    bytes_per_second: int = 0
    # How a request for a range is answered: `ignored` with the whole file, `refused` with 416.
    ranges: str = ""
    etag: str = ""
    times: int = 1_000_000


@dataclasses.dataclass
class HubServer:
    models: dict[str, Model]
    faults: list[Fault] = dataclasses.field(default_factory=list)
    requests: list[str] = dataclasses.field(default_factory=list)
    sent: dict[str, int] = dataclasses.field(default_factory=dict)
    page: int = 1000
    endpoint: str = ""
    # Whether large files come from another host, as the real ones do; its links are valid until they are removed.
    has_file_host: bool = False
    file_host: str = ""
    links: set[str] = dataclasses.field(default_factory=set)
    # The hosts and paths that got a token.
    authorized: list[str] = dataclasses.field(default_factory=list)

    def fault(self, path: str) -> Fault | None:
        for fault in self.faults:
            if fault.times > 0 and fnmatch.fnmatch(path, fault.path):
                fault.times -= 1
                return fault
        return None


@contextlib.contextmanager
def running(server: HubServer) -> t.Iterator[HubServer]:
    class Handler(web.Handler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._answer()

        def do_HEAD(self) -> None:
            self._answer()

        def _noted(self) -> str:
            """Note the request; its path."""
            url = urllib.parse.urlsplit(self.path)
            path = urllib.parse.unquote(url.path)
            server.requests.append(f"{self.command} {url.path}")
            if "Authorization" in self.headers:
                server.authorized.append(f"{self.headers['Host']}{path}")
            return path

        def _answer(self) -> None:
            path = self._noted()
            url = urllib.parse.urlsplit(self.path)
            fault = server.fault(path)
            if fault and fault.status:
                return self._refuse(fault.status, fault.code, headers=fault.headers)
            if fault and fault.body is not None:
                return self._say(fault)
            if path.startswith("/api/models/"):
                owner, name, verb, rest = path[len("/api/models/") :].split("/", 3)
            else:
                owner, name, verb, rest = path[1:].split("/", 3)
            repository = f"{owner}/{name}"
            token = self.headers.get("Authorization", "").removeprefix("Bearer ")
            if token and token not in (ACCEPTED, UNACCEPTED):
                return self._refuse(401, "", "Invalid credentials in Authorization header")
            model = server.models.get(repository)
            if model is None:
                return self._refuse(404 if token else 401, "RepoNotFound")
            revision = rest.split("/", 1)[0]
            if revision != model.commit and revision not in model.revisions:
                return self._refuse(404, "RevisionNotFound")
            if verb == "revision":
                siblings = [{"rfilename": path} for path in model.files]
                gated = "manual" if model.gated else False
                return self.reply(200, {"id": repository, "sha": model.commit, "siblings": siblings, "gated": gated})
            if verb == "tree":
                return self._tree(model, urllib.parse.parse_qs(url.query))
            if model.gated and token != ACCEPTED:
                return self._refuse(403 if token else 401, "GatedRepo")
            if rest.split("/", 1)[1] not in model.files:
                return self._refuse(404, "EntryNotFound")
            name = rest.split("/", 1)[1]
            if server.has_file_host and name in model.large:
                return self._link(model, f"/files/{repository}/{name}", model.blob(name), fault)
            return self._file(model, name, fault)

        def _link(self, model: Model, path: str, blob: str, fault: Fault | None) -> None:
            link = f"{server.file_host}{urllib.parse.quote(path)}?Signature={len(server.requests)}"
            server.links.add(link)
            etag = (fault.etag if fault else "") or blob
            # The Hub's own etag is that of the pointer in git.
            headers = {"Location": link, "X-Linked-ETag": f'"{etag}"', "ETag": f'"{"e" * 40}"'}
            self.reply(302, headers=headers)

        def _tree(self, model: Model, query: dict[str, list[str]]) -> None:
            entries = [{"type": "directory", "path": "directory", "size": 0, "oid": "d" * 40}]
            entries += [model.entry(path) for path in sorted(model.files)]
            start = int(query.get("cursor", ["0"])[0])
            headers = {}
            if start + server.page < len(entries):
                base = f"{server.endpoint}{urllib.parse.urlsplit(self.path).path}"
                headers["link"] = f'<{base}?recursive=true&cursor={start + server.page}>; rel="next"'
            self.reply(200, entries[start : start + server.page], headers=headers)

        def _file(self, model: Model, path: str, fault: Fault | None) -> None:
            data = model.files[path]
            start = int(self.headers.get("Range", "bytes=0-")[len("bytes=") :].split("-")[0])
            if start and fault and fault.ranges == "refused":
                self._refuse(416, "")
                return
            if fault and fault.ranges:
                start = 0
            body = data[start:]
            self.send_response(206 if start else 200)
            etag = (fault.etag if fault else "") or model.blob(path)
            self.send_header("ETag", f'"{etag}"')
            self.send_header("X-Repo-Commit", model.commit)
            self.send_header("Content-Length", str(len(body)))
            if start:
                self.send_header("Content-Range", f"bytes {start}-{len(data) - 1}/{len(data)}")
            self.end_headers()
            if self.command == "HEAD":
                return
            if fault and fault.corrupt:
                body = bytes(byte ^ 1 for byte in body)
            if fault and fault.cut_after is not None:
                body = body[: fault.cut_after]
                self.close_connection = True
            if fault and fault.bytes_per_second:
                piece = fault.bytes_per_second // 10
                for position in range(0, len(body), piece):
                    time.sleep(0.1)
                    self.wfile.write(body[position : position + piece])
            else:
                self.wfile.write(body)
            server.sent[path] = server.sent.get(path, 0) + len(body)

        def _say(self, fault: Fault) -> None:
            body = fault.body or b""
            self.send_response(200)
            for name, value in fault.headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.close_connection = True
            with contextlib.suppress(OSError):
                if not fault.bytes_per_second:
                    self.wfile.write(body)
                # Without end.
                while fault.bytes_per_second:
                    self.wfile.write(b" ")
                    time.sleep(1 / fault.bytes_per_second)

        def _refuse(
            self, status: int, code: str, message: str = "", headers: t.Mapping[str, str] | None = None
        ) -> None:
            said = {"X-Error-Code": code, "X-Error-Message": message}
            self.reply(status, headers={**(headers or {}), **{name: text for name, text in said.items() if text}})

    class FileHandler(Handler):
        """The other host: it knows its links, and refuses a token beside them, as S3 does."""

        def _answer(self) -> None:
            path = self._noted()
            if "Authorization" in self.headers:
                return self._refuse(400, "")
            if f"{server.file_host}{self.path}" not in server.links:
                return self._refuse(403, "")
            fault = server.fault(path)
            if fault and fault.status:
                return self._refuse(fault.status, fault.code, headers=fault.headers)
            owner, name, file = path.removeprefix("/files/").split("/", 2)
            return self._file(server.models[f"{owner}/{name}"], file, fault)

    with web.Server(Handler) as http, web.Server(FileHandler) as files:
        server.endpoint, server.file_host = http.url, files.url
        yield server

# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this plugin util is internal to the collection; its interface may change at any time.

"""Read files of the Hub from any byte on, by plain HTTP.

The Hub redirects a large file to another host, by a link that expires. So each request starts at the Hub again. A
token goes to the Hub only.
"""

from __future__ import annotations

import contextlib
import http.client
import re
import typing as t
import urllib.error
import urllib.parse
import urllib.request

from ...module_utils._models.disk import BLOB, RemoteFile
from ...module_utils._models.limits import limited_s
from ...module_utils._models.refusals import HubError, Refusal, refusal
from .incoming import CutError, Read

# Of one read or one connection, not of a file.
TIMEOUT_S = 30.0
# Statuses of the Hub after which another request may do.
PASSING = frozenset({408, 416, 425, 500, 502, 503, 504})
RANGE = re.compile(r"bytes (\d+)-\d+/(\d+)")
SKIPPED_AT_ONCE = 1024 * 1024


class LimitedError(Exception):
    """The Hub refuses requests for some seconds, because there were too many."""

    def __init__(self, seconds: float) -> None:
        super().__init__("the Hub limits requests")
        self.seconds = seconds


def origin_of(url: str) -> tuple[str, str]:
    parts = urllib.parse.urlsplit(url)
    return parts.scheme, parts.netloc


class Redirects(urllib.request.HTTPRedirectHandler):
    """Follow redirects: with the token on the Hub's own host only, and never from HTTPS to HTTP."""

    def redirect_request(self, req: t.Any, fp: t.Any, code: int, msg: str, headers: t.Any, newurl: str) -> t.Any:
        new: t.Any = super().redirect_request(req, fp, code, msg, headers, newurl)
        if new is None:
            return None
        if req.type == "https" and new.type != "https":
            raise urllib.error.URLError(f"{req.host} redirects to {new.type}, which is not encrypted")
        if origin_of(req.full_url) == origin_of(newurl) and req.has_header("Authorization"):
            new.add_unredirected_header("Authorization", req.get_header("Authorization"))
        # The etag of the Hub's own answer is that of the file; the other host's may be anything.
        new.etag = headers.get("X-Linked-ETag") or getattr(req, "etag", "")
        return new

    def http_response(self, req: t.Any, response: t.Any) -> t.Any:
        response.etag = getattr(req, "etag", response.headers.get("ETag"))
        return response

    https_response = http_response


class HubFiles:
    """The files of the Hub, for one token."""

    def __init__(self, endpoint: str, token: str) -> None:
        self.endpoint = endpoint.rstrip("/")
        self._token = token.strip()
        self._opener = urllib.request.build_opener(Redirects)

    @contextlib.contextmanager
    def opened(self, repository: str, commit: str, file: RemoteFile, start: int, ranged: bool) -> t.Iterator[Read]:
        """Open a file at a byte, and yield a function that reads on from there.

        Without `ranged`, or if the server ignores the request for a range, the bytes before are read and dropped.
        Raises HubError for what no other try mends, LimitedError, CutError, OSError or HTTPException otherwise.
        """
        request = urllib.request.Request(
            f"{self.endpoint}/{repository}/resolve/{commit}/{urllib.parse.quote(file.path)}",
            headers={"User-Agent": "dgx-spark-speculative", "Accept-Encoding": "identity"},
        )
        if self._token:
            request.add_unredirected_header("Authorization", f"Bearer {self._token}")
        if start and ranged:
            request.add_header("Range", f"bytes={start}-")
        try:
            response = self._opener.open(request, timeout=TIMEOUT_S)
        except urllib.error.HTTPError as e:
            with e:
                raise self._refused(e, repository, commit, file) from e
        with response:
            check_answer(response, file, start)
            read = reader(response)
            if response.status != 206:
                skip(read, start)
            yield read

    def _refused(self, error: urllib.error.HTTPError, repository: str, commit: str, file: RemoteFile) -> Exception:
        """Return what a status means: for this file, for now, or only for this try."""
        host = urllib.parse.urlsplit(error.url).netloc
        if error.code == 429:
            return LimitedError(limited_s(error.headers))
        # A link to another host may have expired.
        if error.code in PASSING or origin_of(error.url) != origin_of(self.endpoint):
            return StatusError(f"{host} answered {error.code} {error.reason}", error.code)
        code, said = error.headers.get("X-Error-Code") or "", error.headers.get("X-Error-Message") or error.reason
        return refusal(self.endpoint, repository, commit, Refusal(error.code, said, code), bool(self._token), file.path)


class StatusError(CutError):
    """A status after which another request may do."""

    def __init__(self, text: str, status: int) -> None:
        super().__init__(text)
        self.status = status


def check_answer(response: t.Any, file: RemoteFile, start: int) -> None:
    """Raise HubError if the answer is of another file, and CutError if it is not the wanted part of this one."""
    host = urllib.parse.urlsplit(response.url).netloc
    if response.status not in (200, 206):
        raise StatusError(f"{host} answered {response.status} {response.reason}", response.status)
    named = (response.etag or "").removeprefix("W/").strip('"')
    if BLOB.fullmatch(named) and len(named) == len(file.blob) and named != file.blob:
        raise HubError(
            f"The Hub has another {file.path} now than it listed ({named} instead of {file.blob}): run again, which "
            "asks for the list again"
        )
    if response.headers.get("Content-Encoding", "identity") != "identity":
        raise CutError(f"{host} sent {file.path} compressed")
    if response.status == 206:
        span = RANGE.fullmatch(response.headers.get("Content-Range") or "")
        first, size = (int(span[1]), int(span[2])) if span else (-1, -1)
    else:
        first, size = start, file.size if response.length is None else response.length
    if (first, size) != (start, file.size):
        raise CutError(f"{host} sent byte {first} of {size} and not byte {start} of {file.size}")


def reader(response: t.Any) -> Read:
    """Return the function that fills a buffer from an answer. An error after some bytes ends them."""

    def read(buffer: bytearray, count: int) -> int:
        got = 0
        with memoryview(buffer) as view:
            try:
                while got < count and (more := response.readinto(view[got:count])):
                    got += more
            except (OSError, http.client.HTTPException):
                if not got:
                    raise
        return got

    return read


def skip(read: Read, count: int) -> None:
    """Read bytes that are here already."""
    buffer = bytearray(min(count, SKIPPED_AT_ONCE))
    while count:
        got = read(buffer, min(count, len(buffer)))
        if not got:
            raise CutError("the connection ended before the file did")
        count -= got

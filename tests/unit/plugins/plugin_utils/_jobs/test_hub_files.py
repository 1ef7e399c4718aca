# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the Hub and its file host answer, and what becomes of a download by it."""

from __future__ import annotations

import http.server
import itertools
import os
import typing as t
import urllib.request
from pathlib import Path

import pytest
from ansible_collections.dgx_spark.speculative.plugins.module_utils._models.disk import RemoteFile
from ansible_collections.dgx_spark.speculative.plugins.module_utils._models.refusals import HubError
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._jobs import fetch_models
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._jobs.hub_files import HubFiles, Redirects
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._jobs.incoming import SYNC_BYTES, CutError, Incoming
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._jobs.wire import CHUNK

from tests.unit import web
from tests.unit.hub_server import ACCEPTED, COMMIT, Fault, HubServer, Model, running

MODEL = "lab/small"
DATA = os.urandom(3_000_000)
FROM_HUB, FROM_HOST = "/*/resolve/*", "/files/*"


@pytest.fixture
def server() -> t.Iterator[HubServer]:
    with running(HubServer({MODEL: Model({"a b.bin": DATA}, large={"a b.bin"})}, has_file_host=True)) as server:
        yield server


@pytest.fixture(autouse=True)
def no_delay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch_models, "FIRST_DELAY_S", 0.0)


def fetch(server: HubServer, tmp_path: Path, part: bytes = b"", token: str = ACCEPTED) -> Path:
    """Download the model over what is there of it; the file."""
    blob = server.models[MODEL].blob("a b.bin")
    repository = {"id": MODEL, "revision": "main", "commit": COMMIT, "include": [], "exclude": []}
    spec = {
        "endpoint": server.endpoint,
        "cache": str(tmp_path / "hub"),
        "receipts": str(tmp_path / "models"),
        "repositories": [repository],
    }
    if part:
        blobs = tmp_path / "hub/models--lab--small/blobs"
        blobs.mkdir(parents=True)
        (blobs / f"{blob}.incomplete").write_bytes(part)
    files = [{"path": "a b.bin", "size": len(DATA), "blob": blob}]
    fetch_models.Fetch(spec, token, {MODEL: files}).run()
    return tmp_path / "hub/models--lab--small/snapshots" / COMMIT / "a b.bin"


def test_a_token_does_not_go_to_the_file_host(server: HubServer, tmp_path: Path) -> None:
    server.models[MODEL].gated = True
    assert fetch(server, tmp_path).read_bytes() == DATA
    assert {place.partition("/")[0] for place in server.authorized} == {server.endpoint.removeprefix("http://")}


@pytest.mark.parametrize(
    ("fault", "sent"),
    [
        (None, 1_000_000),
        (Fault(FROM_HOST, cut_after=400_000, times=1), 1_000_000),
        # The link has expired: the next request to the Hub gets another one.
        (Fault(FROM_HOST, status=403, times=1), 1_000_000),
        (Fault(FROM_HOST, status=500, times=2), 1_000_000),
        (Fault(FROM_HOST, status=429, headers={"Retry-After": "1"}, times=1), 1_000_000),
        (Fault(FROM_HOST, ranges="ignored"), 3_000_000),
        (Fault(FROM_HOST, ranges="refused", times=1), 3_000_000),
        (Fault(FROM_HUB, status=503, times=3), 1_000_000),
    ],
    ids=["none", "cut", "expired", "500", "429", "no ranges", "416", "503"],
)
def test_a_part_is_continued_whatever_the_server_does(
    server: HubServer, tmp_path: Path, fault: Fault | None, sent: int
) -> None:
    server.faults = [fault] if fault else []
    # A server that refuses the range gets no request for one afterwards.
    if fault and fault.ranges == "refused":
        server.faults = [fault, Fault(FROM_HOST, ranges="ignored")]
    assert fetch(server, tmp_path, DATA[:2_000_000]).read_bytes() == DATA
    assert server.sent["a b.bin"] == sent


def test_a_part_with_a_wrong_byte_costs_the_file_once(server: HubServer, tmp_path: Path) -> None:
    wrong = bytes([DATA[0] ^ 1]) + DATA[1:2_000_000]
    assert fetch(server, tmp_path, wrong).read_bytes() == DATA
    assert server.sent["a b.bin"] == 1_000_000 + 3_000_000


def test_a_complete_part_is_not_asked_for(server: HubServer, tmp_path: Path) -> None:
    assert fetch(server, tmp_path, DATA).read_bytes() == DATA
    assert server.requests == []


@pytest.mark.parametrize("place", [FROM_HUB, FROM_HOST])
def test_a_file_that_changed_since_it_was_listed(server: HubServer, tmp_path: Path, place: str) -> None:
    server.has_file_host = place == FROM_HOST
    server.faults = [Fault(FROM_HUB, etag="b" * 64)]
    with pytest.raises(HubError) as caught:
        fetch(server, tmp_path, DATA[:2_000_000])
    assert str(caught.value).startswith(f"The Hub has another a b.bin now than it listed ({'b' * 64} instead of ")
    # Nothing was lost.
    server.faults = []
    server.sent.clear()
    fetch(server, tmp_path)
    assert server.sent["a b.bin"] == 1_000_000


def test_a_link_that_stays_invalid_is_named_with_its_host(server: HubServer, tmp_path: Path) -> None:
    server.faults = [Fault(FROM_HOST, status=403)]
    with pytest.raises(fetch_models.FetchError, match=r"5 times in a row \(127\.0\.0\.1:\d+ answered 403 Forbidden\)"):
        fetch(server, tmp_path)


def opened(endpoint: str, start: int = 0, token: str = ACCEPTED) -> bytes:
    """Read what an endpoint has of a file of ten bytes."""
    buffer = bytearray(10)
    with HubFiles(endpoint, token).opened(MODEL, COMMIT, RemoteFile("x", 10, "a" * 64), start, True) as read:
        return bytes(buffer[: read(buffer, 10 - start)])


@pytest.mark.parametrize(
    ("status", "headers", "body", "message"),
    [
        (206, {"Content-Range": "bytes 3-9/10"}, b"3456789", "sent byte 3 of 10 and not byte 4 of 10"),
        (206, {"Content-Range": "bytes 4-9/11"}, b"456789", "sent byte 4 of 11 and not byte 4 of 10"),
        (206, {}, b"456789", "sent byte -1 of -1 and not byte 4 of 10"),
        (200, {}, b"<html>Sign in</html>", "sent byte 4 of 20 and not byte 4 of 10"),
        (200, {"Content-Encoding": "gzip"}, b"0123456789", "sent x compressed"),
        (204, {}, b"", "answered 204"),
    ],
)
def test_an_answer_that_is_not_the_wanted_part(status: int, headers: dict[str, str], body: bytes, message: str) -> None:
    class Odd(web.Handler):
        def do_GET(self) -> None:
            self.reply(status, body, headers=headers)

    with web.Server(Odd) as odd, pytest.raises(CutError, match=message):
        opened(odd.url, 4)


def test_a_redirect_on_the_same_host_keeps_the_token_and_one_to_another_host_does_not() -> None:
    seen: list[tuple[str, str | None]] = []

    class Moved(web.Handler):
        def do_GET(self) -> None:
            seen.append((self.path, self.headers["Authorization"]))
            if self.path.startswith("/lab"):
                self.reply(307, headers={"Location": "/renamed"})
            elif self.path == "/renamed":
                self.reply(302, headers={"Location": f"http://localhost:{self.server.server_port}/file"})
            else:
                self.reply(200, b"0123456789")

    with web.Server(Moved) as moved:
        assert opened(moved.url) == b"0123456789"
    assert seen == [
        (f"/{MODEL}/resolve/{COMMIT}/x", f"Bearer {ACCEPTED}"),
        ("/renamed", f"Bearer {ACCEPTED}"),
        ("/file", None),
    ]


def test_a_redirect_from_https_to_http_is_not_followed() -> None:
    request = urllib.request.Request("https://hub.example/x")
    with pytest.raises(OSError, match=r"hub\.example redirects to http, which is not encrypted"):
        Redirects().redirect_request(
            request, None, 302, "Found", http.server.BaseHTTPRequestHandler.responses, "http://x/"
        )


def test_a_power_cut_loses_a_bounded_part_of_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    size, durable = 40 * CHUNK + 1, [0]
    file = Incoming(tmp_path / "blob", size)
    monkeypatch.setattr(os, "fdatasync", lambda _descriptor: durable.append(file.part.stat().st_size))
    sums = file.sums()
    file.append(0, sums, lambda _buffer, count: count, durable=True)
    sums.close()
    assert max(later - earlier for earlier, later in itertools.pairwise(durable)) <= SYNC_BYTES
    assert durable[-1] == size
    # All streams together, as docs/recovery.md promises.
    assert fetch_models.WORKERS * SYNC_BYTES <= 64 * 1024 * 1024

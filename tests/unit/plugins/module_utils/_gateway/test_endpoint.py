# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The requests to an endpoint, without the proxy; what the module makes of its answers has tests of its own."""

from __future__ import annotations

import socket
import threading
import time
import typing as t

import pytest
from ansible_collections.dgx_spark.speculative.plugins.module_utils._gateway.endpoint import (
    Check,
    CheckError,
    Endpoint,
    Row,
    model_of,
    remedy,
    separate,
    table,
)
from ansible_collections.dgx_spark.speculative.plugins.module_utils._server.client import BadReply, Expired

from tests.unit import web
from tests.unit.replay_server import Server, free_port
from tests.unit.waiting import WITHIN_S

ROUTE = "/v1/chat/completions"
EVENTS = [b"data: {}\n\n", b"data: {}\n\n", b"data: [DONE]\n\n"]


@pytest.fixture(name="server")
def fixture_server() -> t.Iterator[Server]:
    server = Server()
    yield server
    server.close()


class Guarded(web.Handler):
    """Lets in who has the key, notes each path and each key, and offers what it is told."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        key = self.headers["Authorization"]
        self.told["asked"].append((self.path, key))
        allowed = self.path == "/health" or key == "Bearer right"
        page = {"data": [{"id": "m"}]} if self.path == "/v1/models" else {}
        self.reply((403 if self.path == "/metrics" else 200) if allowed else 401, page)

    def do_POST(self) -> None:
        self.read()
        if self.headers["Authorization"] != "Bearer right":
            return self.reply(401)
        if self.path not in (ROUTE, "/v1/completions"):
            return self.reply(403)
        return self.told["stream"](self)


def stream(handler: t.Any) -> None:
    handler.send_response(200)
    handler.send_header("Transfer-Encoding", "chunked")
    handler.end_headers()
    for piece in EVENTS:
        handler.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
        time.sleep(0.05)
    handler.wfile.write(b"0\r\n\r\n")


def rows_of(answer: t.Callable[[t.Any], None], stream_seconds: float = 5) -> tuple[list[Row], list[t.Any]]:
    asked: list[t.Any] = []
    server = web.Server(Guarded, {"stream": answer, "asked": asked})
    rows = Check(Endpoint(server.url), "right", stream_seconds).rows()
    server.server_close()
    return rows, asked


def test_everything_is_as_it_should_be() -> None:
    rows, asked = rows_of(stream)
    assert {row.ok for row in rows} == {True}
    assert rows[-1].request == f"a stream from {ROUTE}"
    assert [key for path, key in asked if path == "/v1/models"] == [
        None,
        "Bearer sk-spark-a-key-that-was-never-made-0123456789",
        "Bearer right",
    ]


def test_a_path_is_sent_as_it_is(server: Server) -> None:
    endpoint = Endpoint(server.url)
    server.ask = lambda handler: handler.reply(200, handler.path.encode())
    assert endpoint.status("POST", "/v1/models/../../%2e%2e/x;y", body={}) == (200, b"/v1/models/../../%2e%2e/x;y")
    assert server.requests == [{}]


@pytest.mark.parametrize(
    ("answer", "got", "ok"),
    [
        (lambda handler: handler.reply(404), "status 404", False),
        (lambda handler: handler.connection.shutdown(socket.SHUT_RDWR), "the connection broke (", False),
        (lambda handler: time.sleep(1), "nothing within 0.2 s: busy", None),
    ],
)
def test_a_stream_that_is_none(answer: t.Callable[[t.Any], None], got: str, ok: bool | None) -> None:
    row = rows_of(answer, 0.2)[0][-1]
    assert (row.got.startswith(got), row.ok) == (True, ok)


def test_without_a_list_of_models_nothing_is_streamed(server: Server) -> None:
    server.close()
    rows = Check(Endpoint(server.url), "right", 1).rows()
    assert {row.got for row in rows[:-1]} == {"no answer"}
    assert (rows[-1].got, rows[-1].ok) == ("not asked", None)


def test_only_a_silence_ends_a_stream(server: Server) -> None:
    server.ask = lambda handler: handler.stream(EVENTS, 0.3)
    status, times, whole = Endpoint(server.url).arrivals(ROUTE, "k", {}, 0.6)
    assert (status, len(times), whole) == (200, 3, True)
    with pytest.raises(Expired):
        Endpoint(server.url).arrivals(ROUTE, "k", {}, 0.1)


def test_a_stream_without_an_end(server: Server) -> None:
    server.ask = lambda handler: handler.stream(EVENTS[:2])
    assert Endpoint(server.url).arrivals(ROUTE, "k", {}, 5)[2] is False


def test_a_stream_that_is_cut_off() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def cut() -> None:
            connection, _address = server.accept()
            with connection:
                connection.recv(4096)
                connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nda")

        threading.Thread(target=cut, daemon=True).start()
        endpoint = Endpoint(f"http://127.0.0.1:{server.getsockname()[1]}")
        with pytest.raises(BadReply):
            endpoint.arrivals(ROUTE, "k", {}, 5)


def test_it_is_waited_for() -> None:
    port = free_port()
    taken = threading.Event()

    def begin() -> None:
        with socket.create_server(("127.0.0.1", port)) as listener:
            listener.accept()
            taken.set()

    timer = threading.Timer(0.2, begin)
    timer.start()
    Endpoint(f"http://127.0.0.1:{port}").wait(WITHIN_S)
    assert taken.wait(WITHIN_S)
    timer.join()


@pytest.mark.parametrize("url", ["spark:8443", "ftp://spark", "http://x:y"])
def test_an_unusable_url(url: str) -> None:
    with pytest.raises(CheckError, match="is not usable"):
        Endpoint(url)


def test_nothing_listens() -> None:
    with pytest.raises(CheckError, match="cannot be reached"):
        Endpoint(f"http://127.0.0.1:{free_port()}").wait(0)


def test_a_name_that_leads_elsewhere(server: Server) -> None:
    port = server.http.server_port
    assert Endpoint(f"http://spark.invalid:{port}", connect_to="127.0.0.1").status("GET", "/health")[0] == 200
    assert server.headers[0]["Host"] == f"spark.invalid:{port}"


@pytest.mark.parametrize(
    ("body", "model"),
    [(b'{"data": [{"id": "m"}, {"id": "n"}]}', "m"), (b'{"data": []}', None), (b"[1]", None), (b"<html>", None)],
)
def test_the_first_model_is_asked(body: bytes, model: str | None) -> None:
    assert model_of(body) == model


def test_pieces_that_come_together_are_one() -> None:
    assert [separate(times) for times in ([], [1.0], [1.0, 1.0001], [1.0, 1.0001, 1.1])] == [0, 1, 1, 2]


def test_the_fix_follows_the_worst_row() -> None:
    let_in = Row("GET /metrics", "403", "200", False)
    down = Row("GET /health", "200", "502", False)
    other = Row("a stream", "2 pieces or more", "1 pieces", False)
    assert remedy([other, down, let_in]).startswith("The proxy accepts requests it must refuse.")
    assert "diagnose.yml" in remedy([other, down])
    assert "docker logs" in remedy([other])


def test_rows_are_a_table() -> None:
    assert table([Row("GET /health", "200", "502", False)]) == [
        "request      expected  got",
        "GET /health  200       502",
    ]

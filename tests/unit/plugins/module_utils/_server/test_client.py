# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import socket
import threading
import time
import typing as t

import pytest
from ansible_collections.dgx_spark.speculative.plugins.module_utils._server.client import (
    BadReply,
    Expired,
    HttpClient,
    Refused,
)

from tests.unit.replay_server import Server, free_port


@pytest.fixture(name="server")
def fixture_server() -> t.Iterator[Server]:
    server = Server()
    yield server
    server.close()


@pytest.mark.parametrize("url", ["127.0.0.1:8000", "ftp://x", "http://", "http://x:y"])
def test_unusable_url(url: str) -> None:
    with pytest.raises(ValueError, match=r"is not usable; write it like http://127\.0\.0\.1:8000\.$"):
        HttpClient(url)


def test_refused() -> None:
    port = free_port()
    with pytest.raises(Refused, match=f"^nothing listens on 127.0.0.1 port {port}$"):
        HttpClient(f"http://127.0.0.1:{port}").get("/health")


@pytest.mark.parametrize("read", [0, 4096])
def test_a_port_behind_which_nothing_listens_is_no_server_that_answers_badly(read: int) -> None:
    """As that of Docker's proxy while the container loads a model: connections are taken, and closed or reset."""
    with socket.create_server(("127.0.0.1", 0)) as proxy:

        def close() -> None:
            connection, _address = proxy.accept()
            with connection:
                connection.recv(read)

        threading.Thread(target=close, daemon=True).start()
        port = proxy.getsockname()[1]
        with pytest.raises(Refused, match=f"^what listens on 127.0.0.1 port {port} closes connections"):
            HttpClient(f"http://127.0.0.1:{port}").get("/health")


def test_a_server_that_drips_is_cut_off(server: Server) -> None:
    """Each byte would restart the timeout of a socket."""
    server.ask = lambda handler: handler.stream([b"x"] * 600, 0.05)
    began = time.monotonic()
    with pytest.raises(Expired):
        HttpClient(server.url).post("/v1/completions", {}, 0.3)
    assert time.monotonic() - began < 20
    with HttpClient(server.url).exchange("POST", "/v1/completions", {}, 0.3, silence=True) as response:
        while time.monotonic() - began < 1:
            assert response.read1(1) == b"x"


def test_another_key_than_the_clients_own(server: Server) -> None:
    client = HttpClient(f"{server.url}/v1/", api_key="own\n")
    client.get("/health")
    client.get("/health", api_key="other")
    HttpClient(server.url).get("/health")
    assert [headers.get("Authorization") for headers in server.headers] == ["Bearer own", "Bearer other", None]


def test_what_is_no_http() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:

        def greet() -> None:
            connection, _address = other.accept()
            with connection:
                connection.recv(4096)
                connection.sendall(b"220 mail.example ESMTP\r\n")

        threading.Thread(target=greet, daemon=True).start()
        with pytest.raises(BadReply, match="ESMTP"):
            HttpClient(f"http://127.0.0.1:{other.getsockname()[1]}").get("/health")


def test_a_file_without_a_certificate() -> None:
    with pytest.raises(ValueError, match="holds no certificate that could be read"):
        HttpClient("https://127.0.0.1:8443", ca_path="/dev/null")

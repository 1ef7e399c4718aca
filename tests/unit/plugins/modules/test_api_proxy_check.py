# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import re
import time
import typing as t
from pathlib import Path

import pytest
from ansible_collections.dgx_spark.speculative.plugins.modules import api_proxy

from tests.unit import modules
from tests.unit.caddy import Proxy
from tests.unit.replay_server import Server, free_port, replay

Run = t.Callable[..., dict[str, t.Any]]


@pytest.fixture(name="server")
def fixture_server() -> t.Iterator[Server]:
    server = Server()
    server.ask = replay("chat_stream_speculative", 0.005)
    yield server
    server.close()


@pytest.fixture(name="proxy")
def fixture_proxy(tmp_path: Path, server: Server) -> t.Iterator[Proxy]:
    proxy = Proxy(tmp_path, server.url)
    proxy.keys.ensure(["default"], "api_proxy")
    proxy.start()
    yield proxy
    proxy.close()


@pytest.fixture(name="check")
def fixture_check() -> Run:
    def check(**args: t.Any) -> dict[str, t.Any]:
        return modules.run(api_proxy, {"check": {"wait": 5, **args}})

    return check


def got(result: dict[str, t.Any]) -> dict[str, str]:
    return {row["request"]: row["got"] for row in result["rows"]}


def test_from_elsewhere(proxy: Proxy, check: Run) -> None:
    key = proxy.key("default")
    result = check(url=proxy.tls_url, api_key=key, ca_path=str(proxy.ca))
    assert result["changed"] is False
    # As of ansible-core 2.19, each is a line on the screen.
    assert "deprecations" not in result
    assert {row["ok"] for row in result["rows"]} == {True}
    seen = got(result)
    assert seen["TLS handshake"] == "trusted"
    assert seen["GET /health without a key"] == "200"
    assert seen["GET /v1/models without a key"] == "401"
    assert seen["GET /v1/models with a wrong key"] == "401"
    assert seen["GET /v1/models with a key"] == "200"
    assert seen["POST /update_weights with a key"] == "403"
    assert seen["POST /v1/%2e%2e/update_weights with a key"] == "403"
    assert int(seen["a stream from /v1/chat/completions"].split()[0]) > 2
    assert len(result["lines"]) == len(result["rows"]) + 1
    assert key not in json.dumps(result)


def test_a_name_that_does_not_lead_there(proxy: Proxy, check: Run) -> None:
    url = f"https://spark-1.local:{proxy.site['port']}"
    result = check(url=url, connect_to="127.0.0.1", api_key=proxy.key("default"), ca_path=str(proxy.ca))
    assert "failed" not in result


def test_with_the_key_in_a_file(proxy: Proxy, check: Run) -> None:
    result = check(url=proxy.url, api_key_file=str(proxy.keys.path("default")))
    assert "failed" not in result
    assert "TLS handshake" not in got(result)


def test_a_key_that_is_not_accepted(proxy: Proxy, check: Run) -> None:
    result = check(url=proxy.url, api_key="sk-spark-another-key-0123456789")
    assert result["failed"] is True
    assert "GET /v1/models with a key: 401 instead of 200" in result["msg"]


def test_the_bare_server_is_found_out(server: Server, check: Run) -> None:
    result = check(url=server.url, api_key="sk-spark-any-key-0123456789")
    assert result["failed"] is True
    assert "GET /v1/models without a key: 200 instead of 401" in result["msg"]
    assert "POST /update_weights with a key: 200 instead of 403" in result["msg"]
    assert "Stop it, for example" in result["msg"]


def test_a_stream_in_one_piece_is_found_out(proxy: Proxy, server: Server, check: Run) -> None:
    server.ask = lambda handler: handler.stream([b"data: {}\n\ndata: [DONE]\n\n"])
    result = check(url=proxy.url, api_key=proxy.key("default"))
    assert "a stream from /v1/chat/completions: 1 pieces instead of 2 pieces or more" in result["msg"]


def test_a_stream_that_is_cut_is_found_out(proxy: Proxy, server: Server, check: Run) -> None:
    server.ask = lambda handler: handler.stream([b"data: {}\n\n"] * 5, 0.1)
    result = check(url=proxy.url, api_key=proxy.key("default"))
    # A machine that is late hears two of them as one.
    assert re.search(r"[2-5] pieces, without an end", result["msg"])
    assert "Stop it, for example" not in result["msg"]
    assert "docker logs" in result["msg"]


def test_a_busy_server_is_not_judged_by_its_stream(proxy: Proxy, server: Server, check: Run) -> None:
    server.ask = lambda handler: time.sleep(2)
    result = check(url=proxy.url, api_key=proxy.key("default"), stream_seconds=0.5)
    assert "failed" not in result
    assert result["rows"][-1]["ok"] is None
    assert "busy, so it was not checked" in json.dumps(result["warnings"])


def test_a_model_that_does_not_chat_continues_a_text(proxy: Proxy, server: Server, check: Run) -> None:
    def ask(handler: t.Any) -> None:
        if handler.path == "/v1/completions":
            return replay("chat_stream_speculative", 0.005)(handler)
        return handler.reply(400, b'{"error": "no chat template"}')

    server.ask = ask
    result = check(url=proxy.url, api_key=proxy.key("default"))
    assert "failed" not in result
    assert "a stream from /v1/completions" in got(result)


def test_a_model_server_that_is_down(proxy: Proxy, server: Server, check: Run) -> None:
    server.close()
    result = check(url=proxy.url, api_key=proxy.key("default"))
    assert "GET /health without a key: 502 instead of 200" in result["msg"]
    assert "Run diagnose.yml for the cause" in result["msg"]


def test_what_cannot_be_asked(proxy: Proxy, check: Run, tmp_path: Path) -> None:
    key = proxy.key("default")
    assert "is not usable" in check(url="spark:8443", api_key=key)["msg"]
    closed = check(url=f"http://127.0.0.1:{free_port()}", api_key=key, wait=0)["msg"]
    assert "cannot be reached (Connection refused)" in closed
    strange = check(url=proxy.tls_url, api_key=key, wait=0)["msg"]
    assert "is not accepted (" in strange
    (tmp_path / "empty").write_text("")
    assert "holds no certificate" in check(url=proxy.tls_url, api_key=key, ca_path=str(tmp_path / "empty"))["msg"]
    assert "cannot be read" in check(url=proxy.url, api_key_file=str(tmp_path / "none"))["msg"]
    mute = check(url=proxy.url.replace("http:", "https:"), api_key=key, wait=0)["msg"]
    assert "does not speak TLS as it should" in mute


def test_a_certificate_of_another_host(proxy: Proxy, check: Run) -> None:
    args = {"connect_to": "127.0.0.1", "api_key": proxy.key("default"), "ca_path": str(proxy.ca), "wait": 1}
    result = check(url=f"https://elsewhere.example:{proxy.site['port']}", **args)
    assert "The certificate of elsewhere.example" in result["msg"]

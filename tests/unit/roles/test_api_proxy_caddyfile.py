# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The proxy's configuration, played by the program itself against a server of the tests' own."""

from __future__ import annotations

import contextlib
import http.client
import json
import re
import socket
import ssl
import threading
import time
import typing as t
from pathlib import Path

import pytest
import yaml
from ansible_collections.dgx_spark.speculative.plugins.module_utils._gateway.keys import ACCEPTED
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._engines.tensorrt_llm.engine import TENSORRT_LLM
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._serving import refused_fields

from tests.unit.caddy import REPOSITORY, Proxy
from tests.unit.replay_server import Handler, Server
from tests.unit.waiting import WITHIN_S, until

Answer = tuple[int, dict[str, str], bytes]


class Reader(Handler):
    """Reads a body of any kind to its end, as the model server does before it begins."""

    def do_POST(self) -> None:
        self.told.headers.append(dict(self.headers))
        whole = True
        if "Content-Length" in self.headers:
            size = int(self.headers["Content-Length"])
            whole = len(self.rfile.read(size)) == size
        else:
            while size := int(self.rfile.readline() or b"0", 16):
                whole = len(self.rfile.read(size + 2)) == size + 2
            whole = whole and self.rfile.readline() == b"\r\n"
        if not whole:
            self.close_connection = True
            return
        self.told.requests.append({"path": self.path})
        self.told.ask(self)


class Upstream:
    """A stand-in for the model server: it says what came, and streams as it is told."""

    def __init__(self) -> None:
        self.server = Server()
        self.server.http.RequestHandlerClass = Reader
        self.server.ask = self.ask
        self.pieces = 5
        # What it does between two pieces.
        self.between: t.Callable[[], object] = lambda: time.sleep(0.02)
        self.left_early = threading.Event()
        self.url = self.server.url

    def ask(self, handler: Handler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Type", "text/event-stream; charset=utf-8")
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        try:
            for n in range(self.pieces):
                piece = b"data: %d\n\n" % n
                handler.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
                handler.wfile.flush()
                self.between()
            handler.wfile.write(b"0\r\n\r\n")
        except OSError:
            self.left_early.set()


@pytest.fixture(name="upstream")
def fixture_upstream() -> t.Iterator[Upstream]:
    upstream = Upstream()
    yield upstream
    upstream.server.close()


@pytest.fixture(name="proxy")
def fixture_proxy(tmp_path: Path, upstream: Upstream) -> t.Iterator[Proxy]:
    proxy = Proxy(tmp_path, upstream.url)
    proxy.keys.ensure(["default", "laptop"], "api_proxy")
    proxy.start()
    yield proxy
    proxy.close()


def ask(
    proxy: Proxy,
    method: str,
    path: str,
    key: str | None = None,
    body: t.Any = None,
    headers: dict[str, str] | None = None,
) -> Answer:
    connection = http.client.HTTPConnection("127.0.0.1", proxy.site["docker_port"], timeout=WITHIN_S)
    sent = {**({"Authorization": f"Bearer {key}"} if key else {}), **(headers or {})}
    try:
        connection.request(method, path, body=body, headers=sent)
        response = connection.getresponse()
        return response.status, dict(response.getheaders()), response.read()
    finally:
        connection.close()


def code_of(answer: Answer) -> tuple[int, str]:
    assert answer[1]["Content-Type"] == "application/json"
    error = json.loads(answer[2])["error"]
    assert set(error) == {"message", "type", "code"}
    return answer[0], error["code"]


FIELDS = ("logprobs", "top_logprobs", "return_context_logits")


@pytest.fixture(name="careful")
def fixture_careful(tmp_path: Path, upstream: Upstream) -> t.Iterator[Proxy]:
    """A proxy before a server that a request for logprobs ends."""
    issues = [{"refuse": FIELDS, "url": "https://example.org/1"}]
    routes = list(TENSORRT_LLM.routes)
    proxy = Proxy(tmp_path, upstream.url, lan=False, names=[], routes=routes, refused=refused_fields.refusal(issues))
    proxy.keys.ensure(["default"], "api_proxy")
    proxy.start()
    yield proxy
    proxy.close()


ENDS_IT = [
    b'{"logprobs": true}',
    b'{"model":"m","logprobs":true,"messages":[]}',
    b'{"logprobs"\n\t :\r\n 1}',
    b'{"logprobs": "true"}',
    b'{"logprobs": -1, "top_logprobs": 0}',
    b'{"logprobs": 0.1e1}',
    b'{"logprobs": false, "logprobs": true}',
    b'{"top_logprobs": 5}',
    b'{"return_context_logits": true}',
    # A name may have escapes, also in capitals.
    b'{"logprob\\u0073": true}',
    b'{"\\u006Cog\\u0070robs": true}',
    b'{"top\\u005flogprobs": 2}',
    # The server finds out itself in which encoding a body is.
    '{"logprobs": true}'.encode("utf-16"),
    '{"logprobs": true}'.encode("utf-16-le"),
    '{"logprobs": true}'.encode("utf-32-be"),
    b"\xef\xbb\xbf" + b'{"logprobs": true}',
    # What is not text stops no comparison.
    b'{"x": "\xff\xfe", "logprobs": true}',
]
HARMLESS = [
    b"{}",
    b"",
    b'{"logprobs": false, "top_logprobs": 0}',
    b'{"logprobs": null}',
    b'{"logprobs":false,"messages":[]}',
    b'{"messages": [{"content": "set \\"logprobs\\": true in the request"}]}',
    b'{"stop": ["logprobs"], "n": 1}',
    # The schema of a tool.
    b'{"properties": {"logprobs": {"type": "boolean"}}}',
    b'{"my_logprobs": true, "logprobs_mode": 1}',
    '{"content": "naïve \U0001f600"}'.encode(),
]


@pytest.mark.parametrize("path", TENSORRT_LLM.routes)
def test_a_field_that_ends_the_server_is_refused(careful: Proxy, upstream: Upstream, path: str) -> None:
    key = careful.key("default")
    answers = {body: ask(careful, "POST", path, key, body) for body in ENDS_IT}
    assert {body: found for body, one in answers.items() if (found := code_of(one)) != (400, "field_refused")} == {}
    assert b"logprobs" in answers[ENDS_IT[0]][2]
    assert b"https://example.org/1" in answers[ENDS_IT[0]][2]
    assert "Server" not in answers[ENDS_IT[0]][1]
    # In pieces as well.
    pieces = iter([b'{"log', b'probs": tr', b"ue}"])
    assert code_of(ask(careful, "POST", path, key, pieces)) == (400, "field_refused")
    assert upstream.server.requests == []
    # Without a key nothing is read.
    assert code_of(ask(careful, "POST", path, None, ENDS_IT[0])) == (401, "invalid_api_key")


def test_all_other_requests_pass_whole(careful: Proxy, upstream: Upstream) -> None:
    key = careful.key("default")
    bodies = [*HARMLESS, b'{"content": "' + b"x" * 900_000 + b'"}']
    assert [ask(careful, "POST", "/v1/completions", key, body)[0] for body in bodies] == [200] * len(bodies)
    assert len(upstream.server.requests) == len(bodies)
    lengths = [int(headers["Content-Length"]) for headers in upstream.server.headers]
    assert lengths == [len(body) for body in bodies]
    assert ask(careful, "GET", "/v1/models", key)[0] == 200


def test_a_body_is_compared_within_its_limit(careful: Proxy, upstream: Upstream) -> None:
    key, parts = careful.key("default"), (b'{"content": "', "é".encode() * 525_000, b'", "logprobs": true}')
    for body in (b"".join(parts), iter(parts)):
        assert code_of(ask(careful, "POST", "/v1/completions", key, body)) == (413, "request_too_large")
    assert upstream.server.requests == []


def test_other_servers_are_asked_for_logprobs(proxy: Proxy) -> None:
    assert ask(proxy, "POST", "/v1/completions", proxy.key("default"), ENDS_IT[0])[0] == 200


def test_who_gets_in(proxy: Proxy) -> None:
    key = proxy.key("laptop")
    assert ask(proxy, "GET", "/health")[0] == 200
    assert ask(proxy, "GET", "/v1/models", key)[0] == 200
    for path in ("/v1/chat/completions", "/v1/completions", "/v1/responses"):
        assert ask(proxy, "POST", path, key, b"{}")[0] == 200
        assert code_of(ask(proxy, "POST", path, None, b"{}")) == (401, "invalid_api_key")
    assert code_of(ask(proxy, "GET", "/v1/models")) == (401, "invalid_api_key")
    # A wrong key is no key: the same answer, to the letter.
    without, wrong = ask(proxy, "GET", "/v1/models"), ask(proxy, "GET", "/v1/models", "sk-spark-wrong")
    assert (without[0], without[2]) == (wrong[0], wrong[2])
    assert without[1]["Www-Authenticate"] == "Bearer"
    for odd in (key[:-1], key + "x", key.upper(), "*", "{env.HOME}", "Bearer " + key):
        assert ask(proxy, "GET", "/v1/models", odd)[0] == 401
    assert ask(proxy, "GET", "/v1/models", headers={"Authorization": key})[0] == 401
    assert ask(proxy, "GET", f"/v1/models?key={key}", headers={"X-Api-Key": key})[0] == 401


TRICKS = [
    "/",
    "/update_weights",
    "/release_memory",
    "/server_info",
    "/metrics",
    "/prometheus/metrics",
    "/invocations",
    "/v1",
    "/v1/",
    "/v1/embeddings",
    "/v1/kv_cache_hints",
    "//v1/models",
    "/v1//models",
    "/v1/models/",
    "/v1/models/x",
    "/v1/messages/",
    "/v1/messages/batches",
    "/v1/messages/count_tokens/x",
    "/V1/models",
    "/v1/Models",
    "/v1/../update_weights",
    "/v1/models/../../update_weights",
    "/health/../update_weights",
    "/./v1/models",
    "/v1/%2e%2e/update_weights",
    "/v1%2fmodels",
    "/v1/%6dodels",
    "/v1/models%3f",
    "/v1/models%00",
    "/v1/models%0a",
    "/v1/models;x=1",
    "/v1/models%20",
    "/v1\\models",
    "/v1/models#x",
    "/health/",
    "/update_weights?/v1/models",
    "/update_weights%3f/v1/models",
]


def test_nothing_else_is_passed_on(proxy: Proxy, upstream: Upstream) -> None:
    asked = [
        (method, path, key) for path in TRICKS for method in ("GET", "POST") for key in (None, proxy.key("default"))
    ]
    codes = {one: code_of(ask(proxy, one[0], one[1], one[2])) for one in asked}
    assert {one: code for one, code in codes.items() if code != (403, "route_not_offered")} == {}
    assert upstream.server.headers == []


def test_a_path_in_the_form_for_proxies_gets_around_nothing(proxy: Proxy) -> None:
    for target, status in (("http://127.0.0.1/update_weights", 403), ("http://x/v1/models", 401)):
        with socket.create_connection(("127.0.0.1", proxy.site["docker_port"]), 10) as sock:
            sock.sendall(f"GET {target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
            assert sock.recv(100).split()[1] == str(status).encode()


def test_other_methods_are_refused(proxy: Proxy) -> None:
    key = proxy.key("default")
    for method, path in (
        ("POST", "/v1/models"),
        ("POST", "/health"),
        ("GET", "/v1/completions"),
        ("DELETE", "/v1/responses"),
        ("PUT", "/health"),
        ("OPTIONS", "/v1/chat/completions"),
    ):
        answer = ask(proxy, method, path, key)
        assert code_of(answer) == (405, "method_not_offered")
        assert answer[1]["Allow"] == "GET, POST"


MESSAGES = ("/v1/messages", "/v1/messages/count_tokens")


def test_anthropics_clients_get_in_with_their_header(proxy: Proxy, upstream: Upstream) -> None:
    key = proxy.key("default")
    for path in MESSAGES:
        assert ask(proxy, "POST", path, key, b"{}")[0] == 200
        assert ask(proxy, "POST", f"{path}?beta=true", None, b"{}", {"x-api-key": key})[0] == 200
        assert code_of(ask(proxy, "GET", path, key)) == (405, "method_not_offered")
        for headers in ({}, {"x-api-key": key + "x"}, {"x-api-key": f"Bearer {key}"}, {"x-api-key": "{env.HOME}"}):
            answer = ask(proxy, "POST", path, None, b"{}", headers)
            assert code_of(answer) == (401, "invalid_api_key")
            assert b"x-api-key" in answer[2]
        # One that is wrong is not made good by the other.
        assert ask(proxy, "POST", path, "sk-spark-wrong", b"{}", {"x-api-key": key})[0] == 401
    # Only there.
    assert ask(proxy, "POST", "/v1/completions", None, b"{}", {"x-api-key": key})[0] == 401
    assert key not in json.dumps(upstream.server.headers)
    assert "X-Api-Key" not in {name.title() for headers in upstream.server.headers for name in headers}


def test_an_engine_without_these_routes_offers_none(tmp_path: Path, upstream: Upstream) -> None:
    proxy = Proxy(tmp_path, upstream.url, lan=False, names=[], routes=list(TENSORRT_LLM.routes))
    proxy.keys.ensure(["default"], "api_proxy")
    try:
        proxy.start()
        key = proxy.key("default")
        for path in MESSAGES:
            answer = ask(proxy, "POST", path, key, b"{}")
            assert code_of(answer) == (403, "route_not_offered")
            assert b"messages" not in answer[2]
        assert b"x-api-key" not in ask(proxy, "POST", "/v1/completions")[2]
        assert ask(proxy, "POST", "/v1/completions", key, b"{}")[0] == 200
    finally:
        proxy.close()


def test_another_server_changes_one_file_and_no_client(proxy: Proxy) -> None:
    """As a rollback to the other engine does."""
    before, key = proxy.caddyfile(), proxy.key("default")
    proxy.site.update(upstream="http://127.0.0.1:1", routes=list(TENSORRT_LLM.routes))
    assert proxy.caddyfile() == before
    proxy.reload()
    assert code_of(ask(proxy, "POST", "/v1/messages", key, b"{}")) == (403, "route_not_offered")
    assert code_of(ask(proxy, "POST", "/v1/completions", key, b"{}"))[0] == 502


def test_the_key_stays_at_the_proxy(proxy: Proxy, upstream: Upstream) -> None:
    key = proxy.key("default")
    status, headers, _ = ask(proxy, "POST", "/v1/completions", key, b"{}")
    assert status == 200
    assert upstream.server.headers
    assert key not in json.dumps(upstream.server.headers)
    assert "Authorization" not in {name.title() for name in upstream.server.headers[-1]}
    # It does not say what it is, either.
    assert not {"Server", "Via"} & {name.title() for name in headers}


def test_no_key_in_the_log_and_no_copy_of_it(proxy: Proxy, upstream: Upstream) -> None:
    key = proxy.key("default")
    ask(proxy, "GET", "/update_weights", key)
    upstream.server.close()
    assert ask(proxy, "GET", "/v1/models", key)[0] == 502
    assert key not in proxy.log
    holders = [path for path in proxy.directory.rglob("*") if path.is_file() and key.encode() in path.read_bytes()]
    assert sorted(path.name for path in holders) == [".accepted.caddy", "default"]
    assert (proxy.directory / "data/admin.sock").stat().st_mode & 0o777 == 0o600


def test_the_log_has_no_key_even_when_it_has_everything(proxy: Proxy, upstream: Upstream) -> None:
    """Caddy itself masks only the headers that it knows."""
    proxy.site["debug"] = True
    proxy.reload()
    before, key = len(proxy.log), proxy.key("default")
    upstream.server.close()
    for method, path in (("POST", "/v1/messages"), ("GET", "/health")):
        assert ask(proxy, method, path, headers={"X-API-KEY": key})[0] == 502
        assert ask(proxy, method, path, key)[0] == 502
    until(lambda: proxy.log[before:].count('"http.log.error"') == 4, lambda: proxy.log[before:])
    assert key not in proxy.log[before:]


def test_a_stream_comes_piece_by_piece(proxy: Proxy, upstream: Upstream) -> None:
    heard = threading.Semaphore(0)
    upstream.between = heard.acquire
    pieces = []
    connection = http.client.HTTPConnection("127.0.0.1", proxy.site["docker_port"], timeout=WITHIN_S)
    headers = {"Authorization": f"Bearer {proxy.key('default')}", "Accept-Encoding": "gzip"}
    connection.request("POST", "/v1/chat/completions", body=b"{}", headers=headers)
    response = connection.getresponse()
    # The next one is not sent before this one has come.
    while piece := response.read1(65536):
        pieces.append(piece)
        heard.release()
    connection.close()
    assert response.getheader("Content-Encoding") is None
    assert len(pieces) == 5


def test_the_server_learns_that_a_client_has_left(proxy: Proxy, upstream: Upstream) -> None:
    upstream.pieces = 4000
    connection = http.client.HTTPConnection("127.0.0.1", proxy.site["docker_port"], timeout=WITHIN_S)
    connection.request(
        "POST", "/v1/completions", body=b"{}", headers={"Authorization": f"Bearer {proxy.key('default')}"}
    )
    connection.getresponse().read1(10)
    connection.close()
    assert upstream.left_early.wait(WITHIN_S)


def test_a_body_has_a_limit(proxy: Proxy, upstream: Upstream) -> None:
    key = proxy.key("default")
    assert ask(proxy, "POST", "/v1/completions", key, b"x" * 900_000)[0] == 200
    before = len(upstream.server.requests)
    assert code_of(ask(proxy, "POST", "/v1/completions", key, b"x" * 1_050_000)) == (413, "request_too_large")
    with socket.create_connection(("127.0.0.1", proxy.site["docker_port"]), 10) as sock:
        head = f"POST /v1/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {key}\r\n"
        head += "Transfer-Encoding: chunked\r\n\r\n"
        sock.sendall(head.encode() + b"10c8e0\r\n" + b"x" * 1_100_000 + b"\r\n0\r\n\r\n")
        assert sock.recv(100).split()[1] == b"413"
    assert len(upstream.server.requests) == before


def test_more_requests_than_the_limit_are_told_to_wait(proxy: Proxy, upstream: Upstream) -> None:
    goes_on = threading.Event()
    upstream.between = goes_on.wait
    key = proxy.key("default")
    statuses: list[int] = []
    threads = [
        threading.Thread(target=lambda: statuses.append(ask(proxy, "POST", "/v1/completions", key, b"{}")[0]))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    until(lambda: len(upstream.server.requests) == 4)
    answer = ask(proxy, "POST", "/v1/completions", key, b"{}")
    assert code_of(answer) == (429, "too_many_requests")
    assert answer[1]["Retry-After"] == "5"
    # Those who watch still see that it lives.
    assert ask(proxy, "GET", "/health")[0] == 200
    goes_on.set()
    for thread in threads:
        thread.join()
    assert statuses == [200] * 4
    assert ask(proxy, "POST", "/v1/completions", key, b"{}")[0] == 200


def test_a_key_at_its_limit_does_not_shut_the_others_out(tmp_path: Path, upstream: Upstream) -> None:
    proxy = Proxy(tmp_path, upstream.url, max_requests=64)
    proxy.keys.ensure(["default", "laptop"], "api_proxy")
    proxy.start()
    goes_on, held = threading.Event(), threading.Semaphore(0)

    def hold() -> None:
        held.release()
        goes_on.wait()

    upstream.between = hold
    address, head = ("127.0.0.1", proxy.site["docker_port"]), "POST /v1/completions HTTP/1.1\r\nHost: x\r\n"
    sent = f"{head}Authorization: Bearer {proxy.key('default')}\r\nContent-Length: 2\r\n\r\n{{}}".encode()
    silent: list[socket.socket] = []
    try:
        # They read nothing of what they asked for.
        for _ in range(64):
            silent.append(socket.create_connection(address, WITHIN_S))
            silent[-1].sendall(sent)
            assert held.acquire(timeout=WITHIN_S)
        upstream.between = lambda: None
        for _ in range(6):
            assert code_of(ask(proxy, "POST", "/v1/completions", proxy.key("default"), b"{}")) == (
                429,
                "too_many_requests",
            )
        assert ask(proxy, "GET", "/v1/models", proxy.key("laptop"))[0] == 200
        assert ask(proxy, "POST", "/v1/completions", proxy.key("laptop"), b"{}")[0] == 200
        # The count is the key's, whichever port its requests come in by, and survives a reload.
        proxy.reload()
        context = ssl.create_default_context(cafile=str(proxy.ca))
        with contextlib.closing(
            http.client.HTTPSConnection("127.0.0.1", proxy.site["port"], context=context, timeout=WITHIN_S)
        ) as connection:
            connection.request("GET", "/v1/models", headers={"Authorization": f"Bearer {proxy.key('default')}"})
            assert connection.getresponse().status == 429
    finally:
        goes_on.set()
        for one in silent:
            one.close()
        proxy.close()


def test_the_servers_own_refusals_pass_as_they_are(proxy: Proxy, upstream: Upstream) -> None:
    for status in (400, 404, 503):
        upstream.server.ask = lambda handler, status=status: handler.reply(status, b'{"error": "own words"}')  # type: ignore[misc]
        assert ask(proxy, "POST", "/v1/completions", proxy.key("default"), b"{}")[::2] == (
            status,
            b'{"error": "own words"}',
        )


def test_a_server_that_is_not_there(proxy: Proxy, upstream: Upstream) -> None:
    upstream.server.close()
    assert code_of(ask(proxy, "GET", "/health")) == (502, "server_unavailable")
    assert code_of(ask(proxy, "GET", "/v1/models", proxy.key("default"))) == (502, "server_unavailable")
    assert code_of(ask(proxy, "GET", "/v1/models")) == (401, "invalid_api_key")


def test_a_revoked_key_is_out_and_no_stream_is_cut(proxy: Proxy, upstream: Upstream) -> None:
    upstream.pieces = 20
    goes_on = threading.Event()
    upstream.between = goes_on.wait
    gone, kept = proxy.key("laptop"), proxy.key("default")
    answers: list[Answer] = []
    thread = threading.Thread(target=lambda: answers.append(ask(proxy, "POST", "/v1/completions", gone, b"{}")))
    thread.start()
    until(lambda: upstream.server.requests)
    assert proxy.keys.ensure(["default"], "api_proxy").revoked == ["laptop"]
    proxy.reload()
    assert ask(proxy, "GET", "/v1/models", gone)[0] == 401
    assert ask(proxy, "GET", "/v1/models", kept)[0] == 200
    goes_on.set()
    thread.join()
    assert answers[0][0] == 200
    assert answers[0][2].count(b"data:") == 20


def test_without_any_key_nobody_gets_in(proxy: Proxy) -> None:
    key = proxy.key("default")
    proxy.keys.ensure([], "api_proxy")
    proxy.reload()
    for one in (None, key, "", "*"):
        assert ask(proxy, "GET", "/v1/models", one)[0] == 401


def test_it_comes_up_again_after_a_hard_end(proxy: Proxy) -> None:
    authority = proxy.ca.read_text()
    proxy.kill()
    proxy.start()
    assert ask(proxy, "GET", "/health")[0] == 200
    assert proxy.ca.read_text() == authority


def tls(proxy: Proxy, name: str | None = None, **limits: t.Any) -> tuple[str | None, dict[str, t.Any]]:
    context = ssl.create_default_context(cafile=str(proxy.ca))
    context.check_hostname = name is not None
    for limit, value in limits.items():
        setattr(context, limit, value)
    with (
        socket.create_connection(("127.0.0.1", proxy.site["port"]), 10) as plain,
        context.wrap_socket(plain, server_hostname=name) as sock,
    ):
        return sock.version(), t.cast("dict[str, t.Any]", sock.getpeercert())


def eventually(call: t.Callable[[], t.Any]) -> t.Any:
    """The first certificates are made while it listens already."""
    found: list[t.Any] = []

    def called() -> bool:
        with contextlib.suppress(OSError, ssl.SSLError):
            found.append(call())
        return bool(found)

    until(called)
    return found[0]


def test_tls_by_name_by_address_and_without_a_name(proxy: Proxy) -> None:
    eventually(lambda: tls(proxy, "spark-1.local"))
    for name in ("spark-1.local", "127.0.0.1", None):
        version, certificate = eventually(lambda name=name: tls(proxy, name))  # type: ignore[misc]
        assert version in ("TLSv1.2", "TLSv1.3")
        issuer = dict(pair[0] for pair in certificate["issuer"])
        assert issuer["commonName"] == "dgx-spark-speculative on spark-1, intermediate"


def test_old_tls_is_refused(proxy: Proxy) -> None:
    eventually(lambda: tls(proxy, "spark-1.local"))
    with pytest.warns(DeprecationWarning, match="TLSv1"), pytest.raises((ssl.SSLError, OSError)):
        tls(proxy, "spark-1.local", minimum_version=ssl.TLSVersion.TLSv1, maximum_version=ssl.TLSVersion.TLSv1_1)


def test_both_doors_have_the_same_lock(proxy: Proxy) -> None:
    eventually(lambda: tls(proxy, "127.0.0.1"))
    context = ssl.create_default_context(cafile=str(proxy.ca))
    # Whatever host is asked for: no answer comes from anywhere else.
    for host in ("127.0.0.1", "spark-1.local", "elsewhere.example"):
        for path, key, status in (
            ("/v1/models", None, 401),
            ("/v1/models", proxy.key("default"), 200),
            ("/update_weights", proxy.key("default"), 403),
            ("/v1/../update_weights", proxy.key("default"), 403),
        ):
            connection = http.client.HTTPSConnection("127.0.0.1", proxy.site["port"], context=context, timeout=WITHIN_S)
            headers = {"Host": host, **({"Authorization": f"Bearer {key}"} if key else {})}
            connection.request("GET", path, headers=headers)
            assert connection.getresponse().status == status
            connection.close()


def test_for_containers_alone_there_is_one_port(tmp_path: Path, upstream: Upstream) -> None:
    proxy = Proxy(tmp_path, upstream.url, lan=False, names=[])
    proxy.keys.ensure(["default"], "api_proxy")
    try:
        proxy.start()
        assert ask(proxy, "GET", "/v1/models", proxy.key("default"))[0] == 200
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", proxy.site["port"]), 5)
        servers = proxy.adapted()["apps"]["http"]["servers"]
        assert [one["listen"] for one in servers.values()] == [[f"127.0.0.1:{proxy.site['docker_port']}"]]
        # Opened to the LAN later, without a restart.
        proxy.site.update(lan=True, names=["127.0.0.1"])
        proxy.reload()
        eventually(lambda: tls(proxy, "127.0.0.1"))
    finally:
        proxy.close()


def test_the_official_program_finds_the_file_well_made(proxy: Proxy) -> None:
    assert proxy.adapted()
    sites: list[dict[str, t.Any]] = [{"addresses": []}, {"names": ["fd00::1", "spark-1"]}, {"lan": False, "names": []}]
    for site in sites:
        proxy.site.update(site)
        assert proxy.adapted()


@contextlib.contextmanager
def raw_upstream(answer: bytes, healthy: threading.Event | None = None) -> t.Iterator[tuple[str, list[bytes]]]:
    """A server that answers every connection with these bytes; and what it was told."""
    told: list[bytes] = []

    def serve(connection: socket.socket) -> None:
        # A client that is gone when its answer comes is no event.
        with connection, contextlib.suppress(OSError):
            time.sleep(0.2)
            heard = connection.recv(1 << 20)
            told.append(heard)
            if healthy is not None and heard.startswith(b"GET /health"):
                healthy.wait()
            connection.sendall(answer)

    def accept() -> None:
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=accept, daemon=True).start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}", told
        listener.shutdown(socket.SHUT_RDWR)


def test_no_other_protocol_is_agreed_on(tmp_path: Path) -> None:
    with raw_upstream(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n") as (url, told):
        proxy = Proxy(tmp_path, url)
        proxy.keys.ensure(["default"], "api_proxy")
        try:
            proxy.start()
            upgrade = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Key": "a"}
            assert ask(proxy, "GET", "/health", headers=upgrade)[0] == 200
            assert ask(proxy, "GET", "/v1/models", proxy.key("default"), headers=upgrade)[0] == 200
        finally:
            proxy.close()
    assert len(told) == 2
    assert not any(b"upgrade:" in request.lower() for request in told)


def test_those_without_a_key_do_not_take_the_place_of_those_with_one(tmp_path: Path) -> None:
    healthy = threading.Event()
    with raw_upstream(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", healthy) as (url, told):
        proxy = Proxy(tmp_path, url, max_requests=2)
        proxy.keys.ensure(["default"], "api_proxy")
        waiting = []
        try:
            proxy.start()
            for _ in range(3):
                waiting.append(socket.create_connection(("127.0.0.1", proxy.site["docker_port"])))
                waiting[-1].sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
            until(lambda: len(told) >= 2)
            assert ask(proxy, "GET", "/v1/models", proxy.key("default"))[0] == 200
            assert len([request for request in told if request.startswith(b"GET /health")]) == 2
        finally:
            healthy.set()
            for one in waiting:
                one.close()
            proxy.close()


def test_without_a_key_nothing_large_is_passed_on(tmp_path: Path) -> None:
    with raw_upstream(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n") as (url, told):
        proxy = Proxy(tmp_path, url)
        proxy.keys.ensure([], "api_proxy")
        try:
            proxy.start()
            with contextlib.suppress(OSError, http.client.HTTPException):
                ask(proxy, "GET", "/health", body=b"x" * 500_000)
        finally:
            proxy.close()
    assert len(b"".join(told)) < 5_000


def test_every_directory_that_is_given_makes_another_container_when_it_is_another() -> None:
    tasks = yaml.safe_load((REPOSITORY / "roles/api_proxy/tasks/run.yml").read_text(encoding="utf-8"))
    run = next(task for task in tasks if task["name"] == "Run the proxy")
    container = run["community.docker.docker_container"]
    sources = [mount["source"].rpartition("/")[2] for mount in container["mounts"]]
    assert re.findall(r"[.]inodes[.]get\('(\w+)'", container["labels"]["dgx_spark.speculative.given"]) == sources


def test_a_damaged_import_leaves_the_former_configuration_and_what_is_said_of_it_is_not_shown(proxy: Proxy) -> None:
    key, path = proxy.key("laptop"), proxy.directory / "keys" / ACCEPTED
    path.write_text(f"@keyed {{\n\t{key} x\n}}\n", encoding="utf-8")
    done = proxy.call("reload")
    assert done.returncode == 1
    assert key in done.stderr
    assert ask(proxy, "GET", "/v1/models", key)[0] == 200
    tasks = yaml.safe_load((REPOSITORY / "roles/api_proxy/tasks/reload.yml").read_text(encoding="utf-8"))
    assert [task["no_log"] for task in tasks[0]["block"]] == [True]

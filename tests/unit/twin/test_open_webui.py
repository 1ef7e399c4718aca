# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The test double of Open WebUI is as strict with strangers as the real one."""

from __future__ import annotations

import contextlib
import http.server
import json
import threading
import typing as t
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from tests.twin.open_webui.backend.server import Interface, serve
from tests.unit import web
from tests.unit.waiting import WITHIN_S

ACCOUNT = {"name": "One", "email": "one@example.org", "password": "secret"}


class Backend(web.Handler):
    """Offers a model to whoever has the key."""

    def do_GET(self) -> None:
        known = (self.path, self.headers.get("Authorization")) == ("/v1/models", "Bearer the-key")
        self.reply(200 if known else 401, {"data": [{"id": "m"}]} if known else {})


@contextlib.contextmanager
def serving(server: http.server.HTTPServer) -> t.Iterator[str]:
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def ask(url: str, body: dict[str, str] | None = None, token: str | None = None) -> tuple[int, t.Any]:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    request = urllib.request.Request(url, json.dumps(body).encode() if body else None, headers)
    try:
        with urllib.request.urlopen(request, timeout=WITHIN_S) as response:
            return response.status, json.load(response)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)


@pytest.fixture
def backend() -> t.Iterator[str]:
    with web.Server(Backend) as server:
        yield server.url


@contextlib.contextmanager
def interface(data: Path, **environment: str) -> t.Iterator[str]:
    with serving(serve(("127.0.0.1", 0), Interface(data, environment))) as url:
        yield url


def test_the_first_account_is_the_administrator_and_the_only_one(tmp_path: Path, backend: str) -> None:
    settings = {"OPENAI_API_BASE_URL": f"{backend}/v1", "OPENAI_API_KEY": "the-key"}
    with interface(tmp_path, **settings) as url:
        assert ask(f"{url}/health") == (200, {"status": True})
        assert ask(f"{url}/api/config")[1]["onboarding"] is True
        assert ask(f"{url}/api/models") == (401, {"detail": "Not authenticated"})
        status, account = ask(f"{url}/api/v1/auths/signup", ACCOUNT)
        assert (status, account["role"]) == (200, "admin")
        assert ask(f"{url}/api/models", token=account["token"]) == (200, {"data": [{"id": "m"}]})
        assert ask(f"{url}/api/v1/auths/signup", {**ACCOUNT, "email": "two"})[0] == 403
        assert ask(f"{url}/api/v1/auths/signin", {**ACCOUNT, "password": "x"})[0] == 400
    # Another container with the same data knows the account.
    with interface(tmp_path, **settings) as url:
        assert "onboarding" not in ask(f"{url}/api/config")[1]
        assert ask(f"{url}/api/v1/auths/signin", ACCOUNT)[0] == 200


@pytest.mark.parametrize(("path", "key"), [("/v1", "another"), ("", "the-key")])
def test_a_backend_that_refuses_has_no_models(tmp_path: Path, backend: str, path: str, key: str) -> None:
    settings = {"OPENAI_API_BASE_URL": backend + path, "OPENAI_API_KEY": key, "WEBUI_AUTH": "False"}
    with interface(tmp_path, **settings) as url:
        assert ask(f"{url}/api/models") == (200, {"data": []})

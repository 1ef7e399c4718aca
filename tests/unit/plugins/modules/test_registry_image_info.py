# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import hashlib
import json
import socket
import typing as t
from urllib.parse import parse_qs, urlsplit

import pytest
from ansible_collections.dgx_spark.speculative.plugins.module_utils._docker import registry
from ansible_collections.dgx_spark.speculative.plugins.modules import registry_image_info

from tests.unit import modules, web

MANIFEST = {
    "mediaType": registry.MANIFEST_TYPES[0],
    "config": {"digest": "sha256:config", "size": 3},
    "layers": [
        {"digest": "sha256:one", "size": 100},
        {"digest": "sha256:two", "size": 20},
        {"digest": "sha256:one", "size": 100},
    ],
}
CONFIGURATION: dict[str, t.Any] = {"os": "linux", "architecture": "arm64", "variant": "v8"}
CONFIGURATION["config"] = {"Env": ["PATH=/bin", "CUDA_VERSION=13.2.0"]}
# As Docker builds and pushes on a host with another processor: one manifest and no index.
FOREIGN = {**MANIFEST, "config": {"digest": "sha256:amd64", "size": 3}}
BODY = json.dumps(MANIFEST).encode()
DIGEST = "sha256:" + hashlib.sha256(BODY).hexdigest()
INDEX = {
    "mediaType": registry.INDEX_TYPES[0],
    "manifests": [
        {"digest": DIGEST, "platform": {"os": "linux", "architecture": "arm64"}},
        {"digest": "sha256:other", "platform": {"os": "linux", "architecture": "amd64"}},
        {"digest": "sha256:signature", "platform": {"os": "unknown", "architecture": "unknown"}},
    ],
}


class Handler(web.Handler):
    """A registry that wants a token of every client, and gives it."""

    server: Server

    def do_GET(self) -> None:
        self.server.requests.append(self.path)
        url = urlsplit(self.path)
        if url.path == "/token" and self.server.token is not None:
            self.reply(*self.server.token)
        elif url.path == "/token":
            query = parse_qs(url.query)
            granted = query == {"service": ["registry"], "scope": ["repository:nvidia/release:pull"]}
            self.reply(200 if granted else 403, {"token": "t0k"} if granted else {})
        elif self.server.refuses:
            self.reply(self.server.refuses, {"errors": []})
        elif self.headers.get("Authorization") != "Bearer t0k":
            realm = f'Bearer realm="http://{self.headers["Host"]}/token",service="registry"'
            self.reply(401, {}, headers={"WWW-Authenticate": f'{realm},scope="repository:nvidia/release:pull"'})
        elif self.path.startswith("/v2/nvidia/release/tags/list?n=1000&last=b"):
            self.reply(200, {"tags": ["1.3.0rc11"]})
        elif url.path == "/v2/nvidia/release/tags/list":
            link = '</v2/nvidia/release/tags/list?n=1000&last=b>; rel="next"'
            self.reply(200, {"tags": ["1.2", "latest"]}, headers={"Link": link})
        else:
            name = url.path.rpartition("/")[2]
            manifests = {"1.3": INDEX, "single": MANIFEST, DIGEST: MANIFEST, "foreign": FOREIGN, "text": b"hello"}
            blobs = {
                "sha256:config": CONFIGURATION,
                "sha256:amd64": {"os": "linux", "architecture": "amd64"},
            }
            pages: dict[str, t.Any] = blobs if "/blobs/" in url.path else manifests
            self.reply(200 if name in pages else 404, pages.get(name, {}))


class Server(web.Server):
    def __init__(self) -> None:
        self.requests: list[str] = []
        self.refuses = 0
        # What the token service answers instead of a token.
        self.token: tuple[int, t.Any] | None = None
        super().__init__(Handler)

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.server_port}"


@pytest.fixture(name="server")
def fixture_server() -> t.Iterator[Server]:
    with Server() as server:
        yield server


Ask = t.Callable[..., dict[str, t.Any]]


@pytest.fixture(name="ask")
def fixture_ask() -> Ask:
    def ask(image: str, platform: str = "linux/arm64") -> dict[str, t.Any]:
        return modules.run(registry_image_info, {"image": image, "platform": platform})

    return ask


def test_an_image_for_several_platforms(server: Server, ask: Ask) -> None:
    result = ask(f"{server.host}/nvidia/release:1.3")
    assert result == {
        "changed": False,
        "exists": True,
        "digest": "sha256:" + hashlib.sha256(json.dumps(INDEX).encode()).hexdigest(),
        "platform": "linux/arm64",
        "platforms": ["linux/amd64", "linux/arm64"],
        "platform_digest": DIGEST,
        "config_digest": "sha256:config",
        "cuda": "13.2.0",
        "compressed_bytes": 120,
        "layers": [{"digest": "sha256:one", "size": 100}, {"digest": "sha256:two", "size": 20}],
        "tags": [],
    }
    asked = [path.partition("?")[0].rpartition("/")[2] for path in server.requests]
    assert asked == ["1.3", "token", "1.3", DIGEST, "sha256:config"]


def test_an_image_for_one_platform(server: Server, ask: Ask) -> None:
    for version in (":single", f"@{DIGEST}"):
        result = ask(f"{server.host}/nvidia/release{version}")
        assert (result["digest"], result["platform_digest"]) == (DIGEST, DIGEST)
        assert result["platforms"] == ["linux/arm64/v8"]
        assert result["compressed_bytes"] == 120


def test_an_image_for_another_platform_only(server: Server, ask: Ask) -> None:
    result = ask(f"{server.host}/nvidia/release:foreign")
    assert (result["exists"], result["platform_digest"], result["layers"]) == (True, None, [])
    assert result["platforms"] == ["linux/amd64"]
    assert ask(f"{server.host}/nvidia/release:foreign", platform="linux/amd64")["compressed_bytes"] == 120
    assert not [path for path in server.requests if path.endswith(("sha256:one", "sha256:two"))]


def test_an_image_that_is_not_for_this_platform(server: Server, ask: Ask) -> None:
    result = ask(f"{server.host}/nvidia/release:1.3", platform="linux/riscv64")
    assert (result["exists"], result["platform_digest"], result["layers"]) == (True, None, [])
    assert result["platforms"] == ["linux/amd64", "linux/arm64"]


def test_a_tag_that_does_not_exist(server: Server, ask: Ask) -> None:
    result = ask(f"{server.host}/nvidia/release:1.3.0rc12")
    assert (result["exists"], result["digest"], result["tags"]) == (False, None, ["1.3.0rc11", "1.2", "latest"])


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (
            403,
            "The registry does not hand out {name} to anonymous clients (status 403); "
            "check the name, and whether the image is public.",
        ),
        (
            401,
            "The registry does not hand out {name} to anonymous clients (status 401); "
            "check the name, and whether the image is public.",
        ),
        (
            429,
            "The registry refuses requests for {name} for now because there were too many; wait a while.",
        ),
        (
            503,
            "Asking the registry for a manifest of {name} failed with status 503; "
            "is this the address of an image registry, and does it work?",
        ),
    ],
)
def test_refusals(server: Server, ask: Ask, status: int, message: str) -> None:
    server.refuses = status
    assert ask(f"{server.host}/nvidia/release:1.3")["msg"] == message.format(name=f"{server.host}/nvidia/release")


@pytest.mark.parametrize(
    ("status", "body", "message"),
    [
        (
            503,
            {},
            "For {name} the registry wants a token, and {host}, which hands them out, does not work for now "
            "(status 503); wait some minutes, then run again.",
        ),
        (
            200,
            "<html>Please log in</html>",
            "For {name} the registry wants a token, and {host}, which hands them out, answers with something else; "
            "check for a proxy or a login page in between.",
        ),
        (429, {}, "The registry refuses requests for {name} for now because there were too many; wait a while."),
        (
            401,
            {},
            "The registry does not hand out {name} to anonymous clients (status 401); "
            "check the name, and whether the image is public.",
        ),
    ],
)
def test_a_token_service_that_gives_none(server: Server, ask: Ask, status: int, body: t.Any, message: str) -> None:
    server.token = status, body
    name = f"{server.host}/nvidia/release"
    assert ask(f"{name}:1.3")["msg"] == message.format(name=name, host=server.host)


def test_something_else_than_a_registry(server: Server, ask: Ask) -> None:
    assert ask(f"{server.host}/nvidia/release:text")["msg"] == (
        f"Asking the registry for a manifest of {server.host}/nvidia/release failed with status 200; "
        "is this the address of an image registry, and does it work?"
    )


def test_a_registry_that_cannot_be_reached(ask: Ask) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        host = f"127.0.0.1:{closed.getsockname()[1]}"
    assert ask(f"{host}/x:1")["msg"] == (
        f"The registry {host} cannot be reached ([Errno 111] Connection refused); "
        "check the machine's network, its name server and its proxy settings."
    )

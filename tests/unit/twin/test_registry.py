# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Other releases in the registry: the same layers under another configuration."""

from __future__ import annotations

import hashlib
import http.server
import json
import threading
import typing as t

import pytest

from tests.twin.names import TwinError
from tests.twin.registry import ARCHITECTURE, FOREIGN_ARCHITECTURE, INDEX_KIND, Registry, with_release

KIND = "application/vnd.docker.distribution.manifest.v2+json"
CONFIGURATION = {
    "config": {
        "Env": ["PATH=/bin", "TRT_LLM_VERSION=1.3.0rc12"],
        "Labels": {"org.opencontainers.image.version": "1.3.0rc12", "other": "x"},
    },
    "rootfs": {"diff_ids": ["sha256:1"]},
}


def digest_of(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


class Handler(http.server.BaseHTTPRequestHandler):
    """As much of a registry as an upload needs, strict about digests."""

    manifests: t.ClassVar[dict[str, bytes]] = {}
    blobs: t.ClassVar[dict[str, bytes]] = {}

    def log_message(self, format: str, *arguments: t.Any) -> None:
        pass

    def reply(self, status: int, body: bytes = b"", **headers: str) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self) -> None:
        what, _, name = self.path.removeprefix("/v2/nvidia/x/").partition("/")
        body = (self.manifests if what == "manifests" else self.blobs).get(name)
        if body is None:
            self.reply(404)
        else:
            kind = INDEX_KIND if b'"manifests"' in body else KIND
            self.reply(200, body, Content_Type=kind, Docker_Content_Digest=digest_of(body))

    def do_POST(self) -> None:
        self.reply(202, Location="/v2/nvidia/x/blobs/uploads/1?state=a")

    def do_PUT(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        path, _, query = self.path.removeprefix("/v2/nvidia/x/").partition("?")
        if path.startswith("manifests/"):
            Handler.manifests |= {path.partition("/")[2]: body, digest_of(body): body}
            self.reply(201 if self.knows(json.loads(body)) else 400)
        else:
            self.blobs[digest_of(body)] = body
            self.reply(201 if query == f"state=a&digest={digest_of(body)}" else 400)

    def knows(self, manifest: dict[str, t.Any]) -> bool:
        """Whether what a manifest or a list of them names has come before it."""
        if self.headers["Content-Type"] == INDEX_KIND:
            sizes = {digest_of(body): len(body) for body in self.manifests.values()}
            return all(sizes.get(entry["digest"]) == entry["size"] for entry in manifest["manifests"])
        return manifest["config"]["digest"] in self.blobs and self.headers["Content-Type"] == KIND


@pytest.fixture
def registry() -> t.Iterator[Registry]:
    configuration = json.dumps(CONFIGURATION).encode()
    layers = [{"digest": "sha256:2", "size": 3}]
    manifest = {"config": {"digest": digest_of(configuration), "size": len(configuration)}, "layers": layers}
    body = json.dumps(manifest).encode()
    Handler.manifests = {"base": body, digest_of(body): body}
    Handler.blobs = {digest_of(configuration): configuration}
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield Registry(f"127.0.0.1:{server.server_address[1]}", "nvidia/x")
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_release_shares_the_layers_and_has_its_own_configuration(registry: Registry) -> None:
    assert registry.add_release("base", "other", "1.2.0rc6")
    manifest = json.loads(Handler.manifests["other"])
    assert manifest["layers"] == json.loads(Handler.manifests["base"])["layers"]
    configuration = json.loads(Handler.blobs[manifest["config"]["digest"]])
    assert configuration["config"]["Env"] == ["PATH=/bin", "TRT_LLM_VERSION=1.2.0rc6"]
    assert manifest["config"]["digest"] in registry.ids("other")
    assert not registry.add_release("base", "other", "1.2.0rc6")


def test_an_image_for_another_processor_alone_and_in_a_list(registry: Registry) -> None:
    own = registry.ids("base")
    assert registry.add_foreign("base", "foreign")
    assert registry.offer_both("base", "foreign")
    assert not registry.add_foreign("base", "foreign")
    assert not registry.offer_both("base", "foreign")
    manifest, listed = (json.loads(Handler.manifests[tag]) for tag in ("foreign", "base"))
    assert json.loads(Handler.blobs[manifest["config"]["digest"]])["architecture"] == FOREIGN_ARCHITECTURE
    platforms = [entry["platform"]["architecture"] for entry in listed["manifests"]]
    assert platforms == [FOREIGN_ARCHITECTURE, ARCHITECTURE]
    # What was pushed is still known under its names, so that it is not pushed again.
    assert own < registry.ids("base")
    assert not own & registry.ids("foreign")


def test_an_image_in_a_list_of_manifests_is_found(registry: Registry) -> None:
    registry.add_foreign("base", "foreign")
    registry.offer_both("base", "foreign")
    assert registry.add_release("base", "other", "1.2.0rc6")
    manifest = json.loads(Handler.manifests["other"])
    assert "architecture" not in json.loads(Handler.blobs[manifest["config"]["digest"]])


def test_a_release_of_nothing_is_one_sentence(registry: Registry) -> None:
    assert registry.ids("none") == set()
    with pytest.raises(TwinError, match="The twin's registry has no image none"):
        registry.add_release("none", "other", "1.2.0rc6")


def test_absent_registry_is_one_sentence() -> None:
    with pytest.raises(TwinError, match=r"The twin's registry does not answer at 127\.0\.0\.1:9: "):
        Registry("127.0.0.1:9").ids("x")


def test_configurations_without_labels_are_left_alone() -> None:
    assert with_release({"config": {"Env": None, "Labels": None}}, "1") == {"config": {"Env": None, "Labels": None}}

# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import socket
import threading
import typing as t
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

import pytest
from ansible.module_utils.testing import patch_module_args
from ansible_collections.dgx_spark.speculative.plugins.modules import update_info
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._report.updates import told
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._trtllm import known_issues
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._trtllm.known_issues import KnownIssue
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._trtllm.releases import RANGES

from tests.unit.hub_server import ACCEPTED, Fault, HubServer, Model, running

OLD, NEW, PIN = "1" * 40, "2" * 40, "3" * 40
TARGET, DRAFT = "openai/gpt-oss-120b", "nvidia/gpt-oss-120b-Eagle3-long-context"


class Registry(ThreadingHTTPServer):
    """Tags with the platforms they are for."""

    tags: dict[str, str]
    digest = "sha256:" + "a" * 64

    @property
    def image(self) -> str:
        return f"127.0.0.1:{self.server_port}/nvidia/release"


class Handler(BaseHTTPRequestHandler):
    server: Registry

    def do_GET(self) -> None:
        name = urlsplit(self.path).path.rpartition("/")[2]
        tags = self.server.tags
        if self.path.startswith("/v2/nvidia/release/tags/list"):
            self._send({"tags": list(tags)})
        elif name in tags:
            platform = {"os": "linux", "architecture": tags[name]}
            self._send({"manifests": [{"digest": "sha256:one", "platform": platform}]})
        elif name == "sha256:one":
            self._send({"layers": [{"digest": "sha256:layer", "size": 17_500_000_000}]})
        else:
            self._send({}, 404)

    def _send(self, page: t.Any, status: int = 200) -> None:
        body = json.dumps(page).encode()
        self.send_response(status)
        self.send_header("Docker-Content-Digest", self.server.digest)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: t.Any) -> None: ...


@pytest.fixture(name="registry")
def fixture_registry() -> t.Iterator[Registry]:
    with Registry(("127.0.0.1", 0), Handler) as server:
        server.tags = {"1.3.0rc12": "arm64", "1.3.0rc13": "arm64", "1.3.0rc14": "amd64"}
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        yield server
        server.shutdown()


@pytest.fixture(name="hub")
def fixture_hub() -> t.Iterator[HubServer]:
    files = {"config.json": b"{}", "model.safetensors": b"w" * 1000, "README.md": b"x"}
    models = {
        TARGET: Model(files, large={"model.safetensors"}, commit=OLD),
        DRAFT: Model({"model.safetensors": b"d"}, commit=PIN),
    }
    with running(HubServer(models)) as server:
        yield server


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(update_info, "DELAYS", ())


def recipe(registry: Registry, **changes: t.Any) -> dict[str, t.Any]:
    target = {"id": TARGET, "revision": "main", "include": [], "exclude": []}
    draft = {"id": DRAFT, "revision": PIN, "include": [], "exclude": []}
    return {
        "name": "single_eagle3",
        "image": f"{registry.image}:1.3.0rc12",
        "method": "eagle3",
        "options": {},
        "target_model": target,
        "draft_model": draft,
        "repositories": [target, draft],
        **changes,
    }


def record(registry: Registry, tag: str = "1.3.0rc12", **changes: t.Any) -> dict[str, t.Any]:
    return {
        "deployment": "single_eagle3",
        "deployed_at": "2026-01-02T03:04:05Z",
        "image": {"reference": f"{registry.image}:{tag}", "digests": [f"{registry.image}@sha256:{'b' * 64}"]},
        "models": {TARGET: {"commit": OLD}, DRAFT: {"commit": PIN}},
        "target_model": TARGET,
        "draft_model": DRAFT,
        "method": "eagle3",
        "options": {},
        **changes,
    }


Ask = t.Callable[..., dict[str, t.Any]]


@pytest.fixture(name="ask")
def fixture_ask(hub: HubServer, capsys: pytest.CaptureFixture[str]) -> Ask:
    def ask(**arguments: t.Any) -> dict[str, t.Any]:
        given = {"platform": "linux/arm64", "endpoint": hub.endpoint, "families": RANGES, **arguments}
        with patch_module_args(given), pytest.raises(SystemExit):
            update_info.main()
        result: dict[str, t.Any] = json.loads(capsys.readouterr().out)
        result.pop("invocation", None)
        # As the action does.
        return {**result, **told(given, result["rows"], "spark-1")} if "rows" in result else result

    return ask


def rows(result: dict[str, t.Any]) -> list[tuple[str, ...]]:
    return [(row["kind"], row["current"], row["newest"], row["verdict"], row["proposed"]) for row in result["rows"]]


def test_the_next_candidate_of_the_line_that_is_there_for_the_platform(
    registry: Registry, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = KnownIssue("x", "this release was seen to fail", "https://y", first="1.3.0rc13", last="1.3.0rc13")
    monkeypatch.setattr(known_issues, "KNOWN_ISSUES", (*known_issues.KNOWN_ISSUES, told))
    result = ask(record=record(registry), recipe=recipe(registry))
    assert rows(result) == [
        ("image", "1.3.0rc12", "1.3.0rc13", "newer", f"{registry.image}:1.3.0rc13"),
        ("model", OLD, OLD, "newest", None),
        ("model", PIN, PIN, "pinned", None),
    ]
    image = result["rows"][0]
    assert (image["name"], image["bytes"]) == (registry.image, 17_500_000_000)
    assert image["notes"][0] == "1.3.0rc14 is not there for linux/arm64."
    # The collection itself warns of that release, so whoever switches is to know what the present one does not have.
    assert image["notes"][1:] == ["Known of 1.3.0rc13: this release was seen to fail; see https://y."]
    assert (result["newer"], result["recipe_fits"]) == (True, True)
    assert result["overrides"]["image"] == f"{registry.image}:1.3.0rc13"
    assert result["lines"][0] == "spark-1: what is newer than 'single_eagle3', deployed 2026-01-02T03:04:05Z"
    assert "update.yml -e apply=true" in result["closing"][0]
    assert f"    trtllm_container_image: {registry.image}:1.3.0rc13" in result["keep"]


def test_nothing_is_newer(registry: Registry, ask: Ask) -> None:
    del registry.tags["1.3.0rc13"], registry.tags["1.3.0rc14"]
    result = ask(record=record(registry), recipe=recipe(registry))
    assert [row["verdict"] for row in result["rows"]] == ["newest", "newest", "pinned"]
    assert (result["newer"], result["keep"]) == (False, [])
    assert result["overrides"]["image"] == f"{registry.image}:1.3.0rc12"
    assert result["closing"] == ["Nothing newer to switch to."]


def test_a_release_beyond_the_line_is_mentioned_only(registry: Registry, ask: Ask) -> None:
    registry.tags = {"1.3.0rc12": "arm64", "1.4.0rc1": "arm64"}
    image = ask(record=record(registry), recipe=recipe(registry))["rows"][0]
    assert (image["verdict"], image["proposed"]) == ("newest", None)
    assert image["notes"] == [
        "1.4.0rc1 is the newest release beyond the line of 1.3.0rc12; it may need other engine options, and is tried "
        f"with -e trtllm_container_image={registry.image}:1.4.0rc1."
    ]


def test_a_newer_commit(registry: Registry, ask: Ask, hub: HubServer, monkeypatch: pytest.MonkeyPatch) -> None:
    files = {**hub.models[TARGET].files, "model.safetensors": b"v" * 1200}
    later(hub, monkeypatch, files)
    result = ask(record=record(registry, tag="1.3.0rc13"), recipe=recipe(registry))
    assert rows(result)[1] == ("model", OLD, NEW, "newer", NEW)
    assert result["rows"][1]["bytes"] == 1200
    # The image that serves stays, though the recipe has an older one.
    assert result["overrides"]["image"] == f"{registry.image}:1.3.0rc13"
    assert result["overrides"]["target_model"]["revision"] == NEW
    assert [one["revision"] for one in result["overrides"]["repositories"]] == [NEW, PIN]
    assert f"    target_model: {{revision: {NEW}}}" in result["keep"]


def test_a_commit_of_documentation_is_not_proposed(
    registry: Registry, ask: Ask, hub: HubServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    later(hub, monkeypatch, {**hub.models[TARGET].files, "README.md": b"longer"})
    row = ask(record=record(registry), recipe=recipe(registry))["rows"][1]
    assert (row["verdict"], row["newest"], row["proposed"]) == ("newest", NEW, None)
    assert row["notes"] == [
        f"{TARGET} has the commit 22222222, which changes nothing of what is served but documentation."
    ]


def later(hub: HubServer, monkeypatch: pytest.MonkeyPatch, files: dict[str, bytes]) -> None:
    """Let the Hub's branch go on to another commit; the old one can still be listed."""
    old = hub.models[TARGET]
    new = Model(files, large=old.large, commit=NEW, revisions=("main", OLD))
    hub.models[TARGET] = new
    listed = Model.entry

    def entry(self: Model, path: str) -> dict[str, t.Any]:
        before = self is new and len(hub.requests) and hub.requests[-1].endswith(f"/tree/{OLD}")
        return listed(old if before else self, path)

    monkeypatch.setattr(Model, "entry", entry)


def test_a_pinned_model_whose_branch_has_gone_on(registry: Registry, ask: Ask, hub: HubServer) -> None:
    hub.models[DRAFT].commit = NEW
    row = ask(record=record(registry), recipe=recipe(registry))["rows"][2]
    assert (row["verdict"], row["proposed"]) == ("pinned", None)
    assert row["notes"] == [f"{DRAFT} is pinned by the recipe to 33333333; its branch main is at 22222222."]


def test_the_recipe_pins_another_commit_than_the_one_that_serves(registry: Registry, ask: Ask) -> None:
    models = {TARGET: {"commit": OLD}, DRAFT: {"commit": OLD}}
    result = ask(record=record(registry, models=models), recipe=recipe(registry))
    assert rows(result)[2] == ("model", OLD, PIN, "newer", PIN)


def test_a_draft_that_is_replaced(registry: Registry, ask: Ask) -> None:
    result = ask(
        record=record(registry),
        recipe=recipe(registry),
        recipes=[["single_eagle3_v3", TARGET, "nvidia/v3", [DRAFT], "https://example.org"]],
    )
    assert rows(result)[3] == ("draft", DRAFT, "nvidia/v3", "superseded", None)
    assert any(line.endswith("pinned, has a successor") for line in result["lines"])
    assert "serve.yml -e recipe=single_eagle3_v3" in " ".join(result["lines"])


def test_a_deployment_whose_recipe_is_not_known(registry: Registry, ask: Ask) -> None:
    result = ask(record=record(registry))
    assert [row["verdict"] for row in result["rows"]] == ["newer", "newest", "newest"]
    assert not result["recipe_fits"]
    assert "give it with -e recipe=PATH" in " ".join(result["closing"])


def test_a_recipe_that_does_not_serve(registry: Registry, ask: Ask) -> None:
    result = ask(recipe=recipe(registry))
    assert [row["verdict"] for row in result["rows"]] == ["newer", "not deployed", "pinned"]
    assert result["closing"][0].endswith("serve.yml -e recipe=single_eagle3")


@pytest.mark.parametrize(("subject", "name"), [("record", "what is newer than 'single_eagle3'"), ("recipe", "'other'")])
def test_a_recipe_of_other_models(registry: Registry, ask: Ask, subject: str, name: str) -> None:
    other = recipe(registry, name="other", draft_model={"id": "nvidia/other", "revision": "main"})
    result = ask(record=record(registry), recipe=other, subject=subject)
    assert name in result["lines"][0]
    assert result["recipe_fits"] is False
    assert result["rows"][2]["name"] == (DRAFT if subject == "record" else "nvidia/other")


def test_models_in_a_directory_are_nobodys_business(registry: Registry, ask: Ask, hub: HubServer) -> None:
    given = record(registry, target_model="/models/t", draft_model="", method="none", models={"/models/t": {}})
    result = ask(record=given, recipe=recipe(registry, target_model={"directory": "/models/t"}, repositories=[]))
    assert rows(result)[1:] == [("model", None, None, "directory", None)]
    assert hub.requests == []


def test_a_tag_without_a_release_that_leads_to_another_image(registry: Registry, ask: Ask) -> None:
    registry.tags["spark-single-gpu-dev"] = "arm64"
    moved = ask(record=record(registry, tag="spark-single-gpu-dev"))["rows"][0]
    assert (moved["verdict"], moved["proposed"]) == ("newer", None)
    assert "leads to another image by now" in moved["notes"][0]
    registry.digest = "sha256:" + "b" * 64
    assert ask(record=record(registry, tag="spark-single-gpu-dev"))["rows"][0]["verdict"] == "newest"


def test_an_image_pinned_to_a_digest(registry: Registry, ask: Ask) -> None:
    result = ask(record=record(registry, tag=f"1.3.0rc12@sha256:{'c' * 64}"), recipe=recipe(registry))
    image = result["rows"][0]
    assert (image["current"], image["verdict"], image["proposed"]) == ("1.3.0rc12", "pinned", None)
    assert image["notes"][1] == "Its line goes on to 1.3.0rc14."


def test_without_the_registry_the_models_are_still_asked_for(registry: Registry, ask: Ask) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        host = f"127.0.0.1:{closed.getsockname()[1]}"
    image = {"reference": f"{host}/x:1.3.0rc12", "digests": []}
    result = ask(record=record(registry, image=image), recipe=recipe(registry))
    assert [row["verdict"] for row in result["rows"]] == ["unknown", "newest", "pinned"]
    assert result["rows"][0]["notes"][0].startswith(f"The registry {host} cannot be reached")


def test_without_the_hub_the_image_is_still_asked_for_and_the_hub_only_once(
    registry: Registry, ask: Ask, hub: HubServer
) -> None:
    hub.faults = [Fault("*", status=503)]
    result = ask(record=record(registry), recipe=recipe(registry))
    assert [row["verdict"] for row in result["rows"]] == ["newer", "unknown", "pinned"]
    assert result["rows"][1]["notes"][0].startswith(f"The Hub {hub.endpoint} could not be asked for {TARGET}")
    assert len(hub.requests) == 1


def test_the_token_is_used_only_where_the_hub_demands_one(registry: Registry, ask: Ask, hub: HubServer) -> None:
    del hub.models[DRAFT]
    result = ask(record=record(registry), recipe=recipe(registry), token=ACCEPTED)
    assert result["rows"][1]["verdict"] == "newest"
    assert result["rows"][2]["notes"][0].startswith(f"The Hub has no model {DRAFT} (or it is private")
    assert len([path for path in hub.requests if TARGET in path]) == 1
    assert len([path for path in hub.requests if DRAFT in path]) == 2


def test_nothing_to_compare_with(ask: Ask) -> None:
    assert ask()["msg"] == "There is nothing to compare with: give a record, a recipe or both."

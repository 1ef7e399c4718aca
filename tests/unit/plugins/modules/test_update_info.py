# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import socket
import typing as t
from urllib.parse import urlsplit

import pytest
from ansible_collections.dgx_spark.speculative.plugins.modules import update_info

from tests.unit import modules, web
from tests.unit.hub_server import ACCEPTED, Fault, HubServer, Model, running

FAMILIES = [["1.2.0rc1", "1.2.1"], ["1.3.0rc3", None]]
OLD, NEW, PIN = "1" * 40, "2" * 40, "3" * 40
TARGET, DRAFT = "openai/gpt-oss-120b", "nvidia/gpt-oss-120b-Eagle3-long-context"


class Registry(web.Server):
    """Tags with the platforms they are for."""

    def __init__(self) -> None:
        self.tags = {"1.3.0rc12": "arm64", "1.3.0rc13": "arm64", "1.3.0rc14": "amd64"}
        super().__init__(Handler)

    @property
    def image(self) -> str:
        return f"127.0.0.1:{self.server_port}/nvidia/release"


class Handler(web.Handler):
    def do_GET(self) -> None:
        name = urlsplit(self.path).path.rpartition("/")[2]
        tags = self.server.tags
        if self.path.startswith("/v2/nvidia/release/tags/list"):
            self.answer({"tags": list(tags)})
        elif name in tags:
            platform = {"os": "linux", "architecture": tags[name]}
            self.answer({"manifests": [{"digest": "sha256:one", "platform": platform}]})
        elif name == "sha256:one":
            self.answer({"layers": [{"digest": "sha256:layer", "size": 17_500_000_000}]})
        else:
            self.reply(404, {})

    def answer(self, page: t.Any) -> None:
        self.reply(200, page, headers={"Docker-Content-Digest": "sha256:" + "a" * 64})


@pytest.fixture(name="registry")
def fixture_registry() -> t.Iterator[Registry]:
    with Registry() as server:
        yield server


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
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a Spark, and without waiting."""
    monkeypatch.setattr(update_info, "own_platform", lambda: "linux/arm64")
    monkeypatch.setattr(update_info, "DELAYS", ())


def model(id_: str = TARGET, commit: str | None = OLD, revision: str = "main") -> dict[str, t.Any]:
    return {"id": id_, "commit": commit, "revision": revision, "include": [], "exclude": []}


Ask = t.Callable[..., list[dict[str, t.Any]]]


@pytest.fixture(name="ask")
def fixture_ask(hub: HubServer) -> Ask:
    def ask(**arguments: t.Any) -> list[dict[str, t.Any]]:
        asked = {"endpoint": hub.endpoint, "families": FAMILIES, **arguments}
        rows: list[dict[str, t.Any]] = modules.run(update_info, asked)["rows"]
        return rows

    return ask


def seen(row: dict[str, t.Any]) -> tuple[str, ...]:
    return tuple(row[key] for key in ("kind", "current", "newest", "verdict", "proposed"))


def test_the_next_candidate_that_is_there_for_the_platform(registry: Registry, ask: Ask) -> None:
    image, target, draft = ask(image=f"{registry.image}:1.3.0rc12", models=[model(), model(DRAFT, PIN, PIN)])
    assert seen(image) == ("image", "1.3.0rc12", "1.3.0rc13", "newer", f"{registry.image}:1.3.0rc13")
    assert (image["name"], image["bytes"]) == (registry.image, 17_500_000_000)
    assert image["notes"] == ["1.3.0rc14 is not there for linux/arm64."]
    assert seen(target) == ("model", OLD, OLD, "newest", None)
    assert seen(draft) == ("model", PIN, PIN, "pinned", None)


@pytest.mark.parametrize(("tag", "newest"), [("1.3.0rc12", "1.4.0rc1"), ("1.2.1", "1.2.2")])
def test_a_release_of_another_minor_version_or_without_rules_is_only_a_note(
    registry: Registry, ask: Ask, tag: str, newest: str
) -> None:
    registry.tags = {tag: "arm64", newest: "arm64"}
    (image,) = ask(image=f"{registry.image}:{tag}")
    assert (image["verdict"], image["proposed"]) == ("newest", None)
    assert (image["beyond"], image["notes"]) == (newest, [])


@pytest.mark.parametrize(
    ("tag", "current", "verdict"),
    [
        (f"1.3.0rc12@sha256:{'c' * 64}", "1.3.0rc12", "pinned"),
        ("spark-single-gpu-dev", "spark-single-gpu-dev", "unknown"),
    ],
)
def test_an_image_for_which_no_newer_release_is_looked_for(
    registry: Registry, ask: Ask, tag: str, current: str, verdict: str
) -> None:
    (image,) = ask(image=f"{registry.image}:{tag}")
    assert (image["current"], image["verdict"], image["proposed"]) == (current, verdict, None)


def test_a_newer_commit(registry: Registry, ask: Ask, hub: HubServer, monkeypatch: pytest.MonkeyPatch) -> None:
    later(hub, monkeypatch, {**hub.models[TARGET].files, "model.safetensors": b"v" * 1200})
    _image, target = ask(image=f"{registry.image}:1.3.0rc13", models=[model()])
    assert (seen(target), target["bytes"]) == (("model", OLD, NEW, "newer", NEW), 1200)


@pytest.mark.parametrize("changes", [{"README.md": b"longer"}, {"metal/model.bin": b"excluded"}, {}])
def test_a_commit_that_changes_no_file_that_is_used_is_not_proposed(
    registry: Registry, ask: Ask, hub: HubServer, monkeypatch: pytest.MonkeyPatch, changes: dict[str, bytes]
) -> None:
    hub.models[TARGET].files["metal/model.bin"] = b"also excluded"
    later(hub, monkeypatch, {**hub.models[TARGET].files, **changes})
    _image, target = ask(image=f"{registry.image}:1.3.0rc13", models=[{**model(), "exclude": ["metal/*"]}])
    assert seen(target) == ("model", OLD, NEW, "newest", None)
    assert target["notes"] == [f"{TARGET} has the commit 22222222, which changes no file that is used."]


def test_a_commit_whose_files_cannot_be_listed_is_not_proposed(
    registry: Registry, ask: Ask, hub: HubServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    later(hub, monkeypatch, hub.models[TARGET].files)
    hub.faults = [Fault("*/tree/*", status=500)]
    _image, target = ask(image=f"{registry.image}:1.3.0rc13", models=[model()])
    assert seen(target) == ("model", OLD, NEW, "unknown", None)
    assert "could not be asked" in target["notes"][0]


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


def test_a_pinned_model_whose_branch_has_a_newer_commit(registry: Registry, ask: Ask, hub: HubServer) -> None:
    hub.models[DRAFT].commit = NEW
    _image, draft = ask(image=f"{registry.image}:1.3.0rc13", models=[model(DRAFT, PIN, PIN)])
    assert (draft["verdict"], draft["proposed"]) == ("pinned", None)
    assert draft["notes"] == [f"{DRAFT} is pinned by the recipe to 33333333; its branch main is at 22222222."]


def test_the_recipe_pins_another_commit_than_the_deployed_one(registry: Registry, ask: Ask) -> None:
    _image, draft = ask(image=f"{registry.image}:1.3.0rc13", models=[model(DRAFT, OLD, PIN)])
    assert seen(draft) == ("model", OLD, PIN, "newer", PIN)


def test_of_a_model_in_a_directory_the_hub_is_not_asked(registry: Registry, ask: Ask, hub: HubServer) -> None:
    _image, target = ask(image=f"{registry.image}:1.3.0rc13", models=[model("/models/t", None)])
    assert seen(target) == ("model", None, None, "directory", None)
    assert hub.requests == []


def test_without_the_registry_the_hub_is_still_asked(ask: Ask) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        host = f"127.0.0.1:{closed.getsockname()[1]}"
    image, target = ask(image=f"{host}/x:1.3.0rc12", models=[model()])
    assert [image["verdict"], target["verdict"]] == ["unknown", "newest"]
    assert image["notes"][0].startswith(f"The registry {host} cannot be reached")


def test_without_the_hub_the_registry_is_still_asked(registry: Registry, ask: Ask, hub: HubServer) -> None:
    hub.faults = [Fault("*", status=503)]
    image, target = ask(image=f"{registry.image}:1.3.0rc12", models=[model()])
    assert [image["verdict"], target["verdict"]] == ["newer", "unknown"]
    assert target["notes"][0].startswith(f"The Hub {hub.endpoint} could not be asked for {TARGET}")


def test_the_token_is_used_only_for_a_model_that_needs_it(registry: Registry, ask: Ask, hub: HubServer) -> None:
    del hub.models[DRAFT]
    models = [model(), model(DRAFT, PIN, PIN)]
    _image, target, draft = ask(image=f"{registry.image}:1.3.0rc12", models=models, token=ACCEPTED)
    assert target["verdict"] == "newest"
    assert draft["notes"][0].startswith(f"The Hub has no model {DRAFT} (or it is private")
    assert [len([path for path in hub.requests if name in path]) for name in (TARGET, DRAFT)] == [1, 2]

# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import errno
import json
import typing as t
from pathlib import Path

import pytest
from ansible_collections.dgx_spark.speculative.plugins.modules import huggingface_cache_prune

from tests.unit import modules

COMMIT = "1" * 40
LABELS = {"dgx_spark.speculative.deployment": "one", "dgx_spark.speculative.configuration": "abc"}


@pytest.fixture
def host(tmp_path: Path) -> Path:
    """Four models, three of them with receipts; one is served, one was served before."""
    models = tmp_path / "state" / "models"
    models.mkdir(parents=True)
    for name in ("served", "before", "unused", "theirs"):
        snapshot = tmp_path / "hub" / f"models--lab--{name}" / "snapshots" / COMMIT
        (snapshot / "original").mkdir(parents=True)
        (snapshot / "config.json").write_bytes(b"{}")
        (snapshot / "original" / "model.bin").write_bytes(b"x" * 100)
        receipt = {"commit": COMMIT, "revisions": [], "include": [], "exclude": ["original/*"], "files": {}}
        if name != "theirs":
            (models / f"models--lab--{name}.json").write_text(json.dumps(receipt))
    write_record(tmp_path / "state" / "one" / "record.json", "served")
    write_record(tmp_path / "state" / "previous.json", "before")
    return tmp_path


def write_record(path: Path, model: str) -> None:
    path.parent.mkdir(exist_ok=True)
    record = {
        "deployment": "one",
        "models": {f"lab/{model}": {"commit": COMMIT}},
        "container": {"labels": LABELS},
    }
    path.write_text(json.dumps(record))


def run(host: Path, **more: t.Any) -> dict[str, t.Any]:
    arguments = {
        "cache_directory": str(host / "hub"),
        "state_directory": str(host / "state"),
        "labels": LABELS,
        **more,
    }
    arguments = {name: value for name, value in arguments.items() if value is not None}
    return modules.run(huggingface_cache_prune, arguments)


def tree(host: Path) -> list[str]:
    return sorted(str(path.relative_to(host)) for path in host.rglob("*"))


def test_check_mode_tells_the_truth(host: Path) -> None:
    before = tree(host)
    predicted = run(host, _ansible_check_mode=True, _ansible_diff=True)
    assert tree(host) == before
    result = run(host, _ansible_diff=True)
    assert {key: result[key] for key in ("changed", "removed", "bytes_freed", "lines", "diff")} == {
        key: predicted[key] for key in ("changed", "removed", "bytes_freed", "lines", "diff")
    }
    assert result["bytes_freed"] == 302
    assert result["diff"]["after"] == ""
    assert result["lines"] == [
        "original/ of lab/before, which is not served (100 bytes)",
        "original/ of lab/served, which is not served (100 bytes)",
        "lab/unused, which no deployment uses (102 bytes)",
    ]
    assert sorted(path.name for path in (host / "hub").iterdir()) == [
        "models--lab--before",
        "models--lab--served",
        "models--lab--theirs",
    ]
    assert (host / "hub" / "models--lab--theirs" / "snapshots" / COMMIT / "original" / "model.bin").exists()
    assert run(host)["changed"] is False


def test_without_a_container_every_deployment_counts(host: Path) -> None:
    result = run(host, labels={}, _ansible_check_mode=True)
    assert [item["id"] for item in result["removed"] if item["kind"] == "model"] == ["lab/unused"]


def test_a_container_that_was_never_seen_to_serve(host: Path) -> None:
    before = tree(host)
    result = run(host, labels={**LABELS, "dgx_spark.speculative.configuration": "new"})
    assert result["failed"]
    assert result["msg"] == (
        "The models in use are unknown, because the deployment one in the container was not verified with its present "
        "configuration. Deploy it again or remove it, then run again."
    )
    assert tree(host) == before


@pytest.mark.parametrize("name", ["one/record.json", "previous.json"])
@pytest.mark.parametrize("models", [None, {}, [], "lab/served", 5])
def test_a_record_that_does_not_say_what_it_uses(host: Path, name: str, models: t.Any) -> None:
    path = host / "state" / name
    path.write_text(json.dumps({**json.loads(path.read_text()), "models": models}))
    before = tree(host)
    result = run(host)
    assert result["failed"]
    assert f"{path} cannot be read or names no model" in result["msg"]
    assert tree(host) == before


@pytest.mark.parametrize("text", ["", '{"deployment": "one", "mod', "[]", "[" * 100_000])
def test_a_damaged_record_of_the_one_before(host: Path, text: str) -> None:
    (host / "state" / "previous.json").write_text(text)
    before = tree(host)
    assert run(host)["failed"]
    assert tree(host) == before


@pytest.mark.parametrize("text", ["", '{"deployment": "two", "mod', '{"deployment": "two"}', "[]", None])
def test_without_a_container_every_record_has_to_be_readable(host: Path, text: str | None) -> None:
    path = host / "state" / "two" / "record.json"
    write_record(path, "unused")
    if text is None:
        path.unlink()
        path.symlink_to(host / "gone")
    else:
        path.write_text(text)
    before = tree(host)
    result = run(host, labels={})
    assert result["failed"]
    assert result["msg"].startswith("The models in use are unknown, ")
    assert f"{path} cannot be read or names no model" in result["msg"]
    assert tree(host) == before


@pytest.mark.parametrize("key", ["include", "exclude"])
def test_a_damaged_receipt_vouches_for_nothing(host: Path, key: str) -> None:
    path = host / "state" / "models" / "models--lab--unused.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), key: 5}))
    assert "lab/unused" not in [item["id"] for item in run(host)["removed"]]


def closed(name: str, ask: t.Callable[..., t.Any]) -> t.Callable[..., t.Any]:
    def asked(path: Path, *arguments: t.Any, **options: t.Any) -> t.Any:
        if path.parent.name == name:
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return ask(path, *arguments, **options)

    return asked


def test_a_deployment_of_another_user_is_not_taken_for_none(host: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_record(host / "state" / "two" / "record.json", "unused")
    # As root, for whom no directory is closed.
    for name in ("lstat", "read_text"):
        monkeypatch.setattr(Path, name, closed("two", getattr(Path, name)))
    assert f"{host / 'state' / 'two' / 'record.json'} cannot be read" in run(host, labels={})["msg"]


def test_links_are_not_followed(host: Path) -> None:
    """Neither a model that is a link to elsewhere, nor one with links in it."""
    elsewhere = host / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "precious").write_text("x")
    snapshot = host / "hub/models--lab--served/snapshots" / COMMIT / "original"
    (snapshot / "link").symlink_to(elsewhere / "precious")
    (snapshot / "directory").symlink_to(elsewhere)
    (host / "hub/models--lab--unused").rename(elsewhere / "unused")
    (host / "hub/models--lab--unused").symlink_to(elsewhere / "unused")
    run(host)
    assert (elsewhere / "precious").exists()
    assert (elsewhere / "unused" / "snapshots" / COMMIT / "config.json").exists()


def test_named_models_go_whether_they_are_used_or_not(host: Path) -> None:
    asked = {"labels": None, "models": ["lab/served", "lab/theirs"], "also": ["lab/theirs"]}
    before = tree(host)
    predicted = run(host, **asked, _ansible_check_mode=True)
    assert tree(host) == before
    result = run(host, **asked)
    assert result["lines"] == predicted["lines"] == ["lab/served, 102 bytes", "lab/theirs, 102 bytes"]
    assert result["changed"] is predicted["changed"] is True
    assert sorted(path.name for path in (host / "hub").iterdir()) == ["models--lab--before", "models--lab--unused"]
    assert sorted(path.name for path in (host / "state" / "models").iterdir()) == [
        "models--lab--before.json",
        "models--lab--unused.json",
    ]
    again = run(host, **{**asked, "also": ["lab/served", "lab/theirs"]})
    assert (again["changed"], again["lines"]) == (False, ["lab/served, 0 bytes", "lab/theirs, 0 bytes"])


def test_all_is_what_was_fetched_here(host: Path) -> None:
    assert run(host, labels=None, models="all")["changed"] is True
    assert [path.name for path in (host / "hub").iterdir()] == ["models--lab--theirs"]


def test_of_a_model_that_is_kept_elsewhere_the_link_goes(host: Path) -> None:
    (host / "hub" / "models--lab--served").rename(host / "elsewhere")
    (host / "hub" / "models--lab--served").symlink_to(host / "elsewhere")
    run(host, labels=None, models="lab/served")
    assert not (host / "hub" / "models--lab--served").is_symlink()
    assert (host / "elsewhere" / "snapshots" / COMMIT / "config.json").exists()


def test_what_this_collection_did_not_fetch_is_not_removed(host: Path) -> None:
    before = tree(host)
    result = run(host, labels=None, models=["lab/theirs", "lab/served"])
    assert result["msg"] == (
        "lab/theirs cannot be removed, since it was not fetched by this collection. Those that were: lab/before, "
        "lab/served, lab/unused."
    )
    assert tree(host) == before

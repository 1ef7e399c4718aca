# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import typing as t
from pathlib import Path

import pytest
from ansible_collections.dgx_spark.speculative.plugins.module_utils._models import cache_inspector
from ansible_collections.dgx_spark.speculative.plugins.module_utils._models.cache_facts import EnvironmentValueError

COMMIT = "1" * 40


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> dict[str, str | None]:
    """What the login shell says. How it is asked is tested with the module_utils."""
    told: dict[str, str | None] = {"HF_HOME": None, "HF_HUB_CACHE": None}
    monkeypatch.setattr(cache_inspector, "login_environment", lambda _uid: told)
    return told


def run(tmp_path: Path, repositories: t.Sequence[dict[str, t.Any]] = (), **more: t.Any) -> dict[str, t.Any]:
    parameters = {
        "cache_directory": str(tmp_path / "hub"),
        "from_environment": False,
        "state_directory": str(tmp_path / "state"),
        "receipts_directory": str(tmp_path / "state" / "models"),
        "take_over": True,
        "verify": False,
        "repositories": [{"revision": "main", "include": [], "exclude": [], **one} for one in repositories],
    }
    return cache_inspector.CacheInspector({**parameters, **more}).look()


def store(tmp_path: Path, name: str, path: str, size: int) -> Path:
    pointer = tmp_path / "hub" / f"models--{name.replace('/', '--')}" / "snapshots" / COMMIT / path
    pointer.parent.mkdir(parents=True, exist_ok=True)
    pointer.write_bytes(b"x" * size)
    return pointer


def receipt(tmp_path: Path, name: str, exclude: list[str]) -> None:
    file = tmp_path / "hub" / f"models--{name.replace('/', '--')}" / "snapshots" / COMMIT / "config.json"
    noted = {"size": file.stat().st_size, "mtime_ns": file.stat().st_mtime_ns, "sha256": "a" * 64}
    data = {"commit": COMMIT, "revisions": ["main"], "include": [], "exclude": exclude, "files": {file.name: noted}}
    directory = tmp_path / "state" / "models"
    directory.mkdir(parents=True, exist_ok=True)
    (directory / f"models--{name.replace('/', '--')}.json").write_text(json.dumps(data))


def test_nothing_is_there(tmp_path: Path) -> None:
    result = run(tmp_path, repositories=[{"id": "lab/big"}])
    assert (result["models"], result["foreign"], result["token_files"], result["lines"]) == ([], [], [], [])
    assert result["directory"] == str(tmp_path / "hub")
    assert list(tmp_path.iterdir()) == []


def test_a_pasted_model_and_a_token(tmp_path: Path) -> None:
    store(tmp_path, "lab/big", "config.json", 10)
    store(tmp_path, "lab/big", "original/model.bin", 900)
    (tmp_path / "token").write_text("hf_secret")
    result = run(tmp_path, repositories=[{"id": "lab/big", "exclude": ["original/*"]}])
    (model,) = result["models"]
    assert (model["id"], model["bytes_on_disk"], model["fetched_here"]) == ("lab/big", 910, False)
    assert model["unused_files"] == ({"path": "original/", "bytes": 900},)
    assert result["token_files"] == [str(tmp_path / "token")]
    assert len(result["lines"]) == 3
    assert "hf_secret" not in json.dumps(result)


def test_models_that_receipts_vouch_for_are_used_as_they_are(tmp_path: Path) -> None:
    store(tmp_path, "lab/big", "config.json", 10)
    receipt(tmp_path, "lab/big", [])
    (tmp_path / "token").write_text("hf_secret")
    result = run(tmp_path, repositories=[{"id": "lab/big"}])
    assert (result["lines"], result["foreign"]) == ([], [])
    result = run(tmp_path, repositories=[{"id": "lab/big", "revision": "v2"}])
    assert result["lines"][0].startswith("Already in ")


def test_what_is_in_use(tmp_path: Path) -> None:
    for name in ("lab/big", "lab/small"):
        store(tmp_path, name, "config.json", 10)
    record = tmp_path / "state" / "one" / "record.json"
    record.parent.mkdir(parents=True)
    record.write_text(json.dumps({"deployment": "one", "models": {"lab/big": {"commit": COMMIT}}}))
    result = run(tmp_path)
    assert {model["id"]: model["in_use"] for model in result["models"]} == {"lab/big": True, "lab/small": False}


def test_the_login_shell_leads_elsewhere(tmp_path: Path, environment: dict[str, str | None]) -> None:
    environment["HF_HOME"] = str(tmp_path / "data")
    result = run(tmp_path)
    assert result["directory"] == str(tmp_path / "hub")
    assert result["login_environment"] == environment
    assert result["lines"][0].startswith(f"HF_HOME of the login shell leads to {tmp_path}/data/hub, but ")
    result = run(tmp_path, from_environment=True)
    assert (result["directory"], result["lines"]) == (str(tmp_path / "data" / "hub"), [])


def test_the_login_shell_leads_nowhere(tmp_path: Path, environment: dict[str, str | None]) -> None:
    environment["HF_HUB_CACHE"] = "cache"
    assert run(tmp_path)["directory"] == str(tmp_path / "hub")
    with pytest.raises(
        EnvironmentValueError, match="HF_HUB_CACHE of the login shell is 'cache', which is not an absolute path"
    ):
        run(tmp_path, from_environment=True)

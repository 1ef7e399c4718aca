# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest
from ansible_collections.dgx_spark.speculative.plugins.action import deployment_files
from ansible_collections.dgx_spark.speculative.plugins.module_utils._deployment.records import present_files
from ansible_collections.dgx_spark.speculative.plugins.modules import deployment_files as module

from tests.unit import actions, modules

LABELS = {"dgx_spark.speculative.generation": "5a0c3f1e9b27"}


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deployment_files, "require_lease", lambda *_a: None)


class Deployment:
    """One that the module has written."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.arguments: dict[str, t.Any] = {
            "directory": str(directory),
            "subdirectories": ["state", "trial"],
            "generation": "5a0c3f1e9b27",
            "files": [
                {"name": "options.yml", "content": "a: 1\n"},
                {"name": "server/loading.py", "content": "é\n", "mode": "0644"},
                {"name": "serve.sh", "content": "#!/bin/sh\n", "mode": "0755"},
            ],
        }
        modules.run(module, self.arguments)

    def asked(self, **changes: t.Any) -> bool:
        """Whether the Spark is asked, after a look at it."""
        asked = {**self.arguments, "existing": present_files(self.directory, LABELS), **changes}
        action = actions.made(deployment_files, asked, lambda *_: {"changed": True})
        assert action.run(task_vars={"inventory_hostname": "spark-1"})["changed"] is bool(action.calls)
        return bool(action.calls)


@pytest.fixture(name="deployment")
def fixture_deployment(tmp_path: Path) -> Deployment:
    return Deployment(tmp_path / "single_eagle3")


def test_a_spark_that_has_all_is_not_asked(deployment: Deployment) -> None:
    assert not deployment.asked()
    # What else lies there is left alone, as the module does.
    (deployment.directory / "state/state.json").write_text("{}")
    (deployment.directory / "check").mkdir()
    assert not deployment.asked()


@pytest.mark.parametrize(
    ("path", "mode"),
    [
        (".", 0o755),
        ("state", 0o700),
        ("generations", 0o700),
        ("generations/5a0c3f1e9b27/server", 0o700),
        ("generations/5a0c3f1e9b27/serve.sh", 0o644),
    ],
)
def test_another_mode_is_mended(deployment: Deployment, path: str, mode: int) -> None:
    (deployment.directory / path).chmod(mode)
    assert deployment.asked()


def test_what_is_lost_or_edited_is_mended(deployment: Deployment) -> None:
    options = deployment.directory / "generations/5a0c3f1e9b27/options.yml"
    options.write_bytes(b"a: 1\r\n")
    assert deployment.asked()
    options.unlink()
    assert deployment.asked()


@pytest.mark.parametrize(
    "changes",
    [
        {"generation": "another"},
        {"generation": None},
        {"subdirectories": ["state", "trial", "tiktoken_encodings"]},
        {"files": [{"name": "options.yml", "content": "a: 2\n"}]},
        {"files": [{"name": "options.yml", "content": "a: 1\n", "mode": "preserve"}]},
        {"files": [{"name": "options.yml", "reserve": 10}]},
        {"prune": True},
        {"existing": {}},
        {"mode": "0755"},
    ],
)
def test_whatever_else_is_wanted_is_asked_for(deployment: Deployment, changes: dict[str, t.Any]) -> None:
    assert deployment.asked(**changes)


def test_of_another_deployment_in_the_slot_nothing_is_known(deployment: Deployment) -> None:
    assert deployment.asked(existing=present_files(deployment.directory.with_name("another"), LABELS))
    assert deployment.asked(existing=present_files(deployment.directory, {}))

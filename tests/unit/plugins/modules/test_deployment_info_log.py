# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os
import shutil
import typing as t
from pathlib import Path

import pytest
from ansible_collections.dgx_spark.speculative.plugins.modules import deployment_info

from tests.unit import modules
from tests.unit.docker_server import DockerServer
from tests.unit.replay_server import FIXTURES

Read = t.Callable[..., dict[str, t.Any]]


@pytest.fixture(name="state")
def fixture_state(tmp_path: Path) -> Path:
    return tmp_path / "dgx-spark-speculative"


@pytest.fixture(name="docker")
def fixture_docker(tmp_path: Path) -> t.Iterator[DockerServer]:
    labels = {"dgx_spark.speculative.deployment": "mine"}
    with DockerServer(
        tmp_path / "docker.sock",
        {"/containers/dgx-spark-speculative/json": {"Id": "1", "Config": {"Labels": labels}}},
    ) as server:
        yield server
        server.shutdown()


@pytest.fixture(name="read")
def fixture_read(tmp_path: Path, state: Path) -> Read:
    def read(**args: t.Any) -> dict[str, t.Any]:
        options = {
            "gather": ["log"],
            "log": args,
            "socket": str(tmp_path / "docker.sock"),
            "state_directory": str(state),
        }
        result = modules.run(deployment_info, options)
        assert result.get("changed", False) is False
        # What is not asked for is not returned.
        assert result.get("failed") or set(result) == {"changed", "log"}
        return dict(result.get("log", result))

    return read


def log_of(state: Path, deployment: str) -> Path:
    path = state / deployment / "state" / "server.log"
    path.parent.mkdir(parents=True)
    shutil.copy(FIXTURES / "server_log_two_runs.txt", path)
    return path


@pytest.mark.usefixtures("docker")
def test_the_log_of_what_is_deployed(state: Path, read: Read) -> None:
    path = log_of(state, "mine")
    os.utime(path, (1, 1))
    log_of(state, "other")
    result = read()
    assert (result["path"], result["detail"], result["truncated"]) == (str(path), None, False)
    assert result["lines"] == [
        "[TensorRT-LLM] TensorRT LLM version: 1.3.0rc12",
        "[11/20/2025-16:31:05] [TRT-LLM] [I] Compute capability: (12, 1)",
    ]
    everything = read(all_runs=True, lines=5)
    assert (len(everything["lines"]), everything["truncated"]) == (5, True)


@pytest.mark.usefixtures("docker")
def test_a_log_that_is_not_there(state: Path, read: Read) -> None:
    path = state / "mine/state/server.log"
    result = read()
    assert result.get("failed", False) is False
    assert (result["lines"], result["path"], result["truncated"]) == ([], str(path), False)
    assert result["detail"] == f"There is no log {path}; the server was never started, or the log was removed."


@pytest.mark.usefixtures("docker")
def test_a_log_without_a_word(state: Path, read: Read) -> None:
    path = log_of(state, "mine")
    path.write_text("", encoding="utf-8")
    assert read()["detail"] == f"The log {path} is empty; the server has not said anything yet."


def test_nothing_is_deployed(state: Path, read: Read, docker: DockerServer) -> None:
    docker.pages.clear()
    assert read()["detail"] == f"Nothing is deployed, and no server has left a log below {state}."
    path = log_of(state, "other")
    result = read()
    assert (result["path"], len(result["lines"])) == (str(path), 2)
    assert result["detail"] == "Nothing is deployed now; this is the log that was written to last."


def test_without_docker_the_newest_log_is_read(state: Path, read: Read) -> None:
    assert read()["detail"] == f"No server has left a log below {state}."
    os.utime(log_of(state, "a"), (1, 1))
    newest = log_of(state, "b")
    result = read()
    assert result["path"] == str(newest)
    assert result["detail"].startswith("Docker cannot be asked what is deployed (No such file or directory)")


@pytest.mark.usefixtures("docker")
def test_a_directory_is_no_log(state: Path, read: Read) -> None:
    path = state / "mine/state/server.log"
    path.mkdir(parents=True)
    assert read()["detail"] == f"The log {path} cannot be read: Is a directory."


def test_too_few_lines(read: Read) -> None:
    assert read(lines=0)["msg"] == "log.lines is 0, but must be 1 or more."

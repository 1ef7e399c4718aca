# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import getpass
import json
import os
import sys
import typing as t
from pathlib import Path

import pytest
from ansible.module_utils.testing import patch_module_args
from ansible_collections.dgx_spark.speculative.plugins.module_utils._docker import look
from ansible_collections.dgx_spark.speculative.plugins.modules import (
    docker_access_info,
    spark_fabric_info,
    spark_facts,
    spark_info,
)

from roles.spark_network.files import bandwidth
from tests.unit.docker_server import DockerServer


def run(capsys: pytest.CaptureFixture[str], module: t.Any, **parameters: t.Any) -> dict[str, t.Any]:
    with patch_module_args(parameters), pytest.raises(SystemExit):
        module.main()
    result: dict[str, t.Any] = json.loads(capsys.readouterr().out)
    result.pop("invocation", None)
    return result


@pytest.fixture(name="socket")
def fixture_socket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "docker.sock"
    monkeypatch.setitem(look.ARGUMENTS, "socket", {"type": "path", "default": str(path)})
    return path


@pytest.fixture(name="docker")
def fixture_docker(tmp_path: Path, socket: Path) -> t.Iterator[DockerServer]:
    pages: dict[str, t.Any] = {
        "/info": {"ServerVersion": "28.3.3", "DockerRootDir": str(tmp_path)},
        "/version": {},
        "/containers/json": [],
    }
    server = DockerServer(socket, pages)
    yield server
    server.shutdown()
    server.server_close()


def test_who_logs_in_is_a_fact(capsys: pytest.CaptureFixture[str]) -> None:
    result = run(capsys, spark_facts)
    facts = result["ansible_facts"]
    assert facts["user_id"] == getpass.getuser()
    assert (facts["user_uid"], facts["user_gid"]) == (os.getuid(), os.getgid())
    assert (facts["user_dir"], facts["python"]) == (str(Path("~").expanduser()), {"executable": sys.executable})
    # What may be another thing a minute later must not be kept by a fact cache.
    assert set(facts) == {"user_id", "user_uid", "user_gid", "user_dir", "python"}
    assert (result["changed"], result["docker"], result["fabric"]) == (False, {}, {})


def test_the_machine_is_what_spark_info_returns(capsys: pytest.CaptureFixture[str]) -> None:
    machine = run(capsys, spark_facts)["machine"]
    alone = run(capsys, spark_info)
    for moving in ("memory_available", "memory_free"):
        assert machine.pop(moving) > 0 < alone.pop(moving)
    assert {"changed": False, **machine} == alone


def test_docker_is_what_docker_access_info_returns(
    capsys: pytest.CaptureFixture[str], docker: DockerServer, socket: Path
) -> None:
    found, alone = run(capsys, spark_facts, docker=True)["docker"], run(capsys, docker_access_info, socket=str(socket))
    assert (found["state"], found["server_version"]) == ("usable", "28.3.3")
    # Somebody else may write to the disk meanwhile.
    for one in (found, alone):
        assert one["image_store"].pop("free_bytes") > 0
    assert found == alone


def test_an_engine_that_answers_nonsense_is_left_to_who_asks_only_that(
    capsys: pytest.CaptureFixture[str], docker: DockerServer, socket: Path
) -> None:
    del docker.pages["/version"]
    assert run(capsys, spark_facts, docker=True)["docker"] == {}
    said = run(capsys, docker_access_info, socket=str(socket))["msg"]
    assert said.startswith("Asking the Docker Engine for /version failed with status 404")


def test_what_was_measured_is_in_the_state_directory(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    rows = [{"interface": "enp1s0f1np1", "gbps": 97.3, "by": "RDMA", "finding": None}]
    bandwidth.record(rows, tmp_path / "state")
    state = str(tmp_path / "state")
    assert run(capsys, spark_fabric_info, state_directory=state)["measured"] == rows
    assert run(capsys, spark_facts, fabric=True, state_directory=state)["fabric"]["measured"] == rows
    assert run(capsys, spark_fabric_info, state_directory=str(tmp_path))["measured"] == []


def test_the_ports_are_what_spark_fabric_info_returns(capsys: pytest.CaptureFixture[str]) -> None:
    found = run(capsys, spark_facts, fabric=True)["fabric"]
    assert {"changed": False, **found} == run(capsys, spark_fabric_info)
    assert isinstance(found["ports"], list)

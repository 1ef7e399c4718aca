# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import getpass
import os
import sys
import typing as t
from pathlib import Path

import pytest
from ansible_collections.dgx_spark.speculative.plugins.module_utils._deployment import bandwidth
from ansible_collections.dgx_spark.speculative.plugins.module_utils._docker import docker_facts as docker_look
from ansible_collections.dgx_spark.speculative.plugins.module_utils._docker.engine import Engine
from ansible_collections.dgx_spark.speculative.plugins.module_utils._fabric import ports
from ansible_collections.dgx_spark.speculative.plugins.modules import spark_info

from tests.unit import modules
from tests.unit.docker_server import DockerServer


def run(module: t.Any, **parameters: t.Any) -> dict[str, t.Any]:
    return modules.run(module, parameters)


def gather(*subsets: str, **parameters: t.Any) -> dict[str, t.Any]:
    return run(spark_info, gather=list(subsets), **parameters)


@pytest.fixture(name="socket")
def fixture_socket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "docker.sock"
    monkeypatch.setitem(docker_look.ARGUMENTS, "socket", {"type": "path", "default": str(path)})
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


def test_who_logs_in_is_a_fact() -> None:
    result = gather("login")
    facts = result["ansible_facts"]
    assert facts["user_id"] == getpass.getuser()
    assert (facts["user_uid"], facts["user_gid"]) == (os.getuid(), os.getgid())
    assert (facts["user_dir"], facts["python"]) == (str(Path("~").expanduser()), {"executable": sys.executable})
    # What may be another thing a minute later must not be kept by a fact cache.
    assert set(facts) == {"user_id", "user_uid", "user_gid", "user_dir", "python"}
    # What is not asked for is not returned.
    assert set(result) == {"changed", "ansible_facts"}


def test_what_is_not_asked_for_is_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[str] = []

    def look(subset: str, *_arguments: t.Any) -> dict[str, int]:
        looked.append(subset)
        return {"x": 1}

    monkeypatch.setattr(spark_info, "look", look)
    assert gather("fabric", "machine") == {"changed": False, "machine": {"x": 1}, "fabric": {"x": 1}}
    assert looked == ["fabric", "machine"]


@pytest.mark.usefixtures("docker")
def test_docker_is_looked_at_without_being_told_more() -> None:
    found = gather("docker")["docker"]
    assert (found["state"], found["server_version"], found["slot"]) == ("usable", "28.3.3", None)


@pytest.mark.usefixtures("docker")
def test_what_docker_would_not_take_is_refused_whatever_else_is_asked() -> None:
    said = gather("login", "docker", docker={"published_ports": ["8000"]})
    assert said["failed"]
    assert said["msg"].startswith("The published port '8000' is not understood")


def test_an_engine_that_answers_nonsense_fails_who_asks_only_that(docker: DockerServer) -> None:
    del docker.pages["/version"]
    result = gather("login", "docker")
    assert (result.get("failed", False), result["docker"]) == (False, {})
    said = gather("docker")
    assert said["failed"]
    assert "/version" in said["msg"]


def test_ports_that_cannot_be_looked_at_fail_who_asks_only_that(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_self: ports.Look) -> t.NoReturn:
        raise ports.FabricError("There is no program ip.")

    monkeypatch.setattr(ports.Look, "look", refuse)
    assert gather("login", "fabric")["fabric"] == {}
    assert gather("fabric")["msg"] == "There is no program ip."


def test_what_was_measured_is_in_the_state_directory(tmp_path: Path) -> None:
    rows = [{"interface": "enp1s0f1np1", "gbps": 97.3, "by": "RDMA", "finding": None}]
    bandwidth.write_bandwidth(tmp_path / "state", rows)
    found = gather("fabric", state_directory=str(tmp_path / "state"))["fabric"]
    assert found["measured"] == rows
    assert isinstance(found["ports"], list)
    assert gather("fabric", state_directory=str(tmp_path))["fabric"]["measured"] == []


def test_what_is_in_the_slot_and_what_is_recorded_of_it(docker: DockerServer, tmp_path: Path) -> None:
    labels = {"dgx_spark.speculative.deployment": "mine", "dgx_spark.speculative.format": "1"}
    docker.pages["/containers/slot/json"] = {
        **{"Id": "1", "Name": "/slot", "Image": "sha256:1", "State": {"Status": "running"}},
        **{"Config": {"Image": "release:1", "Labels": labels}, "HostConfig": {}, "NetworkSettings": {}},
    }
    asked: dict[str, t.Any] = {"docker": {"container": "slot"}, "state_directory": str(tmp_path)}
    # Of a deployment that is not asked for.
    idle = tmp_path / "idle/record.json"
    idle.parent.mkdir()
    idle.write_text('{"deployment": "idle"}', encoding="utf-8")
    found = gather("docker", "records", **asked)
    assert found["docker"]["slot"]["labels"] == labels
    assert found["records"]["slot_directory"] == str(tmp_path / "mine")
    del labels["dgx_spark.speculative.format"]
    assert gather("docker", "records", **asked)["msg"].startswith("mine was deployed by ")
    assert gather("docker", "records", any_format=True, **asked)["docker"]["slot"]["labels"] == labels
    # What does not answer has nothing in its slot.
    asked["docker"]["socket"] = "/nowhere"
    found = gather("docker", "records", **asked)
    assert (found["docker"]["slot"], found["records"]["slot_directory"]) == (None, None)


def test_nvidias_plug_in_does_not_log_which_devices_it_should_use(docker: DockerServer, tmp_path: Path) -> None:
    docker.pages["/containers/slot/json"] = {
        **{"Id": "1", "Name": "/slot", "Image": "sha256:1", "State": {"Status": "running"}, "HostConfig": {}},
        "Config": {"Env": ["NCCL_IB_HCA=rocep1s0f1,roceP2p1s0f1"]},
    }
    state = tmp_path / "mine/state"
    state.mkdir(parents=True)
    (state / "state.json").write_text('{"state": "running"}', encoding="utf-8")
    lines = ("NET/IB : Using [0]rocep1s0f1:1/RoCE [RO]; OOB a:1<0>", "Using network IBext_v10")
    (state / "nccl.a.7").write_text("".join(f"a:7:9 [0] NCCL INFO {line}\n" for line in lines), encoding="utf-8")
    found = gather(
        *("docker", "records"), docker={"container": "slot"}, state_directory=str(tmp_path), deployment="mine"
    )
    assert found["records"]["network"]["missing"] == ["roceP2p1s0f1"]


@pytest.mark.parametrize("dry", [False, True])
def test_a_slot_that_docker_does_not_show_is_not_empty(monkeypatch: pytest.MonkeyPatch, dry: bool) -> None:
    def refuse(_self: t.Any, _path: str) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Engine, "get", refuse)
    found = gather("docker", "records", docker={"socket": "/s"}, _ansible_check_mode=dry)
    if dry:
        assert found["docker"]["slot"] is None
    else:
        assert found["msg"].startswith("Cannot inspect the serving container: ")
        assert "may not open /s." in found["msg"]


def test_an_engine_that_answers_nonsense_does_not_tell_what_is_in_the_slot(docker: DockerServer) -> None:
    del docker.pages["/version"]
    assert "/version" in gather("docker", "records")["msg"]

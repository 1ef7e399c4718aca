# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import getpass
import io
import json
import os
import socket
import struct
import tarfile
import time
import typing as t
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest
import yaml
from ansible_collections.dgx_spark.speculative.plugins.module_utils._diagnosis import evidence as _evidence
from ansible_collections.dgx_spark.speculative.plugins.module_utils._docker.access import Machine
from ansible_collections.dgx_spark.speculative.plugins.modules import deployment_diagnosis

from tests.unit import docker_server, modules
from tests.unit.docker_server import DockerServer
from tests.unit.replay_server import Server, free_port, replay

CANARY = "hf_CANARYabcdefghijklmnop"
NAME = "dgx-spark-speculative"
Diagnose = t.Callable[..., dict[str, t.Any]]


@pytest.fixture(name="home")
def fixture_home(tmp_path: Path) -> Path:
    """A home directory in which a deployment serves, with a secret in every file."""
    home = tmp_path / "home"
    deployment = home / "state/mine"
    generation = deployment / "generations/0123456789ab"
    record: dict[str, t.Any] = {
        "format": 1,
        "deployment": "mine",
        "deployed_at": "2026-01-01T00:00:00Z",
        "served_model": "openai/gpt-oss-120b",
        "container": {"labels": {"dgx_spark.speculative.configuration": "abc"}},
    }
    record["container"]["environment"] = {"HF_HOME": "/cache", "COMPANY": CANARY}
    files = {
        generation / "options.yml": f"max_batch_size: 1\nhf_token: {CANARY}\n",
        generation / "serve.sh": f"#!/bin/bash\nexport HF_TOKEN='{CANARY} x'\nexec trtllm-serve /tmp/models/m\n",
        deployment / "record.json": json.dumps({**record, "note": CANARY}),
        deployment / "state/state.json": json.dumps({"state": "running", "since": time.time(), "reason": CANARY}),
        deployment
        / "state/server.log": f"start\nAuthorization: Bearer {CANARY}\nUvicorn running on http://127.0.0.1:1\n",
        deployment / "failed.log": f"CUDA out of memory, and {CANARY}\n",
        home / "state/jobs/fetch/log": f"GET https://me:{CANARY}@hub.example/x\n",
        home / "state/jobs/fetch/job.json": json.dumps(job(f"The Hub refuses the token as invalid: {CANARY}")),
        home / "cache/hub/x": "",
        home / "cache/token": "strange-but-secret",
    }
    for path, text in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    os.utime(deployment / "failed.log", (1, 1))
    return home


def job(error: str) -> dict[str, t.Any]:
    state = {"id": "1", "finished": True, "boot": "", "pid": 1, "start_time": 1, "started": 1.0, "ended": 1.0}
    return {**state, "error": error, "progress": {"percent": None, "text": CANARY}}


class EngineHandler(docker_server.Handler):
    """Also answers with a container's output, which is no JSON."""

    def do_GET(self) -> None:
        if "/logs?" not in self.path:
            super().do_GET()
            return
        data = f"output with {CANARY}\n".encode()
        self.reply(200, struct.pack(">B3xI", 1, len(data)) + data)


@pytest.fixture(name="engine")
def fixture_engine(tmp_path: Path, url: str) -> t.Iterator[DockerServer]:
    labels = {
        "dgx_spark.speculative.format": "1",
        "dgx_spark.speculative.deployment": "mine",
        "dgx_spark.speculative.generation": "0123456789ab",
        "dgx_spark.speculative.configuration": "abc",
        "dgx_spark.speculative.url": url,
        "note": CANARY,
    }
    slot = {
        "Id": "1",
        "Name": f"/{NAME}",
        "State": {"Status": "running", "StartedAt": "2026-01-01T00:00:00Z"},
        "Config": {"Labels": labels, "Env": [f"SECRET_THING={CANARY}", f"OTHER={CANARY}", "PATH=/usr/bin"]},
        "Mounts": [{"Destination": "/cache/huggingface/hub", "Source": f"/home/{getpass.getuser()}/x"}],
        "HostConfig": {"IpcMode": "host"},
    }
    pages = {
        "/info": {"Runtimes": {"nvidia": {}}, "DockerRootDir": str(tmp_path), "HttpProxy": f"http://u:{CANARY}@p:1"},
        "/version": {"Components": [{"Name": "Engine"}]},
        "/containers/json": [],
        f"/containers/{NAME}/json": slot,
    }
    with DockerServer(tmp_path / "docker.sock", pages) as server:
        server.RequestHandlerClass = t.cast("type[BaseHTTPRequestHandler]", EngineHandler)
        yield server
        server.shutdown()


@pytest.fixture(name="server")
def fixture_server() -> t.Iterator[Server]:
    server = Server()
    server.ask = replay("completion_stream")
    yield server
    server.close()


@pytest.fixture(name="url")
def fixture_url(server: Server) -> str:
    return server.url


@pytest.fixture(name="diagnose")
def fixture_diagnose(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> Diagnose:
    machine = Machine(uid=os.getuid(), home=home, docker_host="")
    monkeypatch.setattr(deployment_diagnosis, "Machine", lambda: machine)
    # What this machine's kernel, memory and disks say is no part of the test.
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, said in {
        "dmesg": f"[    1.0] kernel: {CANARY} at 192.168.7.9",
        "nvidia-smi": "NVIDIA GB10, 580.95",
    }.items():
        (programs / name).write_text(f"#!/bin/sh\necho '{said}'\n")
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    monkeypatch.setattr(_evidence.EvidenceGatherer, "_disks", lambda self: None)
    monkeypatch.setattr(_evidence.EvidenceGatherer, "_network", lambda self: None)
    monkeypatch.setattr(_evidence.EvidenceGatherer, "_memory", lambda self: None)

    def diagnose(**args: t.Any) -> dict[str, t.Any]:
        args = {
            "socket": str(tmp_path / "docker.sock"),
            "state_directory": str(home / "state"),
            "cache_directory": str(home / "cache/hub"),
            **args,
        }
        return modules.run(deployment_diagnosis, args)

    return diagnose


def unpack(path: Path) -> dict[str, str]:
    with tarfile.open(fileobj=io.BytesIO(path.read_bytes())) as tar:
        return {
            member.name.partition("/")[2]: t.cast("t.IO[bytes]", tar.extractfile(member)).read().decode()
            for member in tar.getmembers()
        }


def test_another_format_is_refused(diagnose: Diagnose, engine: DockerServer) -> None:
    engine.pages[f"/containers/{NAME}/json"]["Config"]["Labels"]["dgx_spark.speculative.format"] = "2"
    assert diagnose()["msg"].startswith("the container of mine has format 2, but this release reads format 1.")


@pytest.mark.usefixtures("engine")
def test_another_format_of_what_does_not_run_is_no_obstacle(diagnose: Diagnose, home: Path) -> None:
    idle = home / "state/idle/record.json"
    idle.parent.mkdir()
    idle.write_text('{"deployment": "idle"}')
    (home / "state/previous.json").write_text('{"deployment": "idle"}')
    assert diagnose()["verdict"] == "healthy"


@pytest.mark.usefixtures("engine")
def test_a_server_that_generates_is_healthy(diagnose: Diagnose, server: Server) -> None:
    result = diagnose(host="spark-1")
    assert (result["verdict"], result["findings"]) == ("healthy", [])
    assert result["lines"] == ["spark-1: healthy: the server generates text"]
    assert (result["changed"], result["bundle"]) == (False, None)
    assert {source["name"]: source["read"] for source in result["sources"]}["server"] is True
    assert server.requests


@pytest.mark.usefixtures("engine")
def test_not_asked_is_not_healthy(diagnose: Diagnose, server: Server) -> None:
    assert diagnose(probe=False)["verdict"] == "unknown"
    assert server.requests == []


@pytest.mark.usefixtures("engine")
def test_the_message_of_a_failed_run_is_matched(diagnose: Diagnose) -> None:
    result = diagnose(
        failure_message="Pulling x failed because the disk is full (no space left on device)", probe=False
    )
    assert (result["verdict"], result["findings"][0]["id"]) == ("problem", "disk_full")
    assert result["findings"][0]["where"] == "message"


def test_no_docker_and_no_deployment(diagnose: Diagnose, tmp_path: Path) -> None:
    result = diagnose(state_directory=str(tmp_path / "none"), cache_directory=str(tmp_path / "none"))
    assert result["verdict"] == "problem"
    assert result["findings"][0]["id"] in ("docker_not_running", "docker_not_installed")
    assert {source["name"]: source["read"] for source in result["sources"]}["Docker"] is False


def test_a_dead_server(diagnose: Diagnose, engine: DockerServer, home: Path) -> None:
    engine.pages[f"/containers/{NAME}/json"]["Config"]["Labels"]["dgx_spark.speculative.url"] = (
        f"http://127.0.0.1:{free_port()}"
    )
    state = {"state": "failed", "since": time.time(), "last_exit": {"code": 1, "signal": None, "at": time.time()}}
    (home / "state/mine/state/state.json").write_text(json.dumps(state))
    log = "torch.OutOfMemoryError: CUDA out of memory.\n[entrypoint] the server ended with exit code 1\n"
    (home / "state/mine/state/server.log").write_text(log)
    result = diagnose()
    assert (result["verdict"], result["findings"][0]["id"]) == ("problem", "memory_cuda")
    assert result["findings"][0]["evidence"] == "torch.OutOfMemoryError: CUDA out of memory."


@pytest.mark.parametrize("text", ["", "[]", "{", '{"state": 7}', '{"state": "failed", "last_exit": []}'])
@pytest.mark.usefixtures("engine")
def test_half_a_file_is_an_answer(diagnose: Diagnose, home: Path, text: str) -> None:
    for name in ("state/state.json", "record.json"):
        (home / "state/mine" / name).write_text(text)
    (home / "state/jobs/fetch/job.json").write_text(text)
    assert diagnose()["verdict"] in ("unknown", "problem", "warning")


@pytest.mark.usefixtures("engine")
def test_a_bundle_holds_no_secrets(diagnose: Diagnose, tmp_path: Path) -> None:
    bundle = tmp_path / "out/report.tar.gz"
    result = diagnose(bundle=str(bundle), failure_message=f"It failed with {CANARY} and strange-but-secret")
    assert (result["changed"], result["bundle"]) == (True, str(bundle))
    assert "CANARY" not in json.dumps({name: result[name] for name in ("findings", "lines", "sources")})
    assert bundle.stat().st_mode & 0o777 == 0o600
    assert [path.name for path in bundle.parent.iterdir()] == [bundle.name]
    files = unpack(bundle)
    assert set(files) >= {
        "diagnosis.json",
        "server.log",
        "failed.log",
        "container.log",
        "kernel.txt",
        "docker-inspect.json",
        "docker-info.json",
        "state.json",
        "record.json",
        "options.yml",
        "serve.sh",
        "machine.json",
        "jobs/fetch.json",
        "jobs/fetch.log",
    }
    for name, text in files.items():
        assert "CANARY" not in text, name
        assert "strange-but-secret" not in text, name
        assert "192.168.7.9" not in text, name
    # It is of use all the same.
    assert "CUDA out of memory" in files["failed.log"]
    assert "Uvicorn running on http://127.0.0.1:1" in files["server.log"]
    assert "exec trtllm-serve" in files["serve.sh"]
    assert "PATH=/usr/bin" in files["docker-inspect.json"]
    host = socket.gethostname()
    assert host == "localhost" or f" {host} " not in "".join(files.values())


@pytest.mark.usefixtures("engine")
def test_check_mode_writes_no_bundle(diagnose: Diagnose, tmp_path: Path) -> None:
    result = diagnose(bundle=str(tmp_path / "report.tar.gz"), _ansible_check_mode=True)
    assert (result["changed"], result["bundle"]) == (True, None)
    assert not (tmp_path / "report.tar.gz").exists()


@pytest.mark.usefixtures("engine")
def test_a_bundle_that_cannot_be_written(diagnose: Diagnose, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    result = diagnose(bundle=str(tmp_path / "file/report.tar.gz"))
    assert result["msg"].startswith(f"Writing the bundle {tmp_path}/file/report.tar.gz failed (")


@pytest.mark.usefixtures("engine")
def test_secrets_of_several_lines_do_not_reach_the_screen(diagnose: Diagnose, home: Path) -> None:
    (home / "state/mine/state/state.json").write_text(json.dumps({"state": "failed", "since": time.time()}))
    key = f"-----BEGIN PRIVATE KEY-----\n{CANARY}\nQ0FOQVJZ\n-----END PRIVATE KEY-----"
    log = f"start\nError: nobody knows this: Bearer\n{'x' * 20}CANARY\n{key}\npassword: |\n  CANARY\n"
    (home / "state/mine/state/server.log").write_text(log)
    result = diagnose(probe=False, failure_message=f"It failed with {key}")
    assert result["verdict"] in ("unknown", "problem")
    shown = json.dumps({name: result[name] for name in ("lines", "findings", "sources")})
    assert "CANARY" not in shown
    assert "Q0FOQVJZ" not in shown


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("damage", [{"measurements": 5}, {"break_even": "x"}, {"findings": True}, {"image": []}])
def test_a_record_of_another_shape_costs_nothing_else(diagnose: Diagnose, home: Path, damage: dict[str, t.Any]) -> None:
    record = json.loads((home / "state/mine/record.json").read_text())
    (home / "state/mine/record.json").write_text(json.dumps({**record, **damage}))
    assert diagnose()["verdict"] == "healthy"


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("ended", ["x", [], {"a": 1}])
def test_a_job_of_another_shape_costs_nothing_else(diagnose: Diagnose, home: Path, ended: t.Any) -> None:
    (home / "state/jobs/fetch/job.json").write_text(json.dumps({**job("boom"), "ended": ended}))
    assert diagnose(probe=False)["verdict"] == "unknown"


def halve(engine: DockerServer, home: Path, rank: int, state: str) -> None:
    """Make what serves one half of two Sparks, whose other half does not answer."""
    slot = engine.pages[f"/containers/{NAME}/json"]
    slot["Config"]["Labels"]["dgx_spark.speculative.rank"] = str(rank)
    slot["Config"]["Env"] += [
        f"DGX_SPARK_WORKER_PORT={free_port()}",
        "DGX_SPARK_FABRIC_ADDRESSES=127.0.0.1",
        "DGX_SPARK_PEER_ADDRESSES=127.0.0.1",
        "NCCL_SOCKET_IFNAME=fabric0",
        "NCCL_IB_HCA=mlx5_0",
    ]
    slot["HostConfig"] |= {"Devices": [{"PathOnHost": "/dev/infiniband"}], "Ulimits": [{"Name": "memlock", "Hard": -1}]}
    directory = home / "state/mine/state"
    (directory / "state.json").write_text(json.dumps({"state": state, "since": time.time(), "reason": None}))
    (directory / "ranks.json").write_text(json.dumps({"ranks": [{"rank": 0, "cores": 1}], "note": CANARY}))
    for name in ("stalled.log", "peer-lost.log"):
        (directory / name).write_text(f"# condemned, with {CANARY}\n")


def test_the_head_of_two(diagnose: Diagnose, engine: DockerServer, home: Path, tmp_path: Path) -> None:
    halve(engine, home, 0, "waiting for the worker")
    result = diagnose(bundle=str(tmp_path / "report.tar.gz"))
    found = {finding["id"]: finding["severity"] for finding in result["findings"]}
    # The interface is one that this machine does not have, and nobody is asked there.
    assert found["link_down"] == "cause"
    assert {"waits_for_other", "rank_on_one_core"} <= set(found)
    assert "worker_port_closed" not in found
    assert "image_without_digest" not in found
    assert (result["deployment"], result["state"]) == ("mine", "waiting for the worker")
    assert (result["container"], result["cluster"]["role"]) == ({"state": "running"}, "head")
    assert result["machine"] == {"driver": "580.95", "kernel": os.uname().release}
    assert {source["name"]: source["read"] for source in result["sources"]}["ranks.json"] is True
    files = unpack(tmp_path / "report.tar.gz")
    assert {"ranks.json", "stalled.log", "peer-lost.log"} <= set(files)
    assert "CANARY" not in "".join(files.values())


def test_what_is_returned_is_documented(diagnose: Diagnose, engine: DockerServer, home: Path) -> None:
    halve(engine, home, 0, "waiting for the worker")
    result = diagnose()
    assert result["findings"]
    assert modules.wrong_documentation(yaml.safe_load(deployment_diagnosis.RETURN), result) == []


def test_the_worker_of_two_is_not_asked(diagnose: Diagnose, engine: DockerServer, home: Path, server: Server) -> None:
    halve(engine, home, 1, "rank_runs")
    # The head's name for where it serves means nothing here, and only the head has a script.
    (home / "state/mine/generations/0123456789ab/serve.sh").unlink()
    result = diagnose(host="spark-2")
    assert server.requests == []
    sources = {source["name"]: source["read"] for source in result["sources"]}
    assert sources["files of the deployment"] is True
    assert not {"server", "ranks.json"} & set(sources)
    # An interface that is gone is worth a word, and no fault of a rank that runs.
    assert (result["verdict"], result["cluster"]["rank"]) == ("warning", 1)


@pytest.mark.usefixtures("engine")
def test_one_spark_is_no_half(diagnose: Diagnose) -> None:
    assert diagnose()["cluster"] is None


@pytest.mark.parametrize("there", [True, False])
def test_the_files_are_those_that_the_container_has(
    diagnose: Diagnose, engine: DockerServer, home: Path, tmp_path: Path, there: bool
) -> None:
    """Of a generation by its label; without a container those that were recorded last, also if others are younger."""
    mine = home / "state/mine"
    for name, age in (("aaaaaaaaaaaa", 60), ("bbbbbbbbbbbb", 120)):
        place = mine / "generations" / name
        place.mkdir(parents=True)
        for file in ("options.yml", "serve.sh"):
            (place / file).write_text(f"# of {name}\n", encoding="utf-8")
            os.utime(place / file, (time.time() - age,) * 2)
    for file in ("options.yml", "serve.sh"):
        os.utime(mine / "generations/0123456789ab" / file, (1, 1))
    if there:
        slot = engine.pages[f"/containers/{NAME}/json"]
        slot["Config"]["Labels"]["dgx_spark.speculative.generation"] = "bbbbbbbbbbbb"
    else:
        del engine.pages[f"/containers/{NAME}/json"]
        record = json.loads((mine / "record.json").read_text(encoding="utf-8"))
        record["container"] = {"labels": {"dgx_spark.speculative.generation": "bbbbbbbbbbbb"}}
        (mine / "record.json").write_text(json.dumps(record), encoding="utf-8")
    result = diagnose(bundle=str(tmp_path / "report.tar.gz"))
    assert {source["name"]: source["read"] for source in result["sources"]}["record"] is True
    files = unpack(tmp_path / "report.tar.gz")
    assert [files[file] for file in ("options.yml", "serve.sh")] == ["# of bbbbbbbbbbbb\n"] * 2

# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import os
import socketserver
import threading
import typing as t
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest
from ansible.module_utils.testing import patch_module_args
from ansible_collections.dgx_spark.speculative.plugins.module_utils._docker_access import Machine, user_name
from ansible_collections.dgx_spark.speculative.plugins.modules import docker_access_info

ME = user_name(os.getuid())
INFO = {"ServerVersion": "28.3.3", "DockerRootDir": "/var/lib/docker", "Runtimes": {"runc": {}, "nvidia": {}}}
LISTED = {
    "Id": "c1",
    "Names": ["/other"],
    "Image": "nginx",
    "State": "running",
    "Status": "Up 2 hours",
    "Ports": [{"IP": "127.0.0.1", "PrivatePort": 80, "PublicPort": 8080, "Type": "tcp"}],
    "HostConfig": {"NetworkMode": "bridge"},
    "Labels": {"a": "b"},
}
SLOT = {
    "Id": "c2",
    "Name": "/slot",
    "Image": "sha256:1",
    "RestartCount": 2,
    "Config": {"Image": "release:1", "Labels": {"recipe": "x"}},
    "State": {"Status": "exited", "ExitCode": 137, "OOMKilled": True, "StartedAt": "S", "FinishedAt": "F"},
    "HostConfig": {"RestartPolicy": {"Name": "unless-stopped"}},
}
IMAGE = {
    "Id": "sha256:1",
    "RepoTags": ["r/x:1"],
    "RepoDigests": ["r/x@sha256:2"],
    "Size": 5,
    "Architecture": "arm64",
    "Config": {"Env": ["A=b"], "Labels": None},
}
PAGES: dict[str, t.Any] = {
    "/info": INFO,
    "/version": {"Components": [{"Name": "Engine"}]},
    "/containers/json": [LISTED],
    "/containers/c1/json": {"State": {"StartedAt": "2026-10-04T09:12:44Z"}},
    "/containers/slot/json": SLOT,
    "/images/r/x:1/json": IMAGE,
}


class Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True
    pages: dict[str, t.Any]


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        page = self.server.pages.get(self.path, (404, {"message": "nothing of the kind"}))
        status, body = page if isinstance(page, tuple) else (200, page)
        self.send_response(status)
        self.end_headers()
        self.wfile.write(body if isinstance(body, bytes) else json.dumps(body).encode())

    def log_message(self, format: str, *args: t.Any) -> None: ...

    def address_string(self) -> str:
        return "unix"


@pytest.fixture(name="engine")
def fixture_engine(tmp_path: Path) -> t.Iterator[Server]:
    with Server(str(tmp_path / "docker.sock"), Handler) as server:
        server.pages = dict(PAGES)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


@pytest.fixture(name="look")
def fixture_look(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> t.Callable[..., dict[str, t.Any]]:
    root = tmp_path / "root"
    (root / "proc").mkdir(parents=True)
    machine = Machine(root=root, uid=os.getuid(), home=tmp_path, docker_host="")
    monkeypatch.setattr(docker_access_info, "Machine", lambda: machine)

    def look(**params: t.Any) -> dict[str, t.Any]:
        with patch_module_args({"socket": str(tmp_path / "docker.sock"), **params}), pytest.raises(SystemExit):
            docker_access_info.main()
        result: dict[str, t.Any] = json.loads(capsys.readouterr().out)
        return result

    return look


Look = t.Callable[..., dict[str, t.Any]]


@pytest.mark.usefixtures("engine")
def test_usable(look: Look) -> None:
    result = look(container="slot", image="r/x:1", port=8080)
    assert (result["state"], result["detail"], result["engine"]) == ("usable", "", "docker")
    assert (result["server_version"], result["gpu"], result["gpu_by"]) == ("28.3.3", True, "runtime")
    assert result["containers"] == [
        {
            "name": "other",
            "id": "c1",
            "image": "nginx",
            "state": "running",
            "status": "Up 2 hours",
            "ports": [{"address": "127.0.0.1", "port": 8080, "container_port": 80, "protocol": "tcp"}],
            "network_mode": "bridge",
            "started_at": "2026-10-04T09:12:44Z",
            "labels": {"a": "b"},
        }
    ]
    assert result["slot"] == {
        "name": "slot",
        "id": "c2",
        "image": "release:1",
        "image_id": "sha256:1",
        "labels": {"recipe": "x"},
        "state": "exited",
        "health": None,
        "exit_code": 137,
        "oom_killed": True,
        "started_at": "S",
        "finished_at": "F",
        "restart_count": 2,
        "restart_policy": "unless-stopped",
    }
    assert result["image"] == {
        "id": "sha256:1",
        "repo_tags": ["r/x:1"],
        "repo_digests": ["r/x@sha256:2"],
        "size": 5,
        "architecture": "arm64",
        "labels": {},
        "env": ["A=b"],
    }
    assert (result["port"]["in_use"], result["port"]["container"]) == (True, "other")
    assert result["user"] == ME


@pytest.mark.usefixtures("engine")
def test_what_is_not_there_is_null(look: Look) -> None:
    result = look(container="none", image="none")
    assert (result["slot"], result["image"], result["port"]) == (None, None, None)


@pytest.mark.parametrize(
    ("pages", "engine_kind", "detail"),
    [
        (
            {"/version": {"Components": [{"Name": "Podman Engine"}]}},
            "podman",
            "Podman answers in Docker's place; this needs Docker Engine itself.",
        ),
        (
            {"/info": {**INFO, "SecurityOptions": ["name=rootless"]}},
            "rootless",
            "Docker runs rootless for this user; this needs the Docker Engine that root runs.",
        ),
        (
            {"/info": {**INFO, "DockerRootDir": "/var/snap/docker/common/var-lib-docker"}},
            "snap",
            "Docker comes from a snap, which cannot hand out the GPU; install it from the distribution or from Docker.",
        ),
    ],
)
def test_unsupported(engine: Server, look: Look, pages: dict[str, t.Any], engine_kind: str, detail: str) -> None:
    engine.pages.update(pages)
    result = look()
    assert (result["state"], result["engine"], result["detail"]) == ("unsupported", engine_kind, detail)


def test_not_installed_and_not_running(look: Look, tmp_path: Path) -> None:
    result = look()
    assert (result["state"], result["engine"], result["detail"]) == (
        "not_installed",
        "unknown",
        "Docker is not installed.",
    )
    assert (result["containers"], result["data_root_free_bytes"], result["gpu"]) == ([], None, False)
    (tmp_path / "root/usr/bin").mkdir(parents=True)
    (tmp_path / "root/usr/bin/dockerd").touch(0o755)
    result = look()
    assert (result["state"], result["engine"], result["detail"]) == (
        "not_running",
        "docker",
        f"Docker is installed and does not answer on {tmp_path}/docker.sock (No such file or directory).",
    )


@pytest.mark.usefixtures("engine")
def test_denied(look: Look, tmp_path: Path) -> None:
    (tmp_path / "docker.sock").chmod(0)
    # Nothing is denied to root.
    os.seteuid(65534 if os.geteuid() == 0 else os.geteuid())
    try:
        result = look()
    finally:
        os.seteuid(os.getuid())
    assert result["state"] == "denied"
    assert result["detail"] == f"The user {ME} may not open {tmp_path}/docker.sock."


@pytest.mark.parametrize(
    ("page", "message"),
    [
        ((500, {"message": "disk on fire"}), "failed with status 500: disk on fire."),
        (b"<html>", "failed: it did not answer with JSON."),
        ((404, {}), "failed with status 404: it has no such page."),
    ],
)
def test_an_engine_in_trouble(engine: Server, look: Look, page: t.Any, message: str) -> None:
    engine.pages["/info"] = page
    assert look()["msg"] == f"Asking the Docker Engine for /info {message}"


def test_the_address_is_one(look: Look) -> None:
    assert look(address="localhost", port=1)["msg"] == (
        "Looking at a port needs an IP address, which 'localhost' is not."
    )

# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import hashlib
import json
import os
import socket
import typing as t
from pathlib import Path

import pytest
from ansible_collections.dgx_spark.speculative.plugins.module_utils import _docker_access as da

ID = "0123456789abcdef" * 4


def program(root: Path, path: str, content: str = "") -> None:
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(content)
    file.chmod(0o755)


@pytest.fixture(name="machine")
def fixture_machine(tmp_path: Path) -> da.Machine:
    return da.Machine(root=tmp_path, uid=1000, home=tmp_path / "home", docker_host="")


def test_a_bare_machine_has_no_engine(machine: da.Machine) -> None:
    assert da.silent_engine(machine, machine.root / "docker.sock") == "unknown"
    assert machine.chosen_host() == ""
    assert da.gpu_support(machine, {}) is None


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"usr/bin/dockerd": "ELF"}, "docker"),
        ({"usr/bin/dockerd": "ELF", "usr/bin/docker": "ELF", "snap/bin/docker": ""}, "docker"),
        ({"usr/bin/docker": "#!/bin/sh\nexec /usr/bin/podman"}, "podman"),
        ({"usr/bin/docker": "ELF podman"}, "unknown"),
        ({"snap/bin/docker": ""}, "snap"),
        ({"usr/bin/dockerd": "ELF", "run/user/1000/docker.sock": ""}, "rootless"),
        ({"usr/bin/dockerd": "ELF", "run/user/1001/docker.sock": ""}, "docker"),
    ],
)
def test_silent_engine(machine: da.Machine, files: dict[str, str], expected: str) -> None:
    for path, content in files.items():
        program(machine.root, path, content)
    assert da.silent_engine(machine, machine.root / "docker.sock") == expected


def test_links_to_podman(machine: da.Machine) -> None:
    program(machine.root, "usr/bin/podman")
    (machine.root / "usr/bin/docker").symlink_to("podman")
    assert da.silent_engine(machine, machine.root / "docker.sock") == "podman"
    link = machine.root / "docker.sock"
    link.symlink_to(machine.root / "run/podman/podman.sock")
    program(machine.root, "usr/bin/dockerd")
    assert da.silent_engine(machine, link) == "podman"


def test_the_current_context_can_be_rootless(machine: da.Machine) -> None:
    program(machine.root, "usr/bin/dockerd")
    program(machine.home, ".docker/config.json", json.dumps({"currentContext": "rootless"}))
    folder = hashlib.sha256(b"rootless").hexdigest()
    host = "unix:///run/user/1000/docker.sock"
    meta = {"Name": "rootless", "Endpoints": {"docker": {"Host": host}}}
    program(machine.home, f".docker/contexts/meta/{folder}/meta.json", json.dumps(meta))
    assert machine.chosen_host() == host
    assert da.silent_engine(machine, machine.root / "docker.sock") == "rootless"
    other = da.Machine(machine.root, 1000, machine.home, docker_host="tcp://192.0.2.1:2375")
    assert other.chosen_host() == "tcp://192.0.2.1:2375"


@pytest.mark.parametrize("config", ["", "[]", "{}", '{"currentContext": null}', '{"currentContext": "gone"}'])
def test_no_context(machine: da.Machine, config: str) -> None:
    program(machine.home, ".docker/config.json", config)
    assert machine.chosen_host() == ""


@pytest.mark.parametrize(
    ("version", "info", "expected"),
    [
        ({"Components": [{"Name": "Engine"}]}, {"DockerRootDir": "/var/lib/docker"}, "docker"),
        ({"Components": [{"Name": "Podman Engine"}]}, {}, "podman"),
        ({}, {"SecurityOptions": ["name=seccomp,profile=builtin", "name=rootless"]}, "rootless"),
        ({"Components": None}, {"DockerRootDir": "/var/snap/docker/common/var-lib-docker"}, "snap"),
    ],
)
def test_answering_engine(version: dict[str, t.Any], info: dict[str, t.Any], expected: str) -> None:
    assert da.answering_engine(version, info) == expected


@pytest.mark.parametrize(
    ("files", "info", "expected"),
    [
        ({"usr/bin/nvidia-container-runtime-hook": ""}, {}, "hook"),
        ({"opt/nvidia-container-runtime-hook": ""}, {}, None),
        ({}, {"Runtimes": {"runc": {}, "nvidia": {}}}, "runtime"),
        ({}, {"Runtimes": {"runc": {}}, "DiscoveredDevices": [{"Source": "cdi", "ID": "nvidia.com/gpu=0"}]}, "cdi"),
        ({"etc/cdi/nvidia.yaml": "kind: nvidia.com/gpu"}, {"CDISpecDirs": ["/etc/cdi", "/var/run/cdi"]}, "cdi"),
        ({"etc/cdi/other.yaml": "kind: example.com/card"}, {"CDISpecDirs": ["/etc/cdi"]}, None),
        ({"etc/cdi/nvidia.yaml": "kind: nvidia.com/gpu"}, {"CDISpecDirs": None, "Runtimes": None}, None),
    ],
)
def test_gpu_support(machine: da.Machine, files: dict[str, str], info: dict[str, t.Any], expected: str | None) -> None:
    for path, content in files.items():
        program(machine.root, path, content)
    assert da.gpu_support(machine, info) == expected


def test_a_hook_must_be_executable(machine: da.Machine) -> None:
    program(machine.root, "usr/bin/nvidia-container-runtime-hook")
    (machine.root / "usr/bin/nvidia-container-runtime-hook").chmod(0o644)
    assert da.gpu_support(machine, {}) is None


def test_free_bytes(tmp_path: Path) -> None:
    free = da.free_bytes({"DockerRootDir": str(tmp_path), "DriverStatus": [["Backing Filesystem", "extfs"]]})
    assert free is not None
    assert free > 0
    assert da.free_bytes({"DockerRootDir": "/nowhere"}) is None
    assert da.free_bytes({}) is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0100007F", "127.0.0.1"),
        ("00000000", "0.0.0.0"),
        ("00000000000000000000000000000000", "::"),
        ("00000000000000000000000001000000", "::1"),
        ("0000000000000000FFFF00000100007F", "127.0.0.1"),
    ],
)
def test_parse_address(text: str, expected: str) -> None:
    assert str(da.parse_address(text)) == expected


@pytest.mark.parametrize(
    ("listening", "wanted", "expected"),
    [
        ("127.0.0.1", "127.0.0.1", True),
        ("127.0.0.1", "127.0.0.2", False),
        ("0.0.0.0", "127.0.0.1", True),
        ("127.0.0.1", "0.0.0.0", True),
        ("::", "127.0.0.1", True),
        ("::", "0.0.0.0", True),
        ("127.0.0.1", "::", True),
        ("::1", "127.0.0.1", False),
        ("::1", "0.0.0.0", False),
        ("0.0.0.0", "::1", False),
    ],
)
def test_collides(listening: str, wanted: str, expected: bool) -> None:
    assert da.collides(listening, wanted) is expected


def test_a_real_listener_is_found() -> None:
    machine = da.Machine()
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        use = da.port_use(machine, [], "0.0.0.0", port)
        name = Path("/proc/self/comm").read_text().strip()
        assert use == {
            "in_use": True,
            "address": "0.0.0.0",
            "port": port,
            "container": None,
            "process": f"{name} ({os.getpid()})",
            "user": da.user_name(os.getuid()),
            "suspects": [],
            "holder": f"process {name} ({os.getpid()}) of user {da.user_name(os.getuid())}",
        }
        assert da.port_use(machine, [], "127.0.0.2", port)["in_use"] is False
    assert da.port_use(machine, [], "0.0.0.0", port)["in_use"] is False


def container(**values: t.Any) -> dict[str, t.Any]:
    return {"name": "other", "id": ID, "ports": [], "network_mode": "bridge", **values}


def listen_table(machine: da.Machine, uid: int = 12345678) -> None:
    table = "head\n   0: 0100007F:1F40 00000000:0000 0A 00000000:00000000 00:00000000 00000000 "
    program(machine.root, "proc/net/tcp", f"{table}{uid}        0 4242 1 0000 100 0 0 10 0\n")


def test_a_published_port_is_its_containers(machine: da.Machine) -> None:
    (machine.root / "proc").mkdir()
    published = {"address": "0.0.0.0", "port": 8000, "container_port": 80, "protocol": "tcp"}
    use = da.port_use(machine, [container(ports=[published])], "127.0.0.1", 8000)
    assert (use["in_use"], use["container"], use["process"], use["user"]) == (True, "other", None, None)
    use = da.port_use(machine, [container(ports=[{**published, "protocol": "udp"}])], "127.0.0.1", 8000)
    assert use["in_use"] is False


@pytest.mark.parametrize("cgroup", [f"0::/system.slice/docker-{ID}.scope", f"12:pids:/docker/{ID}\n0::/"])
def test_a_process_in_the_hosts_network_is_its_containers(machine: da.Machine, cgroup: str) -> None:
    listen_table(machine)
    program(machine.root, "proc/77/cgroup", cgroup)
    program(machine.root, "proc/77/comm", "trtllm-serve\n")
    (machine.root / "proc/77/fd").mkdir()
    (machine.root / "proc/77/fd/5").symlink_to("socket:[4242]")
    use = da.port_use(machine, [container(name="trtllm", network_mode="host")], "127.0.0.1", 8000)
    assert (use["container"], use["process"], use["user"]) == ("trtllm", "trtllm-serve (77)", "12345678")
    assert use["suspects"] == []


def test_suspects_where_only_root_may_look(machine: da.Machine) -> None:
    listen_table(machine, uid=0)
    running = [container(name="a", network_mode="host"), container(name="b")]
    use = da.port_use(machine, running, "127.0.0.1", 8000)
    assert (use["in_use"], use["container"], use["process"]) == (True, None, None)
    assert (use["user"], use["suspects"]) == ("root", ["a"])


@pytest.mark.parametrize(
    ("use", "expected"),
    [
        ({"container": "a", "process": "python3 (7)"}, "container 'a' (process python3 (7) of user root)"),
        ({"container": "a"}, "container 'a'"),
        ({"process": "python3 (7)"}, "process python3 (7) of user root"),
        ({}, "a process of user root that only root may name (sudo ss -ltnp)"),
        (
            {"suspects": ["a", "b"]},
            "a process of user root that only root may name (sudo ss -ltnp), "
            "perhaps in one of the containers on the host's network: a, b",
        ),
    ],
)
def test_holder(use: dict[str, t.Any], expected: str) -> None:
    assert da.holder({"container": None, "process": None, "user": "root", "suspects": [], **use}) == expected

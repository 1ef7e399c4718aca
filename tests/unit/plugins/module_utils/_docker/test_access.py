# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import hashlib
import json
import typing as t
from pathlib import Path

import pytest
from ansible_collections.dgx_spark.speculative.plugins.module_utils._docker import access as da

ID = "0123456789abcdef" * 4


def program(root: Path, path: str, content: str = "") -> None:
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(content)
    file.chmod(0o755)


@pytest.fixture(name="machine")
def fixture_machine(tmp_path: Path) -> da.Machine:
    return da.Machine(root=tmp_path, uid=1000, home=tmp_path / "home", docker_host="", sockets=dict)


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
        # An Engine that does not answer yet.
        ({"etc/cdi/nvidia.yaml": "kind: nvidia.com/gpu"}, {}, "cdi"),
        ({"etc/docker/daemon.json": '{"runtimes": {"nvidia": {}}}'}, {}, "runtime"),
        ({"etc/docker/daemon.json": "not JSON"}, {}, None),
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


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ("Up 3 days", "3 days"),
        ("Up About an hour (healthy)", "about an hour"),
        ("Exited (0) 2 hours ago", None),
        ("", None),
        (None, None),
    ],
)
def test_up_for(status: str | None, expected: str | None) -> None:
    assert da.up_for(status) == expected

# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this module util is internal to the collection; its interface may change at any time.

"""Read the state of Docker: from the Engine's socket, or from files if the socket does not answer."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import typing as t
from dataclasses import dataclass, field
from pathlib import Path

from .._data.files import nearest_existing, read_object
from .published_ports import published_by
from .socket_cgroups import listening_cgroups

# Directories in which a dockerd that systemd started searches for programs.
DAEMON_PATH = ("usr/local/sbin", "usr/local/bin", "usr/sbin", "usr/bin", "sbin", "bin")
CDI_FOLDERS = ["/etc/cdi", "/var/run/cdi"]
GPU_HOOK = "nvidia-container-runtime-hook"
ROOTLESS_HOST = "unix:///run/user/"


@dataclass(frozen=True)
class Machine:
    """The files and the user of this machine. Tests use another root directory."""

    root: Path = Path("/")
    uid: int = field(default_factory=os.getuid)
    home: Path = field(default_factory=Path.home)
    docker_host: str = field(default_factory=lambda: os.environ.get("DOCKER_HOST", ""))
    # The inode of each listening socket with the id of its control group.
    sockets: t.Callable[[], dict[int, int]] = listening_cgroups

    def program(self, name: str) -> Path | None:
        for folder in DAEMON_PATH:
            path = self.root / folder / name
            if os.access(path, os.X_OK) and path.is_file():
                return path
        return None

    def chosen_host(self) -> str:
        """Return the Engine that the docker command would use: from the environment, else from the current context."""
        if self.docker_host:
            return self.docker_host
        config = read_object(self.home / ".docker/config.json") or {}
        context = config.get("currentContext")
        if not isinstance(context, str):
            return ""
        folder = hashlib.sha256(context.encode()).hexdigest()
        meta = read_object(self.home / ".docker/contexts/meta" / folder / "meta.json") or {}
        host = ((meta.get("Endpoints") or {}).get("docker") or {}).get("Host")
        return host if isinstance(host, str) else ""


def is_there(path: Path) -> bool:
    """Return whether a path exists. Unlike Path.exists, do not raise if a parent directory is not accessible."""
    return os.access(path, os.F_OK)


def is_podman_shim(program: Path) -> bool:
    """Return whether the docker command is the script or the link of the package podman-docker."""
    if "podman" in program.resolve().name:
        return True
    with contextlib.suppress(OSError), program.open("rb") as file:
        start = file.read(2048)
        return start.startswith(b"#!") and b"podman" in start
    return False


def silent_engine(machine: Machine, socket_path: Path) -> str:
    """Return the kind of engine that is installed if the system's socket does not answer."""
    if "podman" in str(socket_path.resolve()):
        return "podman"
    rootless = machine.root / "run/user" / str(machine.uid) / "docker.sock"
    if is_there(rootless) or machine.chosen_host().startswith(ROOTLESS_HOST):
        return "rootless"
    if machine.program("dockerd"):
        return "docker"
    docker = machine.program("docker")
    if docker and is_podman_shim(docker):
        return "podman"
    if is_there(machine.root / "snap/bin/docker"):
        return "snap"
    return "unknown"


def answering_engine(version: dict[str, t.Any], info: dict[str, t.Any]) -> str:
    """Return the kind of engine that answers on the socket."""
    components = " ".join(str(component.get("Name")) for component in version.get("Components") or [])
    if "podman" in components.lower():
        return "podman"
    if any("rootless" in str(option) for option in info.get("SecurityOptions") or []):
        return "rootless"
    if str(info.get("DockerRootDir")).startswith("/var/snap/"):
        return "snap"
    return "docker"


def is_gpu_spec(spec: Path) -> bool:
    try:
        return b"nvidia.com/gpu" in spec.read_bytes()
    except OSError:
        return False


def gpu_support(machine: Machine, info: dict[str, t.Any]) -> str | None:
    """Return how the Engine supports GPUs: `hook` (the toolkit's), `runtime` or `cdi`; None if it does not.

    If the Engine does not answer, its configuration decides.
    """
    if not info:
        daemon = read_object(machine.root / "etc/docker/daemon.json") or {}
        info = {"Runtimes": daemon.get("runtimes"), "CDISpecDirs": daemon.get("cdi-spec-dirs") or CDI_FOLDERS}
    if machine.program(GPU_HOOK):
        return "hook"
    if "nvidia" in (info.get("Runtimes") or {}):
        return "runtime"
    if any("nvidia.com/gpu" in str(device.get("ID")) for device in info.get("DiscoveredDevices") or []):
        return "cdi"
    for folder in info.get("CDISpecDirs") or []:
        with contextlib.suppress(OSError):
            for spec in sorted((machine.root / str(folder).lstrip("/")).glob("*")):
                if spec.suffix in (".yaml", ".yml", ".json") and is_gpu_spec(spec):
                    return "cdi"
    return None


def mount_point(path: Path) -> Path | None:
    """Return the mount point of the file system of a path."""
    path = Path(os.path.realpath(path))
    try:
        while not path.is_mount():
            path = path.parent
    except OSError:
        return None
    return path


def _shares_space(path: Path, other: Path) -> bool:
    """Return whether two directories are on the same file system. Raise OSError if one of them is not accessible."""
    if path.stat().st_dev == other.stat().st_dev:
        return True
    # Subvolumes and overlays have different device numbers, but the same block counts.
    first, second = os.statvfs(path), os.statvfs(other)
    return bool(first.f_blocks) and (first.f_blocks, first.f_bfree) == (second.f_blocks, second.f_bfree)


def same_filesystem(images: Path, path: Path) -> bool | None:
    """Return whether images and a path use the same disk space; None if unknown."""
    try:
        return _shares_space(images, nearest_existing(path))
    except OSError:
        return None


def brief_port(port: dict[str, t.Any]) -> dict[str, t.Any]:
    return {
        "address": port.get("IP") or None,
        "port": port.get("PublicPort"),
        "container_port": port.get("PrivatePort"),
        "protocol": port.get("Type"),
    }


def up_for(status: str | None) -> str | None:
    """Return how long a container has been running, in Docker's words."""
    match = re.match(r"Up ([^(]+)", status or "")
    text = match[1].strip() if match else ""
    return text[:1].lower() + text[1:] or None


def brief_container(listed: dict[str, t.Any], inspected: dict[str, t.Any] | None) -> dict[str, t.Any]:
    """Return the main facts of a running container."""
    state = (inspected or {}).get("State") or {}
    names = listed.get("Names") or [listed["Id"][:12]]
    return {
        "name": names[0].lstrip("/"),
        "id": listed["Id"],
        "image": listed.get("Image"),
        "state": listed.get("State"),
        "status": listed.get("Status"),
        "up": up_for(listed.get("Status")),
        "pid": state.get("Pid") or None,
        "ports": [brief_port(port) for port in listed.get("Ports") or []],
        "network_mode": (listed.get("HostConfig") or {}).get("NetworkMode"),
        "started_at": state.get("StartedAt"),
        "labels": listed.get("Labels") or {},
    }


def brief_slot(inspected: dict[str, t.Any]) -> dict[str, t.Any]:
    """Return the main facts of a container, running or not."""
    config, state = inspected.get("Config") or {}, inspected.get("State") or {}
    host_config = inspected.get("HostConfig") or {}
    policy = (host_config.get("RestartPolicy") or {}).get("Name")
    return {
        "name": str(inspected.get("Name")).lstrip("/"),
        "id": inspected["Id"],
        "image": config.get("Image"),
        "image_id": inspected.get("Image"),
        "labels": config.get("Labels") or {},
        "state": state.get("Status"),
        "health": (state.get("Health") or {}).get("Status"),
        "exit_code": state.get("ExitCode"),
        "oom_killed": state.get("OOMKilled"),
        "error": state.get("Error") or None,
        "started_at": state.get("StartedAt"),
        "finished_at": state.get("FinishedAt"),
        "restart_count": inspected.get("RestartCount"),
        "restart_policy": policy,
        # Docker does not start it by itself.
        "is_stopped": policy == "no" and state.get("Status") in ("created", "exited"),
        "network_mode": host_config.get("NetworkMode"),
        "published_ports": [str(port) for port in published_by(host_config)],
    }


def brief_image(inspected: dict[str, t.Any]) -> dict[str, t.Any]:
    config = inspected.get("Config") or {}
    return {
        "id": inspected["Id"],
        "repo_tags": inspected.get("RepoTags") or [],
        "repo_digests": inspected.get("RepoDigests") or [],
        "size": inspected.get("Size"),
        "architecture": inspected.get("Architecture"),
        "labels": config.get("Labels") or {},
        "env": config.get("Env") or [],
    }

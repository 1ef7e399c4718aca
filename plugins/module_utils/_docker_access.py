# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this module util is internal to the collection; its interface may change at any time.

"""Docker as the connecting process sees it: the Engine's socket, and the machine's files where the socket is silent."""

from __future__ import annotations

import contextlib
import hashlib
import http.client
import ipaddress
import json
import os
import pwd
import re
import socket
import typing as t
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

SOCKET = "/var/run/docker.sock"
# Where a dockerd that systemd started looks for programs.
DAEMON_PATH = ("usr/local/sbin", "usr/local/bin", "usr/sbin", "usr/bin", "sbin", "bin")
GPU_HOOK = "nvidia-container-runtime-hook"
CONTAINERD_ROOT = "/var/lib/containerd"
ROOTLESS_HOST = "unix:///run/user/"


class EngineError(Exception):
    """The Engine answered, but not with what it was asked for; the text is one sentence for the user."""


class _UnixConnection(http.client.HTTPConnection):
    """HTTP over the Engine's socket."""

    def __init__(self, path: str, timeout: float) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


class Engine:
    """A few reading requests to the Docker Engine. OSError means that it cannot be reached."""

    def __init__(self, path: str = SOCKET, timeout: float = 30) -> None:
        self._path = path
        self._timeout = timeout

    def find(self, path: str) -> t.Any:
        """What the Engine says about a path, or None when it knows nothing of the kind."""
        connection = _UnixConnection(self._path, self._timeout)
        try:
            connection.request("GET", path)
            response = connection.getresponse()
            body = response.read()
        except http.client.HTTPException as e:
            raise EngineError(f"Asking the Docker Engine for {path} failed: {type(e).__name__} {e}.") from e
        finally:
            connection.close()
        if response.status == 404:
            return None
        try:
            answer = json.loads(body)
        except ValueError as e:
            raise EngineError(f"Asking the Docker Engine for {path} failed: it did not answer with JSON.") from e
        if response.status != 200:
            reason = (answer.get("message") if isinstance(answer, dict) else None) or response.reason
            raise EngineError(f"Asking the Docker Engine for {path} failed with status {response.status}: {reason}.")
        return answer

    def get(self, path: str) -> t.Any:
        answer = self.find(path)
        if answer is None:
            raise EngineError(f"Asking the Docker Engine for {path} failed with status 404: it has no such page.")
        return answer

    def container(self, name: str) -> dict[str, t.Any] | None:
        answer: dict[str, t.Any] | None = self.find(f"/containers/{quote(name, safe='')}/json")
        return answer

    def image(self, name: str) -> dict[str, t.Any] | None:
        answer: dict[str, t.Any] | None = self.find(f"/images/{quote(name, safe='/:@')}/json")
        return answer


@dataclass(frozen=True)
class Machine:
    """The files that tell of Docker when its socket does not; the root is another one in tests."""

    root: Path = Path("/")
    uid: int = field(default_factory=os.getuid)
    home: Path = field(default_factory=Path.home)
    docker_host: str = field(default_factory=lambda: os.environ.get("DOCKER_HOST", ""))

    def program(self, name: str) -> Path | None:
        for folder in DAEMON_PATH:
            path = self.root / folder / name
            if os.access(path, os.X_OK) and path.is_file():
                return path
        return None

    def chosen_host(self) -> str:
        """The Engine that the docker command would use: from the environment, else from the current context."""
        if self.docker_host:
            return self.docker_host
        config = _read_json(self.home / ".docker/config.json")
        context = config.get("currentContext")
        if not isinstance(context, str):
            return ""
        folder = hashlib.sha256(context.encode()).hexdigest()
        meta = _read_json(self.home / ".docker/contexts/meta" / folder / "meta.json")
        host = ((meta.get("Endpoints") or {}).get("docker") or {}).get("Host")
        return host if isinstance(host, str) else ""


def _read_json(path: Path) -> dict[str, t.Any]:
    try:
        content = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def is_there(path: Path) -> bool:
    """Unlike Path.exists, this does not raise where a directory on the way may not be searched."""
    return os.access(path, os.F_OK)


def is_podman_shim(program: Path) -> bool:
    """Whether the docker command is the script or the link that the package podman-docker brings."""
    if "podman" in program.resolve().name:
        return True
    with contextlib.suppress(OSError), program.open("rb") as file:
        start = file.read(2048)
        return start.startswith(b"#!") and b"podman" in start
    return False


def silent_engine(machine: Machine, socket_path: Path) -> str:
    """Which kind of engine is installed, when the system's socket does not answer."""
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
    """Which kind of engine answers on the socket."""
    components = " ".join(str(component.get("Name")) for component in version.get("Components") or [])
    if "podman" in components.lower():
        return "podman"
    if any("rootless" in str(option) for option in info.get("SecurityOptions") or []):
        return "rootless"
    if str(info.get("DockerRootDir")).startswith("/var/snap/"):
        return "snap"
    return "docker"


def gpu_support(machine: Machine, info: dict[str, t.Any]) -> str | None:
    """By what the Engine knows its GPU option: the toolkit's hook, its runtime or a CDI device. None: it does not."""
    if machine.program(GPU_HOOK):
        return "hook"
    if "nvidia" in (info.get("Runtimes") or {}):
        return "runtime"
    if any("nvidia.com/gpu" in str(device.get("ID")) for device in info.get("DiscoveredDevices") or []):
        return "cdi"
    for folder in info.get("CDISpecDirs") or []:
        for spec in sorted((machine.root / str(folder).lstrip("/")).glob("*")):
            with contextlib.suppress(OSError):
                if spec.suffix in (".yaml", ".yml", ".json") and b"nvidia.com/gpu" in spec.read_bytes():
                    return "cdi"
    return None


def free_bytes(info: dict[str, t.Any]) -> int | None:
    """What is free where images are stored; with containerd's image store that is not below the data root."""
    folders = [str(info.get("DockerRootDir") or "")]
    if any("io.containerd.snapshotter" in str(value) for _name, value in info.get("DriverStatus") or []):
        folders.append(CONTAINERD_ROOT)
    free = []
    for folder in filter(None, folders):
        with contextlib.suppress(OSError):
            status = os.statvfs(folder)
            free.append(status.f_bavail * status.f_frsize)
    return min(free) if free else None


def brief_port(port: dict[str, t.Any]) -> dict[str, t.Any]:
    return {
        "address": port.get("IP") or None,
        "port": port.get("PublicPort"),
        "container_port": port.get("PrivatePort"),
        "protocol": port.get("Type"),
    }


def brief_container(listed: dict[str, t.Any], inspected: dict[str, t.Any] | None) -> dict[str, t.Any]:
    """A running container in few words."""
    state = (inspected or {}).get("State") or {}
    names = listed.get("Names") or [listed["Id"][:12]]
    return {
        "name": names[0].lstrip("/"),
        "id": listed["Id"],
        "image": listed.get("Image"),
        "state": listed.get("State"),
        "status": listed.get("Status"),
        "ports": [brief_port(port) for port in listed.get("Ports") or []],
        "network_mode": (listed.get("HostConfig") or {}).get("NetworkMode"),
        "started_at": state.get("StartedAt"),
        "labels": listed.get("Labels") or {},
    }


def brief_slot(inspected: dict[str, t.Any]) -> dict[str, t.Any]:
    """One container, running or not, in few words."""
    config, state = inspected.get("Config") or {}, inspected.get("State") or {}
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
        "started_at": state.get("StartedAt"),
        "finished_at": state.get("FinishedAt"),
        "restart_count": inspected.get("RestartCount"),
        "restart_policy": ((inspected.get("HostConfig") or {}).get("RestartPolicy") or {}).get("Name"),
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


@dataclass(frozen=True)
class Listener:
    """A TCP socket that waits for connections."""

    address: ipaddress.IPv4Address | ipaddress.IPv6Address
    port: int
    uid: int
    inode: int


def parse_address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """The kernel prints addresses as 32-bit words in the machine's byte order, which is little-endian."""
    raw = bytes.fromhex(text)
    address = ipaddress.ip_address(b"".join(raw[i : i + 4][::-1] for i in range(0, len(raw), 4)))
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped:
        return address.ipv4_mapped
    return address


def parse_listeners(table: str) -> list[Listener]:
    """The listening sockets of /proc/net/tcp or tcp6."""
    listeners = []
    for line in table.splitlines()[1:]:
        fields = line.split()
        if len(fields) > 9 and fields[3] == "0A":
            address, port = fields[1].split(":")
            listeners.append(Listener(parse_address(address), int(port, 16), int(fields[7]), int(fields[9])))
    return listeners


def collides(listening: str, wanted: str) -> bool:
    """Whether a socket on one address keeps another one from listening on the same port of the wanted address."""
    ours, theirs = ipaddress.ip_address(wanted), ipaddress.ip_address(listening)
    if ours.version == theirs.version:
        return ours == theirs or ours.is_unspecified or theirs.is_unspecified
    # A socket on :: takes IPv4 too, unless it says otherwise, which cannot be seen from outside.
    return (ours if ours.version == 6 else theirs).is_unspecified


def listeners_on(machine: Machine, address: str, port: int) -> list[Listener]:
    found = []
    for table in ("tcp", "tcp6"):
        with contextlib.suppress(OSError):
            found += parse_listeners((machine.root / "proc/net" / table).read_text())
    return [one for one in found if one.port == port and collides(str(one.address), address)]


def process_of(machine: Machine, inodes: set[int]) -> int | None:
    """The process that holds one of the sockets; None also where its files may not be looked at."""
    wanted = {f"socket:[{inode}]" for inode in inodes}
    for process in (machine.root / "proc").iterdir():
        if not process.name.isdigit():
            continue
        with contextlib.suppress(OSError):
            for descriptor in (process / "fd").iterdir():
                with contextlib.suppress(OSError):
                    if str(descriptor.readlink()) in wanted:
                        return int(process.name)
    return None


def container_of(machine: Machine, pid: int, containers: list[dict[str, t.Any]]) -> str | None:
    """The container that a process of the host belongs to."""
    try:
        cgroups = (machine.root / "proc" / str(pid) / "cgroup").read_text()
    except OSError:
        return None
    ids = set(re.findall(r"[0-9a-f]{64}", cgroups))
    return next((container["name"] for container in containers if container["id"] in ids), None)


def publisher_of(containers: list[dict[str, t.Any]], address: str, port: int) -> str | None:
    """The container whose published port is in the way."""
    for container in containers:
        for published in container["ports"]:
            same = published["port"] == port and published["protocol"] == "tcp"
            if same and collides(published["address"] or "0.0.0.0", address):
                return str(container["name"])
    return None


def user_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def holder(use: dict[str, t.Any]) -> str:
    """Who has a port, in words that help to find and stop it."""
    process = f"process {use['process']} of user {use['user']}" if use["process"] else ""
    if use["container"]:
        return f"container '{use['container']}'" + (f" ({process})" if process else "")
    if process:
        return process
    unnamed = f"a process of user {use['user']} that only root may name (sudo ss -ltnp)"
    if use["suspects"]:
        return f"{unnamed}, perhaps in one of the containers on the host's network: {', '.join(use['suspects'])}"
    return unnamed


def port_use(machine: Machine, containers: list[dict[str, t.Any]], address: str, port: int) -> dict[str, t.Any]:
    """Who listens on a port."""
    listeners = listeners_on(machine, address, port)
    container = publisher_of(containers, address, port)
    pid = process_of(machine, {one.inode for one in listeners}) if listeners else None
    process = None
    if pid is not None:
        container = container or container_of(machine, pid, containers)
        with contextlib.suppress(OSError):
            process = f"{(machine.root / 'proc' / str(pid) / 'comm').read_text().strip()} ({pid})"
    host_network = [one["name"] for one in containers if one["network_mode"] == "host"]
    use = {
        "in_use": bool(listeners) or container is not None,
        "address": address,
        "port": port,
        "container": container,
        "process": process,
        "user": user_name(listeners[0].uid) if listeners else None,
        # Only root sees whose socket it is; one of these may hold it then.
        "suspects": host_network if listeners and container is None and pid is None else [],
    }
    return {**use, "holder": holder(use) if use["in_use"] else None}

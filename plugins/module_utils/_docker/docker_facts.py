# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this module util is internal to the collection; its interface may change at any time.

"""Gather the facts of Docker: access, GPU support, containers, and users of ports and memory."""

from __future__ import annotations

import dataclasses
import grp
import ipaddress
import os
import pwd
import typing as t
from pathlib import Path

from .._deployment.cluster_view import environment_of
from .._deployment.names import LABEL
from .._spark.lock import user_name
from .._spark.machine import ask_gpu_processes
from .access import Machine, answering_engine, brief_image, brief_slot, gpu_support, same_filesystem, silent_engine
from .caches import caches_of
from .image_store import own_architecture, store_of
from .inspector import Inspector
from .published_ports import parse
from .usage import addresses_of, holdings, is_here, is_slots, memory_holders, port_use

ARGUMENTS: dict[str, dict[str, t.Any]] = {
    "container": {"type": "str"},
    "image": {"type": "str"},
    "images": {"type": "list", "elements": "str", "default": []},
    "port": {"type": "int"},
    "address": {"type": "str", "default": "127.0.0.1"},
    "published_ports": {"type": "list", "elements": "str", "default": []},
    "usage": {"type": "bool", "default": False},
    "mounts": {"type": "bool", "default": False},
    "caches": {"type": "bool", "default": False},
    "used_images": {"type": "list", "elements": "str"},
    "compare_path": {"type": "path"},
    "socket": {"type": "path", "default": "/var/run/docker.sock"},
}
GROUP = "docker"
UNSUPPORTED = {
    "podman": (
        "Podman answers in Docker's place; this needs Docker Engine itself. Remove the shim with "
        "'sudo apt-get remove podman-docker' and install Docker Engine."
    ),
    "rootless": (
        "Docker runs rootless for this user; this needs the Docker Engine that root runs. Go back to it with "
        "'dockerd-rootless-setuptool.sh uninstall', 'docker context use default' and "
        "'sudo systemctl enable --now docker'."
    ),
    "snap": (
        "Docker comes from a snap, which cannot hand out the GPU. Remove it with 'sudo snap remove docker' and install "
        "Docker Engine from the distribution or from Docker."
    ),
}


class Port(t.TypedDict, total=False):
    """The owner of a port. Ports that a container is to publish also have container_port and text."""

    in_use: bool
    address: str
    port: int
    # The name of the container that listens on it or publishes it.
    container: str | None
    # Name and PID; None if only root can see them.
    process: str | None
    user: str | None
    # The owner as text for a message.
    holder: str | None
    # Memory and ports of the container, or of each suspect, and how to stop it; no full stop.
    description: str | None
    # Containers in the host's network that may listen, if the owner is unknown.
    suspects: list[str]
    # True if the serving container listens, as far as is visible.
    slot: bool
    # True if the host has the address.
    address_here: bool
    container_port: int
    # In Docker's spelling.
    text: str


class Memory(t.TypedDict):
    """The memory in bytes."""

    total: int
    available: int
    # Memory of the serving container: 0 if it does not run, None if unknown.
    slot: int | None
    # Other memory users, the largest first, each as a sentence without a full stop.
    usage: list[str]


class Docker(t.TypedDict):
    """Access to Docker, its containers, and facts of the image, container and ports in ARGUMENTS."""

    # usable, denied (the user may not open the socket), not_running, not_installed or unsupported.
    state: str
    # The same in a sentence, empty if usable.
    detail: str
    architecture: str
    server_version: str | None
    # As Store.facts returns it; None if unknown.
    image_store: dict[str, t.Any] | None
    # True if images and compare_path share a file system; None if unknown.
    same_filesystem: bool | None
    # Whether containers can use the GPU.
    gpu: bool
    user: str
    # From the group database, so valid from the next login on.
    user_in_group: bool
    # True if this Python has the package requests, which community.docker needs.
    python_requests: bool
    # The running containers; with usage, also their memory.
    containers: list[dict[str, t.Any]]
    # The host paths that this collection's containers mount; None without mounts.
    mounted: list[str] | None
    # The volumes of downloaded code and compiled kernels, with used_images only the unused ones; None without caches.
    caches: list[dict[str, t.Any]] | None
    # None without usage.
    memory: Memory | None
    # The serving container, or the standby container if that runs again, as after a power cut.
    slot: dict[str, t.Any] | None
    # True if there is a standby container.
    standby: bool
    image: dict[str, t.Any] | None
    # Those of the images in ARGUMENTS that are here; None without a usable Engine.
    images: list[str] | None
    port: Port | None
    published_ports: list[Port]
    # Ports from port and published_ports that something else than the serving container uses.
    ports_in_use: list[Port]
    # Addresses on which a server can listen, without link-local IPv6 addresses.
    addresses: list[str]


def can_import_requests() -> bool:
    try:
        import requests  # noqa: F401  (only whether it can be imported matters)
    except Exception:
        # A broken installation can raise anything.
        return False
    return True


def in_docker_group(uid: int) -> bool:
    """Return whether a user is in Docker's group."""
    try:
        gid, user = grp.getgrnam(GROUP).gr_gid, pwd.getpwuid(uid)
    except KeyError:
        return False
    return gid in os.getgrouplist(user.pw_name, user.pw_gid)


def mounted_by(listed: t.Iterable[dict[str, t.Any]]) -> list[str]:
    """Return the host paths that this collection's containers mount, running or not."""
    own = [row for row in listed if any(label.startswith(LABEL) for label in row.get("Labels") or {})]
    return sorted({mount["Source"] for row in own for mount in row.get("Mounts") or [] if mount.get("Source")})


class DockerInspector(Inspector):
    """Gather the facts of Docker. Raise ValueError, with a sentence, for an invalid parameter."""

    def __init__(self, params: dict[str, t.Any], machine: Machine, marks: Path) -> None:
        try:
            ipaddress.ip_address(params["address"])
        except ValueError:
            raise ValueError(f"Looking at a port needs an IP address, which {params['address']!r} is not.") from None
        self._published = [parse(port) for port in params["published_ports"]]
        super().__init__(params, machine)
        # The directory with the marks of unfinished images.
        self._marks = marks

    def act(self) -> Docker:
        result: dict[str, t.Any] = {
            "user": user_name(self._machine.uid),
            "user_in_group": in_docker_group(self._machine.uid),
            "python_requests": can_import_requests(),
            **self._access(),
        }
        slot_name = (result["slot"] or {"name": self._params["container"]})["name"]
        result.update(self._held(result["containers"], slot_name))
        port, address = self._params["port"], self._params["address"]
        result["port"] = self._use(result, address, port) if port is not None else None
        result["published_ports"] = [
            {
                **self._use(result, published.address, published.port),
                "container_port": published.container_port,
                "text": str(published),
            }
            for published in self._published
            if published.protocol == "tcp"
        ]
        rows = [*result["published_ports"], *([result["port"]] if result["port"] else [])]
        result["ports_in_use"] = [row for row in rows if row["in_use"] and not row["slot"]]
        result["addresses"] = addresses_of(self._machine)
        return t.cast("Docker", result)

    def _use(self, result: dict[str, t.Any], address: str, port: int) -> dict[str, t.Any]:
        """Return the owner of a port, and whether the host has the address."""
        use = port_use(self._machine, result["containers"], address, port)
        return {**use, "slot": is_slots(use, result["slot"]), "address_here": is_here(address)}

    def _held(self, containers: list[dict[str, t.Any]], slot_name: str | None) -> dict[str, t.Any]:
        """Return the containers and the memory. Memory users exclude the serving container."""
        if not self._params["usage"]:
            return {"containers": containers, "memory": None}
        containers, processes = holdings(self._machine, containers, ask_gpu_processes())
        meminfo = self.read_memory()
        slot = next((container for container in containers if container["name"] == slot_name), None)
        # A size that the driver does not report may be the largest, so then the sum is unknown.
        sizes = [process["bytes"] for process in processes if process["container"] == slot_name]
        known = slot is None or (bool(sizes) and None not in sizes)
        return {
            "containers": containers,
            "memory": {
                "total": meminfo["MemTotal"],
                "available": meminfo["MemAvailable"],
                "slot": (slot["memory_bytes"] if slot else 0) if known else None,
                "usage": memory_holders(containers, processes, slot_name),
            },
        }

    def _places(self, info: dict[str, t.Any]) -> dict[str, t.Any]:
        """Return the location of Docker's data."""
        store, path = store_of(info, self._machine.root), self._params["compare_path"]
        return {
            "image_store": store.facts() if store else None,
            "same_filesystem": same_filesystem(store.path, Path(path)) if store and path else None,
        }

    def _access(self) -> dict[str, t.Any]:
        info: dict[str, t.Any] = {}
        socket = self._params["socket"]
        result: dict[str, t.Any] = {"containers": [], "slot": None, "standby": False}
        result.update(dict.fromkeys(("image", "images", "mounted", "caches")))
        try:
            info = self._engine.get("/info")
            engine = answering_engine(self._engine.get("/version"), info)
            result = self._inspect()
            state, detail = "usable", ""
        except PermissionError:
            engine = silent_engine(self._machine, Path(socket))
            # The system's socket exists, so this is not the rootless Engine.
            engine = "docker" if engine == "rootless" else engine
            state, detail = "denied", f"The user {user_name(self._machine.uid)} may not open {socket}."
        except OSError as e:
            engine = silent_engine(self._machine, Path(socket))
            state = "not_installed" if engine == "unknown" else "not_running"
            detail = "Docker is not installed."
            if state == "not_running":
                detail = f"Docker is installed and does not answer on {socket} ({e.strerror or e})."
        if engine in UNSUPPORTED:
            state, detail = "unsupported", UNSUPPORTED[engine]
        return {
            "state": state,
            "detail": detail,
            "architecture": own_architecture(),
            "server_version": info.get("ServerVersion"),
            **self._places(info),
            "gpu": gpu_support(self._machine, info) is not None,
            **result,
        }

    def _inspect(self) -> dict[str, t.Any]:
        params, container = self._params, self._params["container"]
        slot = self.find_slot()
        image = self.find_image(self._marks, params["image"]) if params["image"] else None
        return {
            "containers": self.list_running(),
            "slot": {**brief_slot(slot), "rdma_filter": environment_of(slot).get("NCCL_IB_HCA", "")} if slot else None,
            "standby": bool(container and slot and self._engine.standby(container)),
            "image": brief_image(image) if image else None,
            "images": [name for name in params["images"] if self._engine.image(name)],
            "mounted": mounted_by(self._engine.get("/containers/json?all=1")) if params["mounts"] else None,
            "caches": self._chosen_caches(container) if params["caches"] and container else None,
        }

    def _chosen_caches(self, container: str) -> list[dict[str, t.Any]]:
        used = self._params["used_images"]
        found = caches_of(self._engine, container)
        return [dataclasses.asdict(cache) for cache in found if used is None or not cache.is_used(used)]

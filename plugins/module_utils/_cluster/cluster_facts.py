# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this module util is internal to the collection; its interface may change at any time.

"""Gather the facts of a node that are compared with those of the other nodes."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import platform
import re
import shutil
import socket
import subprocess
import time
import typing as t
from pathlib import Path

from .._data.files import nearest_existing
from .._deployment.names import LABEL
from .._docker.access import Machine, brief_slot, mount_point
from .._docker.engine import EngineError
from .._docker.image_store import store_of
from .._docker.inspector import Inspector
from .._docker.usage import port_use
from .._spark.lock import user_name
from .._spark.machine import GpuError, LookError, read_gpus
from .._spark.watched_job import Job

# An ordinary user's PATH need not lead to it.
SSHD_PLACES = ("/usr/sbin", "/usr/local/sbin", "/sbin", "/usr/bin")
# The base of the cluster image. With another base it must be built again.
BASE_LABEL = f"{LABEL}base"
REPOSITORY = "dgx-spark-speculative/release"
# The SSH files of a Spark: known hosts, and keys that may log in.
TRUSTED = ("known_hosts", "authorized_keys")
KEY = re.compile(r"ssh-ed25519 [A-Za-z0-9+/]+={0,2}")
# The keys of an image's configuration that affect its containers. Other keys differ between releases of Docker.
CONFIG_KEYS = (
    "Cmd",
    "Entrypoint",
    "Env",
    "ExposedPorts",
    "Healthcheck",
    "Labels",
    "Shell",
    "StopSignal",
    "User",
    "Volumes",
    "WorkingDir",
)

Facts = t.Mapping[str, t.Any]


def cluster_image(base: str) -> str:
    """Return the local name of the image that several Sparks share, by the image of the recipe."""
    name, _at, digest = base.partition("@")
    _repository, _colon, tag = name.rpartition("/")[2].partition(":")
    return f"{REPOSITORY}:{tag or (digest.replace(':', '-')[:19] if digest else 'latest')}"


def fingerprint(inspected: Facts) -> str:
    """Return the identity of an image in every Docker. Its ID is not: it depends on how Docker stores images."""
    config = inspected.get("Config") or {}
    kept = {key: config.get(key) for key in CONFIG_KEYS if config.get(key)}
    layers = (inspected.get("RootFS") or {}).get("Layers") or []
    parts = [inspected.get("Os"), inspected.get("Architecture"), inspected.get("Variant") or "", layers, kept]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def image_facts(inspected: Facts | None) -> dict[str, t.Any] | None:
    """Return an image in few words."""
    if inspected is None:
        return None
    labels = (inspected.get("Config") or {}).get("Labels") or {}
    return {
        "id": inspected.get("Id"),
        "fingerprint": fingerprint(inspected),
        "bytes": inspected.get("Size") or 0,
        "base": labels.get(BASE_LABEL),
    }


def is_made(images: Facts) -> bool:
    """Return whether the cluster image exists and is the present base image, or is made from it."""
    base, made = images["base"], images["cluster"]
    return bool(base and made and base["fingerprint"] in (made["base"], made["fingerprint"]))


def read_key_pair(private: str, public: str) -> str | None:
    """Return the public key of an ed25519 key pair that is complete and has no passphrase."""
    named = KEY.match(public.strip())
    if not named or not private:
        return None
    # As input: ssh-keygen refuses a file that other users can read.
    command = ["ssh-keygen", "-y", "-P", "", "-f", "/dev/stdin"]
    try:
        done = subprocess.run(command, input=private.encode(), capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    derived = KEY.match(done.stdout.decode("utf-8", "replace"))
    return named[0] if derived and derived[0] == named[0] else None


AUTHORIZED = re.compile(r'from="(?P<addresses>[^"]*)".* (?P<key>ssh-ed25519 [A-Za-z0-9+/]+={0,2})')


def authorized_key(text: str) -> dict[str, t.Any] | None:
    """Return addresses and key of the first line of authorized_keys."""
    match = AUTHORIZED.search(text.partition("\n")[0])
    return {"from": match["addresses"].split(","), "key": match["key"]} if match else None


def filesystem(path: Path) -> dict[str, t.Any]:
    """Return the file system on which something is or will be."""
    there = nearest_existing(path)
    mount = mount_point(there)
    try:
        free = shutil.disk_usage(there).free
    except OSError:
        free = None
    return {"path": str(path), "filesystem": str(mount), "free": free}


def digest(files: t.Sequence[t.Mapping[str, str]]) -> str:
    """Return the digest of files, from their names, modes and contents."""
    rows = [[file["name"], file["mode"], file["content"]] for file in files]
    return hashlib.sha256(json.dumps(rows).encode("utf-8")).hexdigest()


def trusted_digest(cluster: Path) -> str:
    """Return the digest of the files on disk, as bytes, because text would hide wrong line endings.

    It is empty if the files belong to another user.
    """
    there = [cluster / name for name in TRUSTED if (cluster / name).is_file()]
    try:
        texts = [path.read_bytes().decode("utf-8", "replace") for path in there]
        modes = [f"{path.stat().st_mode & 0o7777:04o}" for path in there]
    except OSError:
        return ""
    return digest([{"name": path.name, "mode": mode, "content": text} for path, mode, text in zip(there, modes, texts)])


def read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


class ClusterFacts(t.TypedDict):
    """The facts of a node."""

    hostname: str
    architecture: str
    memory_total: int
    # The driver of each GPU.
    drivers: list[str]
    # Seconds that the clock is ahead of the controller's, with the time of the request; None if not asked.
    clock_offset: float | None
    # The path of the program.
    sshd: str | None
    # The Engine, and the place, store and free bytes of its images.
    docker: dict[str, t.Any]
    slot: dict[str, t.Any] | None
    # As image_facts returns the recipe's image (base) and the cluster image (pair).
    images: dict[str, t.Any]
    # The name of the cluster image, and whether it is made from the base that is there.
    cluster_image: str
    image_made: bool
    ports: list[dict[str, t.Any]]
    # The file system of the deployments.
    state: dict[str, t.Any]
    state_directory: str
    # The directory of the keys exists and is closed to other users.
    has_directory: bool
    # The public key with which the host connects to others.
    client_key: str | None
    key_file: str
    # The public half of key_file, None if the pair must be created again.
    key: str | None
    key_is_open: bool
    # The key, and from which addresses, that the container accepts.
    authorized: dict[str, t.Any] | None
    # The digest of the files that name the keys of others.
    trusted: str
    # As check_link() returns it.
    proof: dict[str, t.Any] | None
    # Bytes of an image that were copied and are not loaded yet.
    spooled_bytes: int


class ClusterInspector(Inspector):
    """One look at one of them."""

    def __init__(self, state: Path, params: dict[str, t.Any], machine: Machine) -> None:
        super().__init__(params, machine)
        self.state = state
        self.cluster = self.state / "cluster"
        self.private = Path(params["key"] or "/nonexistent")

    def look(self) -> ClusterFacts:
        self.check_own()
        # First, since what follows takes its time.
        clock = None if self._params["sent"] is None else round(time.time() - self._params["sent"], 3)
        containers, result = self.docker()
        key = KEY.match(read(self.cluster / "id_ed25519.pub"))
        whole = {
            "hostname": socket.gethostname(),
            "architecture": platform.machine(),
            "memory_total": self.read_memory()["MemTotal"],
            "drivers": self.drivers(),
            "clock_offset": clock,
            "sshd": shutil.which("sshd", path=":".join(SSHD_PLACES)),
            **result,
            "cluster_image": cluster_image(self._params["image"]),
            "image_made": is_made(result["images"]),
            "ports": self.ports(containers, result["slot"]),
            "state": filesystem(self.state),
            "state_directory": str(self.state),
            "has_directory": self.has_directory(),
            "client_key": key[0] if key else None,
            "key_file": str(self.private),
            "key": self.key(),
            "key_is_open": self.key_is_open(),
            "authorized": authorized_key(read(self.cluster / "authorized_keys")),
            "trusted": trusted_digest(self.cluster),
            "proof": self.proof(),
            "spooled_bytes": self.buffered_bytes(),
        }
        return t.cast("ClusterFacts", whole)

    def drivers(self) -> list[str]:
        try:
            return [gpu.driver for gpu in read_gpus()]
        except GpuError:
            return []

    def docker(self) -> tuple[list[dict[str, t.Any]], dict[str, t.Any]]:
        """Return the Engine's images and containers; empty if it does not answer, which is reported elsewhere."""
        containers: list[dict[str, t.Any]] = []
        slot: dict[str, t.Any] | None = None
        images: dict[str, dict[str, t.Any] | None] = {"base": None, "cluster": None}
        info: dict[str, t.Any] = {}
        state, detail = "usable", ""
        try:
            info = self._engine.get("/info")
            containers = self.list_running() if self._params["ports"] else []
            slot = self.find_slot()
            names = {"base": self._params["image"], "cluster": cluster_image(self._params["image"])}
            images = {key: image_facts(self.find_image(self.state / "jobs", name)) for key, name in names.items()}
        except (EngineError, OSError) as e:
            state, detail = "unusable", f"{self._params['socket']}: {getattr(e, 'strerror', None) or e}"
        store = store_of(info, self._machine.root)
        mount = mount_point(store.path) if store else None
        docker = {
            "state": state,
            "detail": detail,
            "version": info.get("ServerVersion"),
            "store": store.kind if store else None,
            "images": str(store.path) if store else None,
            "way_out": store.way_out if store else None,
            "filesystem": str(mount) if mount else None,
            "free": store.free_bytes() if store else None,
        }
        brief = brief_slot(slot) if slot else None
        return containers, {"docker": docker, "slot": brief, "images": images}

    def ports(self, containers: list[dict[str, t.Any]], slot: dict[str, t.Any] | None) -> list[dict[str, t.Any]]:
        """Return the owner of each port."""
        try:
            return [self.port(containers, slot, port) for port in self._params["ports"]]
        except ValueError as e:
            raise LookError(f"Looking at the ports failed, since one has no IP address: {e}.") from e

    def port(
        self, containers: list[dict[str, t.Any]], slot: dict[str, t.Any] | None, asked: dict[str, t.Any]
    ) -> dict[str, t.Any]:
        """Return who listens on a port, and whether that is `ours`, this deployment itself."""
        use = port_use(self._machine, containers, asked["address"], asked["port"])
        return {
            "address": asked["address"],
            "port": asked["port"],
            "input": asked["input"],
            "in_use": use["in_use"],
            "ours": use["in_use"] and (self.is_slots(use, slot) if asked["use"] == "container" else self.is_copying()),
            "holder": use["holder"],
            "description": use["description"],
        }

    @staticmethod
    def is_slots(use: t.Mapping[str, t.Any], slot: dict[str, t.Any] | None) -> bool:
        """Return whether the port belongs to our own worker."""
        if slot is None or f"{LABEL}deployment" not in slot["labels"]:
            return False
        # If only root can see the owner, the container with this port counts.
        suspected = slot["name"] in use["suspects"] and slot["labels"].get(f"{LABEL}rank", "0") != "0"
        return bool(use["container"] == slot["name"] or suspected)

    def is_copying(self) -> bool:
        """Return whether a copy of an earlier run still runs."""
        state, running = Job(self.state / "jobs", "copies").settled()
        return running and state is not None

    def check_own(self) -> None:
        """Raise LookError for the first of what is kept that is not this user's, before anything trips over it."""
        for path in (self.state, self.cluster, self.private):
            try:
                path.lstat()
            except PermissionError:
                raise LookError(
                    f"{path.parent} is closed to {user_name(os.geteuid())}, or a directory above it is: give it back "
                    f"with 'sudo chown -R {user_name(os.geteuid())}: {path.parent}', then run again."
                ) from None
            except OSError:
                continue
            wanted = os.R_OK | (os.W_OK | os.X_OK if path.is_dir() else 0)
            # ssh needs files of its own user.
            mine = path.is_dir() or path.stat().st_uid == path.parent.stat().st_uid
            if mine and os.access(path, wanted, effective_ids=True):
                continue
            owner, user = user_name(path.stat().st_uid), user_name(os.geteuid())
            if owner == user:
                raise LookError(
                    f"{path} is closed to its owner {user}: open it with 'chmod -R u+rwX {self.state}', then run again."
                )
            raise LookError(
                f"{path} belongs to {owner} and not to {user}, as a run with sudo or a restored backup leaves it: "
                f"give it back with 'sudo chown -R {user}: {self.state}', then run again."
            )

    def key(self) -> str | None:
        """Return the key pair that this Spark needs, if it is whole."""
        return read_key_pair(read(self.private), read(self.private.with_name(f"{self.private.name}.pub")))

    def key_is_open(self) -> bool:
        """Return whether other users can read the private key; ssh then refuses it."""
        try:
            return self.private.stat().st_mode & 0o7777 != 0o600
        except OSError:
            return False

    def has_directory(self) -> bool:
        try:
            return self.cluster.is_dir() and self.cluster.stat().st_mode & 0o777 == 0o700
        except OSError:
            return False

    def proof(self) -> dict[str, t.Any] | None:
        args = self._params["proof"]
        if not args or not args["rails"]:
            return None
        # Only here, as most looks prove nothing.
        from .._fabric.link_check import check_link

        return check_link(args)

    def buffered_bytes(self) -> int:
        files = (self.cluster / "spool").glob("*/*")
        total = 0
        for file in files:
            with contextlib.suppress(OSError):
                total += file.stat().st_size
        return total

#!/usr/bin/python
# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: pair_info
short_description: Tell in one call what decides whether two Sparks can serve as one
version_added: 0.1.0
description:
  - Tells of one of two Sparks what has to be compared with the other one, namely machine, memory, driver, clock,
    Docker, images, the ports that the other one will connect to, and how much room there is.
  - It changes nothing and asks nobody but the Docker Engine.
extends_documentation_fragment:
  - dgx_spark.speculative._attributes
  - dgx_spark.speculative._attributes.info_module
options:
  state_directory:
    description:
      - Where the deployments are.
    type: path
    required: true
  container:
    description:
      - The name of the serving container.
    type: str
    required: true
  image:
    description:
      - The image from which that of the pair is made.
    type: str
    required: true
  ports:
    description:
      - Ports to look at.
    type: list
    elements: dict
    default: []
    suboptions:
      address:
        description:
          - The address, which this host need not have yet.
        type: str
        required: true
      port:
        description:
          - The port.
        type: int
        required: true
      input:
        description:
          - The variable that chooses another one, handed back for messages.
        type: str
        required: true
      use:
        description:
          - Whether the serving container listens there, or what takes in copies.
        type: str
        choices: [container, copies]
        required: true
  key:
    description:
      - The private key of which RV(key) tells.
    type: path
  sent:
    description:
      - The time where Ansible runs, in seconds since 1970. Without it nothing is said about the clock.
    type: float
  socket:
    description:
      - The socket of the Engine.
    type: path
    default: /var/run/docker.sock
author:
  - dgx_spark.speculative contributors (!UNKNOWN)
seealso:
  - plugin: dgx_spark.speculative.pair_comparison
    plugin_type: filter
"""

EXAMPLES = r"""
---
- name: Look at both Sparks
  dgx_spark.speculative.pair_info:
    state_directory: /home/me/.local/share/dgx-spark-speculative
    container: dgx-spark-speculative
    image: nvcr.io/nvidia/tensorrt-llm/release:1.3.0rc12
    sent: "{{ now(utc=true).timestamp() }}"
  register: result
"""

RETURN = r"""
hostname:
  description: What the host calls itself.
  returned: success
  type: str
  sample: spark-a1b2
mac_addresses:
  description: Those of its network cards, without what Docker and other programs have made.
  returned: success
  type: list
  elements: str
  sample: ["3c:6d:66:00:00:01"]
architecture:
  description: What kind of machine it is.
  returned: success
  type: str
  sample: aarch64
memory_total:
  description: Memory in bytes.
  returned: success
  type: int
  sample: 128521625600
drivers:
  description: The driver of each GPU.
  returned: success
  type: list
  elements: str
  sample: ["580.95.05"]
clock_offset:
  description:
    - How many seconds the host's clock is ahead of O(sent), with the time that asking took. Null without O(sent).
  returned: success
  type: float
  sample: 0.4
sshd:
  description: The program that lets others in. Null where there is none.
  returned: success
  type: str
  sample: /usr/sbin/sshd
docker:
  description:
    - The Docker Engine, and the place C(images) where it keeps images.
    - The C(store) is V(classic) or V(containerd), and C(way_out) is what moves images to a larger disk.
  returned: success
  type: dict
  sample:
    state: usable
    detail: ""
    version: 28.3.3
    store: classic
    images: /var/lib/docker
    way_out: Docker's data-root
    filesystem: /
    free: 1500000000000
images:
  description:
    - The O(image) as C(base) and the one that is made from it as C(pair), each null where it is not here.
    - The C(fingerprint) is the same for the same image in every Docker, which its C(id) is not.
    - The C(base) of the latter is the fingerprint of the image from which it was made.
  returned: success
  type: dict
  sample:
    base:
      id: sha256:0123
      fingerprint: 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
      bytes: 35000000000
      base: null
    pair: null
pair_image:
  description: What the image that is made from O(image) is called.
  returned: success
  type: str
  sample: dgx-spark-speculative/release:1.3.0rc12
slot:
  description: The O(container). Null when there is none.
  returned: success
  type: dict
  sample:
    name: dgx-spark-speculative
    state: running
    labels: {}
ports:
  description: Who listens on O(ports), and whether that is this deployment itself.
  returned: success
  type: list
  elements: dict
  sample:
    - address: 192.168.100.11
      port: 2233
      input: spark_pair_ssh_port
      in_use: true
      ours: false
      holder: process sshd (4711) of user root
      description: null
state:
  description: The place of the deployments.
  returned: success
  type: dict
  sample:
    path: /home/me/.local/share/dgx-spark-speculative
    filesystem: /
    free: 1500000000000
state_directory:
  description: As it was given.
  returned: success
  type: str
  sample: /home/me/.local/share/dgx-spark-speculative
has_directory:
  description: Whether the directory of what both share is there, and closed to others.
  returned: success
  type: bool
client_key:
  description: The public key with which this host connects to the other one. Null where there is none.
  returned: success
  type: str
  sample: ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIE0
key:
  description:
    - The public half of O(key), if both files of the key pair are whole and belong together, and nobody else can read
      the private one. Null where there is none or it has to be made anew.
  returned: success
  type: str
  sample: ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIE0
authorized:
  description: Whose key this host's container accepts. Null where there is none.
  returned: success
  type: dict
  sample:
    from: [192.168.100.10, 192.168.101.10]
    key: ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIE0
spooled_bytes:
  description: How much of an image has come from the other host and is not in Docker yet.
  returned: success
  type: int
  sample: 0
"""

import contextlib
import os
import platform
import shutil
import socket
import time
import typing as t
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.dgx_spark.speculative.plugins.module_utils._docker.access import (
    Engine,
    EngineError,
    Machine,
    brief_container,
    brief_slot,
    mount_point,
    nearest_existing,
)
from ansible_collections.dgx_spark.speculative.plugins.module_utils._docker.holders import port_use
from ansible_collections.dgx_spark.speculative.plugins.module_utils._docker.image_store import store_of
from ansible_collections.dgx_spark.speculative.plugins.module_utils._report.comparison import (
    KEY,
    LABEL,
    authorized,
    image_facts,
    pair_image,
    whole_key,
)
from ansible_collections.dgx_spark.speculative.plugins.module_utils._spark.machine import (
    QUERY,
    GpuError,
    ask_gpu,
    parse_gpus,
    parse_meminfo,
)
from ansible_collections.dgx_spark.speculative.plugins.module_utils._spark.watched_job import Job

# An ordinary user's PATH need not lead to it.
SSHD_PLACES = ("/usr/sbin", "/usr/local/sbin", "/sbin", "/usr/bin")
# What Docker, libvirt and others make.
VIRTUAL = ("docker", "br-", "veth", "virbr", "lo", "tun", "tap", "wg", "tailscale")


def mac_addresses(devices: Path) -> list[str]:
    """The addresses of the network cards below a directory such as /sys/class/net."""
    found = []
    for device in sorted(devices.glob("*")):
        with contextlib.suppress(OSError):
            address = (device / "address").read_text(encoding="ascii").strip()
            if not device.name.startswith(VIRTUAL) and address.strip("0:"):
                found.append(address)
    return found


def place(path: Path) -> dict[str, t.Any]:
    """The file system on which something is or will be."""
    there = nearest_existing(path)
    mount = mount_point(there)
    try:
        status = os.statvfs(there)
    except OSError:
        return {"path": str(path), "filesystem": str(mount), "free": None}
    return {"path": str(path), "filesystem": str(mount), "free": status.f_bavail * status.f_frsize}


def read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


class PairInfo:
    """One look at one of the two."""

    def __init__(self, module: AnsibleModule, machine: Machine) -> None:
        self.module = module
        self.params: dict[str, t.Any] = module.params
        self.machine = machine
        self.state = Path(self.params["state_directory"])
        self.pair = self.state / "pair"
        self.engine = Engine(self.params["socket"])

    def look(self) -> dict[str, t.Any]:
        # First, since what follows takes its time.
        clock = None if self.params["sent"] is None else round(time.time() - self.params["sent"], 3)
        containers, found = self.docker()
        key = KEY.match(read(self.pair / "id_ed25519.pub"))
        return {
            "changed": False,
            "hostname": socket.gethostname(),
            "mac_addresses": mac_addresses(self.machine.root / "sys/class/net"),
            "architecture": platform.machine(),
            "memory_total": parse_meminfo(read(self.machine.root / "proc/meminfo"))["MemTotal"],
            "drivers": self.drivers(),
            "clock_offset": clock,
            "sshd": shutil.which("sshd", path=":".join(SSHD_PLACES)),
            **found,
            "pair_image": pair_image(self.params["image"]),
            "ports": [self.port(containers, found["slot"], port) for port in self.params["ports"]],
            "state": place(self.state),
            "state_directory": str(self.state),
            "has_directory": self.has_directory(),
            "client_key": key[0] if key else None,
            "key": self.key(),
            "authorized": authorized(read(self.pair / "authorized_keys")),
            "spooled_bytes": self.spooled(),
        }

    def drivers(self) -> list[str]:
        try:
            return [gpu.driver for gpu in parse_gpus(ask_gpu(QUERY))]
        except GpuError:
            return []

    def docker(self) -> tuple[list[dict[str, t.Any]], dict[str, t.Any]]:
        """What the Engine knows. That it cannot be asked is for others to explain."""
        containers: list[dict[str, t.Any]] = []
        slot: dict[str, t.Any] | None = None
        images: dict[str, dict[str, t.Any] | None] = {"base": None, "pair": None}
        info: dict[str, t.Any] = {}
        state, detail = "usable", ""
        try:
            info = self.engine.get("/info")
            listed = self.engine.get("/containers/json") if self.params["ports"] else []
            containers = [brief_container(one, self.engine.container(one["Id"])) for one in listed]
            slot = self.engine.container(self.params["container"])
            names = {"base": self.params["image"], "pair": pair_image(self.params["image"])}
            images = {key: image_facts(self.engine.image(name)) for key, name in names.items()}
        except (EngineError, OSError) as e:
            state, detail = "unusable", f"{self.params['socket']}: {getattr(e, 'strerror', None) or e}"
        store = store_of(info, self.machine.root)
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

    def port(
        self, containers: list[dict[str, t.Any]], slot: dict[str, t.Any] | None, asked: dict[str, t.Any]
    ) -> dict[str, t.Any]:
        use = port_use(self.machine, containers, asked["address"], asked["port"])
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
        """Whether it is our own worker that listens."""
        if slot is None or f"{LABEL}deployment" not in slot["labels"]:
            return False
        # Where only root can tell who listens, it is the one that was made to.
        suspected = slot["name"] in use["suspects"] and slot["labels"].get(f"{LABEL}rank") == "1"
        return bool(use["container"] == slot["name"] or suspected)

    def is_copying(self) -> bool:
        """Whether an earlier run's copy goes on."""
        state, running = Job(self.state / "jobs", "copies").settled()
        return running and state is not None

    def key(self) -> str | None:
        """The key pair that this one of the two needs, if it can be used as it is."""
        path = Path(self.params["key"] or "/nonexistent")
        try:
            status, directory = path.stat(), path.parent.stat()
        except OSError:
            return None
        if status.st_mode & 0o7777 != 0o600 or status.st_uid != directory.st_uid:
            return None
        return whole_key(read(path), read(path.with_name(f"{path.name}.pub")))

    def has_directory(self) -> bool:
        try:
            return self.pair.is_dir() and self.pair.stat().st_mode & 0o777 == 0o700
        except OSError:
            return False

    def spooled(self) -> int:
        files = (self.pair / "spool").glob("*/*")
        total = 0
        for file in files:
            with contextlib.suppress(OSError):
                total += file.stat().st_size
        return total


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "state_directory": {"type": "path", "required": True},
            "container": {"type": "str", "required": True},
            "image": {"type": "str", "required": True},
            "ports": {
                "type": "list",
                "elements": "dict",
                "default": [],
                "options": {
                    "address": {"type": "str", "required": True},
                    "port": {"type": "int", "required": True},
                    "input": {"type": "str", "required": True},
                    "use": {"type": "str", "choices": ["container", "copies"], "required": True},
                },
            },
            "key": {"type": "path"},
            "sent": {"type": "float"},
            "socket": {"type": "path", "default": "/var/run/docker.sock"},
        },
        supports_check_mode=True,
    )
    try:
        module.exit_json(**PairInfo(module, Machine()).look())
    except ValueError as e:
        module.fail_json(msg=f"Looking at the ports failed, since one has no IP address: {e}.")


if __name__ == "__main__":
    main()

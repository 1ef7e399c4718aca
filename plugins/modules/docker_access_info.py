#!/usr/bin/python
# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: docker_access_info
short_description: Tell in one call what Docker is to the connecting process
version_added: 0.1.0
description:
  - Tells whether the process that Ansible starts on the host can use Docker, and if not, why.
  - Tells what runs there, and what is known of one container, one image and one TCP port.
  - Needs neither Docker's command nor a Python package on the host.
extends_documentation_fragment:
  - dgx_spark.speculative._attributes
  - dgx_spark.speculative._attributes.info_module
options:
  container:
    description:
      - The name of a container to describe, running or not.
    type: str
  image:
    description:
      - The reference or the ID of an image to describe.
    type: str
  port:
    description:
      - A TCP port to look at.
    type: int
  address:
    description:
      - The address on which O(port) is to be used.
    type: str
    default: 127.0.0.1
  socket:
    description:
      - The socket of the Engine.
    type: path
    default: /var/run/docker.sock
author:
  - dgx_spark.speculative contributors (!UNKNOWN)
seealso:
  - plugin: dgx_spark.speculative.sg
    plugin_type: become
"""

EXAMPLES = r"""
---
- name: Look at Docker
  dgx_spark.speculative.docker_access_info:
    container: dgx-spark-speculative
    image: nvcr.io/nvidia/tensorrt-llm/release:1.3.0rc12
    port: 8000
  register: docker

- name: Refuse another Docker
  ansible.builtin.fail:
    msg: "{{ docker.detail }}"
  when: docker.state == "unsupported"
"""

RETURN = r"""
state:
  description:
    - V(usable) when the Engine answers this process.
    - V(denied) when the socket is there and this process may not open it.
    - V(not_running) when Docker is installed and does not answer.
    - V(not_installed) when there is no Docker.
    - V(unsupported) when RV(engine) is something else than a Docker Engine that root runs.
  returned: success
  type: str
  sample: usable
detail:
  description: The same in one sentence. Empty when RV(state=usable).
  returned: success
  type: str
  sample: The user spark may not open /var/run/docker.sock.
engine:
  description: V(docker), V(podman), V(rootless), V(snap) or V(unknown).
  returned: success
  type: str
  sample: docker
server_version:
  description: The version of the Engine.
  returned: success
  type: str
  sample: 28.3.3
data_root:
  description: The directory where the Engine keeps its data.
  returned: success
  type: str
  sample: /var/lib/docker
data_root_free_bytes:
  description:
    - What is free for images.
    - With containerd's image store it is the lesser of that one's directory and RV(data_root).
  returned: success
  type: int
  sample: 1500000000000
gpu:
  description: Whether the Engine knows the option that gives GPUs to a container.
  returned: success
  type: bool
gpu_by:
  description: What says so, V(hook), V(runtime) or V(cdi). Null without RV(gpu).
  returned: success
  type: str
  sample: hook
user:
  description: The user of this process.
  returned: success
  type: str
  sample: spark
group_exists:
  description: Whether there is a group C(docker).
  returned: success
  type: bool
user_in_group:
  description: Whether the user is in the group C(docker) according to the group database, so at the next login.
  returned: success
  type: bool
process_in_group:
  description: Whether this process is in the group C(docker).
  returned: success
  type: bool
python_requests:
  description: Whether this process's interpreter can import C(requests), which the modules of community.docker need.
  returned: success
  type: bool
docker_host:
  description: The Engine that the docker command of this user is directed to, null when it is the usual one.
  returned: success
  type: str
containers:
  description: The running containers.
  returned: success
  type: list
  elements: dict
  sample:
    - name: dgx-spark-speculative
      id: 3f4e5d6c7b8a
      image: nvcr.io/nvidia/tensorrt-llm/release:1.3.0rc12
      state: running
      status: Up 3 hours (healthy)
      ports:
        - address: 127.0.0.1
          port: 8080
          container_port: 80
          protocol: tcp
      network_mode: host
      started_at: "2026-10-04T09:12:44.123456789Z"
      labels: {}
slot:
  description: The container called O(container). Null when there is none.
  returned: success
  type: dict
  sample:
    name: dgx-spark-speculative
    id: 3f4e5d6c7b8a
    image: nvcr.io/nvidia/tensorrt-llm/release:1.3.0rc12
    image_id: sha256:0123abcd
    labels: {}
    state: running
    health: healthy
    exit_code: 0
    oom_killed: false
    started_at: "2026-10-04T09:12:44.123456789Z"
    finished_at: "0001-01-01T00:00:00Z"
    restart_count: 0
    restart_policy: unless-stopped
image:
  description: The O(image) on this host. Null when it is not there.
  returned: success
  type: dict
  sample:
    id: sha256:0123abcd
    repo_tags:
      - nvcr.io/nvidia/tensorrt-llm/release:1.3.0rc12
    repo_digests:
      - nvcr.io/nvidia/tensorrt-llm/release@sha256:4567ef
    size: 35000000000
    architecture: arm64
    labels: {}
    env:
      - PATH=/usr/bin
port:
  description: Who listens on O(port). Null without O(port).
  returned: success
  type: dict
  contains:
    in_use:
      description: Whether a socket could not listen there now.
      type: bool
    container:
      description: The container that listens or has published the port.
      type: str
    process:
      description: The name and number of the process that listens. Null where only root may know.
      type: str
    user:
      description: The user of the process that listens.
      type: str
    holder:
      description: Who listens, in words for a message. Null when nobody does.
      type: str
    suspects:
      description: The containers in the host's network, one of which may listen, when it cannot be known who does.
      type: list
      elements: str
  sample:
    in_use: true
    address: 127.0.0.1
    port: 8000
    container: trtllm
    process: python3 (4711)
    user: root
    holder: container 'trtllm' (process python3 (4711) of user root)
    suspects: []
"""

import grp
import ipaddress
import os
import pwd
import typing as t
from pathlib import Path

from ansible.module_utils.basic import (
    AnsibleModule,
)
from ansible_collections.dgx_spark.speculative.plugins.module_utils._docker_access import (
    Engine,
    EngineError,
    Machine,
    answering_engine,
    brief_container,
    brief_image,
    brief_slot,
    free_bytes,
    gpu_support,
    port_use,
    silent_engine,
    user_name,
)

GROUP = "docker"
UNSUPPORTED = {
    "podman": "Podman answers in Docker's place; this needs Docker Engine itself.",
    "rootless": "Docker runs rootless for this user; this needs the Docker Engine that root runs.",
    "snap": "Docker comes from a snap, which cannot hand out the GPU; install it from the distribution or from Docker.",
}


def can_import_requests() -> bool:
    try:
        import requests  # noqa: F401  (only whether it can be imported matters)
    except Exception:
        # A broken installation can raise anything.
        return False
    return True


def group_facts(uid: int) -> dict[str, bool]:
    """Whether the user and whether this process is in Docker's group; the two differ until the next login."""
    try:
        gid = grp.getgrnam(GROUP).gr_gid
    except KeyError:
        return {"group_exists": False, "user_in_group": False, "process_in_group": False}
    try:
        user = pwd.getpwuid(uid)
        user_in_group = gid in os.getgrouplist(user.pw_name, user.pw_gid)
    except KeyError:
        user_in_group = False
    process_in_group = gid in {*os.getgroups(), os.getegid()}
    return {"group_exists": True, "user_in_group": user_in_group, "process_in_group": process_in_group}


class DockerAccessInfo:
    """One look at Docker."""

    def __init__(self, params: dict[str, t.Any], machine: Machine) -> None:
        self._container: str | None = params["container"]
        self._image: str | None = params["image"]
        self._port: int | None = params["port"]
        self._address: str = params["address"]
        self._socket: str = params["socket"]
        self._machine = machine
        self._engine = Engine(self._socket)

    def act(self) -> dict[str, t.Any]:
        result: dict[str, t.Any] = {
            "changed": False,
            "user": user_name(self._machine.uid),
            **group_facts(self._machine.uid),
            "python_requests": can_import_requests(),
            "docker_host": self._machine.chosen_host() or None,
            **self._access(),
        }
        containers = result["containers"]
        result["port"] = (
            port_use(self._machine, containers, self._address, self._port) if self._port is not None else None
        )
        return result

    def _access(self) -> dict[str, t.Any]:
        info: dict[str, t.Any] = {}
        found: dict[str, t.Any] = {"containers": [], "slot": None, "image": None}
        try:
            info = self._engine.get("/info")
            engine = answering_engine(self._engine.get("/version"), info)
            found = self._inspect()
            state, detail = "usable", ""
        except PermissionError:
            engine = silent_engine(self._machine, Path(self._socket))
            # The system's own socket is there, so a rootless Engine beside it is not the one that is asked.
            engine = "docker" if engine == "rootless" else engine
            state, detail = "denied", f"The user {user_name(self._machine.uid)} may not open {self._socket}."
        except OSError as e:
            engine = silent_engine(self._machine, Path(self._socket))
            state = "not_installed" if engine == "unknown" else "not_running"
            detail = "Docker is not installed."
            if state == "not_running":
                detail = f"Docker is installed and does not answer on {self._socket} ({e.strerror or e})."
        if engine in UNSUPPORTED:
            state, detail = "unsupported", UNSUPPORTED[engine]
        gpu_by = gpu_support(self._machine, info)
        return {
            "state": state,
            "detail": detail,
            "engine": engine,
            "server_version": info.get("ServerVersion"),
            "data_root": info.get("DockerRootDir"),
            "data_root_free_bytes": free_bytes(info),
            "gpu": gpu_by is not None,
            "gpu_by": gpu_by,
            **found,
        }

    def _inspect(self) -> dict[str, t.Any]:
        listed = self._engine.get("/containers/json")
        slot = self._engine.container(self._container) if self._container else None
        image = self._engine.image(self._image) if self._image else None
        return {
            "containers": [brief_container(one, self._engine.container(one["Id"])) for one in listed],
            "slot": brief_slot(slot) if slot else None,
            "image": brief_image(image) if image else None,
        }


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "container": {"type": "str"},
            "image": {"type": "str"},
            "port": {"type": "int"},
            "address": {"type": "str", "default": "127.0.0.1"},
            "socket": {"type": "path", "default": "/var/run/docker.sock"},
        },
        supports_check_mode=True,
    )
    try:
        ipaddress.ip_address(module.params["address"])
    except ValueError:
        module.fail_json(msg=f"Looking at a port needs an IP address, which {module.params['address']!r} is not.")
    try:
        module.exit_json(**DockerAccessInfo(module.params, Machine()).act())
    except EngineError as e:
        module.fail_json(msg=str(e))


if __name__ == "__main__":
    main()

#!/usr/bin/python
# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: spark_info
short_description: Gather facts of a DGX Spark, its user, Docker, network and records (internal)
version_added: 0.1.0
description:
  - This module is internal to the collection. Its interface may change at any time.
  - Gathers the named subsets in one connection. It changes nothing and needs no root.
  - A subset that cannot be gathered is empty. If it is the only one, the task fails.
options:
  gather:
    type: list
    elements: str
    choices: [login, machine, docker, fabric, cluster, records]
    default: [machine]
    description: "The subsets to gather."
  state_directory:
    {type: path, default: ~/.local/share/dgx-spark-speculative, description: "The directory of the deployments."}
  deployment: {type: str, description: "The deployment whose record V(records) returns."}
  any_format:
    type: bool
    default: false
    description: "Whether V(records) returns records and containers of another format."
  docker:
    type: dict
    description: "The objects that V(docker) inspects besides the Engine."
    suboptions:
      container: {type: str, description: "The name of the serving container."}
      image: {type: str, description: "The reference or ID of an image. It is missing if a power cut ended its pull."}
      images: {type: list, elements: str, default: [], description: "References of images whose presence is returned."}
      port: {type: int, description: "A TCP port."}
      address: {type: str, default: 127.0.0.1, description: "The IP address of O(docker.port)."}
      published_ports: {type: list, elements: str, default: [], description: "C(ADDRESS:PORT:CONTAINER_PORT) each."}
      usage: {type: bool, default: false, description: "Whether to return the users of memory, ports and the GPU."}
      mounts: {type: bool, default: false, description: "Whether to return the mounts of this collection's containers."}
      caches:
        type: bool
        default: false
        description: "Whether to return the volumes of downloaded code and compiled kernels."
      used_images:
        type: list
        elements: str
        description: "IDs of images. O(docker.caches) then leaves out their volumes and those that a container has."
      compare_path: {type: path, description: "A path whose file system is compared with that of Docker's images."}
      socket: {type: path, default: /var/run/docker.sock, description: "The socket of the Engine."}
  cluster:
    type: dict
    description: "The objects that V(cluster) inspects."
    suboptions:
      container: {type: str, required: true, description: "The name of the serving container."}
      image: {type: str, required: true, description: "The image from which the cluster image is made."}
      ports:
        type: list
        elements: dict
        default: []
        description: "Ports to inspect."
        suboptions:
          address: {type: str, required: true, description: "The IP address, which the host may not have yet."}
          port: {type: int, required: true, description: "The TCP port."}
          input: {type: str, required: true, description: "The input that sets the port, for messages."}
          use: {type: str, choices: [container, copies], required: true, description: "The program that listens there."}
      key: {type: path, description: "The private SSH key."}
      sent: {type: float, description: "The time of the controller in seconds since 1970, to compare the clocks."}
      proof:
        type: dict
        description: "The link to check, as in M(dgx_spark.speculative.fabric_check)."
        suboptions:
          rails: {type: list, elements: dict, required: true, description: "The rails. If empty, nothing is checked."}
          peer: {type: str, default: the other Spark, description: "The name of the peer in messages."}
          host: {type: str, default: "", description: "The name of this Spark in messages."}
          port: {type: int, default: 2233, description: "The TCP port of the peer to connect to, or V(0) for none."}
          timeout: {type: int, default: 15, description: "Seconds for the whole check."}
      socket: {type: path, default: /var/run/docker.sock, description: "The socket of the Engine."}
  machine_before: {type: dict, description: "An earlier result of V(machine), to say what became free."}
author:
  - dgx_spark.speculative contributors (!UNKNOWN)
"""

EXAMPLES = r"""
"""

RETURN = r"""
"""

import os
import pwd
import sys
import typing as t
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._deployment.records import FormatError, load_records, require_format, used_records
from ..module_utils._docker.access import Machine
from ..module_utils._docker.docker_facts import ARGUMENTS, DockerInspector
from ..module_utils._docker.engine import EngineError
from ..module_utils._fabric.arguments import PROOF
from ..module_utils._spark import machine

PORT = {
    "address": {"type": "str", "required": True},
    "port": {"type": "int", "required": True},
    "input": {"type": "str", "required": True},
    "use": {"type": "str", "choices": ["container", "copies"], "required": True},
}
CLUSTER = {
    "container": {"type": "str", "required": True},
    "image": {"type": "str", "required": True},
    "ports": {"type": "list", "elements": "dict", "default": [], "options": PORT},
    "key": {"type": "path", "no_log": False},
    "sent": {"type": "float"},
    "proof": {"type": "dict", "options": PROOF},
    "socket": {"type": "path", "default": "/var/run/docker.sock"},
}


def login() -> dict[str, t.Any]:
    """Return the login user, with the keys of ansible.builtin.setup."""
    user = pwd.getpwuid(os.getuid())
    return {
        "user_id": user.pw_name,
        "user_uid": user.pw_uid,
        "user_gid": user.pw_gid,
        "user_dir": user.pw_dir,
        "python": {"executable": sys.executable},
    }


def look(
    subset: str, params: t.Mapping[str, t.Any], docker: DockerInspector, found: t.Mapping[str, t.Any]
) -> t.Mapping[str, t.Any]:
    """Gather a subset, after those that were found.

    What only one needs is imported for it: nothing keeps what Python compiles for the next call.
    """
    state = Path(params["state_directory"])
    if subset == "machine":
        return machine.look()
    if subset == "docker":
        return docker.act()
    if subset == "fabric":
        from ..module_utils._fabric.ports import Look

        return Look(state_directory=state).look()
    if subset == "records":
        slot = found.get("docker", {}).get("slot") or {"labels": {}, "rdma_filter": ""}
        labels = slot["labels"]
        if not params["any_format"]:
            require_format(labels, *used_records(state, params["deployment"], labels))
        return load_records(state, params["deployment"], labels, slot["rdma_filter"])
    from ..module_utils._cluster.cluster_facts import ClusterInspector

    return ClusterInspector(state, params["cluster"], Machine()).look()


def unseen(docker: t.Mapping[str, t.Any]) -> str:
    """Return the reason why the serving container is unknown. Empty if it is known, or without a usable Docker."""
    if docker.get("state") != "denied":
        return ""
    from ..module_utils._problems.catalogue import cause_of

    fix = cause_of(docker["detail"], ("docker_denied",)).fix
    return f"Cannot inspect the serving container: {docker['detail']} {fix}"


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "gather": {
                "type": "list",
                "elements": "str",
                "choices": ["login", "machine", "docker", "fabric", "cluster", "records"],
                "default": ["machine"],
            },
            "state_directory": {"type": "path", "default": "~/.local/share/dgx-spark-speculative"},
            "deployment": {"type": "str"},
            "any_format": {"type": "bool", "default": False},
            "docker": {"type": "dict", "options": ARGUMENTS, "apply_defaults": True},
            "cluster": {"type": "dict", "options": CLUSTER},
            # For the action, which reports the difference.
            "machine_before": {"type": "dict"},
        },
        supports_check_mode=True,
    )
    subsets = set(module.params["gather"])
    if "cluster" in subsets and module.params["cluster"] is None:
        module.fail_json(msg="gather has cluster, but the option cluster is missing. Set it, too.")
    try:
        docker = DockerInspector(module.params["docker"], Machine(), Path(module.params["state_directory"], "jobs"))
    except ValueError as error:
        module.fail_json(msg=str(error))
    result: dict[str, t.Any] = {"ansible_facts": login()} if "login" in subsets else {}
    for subset in sorted(subsets - {"login"}):
        try:
            result[subset] = look(subset, module.params, docker, result)
        except (EngineError, machine.LookError) as error:
            if len(subsets) == 1 or (subset == "docker" and "records" in subsets):
                module.fail_json(msg=str(error))
            result[subset] = {}
        except FormatError as error:
            module.fail_json(msg=str(error))
        # A dry run has not let the user in yet.
        if subset == "docker" and "records" in subsets and not module.check_mode and (why := unseen(result["docker"])):
            module.fail_json(msg=why)
    module.exit_json(changed=False, **result)


if __name__ == "__main__":
    main()

#!/usr/bin/python
# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: spark_facts
short_description: Gather who logs in to a Spark, and look at machine, Docker and cable at once
version_added: 0.1.0
description:
  - A playbook's first look at a host. Every look of its own costs a connection and a start of Python, so this one takes
    the place of M(ansible.builtin.setup), M(dgx_spark.speculative.spark_info),
    M(dgx_spark.speculative.docker_access_info) and M(dgx_spark.speculative.spark_fabric_info).
  - The facts are those of M(ansible.builtin.setup) that the roles of this collection need, under the same names. What
    may be another thing a minute later is returned and is not a fact, so that no fact cache keeps it.
extends_documentation_fragment:
  - dgx_spark.speculative._attributes
  - dgx_spark.speculative._attributes.info_module
options:
  docker:
    description:
      - Whether to look at Docker.
    type: bool
    default: false
  fabric:
    description:
      - Whether to look at the QSFP ports.
    type: bool
    default: false
  state_directory:
    description:
      - With O(fabric), where this collection keeps its deployments on the Spark, and what was measured of the cable.
    type: path
    default: ~/.local/share/dgx-spark-speculative
seealso:
  - module: dgx_spark.speculative.spark_info
  - module: dgx_spark.speculative.docker_access_info
  - module: dgx_spark.speculative.spark_fabric_info
author:
  - dgx_spark.speculative contributors (!UNKNOWN)
"""

EXAMPLES = r"""
---
- name: Look at the machine
  dgx_spark.speculative.spark_facts:
    docker: true
  register: result

- name: Make Docker usable
  ansible.builtin.include_role:
    name: dgx_spark.speculative.docker_permissions
  vars:
    docker_permissions_found: "{{ result.docker }}"
"""

RETURN = r"""
ansible_facts:
  description:
    - Who logs in.
  returned: success
  type: dict
  contains:
    user_id:
      description: The login user's name.
      type: str
      sample: me
    user_uid:
      description: The user's number.
      type: int
      sample: 1000
    user_gid:
      description: The number of the user's first group.
      type: int
      sample: 1000
    user_dir:
      description: The user's home directory.
      type: str
      sample: /home/me
    python:
      description: The interpreter that runs modules.
      type: dict
      sample: {executable: /usr/bin/python3}
machine:
  description:
    - What M(dgx_spark.speculative.spark_info) returns.
  returned: success
  type: dict
  sample: {is_spark: true, objections: [], connectx: 0, hotplug: {armed: true, powered: false, aside: []}}
docker:
  description:
    - What M(dgx_spark.speculative.docker_access_info) returns without options. Empty without O(docker), and
      where that module would fail, which then says why.
  returned: success
  type: dict
  sample: {state: usable, gpu: true}
fabric:
  description:
    - What M(dgx_spark.speculative.spark_fabric_info) returns. Empty without O(fabric), and where that module would
      fail, which then says why.
  returned: success
  type: dict
  sample: {renderer: NetworkManager, netplan: true}
"""

import os
import pwd
import sys
import typing as t
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.dgx_spark.speculative.plugins.module_utils._docker.access import EngineError, Machine
from ansible_collections.dgx_spark.speculative.plugins.module_utils._docker.look import DockerAccessInfo, defaults
from ansible_collections.dgx_spark.speculative.plugins.module_utils._fabric.ports import FabricError, Look
from ansible_collections.dgx_spark.speculative.plugins.module_utils._spark.machine import look


def login() -> dict[str, t.Any]:
    """Who logs in, as ansible.builtin.setup words it."""
    user = pwd.getpwuid(os.getuid())
    return {
        "user_id": user.pw_name,
        "user_uid": user.pw_uid,
        "user_gid": user.pw_gid,
        "user_dir": user.pw_dir,
        "python": {"executable": sys.executable},
    }


def docker() -> dict[str, t.Any]:
    try:
        return DockerAccessInfo(defaults(), Machine()).act()
    except EngineError:
        return {}


def fabric(state_directory: Path) -> dict[str, t.Any]:
    try:
        return Look(state_directory=state_directory).look()
    except FabricError:
        return {}


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "docker": {"type": "bool", "default": False},
            "fabric": {"type": "bool", "default": False},
            "state_directory": {"type": "path", "default": "~/.local/share/dgx-spark-speculative"},
        },
        supports_check_mode=True,
    )
    module.exit_json(
        changed=False,
        ansible_facts=login(),
        machine=look(),
        docker=docker() if module.params["docker"] else {},
        fabric=fabric(Path(module.params["state_directory"])) if module.params["fabric"] else {},
    )


if __name__ == "__main__":
    main()

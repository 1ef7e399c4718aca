# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: fenced
short_description: Run no module that changes a Spark for a run that has lost its lease
version_added: 0.1.0
description:
  - It is the shell C(sh). For a run that has taken the lease of a Spark by M(dgx_spark.speculative.lease), it puts a
    small program before each module that may change the Spark, whichever collection the module is of.
  - That program runs on the Spark. It asks the lock there whether this run still has the lease. If so, it becomes the
    module. Until that has ended, but for three minutes at most, no other run gets the lease. If not, the task fails and
    changes nothing.
  - So a controller that was asleep, or a network that was gone, cannot bring a change late.
  - Tasks in check mode, tasks that are delegated, modules that only look, and runs without a lease are not affected.
    Neither are tasks with C(async), and actions that send no module, such as M(ansible.builtin.raw).
extends_documentation_fragment:
  - shell_common
options:
  lease_host:
    description:
      - The host whose lease counts.
    type: str
    vars:
      - name: inventory_hostname
author:
  - dgx_spark.speculative contributors (!UNKNOWN)
notes:
  - The playbooks of this collection choose it in C(playbooks/group_vars/all.yml). A playbook of your own that takes the
    lease sets C(ansible_shell_type=dgx_spark.speculative.fenced) as a variable of its play.
"""

EXAMPLES = r"""
---
- name: Change a Spark that no other run changes
  hosts: sparks
  vars:
    ansible_shell_type: dgx_spark.speculative.fenced
  tasks:
    - name: Take the lease
      dgx_spark.speculative.lease:
        state: held
      any_errors_fatal: true

    - name: Restart the server
      community.docker.docker_container:
        name: dgx-spark-speculative
        state: started
        restart: true
"""

import typing as t

from ansible.plugins.shell.sh import ShellModule as Sh
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._lease.fence import guard
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._lease.harmless import HARMLESS


class ShellModule(Sh):
    """Put the guard before what changes a Spark."""

    _passes = True

    def set_options(self, task_keys: t.Any = None, var_options: t.Any = None, direct: t.Any = None) -> None:
        super().set_options(task_keys=task_keys, var_options=var_options, direct=direct)
        task = task_keys or {}
        self._passes = bool(task.get("action") in HARMLESS or task.get("check_mode") is True or task.get("delegate_to"))

    def build_module_command(self, env_string: str, shebang: str | None, cmd: str, arg_path: str | None = None) -> str:
        command = super().build_module_command("", shebang, cmd, arg_path)
        if not self._passes:
            command = f"{self.join(guard(self.get_option('lease_host')))} {command}".strip()
        return f"{env_string.strip()} {command}".strip()

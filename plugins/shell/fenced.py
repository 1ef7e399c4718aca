# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: fenced
short_description: Stop the changes of a run that lost its lease
version_added: 0.1.0
description:
  - Works like the shell C(sh). If a run has acquired the lease of a Spark by M(dgx_spark.speculative.lease), a
    small program precedes each module that may change the Spark. This holds for modules of all collections.
  - The program runs on the Spark and checks whether the run still holds the lease. If it does, the program becomes the
    module. No other run gets the lease until the module has ended, or for three minutes at most.
  - If the run does not hold the lease, the task fails and changes nothing.
  - This prevents late changes, for example after the controller was suspended or the network was interrupted.
  - Tasks in check mode, delegated tasks, modules that only read, and runs without a lease are not affected. Tasks with
    C(async), and actions that send no module, such as M(ansible.builtin.raw), are not affected either.
extends_documentation_fragment:
  - shell_common
options:
  lease_host:
    description:
      - Host whose lease is checked.
    type: str
    vars:
      - name: inventory_hostname
author:
  - dgx_spark.speculative contributors (!UNKNOWN)
notes:
  - The playbooks of this collection enable it in C(playbooks/group_vars/all.yml). A playbook of your own that takes the
    lease must set C(ansible_shell_type=dgx_spark.speculative.fenced) as a variable of its play.
"""

EXAMPLES = r"""
---
- name: Change a Spark that no other run changes
  hosts: sparks
  vars:
    ansible_shell_type: dgx_spark.speculative.fenced
  tasks:
    - name: Acquire the lease
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

from ..plugin_utils._lease.fence import guard
from ..plugin_utils._lease.harmless import HARMLESS


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

# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: sg
short_description: Run a task with a group that the user has just joined
version_added: 0.1.0
description:
  - Runs the task through C(sg), as the same user with one more group.
  - A user who was just added to a group is a member only after the next login. With this plugin, the group is effective
    at once, also over a local connection and over an SSH connection that is kept open.
  - The user must be in the group. Otherwise the task fails with the message of C(sg), C(Invalid password). No rights of
    another user are used, and no password is sent.
options:
  group:
    description:
      - Group with which the task runs.
    type: str
    default: docker
    vars:
      - name: ansible_sg_group
    env:
      - name: ANSIBLE_SG_GROUP
    ini:
      - section: sg_become_plugin
        key: group
  become_exe:
    description:
      - The C(sg) program.
    type: str
    default: sg
    vars:
      - name: ansible_sg_exe
    env:
      - name: ANSIBLE_SG_EXE
    ini:
      - section: sg_become_plugin
        key: executable
author:
  - dgx_spark.speculative contributors (!UNKNOWN)
notes:
  - O(ignore:become_user), C(become_flags) and a become password are ignored.
  - It runs C(/bin/sh) on the host, and works with pipelining.
"""

EXAMPLES = r"""
---
- name: Use Docker right after the user was added to its group
  community.docker.docker_host_info:
  become: true
  become_method: dgx_spark.speculative.sg
"""

import shlex
import typing as t

from ansible.plugins.become import BecomeBase


class BecomeModule(BecomeBase):
    """Same user, one group more."""

    name = "dgx_spark.speculative.sg"

    def get_option(self, option: str, hostvars: t.Any = None, playcontext: t.Any = None) -> t.Any:
        # Ansible asks every plugin for these; with a user, it would hand the task's files over to that user.
        if option in ("become_user", "become_pass", "become_flags"):
            return None
        return super().get_option(option, hostvars=hostvars, playcontext=playcontext)

    def build_become_command(self, cmd: str, shell: t.Any) -> str:
        super().build_become_command(cmd, shell)
        if not cmd:
            return cmd
        success = self._build_success_command(cmd, shell)
        words = [self.get_option("become_exe"), self.get_option("group"), "-c", success]
        return shlex.join(words)

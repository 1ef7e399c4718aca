# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import shlex
import typing as t

import pytest
from ansible.plugins.loader import shell_loader
from ansible_collections.dgx_spark.speculative.plugins.become import sg


class Become(sg.BecomeModule):
    """With given options: the loader that reads them elsewhere does not know the collections here."""

    def __init__(self, **options: t.Any) -> None:
        super().__init__()
        self._options = {"group": "docker", "become_exe": "sg", **options}


@pytest.mark.parametrize("group", ["docker", "a group"])
def test_the_command_runs_in_the_group(group: str) -> None:
    become = Become(group=group)
    shell = shell_loader.get("sh")
    shell.executable = "/bin/sh"
    command = become.build_become_command("/usr/bin/python3 -c 'print(\"a b\")'", shell)
    words = shlex.split(command)
    assert words[:3] == ["sg", group, "-c"]
    inner = shlex.split(words[3])
    assert inner[:2] == ["/bin/sh", "-c"]
    assert inner[2] == f"echo {become.success} ; /usr/bin/python3 -c 'print(\"a b\")'"
    assert become.build_become_command("", shell) == ""


def test_nobody_else_is_become() -> None:
    become = Become(become_user="root", become_pass="x")
    assert [become.get_option(name) for name in ("become_user", "become_pass", "become_flags")] == [None] * 3
    assert not become.expect_prompt()

# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Freezes the controller just before it sends a module, as a laptop whose lid is closed at that moment."""

from __future__ import annotations

import contextlib
import os
import pathlib
import signal
import typing as t

from ansible.plugins.action import ActionBase
from ansible.plugins.callback import CallbackBase

DOCUMENTATION = """
name: freeze_at
type: notification
short_description: Freezes the controller before it sends a module
description:
  - Just before the module of a task is sent that FREEZE_AT names, a name a line, all processes of the run are stopped.
  - If FREEZE_ON is the address of a host, only modules for that host count.
  - The file struck in the directory FROZEN says that it is so.
"""

SEND = ActionBase._low_level_execute_command


def family() -> list[int]:
    """All processes of the run but this one: they are forks and have its command line."""
    mine = pathlib.Path("/proc/self/cmdline").read_bytes()
    found = []
    for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            found += [int(path.parent.name)] if path.read_bytes() == mine else []
    return [pid for pid in found if pid != os.getpid()]


def freeze() -> None:
    place = pathlib.Path(os.environ["FROZEN"])
    for pid in family():
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGSTOP)
    (place / "struck").touch()
    os.kill(os.getpid(), signal.SIGSTOP)


def is_meant(action: t.Any) -> bool:
    task, host = action._task.get_name(include_role_fqcn=False).rpartition(" : ")[2], os.environ.get("FREEZE_ON")
    return task in os.environ["FREEZE_AT"].splitlines() and (not host or host == action._connection.get_option("host"))


def send(action: t.Any, *arguments: t.Any, **more: t.Any) -> t.Any:
    # A module is what is piped in; all else, such as a question to the lock, is sent at once.
    if more.get("in_data") and is_meant(action):
        freeze()
    return SEND(action, *arguments, **more)


class CallbackModule(CallbackBase):
    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "notification"
    CALLBACK_NAME = "freeze_at"
    CALLBACK_NEEDS_ENABLED = True

    def __init__(self, *arguments: t.Any, **options: t.Any) -> None:
        super().__init__(*arguments, **options)
        # Tasks are forks of this process, and have it, too.
        setattr(ActionBase, SEND.__name__, send)

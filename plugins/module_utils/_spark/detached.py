# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this module util is internal to the collection; its interface may change at any time.

"""Start a process that outlives the module.

The process is a fork of the Ansible module, whose archive is deleted when the module exits. So everything that it needs
must be imported before.
"""

from __future__ import annotations

import contextlib
import os
import select
import typing as t
from pathlib import Path

START_TIMEOUT_S = 20.0
OK = b"ok"


def start_detached(main: t.Callable[[int], None]) -> str:
    """Run main detached from this process, its terminal and its session.

    Main writes OK to the given file descriptor when it has started, or an error. Return the error, or an empty text.
    """
    ready, ready_in_child = os.pipe()
    child = os.fork()
    if child == 0:
        _detach(main, ready_in_child)
    os.close(ready_in_child)
    os.waitpid(child, 0)
    try:
        readable, _writable, _failed = select.select([ready], [], [], START_TIMEOUT_S)
        answer = os.read(ready, 4096) if readable else b"it did not answer"
    finally:
        os.close(ready)
    return "" if answer == OK else answer.decode(errors="replace") or "its process died"


def _detach(main: t.Callable[[int], None], ready: int) -> t.NoReturn:
    """In the forked child, start a new session and a grandchild, for which no shell and no ssh waits."""
    try:
        os.setsid()
        if os.fork() == 0:
            _run(main, ready)
    finally:
        # Never return into the module: only the parent may run its clean-up.
        os._exit(0)


def _run(main: t.Callable[[int], None], ready: int) -> None:
    try:
        os.chdir("/")
        null = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(null, descriptor)
        for descriptor in [int(entry.name) for entry in Path("/proc/self/fd").iterdir()]:
            if descriptor > 2 and descriptor != ready:
                with contextlib.suppress(OSError):
                    os.close(descriptor)
        main(ready)
    except Exception as e:
        with contextlib.suppress(OSError):
            os.write(ready, str(e).encode()[:4000] or b"error")

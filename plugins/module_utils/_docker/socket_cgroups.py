# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this module util is internal to the collection; its interface may change at any time.

"""Find the control groups of listening TCP sockets.

The kernel shows the control group to all users, but the process of a socket only to root.
"""

from __future__ import annotations

import contextlib
import re
import subprocess
from pathlib import Path

COMMAND = ("ss", "-H", "-O", "-t", "-l", "-n", "-e", "--cgroup")
CGROUPS = Path("/sys/fs/cgroup")
# Instead of the path of a group that ss cannot find, such as a removed one, it prints its id.
_ROW = re.compile(r" ino:(\d+) sk:.*? cgroup:(?:(/\S*)|unreachable:([0-9a-f]+))")


def parse_cgroups(text: str, root: Path = CGROUPS) -> dict[int, int]:
    """Return the control group ids of the sockets by inode. The id of a group is the inode of its directory."""
    result: dict[int, int] = {}
    for inode, path, number in _ROW.findall(text):
        with contextlib.suppress(OSError):
            result[int(inode)] = int(number, 16) if number else (root / path.lstrip("/")).stat().st_ino
    return result


def listening_cgroups() -> dict[int, int]:
    """Return the control group ids of the listening TCP sockets by inode; empty if ss cannot tell."""
    try:
        done = subprocess.run(COMMAND, stdin=subprocess.DEVNULL, capture_output=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return {}
    return parse_cgroups(done.stdout.decode("utf-8", "replace"))

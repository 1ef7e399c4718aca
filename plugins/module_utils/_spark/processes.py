# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this module util is internal to the collection; its interface may change at any time.
"""Read from /proc which processes run, and what started them."""

from __future__ import annotations

import typing as t
from pathlib import Path

from .._data.files import read_text, read_value


class ProcessStat(t.NamedTuple):
    """A process: state letter, process group, session, start in ticks since boot, and parent."""

    state: str
    group: int
    session: int
    start: int
    parent: int

    @property
    def runs(self) -> bool:
        """Return whether it has not ended."""
        return self.state not in "ZX"


def boot_id() -> str:
    """Return the kernel's id of this boot; empty if there is none."""
    return read_value(Path("/proc/sys/kernel/random/boot_id")) or ""


def process_stat(pid: int) -> ProcessStat | None:
    """Return the facts of a process; None without such a process or without /proc."""
    text = read_text(Path(f"/proc/{pid}/stat"))
    if not text:
        return None
    # The command's name is in parentheses and may contain spaces and parentheses.
    state, parent, group, session, *fields = text.rpartition(")")[2].split()
    return ProcessStat(state, int(group), int(session), int(fields[15]), int(parent))


def running_processes() -> dict[int, ProcessStat]:
    """Return all processes that have not ended, by their PIDs."""
    stats = {int(entry.name): process_stat(int(entry.name)) for entry in Path("/proc").glob("[0-9]*")}
    return {pid: stat for pid, stat in stats.items() if stat is not None and stat.runs}


def children(pid: int) -> set[int]:
    """Return the children of a process."""
    return {child for child, stat in running_processes().items() if stat.parent == pid}


def descendants(pid: int) -> set[int]:
    """Return all descendants of a process."""
    running, result, new = running_processes(), set[int](), {pid}
    while new:
        new = {child for child, stat in running.items() if stat.parent in new} - result
        result |= new
    return result

# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The processes of a container: whom the first one has started, how they are ended, and collected when dead."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
import typing as t
from pathlib import Path

from server.state import read_or

# The kernel may need some time to take back the memory of a killed process.
KILL_WITHIN_S = 20
# In /proc/PID/stat after the name: utime, stime, cutime and cstime.
WORKED = slice(11, 15)
# The state of a socket in /proc/net/tcp.
LISTENS = "0A"


class Process(t.NamedTuple):
    """Facts of a process from the kernel; the state is R, S, D, Z (ended, not yet collected), ...

    The ticks are processor time of the process and of its collected children.
    """

    name: str
    state: str
    parent: int
    worked: int = 0


def processes() -> dict[int, Process]:
    """Every process in sight."""
    result = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            # It may have ended since.
            with contextlib.suppress(OSError):
                text = (entry / "stat").read_text(encoding="utf-8", errors="replace")
                head, _mark, tail = text.rpartition(")")
                fields = tail.split()
                worked = sum(map(int, fields[WORKED]))
                result[int(entry.name)] = Process(head.partition("(")[2], fields[0], int(fields[1]), worked)
    return result


def descendants(of: int, known: t.Mapping[int, Process] | None = None) -> dict[int, Process]:
    """Children, their children and so on, that have not ended, in whatever session they are."""
    known = processes() if known is None else known
    family = {of}
    size = 0
    while size != len(family):
        size = len(family)
        family |= {pid for pid, process in known.items() if process.parent in family}
    return {pid: known[pid] for pid in family - {of} if pid in known and known[pid].state not in "ZX"}


def has_listener(port: int) -> bool:
    """Return whether a process of this container listens on a port, and not another program of the Spark.

    True, too, where the kernel does not show who listens, or what its processes have open.
    """
    sockets = {
        f"socket:[{fields[9]}]"
        for table in ("tcp", "tcp6")
        for fields in map(str.split, read_or(Path("/proc/net") / table, "").splitlines()[1:])
        if len(fields) > 9 and fields[3] == LISTENS and int(fields[1].rpartition(":")[2], 16) == port
    }
    try:
        return not sockets or any(sockets & open_files(pid) for pid in processes())
    except PermissionError:
        return True


def open_files(pid: int) -> set[str]:
    """Return the files that a process has open; none if it has ended."""
    result = set()
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        for entry in Path(f"/proc/{pid}/fd").iterdir():
            # It may have been closed since.
            with contextlib.suppress(FileNotFoundError):
                result.add(str(entry.readlink()))
    return result


def seconds_worked(top: int) -> float:
    """Return the processor time of a process and all its descendants."""
    known = processes()
    family = [*descendants(top, known).values(), *([known[top]] if top in known else [])]
    return sum(process.worked for process in family) / os.sysconf("SC_CLK_TCK")


def end_descendants(but: int = 0) -> set[int]:
    """Kill all that this process has started, and wait until it is gone; returns what could not be ended.

    One look is not enough: an orphan comes to this process only when its parent has died. `but` is collected by
    the object that started it.
    """
    until = time.monotonic() + KILL_WITHIN_S
    while True:
        left = set(descendants(os.getpid()))
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        collect_dead(but)
        if not left or time.monotonic() > until:
            return left
        time.sleep(0.05)


def collect_dead(but: int = 0) -> None:
    """Reap what has ended; a server's own end is left to the object that started it."""
    me = os.getpid()
    for pid, process in processes().items():
        if process.parent == me and process.state == "Z" and pid != but:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)


def signal_group(server: subprocess.Popen[bytes], number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(server.pid, number)


def signal_engine(server: subprocess.Popen[bytes], number: int) -> None:
    """Send a signal to a server's group; the last signal also goes to its processes in other sessions."""
    others = descendants(server.pid) if number == signal.SIGKILL else {}
    signal_group(server, number)
    for pid in others:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def describe_tree(top: int) -> str:
    """Describe the processes of a server, one per line."""
    known = processes()
    lines = []
    for pid, process in sorted({**descendants(top, known), top: known.get(top, Process("?", "?", 0))}.items()):
        waits = read_or(Path(f"/proc/{pid}/wchan"), "?") or "?"
        command = read_or(Path(f"/proc/{pid}/cmdline"), "").replace("\0", " ").strip() or f"[{process.name}]"
        lines.append(f"{pid} {process.parent} {process.state} {waits} {command[:200]}")
    return "\n".join(lines)


def describe_exit(code: int) -> str:
    return f"signal {-code}" if code < 0 else f"exit code {code}"

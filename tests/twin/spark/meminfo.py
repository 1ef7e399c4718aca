# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Keep the file that is this twin's /proc/meminfo up to date: GPU and system share one memory, as on a real Spark.

Run as: meminfo.py [once]
"""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import re
import sys
import time
import typing as t

FACTS = pathlib.Path("/run/dgx-spark-twin")
# Who holds GPU memory says so among the arguments of a process, as the twin's nvidia-smi reads it.
MARK = re.compile(rb"(?:^|\0)STANDIN_GPU_BYTES=([0-9]+)(?=\0|$)")
SECONDS = 0.2


def held_bytes(processes: pathlib.Path = pathlib.Path("/proc")) -> int:
    """The GPU memory that all processes hold together."""
    total = 0
    for process in processes.iterdir():
        if process.name.isdecimal():
            # It may end while it is looked at.
            with contextlib.suppress(OSError):
                found = MARK.search((process / "cmdline").read_bytes())
                total += int(found[1]) if found else 0
    return total


def text(gpu: t.Mapping[str, t.Any], held: int) -> str:
    """The content of /proc/meminfo, as wide as ever: every figure has its place."""
    total = int(gpu["memory_bytes"])
    available = max(0, total - int(gpu.get("system_bytes", 0)) - held)
    # Some of what is available is the page cache, which gives way.
    cached = min(available // 4, 6_000_000_000)
    figures = {
        "MemTotal": total,
        "MemFree": available - cached,
        "MemAvailable": available,
        "Buffers": 0,
        "Cached": cached,
        "SwapCached": 0,
        "Active": cached // 2,
        "Inactive": cached // 2,
        "SwapTotal": 17_179_869_184,
        "SwapFree": 17_179_869_184,
        "Shmem": 0,
        "Slab": 0,
        "SReclaimable": 0,
        "SUnreclaim": 0,
    }
    return "".join(f"{name + ':':15} {figure // 1024:12d} kB\n" for name, figure in figures.items())


def update(facts: pathlib.Path = FACTS, processes: pathlib.Path = pathlib.Path("/proc")) -> None:
    """Write the figures in one go and in place: the file itself is what /proc/meminfo is mounted from."""
    content = text(json.loads((facts / "gpu.json").read_text()), held_bytes(processes)).encode()
    handle = os.open(facts / "meminfo", os.O_WRONLY | os.O_CREAT, 0o644)
    try:
        os.pwrite(handle, content, 0)
    finally:
        os.close(handle)


def main(arguments: list[str]) -> None:
    while True:
        # A test may be writing the description of the GPU just now.
        with contextlib.suppress(ValueError, KeyError, OSError):
            update()
        if arguments == ["once"]:
            return
        time.sleep(SECONDS)


if __name__ == "__main__":
    main(sys.argv[1:])

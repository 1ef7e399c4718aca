# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Update this twin's /proc/meminfo: GPU and system share one memory, as on a real Spark.

The page cache is the share of the models' files that the kernel has cached, scaled to the size of the real files.
Reading fills it, and posix_fadvise frees it. The stand-in for the engine uses this file, too.

Run as: meminfo.py [once]
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import mmap
import os
import pathlib
import re
import sys
import time
import typing as t

FACTS = pathlib.Path("/run/dgx-spark-twin")
# An argument of a process with its GPU memory, which the twin's nvidia-smi reads, too.
MARK = re.compile(rb"(?:^|\0)STANDIN_GPU_BYTES=([0-9]+)(?=\0|$)")
# An argument with the memory over time: seconds and bytes, with linear interpolation.
CURVE = re.compile(rb"(?:^|\0)STANDIN_GPU_CURVE=([0-9.:,]+)(?=\0|$)")
SECONDS, SECONDS_OF_A_CURVE = 0.2, 0.05
# Memory that the kernel keeps free of page cache.
WATERMARK = 1_500_000_000
HUBS = "*/.cache/huggingface/hub/models--*/snapshots/*"

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, *3 * (ctypes.c_int,), ctypes.c_long)
_libc.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
_libc.mincore.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p)


def resident_bytes(file: pathlib.Path) -> int:
    """Return how many bytes of a file are in the page cache."""
    with file.open("rb") as stream:
        size = os.fstat(stream.fileno()).st_size
        if not size:
            return 0
        address = _libc.mmap(None, size, mmap.PROT_READ, mmap.MAP_SHARED, stream.fileno(), 0)
    pages = ctypes.create_string_buffer(-(-size // mmap.PAGESIZE))
    failed = _libc.mincore(address, size, pages)
    _libc.munmap(address, size)
    if failed:
        raise OSError(ctypes.get_errno(), "mincore", str(file))
    return min(size, sum(page & 1 for page in pages.raw) * mmap.PAGESIZE)


def cached_bytes(model: pathlib.Path) -> float:
    """Return the page cache of a model's files: the cached share of its shards, times the size of the real ones."""
    shards = {file.resolve() for file in model.glob("*.safetensors")}
    size = sum(shard.stat().st_size for shard in shards)
    index = model / "model.safetensors.index.json"
    real = json.loads(index.read_text())["metadata"]["total_size"] if index.exists() else size
    return sum(resident_bytes(shard) for shard in shards) / size * real if size else 0.0


def all_cached_bytes(homes: pathlib.Path) -> float:
    """Return the page cache of all models in the caches of this Spark's users."""
    total = 0.0
    for model in homes.glob(HUBS):
        # A download may be changing it.
        with contextlib.suppress(OSError, ValueError, KeyError):
            total += cached_bytes(model)
    return total


def on_curve(points: str, age: float) -> float:
    """Return the bytes that a process of this age uses."""
    pairs = [tuple(float(one) for one in point.split(":")) for point in points.split(",")]
    for (begin, low), (end, high) in zip(pairs, pairs[1:]):
        if begin <= age < end:
            return low + (high - low) * (age - begin) / (end - begin)
    return pairs[-1][1] if age >= pairs[-1][0] else pairs[0][1]


def age_of(process: pathlib.Path) -> float:
    """Return the age of a process in seconds."""
    ticks = int((process / "stat").read_text().rpartition(")")[2].split()[19])
    return time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")


def held_bytes(processes: pathlib.Path = pathlib.Path("/proc")) -> int:
    """Return the sum of the processes' GPU memory."""
    total = 0
    for process in processes.iterdir():
        if process.name.isdecimal():
            # The process may end meanwhile.
            with contextlib.suppress(OSError):
                command = (process / "cmdline").read_bytes()
                found, curve = MARK.search(command), CURVE.search(command)
                total += int(found[1]) if found else 0
                total += int(on_curve(curve[1].decode(), age_of(process))) if curve else 0
    return total


def text(gpu: t.Mapping[str, t.Any], held: int, files: float = 0) -> str:
    """Return the content of /proc/meminfo. Its length is constant."""
    total = int(gpu["memory_bytes"])
    available = max(0, total - int(gpu.get("system_bytes", 0)) - held)
    # The page cache is a part of the available memory.
    cached = max(min(available // 4, 6_000_000_000), min(int(files), available - WATERMARK))
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


def update(
    facts: pathlib.Path = FACTS,
    processes: pathlib.Path = pathlib.Path("/proc"),
    homes: pathlib.Path = pathlib.Path("/home"),
) -> None:
    """Write the values at once and in place, because the file is mounted as /proc/meminfo."""
    gpu = json.loads((facts / "gpu.json").read_text())
    content = text(gpu, held_bytes(processes), all_cached_bytes(homes)).encode()
    handle = os.open(facts / "meminfo", os.O_WRONLY | os.O_CREAT, 0o644)
    try:
        os.pwrite(handle, content, 0)
    finally:
        os.close(handle)


def main(arguments: list[str]) -> None:
    while True:
        # A test may be writing the description of the GPU.
        with contextlib.suppress(ValueError, KeyError, OSError):
            update()
        if arguments == ["once"]:
            return
        time.sleep(SECONDS_OF_A_CURVE if (FACTS / "curve").exists() else SECONDS)


if __name__ == "__main__":
    main(sys.argv[1:])

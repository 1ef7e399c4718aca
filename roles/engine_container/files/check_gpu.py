# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Start CUDA in a container, and print why it fails or how many bytes it calls free.

nvidia-smi uses NVML, which works in containers where CUDA fails (NVIDIA/nvidia-container-toolkit issue 1967), and has
no memory figure for a GB10. The engine sizes its KV cache by CUDA's figure, which counts the page cache as used.

The last line of the output is a mark and JSON, because an image may print a banner first: {"problem": str or null,
"free": int or null, "unused": int or null, "available": int or null}. The last two are from /proc/meminfo at the same
moment.
"""

from __future__ import annotations

import ctypes
import json
import os
import re
import threading
from pathlib import Path

DEADLINE_S = 60.0
MEMINFO = Path("/proc/meminfo")
MARK = "dgx-spark-speculative-gpu:"


def ask(said: list[str], found: dict[str, int | None]) -> None:
    """Add what is wrong, or nothing but an empty text; then the memory, which is a hint and may stay unknown."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
        code = driver.cuInit(0)
    except (OSError, AttributeError) as error:
        said.append(f"CUDA cannot be loaded: {error}")
        return
    said.append(f"cuInit(0) failed with CUDA error {code}" if code else "")
    if not code:
        found["free"] = free(driver)
        found["unused"], found["available"] = figure("MemFree"), figure("MemAvailable")


def free(driver: ctypes.CDLL) -> int | None:
    """Return the bytes that CUDA calls free, in the context that each program has anyway; None without an answer."""
    device, context = ctypes.c_int(), ctypes.c_void_p()
    available, total = ctypes.c_size_t(), ctypes.c_size_t()
    try:
        if driver.cuDeviceGet(ctypes.byref(device), 0) or driver.cuDevicePrimaryCtxRetain(
            ctypes.byref(context), device
        ):
            return None
        failed = driver.cuCtxSetCurrent(context) or driver.cuMemGetInfo_v2(ctypes.byref(available), ctypes.byref(total))
        driver.cuDevicePrimaryCtxRelease_v2(device)
    except AttributeError:
        return None
    return None if failed else available.value


def figure(name: str) -> int | None:
    """Of /proc/meminfo in bytes."""
    try:
        line = re.search(rf"^{name}: +([0-9]+) kB$", MEMINFO.read_text(encoding="ascii"), re.MULTILINE)
    except OSError:
        return None
    return int(line[1]) * 1024 if line else None


def main() -> None:
    said: list[str] = []
    result: dict[str, int | None] = {"free": None, "unused": None, "available": None}
    asking = threading.Thread(target=ask, args=(said, result), daemon=True)
    asking.start()
    asking.join(DEADLINE_S)
    problem = said[0] if said else f"cuInit(0) gave no answer within {DEADLINE_S:.0f} s"
    # A banner may end without a line's end.
    print(f"\n{MARK}{json.dumps({'problem': problem or None, **result})}", flush=True)
    # A thread that hangs in the driver is not waited for.
    os._exit(1 if problem else 0)


if __name__ == "__main__":
    main()

# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Give a container the simulated GPU: `nvidia-smi`, the driver's library and the description of this twin's hardware.

A test can cause failures in gpu.json: "hook_error" is an error message of the hook, and "cuda_error" the error number
of cuInit in the container.
"""

from __future__ import annotations

import json
import pathlib
import platform
import re
import shutil
import subprocess
import sys
import typing as t

NVIDIA_SMI = pathlib.Path("/usr/local/lib/dgx-spark-twin/nvidia-smi")
LIBRARY = pathlib.Path("/usr/local/lib/dgx-spark-twin/tiny_library.py")
FACTS = pathlib.Path("/run/dgx-spark-twin")
MEMINFO = pathlib.Path("/proc/meminfo")


def asked_for_gpu(environment: list[str]) -> bool:
    """Return whether the container's environment requests a GPU, as Docker's `--gpus` sets it."""
    values = [entry.partition("=")[2] for entry in environment if entry.startswith("NVIDIA_VISIBLE_DEVICES=")]
    # Docker appends its own value after the image's, so the last one counts.
    return bool(values) and values[-1] not in ("", "void", "none")


def furnish(root: pathlib.Path, nvidia_smi: pathlib.Path, facts: pathlib.Path) -> None:
    """Copy the files of the GPU into the container's root directory."""
    program = root / "usr/bin/nvidia-smi"
    program.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy2(nvidia_smi, program)
    destination = root / "run/dgx-spark-twin"
    destination.mkdir(parents=True, exist_ok=True)
    # Keep the directory, because the container has other files in it.
    for old in destination.glob("*.json"):
        old.unlink()
    for fact in facts.glob("*.json"):
        shutil.copy2(fact, destination)


def memory(name: str) -> int:
    """Return a value of the Spark's /proc/meminfo in bytes."""
    found = re.search(rf"^{name}: +([0-9]+) kB$", MEMINFO.read_text(), re.MULTILINE)
    return int(found[1]) * 1024 if found else 0


def add_driver(root: pathlib.Path, error: int) -> None:
    """Add a libcuda.so.1 to the container, whose cuInit returns this error.

    On a GB10 the page cache counts as used, so CUDA's free memory is MemFree, here at the container's start.
    """
    place = root / f"usr/lib/{platform.machine()}-linux-gnu"
    place.mkdir(parents=True, exist_ok=True)
    figures = (error, memory("MemFree"), memory("MemTotal"))
    subprocess.run([sys.executable, "-I", "-S", str(LIBRARY), str(place), "cuda", *map(str, figures)], check=True)


def main() -> None:
    state: dict[str, t.Any] = json.load(sys.stdin)
    bundle = pathlib.Path(state["bundle"])
    configuration = json.loads((bundle / "config.json").read_text())
    if asked_for_gpu(configuration["process"].get("env") or []):
        gpu = json.loads((FACTS / "gpu.json").read_text())
        if "hook_error" in gpu:
            sys.exit(gpu["hook_error"])
        root = bundle / configuration["root"]["path"]
        furnish(root, NVIDIA_SMI, FACTS)
        add_driver(root, int(gpu.get("cuda_error", 0)))


if __name__ == "__main__":
    main()

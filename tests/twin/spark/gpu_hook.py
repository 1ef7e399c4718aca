# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Give a container the simulated GPU: `nvidia-smi`, the driver's library and what describes this twin's hardware.

A test can have it fail: gpu.json may name what the hook says instead ("hook_error"), and with what number cuInit fails
in the container ("cuda_error").
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
    """Whether the container's environment asks for a GPU, as Docker's `--gpus` sets it."""
    values = [entry.partition("=")[2] for entry in environment if entry.startswith("NVIDIA_VISIBLE_DEVICES=")]
    # Docker appends its own value to the image's: the last one counts.
    return bool(values) and values[-1] not in ("", "void", "none")


def furnish(root: pathlib.Path, nvidia_smi: pathlib.Path, facts: pathlib.Path) -> None:
    """Copy what the container shall find into its root directory."""
    program = root / "usr/bin/nvidia-smi"
    program.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy2(nvidia_smi, program)
    destination = root / "run/dgx-spark-twin"
    destination.mkdir(parents=True, exist_ok=True)
    # Not the directory itself: the container has more in it.
    for old in destination.glob("*.json"):
        old.unlink()
    for fact in facts.glob("*.json"):
        shutil.copy2(fact, destination)


def memory(name: str) -> int:
    """A figure of the Spark's /proc/meminfo in bytes."""
    found = re.search(rf"^{name}: +([0-9]+) kB$", MEMINFO.read_text(), re.MULTILINE)
    return int(found[1]) * 1024 if found else 0


def add_driver(root: pathlib.Path, error: int) -> None:
    """Have a libcuda.so.1 in the container, whose cuInit returns this.

    On a GB10 the page cache counts as used, so CUDA calls free what nothing uses: here, when the container starts.
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

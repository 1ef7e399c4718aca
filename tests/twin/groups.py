# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Control groups for a Spark, of version 2 wherever the machine has it: `spark/boot` is the other half."""

from __future__ import annotations

import pathlib
import subprocess

from tests.twin.images import as_root
from tests.twin.names import TwinError

ROOT = pathlib.Path("/sys/fs/cgroup")
# Where a machine with both versions has the second one.
BESIDE = ROOT / "unified"
V2, HYBRID, V1 = "v2", "hybrid", "v1"
# The machine's own versions.
PRIVATE = ("--cgroupns", "private")


def kind(place: pathlib.Path) -> str:
    """The kind of file system that is mounted at a place; empty when there is no such place."""
    result = subprocess.run(["stat", "-f", "-c", "%T", str(place)], capture_output=True, text=True, check=False)
    return result.stdout.strip()


def layout() -> str:
    """Which versions of control groups the machine has."""
    if kind(ROOT) == "cgroup2fs":
        return V2
    return HYBRID if kind(BESIDE) == "cgroup2fs" else V1


def announce() -> None:
    """Tell what has not been tried yet."""
    if layout() == V2:
        print("This machine has control groups v2 alone, on which the twin has not been tried yet.", flush=True)


def options(name: str) -> tuple[str, ...]:
    """What the container of this name is started with to have version 2, if that can be."""
    if layout() == HYBRID:
        return ("--cgroupns", "host", "--volume", f"{BESIDE}:/cg2", "--env", f"TWIN_GROUP={name}")
    return PRIVATE


def remove(name: str) -> None:
    """Remove what a container that is gone has left of its control groups."""
    group = BESIDE / name
    if not group.is_dir():
        return
    command = as_root("find", str(group), "-depth", "-type", "d", "-exec", "rmdir", "{}", ";")
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode or group.is_dir():
        raise TwinError(f"The control groups of {name} cannot be removed: {result.stderr.strip()}")

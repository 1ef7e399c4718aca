# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Set up control groups for a Spark, of version 2 if the machine has it. See also `spark/boot`."""

from __future__ import annotations

import pathlib
import subprocess

from tests.twin.images import as_root
from tests.twin.names import TwinError

ROOT = pathlib.Path("/sys/fs/cgroup")
# Mount point of version 2 on a machine with both versions.
BESIDE = ROOT / "unified"
V2, HYBRID, V1 = "v2", "hybrid", "v1"
# The machine's own versions.
PRIVATE = ("--cgroupns", "private")


def kind(place: pathlib.Path) -> str:
    """Return the kind of file system at a path; empty if the path does not exist."""
    result = subprocess.run(["stat", "-f", "-c", "%T", str(place)], capture_output=True, text=True, check=False)
    return result.stdout.strip()


def layout() -> str:
    """Return the versions of control groups of the machine."""
    if kind(ROOT) == "cgroup2fs":
        return V2
    return HYBRID if kind(BESIDE) == "cgroup2fs" else V1


def announce() -> None:
    """Print a note if the machine's control groups are untested."""
    if layout() == V2:
        print("This machine has control groups v2 alone, on which the twin has not been tried yet.", flush=True)


def options(name: str) -> tuple[str, ...]:
    """Return the Docker options that give a container version 2, if possible."""
    if layout() == HYBRID:
        return ("--cgroupns", "host", "--volume", f"{BESIDE}:/cg2", "--env", f"TWIN_GROUP={name}")
    return PRIVATE


def remove(name: str) -> None:
    """Remove the control groups that a removed container has left."""
    group = BESIDE / name
    if not group.is_dir():
        return
    command = as_root("find", str(group), "-depth", "-type", "d", "-exec", "rmdir", "{}", ";")
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode or group.is_dir():
        raise TwinError(f"The control groups of {name} cannot be removed: {result.stderr.strip()}")

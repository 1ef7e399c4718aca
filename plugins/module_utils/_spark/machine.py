# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this module util is internal to the collection; its interface may change at any time.

"""Read the facts of this machine from nvidia-smi, sysfs and procfs: GPU, NICs and memory."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import shutil
import signal
import subprocess
import typing as t
from pathlib import Path

from .._data.files import read_value

# NVIDIA's name of the chip in a DGX Spark and in other vendors' machines of this kind.
GPU_NAME = "GB10"
# PCI vendor and device of its GPU, and of the ConnectX-7 in every GB10 machine.
GB10 = ("0x10de", "0x2e12")
CONNECTX7 = ("0x15b3", "0x1021")


@dataclasses.dataclass(frozen=True)
class Gpu:
    name: str
    driver: str


def parse_gpus(output: str) -> list[Gpu]:
    """Parse the output of C(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader)."""
    rows = [line.split(",") for line in output.splitlines() if "," in line]
    return [Gpu(name.strip(), driver.strip()) for name, driver in rows]


@dataclasses.dataclass(frozen=True)
class GpuProcess:
    """A process that computes on the GPU. Name or size are None if the driver does not report them."""

    pid: int
    name: str | None
    bytes: int | None


GPU_PROCESSES = ("nvidia-smi", "--query-compute-apps=pid,process_name,used_gpu_memory", "--format=csv,noheader,nounits")
GPU_DEADLINE_S = 10.0
SILENT = "did not answer within"
# Below this much available memory the kernel spends its time on finding memory.
SCARCE_BYTES = 2 * 2**30


class LookError(Exception):
    """A requested fact cannot be read. The text is one sentence."""


class GpuError(OSError):
    """An error of nvidia-smi, in a few words."""


def ask_gpu(command: t.Sequence[str]) -> str:
    """Return the output of nvidia-smi; raise GpuError if it fails.

    If the driver hangs, nvidia-smi waits in the kernel and no signal ends it, so the process is left behind.
    """
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,
        )
    except OSError:
        raise GpuError(f"there is no {command[0]}") from None
    try:
        output, error = process.communicate(timeout=GPU_DEADLINE_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=1)
        raise GpuError(f"{command[0]} {SILENT} {GPU_DEADLINE_S:g} s") from None
    if process.returncode != 0:
        text = " ".join((error.strip() or output.strip()).split())
        raise GpuError(f"{command[0]} says '{text[:300]}'" if text else f"{command[0]} ended with {process.returncode}")
    return output


def read_gpus() -> list[Gpu]:
    """Return the GPUs. Raise GpuError if they cannot be asked."""
    return parse_gpus(ask_gpu(QUERY))


def parse_compute_apps(output: str) -> list[GpuProcess]:
    """Parse the output of GPU_PROCESSES. Sizes are in MiB, and a name may contain commas."""
    result = []
    for line in output.splitlines():
        pid, _separator, rest = line.partition(",")
        name, _separator, size = (field.strip() for field in rest.rpartition(","))
        if not pid.strip().isdigit():
            continue
        known = name and not name.startswith("[")
        result.append(
            GpuProcess(
                int(pid),
                name.rpartition("/")[2] if known else None,
                int(size) * 2**20 if size.isdigit() else None,
            )
        )
    return result


def ask_gpu_processes(command: t.Sequence[str] = GPU_PROCESSES) -> list[GpuProcess] | None:
    """Return the GPU's processes; None if they are unknown."""
    try:
        return parse_compute_apps(ask_gpu(command))
    except GpuError:
        return None


def parse_meminfo(text: str) -> dict[str, int]:
    """Return the values of /proc/meminfo in bytes."""
    result = {}
    for line in text.splitlines():
        key, _separator, rest = line.partition(":")
        fields = rest.split()
        if fields and fields[0].isdigit():
            result[key] = int(fields[0]) * (1024 if fields[1:] == ["kB"] else 1)
    return result


def oom_daemons(root: Path) -> list[str]:
    """Return the running daemons that end programs if memory is low."""
    names = set()
    for file in (root / "proc").glob("[0-9]*/comm"):
        # The process may have ended.
        with contextlib.suppress(OSError):
            names.add(file.read_text(encoding="utf-8", errors="replace").strip())
    return sorted(names & {"earlyoom", "systemd-oomd"})


def find_functions(devices: Path, wanted: tuple[str, str]) -> list[Path]:
    """Return the PCI functions with this vendor and device in a directory such as /sys/bus/pci/devices."""
    return sorted(
        each for each in devices.glob("*") if (read_value(each / "vendor"), read_value(each / "device")) == wanted
    )


def problems(gpus: t.Sequence[Gpu], error: str, witness: bool) -> list[str]:
    """Return the reasons why no server can run here; none for a Spark that works.

    A witness (a GB10 on the bus, or a loaded driver) distinguishes a broken driver from another kind of machine.
    """
    if any(GPU_NAME in gpu.name for gpu in gpus):
        return []
    if gpus:
        return [f"its GPU is '{gpus[0].name}', not a {GPU_NAME}"]
    if witness:
        return [f"its GPU driver does not answer: {error or 'nvidia-smi finds no GPU'}"]
    return ["it has no nvidia-smi, or one that finds no GPU"]


def remedy(error: str, available: int) -> str:
    """Return the fix for a driver that does not answer. Full memory alone can make nvidia-smi take minutes."""
    if SILENT in error and available < SCARCE_BYTES:
        return (
            "Next to no memory is available, which alone can make it take minutes: free some first, such as with "
            "stop.yml ('ps aux --sort -rss' lists who holds it), and run again. Reboot only if it is silent then, too."
        )
    return "Reboot; if that does not help, install the driver of DGX OS again."


QUERY = ("nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader")
DEVICES = Path("/sys/bus/pci/devices")
DRIVER = Path("/proc/driver/nvidia/version")


class Facts(t.TypedDict):
    """The machine, and its memory in bytes, which CPU and GPU share."""

    is_spark: bool
    # Reasons why it is no Spark, or why no server can run on it.
    problems: list[str]
    # The fix for a GPU driver that does not answer, else empty.
    remedy: str
    # Each with name and driver.
    gpus: list[dict[str, t.Any]]
    memory_total: int
    # The kernel's estimate of the memory that programs can allocate now.
    memory_available: int
    # Memory without any content, not even page cache.
    memory_free: int
    # Free bytes of all local disks.
    disk_free: int


def disk_free(mounts: str) -> int:
    """Return the free bytes of the disks in the text of /proc/mounts. A disk may be mounted several times."""
    points = [
        fields[1] for line in mounts.splitlines() if (fields := line.split(" ")) and fields[0].startswith("/dev/")
    ]
    disks = {}
    for point in points:
        # The kernel writes a blank in a path as an octal number. A mount may be hidden from this user.
        with contextlib.suppress(OSError):
            path = Path(point.replace("\\040", " "))
            disks[path.stat().st_dev] = shutil.disk_usage(path).free
    return sum(disks.values())


def look() -> Facts:
    """Return the facts of this machine."""
    gpus, error = [], ""
    try:
        gpus = read_gpus()
    except GpuError as e:
        error = str(e)
    witness = bool(find_functions(DEVICES, GB10)) or DRIVER.exists()
    memory = parse_meminfo(Path("/proc/meminfo").read_text(encoding="ascii"))
    reasons = problems(gpus, error, witness)
    return {
        "is_spark": not reasons or (witness and not gpus),
        "problems": reasons,
        "remedy": remedy(error, memory["MemAvailable"]) if reasons and witness and not gpus else "",
        "gpus": [dataclasses.asdict(gpu) for gpu in gpus],
        "memory_total": memory["MemTotal"],
        "memory_available": memory["MemAvailable"],
        "memory_free": memory["MemFree"],
        "disk_free": disk_free(Path("/proc/mounts").read_text(encoding="utf-8", errors="replace")),
    }

# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a container's configuration needs here: limits that it may set at all, and the Spark's memory and devices.

A container has a /proc of its own, in which the kernel tells of the machine's memory. And one in the Spark's own
network namespace sees its network cards in sysfs: those of the twin are in directories of the Spark's own, which a
fresh sysfs does not have.
"""

from __future__ import annotations

import json
import pathlib
import resource
import sys
import typing as t

OWN_NETWORK = "/proc/self/ns/net"
# The links of one lead to another.
SYSFS = {
    "/sys/class": "/sys/class",
    "/sys/bus/pci/devices": "/sys/bus/pci/devices",
    "/run/dgx-spark-twin/class": "/run/dgx-spark-twin/class",
    "/run/dgx-spark-twin/devices": "/sys/devices",
}
MEMINFO = "/proc/meminfo"


def option(arguments: list[str], *names: str) -> str | None:
    """The value of the first of these options, written either way."""
    for position, argument in enumerate(arguments):
        for name in names:
            if argument == name and position + 1 < len(arguments):
                return arguments[position + 1]
            if argument.startswith(f"{name}="):
                return argument[len(name) + 1 :]
    return None


def configuration(arguments: list[str]) -> pathlib.Path | None:
    """The file that holds the process which this call of runc is about to start."""
    if "exec" in arguments:
        process = option(arguments, "--process", "-p")
        return pathlib.Path(process) if process else None
    if "create" in arguments or "run" in arguments:
        return pathlib.Path(option(arguments, "--bundle", "-b") or ".") / "config.json"
    return None


def clamp(process: dict[str, t.Any], hard_limit: t.Callable[[str], int]) -> bool:
    """Lower each limit of the process to the hard limit; say whether any was too high."""
    lowered = False
    for limit in process.get("rlimits") or []:
        allowed = hard_limit(limit["type"])
        for bound in ("soft", "hard"):
            if limit[bound] > allowed:
                limit[bound] = allowed
                lowered = True
    return lowered


def own_hard_limit(kind: str) -> int:
    """This process's hard limit, as large as a limit can be when there is none."""
    hard = resource.getrlimit(getattr(resource, kind))[1]
    return 2**64 - 1 if hard == resource.RLIM_INFINITY else hard


def show_devices(document: dict[str, t.Any]) -> bool:
    """Have a container on the Spark's network see the Spark's network cards in sysfs; say whether it is one."""
    namespaces = (document.get("linux") or {}).get("namespaces") or []
    paths = [one.get("path") for one in namespaces if one["type"] == "network"]
    # Docker names the one that it runs in, and none where the container gets one of its own.
    if not namespaces or not all(path and pathlib.Path(path).samefile(OWN_NETWORK) for path in paths):
        return False
    for place, source in SYSFS.items():
        document["mounts"].append(bound(source, place))
    return True


def bound(source: str, place: str) -> dict[str, t.Any]:
    return {"destination": place, "source": source, "type": "bind", "options": ["rbind", "ro"]}


def show_memory(document: dict[str, t.Any]) -> bool:
    """Have a container see the memory of the Spark; say whether it is one, and not a process in one."""
    if "mounts" not in document:
        return False
    document["mounts"].append(bound(MEMINFO, MEMINFO))
    return True


def main() -> None:
    path = configuration(sys.argv[1:])
    if path is None or not path.is_file():
        return
    document = json.loads(path.read_text())
    # `exec` names the process itself, a bundle has it under a key.
    lowered = clamp(document.get("process", document), own_hard_limit)
    if show_memory(document) | show_devices(document) | lowered:
        path.write_text(json.dumps(document))


if __name__ == "__main__":
    main()

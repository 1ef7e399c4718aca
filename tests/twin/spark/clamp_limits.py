# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Adapt a container's configuration to the twin: permitted limits, the Spark's memory and devices, and its authority.

A container has its own /proc, in which the kernel shows the machine's memory. A container in the Spark's network
namespace also sees NICs in its own sysfs, which lacks the simulated ones: these are in directories of the Spark.
An image that trusts the real internet trusts the twin's here, which has its own certificate authority.
"""

from __future__ import annotations

import json
import pathlib
import resource
import sys
import typing as t

OWN_NETWORK = "/proc/self/ns/net"
# Links in one of them point to another.
SYSFS = {
    "/sys/class": "/sys/class",
    "/sys/bus/pci/devices": "/sys/bus/pci/devices",
    "/run/dgx-spark-twin/class": "/run/dgx-spark-twin/class",
    "/run/dgx-spark-twin/devices": "/sys/devices",
}
MEMINFO = "/proc/meminfo"
AUTHORITY = pathlib.Path("/usr/local/share/ca-certificates/dgx-spark-twin.crt")
# The authorities that programs of Debian and Ubuntu trust.
TRUSTED = "/etc/ssl/certs/ca-certificates.crt"


def option(arguments: list[str], *names: str) -> str | None:
    """Return the value of the first of these options, in either spelling."""
    for position, argument in enumerate(arguments):
        for name in names:
            if argument == name and position + 1 < len(arguments):
                return arguments[position + 1]
            if argument.startswith(f"{name}="):
                return argument[len(name) + 1 :]
    return None


def configuration(arguments: list[str]) -> pathlib.Path | None:
    """Return the file with the configuration of the process that runc is about to start."""
    if "exec" in arguments:
        process = option(arguments, "--process", "-p")
        return pathlib.Path(process) if process else None
    if "create" in arguments or "run" in arguments:
        return pathlib.Path(option(arguments, "--bundle", "-b") or ".") / "config.json"
    return None


def clamp(process: dict[str, t.Any], hard_limit: t.Callable[[str], int]) -> bool:
    """Lower each limit of the process to the hard limit. Return whether a limit was too high."""
    lowered = False
    for limit in process.get("rlimits") or []:
        allowed = hard_limit(limit["type"])
        for bound in ("soft", "hard"):
            if limit[bound] > allowed:
                limit[bound] = allowed
                lowered = True
    return lowered


def own_hard_limit(kind: str) -> int:
    """Return this process's hard limit; the largest number if there is no limit."""
    hard = resource.getrlimit(getattr(resource, kind))[1]
    return 2**64 - 1 if hard == resource.RLIM_INFINITY else hard


def show_devices(document: dict[str, t.Any]) -> bool:
    """Mount the Spark's NICs into a container in the Spark's network. Return whether it is in that network."""
    namespaces = (document.get("linux") or {}).get("namespaces") or []
    paths = [one.get("path") for one in namespaces if one["type"] == "network"]
    # Docker sets the path of its own namespace. A new namespace has no path.
    if not namespaces or not all(path and pathlib.Path(path).samefile(OWN_NETWORK) for path in paths):
        return False
    for place, source in SYSFS.items():
        document["mounts"].append(bound(source, place))
    return True


def bound(source: str, place: str) -> dict[str, t.Any]:
    return {"destination": place, "source": source, "type": "bind", "options": ["rbind", "ro"]}


def show_memory(document: dict[str, t.Any]) -> bool:
    """Mount the Spark's /proc/meminfo into a container. Return False for a process in a container."""
    if "mounts" not in document:
        return False
    document["mounts"].append(bound(MEMINFO, MEMINFO))
    return True


def add_authority(document: dict[str, t.Any], bundle: pathlib.Path, authority: pathlib.Path = AUTHORITY) -> bool:
    """Mount the Spark's list of authorities over one without the twin's. Return whether the container has such a list.

    Images that the twin builds itself may have its authority already.
    """
    if "mounts" not in document:
        return False
    trusted = bundle / document["root"]["path"] / TRUSTED.lstrip("/")
    if not trusted.is_file() or authority.read_text().strip() in trusted.read_text():
        return False
    document["mounts"].append(bound(TRUSTED, TRUSTED))
    return True


def main() -> None:
    path = configuration(sys.argv[1:])
    if path is None or not path.is_file():
        return
    document = json.loads(path.read_text())
    # With `exec`, the file is the process; in a bundle, the process is under a key.
    lowered = clamp(document.get("process", document), own_hard_limit)
    if show_memory(document) | show_devices(document) | add_authority(document, path.parent) | lowered:
        path.write_text(json.dumps(document))


if __name__ == "__main__":
    main()

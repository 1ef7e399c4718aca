# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Determine whether this container can use the RDMA devices of the link.

Docker looks into /dev/infiniband when it starts a container, and never again. What comes later, as the network card
does after the cable, is in the kernel's sight and not in the container's; NCCL then takes TCP without a word.
"""

from __future__ import annotations

import contextlib
import os
import stat
import time
import typing as t
from pathlib import Path

CLASS = Path("/sys/class/infiniband_verbs")
NODES = Path("/dev/infiniband")
# The container's exit code when it has to be started again; any but 0 will do for Docker.
AGAIN = 75
# Docker starts a container at once that ran for ten seconds, and one that ran for less ever later.
WAIT_S = 15.0


def by_tcp(environment: t.Mapping[str, str]) -> str | None:
    """Return the variable, with its value, that makes NCCL ignore the RDMA devices."""
    for name, value in (("NCCL_IB_DISABLE", "1"), ("NCCL_NET", "socket")):
        if environment.get(name, "").lower() == value:
            return f"{name}={environment[name]}"
    return None


def devices(environment: t.Mapping[str, str], there: t.Collection[str]) -> list[str]:
    """Return the RDMA devices for NCCL: all that begin with each name, or the name itself if there is none yet."""
    wanted = environment.get("NCCL_IB_HCA", "")
    if wanted.startswith("^") or by_tcp(environment):
        return []
    result: list[str] = []
    for name in (part.partition(":")[0].strip() for part in wanted.lstrip("=").split(",")):
        begin_so = [] if wanted.startswith("=") or name in there else [has for has in there if has.startswith(name)]
        result += (begin_so or [name]) if name else []
    return list(dict.fromkeys(result))


def known() -> dict[str, tuple[str, str]]:
    """Return the node and its number for each RDMA device of the kernel."""
    result = {}
    for entry in sorted(CLASS.glob("uverbs*")):
        with contextlib.suppress(OSError):
            device = (entry / "ibdev").read_text(encoding="ascii").strip()
            result[device] = (entry.name, (entry / "dev").read_text(encoding="ascii").strip())
    return result


def has_node(node: str, number: str) -> bool:
    """Return whether the container has this node for this device: a NIC that reappeared may have new numbers."""
    try:
        status = (NODES / node).stat()
    except OSError:
        return False
    numbers = f"{os.major(status.st_rdev)}:{os.minor(status.st_rdev)}"
    return stat.S_ISCHR(status.st_mode) and numbers == number


def look(environment: t.Mapping[str, str]) -> dict[str, str | None]:
    """Return the node of each device in this container; None for a device that it cannot use."""
    there = known()
    result: dict[str, str | None] = {}
    for device in devices(environment, there):
        node = there.get(device)
        result[device] = node[0] if node is not None and has_node(*node) else None
    return result


class RdmaReadiness:
    """Lets a rank begin when it can use all its RDMA devices, and knows when only another start gives them to it."""

    def __init__(self, environment: t.Mapping[str, str]) -> None:
        self.environment = environment
        self.late_since: float | None = None

    def problem(self) -> str | None:
        """Return what is missing as a sentence; None if nothing is."""
        lacking = [device for device, node in look(self.environment).items() if node is None]
        away = [device for device in lacking if device not in known()]
        if not lacking or away:
            self.late_since = None
        elif self.late_since is None:
            self.late_since = time.monotonic()
        if away:
            names = " and ".join(away)
            return f"this Spark has no RDMA device {names}: is the cable plugged in, and does 'lspci' show the NIC?"
        if lacking:
            return f"this container was started too early to have {' and '.join(lacking)}; it is started again"
        return None

    @property
    def too_early(self) -> bool:
        """Return whether the kernel has had all devices for a while, but this container does not."""
        if self.late_since is not None:
            # The file may be older than this start.
            self.problem()
        return self.late_since is not None and time.monotonic() - self.late_since >= WAIT_S

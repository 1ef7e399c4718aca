# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

from ansible.plugins.action import ActionBase

from ..module_utils._data.text import amount
from ..plugin_utils._serving.placement import visible_ports

# Options of Docker that name a port.
PORTS = ("port", "address", "published_ports", "socket")
KINDS = ("available", "free")
# Other programs write meanwhile.
WORTH_TELLING = 1_000_000


def memory_released(before: t.Mapping[str, t.Any], now: t.Mapping[str, t.Any]) -> str:
    """Return the memory before and now, as text. The page cache counts as available, but is not free."""
    kinds = (
        f"{kind}: {amount(before[f'memory_{kind}'])} before, {amount(now[f'memory_{kind}'])} now" for kind in KINDS
    )
    return f"Memory {'; '.join(kinds)}."


def disk_released(before: t.Mapping[str, t.Any], now: t.Mapping[str, t.Any]) -> str:
    """Return how much more of the disks is free now, as text."""
    released = now["disk_free"] - before["disk_free"]
    return (
        f"{amount(released)} of disk space are free again." if released >= WORTH_TELLING else "No disk space was freed."
    )


class ActionModule(ActionBase):
    """Gather facts on the host, and look at a port in use also as the login user.

    Under sg the kernel hides the user's own processes, because their group is another one; without it, it shows them.
    """

    _supports_check_mode = True

    def run(self, tmp: str | None = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        super().run(tmp, task_vars)
        before = self._task.args.get("machine_before")
        result = dict(self._execute_module(task_vars=task_vars))
        if before and "machine" in result:
            result["memory_released"] = memory_released(before, result["machine"])
            result["disk_released"] = disk_released(before, result["machine"])
        docker, become = result.get("docker") or {}, self._connection.become
        if become is None or not docker.get("ports_in_use"):
            return result
        asked = self._task.args.get("docker") or {}
        again = {"gather": ["docker"], "docker": {name: asked[name] for name in PORTS if name in asked}}
        self._connection.become = None
        try:
            seen = self._execute_module(module_args=again, task_vars=task_vars).get("docker") or {}
        finally:
            self._connection.become = become
        return {
            **result,
            "docker": {**docker, "ports_in_use": [visible_ports(use, seen) for use in docker["ports_in_use"]]},
        }

# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

from ansible.plugins.action import ActionBase

from ..plugin_utils._report.access import reach_of
from ..plugin_utils._report.advice import Around
from ..plugin_utils._report.status import render, status_of


class ActionModule(ActionBase):
    """Gather the facts on the host, and render them as text on the controller."""

    _supports_check_mode = True

    def run(self, tmp: str | None = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        super().run(tmp, task_vars)
        host = str((task_vars or {}).get("inventory_hostname", self._play_context.remote_addr))
        arguments = dict(self._task.args)
        awaited = arguments.pop("wait_for_port", None)
        # In check mode nothing was started, so there is nothing to wait for.
        if awaited and (self._task.check_mode or self._listens(awaited, task_vars)):
            return {"changed": False}
        result = dict(self._execute_module(module_args=arguments, task_vars=task_vars))
        if awaited:
            why = str(result.get("reason") or "diagnose.yml tells more.")
            return {"failed": True, "msg": f"{host}: the container is started, but its head cannot log in. {why}"}
        if "disk" in result:
            around = Around(tuple(((task_vars or {}).get("groups") or {}).get("sparks") or ()))
            return {**result, "lines": render(host, status_of(result), around, reach_of(self, task_vars or {}))}
        return {**result, "lines": log_lines(host, result["log"])} if "log" in result else result

    def _listens(self, where: t.Mapping[str, t.Any], task_vars: dict[str, t.Any] | None) -> bool:
        """Return whether a server listens there in time."""
        asked = {"host": where["address"], "port": where["port"], "timeout": int(where.get("timeout", 60))}
        return not self._execute_module("ansible.builtin.wait_for", asked, task_vars=task_vars).get("failed")


def log_lines(host: str, log: t.Mapping[str, t.Any]) -> list[str]:
    """Return the last lines of a log, below where they are from."""
    part = f", the last {len(log['lines'])} lines" if log["truncated"] else ""
    heading = [f"{host}: {log['path'] or 'no log'}{part}", log["detail"]]
    return [line for line in heading if line] + list(log["lines"])

# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

from ansible.plugins.action import ActionBase
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._report.status import render, status_of


class ActionModule(ActionBase):
    """Look on the host, and tell on the controller what was seen."""

    _supports_check_mode = True

    def run(self, tmp: str | None = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        super().run(tmp, task_vars)
        found = dict(self._execute_module(task_vars=task_vars))
        if "disk" not in found:
            return found
        host = str((task_vars or {}).get("inventory_hostname", self._play_context.remote_addr))
        return {**found, "lines": render(host, status_of(found))}

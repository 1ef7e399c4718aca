# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

from ansible.plugins.action import ActionBase
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._lease.fence import require


class ActionModule(ActionBase):
    """Write nothing to a Spark that another run has taken over."""

    TRANSFERS_FILES = False
    _supports_check_mode = True

    def run(self, tmp: str | None = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        super().run(tmp, task_vars)
        variables = task_vars or {}
        require(self, str(variables.get("inventory_hostname", "")))
        return dict(self._execute_module(task_vars=variables))

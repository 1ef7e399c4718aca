# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._plan.memory import plan
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._plan.sizes import PlanError, read

MODEL = {"name": {"type": "str"}, "facts": {"type": "dict"}}


class ActionModule(ActionBase):
    """Work out on the controller what was found out on the Spark."""

    _requires_connection = False
    _supports_check_mode = True

    def run(self, tmp: str | None = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        super().run(tmp, task_vars)
        _result, arguments = self.validate_argument_spec(
            argument_spec={
                "target": {"type": "dict", "required": True, "options": MODEL},
                "draft": {"type": "dict", "options": MODEL},
                "method": {"type": "str", "default": "none"},
                "draft_length": {"type": "int", "default": 0},
                # Read by the plan, whose errors name the inputs that people set.
                "context": {"type": "raw", "default": 32768},
                "parallel": {"type": "raw", "default": 1},
                "reserve_gib": {"type": "raw", "default": 12},
                "kv_cache": {"type": "str", "default": "planned", "choices": ["planned", "fraction"]},
                "memory": {"type": "dict"},
                "sparks": {"type": "int", "default": 1, "choices": [1, 2]},
                "options": {"type": "dict"},
            },
        )
        host = str((task_vars or {}).get("inventory_hostname", ""))
        try:
            return {"changed": False, **plan(read(arguments), host)}
        except PlanError as error:
            raise AnsibleActionFail(str(error)) from None

# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import typing as t

from ansible.plugins.action import ActionBase
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._trtllm.options import (
    ARGUMENTS,
    answer,
    build,
    requested,
)


class ActionModule(ActionBase):
    """Render and validate on the controller, where the rules are."""

    _requires_connection = False
    _supports_check_mode = True

    def run(self, tmp: str | None = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        super().run(tmp, task_vars)
        _result, arguments = self.validate_argument_spec(argument_spec=ARGUMENTS)
        # YAML writes no value that carries Ansible's tags.
        plain: dict[str, t.Any] = json.loads(json.dumps(arguments, default=str))
        built = build(requested(plain))
        result = {**answer(built), "warnings": [str(warning) for warning in built.warnings]}
        return {**result, "failed": True} if built.errors else result

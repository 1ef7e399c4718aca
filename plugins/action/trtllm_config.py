# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import typing as t

from ansible.plugins.action import ActionBase

from ..plugin_utils._engines.engine import AUTO, Request, answer
from ..plugin_utils._engines.methods import NONE
from ..plugin_utils._engines.registry import ENGINES

ENGINE = ENGINES["tensorrt_llm"]
# The choices come from the engine's data.
ARGUMENTS: dict[str, dict[str, t.Any]] = {
    "release": {"type": "str", "required": True},
    "family": {"type": "str", "choices": [AUTO, *ENGINE.families], "default": AUTO},
    "method": {"type": "str", "choices": [*ENGINE.methods, NONE]},
    "draft_model": {"type": "str"},
    "max_draft_len": {"type": "int"},
    "target_model": {"type": "str"},
    "revision": {"type": "str"},
    "options": {"type": "dict", "default": {}},
    "world_size": {"type": "int", "default": 1},
}


def requested(arguments: t.Mapping[str, t.Any]) -> Request:
    """Return the request in validated arguments."""
    return Request(**{"drafted" if name == "max_draft_len" else name: arguments[name] for name in ARGUMENTS})


class ActionModule(ActionBase):
    """Render and validate on the controller, where the rules are."""

    _requires_connection = False
    _supports_check_mode = True

    def run(self, tmp: str | None = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        super().run(tmp, task_vars)
        _result, arguments = self.validate_argument_spec(argument_spec=ARGUMENTS)
        # YAML writes no value that carries Ansible's tags.
        plain: dict[str, t.Any] = json.loads(json.dumps(arguments, default=str))
        return answer(ENGINE, ENGINE.build(requested(plain)))

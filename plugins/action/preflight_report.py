# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

from ansible.errors import AnsibleActionFail
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._report.preflight import (
    Findings,
    every_obstacle,
    render,
)

display = Display()

FACTS: dict[str, t.Any] = {"type": "dict", "default": {}}
LINES: dict[str, t.Any] = {"type": "list", "elements": "str", "default": []}
OF_ONE: dict[str, t.Any] = {
    "spark": {"type": "dict", "required": True},
    "docker": FACTS,
    "registry": FACTS,
    "models": FACTS,
    "directories": LINES,
    "plan": LINES,
    "problems": LINES,
    "role": {"type": "str", "default": "alone", "choices": ["alone", "head", "worker"]},
    "rails": {"type": "list", "elements": "dict", "default": []},
    "notes": LINES,
    "image_here": {"type": "bool"},
}


class ActionModule(ActionBase):
    """Print what was found as plain text, and fail if anything stands in the way."""

    _requires_connection = False
    _supports_check_mode = True

    def run(self, tmp: str | None = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        super().run(tmp, task_vars)
        _result, arguments = self.validate_argument_spec(
            argument_spec={
                "title": {"type": "str", "required": True},
                "image": {"type": "str", "required": True},
                "hosts": {"type": "dict", "required": True},
            },
        )
        hosts = {host: self._findings(host, found) for host, found in arguments["hosts"].items()}
        lines = render(arguments["title"], arguments["image"], hosts)
        display.display("\n" + "\n".join(lines) + "\n")
        problems = every_obstacle(hosts)
        result: dict[str, t.Any] = {"changed": False, "lines": lines, "problems": problems}
        if problems:
            result |= {"failed": True, "msg": problems[0]}
        return result

    @staticmethod
    def _findings(host: str, found: t.Any) -> Findings | None:
        """Of one host, or None if it could not be looked at."""
        if not found:
            return None
        validated = ArgumentSpecValidator(OF_ONE).validate(found)
        if validated.error_messages:
            raise AnsibleActionFail(f"hosts, {host}: {'; '.join(validated.error_messages)}")
        return Findings(**validated.validated_parameters)

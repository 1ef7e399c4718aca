# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import base64
import typing as t

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display

display = Display()


class ActionModule(ActionBase):
    """Show small secret files of the host on the screen, and nowhere else."""

    _supports_check_mode = True

    def run(self, tmp: str | None = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        super().run(tmp, task_vars)
        host = str((task_vars or {}).get("inventory_hostname", "localhost"))
        _result, arguments = self.validate_argument_spec(
            argument_spec={
                "paths": {"type": "dict", "required": True},
                "what": {"type": "str", "default": "key"},
            },
        )
        # Without it, what the connection brings is shown at a higher verbosity, and that goes to the log as well.
        if not self._task.no_log:
            raise AnsibleActionFail("What is revealed is for the screen only; set 'no_log: true' on the task.")
        if self._task.check_mode:
            return {"changed": False, "shown": []}
        lines = []
        for name, path in arguments["paths"].items():
            found = self._execute_module("ansible.legacy.slurp", module_args={"src": path}, task_vars=task_vars)
            if found.get("failed"):
                raise AnsibleActionFail(f"The {arguments['what']} '{name}' in {path} cannot be read.")
            secret = base64.b64decode(found["content"]).decode("utf-8", "replace").strip()
            lines += [
                f"{host}: new {arguments['what']} '{name}', shown this once:",
                f"    {secret}",
                f"  kept in {path}",
            ]
        if lines:
            display.display("\n" + "\n".join(lines) + "\n", screen_only=True)
        return {"changed": False, "shown": list(arguments["paths"])}

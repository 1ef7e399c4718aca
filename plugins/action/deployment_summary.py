# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible_collections.dgx_spark.speculative.plugins.module_utils._deployment.records import is_worker
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._report.summary import Reach, render

display = Display()


class ActionModule(ActionBase):
    """Print the summary as plain text: a debug task would quote it."""

    _requires_connection = False

    def run(self, tmp: str | None = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        super().run(tmp, task_vars)
        variables = task_vars or {}
        _result, arguments = self.validate_argument_spec(argument_spec={"record": {"type": "dict", "required": True}})
        if is_worker(arguments["record"]):
            # The head speaks for both.
            return {"changed": False, "summary": []}
        text = render(variables.get("inventory_hostname", ""), arguments["record"], self.reach(variables))
        display.display(f"\n{text}\n")
        return {"changed": False, "summary": text.splitlines()}

    def reach(self, variables: dict[str, t.Any]) -> Reach:
        context = self._play_context
        return Reach(
            local=self._connection.transport == "local",
            host=str(context.remote_addr or ""),
            user=str(context.remote_user or ""),
            port=int(context.port or 22),
            private_key=str(context.private_key_file or ""),
            extra_arguments=str(self._templar.template(variables.get("ansible_ssh_common_args", ""))),
        )

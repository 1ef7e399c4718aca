# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import time
import typing as t

from ansible.errors import AnsibleConnectionFailure, AnsibleError
from ansible.plugins.action import ActionBase

from ..plugin_utils._lease.fence import require_lease
from ..plugin_utils._network.host_plan import outcome

MODULE = "dgx_spark.speculative.fabric_network"
CHANGING = ("present", "absent", "confirmed", "reverted")
POLL_S = 1.0
# Applying and undoing, which is tried twice, may take their time, and each of them may hold up a connection.
MORE_S = 420.0

Result = dict[str, t.Any]


class ActionModule(ActionBase):
    """Stay in touch with a host whose network changes.

    The connection may break at any moment between the start of the change and its end, which is no failure: others are
    opened until one of them reaches the host. A task of its own for that would be lost with the connection.
    """

    _supports_check_mode = True

    def run(self, tmp: str | None = None, task_vars: dict[str, t.Any] | None = None) -> Result:
        super().run(tmp, task_vars)
        arguments = dict(self._task.args)
        state = arguments.get("state", "present")
        if state in CHANGING:
            require_lease(self, str((task_vars or {}).get("inventory_hostname", "")))
        if state == "reverted" and "failure_reason" in arguments:
            return self._revert_and_fail(arguments, task_vars or {})
        if state == "confirmed":
            # The confirmation proves that a new connection works.
            self._close_connection()
        result = t.cast("Result", self._execute_module(MODULE, arguments, task_vars=task_vars))
        if state not in ("present", "absent") or not result.get("trial"):
            return result
        deadline = time.monotonic() + float(arguments.get("timeout") or 120) + MORE_S
        stage = self._wait_until_applied(str(result["change"]), deadline, task_vars)
        if stage.get("failed"):
            return {**stage, "change": result["change"], "trial": True}
        return {**result, "stage": stage["stage"]}

    def _revert_and_fail(self, arguments: dict[str, t.Any], task_vars: dict[str, t.Any]) -> Result:
        """Take back what was tried here, if anything was, and fail with what has come of it.

        `of_another` is whether the message of another host has the reason.
        """
        why, others = str(arguments["failure_reason"]), str(arguments.get("others", ""))
        host = str(task_vars.get("inventory_hostname", ""))
        result: Result = {}
        if arguments.get("change"):
            try:
                reverted = {"state": "reverted", "change": arguments["change"]}
                result = dict(self._execute_module(MODULE, reverted, task_vars=task_vars))
            except AnsibleConnectionFailure:
                raise
            except AnsibleError as error:
                result = {"failed": True, "msg": str(error)}
        stuck = ""
        if result.get("failed"):
            stuck = str(result.get("msg") or "The task failed without a word.").removeprefix(f"{host}: ")
        text = outcome(why, others, str(result.get("stage") or ""), stuck)
        changed = bool(result.get("changed"))
        return {"failed": True, "changed": changed, "of_another": not why.strip(), "msg": f"{host}: {text}"}

    def _close_connection(self) -> None:
        """Close what is kept open of this connection; a local one has nothing to close."""
        reset = getattr(self._connection, "reset", None)
        if reset is not None:
            reset()

    def _read_change(self, change: str, task_vars: dict[str, t.Any] | None) -> Result:
        try:
            self._close_connection()
            result = self._execute_module(MODULE, {"state": "tried", "change": change}, task_vars=task_vars)
        except AnsibleConnectionFailure as error:
            return {"lost": str(error)}
        return t.cast("Result", result)

    def _wait_until_applied(self, change: str, deadline: float, task_vars: dict[str, t.Any] | None) -> Result:
        """Return the stage of the change, over a new connection, when it is in force or has ended."""
        while True:
            result = self._read_change(change, task_vars)
            stage = result.get("stage")
            if result.get("refused"):
                return result
            if stage in ("waiting", "confirmed"):
                return result
            if stage in ("undone", "failed"):
                return {"failed": True, "refused": True, "msg": result.get("reason")}
            if stage == "":
                text = "the host was restarted while its network was changed, which undoes the change. Run again."
                return {"failed": True, "refused": True, "msg": text}
            if time.monotonic() > deadline:
                said = result.get("lost") or result.get("msg") or "the change did not come to an end"
                text = (
                    f"the host cannot be reached since its network was changed ({said}). The change undoes itself; if "
                    "the host stays silent, restart it, and it is as it was before."
                )
                return {"failed": True, "refused": True, "msg": text}
            time.sleep(POLL_S)

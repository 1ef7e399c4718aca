# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import platform
import random
import time
import typing as t
from pathlib import Path

from ansible import context
from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display

from ..module_utils._spark.lease import describe_holder
from ..plugin_utils._lease import fence, run_state

display = Display()

MODULE = "dgx_spark.speculative.lease"
SHELL = "dgx_spark.speculative.fenced"
ATTEMPTS = 3
JUST_ENDED_S = 1.0
LOOK_S = 3.0
# So that two runs that wait for the same Sparks do not try again at the same moment.
APART_S = 5.0

Result = dict[str, t.Any]


class ActionModule(ActionBase):
    """Take the lease of a Spark and have it renewed, wait for it, or see that the run still has it."""

    TRANSFERS_FILES = False
    _supports_check_mode = True

    def run(self, tmp: str | None = None, task_vars: dict[str, t.Any] | None = None) -> Result:
        super().run(tmp, task_vars)
        spec = {
            "state": {"type": "str", "choices": ["held", "checked", "confirmed", "awaited"], "default": "checked"},
            "take_over": {"type": "bool", "default": False},
            "wait_minutes": {"type": "float", "default": 0},
        }
        _result, given = self.validate_argument_spec(argument_spec=spec)
        variables = task_vars or {}
        host = str(variables.get("inventory_hostname", "localhost"))
        lease = run_state.Lease(host)
        if self._task.check_mode:
            return {"changed": False, "held": False}
        if given["state"] == "awaited":
            return self._await(lease, given["wait_minutes"], variables)
        if given["state"] == "held" and lease.read() is None:
            return self._take(lease, given["take_over"], variables)
        fence.require_lease(self, host, asks=given["state"] == "confirmed")
        return {"changed": False, "held": lease.read() is not None}

    def _take(self, lease: run_state.Lease, take_over: bool, variables: dict[str, t.Any]) -> Result:
        shell = getattr(self._connection._shell, "ansible_name", "")
        if shell != SHELL:
            # Without it, no module checks the lease, and a container on standby belongs to no run.
            raise AnsibleActionFail(
                f"{lease.host}: ansible_shell_type is {shell}, but must be {SHELL} for a run that takes the lease. "
                "Remove the variable from the inventory, or set it in your play. Nothing was changed."
            )
        lease.begin()
        request = {
            "run": run_state.run_name(),
            "owner": f"{run_state.user()}@{platform.node()}",
            "activity": ", ".join(Path(name).name for name in context.CLIARGS.get("args") or ["a playbook"]),
            "take_over": take_over,
        }
        # One that has just ended gives it back a moment later.
        for attempt in range(ATTEMPTS):
            time.sleep(JUST_ENDED_S if attempt else 0.0)
            sent = run_state.now()
            result = t.cast("Result", self._execute_module(MODULE, request, task_vars=variables))
            if result.get("state") != "refused":
                break
        if "state" not in result:
            return result
        python = str(result["python"])
        if result["state"] != "held":
            why = self._refusal(lease.host, result["holder"])
            lease.refuse(why, python)
            return {"failed": True, "msg": why}
        fence.start_renewing(self, lease, sent, python)
        return {"changed": False, "held": True}

    @staticmethod
    def _refusal(host: str, holder: t.Mapping[str, t.Any]) -> str:
        return (
            f"{host}: {describe_holder(holder)}, and only one run at a time can change a Spark. Nothing was changed. "
            "Run again later, add -e wait_minutes=30 to wait, or end the other run with stop.yml."
        )

    def _await(self, lease: run_state.Lease, minutes: float, variables: t.Mapping[str, t.Any]) -> Result:
        """After the run did not get all its Sparks: give back the one it has, and wait until the others are free."""
        refusals = run_state.refusals()
        if not refusals:
            failed = self._templar.template(variables.get("ansible_failed_result")) or {}
            raise AnsibleActionFail(
                str(failed.get("msg") or f"{lease.host}: stopped here because another Spark failed.")
            )
        had = lease.read()
        if had is not None:
            lease.clear()
            run_state.ask(self, had["python"], "release")
        end = run_state.deadline(minutes * 60)
        refused = lease.refused()
        text = ""
        while refused and run_state.now() < end:
            answer = run_state.ask(self, refused["python"], "ask")
            if answer and answer["state"] in ("free", "none"):
                time.sleep(random.uniform(0, APART_S))
                return {"changed": False}
            if answer and answer["holder"]["owner"] != text:
                text = answer["holder"]["owner"]
                display.display(f"{lease.host} | waits: {describe_holder(answer['holder'])}")
            time.sleep(LOOK_S)
        # As well if the minutes are no number.
        if not run_state.now() < end:
            raise AnsibleActionFail(refused["why"] if refused else refusals[0])
        return {"changed": False}

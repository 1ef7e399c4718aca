# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t
from pathlib import Path

from ansible import constants
from ansible.errors import AnsibleActionFail, AnsibleTemplateError, AnsibleUndefinedVariable
from ansible.plugins.action import ActionBase
from ansible.utils.vars import load_extra_vars

from ..module_utils._data.text import clause
from ..plugin_utils._lease import run_state
from ..plugin_utils._recipe.inputs import (
    OUTPUTS,
    SECRET,
    choices,
    inputs,
    invalid_values,
    likely_typos,
    reserved_names,
    undefined_name,
    unknown_inputs,
)

# Inputs of each playbook that changes a Spark.
OF_ALL = {"wait_minutes": "float"}

ROLES = Path(__file__).resolve().parent.parent.parent / "roles"
ROOT = "root"
LINEAR = ("linear", "debug")


class ActionModule(ActionBase):
    """Look at the names and values of a host's variables, and at whom its tasks become, on the controller."""

    _requires_connection = False

    def run(self, tmp: str | None = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        super().run(tmp, task_vars)
        _result, arguments = self.validate_argument_spec(
            argument_spec={"playbook_inputs": {"type": "dict", "default": {}}}
        )
        known, variables = inputs(ROLES), task_vars or {}
        self._refuse_another_strategy(variables)
        # No task uses become on the controller, unless it is a Spark.
        host = variables.get("inventory_hostname")
        is_spark = host != "localhost" or host in variables.get("groups", {}).get("sparks", [])
        if is_spark:
            self._refuse_another_user(variables)
        own = {**arguments["playbook_inputs"], **OF_ALL}
        types = {**own, **{name: kind for options in known.values() for name, kind in options.items()}}
        judged = [name for name in types if name in variables and name not in OUTPUTS]
        # Variables of the Sparks are undefined on the controller.
        values, wrong = self._evaluate(variables, judged, is_spark)
        wrong += invalid_values(values, types, choices(ROLES))
        if wrong:
            raise AnsibleActionFail("\n".join([*wrong, "Correct the value on the command line or in the inventory."]))
        wrong = [*unknown_inputs(variables, known), *reserved_names(variables)]
        wrong += likely_typos(load_extra_vars(self._loader), known, own)
        if wrong:
            raise AnsibleActionFail("\n".join([*wrong, "Correct the name on the command line or in the inventory."]))
        return {"changed": False}

    @staticmethod
    def _refuse_another_strategy(variables: t.Mapping[str, t.Any]) -> None:
        """Several Sparks take each step together, which only `linear` and what is made of it do."""
        strategy = str(constants.config.get_config_value("DEFAULT_STRATEGY")).rpartition(".")[2]
        if len(variables.get("ansible_play_hosts_all", [])) > 1 and not strategy.endswith(LINEAR):
            raise AnsibleActionFail(
                f"The strategy is {strategy}, but must be linear: several Sparks run each step together. Unset "
                "ANSIBLE_STRATEGY, or remove 'strategy' from ansible.cfg. Nothing was changed."
            )

    def _refuse_another_user(self, variables: t.Mapping[str, t.Any]) -> None:
        """Refuse a become user other than root, with which some or all tasks would create files of another owner."""
        user = self._templar.template(variables.get("ansible_become_user", self._task.become_user)) or ROOT
        # Without ansible_user, Ansible assumes the user who runs it.
        if self._connection.become and (self._get_remote_user() or run_state.user()) != user:
            raise AnsibleActionFail(
                f"All tasks would run as {user} (-b, or become in the inventory or ansible.cfg), and the files would "
                f"belong to {user}. Remove it: the roles use sudo only where they need it, and -K asks for its "
                "password. If Ansible logs in as root, set "
                "ansible_user: root."
            )
        if user != ROOT:
            raise AnsibleActionFail(
                f"Tasks that need root would run as {user} (--become-user, or ansible_become_user in the inventory) "
                "and fail. Remove it: the roles become root where they need it."
            )

    def _evaluate(
        self, variables: t.Mapping[str, t.Any], names: t.Iterable[str], is_spark: bool
    ) -> tuple[dict[str, t.Any], list[str]]:
        """Return the inputs that have a value already, and a line for each that never has one.

        Others need the deployment, which is planned later.
        """
        values, wrong = {}, []
        for name in names:
            if name.endswith(SECRET) and self._templar.is_template(variables[name]):
                continue
            try:
                values[name] = self._templar.template(variables[name])
            except AnsibleUndefinedVariable as error:
                missing = undefined_name(str(error), variables)
                wrong += [f"{name} uses the variable {missing!r}, which has no value"] * bool(missing and is_spark)
            except AnsibleTemplateError as error:
                wrong.append(f"{name} cannot be evaluated: {clause(str(error))}")
        return values, wrong

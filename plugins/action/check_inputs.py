# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import contextlib
import typing as t
from pathlib import Path

from ansible.errors import AnsibleActionFail, AnsibleTemplateError
from ansible.plugins.action import ActionBase
from ansible.utils.vars import load_extra_vars
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._recipe.inputs import (
    ENVIRONMENT,
    LIMITS,
    inputs,
    misspelt,
    mistaken,
    undecided,
    unusable,
)

# What each playbook that changes something takes.
OF_ALL = ("wait_minutes",)

ROLES = Path(__file__).resolve().parent.parent.parent / "roles"


class ActionModule(ActionBase):
    """Look at the names of a host's variables, on the controller."""

    _requires_connection = False

    def run(self, tmp: str | None = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        super().run(tmp, task_vars)
        names = {"type": "list", "elements": "str", "default": []}
        spec = {"also": names, "flags": names}
        _result, arguments = self.validate_argument_spec(argument_spec=spec)
        known = inputs(ROLES)
        variables = task_vars or {}
        flags = arguments["flags"]
        wrong = undecided({name: self._templar.template(variables[name]) for name in flags if name in variables})
        wrong += unusable(self._known(variables, (*LIMITS, ENVIRONMENT)))
        if wrong:
            raise AnsibleActionFail("\n".join([*wrong, "Correct the value on the command line or in the inventory."]))
        wrong = misspelt(variables, known)
        wrong += mistaken(load_extra_vars(self._loader), known, [*arguments["also"], *flags, *OF_ALL])
        if wrong:
            raise AnsibleActionFail("\n".join([*wrong, "Correct the name on the command line or in the inventory."]))
        return {"changed": False}

    def _known(self, variables: t.Mapping[str, t.Any], names: t.Iterable[str]) -> dict[str, t.Any]:
        """The values of those inputs that have one by now, and not only when it is known what is served."""
        values = {}
        for name in names:
            with contextlib.suppress(KeyError, AnsibleTemplateError):
                values[name] = self._templar.template(variables[name])
        return values

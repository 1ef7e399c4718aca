# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this plugin util is internal to the collection; its interface may change at any time.

"""What all queries of deployment_plan share: the form of a question, and the task that asks it.

A query has one or more forms. A task asks one query in one form, and each module of this package holds one query: the
arguments of its forms, and the functions that answer them.
"""

from __future__ import annotations

import dataclasses
import typing as t

from ansible.errors import AnsibleUndefinedVariable
from ansible.plugins.action import ActionBase
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._plan import nodes

Mapping = t.Mapping[str, t.Any]
Result = dict[str, t.Any]
Spec = dict[str, dict[str, t.Any]]

DICT: dict[str, t.Any] = {"type": "dict"}
EMPTY_DICT: dict[str, t.Any] = {"type": "dict", "default": {}}
REQUIRED_DICT: dict[str, t.Any] = {"type": "dict", "required": True}
REQUIRED_STR: dict[str, t.Any] = {"type": "str", "required": True}
REQUIRED_INT: dict[str, t.Any] = {"type": "int", "required": True}
PORTS: dict[str, t.Any] = {"type": "list", "elements": "str", "default": []}


@dataclasses.dataclass(frozen=True)
class Inputs:
    """Variables with a prefix, as the inputs of a role, by the rest of their names. A value is worked out when read."""

    prefix: str
    variables: Mapping
    template: t.Callable[[t.Any], t.Any]

    def __getitem__(self, name: str) -> t.Any:
        return self.template(self.variables[f"{self.prefix}_{name}"])

    def get(self, name: str, default: t.Any = None) -> t.Any:
        """Return an input, or the default if it is not set, or leads to something that is not."""
        try:
            return self[name]
        except (KeyError, AnsibleUndefinedVariable):
            return default


@dataclasses.dataclass(frozen=True)
class Run:
    """The run that asks, as a task on the Spark `host` sees it; `variables` has those of all hosts."""

    action: ActionBase
    host: str
    variables: Mapping

    @property
    def hosts(self) -> list[str]:
        """Name the Sparks of the deployment in the order of their ranks."""
        return nodes.members(self.variables)

    @property
    def recipe(self) -> Mapping:
        return t.cast("Mapping", self.variables["deployment_recipe"])

    @property
    def is_check(self) -> bool:
        return bool(self.action._task.check_mode)

    def inputs(self, prefix: str) -> Inputs:
        return Inputs(prefix, self.variables, self.action._templar.template)

    def refused(self, refusal: str) -> Result:
        """Return how the task ends: it fails if there is a reason to refuse."""
        return refused(refusal and f"{self.host}: {refusal}")


def refused(refusal: str) -> Result:
    """Return how a task ends whose refusal names its host already, or all of them."""
    return {"failed": True, "msg": refusal} if refusal else {}


class Form(t.NamedTuple):
    """One form of a query: its arguments, who answers, and what gathers the facts that it reads."""

    spec: Spec
    answer: t.Callable[[Run, t.Any], Result]
    source: str = ""


Forms = dict[str, Form]


def query_spec(forms: Forms) -> dict[str, t.Any]:
    """Return the argument spec of a query, which is asked in one of its forms."""
    names = list(forms)
    options = {name: {"type": "dict", "options": form.spec} for name, form in forms.items()}
    return {"type": "dict", "options": options, "mutually_exclusive": [names], "required_one_of": [names]}


def completed(variables: Mapping, arguments: Mapping) -> Result:
    """Complete a question by what is known of each Spark: `of_all` names a variable for an argument of its form."""
    asked = {name: value for name, value in arguments.items() if name != "of_all"}
    found = {part: nodes.of_all(variables, name) for part, name in (arguments.get("of_all") or {}).items()}
    return {
        query: {form: {**(own or {}), **found} for form, own in forms.items()} if isinstance(forms, dict) else forms
        for query, forms in asked.items()
    }

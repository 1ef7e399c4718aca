# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this plugin util is internal to the collection; its interface may change at any time.

"""Define the forms and the run that all queries of deployment_plan share.

A query has one or more forms, and a task uses one query in one form. A file `*_query.py` or `queries.py` has one query.
A form is the function that answers it. Its keyword parameters are the task's arguments, checked by their types.
"""

from __future__ import annotations

import collections.abc
import dataclasses
import inspect
import types
import typing as t

from ansible.errors import AnsibleUndefinedVariable
from ansible.plugins.action import ActionBase

from . import host_vars

Mapping = t.Mapping[str, t.Any]
Result = dict[str, t.Any]
# The default of an argument that is a mapping, for a signature; it cannot be written to.
EMPTY: Mapping = types.MappingProxyType({})


@dataclasses.dataclass(frozen=True)
class Inputs:
    """Variables with the prefix of a role, by the rest of their names. A value is templated when it is read."""

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
        return host_vars.cluster_hosts(self.variables)

    @property
    def recipe(self) -> Mapping:
        return t.cast("Mapping", self.variables["deployment_recipe"])

    @property
    def is_check(self) -> bool:
        return bool(self.action._task.check_mode)

    def inputs(self, prefix: str) -> Inputs:
        return Inputs(prefix, self.variables, self.action._templar.template)

    def refusal_result(self, refusal: str) -> Result:
        """Return how the task ends: it fails if there is a reason to refuse."""
        return refusal_result(refusal and f"{self.host}: {refusal}")


def refusal_result(refusal: str) -> Result:
    """Return how a task ends whose refusal names its host already, or all of them."""
    return {"failed": True, "msg": refusal} if refusal else {}


class Form(t.NamedTuple):
    """One form of a query: who answers, and what gathers the facts that it reads."""

    answer: t.Callable[..., Result]
    source: str = ""


Forms = dict[str, Form]


def argument(hint: t.Any) -> dict[str, t.Any]:
    """Return the argument spec of a type: a value of any type is read by the plan, whose errors name the inputs."""
    if hint is t.Any:
        return {"type": "raw"}
    if t.is_typeddict(hint):
        options = {name: {**argument(kind), "required": True} for name, kind in t.get_type_hints(hint).items()}
        return {"type": "dict", "options": options}
    origin, parts = t.get_origin(hint), t.get_args(hint)
    if origin in (types.UnionType, t.Union):
        return argument(parts[0])
    if origin is collections.abc.Sequence:
        return {"type": "list", "elements": argument(parts[0])["type"]}
    return {"type": "dict" if origin is collections.abc.Mapping else hint.__name__}


def plain(default: t.Any) -> t.Any:
    """Return a parameter's default as an argument spec has it."""
    return {} if default is EMPTY else [] if default == () else default


def form_spec(answer: t.Callable[..., t.Any]) -> dict[str, t.Any]:
    """Return the arguments of a form: the parameters of its function but for the first, which is the run."""
    hints, spec = t.get_type_hints(answer), {}
    for name, parameter in list(inspect.signature(answer).parameters.items())[1:]:
        missing = parameter.default is parameter.empty
        given = {"required": True} if missing else {"default": plain(parameter.default)}
        spec[name] = {**argument(hints[name]), **given}
    return {"type": "dict", "options": spec}


def query_spec(forms: Forms) -> dict[str, t.Any]:
    """Return the argument spec of a query, which is asked in one of its forms."""
    options = {name: form_spec(form.answer) for name, form in forms.items()}
    return {"type": "dict", "options": options, "mutually_exclusive": [list(forms)], "required_one_of": [list(forms)]}


def with_facts(variables: Mapping, arguments: Mapping) -> Result:
    """Complete a question by what is known of each Spark: `from_hosts` names a variable for an argument of its form."""
    args = {name: value for name, value in arguments.items() if name != "from_hosts"}
    result = {
        part: host_vars.read_from_hosts(variables, name) for part, name in (arguments.get("from_hosts") or {}).items()
    }
    return {
        query: {form: {**(own or {}), **result} for form, own in forms.items()} if isinstance(forms, dict) else forms
        for query, forms in args.items()
    }

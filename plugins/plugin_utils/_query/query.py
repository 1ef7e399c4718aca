# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this plugin util is internal to the collection; its interface may change at any time.

"""Define the forms and the run that all queries of deployment_plan share.

A query has one or more forms, and a task uses one query in one form. A file for each query has its forms as FORMS.
A form is the function that answers it. The task's arguments are the fields of its request, a dataclass, or else its
keyword parameters. The answer is a dataclass, too, whose fields the task registers.
"""

from __future__ import annotations

import collections.abc
import dataclasses
import inspect
import types
import typing as t

from ansible.errors import AnsibleUndefinedVariable
from ansible.plugins.action import ActionBase

from ...module_utils._data.typed import MismatchError, read_typed
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


class RefusedError(Exception):
    """A reason to refuse, as one sentence or more. What was found besides is the answer, which the task registers."""

    def __init__(self, refusal: str, answer: t.Any = None) -> None:
        super().__init__(refusal)
        self.answer = answer


def refusal_result(refusal: str) -> Result:
    """Return how a task ends whose refusal names its host already, or all of them."""
    return {"failed": True, "msg": refusal} if refusal else {}


class Form(t.NamedTuple):
    """One form of a query: who answers, and what gathers the facts that it reads."""

    answer: t.Callable[..., t.Any]
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
    if origin in (list, tuple, collections.abc.Sequence):
        return {"type": "list", "elements": argument(parts[0])["type"]}
    is_mapping = origin in (dict, collections.abc.Mapping) or dataclasses.is_dataclass(hint)
    return {"type": "dict" if is_mapping else hint.__name__}


def plain(default: t.Any) -> t.Any:
    """Return a default as an argument spec has it."""
    return {} if default is EMPTY else [] if default == () else default


def request_type(answer: t.Callable[..., t.Any]) -> t.Any:
    """Return the dataclass that a form reads; None if its function has the arguments as parameters."""
    hints = t.get_type_hints(answer)
    kinds = [hints[name] for name in list(inspect.signature(answer).parameters)[1:]]
    return kinds[0] if len(kinds) == 1 and dataclasses.is_dataclass(kinds[0]) else None


def arguments_of(answer: t.Callable[..., t.Any]) -> t.Iterator[tuple[str, t.Any, t.Any]]:
    """Yield name, type and default of each argument of a form; without a default it is required."""
    kind = request_type(answer)
    hints = t.get_type_hints(kind or answer)
    if kind is None:
        for name, parameter in list(inspect.signature(answer).parameters.items())[1:]:
            yield name, hints[name], dataclasses.MISSING if parameter.default is parameter.empty else parameter.default
        return
    for field in dataclasses.fields(kind):
        made = None if field.default_factory is dataclasses.MISSING else field.default_factory()
        yield field.name, hints[field.name], field.default if made is None else made


def form_spec(answer: t.Callable[..., t.Any]) -> dict[str, t.Any]:
    """Return the arguments of a form as an argument spec."""
    spec = {}
    for name, hint, default in arguments_of(answer):
        given = {"required": True} if default is dataclasses.MISSING else {"default": plain(default)}
        spec[name] = {**argument(hint), **given}
    return {"type": "dict", "options": spec}


def ask_form(form: Form, run: Run, arguments: Mapping) -> Result:
    """Return what a task registers: the answer, and why it fails if there is a reason to refuse.

    Facts have more keys than a request reads. Raises KeyError for a fact that is missing.
    """
    kind = request_type(form.answer)
    try:
        answer = form.answer(run, read_typed(kind, arguments, True)) if kind else form.answer(run, **arguments)
    except MismatchError as error:
        missing = next((each.path[-1] for each in error.mismatches if each.reason == "is missing"), None)
        raise KeyError(missing) if missing else ValueError(str(error)) from None
    except RefusedError as refused:
        return {**registered(refused.answer), "failed": True, "msg": str(refused)}
    return registered(answer)


def registered(answer: t.Any) -> Result:
    """Return an answer as Ansible registers it."""
    return dataclasses.asdict(answer) if dataclasses.is_dataclass(answer) else dict(answer or {})  # type: ignore[arg-type]


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

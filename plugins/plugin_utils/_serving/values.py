# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this plugin util is internal to the collection; its interface may change at any time.

"""Merge the values of a deployment: the recipe's, over them a benchmark's choice, over that the user's.

Ansible decides among the user's sources; a role's default is weaker than all of them. So an input that a benchmark
may choose has no default there, and one that has a value was set by the user.
"""

from __future__ import annotations

import importlib
import json
import os.path
import typing as t
from pathlib import Path

from ...module_utils._deployment.break_even import bounds_from
from .._benchmark.choice import applicable_choice
from .._engines.engine import AUTO
from .._engines.methods import ASSISTANT, CHOICES, METHODS, NONE, ROWS, draft_model
from .._engines.registry import engine_of, refused_method
from .._recipe.recipe import MOST_DRAFTED

Mapping = t.Mapping[str, t.Any]

# Labels of the values that are reported if they are not the recipe's.
FIELD_LABELS = {
    "image": "image",
    "target": "target model",
    "draft": "draft model",
    "method": "method",
    "draft_length": "draft length",
    "context": "context",
    "concurrency": "concurrency",
    "kv_cache": "KV cache",
    "family": "family of releases",
}
# The same for mappings and numbers of the user that have no value in the recipe.
OTHER_LABELS = {"options": "engine options", "environment": "environment", "port": "port"}
# The values that a benchmark chooses.
BENCHMARK_FIELDS = ("method", "draft_length")


def value_location(value: t.Any) -> str:
    """Return the source of a value as text; Ansible shows it only internally."""
    try:
        tags: t.Any = importlib.import_module("ansible._internal._datatag._tags")
        origin = tags.Origin.get_tag(value)
        path, line, description = origin.path, origin.line_num, str(origin.description or "")
    except (ImportError, AttributeError, TypeError):
        return "in the inventory, a playbook or with -e"
    if path:
        # The record stays on the Spark, where the controller's directories mean nothing.
        near = os.path.relpath(path)
        return f"in {Path(path).name if near.startswith('..') else near}{f', line {line}' if line else ''}"
    return "with -e" if "'-e'" in description else "in the inventory or a playbook"


def length_of(value: t.Any) -> int:
    """Return a draft length, which is text when it comes from the command line."""
    try:
        if isinstance(value, bool) or int(value) != float(value):
            raise ValueError
        length = int(value)
    except (TypeError, ValueError):
        raise ValueError(f"speculative_serve_draft_length is {value!r}, but must be a whole number") from None
    if length > MOST_DRAFTED:
        raise ValueError(f"speculative_serve_draft_length is {length}, but must be {MOST_DRAFTED} or less")
    return length


def check_name(name: str, value: t.Any, known: t.Sequence[str]) -> None:
    """Raise ValueError for an unknown name. In YAML, off and no are false, which is no method."""
    if value is not None and str(value) not in known:
        raise ValueError(f"{name} is {str(value)!r}, but must be one of {', '.join(known)}")


def applies(choice: Mapping, inputs: Mapping) -> bool:
    """Return whether a benchmark's choice applies. An explicit draft length means that speculation is desired."""
    other_method = inputs.get("method") not in (None, choice.get("method"))
    drafts_after_all = choice.get("method") == NONE and inputs.get("draft_length") is not None
    return bool(choice) and not other_method and not drafts_after_all


def sources(recipe: Mapping, inputs: Mapping, choice: Mapping) -> dict[str, tuple[str, t.Any, str]]:
    """Return by name the source of a value, the value, and the source in words. All others come from the recipe."""
    result: dict[str, tuple[str, t.Any, str]] = {}
    chosen = f"chosen by the benchmark of {choice.get('date')}"
    for name in BENCHMARK_FIELDS if choice else ():
        if name == "draft_length" or choice[name] != recipe.get(name):
            result[name] = ("benchmark", choice[name], chosen)
    for name, value in ((name, inputs[name]) for name in FIELD_LABELS if name in inputs):
        # The input of any other value defaults to the recipe's.
        is_set = value is not None if name in BENCHMARK_FIELDS else str(value) != str(recipe.get(name))
        if is_set:
            result[name] = ("given", value, f"given {value_location(value)}")
    return result


def unused_values(method: str, before: t.Any) -> dict[str, t.Any]:
    """Return the values that do not apply to a method: `none` has neither a draft model nor a draft length.

    An assistant is made for one method, so that of another method of the recipe is none.
    """
    if method == NONE:
        return {"draft": "", "draft_length": 0}
    kind = draft_model(method)
    foreign = kind == ASSISTANT and method != before
    return {"draft": ""} if method in METHODS and (kind is None or foreign) else {}


def leaves(value: t.Any, path: str = "") -> t.Iterator[str]:
    """Return the leaves of a mapping, a word each."""
    if isinstance(value, dict) and value:
        for name, one in value.items():
            yield from leaves(one, f"{path}.{name}" if path else str(name))
    else:
        yield f"{path} {json.dumps(value, default=str) if isinstance(value, (dict, list)) else value}".strip()


def overrides(recipe: Mapping, inputs: Mapping) -> dict[str, dict[str, str]]:
    """Return the inputs besides the values that differ from the recipe."""
    result = {}
    for name, word in OTHER_LABELS.items():
        value, its = inputs.get(name), recipe.get(name)
        if isinstance(value, dict):
            shared = its if isinstance(its, dict) and name != "options" else {}
            value = {key: one for key, one in value.items() if str(shared.get(key)) != str(one)}
        if value and str(value) != str(its):
            # A variable may hold a token: it is named only, since this is printed and recorded.
            parts = value if name == "environment" else leaves(value)
            says = f"{word} {', '.join(parts)}, given {value_location(inputs[name])}"
            result[name] = {"from": "given", "says": says}
    return result


def reverted_values(before: Mapping | None, values: Mapping, origins: Mapping, unused: t.Container[str]) -> list[str]:
    """Return the values that no longer differ from the recipe, compared with the record; without the unused ones."""
    if not before:
        return []
    words = {**FIELD_LABELS, **OTHER_LABELS}
    lost = [name for name in before.get("origins") or {} if name in words and name not in origins]
    lost = [name for name in lost if name not in unused]
    known = {name: before[name] for name in lost if name in FIELD_LABELS and name in before}
    return [
        f"{words[name]} {known[name]} -> {values.get(name)}, as the recipe has it"
        if name in known and known[name] != values.get(name)
        else f"{words[name]} as the recipe has it again"
        for name in lost
    ]


def merge(
    recipe: Mapping,
    inputs: Mapping,
    kept: Mapping | None = None,
    models: t.Mapping[str, Mapping] | None = None,
    before: Mapping | None = None,
) -> dict[str, t.Any]:
    """Return the values and their sources.

    `benchmark` is the choice that was used, or empty. `break_even` has the acceptance lengths, best and worst, from
    which speculation pays; None without speculation or figures. `origins` has by name the source (benchmark or given)
    of each value that is not the recipe's, also in words; `lines` are the same for people.
    """
    method = str(inputs.get("method") or "")
    if method in ROWS and (refusal := refused_method(engine_of(recipe), method)):
        raise ValueError(f"speculative_serve_method: {refusal}")
    # Empty means a method in the engine options.
    check_name("speculative_serve_method", inputs.get("method") if inputs.get("method") != "" else None, CHOICES)
    check_name("speculative_serve_family", inputs.get("family"), (AUTO, *engine_of(recipe).families))
    choice = applicable_choice(kept, recipe, str(inputs["image"]), models or {})
    result = sources(recipe, inputs, choice if applies(choice, inputs) else {})
    values = {
        **{name: recipe.get(name) for name in FIELD_LABELS},
        **{name: value for name, (_who, value, _said) in result.items()},
    }
    values["draft_length"] = length_of(values["draft_length"] or 0)
    if values["method"] not in ("", NONE) and "draft_length" in result and not values["draft_length"]:
        raise ValueError(
            f"speculative_serve_draft_length is 0, but method {values['method']} needs 1 or more. Set it to 1 or more, "
            "or use -e speculation=off"
        )
    chosen = result.get("draft_length", ("",))[0] == "benchmark"
    given_draft = "draft" in result
    without = unused_values(values["method"], values["method"] if given_draft else recipe.get("method"))
    values.update(without)
    result = {name: source for name, source in result.items() if name not in without}
    origins = {}
    for name in (name for name in FIELD_LABELS if name in result):
        who, _value, said = result[name]
        what = (
            "no speculation"
            if (name, values[name]) == ("method", NONE)
            else f"{FIELD_LABELS[name]} {values[name] if name != 'method' else values[name] or 'of its own'}"
        )
        origins[name] = {"from": who, "says": f"{what}, {said}"}
    if recipe.get("speculation") is False and values["method"] == NONE:
        origins.setdefault("method", {"from": "given", "says": "no speculation, given with -e speculation=off"})
    origins.update(overrides(recipe, inputs))
    return {
        **values,
        "benchmark": choice if chosen else {},
        "break_even": bounds_from(values["draft_length"], inputs.get("break_even")) if values["method"] else None,
        "break_even_figures": inputs.get("break_even") or {},
        "origins": origins,
        "lines": [
            *(f"not from the recipe: {origin['says']}" for origin in origins.values()),
            *(f"changed: {words}" for words in reverted_values(before, values, origins, without)),
        ],
    }

# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import dataclasses
import datetime
import json
import socket
import typing as t
from pathlib import Path

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display

from ..module_utils._deployment.records import LONGEST_LEASE_S
from ..plugin_utils._benchmark import document as documents
from ..plugin_utils._benchmark import plan as planning
from ..plugin_utils._benchmark.analyse import analyse
from ..plugin_utils._benchmark.choice import choice_record, verdict
from ..plugin_utils._benchmark.comparison import compare
from ..plugin_utils._benchmark.page import page
from ..plugin_utils._benchmark.plots import WITHOUT_MATPLOTLIB, is_available
from ..plugin_utils._benchmark.ranking import is_same_way, rank
from ..plugin_utils._benchmark.table import comparison_table, ranking_table, table, wrap_line
from ..plugin_utils._lease import run_state
from ..plugin_utils._recipe.recipe import RECIPES, RecipeError, find, load

display = Display()

LEAST = {
    "speculative_benchmark_max_tokens": 1,
    "speculative_benchmark_repetitions": 1,
    "speculative_benchmark_warmup": 0,
    "speculative_benchmark_prompt_lengths": 1,
}
REPORT: dict[str, dict[str, t.Any]] = {
    "results": {"type": "dict"},
    "record": {"type": "dict"},
    "plan": {"type": "dict"},
    "machine": {"type": "dict"},
    "html_path": {"type": "path", "required": True},
    "json_path": {"type": "path", "required": True},
    "compare_with": {"type": "list", "elements": "path", "default": []},
}
# The operations, of which a task performs one.
OPERATIONS: dict[str, dict[str, t.Any]] = {
    "plan": {"type": "dict", "options": planning.ARGUMENTS},
    "report": {
        "type": "dict",
        "options": REPORT,
        "required_together": [("results", "record", "plan", "machine")],
    },
}


class ActionModule(ActionBase):
    """Plan the benchmark on the controller, which has the prompts, and write the report there."""

    _requires_connection = False
    _supports_check_mode = True

    def run(self, tmp: str | None = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        super().run(tmp, task_vars)
        variables = task_vars or {}
        host = str(variables.get("inventory_hostname", ""))
        _result, given = self.validate_argument_spec(
            argument_spec=OPERATIONS, mutually_exclusive=[list(OPERATIONS)], required_one_of=[list(OPERATIONS)]
        )
        try:
            if given["plan"] is not None:
                return {"changed": False, **plan(host, given["plan"], variables)}
            return {"changed": False, **report(given["report"], variables)}
        except planning.BenchmarkError as error:
            raise AnsibleActionFail(f"{host}: {error}") from None
        except (RecipeError, documents.DocumentError) as error:
            raise AnsibleActionFail(str(error)) from None


def plan(host: str, given: t.Mapping[str, t.Any], variables: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """Return the plan, with the points to measure and the recipe."""
    planned = points(host, given)
    path = find(given["recipe"], RECIPES, Path.cwd()) if given["recipe"] is not None else None
    # The winner is served as what was measured is.
    recipe = load(path, given["record"].get("variant") or "") if path else {}
    if recipe:
        planning.check_recipe(recipe, given["record"], variables.get("ansible_play_hosts_all") or [])
    return {**planned, "recipe": recipe, "path": str(path or "")}


def points(host: str, inputs: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """Return the points to measure, with their options."""
    for name, least in LEAST.items():
        value = inputs[name.removeprefix("speculative_benchmark_")]
        if any(one < least for one in (value if isinstance(value, list) else [value])):
            raise planning.BenchmarkError(f"{name} is too small: {value}; give {least} or more.")
    lease_s = inputs["sweep"].get("lease_s")
    if lease_s is not None and not 1 <= lease_s <= LONGEST_LEASE_S:
        raise planning.BenchmarkError(
            f"speculative_benchmark_lease_s is {lease_s}, but must be from 1 to {LONGEST_LEASE_S}."
        )
    settings = planning.Settings(
        inputs["max_tokens"], inputs["repetitions"], inputs["warmup"], tuple(inputs["prompt_lengths"])
    )
    path = Path.cwd() / inputs["prompts"]
    try:
        prompts = planning.read_prompts(path.read_text(encoding="utf-8"), str(path))
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is no UTF-8 text"
        raise planning.BenchmarkError(
            f"The prompts {path} cannot be read ({reason}); give a file of JSON lines."
        ) from None
    # Written in a playbook, values are of Ansible's own types, which YAML does not write.
    record, choice = json.loads(json.dumps([inputs["record"], inputs["choice"] or {}]))
    wanted = planning.sweep_points(inputs["draft_lengths"], inputs["quick"], int(record.get("draft_length") or 0))
    now = datetime.datetime.now().astimezone()
    measured = planning.points(record, choice, wanted, prompts, settings)
    told = {**inputs["sweep"], "seconds_a_load": inputs["load_s"]}
    return {
        "points": measured,
        "prompts": prompts,
        "task": planning.task(record, measured, prompts, settings, told),
        "key": planning.key(measured),
        "settings": dataclasses.asdict(settings),
        "speculative_config": planning.speculation_of(record, choice),
        "collection_version": planning.collection_version(),
        "report_name": planning.report_name(host, record, now),
        "lines": planning.announcement(host, record, wanted, len(prompts), settings, inputs["load_s"], now),
    }


def report(inputs: t.Mapping[str, t.Any], variables: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """Judge the results, write them as a page and as JSON, and print a summary."""
    html, document = (Path.cwd() / inputs[name] for name in ("html_path", "json_path"))
    if html == document:
        raise documents.DocumentError(f"html_path and json_path are the same file, {html}; name two.")
    hosts, users = hosts_of(variables), users_of(variables)
    earlier = [earlier_report(path, document) for path in inputs["compare_with"] if path]
    if inputs["results"] is None:
        documents.check_writable([html, document])
        return {}
    others = [documents.redacted(one, hosts, users) for one in earlier]
    told = documents.redacted(build_report(inputs), hosts, users)
    before = others[0] if len(others) == 1 and is_same_way(others[0], told) else None
    ranking = rank([told, *others]) if others and before is None else None
    lines = table(told)
    if before is not None:
        lines += ["", *comparison_table(compare(before, told))]
    if ranking is not None:
        lines += ["", *ranking_table(ranking)]
    if not is_available():
        lines += ["", *wrap_line(WITHOUT_MATPLOTLIB)]
    text = json.dumps(told, indent=2, allow_nan=False) + "\n"
    replaced = [path for path in (html, document) if path.exists()]
    documents.write({html: page(told, before, ranking), document: text})
    lines += ["", f"  The report: {html}", f"  The same as JSON: {document}"]
    lines += [f"  It replaced an earlier {path.name}" for path in replaced]
    # One call, so that the lines of hosts that report at once are not mixed.
    display.display("\n" + "\n".join(lines) + "\n")
    return {"report": told, "lines": lines, **verdict_result(told, inputs)}


def earlier_report(path: str, document: Path) -> documents.Report:
    """Return a report to compare with."""
    earlier = Path.cwd() / path
    report = documents.read(earlier)
    if document.exists() and earlier.samefile(document):
        raise documents.DocumentError(
            f"The report to compare with and the new report are the same file, {earlier}. Copy the old one and compare "
            "with the copy."
        )
    return report


def build_report(inputs: t.Mapping[str, t.Any]) -> documents.Report:
    """Return the report of the results."""
    record, plan, machine, results = (inputs[name] for name in ("record", "plan", "machine", "results"))
    today = datetime.datetime.now(datetime.timezone.utc).date().isoformat()
    try:
        return analyse(results, documents.context(record, plan, machine, results, today))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        reason = f"{type(error).__name__}: {error}" if type(error).__module__ == "builtins" else str(error)
        raise documents.DocumentError(f"The results of the benchmark cannot be evaluated: {reason}") from None


def verdict_result(report: documents.Report, inputs: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """Return the verdict and the choice to keep, why there is nothing to keep, and how the benchmark ended."""
    plan, results = inputs["plan"], inputs["results"]
    recipe = plan.get("recipe")
    return {
        "chosen": choice_record(report, inputs["record"], recipe, plan["speculative_config"]) if recipe else {},
        "verdict": verdict(report, inputs["record"]),
        "again": report["verdict"].get("reason", ""),
        "not_restored": "" if results["restored"] else results["not_restored"],
    }


def hosts_of(variables: t.Mapping[str, t.Any]) -> set[str]:
    """Return all names of the hosts and of this machine."""
    groups = variables.get("groups") or {}
    return {*documents.host_names([variables]), *map(str, groups.get("all", [])), socket.gethostname()}


def users_of(variables: t.Mapping[str, t.Any]) -> set[str]:
    """Return all names of the users."""
    return {*documents.user_names([variables]), run_state.user()}

# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import base64
import datetime
import typing as t
from pathlib import Path

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display

from ..module_utils._deployment.lines import fit_lines, section
from ..module_utils._deployment.records import is_worker
from ..plugin_utils._benchmark.document import DocumentError
from ..plugin_utils._query.host_vars import with_hostvars
from ..plugin_utils._query.query import Mapping, Run, form_spec, with_facts
from ..plugin_utils._report import access, advice, field, preflight, status, summary
from ..plugin_utils._report.document import Document, ReportError
from ..plugin_utils._report.story.screen import Report
from ..plugin_utils._serving import recipes
from ..plugin_utils._serving.differences import differences
from ..plugin_utils._serving.memory import tightest

display = Display()


class Printed(t.NamedTuple):
    """The lines of a report, also in short, its part of the document, and the reason why its task fails."""

    lines: list[str]
    short: str | None = None
    document: Mapping | None = None
    problems: t.Sequence[str] = ()
    refusal: str = ""


def sparks_of(run: Run) -> tuple[str, ...]:
    """Return the Sparks of the inventory."""
    return tuple((run.variables.get("groups") or {}).get("sparks") or ())


def report_memory_plan(_run: Run, plans: Mapping) -> Printed:
    """Print the plan of the Spark with the least free memory."""
    return Printed(tightest(plans.values()))


def report_status(run: Run, statuses: Mapping) -> Printed:
    """Print the table of one Spark, whose advice depends on what all Sparks do. One may not have been reached."""
    seen = {name: status.status_of(facts) for name, facts in statuses.items() if "disk" in (facts or {})}
    around, reach = advice.Around(sparks_of(run), seen), access.reach_of(run.action, run.variables)
    lines = status.render(run.host, seen[run.host], around, reach) if run.host in seen else []
    return with_differences(run, lines, statuses)


def report_diagnosis(run: Run, lines: t.Sequence[str], diagnoses: Mapping) -> Printed:
    """Print the diagnosis of one Spark."""
    return with_differences(run, fit_lines(lines), diagnoses)


def with_differences(run: Run, lines: list[str], facts: Mapping) -> Printed:
    """Add the findings that only a comparison of the Sparks shows."""
    between = differences(facts, run.host)
    title = "Of the two Sparks together" if len(facts) == 2 else "Of the Sparks together"
    return Printed(lines + section(title, between), document={"between": between})


def report_summary(run: Run, record: Mapping, endpoint: Mapping | None) -> Printed:
    """Print the summary of a recorded deployment. A worker has none: its head reports it."""
    if is_worker(record):
        return Printed([])
    offered = access.endpoint_of(endpoint)
    whole = summary.render(run.host, record, access.reach_of(run.action, run.variables), offered)
    return Printed(whole.splitlines(), summary.short(run.host, record, offered))


def report_preflight(run: Run, title: str, image: str, hosts: Mapping, table: bool = True) -> Printed:
    """Print the preflight's results, and fail with its problems."""
    try:
        result = {host: preflight.findings(host, facts or {}, list(hosts)) for host, facts in hosts.items()}
    except ValueError as error:
        raise AnsibleActionFail(str(error)) from None
    if table:
        problems = preflight.all_problems(result)
        refusal = preflight.refusal(problems, "nothing was changed") if problems else ""
        return Printed(preflight.render(title, image, result), problems=problems, refusal=refusal)
    problems = preflight.refusals(result)
    # Once for all.
    notes = preflight.worth_knowing(result) if run.host == next(iter(hosts)) and not problems else []
    return Printed(notes, problems=problems, refusal=preflight.refusal(problems) if problems else "")


def report_recipes(
    run: Run, named: Mapping, docker: Mapping, snapshot: Mapping, reserve_gib: t.Any, problems: t.Sequence[str] = ()
) -> Printed:
    """Print which recipes fit on a Spark."""
    result = recipes.Found(named, problems, docker, snapshot, len(sparks_of(run)), reserve_gib)
    return Printed(recipes.render(run.host, result), document=recipes.facts(result))


def report_field(run: Run, found: Mapping, path: str, names: bool = False) -> Printed:
    """Write what every Spark has found into one page, and into one JSON file; not in check mode."""
    known = [run.variables["hostvars"][host] for host in found]
    now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    shown = field.report(field.redacted(found, known, names), now, names)
    lines, stem = field.lines(shown), Path.cwd() / path
    if run.is_check:
        return Printed(lines)
    try:
        field.write(shown, stem)
    except DocumentError as error:
        raise AnsibleActionFail(str(error)) from None
    return Printed([*lines, f"  The report: {stem}.html", f"  The same as JSON: {stem}.json"])


def reveal_secrets(run: Run, paths: Mapping, what: str = "key") -> Printed:
    """Show small secret files of the host on the screen, and nowhere else."""
    # Without it, what the connection brings is shown at a higher verbosity, and that goes to the log as well.
    if not run.action._task.no_log:
        raise AnsibleActionFail(
            "reveal shows secrets on the screen only, but no_log is not set. Set 'no_log: true' on the task."
        )
    lines = []
    for name, path in paths.items() if not run.is_check else ():
        result = run.action._execute_module("ansible.legacy.slurp", module_args={"src": path}, task_vars=run.variables)
        if result.get("failed"):
            raise AnsibleActionFail(f"The {what} '{name}' in {path} cannot be read.")
        secret = base64.b64decode(result["content"]).decode("utf-8", "replace").strip()
        lines += [f"{run.host}: new {what} '{name}', shown this once:", f"    {secret}", f"  kept in {path}"]
    if lines:
        display.display("\n" + "\n".join(lines) + "\n", screen_only=True)
    return Printed([])


# Each report with the function whose parameters are its options.
FORMS: dict[str, t.Callable[..., Printed]] = {
    "memory_plan": report_memory_plan,
    "status": report_status,
    "diagnosis": report_diagnosis,
    "preflight": report_preflight,
    "recipes": report_recipes,
    "field_report": report_field,
    "reveal": reveal_secrets,
}
# The kinds of reports, of which a task prints one.
REPORTS: dict[str, dict[str, t.Any]] = {
    "lines": {"type": "list", "elements": "str"},
    "summary": {"type": "dict"},
    **{name: form_spec(report) for name, report in FORMS.items()},
}
BESIDES: dict[str, dict[str, t.Any]] = {
    "endpoint": {"type": "dict"},
    "document": {"type": "dict"},
    "json_path": {"type": "path"},
    "unreachable": {"type": "list", "elements": "str", "default": []},
}


def print_report(run: Run, inputs: Mapping) -> Printed:
    """Print the report of a task, which has one."""
    if inputs["lines"] is not None:
        return Printed(fit_lines(inputs["lines"]))
    if inputs["summary"] is not None:
        return report_summary(run, inputs["summary"], inputs["endpoint"])
    ((report, options),) = ((report, inputs[name]) for name, report in FORMS.items() if inputs[name] is not None)
    return report(run, **options)


def keep_document(host: str, inputs: Mapping, further: Mapping | None) -> None:
    """Write the facts of a host, with further ones of its report, into the JSON file."""
    if not inputs["json_path"] or (inputs["document"] is None and further is None):
        return
    # The facts of an earlier run may be outdated.
    entries = {name: {"unreachable": True} for name in inputs["unreachable"]}
    entries[host] = {**(inputs["document"] or {}), **(further or {})}
    try:
        Document(Path.cwd() / inputs["json_path"]).merge(entries)
    except ReportError as error:
        raise AnsibleActionFail(str(error)) from None


class ActionModule(ActionBase):
    """Print plain text, where a debug task would quote it, and keep the document."""

    _supports_check_mode = True

    def run(self, tmp: str | None = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        super().run(tmp, task_vars)
        variables = dict(task_vars or {})
        known = with_hostvars(variables, self._task.args, self._templar.template)
        args = dict(self._task.args)
        from_hosts = args.pop("from_hosts", None)
        reports = {name: args[name] for name in FORMS if name in args}
        self._task.args = {**args, **with_facts(known, {"report": reports, "from_hosts": from_hosts})["report"]}
        _result, inputs = self.validate_argument_spec(
            argument_spec={**REPORTS, **BESIDES}, mutually_exclusive=[list(REPORTS)], required_one_of=[list(REPORTS)]
        )
        run = Run(self, str(variables.get("inventory_hostname", "localhost")), variables)
        printed = print_report(run, inputs)
        if printed.lines:
            # One call, so that the lines of hosts that report at once are not mixed.
            brief = None if printed.short is None else f"\n{printed.short}\n"
            display.display(Report("\n" + "\n".join(printed.lines) + "\n", brief))
        keep_document(run.host, inputs, printed.document)
        failed = {"failed": True, "msg": printed.refusal} if printed.problems else {}
        return {"changed": False, "lines": printed.lines, "problems": list(printed.problems), **failed}

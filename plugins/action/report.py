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
from ..plugin_utils._plan import recipes
from ..plugin_utils._plan.differences import differences
from ..plugin_utils._plan.host_vars import resolved, with_hostvars
from ..plugin_utils._plan.memory import tightest
from ..plugin_utils._report import access, advice, field, preflight, status, summary
from ..plugin_utils._report.document import Document, ReportError
from ..plugin_utils._report.story.screen import Report

display = Display()

# The kinds of reports, of which a task prints one.
REPORTS: dict[str, dict[str, t.Any]] = {
    "lines": {"type": "list", "elements": "str"},
    "plans": {"type": "dict"},
    "statuses": {"type": "dict"},
    "summary": {"type": "dict"},
    "preflight": {
        "type": "dict",
        "options": {
            "title": {"type": "str", "required": True},
            "image": {"type": "str", "required": True},
            "hosts": {"type": "dict", "required": True},
            "table": {"type": "bool", "default": True},
        },
    },
    "recipes": {
        "type": "dict",
        "options": {
            "named": {"type": "dict", "required": True},
            "problems": {"type": "list", "elements": "str", "default": []},
            "docker": {"type": "dict", "required": True},
            "snapshot": {"type": "dict", "required": True},
            "reserve_gib": {"type": "raw", "required": True},
        },
    },
    "field_report": {
        "type": "dict",
        "options": {
            "found": {"type": "dict", "required": True},
            "path": {"type": "path", "required": True},
            "names": {"type": "bool", "default": False},
        },
    },
    "reveal": {
        "type": "dict",
        "options": {"paths": {"type": "dict", "required": True}, "what": {"type": "str", "default": "key"}},
    },
}
BESIDES: dict[str, dict[str, t.Any]] = {
    "title": {"type": "str", "default": "Besides"},
    "items": {"type": "list", "elements": "str", "default": []},
    "compare": {"type": "dict"},
    "endpoint": {"type": "dict"},
    "document": {"type": "dict"},
    "json_path": {"type": "path"},
    "unreachable": {"type": "list", "elements": "str", "default": []},
}


def inventory_of(variables: t.Mapping[str, t.Any]) -> tuple[str, ...]:
    """Return the Sparks of the inventory."""
    return tuple((variables.get("groups") or {}).get("sparks") or ())


class ActionModule(ActionBase):
    """Print plain text, where a debug task would quote it, and keep the document."""

    _supports_check_mode = True

    def run(self, tmp: str | None = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        super().run(tmp, task_vars)
        variables = dict(task_vars or {})
        host = str(variables.get("inventory_hostname", "localhost"))
        seen = with_hostvars(variables, self._task.args, self._templar.template)
        self._task.args = resolved(seen, self._task.args, [*REPORTS, "compare"])
        _result, given = self.validate_argument_spec(
            argument_spec={**REPORTS, **BESIDES}, mutually_exclusive=[list(REPORTS)], required_one_of=[list(REPORTS)]
        )
        if given["reveal"] is not None:
            return self._reveal(host, variables, **given["reveal"])
        lines = fit_lines(given["lines"] or [])
        problems: list[str] = []
        refusal, short = "", None
        if given["plans"] is not None:
            lines = tightest(given["plans"].values())
        if given["statuses"] is not None:
            lines = self._status(host, variables, given["statuses"])
        if given["summary"] is not None:
            lines, short = self._summary(host, variables, given["summary"], given["endpoint"])
        if given["preflight"] is not None:
            lines, problems, refusal = self._preflight(host, **given["preflight"])
        if given["recipes"] is not None:
            found = recipes.Found(sparks=len(inventory_of(variables)), **given["recipes"])
            lines, given = recipes.render(host, found), {**given, "document": recipes.facts(found)}
        if given["field_report"] is not None:
            lines = self._field(variables, **given["field_report"])
        if given["compare"] is not None:
            given = {**given, **self._cluster_differences(host, **{key: given[key] for key in ("compare", "document")})}
        lines = lines + section(given["title"], given["items"])
        if lines:
            # One call, so that the lines of hosts that report at once are not mixed.
            brief = None if short is None else f"\n{short}\n"
            display.display(Report("\n" + "\n".join(lines) + "\n", brief))
        self._keep(host, given)
        failed = {"failed": True, "msg": refusal} if problems else {}
        return {"changed": False, "lines": lines, "problems": problems, **failed}

    def _status(self, host: str, variables: dict[str, t.Any], statuses: dict[str, t.Any]) -> list[str]:
        """Return the table of one Spark, whose advice depends on what all Sparks do.

        One may not have been reached.
        """
        seen = {name: status.status_of(facts) for name, facts in statuses.items() if "disk" in (facts or {})}
        around, reach = advice.Around(inventory_of(variables), seen), access.reach_of(self, variables)
        return status.render(host, seen[host], around, reach) if host in seen else []

    @staticmethod
    def _cluster_differences(
        host: str, compare: dict[str, t.Any], document: dict[str, t.Any] | None
    ) -> dict[str, t.Any]:
        """Return the findings that only a comparison of the Sparks shows."""
        between = differences(compare, host)
        title = "Of the two Sparks together" if len(compare) == 2 else "Of the Sparks together"
        return {"title": title, "items": between, "document": {**(document or {}), "between": between}}

    @staticmethod
    def _keep(host: str, inputs: t.Mapping[str, t.Any]) -> None:
        if not inputs["json_path"] or inputs["document"] is None:
            return
        # The facts of an earlier run may be outdated.
        lost = {name: {"unreachable": True} for name in inputs["unreachable"] if name != host}
        try:
            Document(Path.cwd() / inputs["json_path"]).merge({**lost, host: inputs["document"]})
        except ReportError as error:
            raise AnsibleActionFail(str(error)) from None

    def _summary(
        self, host: str, variables: dict[str, t.Any], record: dict[str, t.Any], endpoint: dict[str, t.Any] | None
    ) -> tuple[list[str], str | None]:
        """Return the summary of a recorded deployment, whole and in short.

        Empty for a worker, which its head reports.
        """
        if is_worker(record):
            return [], None
        offered = access.endpoint_of(endpoint)
        whole = summary.render(host, record, access.reach_of(self, variables), offered)
        return whole.splitlines(), summary.short(host, record, offered)

    @staticmethod
    def _preflight(
        host: str, title: str, image: str, hosts: dict[str, t.Any], table: bool
    ) -> tuple[list[str], list[str], str]:
        """Return the preflight report, its problems, and the message of a run that fails with them."""
        try:
            result = {host: preflight.findings(host, facts or {}, list(hosts)) for host, facts in hosts.items()}
        except ValueError as error:
            raise AnsibleActionFail(str(error)) from None
        if table:
            problems = preflight.all_problems(result)
            refusal = preflight.refusal(problems, "nothing was changed") if problems else ""
            return preflight.render(title, image, result), problems, refusal
        problems = preflight.refusals(result)
        # Once for all.
        notes = preflight.worth_knowing(result) if host == next(iter(hosts)) and not problems else []
        return notes, problems, preflight.refusal(problems) if problems else ""

    def _field(self, variables: dict[str, t.Any], found: dict[str, t.Any], path: str, names: bool) -> list[str]:
        """Write what every Spark has found into one page, and into one JSON file; not in check mode."""
        known = [variables["hostvars"][host] for host in found]
        now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
        shown = field.report(field.redacted(found, known, names), now, names)
        lines, stem = field.lines(shown), Path.cwd() / path
        if self._task.check_mode:
            return lines
        try:
            field.write(shown, stem)
        except DocumentError as error:
            raise AnsibleActionFail(str(error)) from None
        return [*lines, f"  The report: {stem}.html", f"  The same as JSON: {stem}.json"]

    def _reveal(self, host: str, variables: dict[str, t.Any], paths: dict[str, str], what: str) -> dict[str, t.Any]:
        """Show small secret files of the host on the screen, and nowhere else."""
        # Without it, what the connection brings is shown at a higher verbosity, and that goes to the log as well.
        if not self._task.no_log:
            raise AnsibleActionFail(
                "reveal shows secrets on the screen only, but no_log is not set. Set 'no_log: true' on the task."
            )
        if self._task.check_mode:
            return {"changed": False}
        lines = []
        for name, path in paths.items():
            result = self._execute_module("ansible.legacy.slurp", module_args={"src": path}, task_vars=variables)
            if result.get("failed"):
                raise AnsibleActionFail(f"The {what} '{name}' in {path} cannot be read.")
            secret = base64.b64decode(result["content"]).decode("utf-8", "replace").strip()
            lines += [
                f"{host}: new {what} '{name}', shown this once:",
                f"    {secret}",
                f"  kept in {path}",
            ]
        if lines:
            display.display("\n" + "\n".join(lines) + "\n", screen_only=True)
        return {"changed": False}

# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import datetime
import getpass
import json
import socket
import typing as t
from pathlib import Path

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._benchmark import document as documents
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._benchmark.analyse import analyse
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._benchmark.choice import chosen
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._benchmark.comparison import compare
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._benchmark.page import page
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._benchmark.plots import (
    WITHOUT_MATPLOTLIB,
    is_available,
)
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._benchmark.table import (
    comparison_table,
    table,
    wrapped,
)

display = Display()

HOST_NAMES = ("inventory_hostname", "ansible_host", "ansible_ssh_host")
USER_NAMES = ("ansible_user", "ansible_ssh_user")
HOST_FACTS = ("hostname", "nodename", "fqdn")


class ActionModule(ActionBase):
    """Judge what was measured, keep it as a page and as JSON, and print it in short."""

    _requires_connection = False
    _supports_check_mode = True

    def run(self, tmp: str | None = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        super().run(tmp, task_vars)
        _result, arguments = self.validate_argument_spec(
            argument_spec={
                "results": {"type": "dict"},
                "record": {"type": "dict"},
                "plan": {"type": "dict"},
                "machine": {"type": "dict"},
                "html_path": {"type": "path", "required": True},
                "json_path": {"type": "path", "required": True},
                "compare_with": {"type": "path"},
            },
            required_together=[("results", "record", "plan", "machine")],
        )
        try:
            return {"changed": False, **self.report(arguments, task_vars or {})}
        except documents.DocumentError as error:
            raise AnsibleActionFail(str(error)) from None

    def report(self, arguments: dict[str, t.Any], task_vars: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
        html, document = (Path.cwd() / arguments[name] for name in ("html_path", "json_path"))
        if html == document:
            raise documents.DocumentError(f"html_path and json_path are the same file, {html}; name two.")
        hosts, users = hosts_of(task_vars), users_of(task_vars)
        earlier = self.earlier(arguments["compare_with"], document)
        if arguments["results"] is None:
            documents.check_writable([html, document])
            return {}
        before = None if earlier is None else documents.redacted(earlier, hosts, users)
        report = documents.redacted(self.analysed(arguments), hosts, users)
        lines = table(report)
        if before is not None:
            lines += ["", *comparison_table(compare(before, report))]
        if not is_available():
            lines += ["", *wrapped(WITHOUT_MATPLOTLIB)]
        text = json.dumps(report, indent=2, allow_nan=False) + "\n"
        documents.write({html: page(report, before), document: text})
        lines += ["", f"  The report: {html}", f"  The same as JSON: {document}"]
        # One call, so that the lines of hosts that report at once are not mixed.
        display.display("\n" + "\n".join(lines) + "\n")
        return {"report": report, "lines": lines, **self.judged(report, arguments)}

    @staticmethod
    def earlier(path: str | None, document: Path) -> documents.Report | None:
        """The report to compare with, if one is wanted."""
        if not path:
            return None
        earlier = Path.cwd() / path
        report = documents.read(earlier)
        if document.exists() and earlier.samefile(document):
            raise documents.DocumentError(
                f"The report to compare with, {earlier}, is where the new one is written: copy it, and compare with "
                "the copy."
            )
        return report

    @staticmethod
    def analysed(given: t.Mapping[str, t.Any]) -> documents.Report:
        record, plan, machine, results = (given[name] for name in ("record", "plan", "machine", "results"))
        today = datetime.datetime.now(datetime.timezone.utc).date().isoformat()
        try:
            return analyse(results, documents.context(record, plan, machine, results, today))
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            reason = f"{type(error).__name__}: {error}" if type(error).__module__ == "builtins" else str(error)
            raise documents.DocumentError(f"What the benchmark has measured cannot be judged: {reason}") from None

    @staticmethod
    def judged(report: documents.Report, given: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
        """What is kept of the verdict, where the plan has a recipe to choose for, and how the benchmark has ended."""
        plan, results = given["plan"], given["results"]
        recipe = plan.get("recipe")
        return {
            "chosen": chosen(report, given["record"], recipe, plan["speculative_config"]) if recipe else {},
            "not_restored": "" if results["restored"] else results["not_restored"],
        }


def hosts_of(task_vars: t.Mapping[str, t.Any]) -> set[str]:
    """By what names the hosts and this machine may be known."""
    facts = task_vars.get("ansible_facts") or {}
    found = {*(task_vars.get(name) for name in HOST_NAMES), *(facts.get(name) for name in HOST_FACTS)}
    found |= {*(task_vars.get("groups") or {}).get("all", []), socket.gethostname()}
    return {str(name) for name in found if name}


def users_of(task_vars: t.Mapping[str, t.Any]) -> set[str]:
    facts = task_vars.get("ansible_facts") or {}
    found = {*(task_vars.get(name) for name in USER_NAMES), facts.get("user_id"), getpass.getuser()}
    return {str(name) for name in found if name}

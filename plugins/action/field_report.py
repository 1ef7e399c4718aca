# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import datetime
import json
import typing as t
from pathlib import Path

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._benchmark import document as documents
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._report.field import lines, page, report

display = Display()

ADDRESSES = ("ansible_host", "ansible_ssh_host")
USERS = ("ansible_user", "ansible_ssh_user")


class ActionModule(ActionBase):
    """Write what every host of the play has found into one page, and into one JSON file."""

    _requires_connection = False
    _supports_check_mode = True

    def run(self, tmp: str | None = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        super().run(tmp, task_vars)
        _result, arguments = self.validate_argument_spec(
            argument_spec={
                "variable": {"type": "str", "required": True},
                "path": {"type": "path", "required": True},
                "names": {"type": "bool", "default": False},
            },
        )
        every = task_vars or {}
        hosts = {host: every["hostvars"][host] for host in every["ansible_play_hosts_all"]}
        found = {host: (known.get(arguments["variable"]) or {}).get("rows") or [] for host, known in hosts.items()}
        now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
        hidden = [] if arguments["names"] else names_of(hosts)
        # Before the Sparks get the names that they have in the report, which an inventory may have, too.
        safe = {
            host: documents.redacted({"image": image_of(rows), "rows": rows}, hidden, users_of(hosts))["rows"]
            for host, rows in found.items()
        }
        shown = report(safe, now, arguments["names"])
        stem = Path.cwd() / arguments["path"]
        said = lines(shown)
        try:
            if not self._task.check_mode:
                files = {".html": page(shown), ".json": json.dumps(shown, indent=2, allow_nan=False) + "\n"}
                documents.write({stem.with_name(stem.name + end): text for end, text in files.items()})
                said += [f"  The report: {stem}.html", f"  The same as JSON: {stem}.json"]
        except documents.DocumentError as error:
            raise AnsibleActionFail(str(error)) from None
        display.display("\n" + "\n".join(said) + "\n")
        return {"changed": False, "report": shown, "lines": said}


def image_of(rows: t.Sequence[t.Mapping[str, t.Any]]) -> dict[str, t.Any]:
    """What serves there, whose registry may be a private one."""
    return {"reference": next((row.get("value") for row in rows if row.get("id") == "image"), None)}


def names_of(hosts: t.Mapping[str, t.Mapping[str, t.Any]]) -> list[str]:
    """By what names and addresses the Sparks may be known."""
    facts = [known.get("ansible_facts") or {} for known in hosts.values()]
    found = {*hosts, *(known.get(name) for known in hosts.values() for name in ADDRESSES)}
    found |= {fact.get(name) for fact in facts for name in ("hostname", "nodename", "fqdn")}
    return sorted(str(name) for name in found if name)


def users_of(hosts: t.Mapping[str, t.Mapping[str, t.Any]]) -> list[str]:
    """Who logs in to the Sparks."""
    found = {known.get(name) for known in hosts.values() for name in USERS}
    found |= {(known.get("ansible_facts") or {}).get("user_id") for known in hosts.values()}
    return sorted(str(name) for name in found if name)

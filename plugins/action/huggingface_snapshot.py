# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

from ansible.errors import AnsibleActionFail

from ..plugin_utils._cluster import model_copies
from ..plugin_utils._query.host_vars import MODELS_SOURCE, missing_facts_message, read_from_hosts
from ..plugin_utils._report.following import Following


class ActionModule(Following):
    """Inspect models, and compare them with those of the head. With `follow`, wait while the Hub limits requests."""

    BY_DEFAULT = False

    def run(self, tmp: str | None = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        variables, given = dict(task_vars or {}), dict(self._task.args)
        host = str(variables.get("inventory_hostname", ""))
        files = model_copies.tiktoken_files(
            given.pop("tiktoken_encodings", None) or [], given.pop("tiktoken_directory", "")
        )
        known, since = (given.pop("from_hosts", None) or {}).get("reference"), given.pop("after_step", None)
        head: dict[str, t.Any] | None = None
        if known:
            variables["deployment_recipe"] = self._templar.template(variables.get("deployment_recipe"))
            head = next(iter(read_from_hosts(variables, str(known)).values()))
            try:
                given["reference"] = head["repositories"]
            except KeyError as error:
                raise AnsibleActionFail(missing_facts_message("reference", MODELS_SOURCE, error)) from None
        self._task.args = {**given, "files": {**(given.get("files") or {}), **files}}
        result = super().run(tmp, task_vars)
        if head is not None and result.get("failed"):
            return {
                **result,
                "msg": model_copies.missing_models(host, str(result.get("msg", "")), result.get("errors") or []),
            }
        if "models" not in result:
            return result
        cache = (result.get("cache") or {}).get("directory") or given.get("cache_directory", "")
        if since and (changed := model_copies.changed_since(host, result, str(cache), str(since))):
            return {**result, "failed": True, "msg": changed}
        more = {"bytes": model_copies.size(result)} if head is None else model_copies.known_facts(result, head)
        wanted = model_copies.downloads([path for path in result["files_missing"] if path in files], files)
        return {**result, **more, "tiktoken_encodings": files, "downloads": wanted}

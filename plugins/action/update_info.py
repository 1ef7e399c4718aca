# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t
from pathlib import Path

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._recipe.recipe import (
    RECIPES,
    RecipeError,
    find,
    load,
    shipped,
    without_drafts,
)
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._report.updates import nothing, told
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._trtllm.releases import RANGES

# What the module need not know; its arguments are logged on the Spark.
NOT_OF_THE_RECORD = {"files", "container", "answer"}
NOT_OF_THE_RECIPE = {"environment", "probe"}


def without(mapping: t.Mapping[str, t.Any], names: t.Container[str]) -> dict[str, t.Any]:
    return {key: value for key, value in mapping.items() if key not in names}


def known(record: t.Mapping[str, t.Any], asked: str) -> tuple[str, dict[str, t.Any]]:
    """Path and arguments of the recipe asked for, or of the shipped one that has the name of what serves."""
    recipes = {name: load(path) for name, path in shipped(RECIPES).items()}
    named = asked or (record.get("deployment") if record.get("deployment") in recipes else "")
    path = find(named, RECIPES, Path.cwd()) if named else None
    recipe = load(path) if path else {}
    if recipe and record.get("method") == "none":
        recipe = without_drafts(recipe)
    rows = [
        [name, one["target"], one["draft"], (one["draft_model"] or {}).get("supersedes", []), one["source"]]
        for name, one in recipes.items()
    ]
    return str(path or ""), {
        "record": without(record, NOT_OF_THE_RECORD),
        "recipe": without(recipe, NOT_OF_THE_RECIPE),
        "recipes": rows,
        "subject": "recipe" if asked else "record",
    }


class ActionModule(ActionBase):
    """Let the host ask, and judge on the controller what it was answered."""

    _supports_check_mode = True

    def run(self, tmp: str | None = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        super().run(tmp, task_vars)
        host = str((task_vars or {}).get("inventory_hostname", self._play_context.remote_addr))
        given = dict(self._task.args)
        asked, path = given.pop("asked", None), ""
        if asked is not None:
            filled = sorted({"recipe", "recipes", "subject"} & set(given))
            if filled:
                raise AnsibleActionFail(f"asked fills in {' and '.join(filled)}; give either the one or the others.")
            try:
                path, found = known(given.get("record") or {}, str(asked))
            except RecipeError as error:
                raise AnsibleActionFail(str(error)) from None
            given |= found
            if not given["record"] and not given["recipe"]:
                return nothing(host)
        arguments = {"families": RANGES, **given}
        answer = dict(self._execute_module(module_args=arguments, task_vars=task_vars))
        if "rows" not in answer:
            return answer
        return {**answer, **told(arguments, answer["rows"], host), "path": path}

# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t
from pathlib import Path

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase

from ..module_utils._updates.updates import Row
from ..plugin_utils._engines.registry import engine_of
from ..plugin_utils._recipe.recipe import RECIPES, RecipeError, find, load, shipped, without_drafts
from ..plugin_utils._report.updates import deployed_models, is_recipe_of, nothing, report


def recipe_of(record: t.Mapping[str, t.Any], asked: str) -> tuple[str, dict[str, t.Any]]:
    """Return path and content of the recipe given, or of the shipped one that has name and models of the deployment."""
    name = asked or str(record["deployment"])
    if not asked and name not in shipped(RECIPES):
        return "", {}
    path = find(name, RECIPES, Path.cwd())
    recipe = load(path, str(record.get("variant") or ""))
    if record.get("method") == "none":
        recipe = without_drafts(recipe)
    if is_recipe_of(record, recipe):
        return str(path), recipe
    if asked:
        raise RecipeError(f"Recipe '{asked}' has other models than the deployment '{record['deployment']}'.")
    return "", {}


class ActionModule(ActionBase):
    """Let the Spark ask registry and Hub, and write the report on the controller."""

    _supports_check_mode = True

    def run(self, tmp: str | None = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        super().run(tmp, task_vars)
        host = str((task_vars or {}).get("inventory_hostname", self._play_context.remote_addr))
        arguments = dict(self._task.args)
        record = arguments.pop("record", None) or {}
        if not record:
            return nothing(host)
        try:
            path, recipe = recipe_of(record, str(arguments.pop("recipe", "")))
        except RecipeError as error:
            raise AnsibleActionFail(f"{host}: {error}") from None
        arguments |= {
            "image": record["image"]["reference"],
            "families": engine_of(record).ranges,
            "models": deployed_models(record, recipe),
        }
        answer = dict(self._execute_module(module_args=arguments, task_vars=task_vars))
        if "rows" not in answer:
            return answer
        return {**answer, **report(host, record, recipe, [Row(**row) for row in answer["rows"]]), "path": path}

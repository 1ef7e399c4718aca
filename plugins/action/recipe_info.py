# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t
from pathlib import Path

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase

from ..plugin_utils._recipe.recipe import (
    RECIPES,
    RecipeError,
    check_given,
    check_inventory,
    check_run,
    find,
    load,
    shipped,
    usable,
    without_drafts,
)
from ..plugin_utils._recipe.table import lines, table


class ActionModule(ActionBase):
    """Read recipes on the controller, where the files are."""

    _requires_connection = False

    def run(self, tmp: str | None = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        super().run(tmp, task_vars)
        _result, arguments = self.validate_argument_spec(
            argument_spec={
                "recipe": {"type": "str"},
                "variant": {"type": "str", "default": ""},
                "directory": {"type": "path"},
                "own_directory": {"type": "path"},
                "speculation": {"type": "bool", "default": True},
                "overrides": {"type": "dict", "default": {}},
                "inputs": {
                    "type": "dict",
                    "apply_defaults": True,
                    "options": {
                        "options": {"type": "dict", "default": {}},
                        "image": {"type": "str", "default": ""},
                        "family": {"type": "str", "default": ""},
                    },
                },
                "count_hosts_of": {"type": "str", "choices": ["inventory", "run"]},
            },
        )
        variables = task_vars or {}
        directory = Path(arguments["directory"] or RECIPES)
        try:
            if arguments["recipe"] is None:
                recipes = [load(path) for path in shipped(directory).values()]
                listing = {"changed": False, "recipes": recipes, "table": table(recipes), "lines": lines(recipes)}
                if arguments["own_directory"] is None:
                    return listing
                own, problems = usable(Path(arguments["own_directory"]))
                named = {**{recipe["name"]: recipe for recipe in recipes}, **own}
                return {**listing, "named": named, "problems": problems}
            path = find(arguments["recipe"], directory, Path.cwd())
            recipe = load(path, arguments["variant"])
            if not arguments["speculation"]:
                recipe = without_drafts(recipe)
            recipe = {**recipe, **arguments["overrides"]}
            check_given(recipe, **arguments["inputs"])
            if arguments["count_hosts_of"] == "inventory":
                sparks = (variables.get("groups") or {}).get("sparks") or []
                check_inventory(recipe, sparks, variables.get("ansible_inventory_sources") or [])
            if arguments["count_hosts_of"] == "run":
                check_run(recipe, variables.get("ansible_play_hosts_all") or [])
            return {"changed": False, "path": str(path), "recipe": recipe}
        except RecipeError as error:
            raise AnsibleActionFail(str(error)) from None

# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import dataclasses
import datetime
import json
import typing as t
from pathlib import Path

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._benchmark import plan as planning
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._recipe.recipe import (
    RECIPES,
    RecipeError,
    find,
    load,
)

# Of the collection, in a clone and installed.
ROOT = Path(__file__).resolve().parent.parent.parent
LEAST = {"max_tokens": 1, "repetitions": 1, "warmup": 0, "prompt_lengths": 1}
# What the program that measures is told besides.
SWEEP: dict[str, dict[str, t.Any]] = {
    "deployment": {"type": "str"},
    "results": {"type": "str"},
    "lease_s": {"type": "int"},
    "ready_timeout": {"type": "int"},
    "answer_timeout": {"type": "int"},
}


class ActionModule(ActionBase):
    """Plan on the controller, where the prompts are."""

    _requires_connection = False
    _supports_check_mode = True

    def run(self, tmp: str | None = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        super().run(tmp, task_vars)
        variables = task_vars or {}
        host = str(variables.get("inventory_hostname", ""))
        _result, arguments = self.validate_argument_spec(
            argument_spec={
                "record": {"type": "dict", "required": True},
                "choice": {"type": "dict"},
                "draft_lengths": {"type": "list", "elements": "raw", "default": []},
                "quick": {"type": "bool", "default": False},
                "prompts": {"type": "path", "required": True},
                "max_tokens": {"type": "int", "default": 256, "no_log": False},
                "repetitions": {"type": "int", "default": 3},
                "warmup": {"type": "int", "default": 2},
                "prompt_lengths": {"type": "list", "elements": "int", "default": []},
                "load_s": {"type": "float"},
                "recipe": {"type": "str"},
                "sweep": {"type": "dict", "default": {}, "options": SWEEP},
            },
        )
        try:
            planned = self.plan(host, arguments)
            named = arguments["recipe"]
            path = find(named, RECIPES, Path.cwd()) if named is not None else None
            recipe = load(path) if path else {}
            if recipe:
                planning.check_recipe(recipe, arguments["record"], variables.get("ansible_play_hosts_all") or [])
        except planning.BenchmarkError as error:
            raise AnsibleActionFail(f"{host}: {error}") from None
        except RecipeError as error:
            raise AnsibleActionFail(str(error)) from None
        return {"changed": False, **planned, "recipe": recipe, "path": str(path or "")}

    def plan(self, host: str, arguments: dict[str, t.Any]) -> dict[str, t.Any]:
        for name, least in LEAST.items():
            given = arguments[name]
            if any(value < least for value in (given if isinstance(given, list) else [given])):
                raise planning.BenchmarkError(
                    f"speculative_benchmark_{name} is too small: {given}; give {least} or more."
                )
        settings = planning.Settings(
            arguments["max_tokens"], arguments["repetitions"], arguments["warmup"], tuple(arguments["prompt_lengths"])
        )
        path = Path.cwd() / arguments["prompts"]
        try:
            prompts = planning.read_prompts(path.read_text(encoding="utf-8"), str(path))
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "it is no UTF-8 text"
            raise planning.BenchmarkError(
                f"The prompts {path} cannot be read ({reason}); give a file of JSON lines."
            ) from None
        # Written in a playbook, values are of Ansible's own types, which YAML does not write.
        record, choice = json.loads(json.dumps([arguments["record"], arguments["choice"] or {}]))
        wanted = planning.wishes(arguments["draft_lengths"], arguments["quick"], int(record.get("draft_length") or 0))
        now = datetime.datetime.now()
        points = planning.points(record, choice, wanted, prompts, settings)
        told = {**arguments["sweep"], "seconds_a_load": arguments["load_s"]}
        return {
            "points": points,
            "prompts": prompts,
            "task": planning.task(record, points, prompts, settings, told),
            "key": planning.key(points),
            "settings": dataclasses.asdict(settings),
            "speculative_config": planning.speculation_of(record, choice),
            "collection_version": planning.collection_version(ROOT),
            "lines": planning.announcement(host, record, wanted, len(prompts), settings, arguments["load_s"], now),
        }

# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import base64
import datetime
import json
import typing as t

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._plan import (
    back,
    cluster,
    containers,
    deployment,
    links,
    memory,
    network,
    nodes,
    place,
    room,
    sizes,
    wish,
)
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._plan.fabric import MODES, RENDERERS
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._plan.models import copies

DICT: dict[str, t.Any] = {"type": "dict"}
NEEDED: dict[str, t.Any] = {"type": "dict", "required": True}
ROWS: dict[str, t.Any] = {"type": "list", "elements": "dict", "default": []}
MODEL = {"name": {"type": "str"}, "facts": DICT}
# Values of type raw are read by the plan, whose errors name the inputs that people set.
FABRIC: dict[str, dict[str, t.Any]] = {
    "hosts": NEEDED,
    "mode": {"type": "str", "default": "auto", "choices": list(MODES)},
    "plan": {"type": "raw"},
    "interfaces": {"type": "raw"},
    "mtu": {"type": "int", "default": 9000},
    "renderer": {"type": "str", "default": "auto", "choices": list(RENDERERS)},
    "speed": {"type": "int", "default": 200_000},
    "minimum_speed": {"type": "int", "default": 0},
    "bandwidth_test": {"type": "raw", "default": "auto"},
    "start_with_card": {"type": "raw", "default": "auto"},
    "keep_card": {"type": "raw", "default": "auto"},
    "ssh_port": {"type": "int", "default": 0},
    "copy_port": {"type": "int", "default": 0},
}
NEEDS: dict[str, dict[str, t.Any]] = {
    "target": {"type": "dict", "required": True, "options": MODEL},
    "draft": {"type": "dict", "options": MODEL},
    "method": {"type": "str", "default": "none"},
    "draft_length": {"type": "int", "default": 0},
    "context": {"type": "raw", "default": 32768},
    "parallel": {"type": "raw", "default": 1},
    "reserve_gib": {"type": "raw", "default": 12},
    "kv_cache": {"type": "str", "default": "planned", "choices": ["planned", "fraction"]},
    "memory": DICT,
    "sparks": {"type": "int", "default": 1},
    "options": DICT,
}
CLUSTER: dict[str, dict[str, t.Any]] = {
    "looks": NEEDED,
    "clock_skew": {"type": "float", "default": 60},
    "tolerate": {"type": "list", "elements": "str", "default": []},
}
ROOM: dict[str, dict[str, t.Any]] = {
    "looks": DICT,
    "models": NEEDED,
    "image_bytes": {"type": "int", "default": 0},
    "packed_bytes": {"type": "int", "default": 0},
    "reserve_bytes": {"type": "int", "default": 0},
}
TRUST: dict[str, dict[str, t.Any]] = {
    "hosts": NEEDED,
    "directory": {"type": "str", "required": True},
    "ssh_port": {"type": "int", "required": True},
    "copy_port": {"type": "int", "required": True},
    "key": {"type": "str", "required": True, "no_log": False},
    "streams": {"type": "int", "required": True},
    "patience": {"type": "int", "required": True},
}
PLACE: dict[str, dict[str, t.Any]] = {
    "name": {"type": "str", "required": True},
    "image": {"type": "str", "required": True},
    "look": NEEDED,
    "uses": ROWS,
    "taken": ROWS,
    "seen": ROWS,
    "registry": {"type": "dict", "default": {}},
    "unpack_factor": {"type": "float", "default": 0.0},
    "inputs": NEEDED,
    "labels": {"type": "dict", "default": {}},
}
# What is asked; a task asks one of them.
SUBJECTS: dict[str, dict[str, t.Any]] = {
    "fabric": {"type": "dict", "options": FABRIC},
    "cluster": {"type": "dict", "options": CLUSTER},
    "needs": {"type": "dict", "options": NEEDS},
    "room": {"type": "dict", "options": ROOM},
    "copies": {"type": "dict", "options": {"views": NEEDED}},
    "trust": {"type": "dict", "options": TRUST},
    "place": {"type": "dict", "options": PLACE},
    "share": DICT,
    "nodes": DICT,
    "run": {
        "type": "dict",
        "options": {
            "deployment": NEEDED,
            "turn": {"type": "str"},
            "slot": DICT,
            "addresses": {"type": "list", "elements": "str"},
            "own": DICT,
            "state_directory": {"type": "str", "required": True},
        },
    },
    "back": {
        "type": "dict",
        "options": {
            "records": NEEDED,
            "state_directory": {"type": "str", "required": True},
            "addresses": {"type": "list", "elements": "str", "default": []},
            "has_image": {"type": "bool", "required": True},
        },
    },
    "record": {
        "type": "dict",
        "options": {
            "deployment": NEEDED,
            "own": DICT,
            "is_new": {"type": "bool", "required": True},
            "seen": NEEDED,
            "files": {"type": "dict", "default": {}},
        },
    },
}
# What the plan of the nodes is completed with, on each Spark.
PARTS = ("recipe", "values", "memory", "config", "files", "own")


class ActionModule(ActionBase):
    """Decide on the controller what all Sparks of a deployment do."""

    _requires_connection = False
    _supports_check_mode = True

    def run(self, tmp: str | None = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        super().run(tmp, task_vars)
        variables = dict(task_vars or {})
        variables["deployment_recipe"] = self._templar.template(variables.get("deployment_recipe"))
        self._task.args = nodes.gathered(variables, self._task.args, SUBJECTS)
        _result, given = self.validate_argument_spec(
            argument_spec={**SUBJECTS, **{part: {"type": "dict", "default": {}} for part in PARTS}},
            mutually_exclusive=[list(SUBJECTS)],
            required_one_of=[list(SUBJECTS)],
        )
        host = str(variables.get("inventory_hostname", ""))
        subject = next(name for name in SUBJECTS if given[name] is not None)
        try:
            return {"changed": False, **getattr(self, f"_{subject}")(host, given)}
        except (links.PlanError, sizes.PlanError) as error:
            raise AnsibleActionFail(str(error)) from None
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise AnsibleActionFail(f"What the Sparks run cannot be planned: {error}.") from None

    @staticmethod
    def _fabric(host: str, given: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
        return network.part(host, given["fabric"])

    @staticmethod
    def _cluster(_host: str, given: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
        return cluster.compared(**given["cluster"])

    @staticmethod
    def _needs(host: str, given: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
        return memory.plan(sizes.read(given["needs"]), host)

    @staticmethod
    def _room(host: str, given: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
        asked, models = given["room"], given["room"]["models"]
        if asked["looks"] is None:
            return {"refusal": room.too_small(host, models, asked["image_bytes"], asked["reserve_bytes"])}
        models = {**models, "cache": models["cache"]["directory"]}
        lacking = room.needed(asked["looks"], host, models, asked["packed_bytes"], asked["reserve_bytes"])
        return {"refusal": "\n".join(lacking)}

    @staticmethod
    def _copies(host: str, given: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
        return copies(given["copies"]["views"], host)

    @staticmethod
    def _trust(host: str, given: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
        try:
            return cluster.trust(host=host, **given["trust"])
        except ValueError as error:
            raise AnsibleActionFail(f"Writing what the Sparks share failed: {error}.") from None

    @staticmethod
    def _place(host: str, given: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
        found = place.problems(place.Place(**given["place"]))
        return {"problems": [f"{host}: {problem}" for problem in found]}

    @staticmethod
    def _share(_host: str, given: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
        brought, texts = given["share"], deployment.texts(given["files"], given["config"])
        generation = containers.generation(texts, brought["beside"])
        recorded = wish.container(given["own"], texts, brought["models"], brought["host"])
        return {"node": dict(vars(containers.Node(**brought, generation=generation, recorded=recorded)))}

    @staticmethod
    def _nodes(host: str, given: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
        plan = containers.plan(list(given["nodes"].values()))[host]
        planned = deployment.of(plan, **{part: given[part] for part in PARTS})
        return {**plan, **deployment.in_place(planned.container, planned.files), "deployment": dict(vars(planned))}

    @staticmethod
    def _run(_host: str, given: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
        asked = given["run"]
        look = {"slot": asked["slot"]} if asked["addresses"] is None else asked
        return deployment.way(asked["deployment"], asked["turn"], look, asked["state_directory"], asked["own"])

    @staticmethod
    def _back(host: str, given: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
        asked = given["back"]
        where = asked["state_directory"], asked["addresses"], asked["has_image"]
        return {"refusal": back.refusal(host, asked["records"], *where)}

    @staticmethod
    def _record(_host: str, given: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
        asked = given["record"]
        planned, seen = deployment.Deployment(**asked["deployment"]), asked["seen"]
        if not asked["is_new"]:
            return {"record": deployment.reviewed(asked["own"], seen["answered"], planned.origins)}
        written = {name: json.loads(base64.b64decode(text) or b"{}") for name, text in asked["files"].items()}
        seen = {
            **seen,
            "option_check": seen["option_check"] or written.get("option_check", {}),
            "ranks": written.get("ranks", {}).get("ranks", []),
        }
        return {"record": planned.record(deployment.Seen(**seen), datetime.datetime.now(datetime.timezone.utc))}

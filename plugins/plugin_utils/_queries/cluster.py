# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this plugin util is internal to the collection; its interface may change at any time.

"""The query `cluster`: whether Sparks can serve as one, what is left to connect and to copy, which steps are done."""

from __future__ import annotations

from ansible.errors import AnsibleActionFail
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._plan import cluster, images, models, nodes, steps
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._queries.query import (
    REQUIRED_DICT,
    REQUIRED_INT,
    REQUIRED_STR,
    Form,
    Forms,
    Mapping,
    Result,
    Run,
    Spec,
    refused,
)

COMPARE: Spec = {
    **dict.fromkeys(("looks", "rails"), REQUIRED_DICT),
    "settled": {"type": "bool", "required": True},
    "findings": {"type": "list", "elements": "str", "default": []},
    "ssh_port": REQUIRED_INT,
    "copy_port": REQUIRED_INT,
    "clock_skew": {"type": "float", "default": 60},
    "tolerate": {"type": "list", "elements": "str", "default": []},
}
KEYS: Spec = {
    **dict.fromkeys(("rails", "looks", "users", "pythons"), REQUIRED_DICT),
    "keys": {"type": "dict", "required": True, "no_log": False},
    "directory": REQUIRED_STR,
    "ssh_port": REQUIRED_INT,
    "copy_port": REQUIRED_INT,
    "key": {"type": "str", "required": True, "no_log": False},
    "streams": REQUIRED_INT,
    "patience": REQUIRED_INT,
}
# The Spark that has just loaded the image, if one has.
IMAGE_COPIES: Spec = {"looks": REQUIRED_DICT, "loaded": {"type": "str", "default": ""}}
MODEL_COPIES: Spec = {
    "views": REQUIRED_DICT,
    "state_directory": REQUIRED_STR,
    "verify": {"type": "bool", "default": False},
}
COMPLETED_STEPS: Spec = dict.fromkeys(("looks", "views", "plans", "pairs", "links"), REQUIRED_DICT)


def compare(run: Run, arguments: Mapping) -> Result:
    asked = dict(arguments)
    planned = asked.pop("findings")
    compared = cluster.compared(asked["looks"], asked.pop("clock_skew"), asked.pop("tolerate"))
    own = cluster.joined(run.host, **asked)
    # What is the same for all is said once.
    of_all = compared["findings"] if run.host == next(iter(asked["looks"])) else []
    return {**compared, **own, "findings": [*planned, *own["findings"], *of_all]}


def keys(run: Run, arguments: Mapping) -> Result:
    asked = dict(arguments)
    told = {name: asked.pop(name) for name in ("rails", "looks", "keys", "users", "pythons")}
    try:
        return cluster.trust(cluster.known_of(**told), run.host, **asked)
    except ValueError as error:
        raise AnsibleActionFail(f"Writing what the Sparks share failed: {error}.") from None


def image_copies(run: Run, arguments: Mapping) -> Result:
    looks, loaded = arguments["looks"], arguments["loaded"]
    found = images.copies(looks)
    is_other = run.host == loaded and run.host in found["to"] and not run.is_check
    return {**found, **refused(images.other(looks, run.host) if is_other else "")}


def model_copies(run: Run, arguments: Mapping) -> Result:
    views = arguments["views"]
    return {
        "to": models.takers(views),
        **models.cargo(views[run.host], arguments["state_directory"], arguments["verify"]),
        **refused(models.unlike(views, run.host)),
    }


def completed_steps(_run: Run, arguments: Mapping) -> Result:
    return {"steps": steps.idle(**arguments)}


FORMS: Forms = {
    "compare": Form(COMPARE, compare, nodes.PAIR),
    "keys": Form(KEYS, keys, nodes.PAIR),
    "image_copies": Form(IMAGE_COPIES, image_copies, nodes.PAIR),
    "model_copies": Form(MODEL_COPIES, model_copies, nodes.MODELS),
    "completed_steps": Form(COMPLETED_STEPS, completed_steps),
}

# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this plugin util is internal to the collection; its interface may change at any time.

"""The query `fabric`: how the Sparks are connected, and whether their cable may be configured."""

from __future__ import annotations

from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._plan import network
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._plan.fabric import MODES, RENDERERS
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._queries.query import (
    DICT,
    REQUIRED_DICT,
    REQUIRED_STR,
    Form,
    Forms,
    Mapping,
    Result,
    Run,
    Spec,
)

# Values of type raw are read by the plan, whose errors name the inputs that people set.
PLAN: Spec = {
    "hosts": REQUIRED_DICT,
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
IN_USE: Spec = {"slot": DICT, "container": REQUIRED_STR, "others": REQUIRED_STR}


def plan(run: Run, arguments: Mapping) -> Result:
    try:
        return network.part(run.host, arguments)
    except network.OfAnotherError as error:
        return {"failed": True, "of_another": True, "msg": str(error)}


def in_use(run: Run, arguments: Mapping) -> Result:
    refusal = network.in_use(**arguments)
    # It says all, whatever else may keep a network from being configured.
    return {"refused": True, **run.refused(refusal)} if refusal else {}


FORMS: Forms = {
    "plan": Form(PLAN, plan, "dgx_spark.speculative.spark_info with gather: [fabric]"),
    "in_use": Form(IN_USE, in_use),
}

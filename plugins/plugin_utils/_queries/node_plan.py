# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this plugin util is internal to the collection; its interface may change at any time.

"""The query `node_plan`: the container of a Spark, and how it is run: a new one, a recorded one, or the present one."""

from __future__ import annotations

import typing as t

from ansible.plugins.loader import lookup_loader
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._plan import (
    back,
    course,
    deployment,
    nodes,
    shared,
    wish,
)
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._queries.query import (
    DICT,
    EMPTY_DICT,
    REQUIRED_DICT,
    Form,
    Forms,
    Inputs,
    Mapping,
    Result,
    Run,
    Spec,
)
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._queries.served import FACTS, decided

PATH: dict[str, t.Any] = {"type": "path", "required": True}
# The plan of `served`, which is made here if there is none for these inputs.
SPEC: Spec = {"plan": EMPTY_DICT, "programs": PATH, **FACTS}
CONTAINER: Spec = {"specs": REQUIRED_DICT, "script": PATH}
RECORD: Spec = {
    "deployment": DICT,
    # What is in the slot, and the records of this Spark.
    "docker": REQUIRED_DICT,
    "records": REQUIRED_DICT,
    # Of a rollback, which must be possible on all Sparks: the state directory, and the records by host.
    "rollback_in": {"type": "str", "default": ""},
    "all_records": EMPTY_DICT,
}
START: Spec = {
    "labels": REQUIRED_DICT,
    "recorded": DICT,
    "addresses": {"type": "list", "elements": "str", "required": True},
    "everybody": REQUIRED_DICT,
}
# Inputs of speculative_serve that a node spec has as they are.
SERVE = (
    "deployment",
    "host",
    "port",
    "stall_s",
    "probe_interval_s",
    "peer_lost_s",
    "ready_timeout",
    "environment",
    "log_level",
)


def settings(container: Inputs) -> Result:
    """Return how Docker is to run the container, as far as a user says it."""
    given = {name: container.get(name) for name in wish.SETTINGS}
    found = {name: value for name, value in given.items() if value is not None}
    return {"network": "host", **found}


def node_inputs(run: Run) -> Result:
    """Return what the inputs of four roles, and what these have handed out, say of this Spark."""
    serve, container, network = (
        run.inputs(role) for role in ("speculative_serve", "trtllm_container", "spark_network")
    )
    devices = container.get("devices", [])
    return {
        "name": run.host,
        **{name: serve[name] for name in SERVE},
        "directory": f"{serve['state_directory']}/{serve['deployment']}",
        "cache": serve["cache_directory"],
        "pair_directory": network.get("directory", ""),
        "pair_image": network.get("look", {}).get("pair_image", ""),
        "volume": f"{container.get('name', 'dgx-spark-speculative')}-cache",
        "models": run.inputs("huggingface_cache")["view"]["models"],
        "rails": network.get("rails", []),
        "ssh_port": network.get("ssh_port", 2233),
        "trust": network.get("fingerprint", ""),
        "devices": list(devices) if isinstance(devices, (list, tuple)) else [devices],
        "settings": settings(container),
    }


def spec(run: Run, arguments: Mapping) -> Result:
    plan = decided(run, arguments["plan"], arguments)
    if "config" not in plan:
        return plan
    records = arguments["records"].get(run.host) or {}
    asked = {
        **node_inputs(run),
        "slot": arguments["slots"].get(run.host) or None,
        "own": records.get("own"),
        "proven": records.get("present") is not None,
        "programs": arguments["programs"],
    }
    return {**shared.brought(asked, plan, run.recipe), "warnings": plan["warnings"]}


def container(run: Run, arguments: Mapping) -> Result:
    def render(script: Mapping) -> str:
        action = run.action
        lookup = lookup_loader.get("ansible.builtin.template", loader=action._loader, templar=action._templar)
        return str(lookup.run([arguments["script"]], variables=run.variables, template_vars={"script": script})[0])

    return dict(shared.planned(run.host, arguments["specs"], run.recipe, render))


def record(run: Run, arguments: Mapping) -> Result:
    found, docker, records, place = (arguments[name] for name in ("deployment", "docker", "records", "rollback_in"))
    if place and (refusal := back.refusal(run.host, arguments["all_records"], place, docker)):
        return run.refused(refusal)
    return {
        **deployment.way(found, None, docker["slot"], records["own"], records["present"] is not None),
        "reserved": deployment.reserved(found, records["present"], place) if place else [],
        **run.refused(deployment.lost(found, docker["addresses"])),
    }


def start(run: Run, arguments: Mapping) -> Result:
    here = set(run.variables["ansible_play_hosts"])
    missing = [each for each in run.variables["ansible_play_hosts_all"] if each not in here]
    found = course.start(run.host, **arguments, missing=missing)
    return {**found, "failed": True, "msg": found["gone"]} if found["gone"] else found


RECORDS = "dgx_spark.speculative.spark_info with gather: [docker, records]"
FORMS: Forms = {
    # What a Spark brings into the deployment.
    "spec": Form(SPEC, spec, nodes.MODELS),
    # Its container, from the specs of all Sparks, the head first.
    "container": Form(CONTAINER, container, "dgx_spark.speculative.deployment_plan with node_plan.spec"),
    # How a recorded deployment is run again.
    "record": Form(RECORD, record, RECORDS),
    # What the start of the present container waits for.
    "start": Form(START, start, RECORDS),
}

# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this plugin util is internal to the collection; its interface may change at any time.

"""The query `node_plan`: the container of a Spark, and how it is run: a new one, a recorded one, or the present one."""

from __future__ import annotations

import typing as t

from ansible.plugins.loader import lookup_loader

from .._query import host_vars
from .._query.query import EMPTY, Form, Forms, Inputs, Mapping, Result, Run, refusal_result
from . import container_spec, lifecycle, node_specs, rollback
from . import deployment as plans
from .served_query import reuse_or_decide

# Inputs of speculative_serve that a node spec has as they are.
SERVE = (
    "deployment",
    "host",
    "port",
    "stall_timeout_s",
    "probe_interval_s",
    "worker_timeout_s",
    "ready_timeout",
    "environment",
    "log_level",
)


def settings(container: Inputs) -> Result:
    """Return the Docker settings of the container that a user has set."""
    given = {name: container.get(name) for name in container_spec.SETTINGS}
    result = {name: value for name, value in given.items() if value is not None}
    return {"network": "host", **result}


def listed(value: t.Any) -> list[t.Any]:
    """Return a list, also of a single value from the command line."""
    return list(value) if isinstance(value, (list, tuple)) else [value]


def node_inputs(run: Run) -> Result:
    """Return the inputs and the exported variables of four roles for this Spark."""
    roles = ("speculative_serve", "engine_container", "spark_network", "huggingface_cache")
    serve, container, network, models = (run.inputs(role) for role in roles)
    return {
        "name": run.host,
        **{name: serve[name] for name in SERVE},
        "directory": f"{serve['state_directory']}/{serve['deployment']}",
        "cache": models["resolved_directory"],
        "cluster_directory": network.get("directory", ""),
        "cluster_image": network.get("facts", {}).get("cluster_image", ""),
        "volume": f"{container.get('name', 'dgx-spark-speculative')}-cache",
        "models": models["snapshot"]["models"],
        "rails": network.get("rails", []),
        "worker_port": network.get("worker_port", 2233),
        "trust": network.get("keys_fingerprint", ""),
        **{name: listed(container.get(name, [])) for name in ("devices", "capabilities")},
        "settings": settings(container),
    }


def spec(
    run: Run,
    programs: str,
    plan: Mapping = EMPTY,
    slots: Mapping = EMPTY,
    records: Mapping = EMPTY,
    facts: Mapping = EMPTY,
    models: Mapping = EMPTY,
) -> Result:
    """Return what a Spark brings into the deployment. A plan is made here if there is none for these inputs."""
    plan = reuse_or_decide(run, plan, slots=slots, records=records, facts=facts, models=models)
    if "config" not in plan:
        return dict(plan)
    own = records.get(run.host) or {}
    asked = {
        **node_inputs(run),
        "slot": slots.get(run.host) or None,
        "record": own.get("latest"),
        "is_verified": own.get("present") is not None,
        "programs": programs,
    }
    return {**node_specs.node_spec(asked, plan, run.recipe), "warnings": plan["warnings"]}


def container(run: Run, specs: Mapping, scripts: str) -> Result:
    """Return the container of a Spark, from the specs of all, the head first."""

    def render(engine: str, values: Mapping) -> str:
        script = f"{scripts}/serve_{engine}.sh.j2"
        action = run.action
        lookup = lookup_loader.get("ansible.builtin.template", loader=action._loader, templar=action._templar)
        return str(lookup.run([script], variables=run.variables, template_vars={"script": values})[0])

    return dict(node_specs.node_plan(run.host, specs, run.recipe, render))


def record(
    run: Run,
    docker: Mapping,
    records: Mapping,
    deployment: Mapping | None = None,
    rollback_in: str = "",
    all_records: Mapping = EMPTY,
) -> Result:
    """Return how a recorded deployment is run again, by what is in the slot and the records of this Spark.

    A rollback must be possible on all Sparks: with the state directory that it is in, and the records by host.
    """
    if rollback_in and (refusal := rollback.refusal(run.host, all_records, rollback_in, docker)):
        return run.refusal_result(refusal)
    result = deployment or {}
    return {
        "run_plan": {
            **plans.run_plan(result, None, docker["slot"], records["latest"], records["present"] is not None),
            "reservations": plans.reserved_space(result, records["present"], rollback_in) if rollback_in else [],
        },
        **run.refusal_result(plans.unreachable_reason(result, docker["addresses"])),
    }


def start(
    run: Run, labels: Mapping, addresses: t.Sequence[str], all_labels: Mapping, record: Mapping | None = None
) -> Result:
    """Return what the start of the present container waits for, and refuse a Spark that the others cannot find."""
    here = set(run.variables["ansible_play_hosts"])
    missing = [each for each in run.variables["ansible_play_hosts_all"] if each not in here]
    result = lifecycle.start_conditions(run.host, labels, record, addresses, missing, all_labels)
    return {**result, **refusal_result(result["problem"])}


RECORDS = "dgx_spark.speculative.spark_info with gather: [docker, records]"
FORMS: Forms = {
    "spec": Form(spec, host_vars.MODELS_SOURCE),
    "container": Form(container, "dgx_spark.speculative.deployment_plan with node_plan.spec"),
    "record": Form(record, RECORDS),
    "start": Form(start, RECORDS),
}

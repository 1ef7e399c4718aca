# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Read the variables of all Sparks of a cluster. No other module of the plan reads them."""

from __future__ import annotations

import collections
import typing as t

Variables = t.Mapping[str, t.Any]

CLUSTER_SOURCE = "dgx_spark.speculative.spark_info with gather: [cluster]"
MODELS_SOURCE = "dgx_spark.speculative.huggingface_snapshot"
# The task that gathers each fact of a plan.
FACT_SOURCES = {"user_id": "ansible.builtin.setup"}


def cluster_hosts(variables: Variables) -> list[str]:
    """Return the Sparks of the cluster in the order of their ranks: all of the run, unless its recipe is for one.

    `deployment_recipe` must be templated already. Variables of hosts are templated when they are read.
    """
    nodes = list(variables["ansible_play_hosts_all"])
    sparks = (variables.get("deployment_recipe") or {}).get("sparks", len(nodes))
    return nodes if sparks > 1 else [variables["inventory_hostname"]]


def limit(variables: Variables) -> str:
    """Return the option that a command for just these Sparks needs; empty if the inventory has no others."""
    hosts, inventory = cluster_hosts(variables), (variables.get("groups") or {}).get("sparks")
    return f" --limit {','.join(hosts)}" if inventory and set(hosts) != set(inventory) else ""


def read_from_hosts(variables: Variables, name: t.Any) -> dict[str, t.Any]:
    """Return a variable of each Spark, by host; `a.b` is the key b of a. A missing value is an empty mapping.

    A mapping of names is a mapping of their values.
    """
    if isinstance(name, dict):
        parts = {part: read_from_hosts(variables, each) for part, each in name.items()}
        return {host: {part: found[host] for part, found in parts.items()} for host in cluster_hosts(variables)}
    return {host: _value(variables["hostvars"][host], str(name)) for host in cluster_hosts(variables)}


def variable_names(from_hosts: t.Any) -> set[str]:
    """Return the variables that are read so."""
    if isinstance(from_hosts, dict):
        return {name for host in from_hosts.values() for name in variable_names(host)}
    return {str(from_hosts).partition(".")[0]}


def missing_facts_message(subject: str, giver: str, error: KeyError) -> str:
    """Return what to do about a missing fact, as in a role that runs alone. The giver is the task that registers it."""
    fact = FACT_SOURCES.get(str(error.args[0]))
    way = (
        f"Gather it with {fact} on each Spark"
        if fact
        else f"Register it with {giver} on each Spark"
        if giver
        else "Set it"
    )
    return f"{subject} needs the variable {error}. {way}, or use playbooks/serve.yml."


def with_hostvars(
    variables: Variables, arguments: Variables, templated: t.Callable[[t.Any], t.Any]
) -> dict[str, t.Any]:
    """Return the variables with those of all hosts.

    Variables that only this play or task has are included.
    """
    names = variable_names(arguments.get("from_hosts") or {})
    own = {name: templated(variables[name]) for name in names if name in variables}
    hosts = collections.ChainMap({str(variables.get("inventory_hostname", "")): own}, variables.get("hostvars") or {})
    return {**variables, "deployment_recipe": templated(variables.get("deployment_recipe")), "hostvars": hosts}


def _value(variables: Variables, name: str) -> t.Any:
    value: t.Any = variables
    for part in name.split("."):
        value = value.get(part) if hasattr(value, "get") else None
    return {} if value is None else value

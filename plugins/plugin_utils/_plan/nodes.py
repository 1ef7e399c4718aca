# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Who serves as one, and what each of them knows: the one place where a plan reads the variables of other Sparks."""

from __future__ import annotations

import typing as t

Variables = t.Mapping[str, t.Any]

PAIR = "dgx_spark.speculative.spark_info with gather: [pair]"
MODELS = "dgx_spark.speculative.huggingface_snapshot"
# Whose results are planned with, by what is planned.
GIVERS = {
    "fabric": "dgx_spark.speculative.spark_info with gather: [fabric]",
    **dict.fromkeys(("cluster", "image_copies", "trust"), PAIR),
    "room": f"{PAIR}, and {MODELS}",
    "access": "dgx_spark.speculative.spark_info with gather: [docker]",
    **dict.fromkeys(("model_copies", "known", "share"), MODELS),
    "nodes": "dgx_spark.speculative.deployment_plan with share",
    **dict.fromkeys(("back", "record", "start"), "dgx_spark.speculative.deployment_info"),
}


def members(variables: Variables) -> list[str]:
    """Name the Sparks that serve as one in the order of their ranks: all of the run, unless its recipe is for one.

    Of the variables, `deployment_recipe` is to be templated already; those of hosts are when they are read.
    """
    everybody = list(variables["ansible_play_hosts_all"])
    sparks = (variables.get("deployment_recipe") or {}).get("sparks", len(everybody))
    return everybody if sparks > 1 else [variables["inventory_hostname"]]


def of_all(variables: Variables, name: str) -> dict[str, t.Any]:
    """Read a variable of each of them, by host; `a.b` is what a has as b. What a Spark lacks is an empty mapping."""
    return {host: _value(variables["hostvars"][host], name) for host in members(variables)}


def needs(subject: str, error: KeyError) -> str:
    """What to do where a look is planned with that nobody has taken, as in a role that is run by itself."""
    giver = GIVERS.get(subject)
    way = f"register it with {giver} on each Spark" if giver else "give it"
    return f"{subject} needs {error}: {way}, or use playbooks/serve.yml, which does that."


def gathered(variables: Variables, arguments: Variables, subjects: t.Collection[str]) -> dict[str, t.Any]:
    """Complete what is asked by what is known of each Spark: `of_all` names a variable for a part of the subject."""
    asked = dict(arguments)
    for part, name in (asked.pop("of_all", None) or {}).items():
        known = of_all(variables, str(name))
        if part in subjects:
            asked[part] = known
        else:
            subject = next((subject for subject in subjects if subject in asked), part)
            asked[subject] = {**(asked.get(subject) or {}), part: known}
    return asked


def _value(variables: Variables, name: str) -> t.Any:
    value: t.Any = variables
    for part in name.split("."):
        value = value.get(part) if hasattr(value, "get") else None
    return {} if value is None else value

# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._query import host_vars

HOSTS = {"spark-b": {"look": {"fabric": 1}}, "spark-a": {"look": {"fabric": 2}}, "spark-c": {}}


def variables(**further: t.Any) -> dict[str, t.Any]:
    return {"ansible_play_hosts_all": list(HOSTS), "inventory_hostname": "spark-a", "hostvars": HOSTS, **further}


@pytest.mark.parametrize(
    ("recipe", "wanted"), [(None, list(HOSTS)), ({"sparks": 3}, list(HOSTS)), ({"sparks": 1}, ["spark-a"])]
)
def test_all_of_the_run_serve_as_one_unless_the_recipe_is_for_one(recipe: t.Any, wanted: list[str]) -> None:
    assert host_vars.cluster_hosts(variables(deployment_recipe=recipe)) == wanted


@pytest.mark.parametrize(
    ("sparks", "inventory", "option"),
    [
        (1, ["spark-a", "spark-b", "spark-c"], " --limit spark-a"),
        (3, ["spark-c", "spark-a", "spark-b"], ""),
        (3, [*HOSTS, "spark-d"], " --limit spark-b,spark-a,spark-c"),
        (1, ["spark-a"], ""),
        (1, [], ""),
    ],
)
def test_a_command_is_limited_where_the_inventory_has_more(sparks: int, inventory: list[str], option: str) -> None:
    known = variables(deployment_recipe={"sparks": sparks}, groups={"sparks": inventory})
    assert host_vars.limit(known) == option


def test_what_a_spark_lacks_is_empty() -> None:
    assert host_vars.read_from_hosts(variables(), "look.fabric") == {"spark-b": 1, "spark-a": 2, "spark-c": {}}


def test_a_mapping_of_names_is_one_of_their_values() -> None:
    names = {"fabric": "look.fabric", "more": {"look": "look"}}
    assert host_vars.read_from_hosts(variables(), names)["spark-a"] == {"fabric": 2, "more": {"look": {"fabric": 2}}}
    assert host_vars.variable_names({"hosts": names, "plans": "plan"}) == {"look", "plan"}


def test_of_its_own_a_host_knows_what_only_the_play_has() -> None:
    known = host_vars.with_hostvars(
        variables(look={"fabric": 3}), {"from_hosts": {"hosts": {"fabric": "look.fabric"}}}, lambda value: value
    )
    assert host_vars.read_from_hosts(known, "look.fabric") == {"spark-b": 1, "spark-a": 3, "spark-c": {}}

# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this plugin util is internal to the collection; its interface may change at any time.

"""What one host does of the plan that joins the Sparks: its addresses, its network card, its place among the others."""

from __future__ import annotations

import typing as t

from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._plan.card import plan_cards
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._plan.fabric import end_of_stream, given, plan
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._plan.links import PlanError, Wish
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._recipe.words import listed


def wish(asked: t.Mapping[str, t.Any]) -> Wish:
    """What people ask for, in the spelling of the action."""
    return Wish(
        mode=asked["mode"],
        plan=given(asked["plan"]) or None,
        interfaces=given(asked["interfaces"]) or None,
        mtu=asked["mtu"],
        renderer=asked["renderer"],
        speed_mbps=asked["speed"],
        minimum_speed_mbps=asked["minimum_speed"],
        bandwidth_test=asked["bandwidth_test"],
    )


def check_machines(hosts: t.Mapping[str, t.Mapping[str, t.Any]]) -> None:
    """Raise PlanError where names lead to one machine: what its ports lack is nothing to stop a pair for."""
    names: dict[tuple[str, ...], list[str]] = {}
    for name, info in hosts.items():
        cards = [one.get("mac") for port in info.get("ports") or [] for one in port["interfaces"]]
        names.setdefault(tuple(sorted(card for card in cards if card)), []).append(name)
    for same in (same for cards, same in names.items() if cards and len(same) > 1):
        raise PlanError(
            f"{listed(same)} lead to the same machine: correct ansible_host of one of them in the inventory."
        )


def part(host: str, asked: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """The host's part. Raises PlanError: a refusal is the same for all, and so said once."""
    hosts = asked["hosts"]
    if host not in hosts:
        raise PlanError(f"{host} is not one of the hosts that are joined ({', '.join(hosts)}).")
    order = ["", *hosts, ""]
    before, after = order[order.index(host) - 1], order[order.index(host) + 1]
    try:
        check_machines(hosts)
        found = plan(hosts, wish(asked))
        configure = {name: one["configure"] for name, one in found["hosts"].items()}
        cards = plan_cards(hosts, asked["start_with_card"], asked["keep_card"], configure)
    except PlanError as error:
        if not before:
            raise
        raise PlanError(f"{host}: the Sparks cannot be joined, as the message of {order[1]} says.") from error
    return {
        **found["hosts"][host],
        "before": before,
        "after": after,
        # By whom the way is proven, round the ranks.
        "peer": after or order[1],
        "any_configure": found["configure"],
        "measure": end_of_stream(list(hosts).index(host), len(hosts)) if found["measure"] else "",
        "card": cards["hosts"][host],
        "findings": [*found["findings"], *cards["findings"]],
        "lines": [*found["lines"], *cards["lines"]],
    }

# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this plugin util is internal to the collection; its interface may change at any time.
"""The subnets by which the Sparks reach each other, each with an address of every Spark: found, asked for, or free."""

from __future__ import annotations

import contextlib
import itertools
import typing as t

from .._recipe.text import count, join_words
from .links import (
    FabricSpec,
    Joined,
    Members,
    PlanError,
    Spark,
    Target,
    both_or_all,
    is_own,
    joined_names,
    names,
    usable,
)

# If it is missing, `fabric.plan` reports that before its first use.
with contextlib.suppress(ImportError):
    import netaddr

# NVIDIA's page since July 2026; each twin has a subnet of its own, or the source address would be ambiguous.
FIRST_HOST = 10
DEFAULT_THIRD = (*range(100, 254, 2), *range(2, 100, 2))
# So many pairs of networks are looked for others' addresses at once, of which the first free one is taken.
ASKED_NETWORKS = 6
# Of which no address is a host's on a cable: 'this' network, loopback, what hosts give themselves, multicast, reserved.
NOT_OF_HOSTS = ("0.0.0.0/8", "127.0.0.0/8", "169.254.0.0/16", "224.0.0.0/3")


def meeting(members: Members) -> Target | None:
    """Return the first addresses of all that are in the same network, none of them twice."""
    head, *others = map(usable, members)
    for own in head:
        for target in itertools.product([own], *([a for a in other if a.cidr == own.cidr] for other in others)):
            if len({address.ip for address in target}) == len(members):
                return target
    return None


def working(subnets: t.Sequence[Members]) -> list[Joined]:
    """Return the rails whose addresses match, the best ones first; the interfaces of a port may match crosswise."""
    best: list[Joined] = []
    head, *others = zip(*subnets)
    for orders in itertools.product(*map(itertools.permutations, others)):
        crossed: t.Iterator[Members] = zip(head, *orders)
        result = [(members, target) for members in crossed if (target := meeting(members)) is not None]
        if len(result) > len(best):
            best = result
    return best


def overlap(one: netaddr.IPNetwork, other: netaddr.IPNetwork) -> bool:
    """Return whether two networks have addresses in common: then one is in the other."""
    return one in other or other in one


def others_networks(spark: Spark, own: t.Collection[str]) -> list[tuple[netaddr.IPNetwork, str]]:
    """Return the networks that the host uses elsewhere; ours on its other port date from before the cable moved."""
    own = [*own, *(interface["name"] for interface in spark.interfaces if is_own(interface))]
    return [
        (netaddr.IPNetwork(row["network"]), str(row["interface"]))
        for row in spark.info.get("networks") or []
        if row["interface"] not in own
    ]


def _of_rank(rails: t.Sequence[Members], rank: int) -> list[str]:
    return [members[rank]["name"] for members in rails]


Subnets = list["netaddr.IPNetwork"]


def free_networks(sparks: t.Sequence[Spark], rails: t.Sequence[Members]) -> t.Iterator[Subnets]:
    """Yield the neighbouring /24s of 192.168.0.0/16 that neither host uses elsewhere, one for each twin."""
    used = [row for rank, spark in enumerate(sparks) for row in others_networks(spark, _of_rank(rails, rank))]
    taken = netaddr.IPSet(network for network, _interface in used)
    for third in DEFAULT_THIRD:
        subnets = [netaddr.IPNetwork(f"192.168.{third + number}.0/24") for number in range(len(rails))]
        if taken.isdisjoint(netaddr.IPSet(subnets)):
            yield subnets


def _defaults(subnets: Subnets, many: int) -> list[Target]:
    """Return the addresses of the Sparks in each subnet."""
    return [
        tuple(netaddr.IPNetwork(f"{subnet[FIRST_HOST + rank]}/{subnet.prefixlen}") for rank in range(many))
        for subnet in subnets
    ]


def foreign_addresses(sparks: t.Sequence[Spark], rails: t.Sequence[Members]) -> dict[str, str]:
    """Return the addresses of other hosts on the link, each with a sentence that names the Spark that saw it first."""
    own = {interface["mac"] for spark in sparks for interface in spark.interfaces}
    result: dict[str, str] = {}
    for rank, spark in enumerate(sparks):
        for name in _of_rank(rails, rank):
            for address, macs in (((spark.neighbours or {}).get("taken") or {}).get(name) or {}).items():
                for mac in sorted(set(macs) - own):
                    result.setdefault(address, f"{spark.name}: on {name} {mac} has {address}")
    return result


def default_plan(sparks: t.Sequence[Spark], rails: t.Sequence[Members], findings: list[str]) -> list[Target]:
    """Return the first networks that are free, also on the link. Only queried networks are known to be free there."""
    both = joined_names(sparks)
    others = foreign_addresses(sparks, rails)
    for subnets in itertools.islice(free_networks(sparks, rails), ASKED_NETWORKS):
        targets = _defaults(subnets, len(sparks))
        if any(str(address.ip) in others for target in targets for address in target):
            continue
        if str(subnets[0]) != f"192.168.{DEFAULT_THIRD[0]}.0/24":
            told = f" ({'; '.join(others.values())})" if others else ""
            findings.append(
                f"{both}: 192.168.{DEFAULT_THIRD[0]}.0/24 or its neighbour is in use{told}, so the "
                f"{'cable' if len(sparks) == 2 else 'switch'} has "
                f"{join_words(map(str, subnets))}."
            )
        return targets
    if others:
        raise PlanError(
            f"{both}: others on the wire have {join_words(others)}, so all networks that were asked for are taken. Run "
            "again once one is free, or give addresses of your own in spark_network_addresses."
        )
    raise PlanError(
        f"{both}: no two networks in 192.168.0.0/16 are free. Give addresses of your own in spark_network_addresses."
    )


def foreign_address_problems(
    sparks: t.Sequence[Spark], rails: t.Sequence[Members], targets: t.Sequence[Target]
) -> list[str]:
    """Return a sentence for each planned address that another host on the link has."""
    planned = {str(address.ip) for target in targets for address in target}
    return [
        f"{words}, another host on the same switch. Give other addresses in spark_network_addresses."
        for address, words in foreign_addresses(sparks, rails).items()
        if address in planned
    ]


def greets(sparks: t.Sequence[Spark], choices: t.Sequence[t.Any]) -> bool:
    """Return whether only neighbour queries show which ports are connected, or whether one switch joins all Sparks."""
    return len(choices) > 1 or len(sparks) > 2


def to_ask(
    sparks: t.Sequence[Spark], choices: t.Sequence[list[Members]], spec: FabricSpec, configure: t.Sequence[bool]
) -> list[dict[str, t.Any]]:
    """Return the queries of each host to its neighbours before the plan is final; empty if none are needed.

    fabric_network sends the queries; the answer is `neighbours` of the host in the next plan. If both ports have a
    cable, only the answer shows which of them joins the Sparks, and there are no rails before it.
    """
    greet = greets(sparks, choices) and not all(spark.has_greeted for spark in sparks)
    wanted: list[dict[str, list[str]]] = [{} for _spark in sparks]
    for rails in choices:
        plans = (
            [own_plan(sparks, rails, spec.plan)]
            if spec.plan
            else (
                _defaults(subnets, len(sparks))
                for subnets in itertools.islice(free_networks(sparks, rails), ASKED_NETWORKS)
            )
        )
        for targets in plans:
            for members, target in zip(rails, targets):
                for rank, interface in enumerate(members):
                    wanted[rank].setdefault(interface["name"], []).extend(str(address.ip) for address in target)
    return [
        {"greet": greet, "addresses": {name: sorted(set(each)) for name, each in wanted[rank].items()}}
        if greet or (configure[rank] and spark.neighbours is None)
        else {}
        for rank, spark in enumerate(sparks)
    ]


def _rows_of(plan: t.Any, sparks: t.Sequence[Spark]) -> list[list[str]]:
    """Return the plan as lists of addresses with prefix, one for each rail.

    Raises PlanError for what cannot be read.
    """
    if isinstance(plan, dict):
        return _rows_by_host(plan, sparks)
    example = "{subnet: 192.168.100.0/24, addresses: [192.168.100.10, 192.168.100.11]}"
    result = []
    for number, row in enumerate(plan if isinstance(plan, list) else [None], start=1):
        if not isinstance(row, dict) or set(row) - {"subnet", "addresses"} or "addresses" not in row:
            raise PlanError(f"spark_network_addresses, entry {number}: it must look like {example}.")
        given = row["addresses"]
        if isinstance(given, dict):
            given = [given[spark.name] for spark in sparks if spark.name in given]
        if not isinstance(given, list) or len(given) != len(sparks):
            each = join_words(f"that of {spark.name}" for spark in sparks)
            raise PlanError(
                f"spark_network_addresses, entry {number}: 'addresses' must hold {count(len(sparks))}, {each}."
            )
        prefix = str(row.get("subnet", "")).partition("/")[2]
        texts = [str(address) if "/" in str(address) or not prefix else f"{address}/{prefix}" for address in given]
        if "subnet" in row:
            _within(row["subnet"], texts, number)
        result.append(texts)
    return result


def _rows_by_host(plan: t.Mapping[t.Any, t.Any], sparks: t.Sequence[Spark]) -> list[list[str]]:
    lists = []
    for spark in sparks:
        given = plan.get(spark.name)
        if not isinstance(given, list) or not given:
            raise PlanError(
                f"spark_network_addresses has no list of addresses for {spark.name}. Give each host as many addresses "
                "with prefix length as there are interfaces, such as 192.168.100.10/24."
            )
        lists.append([str(address) for address in given])
    if len({len(one) for one in lists}) > 1:
        counts = [f"{len(one)} for {spark.name}" for spark, one in zip(sparks, lists)]
        raise PlanError(
            f"spark_network_addresses has {join_words([counts[0].replace(' for', ' addresses for', 1), *counts[1:]])}. "
            f"Give {both_or_all(sparks)} the same number."
        )
    return [list(row) for row in zip(*lists)]


def _within(subnet: t.Any, texts: t.Sequence[str], number: int) -> None:
    try:
        network = netaddr.IPNetwork(str(subnet), version=4)
        if network.ip != network.network:
            raise netaddr.AddrFormatError(f"it is an address of {network.cidr}")
    except netaddr.AddrFormatError as error:
        raise PlanError(f"spark_network_addresses, entry {number}: '{subnet}' is no IPv4 subnet ({error}).") from None
    for text in texts:
        if _address(text, number).ip not in network:
            raise PlanError(
                f"spark_network_addresses, entry {number}: {text.partition('/')[0]} is not in {network}. Correct one "
                "of them."
            )


def _address(text: str, number: int) -> netaddr.IPNetwork:
    try:
        if "/" not in text:
            raise netaddr.AddrFormatError("it has no prefix length, such as /24")
        address = netaddr.IPNetwork(text, version=4)
    except netaddr.AddrFormatError as error:
        raise PlanError(f"spark_network_addresses, entry {number}: '{text}' is no IPv4 address ({error}).") from None
    # Two addresses are a network without edges (RFC 3021), which then has no broadcast.
    edges = (address.network, address.broadcast) if address.broadcast else ()
    if address.ip in netaddr.IPSet(NOT_OF_HOSTS) or address.ip in edges or address.prefixlen > 31:
        raise PlanError(
            f"spark_network_addresses, entry {number}: {text} cannot be the address of a host. Give another one."
        )
    return address


def own_plan(sparks: t.Sequence[Spark], rails: t.Sequence[Members], plan: t.Any) -> list[Target]:
    """Return the user's plan, as far as it can be judged by itself."""
    targets: list[Target] = []
    for number, texts in enumerate(_rows_of(plan, sparks), start=1):
        target = tuple(_address(text, number) for text in texts)
        if len({address.cidr for address in target}) > 1:
            raise PlanError(
                f"spark_network_addresses, entry {number}: {join_words(map(str, target))} are not in one subnet, so "
                f"{joined_names(sparks)} would not find each other. Correct an address or a prefix length."
            )
        targets.append(target)
    if len(targets) != len(rails):
        raise PlanError(
            f"spark_network_addresses has addresses for {len(targets)} interfaces of each Spark, but {len(rails)} are "
            f"used ({names(members[0] for members in rails)} on {sparks[0].name}). Give as many, or name the "
            "interfaces in spark_network_interfaces."
        )
    addresses = [address.ip for target in targets for address in target]
    double = sorted({str(address) for address in addresses if addresses.count(address) > 1})
    if double:
        raise PlanError(
            f"spark_network_addresses gives {join_words(double)} more than once. Each interface needs an address of "
            "its "
            "own."
        )
    for one, other in itertools.combinations((target[0].cidr for target in targets), 2):
        if one != other and overlap(one, other):
            raise PlanError(
                f"spark_network_addresses: {one} and {other} overlap. Give the interfaces subnets that have "
                "nothing in common."
            )
    return targets


def clashes(sparks: t.Sequence[Spark], rails: t.Sequence[Members], targets: t.Sequence[Target]) -> list[str]:
    """Networks that are in use elsewhere on a host, one sentence each."""
    reasons = []
    for rank, spark in enumerate(sparks):
        used = others_networks(spark, _of_rank(rails, rank))
        for subnet in dict.fromkeys(target[rank].cidr for target in targets):
            clash = next(((network, name) for network, name in used if overlap(network, subnet)), None)
            if clash:
                where = f"by {clash[1]}" if clash[1] else "by a route"
                reasons.append(
                    f"{spark.name}: the plan's {subnet} overlaps {clash[0]}, which is in use {where}. Give other "
                    "addresses in spark_network_addresses."
                )
    return reasons

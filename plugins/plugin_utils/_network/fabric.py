# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this plugin util is internal to the collection; its interface may change at any time.

"""Plan the fabric: the interfaces that connect the Sparks, their addresses, and what has to be configured.

The plan has subnets with members, one interface of each Spark: two on a cable, any number on a switch.
"""

from __future__ import annotations

import dataclasses
import importlib.util
import itertools
import sys
import typing as t

import yaml
from ansible.module_utils.parsing.convert_bool import boolean

from ...module_utils._fabric.netplan import way_out
from .._recipe.text import join_words
from .addresses import clashes, default_plan, foreign_address_problems, greets, own_plan, to_ask, working
from .link_findings import (
    adopted_findings,
    duplicate_addresses,
    half_links,
    host_findings,
    link_local_addresses,
    port_findings,
    rail_findings,
)
from .links import (
    Choice,
    FabricSpec,
    Info,
    Interface,
    Joined,
    Members,
    PlanError,
    Spark,
    Target,
    all_own,
    both_or_all,
    connected_ports,
    given_interfaces,
    is_own,
    joined_names,
    linked,
    members_of,
    names,
    no_nic,
    refuse_no_link,
    refuse_ring,
    usable,
)

if t.TYPE_CHECKING:
    import netaddr

# IPv6 needs 1280; no NIC has more than the second.
MTU_RANGE = (1280, 65535)
# The results for one host, and for all, if there is no fabric.
ALONE: dict[str, t.Any] = {"rails": [], "configure": False, "document": {}, "renderer": "", "discover": {}}
NOTHING: dict[str, t.Any] = {"configure": False, "measure": False, "findings": [], "lines": []}

Rail = dict[str, t.Any]


def has_target(interface: Interface, address: netaddr.IPNetwork) -> bool:
    return any(f"{a['address']}/{a['prefix']}" == str(address) for a in interface["addresses"])


def address_owner(spark: Spark, interface: Interface) -> str:
    """Return what has set the addresses of an interface."""
    if interface["netplan_files"]:
        return join_words(interface["netplan_files"])
    file = str(interface["file"] or "")
    hidden = spark.info.get("netplan_unreadable") or []
    if "netplan-" in file and hidden:
        return f"netplan ({' or '.join(hidden)}, which only root can read)"
    if interface["manager"] == "NetworkManager":
        return f"NetworkManager's profile '{interface['profile']}'" if interface["profile"] else "NetworkManager"
    if interface["manager"] == "networkd":
        return f"systemd-networkd with {file}" if file else "systemd-networkd"
    return "hand ('ip address add', lost at a reboot)"


def needs(spark: Spark, rank: int, rails: t.Sequence[Members], targets: t.Sequence[Target], mtu: int) -> bool:
    """Return whether this host has to be configured."""
    interfaces = [members[rank] for members in rails]
    if spark.pending or not all(has_target(i, target[rank]) for i, target in zip(interfaces, targets)):
        return True
    # An MTU that this collection did not set stays.
    return any(is_own(interface) and interface["mtu"] != mtu for interface in interfaces)


def problems(spark: Spark, interfaces: t.Sequence[Interface], spec: FabricSpec) -> list[str]:
    """Return why these interfaces must not be configured on this host."""
    result = []
    reached = {row["interface"]: row["why"] for row in spark.info.get("management") or []}
    foreign, claimed = [], []
    for interface in interfaces:
        name = interface["name"]
        if name in reached:
            result.append(
                f"{spark.name}: {name} carries {reached[name]}, so it is not configured. Reach the host by another "
                "interface, or set the addresses yourself and set spark_network_mode to adopt."
            )
        elif interface["master"]:
            result.append(
                f"{spark.name}: {name} is part of {interface['master']}, so it is not configured. Remove it from "
                "there: RDMA needs each interface of a port on its own."
            )
        elif usable(interface) and not is_own(interface):
            foreign.append(interface)
        elif interface["netplan_files"]:
            claimed.append(interface)
    if foreign:
        has = join_words(f"{interface['name']} ({join_words(map(str, usable(interface)))})" for interface in foreign)
        result.append(
            f"{spark.name}: addresses are already set on {has} by "
            f"{join_words(dict.fromkeys(address_owner(spark, interface) for interface in foreign))}, so "
            "nothing is configured there. Use them (spark_network_mode: auto, with addresses in the same subnet on the "
            "other Sparks), or remove them first."
        )
    if claimed:
        files = list(dict.fromkeys(file for interface in claimed for file in interface["netplan_files"]))
        result.append(
            f"{spark.name}: {join_words(files)} configures {names(claimed)} and is not this collection's, so nothing "
            "is changed there. Add usable addresses to it and set spark_network_mode to adopt, or "
            f"{way_out(files, names(claimed))}"
        )
    small = [interface for interface in interfaces if interface["max_mtu"] and spec.mtu > interface["max_mtu"]]
    if small:
        result.append(
            f"{spark.name}: spark_network_mtu is {spec.mtu}, but {names(small)} can have an MTU of at most "
            f"{min(i['max_mtu'] for i in small)}. Lower it."
        )
    if not spark.info.get("netplan"):
        result.append(
            f"{spark.name}: netplan is not installed, so {names(interfaces)} cannot be configured. Install it with "
            "'sudo apt-get install netplan.io', or set the addresses yourself and set spark_network_mode to adopt."
        )
    return result


def document(
    renderer: str, interfaces: t.Sequence[Interface], addresses: t.Sequence[t.Any], mtu: int
) -> dict[str, t.Any]:
    """Return the netplan file. The renderer is set for each interface, because at the top it would apply to all."""
    entries: dict[str, t.Any] = {}
    for interface, address in zip(interfaces, addresses):
        entries[interface["name"]] = {
            "renderer": renderer,
            "dhcp4": False,
            "dhcp6": False,
            "accept-ra": False,
            "link-local": [],
            # A missing cable must not delay the boot.
            "optional": True,
            "mtu": mtu,
            "addresses": [str(address)],
        }
        if renderer == "NetworkManager":
            # Of several profiles of an interface, NetworkManager takes the one that was used last. netplan does not
            # pass accept-ra and link-local to it, so a router advertisement would add a default route.
            told = {"connection.autoconnect-priority": "100", "ipv6.method": "disabled"}
            entries[interface["name"]]["networkmanager"] = {"passthrough": told}
    return {"network": {"version": 2, "ethernets": entries}}


def choose(sparks: t.Sequence[Spark], spec: FabricSpec) -> list[list[Members]]:
    """Return the rails of each possible choice of ports; discovery decides between several. Raises PlanError."""
    without = [no_nic(spark, both_or_all(sparks)) for spark in sparks if not spark.info.get("ports")]
    if without:
        raise PlanError(*without)
    if spec.interfaces:
        return [given_interfaces(sparks, spec.interfaces)]
    if not all(map(linked, sparks)):
        refuse_no_link(sparks)
    choices = list(itertools.product(*map(linked, sparks)))

    def serves(choice: Choice) -> bool:
        result = working(members_of(choice))
        return bool(result) and (spec.mode != "configure" or all_own(result))

    def refused(choice: Choice) -> bool:
        return any(problems(spark, port["interfaces"], spec) for spark, port in zip(sparks, choice))

    # Ports that already have working addresses come before those that would have to be configured.
    choices.sort(key=lambda one: (not serves(one), refused(one), len({port["number"] for port in one}) > 1))
    if not serves(choices[0]):
        refuse_ring(sparks)
    if serves(choices[0]) or spec.mode == "adopt":
        return [members_of(choices[0])]
    if greets(sparks, choices) and all(spark.has_greeted for spark in sparks):
        choices = connected_ports(sparks, choices)[:1]
    return [members_of(choice) for choice in choices]


# The plan


@dataclasses.dataclass(frozen=True)
class Decision:
    """The connected interfaces with their addresses, and the hosts that have to be configured."""

    joined: list[Joined]
    # By rank.
    configure: list[bool]


def _cidrs(interface: Interface) -> str:
    return join_words(f"{a['address']}/{a['prefix']}" for a in interface["addresses"]) or "has no address"


def describe_addresses(sparks: t.Sequence[Spark], rails: t.Sequence[Members]) -> str:
    parts = []
    for rank, spark in enumerate(sparks):
        each = [f"{members[rank]['name']} {_cidrs(members[rank])}" for members in rails]
        parts.append(f"{spark.name}: {', '.join(each)}.")
    return " ".join(parts)


def adopt(sparks: t.Sequence[Spark], rails: t.Sequence[Members], spec: FabricSpec, findings: list[str]) -> Decision:
    result = working(rails)
    if not result:
        raise PlanError(
            f"{joined_names(sparks)}: spark_network_mode is adopt, but the port with the cable has no addresses in a "
            "common subnet. Set such addresses, or set spark_network_mode to auto. "
            f"{describe_addresses(sparks, rails)}",
            *duplicate_addresses(sparks, rails),
        )
    findings += duplicate_addresses(sparks, rails)
    if len(result) < len(rails):
        findings.append(
            f"{joined_names(sparks)}: only {names(result[0][0])} have addresses in a common subnet, so half the rate "
            "is used. Give the other interfaces of the port addresses in another subnet."
        )
    if spec.plan:
        own = all_own(result)
        by = "an earlier run" if own else address_owner(sparks[0], result[0][0][0])
        findings.append(
            f"{joined_names(sparks)}: spark_network_addresses is not used, because the port already has working "
            f"addresses, set by {by}.{' To change them, set spark_network_mode to configure.' if own else ''} "
            f"{describe_addresses(sparks, rails)}"
        )
    return Decision(result, [False] * len(sparks))


def matches(found: t.Sequence[Joined], targets: t.Sequence[Target]) -> bool:
    # As text: two addresses of one network are equal to netaddr.
    return sorted(map(str, (target for _members, target in found))) == sorted(map(str, targets))


def decide(sparks: t.Sequence[Spark], rails: list[Members], spec: FabricSpec, findings: list[str]) -> Decision:
    """Use the present addresses, or return what has to be configured. Raises PlanError."""
    targets = own_plan(sparks, rails, spec.plan) if spec.plan else None
    if spec.mode == "adopt":
        return adopt(sparks, rails, dataclasses.replace(spec, plan=None), findings)
    result = working(rails)
    # An own interface that lost its addresses gets them again, and a trial has to be confirmed.
    each = [interface for members in rails for interface in members]
    half = len(result) < len(rails) and any(map(is_own, each)) and all(is_own(i) or not usable(i) for i in each)
    if spec.mode == "auto" and result and not half and not any(spark.pending for spark in sparks):
        used = targets is not None and matches(result, targets)
        return adopt(sparks, rails, dataclasses.replace(spec, plan=None) if used else spec, findings)
    if targets is None:
        # Working addresses stay, even if another network would be the first choice now.
        keeps = len(result) == len(rails)
        if keeps:
            rails = [members for members, _target in result]
        targets = [target for _members, target in result] if keeps else default_plan(sparks, rails, findings)
    joined = list(zip(rails, targets))
    configure = [needs(spark, rank, rails, targets, spec.mtu) for rank, spark in enumerate(sparks)]
    reasons = []
    for rank, spark in enumerate(sparks):
        if configure[rank]:
            reasons += problems(spark, [members[rank] for members in rails], spec)
    if any(configure):
        reasons += clashes(sparks, rails, targets) + foreign_address_problems(sparks, rails, targets)
    if reasons:
        raise PlanError(*dict.fromkeys(reasons), *duplicate_addresses(sparks, rails))
    return Decision(joined, configure)


def slow_rails(sparks: t.Sequence[Spark], joined: t.Sequence[Joined], spec: FabricSpec) -> list[str]:
    return [
        f"{spark.name}: {members[rank]['name']} runs at {members[rank]['speed_mbps'] / 1000:g} Gb/s, but "
        f"spark_network_minimum_speed_mbps is {spec.minimum_speed_mbps / 1000:g} Gb/s. Reseat the cable, or try "
        "another one made for that rate."
        for rank, spark in enumerate(sparks)
        for members, _target in joined
        if members[rank]["speed_mbps"] is not None and members[rank]["speed_mbps"] < spec.minimum_speed_mbps
    ]


def parsed_input(value: t.Any) -> t.Any:
    """Return an input of the command line, which is text: YAML, or names with commas between them."""
    if not isinstance(value, str):
        return value
    try:
        read = yaml.safe_load(value)
    except yaml.YAMLError:
        return value
    return [word.strip() for word in read.split(",")] if isinstance(read, str) else read


def tristate(name: str, value: t.Any) -> bool | None:
    """Return an input that is auto or a boolean; None for auto."""
    if value == "auto":
        return None
    try:
        return bool(boolean(value))
    except TypeError:
        raise PlanError(f"{name} is {value!r}, but must be auto, true or false.") from None


def check_spec(spec: FabricSpec) -> None:
    tristate("spark_network_bandwidth_test", spec.bandwidth_test)
    low, high = MTU_RANGE
    if not low <= spec.mtu <= high:
        raise PlanError(
            f"spark_network_mtu is {spec.mtu}, but must be from {low} to {high}; 9000 is usual, 1500 always works."
        )


def gid_index(interface: Interface, address: netaddr.IPNetwork) -> int | None:
    return next((gid["index"] for gid in interface["gids"] if gid["address"] == str(address.ip)), None)


def rail(members: Members, target: Target, rank: int, mtu: int) -> Rail:
    """Return one interface of a link, seen from one host, with what its peers need."""
    # Each node verifies the link to the next rank.
    after = (rank + 1) % len(members)
    interface, peer, address = members[rank], members[after], target[rank]
    return {
        "interface": interface["name"],
        "rdma": interface["rdma"],
        "port": interface["port"],
        "address": str(address.ip),
        "prefix": address.prefixlen,
        "subnet": str(address.cidr),
        "peer_address": str(target[after].ip),
        "peer_interface": peer["name"],
        "peer_rdma": peer["rdma"],
        "mtu": mtu,
        "speed_mbps": interface["speed_mbps"],
        "manager": interface["manager"],
        "gid_index": gid_index(interface, address),
    }


def end_of_stream(rank: int, many: int) -> str:
    """Return whether a node sends or receives while the bandwidth is measured; two nodes measure together."""
    return "receive" if rank % 2 else "send" if rank + 1 < many else ""


def to_measure(sparks: t.Sequence[Spark], decision: Decision, asked: bool | None) -> bool:
    """Return the input, or whether a node restarted since the last measurement while no cluster uses the link."""
    if asked is not None:
        return asked

    def known(rank: int, spark: Spark) -> bool:
        if not end_of_stream(rank, len(sparks)):
            return True
        rails = {members[rank]["name"] for members, _target in decision.joined}
        return rails <= {row.get("interface") for row in spark.info.get("measured") or []}

    free = not any(spark.info.get("in_use") for spark in sparks)
    return free and not all(known(rank, spark) for rank, spark in enumerate(sparks))


def describe(sparks: t.Sequence[Spark], decision: Decision, rows: t.Sequence[t.Sequence[Rail]]) -> list[str]:
    """Return the plan as text."""
    return [
        f"{spark.name}: {row['interface']} {row['address']}/{row['prefix']}, MTU {row['mtu']}, to "
        f"{after.name}'s {row['peer_interface']} {row['peer_address']}: "
        f"{'to be configured' if configure else 'as it is'}"
        for spark, after, of_spark, configure in zip(sparks, [*sparks[1:], sparks[0]], rows, decision.configure)
        for row in of_spark
    ]


def joined_sparks(hosts: t.Mapping[str, Info]) -> list[Spark]:
    """Return the Sparks of the cluster. Raises PlanError if the facts of one are missing."""
    sparks = [Spark(name, info or {}) for name, info in hosts.items()]
    silent = [spark for spark in sparks if not spark.info.get("ports") and not spark.info.get("networks")]
    if silent:
        raise PlanError(
            f"The network of {joined_names(silent)} is unknown. Run the playbook for {both_or_all(sparks)} Sparks "
            "together, without --limit."
        )
    return sparks


def refuse_no_rdma(sparks: t.Sequence[Spark], rails: t.Sequence[Members]) -> None:
    """Raise PlanError for interfaces that NCCL cannot use."""
    without = [
        f"{spark.name}: {members[rank]['name']} has no RDMA device, which NCCL needs. Load its driver with 'sudo "
        "modprobe mlx5_ib'."
        for members in rails
        for rank, spark in enumerate(sparks)
        if members[rank]["rdma"] is None
    ]
    if without:
        raise PlanError(*without)


def require_netaddr() -> None:
    """Raise PlanError if Ansible's Python does not have netaddr. One Spark does not need it."""
    if importlib.util.find_spec("netaddr") is None:
        raise PlanError(
            f"The addresses between the Sparks cannot be planned: {sys.executable}, which runs Ansible, does not have "
            "the library netaddr. Run 'make setup' in the clone, or install netaddr 1.0 or newer there. Nothing was "
            "changed."
        )


def plan(hosts: t.Mapping[str, Info], spec: FabricSpec) -> dict[str, t.Any]:
    """Return the plan for all hosts, in the order of the ranks; one Spark has no fabric.

    Raises PlanError.
    """
    check_spec(spec)
    if len(hosts) < 2:
        return {**NOTHING, "hosts": {name: {"rank": rank, **ALONE} for rank, name in enumerate(hosts)}}
    require_netaddr()
    sparks = joined_sparks(hosts)
    findings: list[str] = []
    choices = choose(sparks, spec)
    if len(choices) > 1:
        return _discovery_plan(sparks, to_ask(sparks, choices, spec, [True] * len(sparks)))
    rails = choices[0]
    if not spec.interfaces:
        findings += port_findings(sparks, rails)
    refuse_no_rdma(sparks, rails)
    decision = decide(sparks, rails, spec, findings)
    slow = slow_rails(sparks, decision.joined, spec)
    if slow:
        raise PlanError(*slow)
    findings += rail_findings(sparks, decision.joined, spec) + half_links(sparks, decision.joined)
    findings += link_local_addresses(sparks, decision.joined)
    findings += host_findings(sparks)
    if not any(decision.configure):
        findings += adopted_findings(sparks, decision.joined, spec)
    asks = to_ask(sparks, choices, spec, decision.configure) if any(decision.configure) else [{} for _spark in sparks]
    return _final_plan(sparks, decision, spec, findings, asks)


def _discovery_plan(sparks: t.Sequence[Spark], asks: t.Sequence[dict[str, t.Any]]) -> dict[str, t.Any]:
    """No plan yet: what to ask before there can be one."""
    hosts = {spark.name: {"rank": rank, **ALONE, "discover": asks[rank]} for rank, spark in enumerate(sparks)}
    return {**NOTHING, "hosts": hosts, "configure": True}


def _final_plan(
    sparks: t.Sequence[Spark],
    decision: Decision,
    spec: FabricSpec,
    findings: list[str],
    asks: t.Sequence[dict[str, t.Any]],
) -> dict[str, t.Any]:
    mtus = [
        min(spec.mtu if own else end["mtu"] for own, end in zip(decision.configure, members))
        for members, _target in decision.joined
    ]
    rows = [
        [rail(members, target, rank, mtu) for (members, target), mtu in zip(decision.joined, mtus)]
        for rank in range(len(sparks))
    ]
    hosts = {}
    for rank, spark in enumerate(sparks):
        by = spark.info.get("renderer") or "networkd" if spec.renderer == "auto" else spec.renderer
        interfaces = [members[rank] for members, _target in decision.joined]
        addresses = [target[rank] for _members, target in decision.joined]
        hosts[spark.name] = {
            "rank": rank,
            "rails": rows[rank],
            "configure": decision.configure[rank],
            "document": document(by, interfaces, addresses, spec.mtu) if decision.configure[rank] else {},
            "renderer": by,
            "discover": asks[rank],
        }
    return {
        "hosts": hosts,
        "configure": any(decision.configure),
        "measure": to_measure(sparks, decision, tristate("spark_network_bandwidth_test", spec.bandwidth_test)),
        "findings": findings,
        "lines": describe(sparks, decision, rows),
    }

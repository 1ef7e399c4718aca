# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this plugin util is internal to the collection; its interface may change at any time.

"""Which interfaces join two Sparks, with which addresses, and whether anything has to be configured for that."""

from __future__ import annotations

import dataclasses
import ipaddress
import itertools
import typing as t

import yaml
from ansible.module_utils.parsing.convert_bool import boolean
from ansible_collections.dgx_spark.speculative.plugins.module_utils._fabric.netplan import PENDING, way_out
from ansible_collections.dgx_spark.speculative.plugins.module_utils._spark.hotplug import ASIDE, HANDLER, MARKER
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._recipe.recipe import nearest

MODES = ("auto", "adopt", "configure")
RENDERERS = ("auto", "NetworkManager", "networkd")
# NVIDIA's page since July 2026; each twin has a subnet of its own, or the source address would be ambiguous.
DEFAULT_HOSTS = (10, 11)
DEFAULT_THIRD = (*range(100, 254, 2), *range(2, 100, 2))
# So many pairs of networks are looked for others' addresses at once, of which the first free one is taken.
ASKED_NETWORKS = 6
# IPv6 needs 1280; the header of a full jumbo frame leaves no card more than this.
MTU_RANGE = (1280, 65535)
# Each of a port's two interfaces hangs on four lanes of PCIe 5.
PCIE_WIDTH, PCIE_GTS = 4, 32

Interface = dict[str, t.Any]
Info = dict[str, t.Any]


class PlanError(Exception):
    """Why the Sparks cannot be joined: one sentence for each reason, and what to do."""

    def __init__(self, *reasons: str) -> None:
        super().__init__("\n".join(reasons))
        self.reasons = list(reasons)


@dataclasses.dataclass(frozen=True)
class Wish:
    """What was asked for."""

    mode: str = "auto"
    plan: t.Any = None
    interfaces: t.Any = None
    mtu: int = 9000
    renderer: str = "auto"
    # Below the first it is mentioned, below the second refused.
    speed_mbps: int = 200_000
    minimum_speed_mbps: int = 0
    # auto, or a boolean as people write it.
    bandwidth_test: t.Any = "auto"


@dataclasses.dataclass(frozen=True)
class Spark:
    name: str
    info: Info

    @property
    def interfaces(self) -> list[Interface]:
        return [interface for port in self.info.get("ports") or [] for interface in port["interfaces"]]

    def interface(self, name: str) -> Interface | None:
        return next((one for one in self.interfaces if one["name"] == name), None)

    @property
    def neighbours(self) -> dict[str, t.Any] | None:
        """Who was found on the wire; None as long as nobody has asked."""
        return self.info.get("neighbours")

    def hears(self, own: Interface, other: Interface) -> bool:
        heard = (self.neighbours or {}).get("heard") or {}
        return other["mac"] in (heard.get(own["name"]) or [])

    @property
    def pending(self) -> bool:
        return (self.info.get("trial") or {}).get("state") in PENDING


def is_own(interface: Interface) -> bool:
    """Whether this collection has set it up, so that it may change it."""
    return bool(interface.get("own"))


Ends = tuple[Interface, Interface]
Target = tuple[ipaddress.IPv4Interface, ipaddress.IPv4Interface]


def listed(words: t.Iterable[str]) -> str:
    """Words as in a sentence."""
    items = list(words)
    return " and ".join([", ".join(items[:-1]), items[-1]] if len(items) > 1 else items)


def names(interfaces: t.Iterable[Interface]) -> str:
    return listed(interface["name"] for interface in interfaces)


# Ports and links


def link_state(interface: Interface) -> str:
    if not interface["up"]:
        return "is switched off"
    return "has a link" if interface["carrier"] else "has no link"


def has_link(interface: Interface) -> bool:
    return bool(interface["up"] and interface["carrier"])


def port_state(port: t.Mapping[str, t.Any]) -> str:
    states = listed(f"{interface['name']} {link_state(interface)}" for interface in port["interfaces"])
    return f"port {port['number']}: {states}"


def ports_state(spark: Spark) -> str:
    return f"{spark.name}: {'; '.join(map(port_state, spark.info['ports']))}."


def linked(spark: Spark) -> list[dict[str, t.Any]]:
    """The ports whose twins are both up."""
    return [p for p in spark.info["ports"] if len(p["interfaces"]) > 1 and all(map(has_link, p["interfaces"]))]


def no_card(spark: Spark) -> str:
    """Why there is no interface: DGX OS takes the card off the bus without a cable, or its driver is missing."""
    if spark.info.get("connectx"):
        return (
            f"{spark.name}: the ConnectX network card is there, but none of its interfaces. Load its driver with "
            "'sudo modprobe mlx5_core mlx5_ib'; if that fails, restart the Spark."
        )
    hotplug = spark.info.get("hotplug") or {}
    if not hotplug.get("armed"):
        return (
            f"{spark.name}: no ConnectX network card is on the PCI bus, though DGX OS is not set to switch it off. "
            "Plug the cable into both Sparks, then restart both with the cable in."
        )
    powered = hotplug.get("powered")
    sees = "" if powered is None else ", though it sees one now" if powered else ", and it sees none"
    return (
        f"{spark.name}: the ConnectX network card is switched off: DGX OS does that while it sees no cable{sees}. "
        "Plug one into both Sparks until it clicks and wait 30 s; if the card stays away, run "
        f"'sudo {HANDLER} plug-in' on {spark.name}, or "
        f"'sudo mv {MARKER} {ASIDE}' on both, which keeps the card, and restart both with the cable in."
    )


def refuse_no_link(sparks: t.Sequence[Spark]) -> t.NoReturn:
    """Raises PlanError: cable out, only one twin up, or interfaces that are switched off."""
    states = " ".join(map(ports_state, sparks))
    off = {spark.name: [i["name"] for i in spark.interfaces if not i["up"]] for spark in sparks if not linked(spark)}
    for spark in sparks:
        for port in spark.info["ports"]:
            up, down = (
                [i for i in port["interfaces"] if has_link(i)],
                [i for i in port["interfaces"] if not has_link(i)],
            )
            if up and not linked(spark) and not any(not i["up"] for i in down):
                missing = f"{names(down)} has none" if down else "the card shows no second one"
                raise PlanError(
                    f"{spark.name}: only one of the two interfaces of port {port['number']} has a link: {names(up)} "
                    f"has one, {missing}. Switch both Sparks off, take the power plugs out for a minute, and start "
                    "them again; or name one interface of each Spark in spark_network_interfaces to go on with half "
                    f"the rate. {states}"
                )
    if any(off.values()):
        commands = "; ".join(
            f"on {name}: " + ", ".join(f"'sudo ip link set {interface} up'" for interface in interfaces)
            for name, interfaces in off.items()
            if interfaces
        )
        raise PlanError(
            f"{listed(s.name for s in sparks)}: no QSFP port is known to have a link at both ends, and interfaces that "
            f"are switched off do not tell. Switch them on ({commands}), then run again. {states}"
        )
    raise PlanError(
        f"{listed(s.name for s in sparks)}: no QSFP port has a link at both ends, so there is no cable between them, "
        "or it is not seated. Plug it into the same port of both until it clicks; if it stays like that, restart both "
        f"Sparks or try another cable. {states}"
    )


def given_interfaces(sparks: t.Sequence[Spark], given: t.Any) -> list[Ends]:
    """The interfaces the user names, for all hosts or for each."""
    chosen: list[list[Interface]] = []
    reasons = []
    for spark in sparks:
        wanted = given.get(spark.name) if isinstance(given, dict) else given
        if not isinstance(wanted, list) or not wanted or not all(isinstance(name, str) for name in wanted):
            raise PlanError(
                f"spark_network_interfaces does not name interfaces for {spark.name}. Give a list of names, or a "
                "mapping of host names to such lists."
            )
        known = [interface["name"] for interface in spark.interfaces]
        found = []
        for name in wanted:
            interface = spark.interface(name)
            if interface is None:
                reasons.append(
                    f"{spark.name}: there is no ConnectX interface {name} (spark_network_interfaces), only "
                    f"{listed(known)}{nearest(name, known) or '.'}"
                )
            elif interface in found:
                reasons.append(f"{spark.name}: spark_network_interfaces names {name} twice. Name each interface once.")
            else:
                found.append(interface)
        chosen.append(found)
    if reasons:
        raise PlanError(*reasons)
    head, worker = chosen
    if len(head) != len(worker) or len(head) > 2:
        raise PlanError(
            f"spark_network_interfaces names {len(head)} interfaces of {sparks[0].name} and {len(worker)} of "
            f"{sparks[1].name}, but it must be the same number, one or two: the twins of the port with the cable."
        )
    for spark, interfaces in zip(sparks, chosen):
        silent = [interface for interface in interfaces if interface["up"] and not interface["carrier"]]
        if silent:
            reasons.append(
                f"{spark.name}: {names(silent)} (spark_network_interfaces) has no link. Plug in the cable, or name the "
                f"interfaces that have one. {ports_state(spark)}"
            )
    if reasons:
        raise PlanError(*reasons)
    return list(zip(head, worker))


PortPair = tuple[dict[str, t.Any], dict[str, t.Any]]


def ends_of(pair: PortPair) -> list[Ends]:
    return list(zip(pair[0]["interfaces"], pair[1]["interfaces"]))


def reaching(sparks: t.Sequence[Spark], pairs: t.Sequence[PortPair]) -> list[PortPair]:
    """Those over which each Spark has heard the other. Raises PlanError if there is none."""
    head, worker = sparks
    found = [pair for pair in pairs if all(head.hears(a, b) and worker.hears(b, a) for a, b in ends_of(pair))]
    if not found:
        raise PlanError(
            f"{head.name} and {worker.name}: ports of both have a link, but none of one reaches one of the other: "
            "their cables lead somewhere else, or they did not ask at the same time. Join the two, or name the "
            "interfaces that are joined in spark_network_interfaces; if they are, run with forks of 2 or more, and "
            f"again if one of them was slow. {' '.join(map(ports_state, sparks))}"
        )
    return found


def choose(sparks: t.Sequence[Spark], wish: Wish) -> list[list[Ends]]:
    """The interfaces of both ends, one pair for each twin; more than one choice if only the wire can tell."""
    without = [no_card(spark) for spark in sparks if not spark.info.get("ports")]
    if without:
        raise PlanError(*without)
    if wish.interfaces:
        return [given_interfaces(sparks, wish.interfaces)]
    head, worker = (linked(spark) for spark in sparks)
    if not head or not worker:
        refuse_no_link(sparks)
    pairs = [(a, b) for a in head for b in worker]

    def serves(pair: PortPair) -> bool:
        found = working(ends_of(pair))
        return bool(found) and (wish.mode != "configure" or all_own(found))

    def refused(pair: PortPair) -> bool:
        return any(objections(spark, pair[rank]["interfaces"], wish) for rank, spark in enumerate(sparks))

    # A pair that already has working addresses comes before one that would have to be configured.
    pairs.sort(key=lambda pair: (not serves(pair), refused(pair), pair[0]["number"] != pair[1]["number"]))
    if serves(pairs[0]) or wish.mode == "adopt":
        return [ends_of(pairs[0])]
    if len(pairs) > 1 and all((spark.neighbours or {}).get("heard") is not None for spark in sparks):
        pairs = reaching(sparks, pairs)[:1]
    return [ends_of(pair) for pair in pairs]


def port_findings(sparks: t.Sequence[Spark], ends: t.Sequence[Ends]) -> list[str]:
    """What to know of the choice of a port."""
    first, second = ([pair[rank] for pair in ends] for rank in (0, 1))
    numbers = first[0]["port"], second[0]["port"]
    both = f"{sparks[0].name} and {sparks[1].name}"
    if numbers[0] != numbers[1]:
        return [
            f"{both}: the cable joins port {numbers[0]} ({names(first)}) with port {numbers[1]} ({names(second)}). "
            "That works; NVIDIA advises the same port on both."
        ]
    if all(len(linked(spark)) > 1 for spark in sparks):
        return [
            f"{both}: both ports have a cable; port {numbers[0]} is used. A second cable adds no speed, since one "
            "carries all the network card can do."
        ]
    return []


# Addresses


def usable(interface: Interface) -> list[ipaddress.IPv4Interface]:
    """Its addresses, without those that hosts give themselves."""
    found = [ipaddress.IPv4Interface(f"{a['address']}/{a['prefix']}") for a in interface["addresses"]]
    return [address for address in found if not address.is_link_local and address.network.prefixlen < 32]


def meeting(head: Interface, worker: Interface) -> Target | None:
    """The first addresses of both that are in the same network."""
    for a, b in itertools.product(usable(head), usable(worker)):
        if a.network == b.network and a.ip != b.ip:
            return a, b
    return None


def working(ends: t.Sequence[Ends]) -> list[tuple[Ends, Target]]:
    """Those that have addresses which meet, in the order that joins most; twins may meet crosswise."""
    best: list[tuple[Ends, Target]] = []
    for workers in itertools.permutations([worker for _head, worker in ends]):
        found = []
        for (head, _worker), worker in zip(ends, workers):
            target = meeting(head, worker)
            if target is not None:
                found.append(((head, worker), target))
        if len(found) > len(best):
            best = found
    return best


def others_networks(spark: Spark, rails: t.Collection[str]) -> list[tuple[ipaddress.IPv4Network, str]]:
    """What the host uses elsewhere; what is ours on its other port is from before the cable was moved."""
    rails = [*rails, *(one["name"] for one in spark.interfaces if is_own(one))]
    return [
        (ipaddress.IPv4Network(row["network"]), str(row["interface"]))
        for row in spark.info.get("networks") or []
        if row["interface"] not in rails
    ]


def _of_rails(ends: t.Sequence[Ends], rank: int) -> list[str]:
    return [pair[rank]["name"] for pair in ends]


Subnets = list[ipaddress.IPv4Network]


def free_networks(sparks: t.Sequence[Spark], ends: t.Sequence[Ends]) -> t.Iterator[Subnets]:
    """The neighbouring /24s of 192.168.0.0/16 that neither host uses elsewhere, one for each twin."""
    taken = [row for rank, spark in enumerate(sparks) for row in others_networks(spark, _of_rails(ends, rank))]
    for third in DEFAULT_THIRD:
        subnets = [ipaddress.IPv4Network(f"192.168.{third + number}.0/24") for number in range(len(ends))]
        if not any(network.overlaps(subnet) for subnet in subnets for network, _interface in taken):
            yield subnets


def _defaults(subnets: Subnets) -> list[Target]:
    return [_target(subnet, [subnet[host] for host in DEFAULT_HOSTS]) for subnet in subnets]


def strangers(sparks: t.Sequence[Spark], ends: t.Sequence[Ends]) -> dict[str, str]:
    """Who else has an address on the wire, in words of who heard it first, by address; the two Sparks may."""
    own = {interface["mac"] for spark in sparks for interface in spark.interfaces}
    found: dict[str, str] = {}
    for rank, spark in enumerate(sparks):
        for name in _of_rails(ends, rank):
            for address, macs in (((spark.neighbours or {}).get("taken") or {}).get(name) or {}).items():
                for mac in sorted(set(macs) - own):
                    found.setdefault(address, f"{spark.name}: on {name} {mac} has {address}")
    return found


def default_plan(sparks: t.Sequence[Spark], ends: t.Sequence[Ends], findings: list[str]) -> list[Target]:
    """The first networks that are free, on the wire, too; those that it is not asked for are not known to be."""
    both = listed(spark.name for spark in sparks)
    others = strangers(sparks, ends)
    for subnets in itertools.islice(free_networks(sparks, ends), ASKED_NETWORKS):
        targets = _defaults(subnets)
        if any(str(address.ip) in others for target in targets for address in target):
            continue
        if str(subnets[0]) != f"192.168.{DEFAULT_THIRD[0]}.0/24":
            told = f" ({'; '.join(others.values())})" if others else ""
            findings.append(
                f"{both}: 192.168.{DEFAULT_THIRD[0]}.0/24 or its neighbour is in use{told}, so the cable has "
                f"{listed(map(str, subnets))}."
            )
        return targets
    if others:
        raise PlanError(
            f"{both}: others on the wire have {listed(others)}, so all networks that were asked for are taken. Run "
            "again once one is free, or give addresses of your own in spark_network_plan."
        )
    raise PlanError(
        f"{both}: no two networks in 192.168.0.0/16 are free. Give addresses of your own in spark_network_plan."
    )


def refuse_strangers(sparks: t.Sequence[Spark], ends: t.Sequence[Ends], targets: t.Sequence[Target]) -> list[str]:
    """Addresses that others on the wire have, one sentence each."""
    planned = {str(address.ip) for target in targets for address in target}
    return [
        f"{words}, another host on the same switch. Give other addresses in spark_network_plan."
        for address, words in strangers(sparks, ends).items()
        if address in planned
    ]


def to_ask(
    sparks: t.Sequence[Spark], choices: t.Sequence[list[Ends]], wish: Wish, configure: t.Sequence[bool]
) -> list[dict[str, t.Any]]:
    """What each host is to ask on the wire before the plan is final; nothing if it has, or is not configured."""
    greet = len(choices) > 1
    every: list[dict[str, list[str]]] = [{}, {}]
    for ends in choices:
        plans = (
            [own_plan(sparks, ends, wish.plan)]
            if wish.plan
            else map(_defaults, itertools.islice(free_networks(sparks, ends), ASKED_NETWORKS))
        )
        for targets in plans:
            for pair, target in zip(ends, targets):
                for rank, interface in enumerate(pair):
                    every[rank].setdefault(interface["name"], []).extend(str(address.ip) for address in target)
    return [
        {"greet": greet, "addresses": {name: sorted(set(each)) for name, each in every[rank].items()}}
        if greet or (configure[rank] and spark.neighbours is None)
        else {}
        for rank, spark in enumerate(sparks)
    ]


def _target(subnet: ipaddress.IPv4Network, pair: t.Sequence[ipaddress.IPv4Address]) -> Target:
    head, worker = (ipaddress.IPv4Interface(f"{address}/{subnet.prefixlen}") for address in pair)
    return head, worker


def _rows_of(plan: t.Any, sparks: t.Sequence[Spark]) -> list[tuple[str, str]]:
    """The plan as pairs of addresses with prefix. Raises PlanError for what cannot be read."""
    example = "{subnet: 192.168.100.0/24, addresses: [192.168.100.10, 192.168.100.11]}"
    if isinstance(plan, dict):
        lists = []
        for spark in sparks:
            given = plan.get(spark.name)
            if not isinstance(given, list) or not given:
                raise PlanError(
                    f"spark_network_plan has no list of addresses for {spark.name}. Give each host as many addresses "
                    "with prefix length as there are interfaces, such as 192.168.100.10/24."
                )
            lists.append([str(address) for address in given])
        if len(lists[0]) != len(lists[1]):
            raise PlanError(
                f"spark_network_plan has {len(lists[0])} addresses for {sparks[0].name} and {len(lists[1])} for "
                f"{sparks[1].name}. Give both the same number."
            )
        return list(zip(lists[0], lists[1]))
    found = []
    for number, row in enumerate(plan if isinstance(plan, list) else [None], start=1):
        if not isinstance(row, dict) or set(row) - {"subnet", "addresses"} or "addresses" not in row:
            raise PlanError(f"spark_network_plan, entry {number}: it must look like {example}.")
        given = row["addresses"]
        if isinstance(given, dict):
            given = [given[spark.name] for spark in sparks if spark.name in given]
        if not isinstance(given, list) or len(given) != len(sparks):
            raise PlanError(
                f"spark_network_plan, entry {number}: 'addresses' must hold two, that of {sparks[0].name} and that of "
                f"{sparks[1].name}."
            )
        prefix = str(row.get("subnet", "")).partition("/")[2]
        texts = [str(address) if "/" in str(address) or not prefix else f"{address}/{prefix}" for address in given]
        if "subnet" in row:
            _within(row["subnet"], texts, number)
        found.append((texts[0], texts[1]))
    return found


def _within(subnet: t.Any, texts: t.Sequence[str], number: int) -> None:
    try:
        network = ipaddress.IPv4Network(str(subnet))
    except ValueError as error:
        raise PlanError(f"spark_network_plan, entry {number}: '{subnet}' is no IPv4 subnet ({error}).") from None
    for text in texts:
        if _address(text, number).ip not in network:
            raise PlanError(
                f"spark_network_plan, entry {number}: {text.partition('/')[0]} is not in {network}. Correct one of "
                "them."
            )


def _address(text: str, number: int) -> ipaddress.IPv4Interface:
    try:
        if "/" not in text:
            raise ValueError("it has no prefix length, such as /24")
        address = ipaddress.IPv4Interface(text)
    except ValueError as error:
        raise PlanError(f"spark_network_plan, entry {number}: '{text}' is no IPv4 address ({error}).") from None
    network = address.network
    ends = (network.network_address, network.broadcast_address) if network.prefixlen < 31 else ()
    if (
        address.is_multicast
        or address.is_loopback
        or address.is_unspecified
        or address.ip in ends
        or network.prefixlen > 31
    ):
        raise PlanError(
            f"spark_network_plan, entry {number}: {text} cannot be the address of a host. Give another one."
        )
    return address


def own_plan(sparks: t.Sequence[Spark], ends: t.Sequence[Ends], plan: t.Any) -> list[Target]:
    """The user's plan, as far as it can be judged by itself."""
    targets: list[Target] = []
    for number, (first, second) in enumerate(_rows_of(plan, sparks), start=1):
        a, b = _address(first, number), _address(second, number)
        if a.network != b.network:
            raise PlanError(
                f"spark_network_plan, entry {number}: {a} and {b} are not in one subnet, so {sparks[0].name} and "
                f"{sparks[1].name} would not find each other. Correct an address or a prefix length."
            )
        targets.append((a, b))
    if len(targets) != len(ends):
        raise PlanError(
            f"spark_network_plan has addresses for {len(targets)} interfaces of each Spark, but {len(ends)} are used "
            f"({names(end[0] for end in ends)} on {sparks[0].name}). Give as many, or name the interfaces in "
            "spark_network_interfaces."
        )
    every = [address.ip for target in targets for address in target]
    double = sorted({str(address) for address in every if every.count(address) > 1})
    if double:
        raise PlanError(
            f"spark_network_plan gives {listed(double)} more than once. Each interface needs an address of its own."
        )
    for (a, _b), (c, _d) in itertools.combinations(targets, 2):
        if a.network != c.network and a.network.overlaps(c.network):
            raise PlanError(
                f"spark_network_plan: {a.network} and {c.network} overlap. Give the interfaces subnets that have "
                "nothing in common."
            )
    return targets


def refuse_clashes(sparks: t.Sequence[Spark], ends: t.Sequence[Ends], targets: t.Sequence[Target]) -> list[str]:
    """Networks that are in use elsewhere on a host, one sentence each."""
    reasons = []
    for rank, spark in enumerate(sparks):
        used = others_networks(spark, _of_rails(ends, rank))
        for subnet in dict.fromkeys(target[rank].network for target in targets):
            clash = next(((network, name) for network, name in used if network.overlaps(subnet)), None)
            if clash:
                where = f"by {clash[1]}" if clash[1] else "by a route"
                reasons.append(
                    f"{spark.name}: the plan's {subnet} overlaps {clash[0]}, which is in use {where}. Give other "
                    "addresses in spark_network_plan."
                )
    return reasons


# What has to be configured


def has_target(interface: Interface, address: ipaddress.IPv4Interface) -> bool:
    return any(f"{a['address']}/{a['prefix']}" == str(address) for a in interface["addresses"])


def who(spark: Spark, interface: Interface) -> str:
    """Who has set its addresses."""
    if interface["netplan_files"]:
        return listed(interface["netplan_files"])
    file = str(interface["file"] or "")
    hidden = spark.info.get("netplan_unreadable") or []
    if "netplan-" in file and hidden:
        return f"netplan ({' or '.join(hidden)}, which only root can read)"
    if interface["manager"] == "NetworkManager":
        return f"NetworkManager's profile '{interface['profile']}'" if interface["profile"] else "NetworkManager"
    if interface["manager"] == "networkd":
        return f"systemd-networkd with {file}" if file else "systemd-networkd"
    return "hand ('ip address add'), so that a restart forgets them"


def needs(spark: Spark, rank: int, ends: t.Sequence[Ends], targets: t.Sequence[Target], mtu: int) -> bool:
    """Whether this host is not yet as planned."""
    interfaces = [pair[rank] for pair in ends]
    if spark.pending or not all(has_target(i, target[rank]) for i, target in zip(interfaces, targets)):
        return True
    # The MTU of what others have set up is theirs.
    return any(is_own(interface) and interface["mtu"] != mtu for interface in interfaces)


def objections(spark: Spark, interfaces: t.Sequence[Interface], wish: Wish) -> list[str]:
    """Why these interfaces may not be configured on this host."""
    found = []
    reached = {row["interface"]: row["why"] for row in spark.info.get("management") or []}
    foreign, claimed = [], []
    for interface in interfaces:
        name = interface["name"]
        if name in reached:
            found.append(
                f"{spark.name}: {name} carries {reached[name]}, so it is not configured. Reach the host by another "
                "interface, or set up the addresses yourself and set spark_network_mode to adopt."
            )
        elif interface["master"]:
            found.append(
                f"{spark.name}: {name} is part of {interface['master']}, so it is not configured. Take it out of "
                "there: RDMA needs both twins by themselves."
            )
        elif usable(interface) and not is_own(interface):
            foreign.append(interface)
        elif interface["netplan_files"]:
            claimed.append(interface)
    if foreign:
        has = listed(f"{interface['name']} ({listed(map(str, usable(interface)))})" for interface in foreign)
        found.append(
            f"{spark.name}: addresses are already set on {has} by "
            f"{listed(dict.fromkeys(who(spark, interface) for interface in foreign))}, so nothing is configured there. "
            "Use them (spark_network_mode: auto, with matching ones on the other Spark), or remove them first."
        )
    if claimed:
        files = list(dict.fromkeys(file for interface in claimed for file in interface["netplan_files"]))
        found.append(
            f"{spark.name}: {listed(files)} sets up {names(claimed)} and is not this collection's, so nothing is "
            "configured there. Give the port usable addresses in it and set spark_network_mode to adopt, or "
            f"{way_out(files, names(claimed))}"
        )
    small = [interface for interface in interfaces if interface["max_mtu"] and wish.mtu > interface["max_mtu"]]
    if small:
        found.append(
            f"{spark.name}: {names(small)} can have an MTU of at most {min(i['max_mtu'] for i in small)}, not "
            f"{wish.mtu}. Lower spark_network_mtu."
        )
    if not spark.info.get("netplan"):
        found.append(
            f"{spark.name}: netplan is not installed, so {names(interfaces)} cannot be configured. Install it with "
            "'sudo apt-get install netplan.io', or set up the addresses yourself and set spark_network_mode to adopt."
        )
    return found


def document(
    renderer: str, interfaces: t.Sequence[Interface], addresses: t.Sequence[t.Any], mtu: int
) -> dict[str, t.Any]:
    """What the netplan file says. The renderer stands at each interface: at the top it would be everybody's."""
    entries: dict[str, t.Any] = {}
    for interface, address in zip(interfaces, addresses):
        entries[interface["name"]] = {
            "renderer": renderer,
            "dhcp4": False,
            "dhcp6": False,
            "accept-ra": False,
            "link-local": [],
            # A missing cable must not hold up the start of the host.
            "optional": True,
            "mtu": mtu,
            "addresses": [str(address)],
        }
        if renderer == "NetworkManager":
            # Among several profiles of an interface, NetworkManager takes the one that was used last. And netplan tells
            # it nothing of accept-ra and link-local, so that a router's advertisement would give it a default route.
            told = {"connection.autoconnect-priority": "100", "ipv6.method": "disabled"}
            entries[interface["name"]]["networkmanager"] = {"passthrough": told}
    return {"network": {"version": 2, "ethernets": entries}}


# What was found


def rail_findings(sparks: t.Sequence[Spark], joined: t.Sequence[tuple[Ends, Target]], wish: Wish) -> list[str]:
    """What works but not as one may expect."""
    found = []
    for rank, spark in enumerate(sparks):
        for ends, target in joined:
            interface = ends[rank]
            speed = interface["speed_mbps"]
            if speed is None:
                found.append(f"{spark.name}: the speed of {interface['name']} is not known.")
            elif speed < wish.speed_mbps:
                found.append(
                    f"{spark.name}: {interface['name']} runs at {speed / 1000:g} Gb/s instead of "
                    f"{wish.speed_mbps / 1000:g} Gb/s. Reseat the cable, or try another one made for that rate."
                )
            if interface["rdma_state"] not in (None, "ACTIVE"):
                found.append(
                    f"{spark.name}: the RDMA port of {interface['name']} is {interface['rdma_state']} and not ACTIVE, "
                    "so NCCL may fall back to slow sockets. Restart the Spark."
                )
            dynamic = [a for a in interface["addresses"] if a["dynamic"] and a["address"] == str(target[rank].ip)]
            if dynamic:
                found.append(
                    f"{spark.name}: {interface['name']} has {target[rank].ip} from DHCP. A fixed one is safer, since "
                    "the deployment is bound to it."
                )
    subnets = [target[0].network for _ends, target in joined]
    if len(set(subnets)) < len(subnets):
        found.append(
            f"{sparks[0].name} and {sparks[1].name}: the twin interfaces share {subnets[0]}. It works, but which of "
            "them a packet takes is left to chance; NVIDIA's newer pages give each twin a subnet of its own."
        )
    return found


def self_given(sparks: t.Sequence[Spark], joined: t.Sequence[tuple[Ends, Target]]) -> list[str]:
    """Twins of what is used that only have an address which they gave themselves, as netplan has NetworkManager do."""
    found = []
    for rank, spark in enumerate(sparks):
        used = {ends[rank]["name"]: ends[rank]["port"] for ends, _target_pair in joined}
        alone = [
            interface
            for interface in spark.interfaces
            if interface["port"] in used.values()
            and interface["name"] not in used
            and interface["addresses"]
            and all(ipaddress.IPv4Address(a["address"]).is_link_local for a in interface["addresses"])
        ]
        if alone:
            found.append(
                f"{spark.name}: {names(alone)} has only an address that it gave itself (169.254.0.0/16), which NCCL "
                "may take for a way to the other Spark, and die. Give it an address in a subnet of its own, or none."
            )
    return found


def half_links(sparks: t.Sequence[Spark], joined: t.Sequence[tuple[Ends, Target]]) -> list[str]:
    """Interfaces whose PCIe link is narrower or slower than a Spark has it, which their own speed does not show."""
    found = []
    for rank, spark in enumerate(sparks):
        for ends, _target_pair in joined:
            width, speed = ends[rank].get("pcie_width"), ends[rank].get("pcie_gts")
            if width and speed and (width < PCIE_WIDTH or speed < PCIE_GTS):
                found.append(
                    f"{spark.name}: {ends[rank]['name']} has a PCIe link of x{width} at {speed:g} GT/s instead of "
                    f"x{PCIE_WIDTH} at {PCIE_GTS}, and carries less by as much. Update the firmware (SBIOS), then "
                    "switch the Spark off, take the power plug out for a minute, and start it with the cable in."
                )
    return found


def all_own(joined: t.Sequence[tuple[Ends, Target]]) -> bool:
    """Whether all of it could be changed."""
    return all(is_own(interface) for ends, _target_pair in joined for interface in ends)


def adopted_findings(sparks: t.Sequence[Spark], joined: t.Sequence[tuple[Ends, Target]], wish: Wish) -> list[str]:
    """What to know of addresses that others have set."""
    found = []
    both = f"{sparks[0].name} and {sparks[1].name}"
    for ends, _target_pair in joined:
        mtus = [interface["mtu"] for interface in ends]
        if len(set(mtus)) > 1:
            found.append(
                f"{both}: {ends[0]['name']} has MTU {mtus[0]} and {ends[1]['name']} has {mtus[1]}; the smaller one is "
                "used. Make them equal."
            )
    other = {ends[0]["mtu"] for ends, _target_pair in joined} - {wish.mtu}
    if not found and other:
        found.append(
            f"{both}: the cable is used with MTU {listed(map(str, sorted(other)))}, not {wish.mtu}. That is left as it "
            + (
                "is: set spark_network_mode to configure to change it."
                if all_own(joined)
                else "is, since it was set up by somebody else."
            )
        )
    for rank, spark in enumerate(sparks):
        by_hand = [ends[rank] for ends, _t in joined if ends[rank]["manager"] == "none" and not is_own(ends[rank])]
        if by_hand:
            found.append(
                f"{spark.name}: the addresses of {names(by_hand)} were set by hand and are gone after a restart. Write "
                "them into a netplan file, or remove them and let this role configure the port."
            )
    return found


def host_findings(sparks: t.Sequence[Spark]) -> list[str]:
    found = []
    for spark in sparks:
        lines = (line.split("#")[0].strip() for line in (spark.info.get("nccl_conf") or "").splitlines())
        settings = [line for line in lines if line]
        if settings:
            found.append(
                f"{spark.name}: /etc/nccl.conf sets {', '.join(settings)}. The deployment's container does not see "
                "that file; programs run outside of it do."
            )
    return found


# The plan


@dataclasses.dataclass(frozen=True)
class Decision:
    """Which interfaces are joined, with which addresses, and which hosts have to be configured for it."""

    joined: list[tuple[Ends, Target]]
    configure: tuple[bool, bool] = (False, False)


def _cidrs(interface: Interface) -> str:
    return listed(f"{a['address']}/{a['prefix']}" for a in interface["addresses"]) or "has no address"


def describe_addresses(sparks: t.Sequence[Spark], ends: t.Sequence[Ends]) -> str:
    parts = []
    for rank, spark in enumerate(sparks):
        each = [f"{pair[rank]['name']} {_cidrs(pair[rank])}" for pair in ends]
        parts.append(f"{spark.name}: {', '.join(each)}.")
    return " ".join(parts)


def adopt(sparks: t.Sequence[Spark], ends: t.Sequence[Ends], wish: Wish, findings: list[str]) -> Decision:
    found = working(ends)
    if not found:
        raise PlanError(
            f"{sparks[0].name} and {sparks[1].name}: spark_network_mode is adopt, but the port with the cable has no "
            "addresses in a common subnet. Set them up, or set spark_network_mode to auto. "
            f"{describe_addresses(sparks, ends)}"
        )
    if len(found) < len(ends):
        findings.append(
            f"{sparks[0].name} and {sparks[1].name}: of the twin interfaces only {found[0][0][0]['name']} and "
            f"{found[0][0][1]['name']} have addresses in a common subnet, so half the rate is used. Give the others "
            "addresses in another subnet."
        )
    if wish.plan:
        own = all_own(found)
        by = "an earlier run" if own else who(sparks[0], found[0][0][0])
        findings.append(
            f"{sparks[0].name} and {sparks[1].name}: spark_network_plan is not used, since the port has working "
            f"addresses already, set by {by}{'; set spark_network_mode to configure to change them' if own else ''}. "
            f"{describe_addresses(sparks, ends)}"
        )
    return Decision(found)


def matches(found: t.Sequence[tuple[Ends, Target]], targets: t.Sequence[Target]) -> bool:
    return sorted(target for _ends, target in found) == sorted(targets)


def decide(sparks: t.Sequence[Spark], ends: list[Ends], wish: Wish, findings: list[str]) -> Decision:
    """Take what is there, or say what has to be configured. Raises PlanError."""
    targets = own_plan(sparks, ends, wish.plan) if wish.plan else None
    if wish.mode == "adopt":
        return adopt(sparks, ends, dataclasses.replace(wish, plan=None), findings)
    found = working(ends)
    # One twin of ours that has lost its addresses gets them again, and a trial is to be confirmed.
    each = [interface for pair in ends for interface in pair]
    half = len(found) < len(ends) and any(map(is_own, each)) and all(is_own(i) or not usable(i) for i in each)
    if wish.mode == "auto" and found and not half and not any(spark.pending for spark in sparks):
        used = targets is not None and matches(found, targets)
        return adopt(sparks, ends, dataclasses.replace(wish, plan=None) if used else wish, findings)
    if targets is None:
        # What works stays where it is, also when another network would be the first choice by now.
        keeps = len(found) == len(ends)
        if keeps:
            ends = [pair for pair, _target_pair in found]
        targets = [target for _ends, target in found] if keeps else default_plan(sparks, ends, findings)
    joined = list(zip(ends, targets))
    configure = [needs(spark, rank, ends, targets, wish.mtu) for rank, spark in enumerate(sparks)]
    reasons = []
    for rank, spark in enumerate(sparks):
        if configure[rank]:
            reasons += objections(spark, [pair[rank] for pair in ends], wish)
    if any(configure):
        reasons += refuse_clashes(sparks, ends, targets) + refuse_strangers(sparks, ends, targets)
    if reasons:
        raise PlanError(*dict.fromkeys(reasons))
    return Decision(joined, (configure[0], configure[1]))


def refuse_slow(sparks: t.Sequence[Spark], joined: t.Sequence[tuple[Ends, Target]], wish: Wish) -> list[str]:
    return [
        f"{spark.name}: {ends[rank]['name']} runs at {ends[rank]['speed_mbps'] / 1000:g} Gb/s, but "
        f"spark_network_minimum_speed_mbps is {wish.minimum_speed_mbps / 1000:g} Gb/s. Reseat the cable, or try "
        "another one made for that rate."
        for rank, spark in enumerate(sparks)
        for ends, _target_pair in joined
        if ends[rank]["speed_mbps"] is not None and ends[rank]["speed_mbps"] < wish.minimum_speed_mbps
    ]


def given(value: t.Any) -> t.Any:
    """What the command line hands over as text: YAML, or names with commas between them."""
    if not isinstance(value, str):
        return value
    try:
        read = yaml.safe_load(value)
    except yaml.YAMLError:
        return value
    return [word.strip() for word in read.split(",")] if isinstance(read, str) else read


def asked(name: str, value: t.Any) -> bool | None:
    """What an input says that is auto or a boolean as people write it; None if it depends."""
    if value == "auto":
        return None
    try:
        return bool(boolean(value))
    except TypeError:
        raise PlanError(f"{name} is {value!r}, but must be auto, true or false.") from None


def check_wish(wish: Wish) -> None:
    asked("spark_network_bandwidth_test", wish.bandwidth_test)
    low, high = MTU_RANGE
    if not low <= wish.mtu <= high:
        raise PlanError(
            f"spark_network_mtu is {wish.mtu}, but must be from {low} to {high}; 9000 is usual, 1500 always works."
        )


def gid_index(interface: Interface, address: ipaddress.IPv4Interface) -> int | None:
    return next((gid["index"] for gid in interface["gids"] if gid["address"] == str(address.ip)), None)


def rail(ends: Ends, target: Target, rank: int, mtu: int) -> dict[str, t.Any]:
    """What others need to know of one of the joined interfaces, seen from one host."""
    interface, peer = ends[rank], ends[1 - rank]
    address = target[rank]
    return {
        "interface": interface["name"],
        "rdma": interface["rdma"],
        "port": interface["port"],
        "address": str(address.ip),
        "prefix": address.network.prefixlen,
        "subnet": str(address.network),
        "peer_address": str(target[1 - rank].ip),
        "peer_interface": peer["name"],
        "peer_rdma": peer["rdma"],
        "mtu": mtu,
        "speed_mbps": interface["speed_mbps"],
        "manager": interface["manager"],
        "gid_index": gid_index(interface, address),
    }


def to_measure(sparks: t.Sequence[Spark], decision: Decision, asked: bool | None) -> bool:
    """What was asked for, or whether nobody has measured since one of them was started, and nobody uses the cable."""
    if asked is not None:
        return asked

    def known(rank: int, spark: Spark) -> bool:
        rails = {ends[rank]["name"] for ends, _target_pair in decision.joined}
        return rails <= {row.get("interface") for row in spark.info.get("measured") or []}

    free = not any(spark.info.get("in_use") for spark in sparks)
    return free and not all(known(rank, spark) for rank, spark in enumerate(sparks))


def describe(
    sparks: t.Sequence[Spark], decision: Decision, rails: t.Sequence[t.Sequence[dict[str, t.Any]]]
) -> list[str]:
    """The plan for people."""
    lines = []
    for rank, spark in enumerate(sparks):
        for row in rails[rank]:
            what = "to be configured" if decision.configure[rank] else "as it is"
            lines.append(
                f"{spark.name}: {row['interface']} {row['address']}/{row['prefix']}, MTU {row['mtu']}, to "
                f"{sparks[1 - rank].name}'s {row['peer_interface']} {row['peer_address']}: {what}"
            )
    return lines


def plan(hosts: t.Mapping[str, Info], wish: Wish) -> dict[str, t.Any]:
    """The plan for both hosts, the head first. Raises PlanError."""
    check_wish(wish)
    if len(hosts) != 2:
        raise PlanError(f"A cable joins two Sparks, but this run has {len(hosts)} ({listed(hosts) or 'none'}).")
    silent = [
        name for name, info in hosts.items() if not (info or {}).get("ports") and not (info or {}).get("networks")
    ]
    if silent:
        raise PlanError(
            f"Nothing is known of the network of {listed(silent)}. Run the playbook for both Sparks together, without "
            "--limit."
        )
    sparks = [Spark(name, info) for name, info in hosts.items()]
    findings: list[str] = []
    choices = choose(sparks, wish)
    if len(choices) > 1:
        return _question(sparks, to_ask(sparks, choices, wish, (True, True)))
    ends = choices[0]
    if not wish.interfaces:
        findings += port_findings(sparks, ends)
    without = [(s.name, e[r]) for e in ends for r, s in enumerate(sparks) if e[r]["rdma"] is None]
    if without:
        raise PlanError(
            *(
                f"{name}: {interface['name']} has no RDMA device, which NCCL needs. Load its driver with 'sudo "
                "modprobe mlx5_ib'."
                for name, interface in without
            )
        )
    decision = decide(sparks, ends, wish, findings)
    slow = refuse_slow(sparks, decision.joined, wish)
    if slow:
        raise PlanError(*slow)
    findings += rail_findings(sparks, decision.joined, wish) + half_links(sparks, decision.joined)
    findings += self_given(sparks, decision.joined)
    findings += host_findings(sparks)
    if not any(decision.configure):
        findings += adopted_findings(sparks, decision.joined, wish)
    asks = to_ask(sparks, choices, wish, decision.configure) if any(decision.configure) else [{}, {}]
    return _answer(sparks, decision, wish, findings, asks)


def _question(sparks: t.Sequence[Spark], asks: t.Sequence[dict[str, t.Any]]) -> dict[str, t.Any]:
    """No plan yet: what to ask before there can be one."""
    hosts = {
        spark.name: {"rank": rank, "rails": [], "configure": False, "document": {}, "renderer": "", "ask": asks[rank]}
        for rank, spark in enumerate(sparks)
    }
    return {"hosts": hosts, "configure": True, "measure": False, "findings": [], "lines": []}


def _answer(
    sparks: t.Sequence[Spark],
    decision: Decision,
    wish: Wish,
    findings: list[str],
    asks: t.Sequence[dict[str, t.Any]],
) -> dict[str, t.Any]:
    mtus = [
        min(wish.mtu if decision.configure[rank] else ends[rank]["mtu"] for rank in (0, 1))
        for ends, _t in decision.joined
    ]
    rails = [[rail(ends, target, rank, mtu) for (ends, target), mtu in zip(decision.joined, mtus)] for rank in (0, 1)]
    hosts = {}
    for rank, spark in enumerate(sparks):
        by = spark.info.get("renderer") or "networkd" if wish.renderer == "auto" else wish.renderer
        interfaces = [ends[rank] for ends, _target_pair in decision.joined]
        addresses = [target[rank] for _ends, target in decision.joined]
        hosts[spark.name] = {
            "rank": rank,
            "rails": rails[rank],
            "configure": decision.configure[rank],
            "document": document(by, interfaces, addresses, wish.mtu) if decision.configure[rank] else {},
            "renderer": by,
            "ask": asks[rank],
        }
    return {
        "hosts": hosts,
        "configure": any(decision.configure),
        "measure": to_measure(sparks, decision, asked("spark_network_bandwidth_test", wish.bandwidth_test)),
        "findings": findings,
        "lines": describe(sparks, decision, rails),
    }

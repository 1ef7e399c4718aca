# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this plugin util is internal to the collection; its interface may change at any time.
"""Find the ports of the Sparks that have a link, and those that a cable or a switch connects."""

from __future__ import annotations

import contextlib
import dataclasses
import typing as t

from ...module_utils._fabric.netplan import PENDING
from ...module_utils._spark.hotplug import DISABLED_MARKER, HANDLER, MARKER
from .._data.spelling import did_you_mean
from .._recipe.text import join_words

# `fabric.plan` reports it before any use if it is not installed.
with contextlib.suppress(ImportError):
    import netaddr

Interface = dict[str, t.Any]
Info = dict[str, t.Any]
Port = dict[str, t.Any]


class PlanError(Exception):
    """The Sparks cannot be connected: one sentence for each reason, with its fix."""

    def __init__(self, *reasons: str) -> None:
        super().__init__("\n".join(reasons))


@dataclasses.dataclass(frozen=True)
class FabricSpec:
    """The inputs of the role."""

    mode: str = "auto"
    plan: t.Any = None
    interfaces: t.Any = None
    mtu: int = 9000
    renderer: str = "auto"
    # A rail below the first is a finding, one below the second a problem.
    speed_mbps: int = 200_000
    minimum_speed_mbps: int = 0
    # auto, or a boolean in any of YAML's spellings.
    bandwidth_test: t.Any = "auto"


@dataclasses.dataclass(frozen=True, kw_only=True)
class NetworkRequest(FabricSpec):
    """The inputs of the role, and the ports of each Spark, the head first."""

    hosts: t.Mapping[str, Info]
    # auto, or a boolean in any of YAML's spellings.
    start_on_nic: t.Any
    keep_nic_on: t.Any
    close_fabric: t.Any
    worker_port: int
    copy_port: int


@dataclasses.dataclass(frozen=True)
class Spark:
    name: str
    info: Info

    @property
    def interfaces(self) -> list[Interface]:
        return [interface for port in self.info.get("ports") or [] for interface in port["interfaces"]]

    def interface(self, name: str) -> Interface | None:
        return next((interface for interface in self.interfaces if interface["name"] == name), None)

    @property
    def neighbours(self) -> dict[str, t.Any] | None:
        """Return the nodes that were discovered on the fabric; None before discovery."""
        return self.info.get("neighbours")

    def hears(self, own: Interface, other: Interface) -> bool:
        heard = (self.neighbours or {}).get("heard") or {}
        return other["mac"] in (heard.get(own["name"]) or [])

    @property
    def has_greeted(self) -> bool:
        return (self.neighbours or {}).get("heard") is not None

    @property
    def pending(self) -> bool:
        return (self.info.get("trial") or {}).get("state") in PENDING


def is_own(interface: Interface) -> bool:
    """Return whether this collection configured the interface, and so may change it."""
    return bool(interface.get("own"))


# One interface of each Spark, in the order of the ranks, that share a subnet, and their addresses in it: two members
# on a cable, four on a switch with four Sparks.
Members = tuple[Interface, ...]
Target = tuple["netaddr.IPNetwork", ...]
Joined = tuple[Members, Target]
# One port of each Spark.
Choice = tuple[Port, ...]


def all_own(joined: t.Sequence[Joined]) -> bool:
    """Return whether this collection configured all interfaces."""
    return all(is_own(interface) for members, _target in joined for interface in members)


def names(interfaces: t.Iterable[Interface]) -> str:
    return join_words(interface["name"] for interface in interfaces)


def joined_names(sparks: t.Iterable[Spark]) -> str:
    return join_words(spark.name for spark in sparks)


def both_or_all(sparks: t.Sequence[Spark]) -> str:
    """Return the word for all Sparks in a sentence."""
    return "both" if len(sparks) == 2 else "all"


def usable(interface: Interface) -> list[netaddr.IPNetwork]:
    """Return the addresses of an interface without link-local ones."""
    result = [netaddr.IPNetwork(f"{a['address']}/{a['prefix']}") for a in interface["addresses"]]
    return [address for address in result if not address.is_link_local() and address.prefixlen < 32]


# Ports and links


def link_state(interface: Interface) -> str:
    if not interface["up"]:
        return "is switched off"
    return "has a link" if interface["carrier"] else "has no link"


def has_link(interface: Interface) -> bool:
    return bool(interface["up"] and interface["carrier"])


def port_state(port: Port) -> str:
    states = join_words(f"{interface['name']} {link_state(interface)}" for interface in port["interfaces"])
    return f"port {port['number']}: {states}"


def ports_state(spark: Spark) -> str:
    return f"{spark.name}: {'; '.join(map(port_state, spark.info['ports']))}."


def linked(spark: Spark) -> list[Port]:
    """Return the ports of which both interfaces have a link."""
    return [p for p in spark.info["ports"] if len(p["interfaces"]) > 1 and all(map(has_link, p["interfaces"]))]


def no_nic(spark: Spark, both: str) -> str:
    """Return why there is no interface: DGX OS switches the NIC off without a cable, or its driver is missing."""
    if spark.info.get("connectx"):
        return (
            f"{spark.name}: the ConnectX NIC is present, but has no network interfaces. Load its driver with "
            "'sudo modprobe mlx5_core mlx5_ib'. If that fails, reboot the Spark."
        )
    hotplug = spark.info.get("hotplug") or {}
    if not hotplug.get("armed"):
        return (
            f"{spark.name}: no ConnectX NIC is on the PCI bus, although DGX OS is not set to switch it off. "
            f"Plug the cable into {both} Sparks, then reboot {both} with the cable plugged in."
        )
    powered = hotplug.get("powered")
    sees = "" if powered is None else " It detects a cable now." if powered else " It detects no cable now."
    return (
        f"{spark.name}: the ConnectX NIC is switched off: DGX OS does that while it detects no cable.{sees} "
        f"Plug one into {both} Sparks until it clicks and wait 30 s. If the NIC does not appear, run "
        f"'sudo {HANDLER} plug-in' on {spark.name}. Or run 'sudo mv {MARKER} {DISABLED_MARKER}' on {both}, so that "
        f"the NIC stays on, and reboot {both} with the cable plugged in."
    )


def refuse_no_link(sparks: t.Sequence[Spark]) -> t.NoReturn:
    """Raise PlanError if the cable is out, only one port interface is up, or interfaces are switched off."""
    states = " ".join(map(ports_state, sparks))
    off = {spark.name: [i["name"] for i in spark.interfaces if not i["up"]] for spark in sparks if not linked(spark)}
    for spark in sparks:
        for port in spark.info["ports"]:
            up, down = (
                [i for i in port["interfaces"] if has_link(i)],
                [i for i in port["interfaces"] if not has_link(i)],
            )
            if up and not linked(spark) and not any(not i["up"] for i in down):
                missing = f"{names(down)} has none" if down else "the NIC shows no second one"
                raise PlanError(
                    f"{spark.name}: only one of the two interfaces of port {port['number']} has a link: {names(up)} "
                    f"has one, {missing}. Switch {both_or_all(sparks)} Sparks off, unplug their power for a minute, "
                    "and start them again. Or name one interface of each Spark in spark_network_interfaces, to "
                    f"continue with half the rate. {states}"
                )
    if any(off.values()):
        commands = "; ".join(
            f"on {name}: " + ", ".join(f"'sudo ip link set {interface} up'" for interface in interfaces)
            for name, interfaces in off.items()
            if interfaces
        )
        raise PlanError(
            f"{joined_names(sparks)}: no QSFP port has a link at both ends. Some interfaces are switched off, so their "
            f"link is unknown. Switch them on ({commands}), then run again. {states}"
        )
    if len(sparks) > 2:
        raise PlanError(
            f"{joined_names(spark for spark in sparks if not linked(spark))}: no QSFP port has a link, so the "
            "cable to the switch is missing or not seated. Plug it in until it clicks. If there is still no link, "
            f"reboot the Spark, or try another cable or another port of the switch. {states}"
        )
    raise PlanError(
        f"{joined_names(sparks)}: no QSFP port has a link at both ends, so the cable between them is "
        "missing or not seated. Plug it into the same port of both until it clicks. If there is still no link, reboot "
        f"both Sparks or try another cable. {states}"
    )


def given_interfaces(sparks: t.Sequence[Spark], given: t.Any) -> list[Members]:
    """Return the interfaces the user names, for all hosts or for each."""
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
        result = []
        for name in wanted:
            interface = spark.interface(name)
            if interface is None:
                reasons.append(
                    f"{spark.name}: there is no ConnectX interface {name} (spark_network_interfaces), only "
                    f"{join_words(known)}{did_you_mean(name, known) or '.'}"
                )
            elif interface in result:
                reasons.append(f"{spark.name}: spark_network_interfaces names {name} twice. Name each interface once.")
            else:
                result.append(interface)
        chosen.append(result)
    if reasons:
        raise PlanError(*reasons)
    if len({len(one) for one in chosen}) > 1 or len(chosen[0]) > 2:
        first, *counts = [f"{len(one)} of {spark.name}" for spark, one in zip(sparks, chosen)]
        first = first.replace(" of ", " interfaces of ", 1)
        raise PlanError(
            f"spark_network_interfaces names {join_words([first, *counts])}, but must name the same "
            "number for each: one or both interfaces of the port with the cable."
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
    return list(zip(*chosen))


def members_of(choice: Choice) -> list[Members]:
    """Return one subnet for each interface of the port."""
    return list(zip(*(port["interfaces"] for port in choice)))


def connected_ports(sparks: t.Sequence[Spark], choices: t.Sequence[Choice]) -> list[Choice]:
    """Return the choices over which each Spark has heard all others. Raises PlanError if there is none."""

    def hear(members: Members) -> bool:
        ends = list(zip(sparks, members))
        return all(one.hears(own, its) for one, own in ends for other, its in ends if other is not one)

    result = [choice for choice in choices if all(map(hear, members_of(choice)))]
    if not result:
        refuse_ring(sparks)
        raise PlanError(
            f"{joined_names(sparks)}: ports of {both_or_all(sparks)} have a link, but no port reaches another Spark: "
            "the cables lead elsewhere, or discovery did not run at the same time on all. Connect the "
            f"{'two' if len(sparks) == 2 else 'Sparks by one switch'}, or name the connected interfaces in "
            f"spark_network_interfaces. If the cables are right, run again with forks of {len(sparks)} or more. "
            f"{' '.join(map(ports_state, sparks))}"
        )
    return result


def meets(spark: Spark, port: Port, other: Spark) -> bool:
    """Return whether a port is known to lead to another Spark, by discovery or by their addresses."""
    return any(
        spark.hears(own, its) or any(a.cidr == b.cidr and a.ip != b.ip for a in usable(own) for b in usable(its))
        for own in port["interfaces"]
        for its in other.interfaces
    )


def refuse_ring(sparks: t.Sequence[Spark]) -> None:
    """Raise PlanError if each of several Sparks has different peers on each of its cables."""
    if len(sparks) < 3:
        return
    ways = {
        spark.name: {
            port["number"]: [other.name for other in sparks if other is not spark and meets(spark, port, other)]
            for port in spark.info["ports"]
        }
        for spark in sparks
    }
    for by_port in ways.values():
        result = [set(others) for others in by_port.values() if others]
        if len(result) < 2 or set.intersection(*result):
            return
    told = "; ".join(
        f"{name}: " + ", ".join(f"port {number} leads to {join_words(others)}" for number, others in by_port.items())
        for name, by_port in ways.items()
    )
    raise PlanError(
        f"{joined_names(sparks)} are connected as a ring, each to the next by its own cable, so no subnet has "
        "all of them. A ring is not supported. Connect each Spark to one switch, or use two of them (--limit). "
        f"{told}."
    )

# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this plugin util is internal to the collection; its interface may change at any time.
"""Report what works in the fabric, but not as one may expect: one sentence for each finding."""

from __future__ import annotations

import contextlib
import typing as t

from .._recipe.text import group_by_value, join_words
from .links import FabricSpec, Joined, Members, Spark, all_own, is_own, joined_names, linked, names, usable

# `fabric.plan` reports it before any use if it is not installed.
with contextlib.suppress(ImportError):
    import netaddr

# Each of a port's two interfaces has four lanes of PCIe 5.
PCIE_WIDTH, PCIE_GTS = 4, 32


def port_findings(sparks: t.Sequence[Spark], rails: t.Sequence[Members]) -> list[str]:
    """Return the findings on the choice of a port."""
    if len(sparks) > 2:
        # All ports of a switch are equal.
        return []
    first, second = zip(*rails)
    numbers = first[0]["port"], second[0]["port"]
    both = joined_names(sparks)
    if numbers[0] != numbers[1]:
        return [
            f"{both}: the cable joins port {numbers[0]} ({names(first)}) with port {numbers[1]} ({names(second)}). "
            "That works, but NVIDIA recommends the same port on both."
        ]
    if all(len(linked(spark)) > 1 for spark in sparks):
        return [
            f"{both}: both ports have a cable; port {numbers[0]} is used. A second cable adds no speed, because one "
            "carries all that the NIC can send."
        ]
    return []


def rail_findings(sparks: t.Sequence[Spark], joined: t.Sequence[Joined], spec: FabricSpec) -> list[str]:
    """Return the findings on rails that work, but not as expected."""
    findings = []
    for rank, spark in enumerate(sparks):
        for members, target in joined:
            interface = members[rank]
            speed = interface["speed_mbps"]
            if speed is None:
                findings.append(f"{spark.name}: the speed of {interface['name']} is unknown.")
            elif speed < spec.speed_mbps:
                findings.append(
                    f"{spark.name}: {interface['name']} runs at {speed / 1000:g} Gb/s instead of "
                    f"{spec.speed_mbps / 1000:g} Gb/s. Reseat the cable, or try another one made for that rate."
                )
            if interface["rdma_state"] not in (None, "ACTIVE"):
                findings.append(
                    f"{spark.name}: the RDMA port of {interface['name']} is {interface['rdma_state']}, not ACTIVE, "
                    "so NCCL may fall back to slow sockets. Reboot the Spark."
                )
            dynamic = [a for a in interface["addresses"] if a["dynamic"] and a["address"] == str(target[rank].ip)]
            if dynamic:
                findings.append(
                    f"{spark.name}: {interface['name']} has {target[rank].ip} from DHCP. A static address is safer, "
                    "because the deployment depends on it."
                )
    subnets = [target[0].cidr for _ends, target in joined]
    if len(set(subnets)) < len(subnets):
        findings.append(
            f"{joined_names(sparks)}: both interfaces of the port share {subnets[0]}. That works, but packets may "
            "take either of them. NVIDIA's newer pages give each interface its own subnet."
        )
    return findings


def duplicate_addresses(sparks: t.Sequence[Spark], rails: t.Sequence[Members]) -> list[str]:
    """Report addresses that more than one interface has."""
    holders: dict[str, list[str]] = {}
    for members in rails:
        for spark, interface in zip(sparks, members):
            for address in usable(interface):
                holders.setdefault(str(address.ip), []).append(f"{interface['name']} of {spark.name}")
    return [
        f"{joined_names(sparks)}: {join_words(has)} have the same address, {address}. Each interface needs its own "
        "address."
        for address, has in holders.items()
        if len(has) > 1
    ]


def link_local_addresses(sparks: t.Sequence[Spark], joined: t.Sequence[Joined]) -> list[str]:
    """Report interfaces beside a used one that have only a link-local address, a default of netplan's."""
    result = []
    other = "the other Spark" if len(sparks) == 2 else "the other Sparks"
    for rank, spark in enumerate(sparks):
        used = {members[rank]["name"]: members[rank]["port"] for members, _target in joined}
        alone = [
            interface
            for interface in spark.interfaces
            if interface["port"] in used.values()
            and interface["name"] not in used
            and interface["addresses"]
            and all(netaddr.IPAddress(a["address"]).is_link_local() for a in interface["addresses"])
        ]
        if alone:
            result.append(
                f"{spark.name}: {names(alone)} has only a link-local address (169.254.0.0/16). NCCL may take it for a "
                f"path to {other}, and fail. Give it an address in its own subnet, or none."
            )
    return result


def half_links(sparks: t.Sequence[Spark], joined: t.Sequence[Joined]) -> list[str]:
    """Report interfaces whose PCIe link is narrower or slower than usual; the link speed does not show it."""
    result = []
    for rank, spark in enumerate(sparks):
        for members, _target in joined:
            width, speed = members[rank].get("pcie_width"), members[rank].get("pcie_gts")
            if width and speed and (width < PCIE_WIDTH or speed < PCIE_GTS):
                result.append(
                    f"{spark.name}: {members[rank]['name']} has a PCIe link of x{width} at {speed:g} GT/s instead of "
                    f"x{PCIE_WIDTH} at {PCIE_GTS}, so it carries proportionally less. Update the firmware (SBIOS), "
                    "then switch the Spark off, unplug its power for a minute, and start it with the cable plugged in."
                )
    return result


def adopted_findings(sparks: t.Sequence[Spark], joined: t.Sequence[Joined], spec: FabricSpec) -> list[str]:
    """Return the findings on addresses that this collection did not set."""
    findings = []
    both = joined_names(sparks)
    for members, _target in joined:
        mtus = [interface["mtu"] for interface in members]
        if len(set(mtus)) > 1:
            ends = [
                one["name"] if len(sparks) == 2 else f"{one['name']} of {s.name}" for s, one in zip(sparks, members)
            ]
            has = group_by_value(zip(ends, map(str, mtus))).replace(f" {mtus[0]}", f" MTU {mtus[0]}", 1)
            findings.append(f"{both}: {has}; the smaller one is used. Set the same MTU on all.")
    other = {members[0]["mtu"] for members, _target in joined} - {spec.mtu}
    if not findings and other:
        findings.append(
            f"{both}: the fabric uses MTU {join_words(map(str, sorted(other)))}, not {spec.mtu}. "
            + (
                "To change it, set spark_network_mode to configure."
                if all_own(joined)
                else "It is not changed, because this collection did not set it."
            )
        )
    for rank, spark in enumerate(sparks):
        by_hand = [
            members[rank]
            for members, _target in joined
            if members[rank]["manager"] == "none" and not is_own(members[rank])
        ]
        if by_hand:
            findings.append(
                f"{spark.name}: the addresses of {names(by_hand)} were set by hand and are lost at the next reboot. "
                "Write them to a netplan file, or remove them so that this role configures the port."
            )
    return findings


def host_findings(sparks: t.Sequence[Spark]) -> list[str]:
    findings = []
    for spark in sparks:
        lines = (line.split("#")[0].strip() for line in (spark.info.get("nccl_conf") or "").splitlines())
        settings = [line for line in lines if line]
        if settings:
            findings.append(
                f"{spark.name}: /etc/nccl.conf sets {', '.join(settings)}. The deployment's container does not read "
                "that file, but programs outside of it do."
            )
    return findings

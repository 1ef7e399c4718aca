# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this plugin util is internal to the collection; its interface may change at any time.
"""What works but not as one may expect of the network that joins the Sparks, a sentence each."""

from __future__ import annotations

import contextlib
import typing as t

from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._plan.links import (
    FabricSpec,
    Joined,
    Members,
    Spark,
    all_own,
    is_own,
    joined_names,
    linked,
    names,
    usable,
)
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._recipe.text import group_by_value, join_words

# Where it is missing, `fabric.plan` says so before anything of it is used.
with contextlib.suppress(ImportError):
    import netaddr

# Each of a port's two interfaces hangs on four lanes of PCIe 5.
PCIE_WIDTH, PCIE_GTS = 4, 32


def port_findings(sparks: t.Sequence[Spark], rails: t.Sequence[Members]) -> list[str]:
    """Return the findings on the choice of a port."""
    if len(sparks) > 2:
        # Every port of a switch is as good as another.
        return []
    first, second = zip(*rails)
    numbers = first[0]["port"], second[0]["port"]
    both = joined_names(sparks)
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


def rail_findings(sparks: t.Sequence[Spark], joined: t.Sequence[Joined], spec: FabricSpec) -> list[str]:
    """Return the findings on rails that work, but not as expected."""
    findings = []
    for rank, spark in enumerate(sparks):
        for members, target in joined:
            interface = members[rank]
            speed = interface["speed_mbps"]
            if speed is None:
                findings.append(f"{spark.name}: the speed of {interface['name']} is not known.")
            elif speed < spec.speed_mbps:
                findings.append(
                    f"{spark.name}: {interface['name']} runs at {speed / 1000:g} Gb/s instead of "
                    f"{spec.speed_mbps / 1000:g} Gb/s. Reseat the cable, or try another one made for that rate."
                )
            if interface["rdma_state"] not in (None, "ACTIVE"):
                findings.append(
                    f"{spark.name}: the RDMA port of {interface['name']} is {interface['rdma_state']} and not ACTIVE, "
                    "so NCCL may fall back to slow sockets. Restart the Spark."
                )
            dynamic = [a for a in interface["addresses"] if a["dynamic"] and a["address"] == str(target[rank].ip)]
            if dynamic:
                findings.append(
                    f"{spark.name}: {interface['name']} has {target[rank].ip} from DHCP. A fixed one is safer, since "
                    "the deployment is bound to it."
                )
    subnets = [target[0].cidr for _ends, target in joined]
    if len(set(subnets)) < len(subnets):
        findings.append(
            f"{joined_names(sparks)}: the twin interfaces share {subnets[0]}. It works, but which of "
            "them a packet takes is left to chance; NVIDIA's newer pages give each twin a subnet of its own."
        )
    return findings


def duplicate_addresses(sparks: t.Sequence[Spark], rails: t.Sequence[Members]) -> list[str]:
    """Addresses that several of the interfaces have."""
    holders: dict[str, list[str]] = {}
    for members in rails:
        for spark, interface in zip(sparks, members):
            for address in usable(interface):
                holders.setdefault(str(address.ip), []).append(f"{interface['name']} of {spark.name}")
    return [
        f"{joined_names(sparks)}: {join_words(has)} have the same address, {address}. Each interface needs one of "
        "its own."
        for address, has in holders.items()
        if len(has) > 1
    ]


def link_local_addresses(sparks: t.Sequence[Spark], joined: t.Sequence[Joined]) -> list[str]:
    """Twins of what is used that only have an address which they gave themselves, as netplan has NetworkManager do."""
    result = []
    other = "the other Spark" if len(sparks) == 2 else "the others"
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
                f"{spark.name}: {names(alone)} has only an address that it gave itself (169.254.0.0/16), which NCCL "
                f"may take for a way to {other}, and die. Give it an address in a subnet of its own, or none."
            )
    return result


def half_links(sparks: t.Sequence[Spark], joined: t.Sequence[Joined]) -> list[str]:
    """Interfaces whose PCIe link is narrower or slower than a Spark has it, which their own speed does not show."""
    result = []
    for rank, spark in enumerate(sparks):
        for members, _target in joined:
            width, speed = members[rank].get("pcie_width"), members[rank].get("pcie_gts")
            if width and speed and (width < PCIE_WIDTH or speed < PCIE_GTS):
                result.append(
                    f"{spark.name}: {members[rank]['name']} has a PCIe link of x{width} at {speed:g} GT/s instead of "
                    f"x{PCIE_WIDTH} at {PCIE_GTS}, and carries less by as much. Update the firmware (SBIOS), then "
                    "switch the Spark off, take the power plug out for a minute, and start it with the cable in."
                )
    return result


def adopted_findings(sparks: t.Sequence[Spark], joined: t.Sequence[Joined], spec: FabricSpec) -> list[str]:
    """Return the findings on addresses that others have set."""
    findings = []
    both = joined_names(sparks)
    for members, _target in joined:
        mtus = [interface["mtu"] for interface in members]
        if len(set(mtus)) > 1:
            ends = [
                one["name"] if len(sparks) == 2 else f"{one['name']} of {s.name}" for s, one in zip(sparks, members)
            ]
            has = group_by_value(zip(ends, map(str, mtus))).replace(f" {mtus[0]}", f" MTU {mtus[0]}", 1)
            findings.append(f"{both}: {has}; the smaller one is used. Make them equal.")
    other = {members[0]["mtu"] for members, _target in joined} - {spec.mtu}
    if not findings and other:
        findings.append(
            f"{both}: the cable is used with MTU {join_words(map(str, sorted(other)))}, not {spec.mtu}. That is left "
            "as it "
            + (
                "is: set spark_network_mode to configure to change it."
                if all_own(joined)
                else "is, since it was set up by somebody else."
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
                f"{spark.name}: the addresses of {names(by_hand)} were set by hand and are gone after a restart. Write "
                "them into a netplan file, or remove them and let this role configure the port."
            )
    return findings


def host_findings(sparks: t.Sequence[Spark]) -> list[str]:
    findings = []
    for spark in sparks:
        lines = (line.split("#")[0].strip() for line in (spark.info.get("nccl_conf") or "").splitlines())
        settings = [line for line in lines if line]
        if settings:
            findings.append(
                f"{spark.name}: /etc/nccl.conf sets {', '.join(settings)}. The deployment's container does not see "
                "that file; programs run outside of it do."
            )
    return findings

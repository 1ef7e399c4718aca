# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this plugin util is internal to the collection; its interface may change at any time.

"""Plan the fabric filter, a systemd unit that drops packets for the fabric's addresses from other networks.

Linux accepts packets for each of its addresses on each interface, and forwards packets if Docker runs. So a machine of
another network reaches the fabric's addresses if it routes them by a Spark, and the ports of the ranks ask for no
password.
"""

from __future__ import annotations

import contextlib
import typing as t

from ...module_utils._fabric.fabric_filter import UNIT
from ...module_utils._spark.hotplug import digest
from .._recipe.text import join_words
from .fabric import Rail, tristate
from .links import Info, PlanError, Spark
from .units import Steps, Unit, unit_lines, unit_steps

# If it is missing, `fabric.plan` reports that before its first use.
with contextlib.suppress(ImportError):
    import netaddr

FILTER = Unit(UNIT.name, "fabric filter", "spark_network_close_fabric")
CHAIN = "DGX-SPARK-SPECULATIVE"
# The table raw comes before the decision whether a packet is for this host or forwarded. ufw and Docker leave it alone.
IPTABLES = "/usr/sbin/iptables --wait --table raw"
COMMENT = "--match comment --comment dgx-spark-speculative"
JUMP = f"PREROUTING {COMMENT} --jump {CHAIN}"
TEXT = """\
# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# Written by the role spark_network for the present addresses.
[Unit]
Description=Drop packets from other networks for the addresses between the Sparks
# Each of these may remove all rules when it starts.
After=netfilter-persistent.service nftables.service firewalld.service
# The ports to protect are those of containers.
Before=docker.service

[Service]
Type=oneshot
RemainAfterExit=yes
{start}
ExecStop=-{iptables} --delete {jump}
ExecStop=-{iptables} --flush {chain}
ExecStop=-{iptables} --delete-chain {chain}

[Install]
WantedBy=multi-user.target
"""


def unit_text(interfaces: t.Sequence[str], addresses: t.Sequence[str]) -> str:
    """Return the unit that lets packets for these addresses in by the loopback interface and these interfaces only."""
    start = [
        # It fails if the chain is there.
        f"-{IPTABLES} --new-chain {CHAIN}",
        f"{IPTABLES} --flush {CHAIN}",
        *(f"{IPTABLES} --append {CHAIN} --in-interface {name} {COMMENT} --jump RETURN" for name in (*interfaces, "lo")),
        f"{IPTABLES} --append {CHAIN} --destination {','.join(addresses)} {COMMENT} --jump DROP",
        f"/bin/sh -c '{IPTABLES} --check {JUMP} || {IPTABLES} --insert {JUMP}'",
    ]
    lines = "\n".join(f"ExecStart={command}" for command in start)
    return TEXT.format(start=lines, iptables=IPTABLES, jump=JUMP, chain=CHAIN)


def fabric_interfaces(spark: Spark, rails: t.Sequence[Rail]) -> list[str]:
    """Return the interfaces of the ports with the rails: on a switch, a packet may arrive by either one of a port."""
    ports = {rail["port"] for rail in rails}
    return [interface["name"] for interface in spark.interfaces if interface["port"] in ports]


def filter_steps(
    spark: Spark, rails: t.Sequence[Rail], addresses: t.Sequence[str], choice: bool | None, configure: bool
) -> Steps:
    text = unit_text(fabric_interfaces(spark, rails), addresses)
    file = {"content": text, "dest": str(UNIT), "mode": "0644"}
    own = {str(UNIT): digest(text.encode())}
    return unit_steps(FILTER, spark.info.get("filter") or {}, own, [file], choice, configure)


def lockout_problem(spark: Spark, rails: t.Sequence[Rail]) -> str:
    """Return why the filter would end this run: the host is reached at a fabric address from another network."""
    source, address = spark.info.get("login") or ("", "")
    if address not in [rail["address"] for rail in rails]:
        return ""
    if any(netaddr.IPAddress(source) in netaddr.IPNetwork(rail["subnet"]) for rail in rails):
        return ""
    return (
        f"{spark.name}: {FILTER.input} would close {address}, at which this run reaches the host from {source}. Set "
        f"ansible_host to an address outside the fabric, or set {FILTER.input} to false."
    )


def plan_filters(
    hosts: t.Mapping[str, Info],
    rails: t.Mapping[str, t.Sequence[Rail]],
    close_fabric: t.Any,
    configure: t.Mapping[str, bool],
) -> dict[str, t.Any]:
    """Return the steps of each host, which has none before its rails are known.

    Raises PlanError for an input that is neither auto nor a boolean, and for a filter that would end this run.
    """
    choice = tristate(FILTER.input, close_fabric)
    addresses = [rail["address"] for each in rails.values() for rail in each]
    planned = {
        name: filter_steps(Spark(name, info), rails[name], addresses, choice, configure[name])
        for name, info in hosts.items()
        if rails[name]
    }
    refused = [lockout_problem(Spark(name, hosts[name]), rails[name]) for name in planned if planned[name]["install"]]
    if any(refused):
        raise PlanError(*filter(None, refused))
    lacking = [name for name, steps in planned.items() if steps["lacking"]]
    findings = [
        f"{join_words(lacking)}: machines of other networks can reach the ports of the ranks at the fabric addresses, "
        f"and these ports need no password. To close them, run again with -K and -e {FILTER.input}=true."
    ]
    return {"hosts": planned, "findings": findings if lacking else [], "lines": unit_lines(planned)}

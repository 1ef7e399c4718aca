# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this plugin util is internal to the collection; its interface may change at any time.

"""Return one host's part of the fabric plan: its addresses, its NIC and its peers."""

from __future__ import annotations

import typing as t

from ...module_utils._deployment import names
from .._recipe.text import join_words
from .fabric import end_of_stream, plan
from .fabric_filter import plan_filters
from .links import NetworkRequest, PlanError
from .nic import plan_nics
from .units import is_due

# Of a container that does not run, nor is about to.
ENDED = ("absent", "created", "exited", "dead")


class OtherHostError(PlanError):
    """The Sparks cannot be joined; the reason is reported on another Spark."""


def ports(rails: t.Sequence[t.Mapping[str, t.Any]], worker_port: int, copy_port: int) -> list[dict[str, t.Any]]:
    """Return the ports that others will connect to, on the first of the addresses that this Spark has or will have."""
    return [
        {"address": rail["address"], "port": port, "input": name, "use": use}
        for rail in rails[:1]
        for name, port, use in (
            ("spark_network_worker_port", worker_port, "container"),
            ("spark_network_copy_port", copy_port, "copies"),
        )
    ]


def outcome(why: str, others: str, stage: str, stuck: str) -> str:
    """Return how a network change ended that failed on some host: the reason, and the state of the addresses.

    `stage` is that of fabric_network; `stuck` is why the addresses could not be removed.
    """
    ended = (
        f"the addresses are configured and stay, but configuring {others} failed. Run again."
        if stage == "confirmed"
        else f"the network was not configured, because that failed on {others}."
    )
    left = ""
    if stuck:
        left = f"Taking the addresses back failed, too: {stuck}"
    elif stage == "undone":
        left = "The addresses were taken back."
    elif stage == "confirmed" and why:
        left = "The addresses are configured and stay."
    return f"{why.strip() or ended} {left}".rstrip()


def in_use(slot: t.Mapping[str, t.Any] | None, container: str, others: str) -> str:
    """Return why the link must stay up: a cluster runs or starts on it, and its ranks use it."""
    if slot is None or slot["state"] in ENDED or f"{names.LABEL}rank" not in (slot["labels"] or {}):
        return ""
    return (
        f"the port with the cable has to be configured, but the container {container} serves a model together with "
        f"{others} over it. Run stop.yml first, then this again."
    )


def check_machines(hosts: t.Mapping[str, t.Mapping[str, t.Any]]) -> None:
    """Raise PlanError where names lead to one machine: what its ports lack is nothing to stop a pair for."""
    names: dict[tuple[str, ...], list[str]] = {}
    for name, info in hosts.items():
        cards = [interface.get("mac") for port in info.get("ports") or [] for interface in port["interfaces"]]
        names.setdefault(tuple(sorted(card for card in cards if card)), []).append(name)
    for same in (same for cards, same in names.items() if cards and len(same) > 1):
        raise PlanError(
            f"{join_words(same)} lead to the same machine: correct ansible_host of one of them in the inventory."
        )


def host_plan(host: str, request: NetworkRequest) -> dict[str, t.Any]:
    """Return the host's part. Raises PlanError: a refusal is the same for all, and so said once."""
    hosts = request.hosts
    if host not in hosts:
        raise PlanError(f"{host} is not one of the hosts that are joined ({', '.join(hosts)}).")
    order = ["", *hosts, ""]
    before, after = order[order.index(host) - 1], order[order.index(host) + 1]
    try:
        check_machines(hosts)
        result = plan(hosts, request)
        configure = {name: host["configure"] for name, host in result["hosts"].items()}
        rails = {name: host["rails"] for name, host in result["hosts"].items()}
        planned = [
            plan_nics(hosts, request.start_on_nic, request.keep_nic_on, configure),
            plan_filters(hosts, rails, request.close_fabric, configure),
        ]
    except PlanError as error:
        if not before:
            raise
        raise OtherHostError(f"{host}: the Sparks cannot be joined, as the message of {order[1]} says.") from error
    own = result["hosts"][host]
    units = [part["hosts"][host] for part in planned if host in part["hosts"] and is_due(part["hosts"][host])]
    measure = end_of_stream(list(hosts).index(host), len(hosts)) if result["measure"] else ""
    return {
        **own,
        "copy_source": before,
        "copy_target": after,
        # In words.
        "others": " or ".join(name for name in hosts if name != host),
        "ports": ports(own["rails"], request.worker_port, request.copy_port) if before else [],
        "streams": [f"{rail['interface']}={rail['address']}={rail['peer_address']}" for rail in own["rails"]],
        # The next rank, with which the link is verified.
        "peer": after or order[1],
        "any_configure": result["configure"],
        # Only an existing link can be verified before a change.
        "verify_rails": [] if result["configure"] else own["rails"],
        # send, receive or empty.
        "bandwidth_role": measure,
        # The systemd units to install or remove.
        "units": units,
        # Only the link check is left.
        "is_complete": not (result["configure"] or measure or units),
        "findings": [*result["findings"], *(finding for part in planned for finding in part["findings"])],
        "lines": [*result["lines"], *(line for part in planned for line in part["lines"])],
    }

# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this module util is internal to the collection; its interface may change at any time.

"""Sparks as one, seen from one of them: which rank it is, how its link does now, whether those it needs answer."""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import ipaddress
import re
import socket
import typing as t
from pathlib import Path

from .._data.files import read_value
from .._data.numbers import is_whole
from .._data.text import join_words
from .names import LABEL

RANK_LABEL = f"{LABEL}rank"
OPTIONS_LABEL = f"{LABEL}options"
ROLES = ("head", "worker")
WORKER_PORT = 2233
# The connections of ranks in ranks.json.
TRANSPORT = "transport"
ASK_TIMEOUT_S = 2.0
# States in which the supervisor misses another node.
PEER_LOST = "peer lost"
WAITING_FOR_WORKER = "waiting for the worker"
WAITING_FOR_FABRIC = "waiting for the fabric"
# The states of a healthy worker: sshd runs, and a rank is started through it or not yet. Only the head knows whether
# the server answers.
WORKER_READY = "ready"
RANK_RUNS = "rank_runs"

# The other Spark's port is open.
OPEN, REFUSED, SILENT = "open", "refused", "silent"


@dataclasses.dataclass(frozen=True)
class Rail:
    """One of the two ways through the cable, as it was set up."""

    interface: str | None
    address: str
    peer_address: str | None
    subnet: str | None = None
    mtu: int | None = None
    speed_mbps: int | None = None


@dataclasses.dataclass(frozen=True)
class Link:
    """The same as it is now; None is 'not known'."""

    up: bool | None = None
    # This Spark has the address.
    address_here: bool | None = None
    mtu: int | None = None
    speed_mbps: int | None = None


@dataclasses.dataclass(frozen=True)
class ClusterView:
    """The Sparks of the cluster and the rank of this one. Names are the inventory's, and only the record has them."""

    rank: int
    rails: tuple[Rail, ...]
    worker_port: int = WORKER_PORT
    # All, and the addresses of all others on the first rail, in the order of the ranks, as far as they are known.
    nodes: tuple[str, ...] = ()
    others: tuple[str, ...] = ()

    @property
    def role(self) -> str:
        return ROLES[min(self.rank, 1)]

    @property
    def peer_addresses(self) -> tuple[str, ...]:
        """Return the addresses of the nodes that this one needs: all workers for the head, the head for a worker."""
        if len(self.others) > 1:
            return self.others[:1] if self.rank else self.others
        address = self.rails[0].peer_address if self.rails else None
        return (address,) if address else ()

    @property
    def peer_address(self) -> str | None:
        return join_words(self.peer_addresses) or None

    @property
    def peer(self) -> str:
        """Return the other Sparks that it needs, by name if known."""
        names = join_words(self.nodes[:1] if self.rank else self.nodes[1:])
        return names or self.peer_address or f"the {ROLES[not self.rank]}"

    @property
    def worst_peer(self) -> str:
        """Return the worst of them."""
        return f"one of {self.peer}" if len(self.peer_addresses) > 1 else self.peer


def _number(value: t.Any) -> int | None:
    return value if is_whole(value) else None


def _text(value: t.Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _rail(row: t.Any) -> Rail | None:
    address = _text(row.get("address")) if isinstance(row, dict) else None
    if address is None:
        return None
    return Rail(
        _text(row.get("interface")),
        address,
        _text(row.get("peer_address")),
        _text(row.get("subnet")),
        _number(row.get("mtu")),
        _number(row.get("speed_mbps")),
    )


def _addresses(environment: t.Mapping[str, str], name: str) -> list[str]:
    """Return a list from a variable of the environment."""
    return [part.strip() for part in environment.get(name, "").split(",") if part.strip()]


def _others(environment: t.Mapping[str, str]) -> list[list[str]]:
    """Return for each rail the addresses of all other nodes in rank order; the list is ordered by rail."""
    own, others = (_addresses(environment, name) for name in ("DGX_SPARK_FABRIC_ADDRESSES", "DGX_SPARK_PEER_ADDRESSES"))
    many = max(1, len(others) // max(1, len(own)))
    return [others[index * many : (index + 1) * many] for index in range(len(own))]


def _rails_of_environment(environment: t.Mapping[str, str]) -> tuple[Rail, ...]:
    """Return the rails of a container that was never verified: it has no record, only its environment."""
    own, names = (_addresses(environment, name) for name in ("DGX_SPARK_FABRIC_ADDRESSES", "NCCL_SOCKET_IFNAME"))
    # NCCL takes prefixes and exclusions, too; only plain names are names.
    plain = len(names) == len(own) and not any(set(name) & set("=^") for name in names)
    return tuple(
        Rail(names[index] if plain else None, address, next(iter(others), None))
        for index, (address, others) in enumerate(zip(own, _others(environment)))
    )


def environment_of(inspected: t.Mapping[str, t.Any] | None) -> dict[str, str]:
    """Return the variables that a container was created with."""
    rows = ((inspected or {}).get("Config") or {}).get("Env") or []
    return {name: value for name, _sign, value in (str(row).partition("=") for row in rows)}


def cluster_of(
    labels: t.Mapping[str, str], environment: t.Mapping[str, str], record: t.Mapping[str, t.Any] | None
) -> ClusterView | None:
    """Return the cluster from the container's label, or else from the record; None on a single Spark."""
    recorded = (record or {}).get("cluster")
    recorded = recorded if isinstance(recorded, dict) else {}
    label = labels.get(RANK_LABEL)
    names = recorded.get("nodes")
    nodes = tuple(name for name in map(_text, names if isinstance(names, list) else []) if name)
    others = tuple(next(iter(_others(environment)), []))
    rank = _number(recorded.get("rank")) if label is None else int(label) if re.fullmatch("[0-9]{1,3}", label) else None
    # A container without the label belongs to one Spark, even if an older record differs.
    if rank is None or not 0 <= rank < max(2, len(nodes), 1 + len(others)) or (labels and label is None):
        return None
    rows = recorded.get("rails")
    rails = tuple(rail for rail in map(_rail, rows if isinstance(rows, list) else []) if rail)
    port = environment.get("DGX_SPARK_WORKER_PORT", "")
    return ClusterView(
        rank,
        rails or _rails_of_environment(environment),
        int(port) if port.isdigit() else WORKER_PORT,
        nodes,
        others,
    )


def address_here(address: str) -> bool | None:
    """Return whether this machine has an address: only its own addresses can be bound."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.bind((address, 0))
    except OSError as error:
        return False if error.errno == errno.EADDRNOTAVAIL else None
    return True


def read_rail(rail: Rail, root: Path) -> Link:
    """Read the interface from sysfs below a root directory."""
    here = address_here(rail.address)
    if rail.interface is None:
        return Link(address_here=here)
    place = root / "sys/class/net" / rail.interface
    if not place.exists():
        return Link(up=False, address_here=here)
    # carrier cannot be read at all while the interface is switched off.
    carrier, state = read_value(place / "carrier"), read_value(place / "operstate")
    up = carrier == "1" if carrier is not None else (None if state is None else False)
    mtu, speed = read_value(place / "mtu"), read_value(place / "speed")
    return Link(
        up,
        here,
        int(mtu) if mtu and mtu.isdigit() else None,
        # -1 is the kernel's word for 'not known'.
        int(speed) if speed and speed.isdigit() and int(speed) else None,
    )


def probe_peer(cluster: ClusterView, link: Link | None = None, timeout: float = ASK_TIMEOUT_S) -> str | None:
    """Return whether the required nodes answer on the link: the worst result counts.

    On the head this includes the SSH server of each worker. If the first rail is down or has lost its address, no node
    answers.
    """
    if link and False in (link.up, link.address_here):
        return SILENT
    answers = [_ask(cluster, address, timeout) for address in cluster.peer_addresses]
    return next((answer for answer in (SILENT, REFUSED, OPEN) if answer in answers), None)


def _ask(cluster: ClusterView, address: str, timeout: float) -> str:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.settimeout(timeout)
        try:
            # Not by the way round that the management network may offer: without its address it has no way.
            probe.bind((cluster.rails[0].address, 0))
            probe.connect((address, cluster.worker_port))
        except ConnectionRefusedError:
            return REFUSED
        except OSError:
            return SILENT
    return OPEN


def one_subnet(rails: t.Sequence[Rail]) -> str | None:
    """Return the network of two rails that share one, so that the kernel may answer for the wrong one; else None."""
    networks = []
    for rail in rails:
        with contextlib.suppress(ValueError):
            networks.append(ipaddress.ip_network(rail.subnet or "", strict=False))
    shared = [one for number, one in enumerate(networks) if any(one.overlaps(other) for other in networks[:number])]
    return str(shared[0]) if shared else None


def last_seen(state: t.Mapping[str, t.Any] | None) -> dict[str, t.Any] | None:
    """Return the supervisor's last observation of another Spark, preferably of one that it cannot reach."""
    peers = (state or {}).get("peers")
    known = [peer for peer in peers if isinstance(peer, dict)] if isinstance(peers, list) else []
    return next((peer for peer in known if peer.get("reachable") is False), next(iter(known), None))


def speed(megabits: int | None) -> str | None:
    """Megabits a second for a person."""
    if not megabits:
        return None
    return f"{megabits / 1000:g} Gb/s" if megabits >= 1000 else f"{megabits} Mb/s"


def describe_rail(rail: Rail, link: Link | None = None, sparks: int = 2) -> str:
    """One rail in a line: what it is, and what is not as it was set up. More than two Sparks share a network."""
    two = f"{rail.address} - {rail.peer_address}" if rail.peer_address else rail.address
    ways = f"{rail.address} in {rail.subnet}, with {sparks - 1} others" if sparks > 2 and rail.subnet else two
    parts = [f"{rail.interface} {ways}" if rail.interface else ways]
    parts += [part for part in (speed(rail.speed_mbps), f"MTU {rail.mtu}" if rail.mtu else None) if part]
    text = ", ".join(parts)
    wrong = faults(rail, link) if link else []
    return f"{text}: {', '.join(wrong)}" if wrong else text


def faults(rail: Rail, link: Link) -> list[str]:
    """Return how a link differs from its setup."""
    result = []
    if link.up is False:
        result.append("the link is down")
    if link.address_here is False:
        result.append("the address is gone")
    if link.up and rail.mtu and link.mtu and link.mtu < rail.mtu:
        result.append(f"its MTU is {link.mtu} now")
    if link.up and rail.speed_mbps and link.speed_mbps and link.speed_mbps < rail.speed_mbps:
        result.append(f"it runs at {speed(link.speed_mbps)} now")
    return result


def ranks_of(data: t.Any) -> list[dict[str, t.Any]]:
    """Return the ranks' own facts from ranks.json or a record, as far as they are valid."""
    ranks = data.get("ranks") if isinstance(data, dict) else None
    return [rank for rank in ranks if isinstance(rank, dict)] if isinstance(ranks, list) else []


def cores(rank: t.Mapping[str, t.Any]) -> int | None:
    """On how many cores a rank may run."""
    return _number(rank.get("cores"))


def _differences(data: t.Any) -> list[dict[str, t.Any]]:
    result = data.get("differences") if isinstance(data, dict) else None
    return [row for row in result if isinstance(row, dict)] if isinstance(result, list) else []


def differences_of(data: t.Any, severity: str) -> list[str]:
    """Return the differences in ranks.json: an 'error' prevents the start of the ranks, a 'warning' does not."""
    rows = [row for row in _differences(data) if row.get("what") != TRANSPORT or severity == "error"]
    return [str(row["message"]) for row in rows if row.get("severity") == severity and row.get("message")]


def by_tcp(data: t.Any) -> str | None:
    """Return the reason in ranks.json why the cluster uses TCP although RDMA would work."""
    rows = [row for row in _differences(data) if row.get("what") == TRANSPORT and row.get("severity") == "warning"]
    return next((str(row["message"]) for row in rows if row.get("message")), None)


def rdma_ready(data: t.Any) -> str | None:
    """Return the RDMA devices that all ranks could use at their start; None if that is unknown.

    NCCL may still not use them.
    """
    result = [rank.get("verbs") for rank in ranks_of(data)]
    if len(result) < 2 or not all(isinstance(one, dict) and one and None not in one.values() for one in result):
        return None
    each = [" and ".join(map(str, one)) for one in result if isinstance(one, dict)]
    return each[0] if len(set(each)) == 1 else "; ".join(each)

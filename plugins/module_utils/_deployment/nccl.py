# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this module util is internal to the collection; its interface may change at any time.

"""Read which network NCCL uses from the log files that each rank's NCCL writes into the deployment's state directory.

The wording is that of NVIDIA/nccl, tags v2.21.5-1 to v2.30.7-1 (src/init.cc, src/plugin/net.cc, src/misc/ibvsymbols.cc,
src/misc/param.cc, src/transport/net_ib.cc, later net_ib/init.cc, and net_socket.cc), and that of its plug-in from
Mellanox/nccl-rdma-sharp-plugins (src/p2p_plugin.c), which NVIDIA's images have. Without an RDMA
device, NCCL continues with sockets and reports no error. A device that it cannot use later, as with a wrong GID, is an
error.
"""

from __future__ import annotations

import contextlib
import dataclasses
import re
import typing as t
from pathlib import Path

from .._data.text import join_words
from .cluster_view import RANK_RUNS

FILES = "nccl.*"
# A rank logs all this at its start, and may continue to write for weeks.
MOST_BYTES = 2 * 2**20
# The states of the container's main process with running ranks. The files of an earlier start are removed at the next.
RANKS_RUN = ("running", RANK_RUNS)
# The finding that a rank uses sockets, or not all of its RDMA devices. A restart may change that.
BY_TCP, PARTLY = "pair_by_tcp", "rdma_partly"

_LINE = re.compile(r"NCCL (?:INFO|WARN) (.*?)\s*$", re.MULTILINE)
_NETWORK = re.compile(r"Using network (.+)|Assigned NET plugin (.+) to comm")
# The network names of NCCL and of the plug-in for verbs: IB, IBext, IBext_v10.
_VERBS = re.compile(r"IB(ext)?(_v\d+)?")
# Also printed, with an empty list, if there is no device.
_RDMA_DEVICES = re.compile(r"NET/IB : Using(.*); OOB ")
_INTERFACES = re.compile(r"NET/Socket : Using(.*)")
_NAME = re.compile(r"\[\d+\]([^\s:]+):")
_FILTER = re.compile(r"NCCL_IB_HCA set to (.+)")
_DISABLED = re.compile(r"(NCCL_IB(?:EXT)?_DISABLE) set by environment to ([1-9]\d*)")
# NCCL tries libibverbs.so first and .so.1 next; that it lacks functions of mlx5 is harmless.
_NO_LIBRARY = re.compile(r"Failed to open libibverbs|Count not open libibverbs\.so\.1|dlvsym failed on ibv_")
_NO_INTERFACE = re.compile(r"NET/IB : No IP interface found")
_NOT_OPENED = re.compile(r"NET/IB : Unable to open device (\S+)")

_OWN_SETTINGS = "take NCCL_ variables of your own out of speculative_serve_environment and run the playbook again"


@dataclasses.dataclass(frozen=True)
class Network:
    """The network of a rank's NCCL: its name, and the RDMA devices or, for sockets, the interfaces."""

    name: str
    rdma: bool
    devices: t.Sequence[str] = ()
    # With RDMA, what NCCL_IB_HCA names besides.
    missing: t.Sequence[str] = ()
    # Without RDMA: the reason if NCCL logs one, and the fix.
    why: str = ""
    fix: str = ""

    def facts(self) -> dict[str, t.Any]:
        """Return it as a module does."""
        return dataclasses.asdict(self)


def _chosen(device: str, wanted: str) -> bool:
    """Return whether NCCL_IB_HCA chooses a device: by beginnings of names, after = whole names, after ^ all others."""
    if wanted.startswith("^"):
        return not _chosen(device, wanted[1:])
    names = [name.partition(":")[0] for name in wanted.lstrip("=").split(",") if name]
    return any(device == name if wanted.startswith("=") else device.startswith(name) for name in names)


def parse(text: str, wanted: str = "") -> Network | None:
    """Return the network in a log of NCCL; None without one. Of several, one without RDMA counts.

    `wanted` is NCCL_IB_HCA if known: NCCL itself logs it, but its plug-in does not.
    """
    lines = _LINE.findall(text)
    networks = [next(filter(None, match.groups())) for line in lines if (match := _NETWORK.match(line))]
    if not networks:
        return None
    name = next((network for network in networks if not _VERBS.fullmatch(network)), networks[0])
    rdma = bool(_VERBS.fullmatch(name))
    wanted = next((match[1] for line in lines if (match := _FILTER.match(line))), wanted)
    pattern = _RDMA_DEVICES if rdma else _INTERFACES
    told = [_NAME.findall(match[1]) for line in lines if (match := pattern.match(line))]
    devices: list[str] = next((devices for devices in reversed(told) if devices), [])
    if not rdma:
        return Network(name, rdma, devices, [], *_reason(lines, wanted))
    names = [] if wanted.startswith("^") else [part.partition(":")[0] for part in wanted.lstrip("=").split(",") if part]
    missing = [name for name in names if devices and not any(device.startswith(name) for device in devices)]
    return Network(name, rdma, devices, missing)


def _reason(lines: t.Sequence[str], wanted: str) -> tuple[str, str]:
    """Return why NCCL does not use RDMA, and what to do."""
    disabled = [match for line in lines if (match := _DISABLED.match(line))]
    if disabled:
        return f"{disabled[0][1]} is set to {disabled[0][2]}", _OWN_SETTINGS
    if any(_NO_LIBRARY.match(line) for line in lines):
        return "it cannot load libibverbs", "use an image that has libibverbs.so.1, as NVIDIA's have"
    if any(_NO_INTERFACE.match(line) for line in lines):
        return "it finds no IP interface for RDMA", "check NCCL_SOCKET_IFNAME and the addresses of the fabric"
    closed = list(dict.fromkeys(match[1] for line in lines if (match := _NOT_OPENED.match(line))))
    closed = [device for device in closed if not wanted or _chosen(device, wanted)]
    if closed:
        return (
            f"it cannot open {join_words(closed)}",
            "check the driver with 'dmesg' (mlx5_core), then start the container again with 'docker restart'",
        )
    if any(line.startswith("NET/IB : No device found") for line in lines):
        matches = f"no active RDMA device matches NCCL_IB_HCA={wanted}" if wanted else "no RDMA device is active"
        return matches, f"compare that with 'rdma link' on the Spark; {_OWN_SETTINGS}"
    if not any("NET/IB" in line or "plugin IB" in line for line in lines):
        return "it has not tried RDMA, as with NCCL_NET=Socket", _OWN_SETTINGS
    return "its log does not say", f"read its log in the state directory; {_OWN_SETTINGS}"


def rank_network(state: Path, wanted: str) -> Network | None:
    """Return the network of the rank that has this state directory and this NCCL_IB_HCA; None if no file has it."""
    return parse(read_files(state), wanted)


def read_files(state: Path) -> str:
    """Return the beginnings of the logs of a rank's processes; what cannot be read is left out."""
    texts = []
    for path in sorted(state.glob(FILES)):
        with contextlib.suppress(OSError), path.open("rb") as file:
            texts.append(file.read(MOST_BYTES).decode("utf-8", "replace"))
    return "\n".join(texts)


def parse_facts(facts: t.Any) -> Network | None:
    """Return what facts() has returned; None for anything else, as in a record that was edited."""
    if not isinstance(facts, dict) or not isinstance(facts.get("name"), str) or not isinstance(facts.get("rdma"), bool):
        return None
    lists = [facts[key] if isinstance(facts.get(key), list) else [] for key in ("devices", "missing")]
    devices, missing = ([str(name) for name in names] for names in lists)
    why, fix = (str(facts.get(key) or "") for key in ("why", "fix"))
    return Network(facts["name"], facts["rdma"], devices, missing, why, fix)


def describe_network(network: Network) -> str:
    """Describe it in a line."""
    over = f" over {join_words(network.devices)}" if network.devices else ""
    if network.rdma:
        return f"NCCL uses RDMA ({network.name}){over}"
    return f"NCCL uses {network.name}{over} and not RDMA: {network.why}"


def findings(networks: t.Mapping[str, Network | None]) -> list[dict[str, str]]:
    """Return the findings of several ranks, by the names of their Sparks. Equal ones are reported once."""
    result: list[dict[str, str]] = []
    told: list[Network | None] = []
    for network in networks.values():
        names = [name for name, other in networks.items() if other == network]
        row = None if network in told else finding(network, join_words(names))
        result += [row] if row else []
        told.append(network)
    return result


def finding(network: Network | None, who: str) -> dict[str, str] | None:
    """Return a finding if a rank does not use RDMA as planned; None if it does, or if that is not known."""
    if network is None or (network.rdma and not network.missing):
        return None
    over = f" over {join_words(network.devices)}" if network.devices else ""
    if network.rdma:
        message = (
            f"NCCL of {who} uses RDMA{over} only: {join_words(network.missing)} is not active or cannot be opened. "
            "The link is slower than it could be. Check the cable, then run the playbook again."
        )
        return {"id": PARTLY, "message": message}
    message = (
        f"NCCL of {who} uses {network.name}{over} and not RDMA, which costs most of the link's speed. "
        f"Reason: {network.why}. What to do: {network.fix}."
    )
    return {"id": BY_TCP, "message": message}

# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this module util is internal to the collection; its interface may change at any time.

"""Verify that packets reach the other Spark through the cable, in full size and by the right interface.

The steps are those of NVIDIA's page for two DGX Stations: link, address, route, full frames, RDMA port. Then follow a
hundred small packets, because a few pass a cable that loses every tenth, and two TCP ports: a firewall may allow only
ping and configured ports, but mpirun and NCCL use ports that are not known in advance. Nothing here needs root.
"""

from __future__ import annotations

import concurrent.futures
import dataclasses
import random
import re
import socket
import time
import typing as t
from pathlib import Path

from .._data.files import read_value
from .ports import FabricError, Run, addresses, after_colon, ask_ip, gids, rate_mbps, read_number, rows, run

# The keys of a rail.
NEEDED = ("interface", "address", "peer_address", "peer_interface", "subnet", "mtu")
# IPv4 and ICMP headers.
HEADERS = 28
COUNTED_PINGS = 3
MANY_PINGS = 100
SMALL = 84
# The range of ports that Linux assigns (net.ipv4.ip_local_port_range).
HIGH_PORTS = (32768, 60999)
# As often as every user may send packets since 2021 (iputils 20210722).
PING_INTERVAL_S = 0.002
RETRY_S = 0.5
PING_DEADLINE_S = 1
# A firewall that drops what arrives does not answer at all.
CONNECT_DEADLINE_S = 2.0

Rail = dict[str, t.Any]
Connect = t.Callable[[str, str, int], "str | None"]


def connect(address: str, peer_address: str, port: int) -> str | None:
    """Return why a port did not answer. A refused connection counts as an answer."""
    try:
        socket.create_connection((peer_address, port), CONNECT_DEADLINE_S, (address, 0)).close()
    except ConnectionRefusedError:
        return None
    except socket.timeout:
        return f"no answer within {CONNECT_DEADLINE_S:g} s"
    except OSError as error:
        return error.strerror or str(error)
    return None


@dataclasses.dataclass(frozen=True)
class Row:
    """The results of the steps for one interface; None for a step that was not reached."""

    interface: str
    address: str
    peer_address: str
    link: bool | None = None
    on_interface: bool | None = None
    route: str | None = None
    reached: bool | None = None
    full_frames: bool | None = None
    milliseconds: float | None = None
    left_by_interface: bool | None = None
    lost: int | None = None
    connects: bool | None = None
    error: str | None = None


def check_link(args: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """Check a host's end of the link, with the arguments of PROOF in arguments.py.

    Without an `error`, in which the host is named, the rails are those that were proven.
    """
    table: list[Row] = []
    findings: list[str] = []
    rails = args["rails"]
    try:
        check_rails(rails)
        proof = LinkCheck(rails, args["peer"], args["timeout"], port=args["port"])
        table = proof.check()
        errors = [row.error for row in table if row.error]
        rails, findings = rails if errors else proof.refreshed(), proof.findings
    except FabricError as error:
        errors = [str(error)]
    start = [f"{args['host']}:"] if args["host"] and errors else []
    return {
        "error": " ".join([*start, *errors]),
        "table": [dataclasses.asdict(row) for row in table],
        "rails": rails,
        "findings": findings,
    }


def check_rails(rails: t.Sequence[Rail]) -> None:
    """Raise FabricError for rails that are not planned."""
    lacking = sorted({key for rail in rails for key in NEEDED if not rail.get(key)})
    if not rails or lacking:
        what = f"have no {' and no '.join(lacking)}" if lacking else "are empty"
        raise FabricError(f"The rails {what}. Use those that deployment_plan returns.")


def round_trip(output: str) -> float | None:
    """Return the time in the answer of ping."""
    match = re.search(r"time[=<]([\d.]+) ms", output)
    return float(match.group(1)) if match else None


def lost_packets(output: str) -> int:
    """Return the packets that ping lost; all of them if its output has no count."""
    match = re.search(r"(\d+) packets transmitted, (\d+) received", output)
    return int(match.group(1)) - int(match.group(2)) if match else MANY_PINGS


class LinkCheck:
    """The look at one host's end of the cable."""

    def __init__(
        self,
        rails: t.Sequence[Rail],
        peer: str,
        seconds: float,
        runner: Run = run,
        sys: Path = Path("/sys"),
        sleep: t.Callable[[float], None] = time.sleep,
        port: int = 0,
        connector: Connect = connect,
        high_port: t.Callable[[], int] = lambda: random.randint(*HIGH_PORTS),
    ) -> None:
        self._rails = rails
        # A TCP port of the other Spark, whether anything listens there or not; 0: none is tried.
        self._port = port
        self._connect = connector
        self._high_port = high_port
        self._own: dict[str, list[str]] = {}
        self._peer = peer
        self._deadline = time.monotonic() + seconds
        self._run = runner
        self._sys = sys
        self._sleep = sleep
        self.findings: list[str] = []
        # Twins in one subnet: the kernel may take either of them.
        shared = [rail["subnet"] for rail in rails]
        self._may_leave_by = {
            rail["interface"]: [other["interface"] for other, subnet in zip(rails, shared) if subnet == rail["subnet"]]
            for rail in rails
        }

    def check(self) -> list[Row]:
        self._own = self._own_addresses()
        # At once, unless the packets of one interface would count as those of the other.
        apart = all(len(names) == 1 for names in self._may_leave_by.values())
        with concurrent.futures.ThreadPoolExecutor(len(self._rails) if apart else 1) as pool:
            return list(pool.map(self._check, self._rails))

    def refreshed(self) -> list[Rail]:
        """Return the rails with what is known only now that they are up."""
        result = []
        for rail in self._rails:
            port = self._sys / "class/infiniband" / str(rail.get("rdma") or "-") / "ports" / "1"
            # For information: NCCL chooses by itself.
            table = gids(port, rail["interface"])
            index = next((gid["index"] for gid in table if gid["address"] == rail["address"]), None)
            mtu = read_number(self._sys / "class/net" / rail["interface"] / "mtu") or rail["mtu"]
            speed = rate_mbps(read_value(port / "rate")) or rail.get("speed_mbps")
            result.append({**rail, "mtu": min(mtu, rail["mtu"]), "speed_mbps": speed, "gid_index": index})
            if index is None:
                self.findings.append(
                    f"{rail['interface']} has no RoCE v2 entry for {rail['address']} in the GID table of "
                    f"{rail.get('rdma')}, so NCCL may choose another way. Restart the Spark if NCCL reports an invalid "
                    "GID."
                )
            state = after_colon(read_value(port / "state"))
            if state not in (None, "ACTIVE"):
                self.findings.append(
                    f"The RDMA port {rail.get('rdma')} is {state} and not ACTIVE, so NCCL may fall back to slow "
                    "sockets. Restart the Spark."
                )
        return result

    # The steps of one interface

    def _check(self, rail: Rail) -> Row:
        row = Row(rail["interface"], rail["address"], rail["peer_address"])
        for step in (self._link, self._address, self._route, self._packets, self._losses, self._answers):
            row = step(rail, row)
            if row.error:
                return row
        return row

    def _retry(self, attempt: t.Callable[[], bool]) -> bool:
        """Return an answer that may take a moment: a link that just came up, a neighbour that was never asked."""
        while not attempt():
            if time.monotonic() > self._deadline:
                return False
            self._sleep(RETRY_S)
        return True

    def _link(self, rail: Rail, row: Row) -> Row:
        net = self._sys / "class/net" / rail["interface"]
        if not net.exists():
            return dataclasses.replace(
                row, link=False, error=f"there is no interface {rail['interface']}. See its name with 'ip -br link'."
            )
        if self._retry(lambda: read_number(net / "carrier") == 1):
            return dataclasses.replace(row, link=True)
        return dataclasses.replace(
            row,
            link=False,
            error=(
                f"{rail['interface']} has no link: the cable is out, damaged or hot, or {self._peer} is off. Plug it "
                "into the same port of both Sparks until it clicks; try another cable if that does not help."
            ),
        )

    def _own_addresses(self) -> dict[str, list[str]]:
        result = ask_ip(self._run, "-json", "address", "show")
        return {str(row.get("ifname")): [a["address"] for a in addresses(row)] for row in result}

    def _has(self, rail: Rail) -> bool:
        """Return whether the address exists by now. One query may serve both interfaces."""
        if rail["address"] in self._own.get(rail["interface"], []):
            return True
        self._own = self._own_addresses()
        return rail["address"] in self._own.get(rail["interface"], [])

    def _address(self, rail: Rail, row: Row) -> Row:
        if self._retry(lambda: self._has(rail)):
            double = [name for name, each in self._own.items() if rail["peer_address"] in each]
            if double:
                return dataclasses.replace(
                    row,
                    on_interface=True,
                    error=(
                        f"{rail['peer_address']} should be {self._peer}'s, but is on this host's {double[0]}. Each "
                        "Spark needs addresses of its own; correct the addresses or spark_network_addresses."
                    ),
                )
            return dataclasses.replace(row, on_interface=True)
        elsewhere = [name for name, each in self._own.items() if rail["address"] in each]
        where = f"it is on {elsewhere[0]}" if elsewhere else "no interface has it"
        return dataclasses.replace(
            row,
            on_interface=False,
            error=(
                f"{rail['address']} is not on {rail['interface']}; {where}. See 'ip -br address' and what manages the "
                "interface ('nmcli device', 'networkctl'), then run again."
            ),
        )

    def _route(self, rail: Rail, row: Row) -> Row:
        code, output, error = self._run(["ip", "-json", "route", "get", rail["peer_address"], "from", rail["address"]])
        result = rows(output) if code == 0 else []
        device = str(result[0].get("dev") or "") if result else ""
        if not result:
            text = error.strip() or "no answer"
            return dataclasses.replace(
                row,
                error=(
                    f"there is no route from {rail['address']} to {rail['peer_address']} ({text}). Give both the same "
                    "subnet."
                ),
            )
        row = dataclasses.replace(row, route=device)
        allowed = self._may_leave_by[rail["interface"]]
        if device in allowed:
            if device != rail["interface"]:
                self.findings.append(
                    f"Packets from {rail['address']} leave by {device} instead of {rail['interface']}, since both are "
                    f"in {rail['subnet']}. Give each twin a subnet of its own."
                )
            return row
        return dataclasses.replace(
            row,
            error=(
                f"packets from {rail['address']} to {rail['peer_address']} leave by {device or 'an unknown interface'} "
                f"instead of {rail['interface']}. Another route, perhaps of a VPN, covers {rail['subnet']}: see 'ip "
                f"route get {rail['peer_address']} from {rail['address']}'."
            ),
        )

    def _sent(self, rail: Rail) -> int:
        names = self._may_leave_by[rail["interface"]]
        return sum(read_number(self._sys / "class/net" / name / "statistics" / "tx_bytes") or 0 for name in names)

    def _ping(self, rail: Rail, size: int, count: int = 1) -> tuple[bool, str]:
        """Packets of this size, headers included, that no router may cut up."""
        command = ["ping", "-n", "-M", "do", "-c", str(count), "-i", str(PING_INTERVAL_S), "-W", str(PING_DEADLINE_S)]
        command += ["-s", str(size - HEADERS), "-I", rail["address"], rail["peer_address"]]
        code, output, error = self._run(command)
        return code == 0, output if code == 0 else f"{output}\n{error}"

    def _packets(self, rail: Rail, row: Row) -> Row:
        full, small = int(rail["mtu"]), min(int(rail["mtu"]), 1500)
        before, said = 0, ""

        def reached() -> bool:
            nonlocal before, said
            before = self._sent(rail)
            good, said = self._ping(rail, full, COUNTED_PINGS)
            return good

        if not self._retry(reached):
            # Smaller packets show whether the size is the reason.
            good, said = self._ping(rail, small) if small < full else (False, said)
            if not good:
                return dataclasses.replace(row, reached=False, error=self._why_silent(rail, small, said))
            own = read_number(self._sys / "class/net" / rail["interface"] / "mtu")
            return dataclasses.replace(
                row,
                reached=True,
                full_frames=False,
                error=(
                    f"{rail['peer_address']} answers packets of {small} bytes, but none of {full} "
                    f"('ping -M do -s {full - HEADERS}'). {rail['interface']} has MTU {own}; see that "
                    f"{rail['peer_interface']} of {self._peer} and any switch in between have the same, or set "
                    "spark_network_mtu to 1500."
                ),
            )
        row = dataclasses.replace(row, reached=True, full_frames=True, milliseconds=round_trip(said))
        # The card's own counters may be a moment behind.
        if self._retry(lambda: self._sent(rail) - before >= full):
            return dataclasses.replace(row, left_by_interface=True)
        return dataclasses.replace(
            row,
            left_by_interface=False,
            error=(
                f"{rail['peer_address']} answers, but the packets did not leave by {rail['interface']} (its counter of "
                "sent bytes did not move). Is the address of the other Spark also used somewhere else?"
            ),
        )

    def _errors(self, rail: Rail) -> int:
        """Return the number of broken packets that the interface counted."""
        counters = self._sys / "class/net" / rail["interface"] / "statistics"
        return sum(read_number(counters / name) or 0 for name in ("rx_errors", "rx_crc_errors", "tx_errors"))

    def _losses(self, rail: Rail, row: Row) -> Row:
        """One late answer on a busy host is no loss: the best of several tries counts."""
        fewest, before = MANY_PINGS, self._errors(rail)

        def whole() -> bool:
            nonlocal fewest
            fewest = min(fewest, lost_packets(self._ping(rail, SMALL, MANY_PINGS)[1]))
            return fewest == 0

        row = dataclasses.replace(row, lost=0 if self._retry(whole) else fewest)
        if not row.lost:
            return row
        return dataclasses.replace(
            row,
            error=(
                f"{rail['peer_address']} answers, but of {MANY_PINGS} small packets by {rail['interface']} {row.lost} "
                f"were lost, while it counted {self._errors(rail) - before} broken ones. Reseat the cable at both "
                "ends, or try another one."
            ),
        )

    def _answers(self, rail: Rail, row: Row) -> Row:
        """Add an error to the row if the ports do not answer: a firewall may let only ping in."""
        why: str | None = None
        port = self._port

        def answered() -> bool:
            nonlocal why
            why = self._connect(rail["address"], rail["peer_address"], port)
            return why is None

        if not self._port:
            return row
        for port in (self._port, self._high_port()):
            if not self._retry(answered):
                return dataclasses.replace(
                    row,
                    connects=False,
                    error=(
                        f"{rail['peer_address']} answers to ping, but not on TCP port {port} from {rail['address']} "
                        f"({why}), not even with a refusal. {self._blocked(rail)}"
                    ),
                )
        return dataclasses.replace(row, connects=True)

    def _blocked(self, rail: Rail) -> str:
        return (
            f"A firewall on either Spark drops it: allow what arrives on {rail['peer_interface']} of {self._peer} from "
            f"{rail['subnet']} (for example 'sudo ufw allow in on {rail['peer_interface']} from {rail['subnet']}')."
        )

    def _why_silent(self, rail: Rail, size: int, text: str) -> str:
        if "is not installed" in text:
            return f"{' '.join(text.split())}. Install it with 'sudo apt-get install iputils-ping'."
        if "Operation not permitted" in text or "socktype" in text:
            return (
                f"ping may not be used by this user ({' '.join(text.split())[:200]}). Reinstall it with 'sudo apt-get "
                "install --reinstall iputils-ping'."
            )
        if "message too long" in text.lower() or "too long, mtu" in text.lower():
            return (
                f"{rail['interface']} does not carry packets of {size} bytes. Raise its MTU to at least that on both "
                "Sparks."
            )
        code, output, _error = self._run(["ip", "-json", "neighbour", "show", rail["peer_address"]])
        known = (
            any("REACHABLE" in (n.get("state") or []) or n.get("lladdr") for n in rows(output)) if code == 0 else False
        )
        if known:
            return (
                f"{self._peer} is there, but {rail['peer_address']} does not answer to ping from {rail['address']}. "
                f"{self._blocked(rail)}"
            )
        return (
            f"{rail['peer_address']} does not answer on {rail['interface']}. See on {self._peer} that "
            f"{rail['peer_interface']} has this address ('ip -br address'), and that the cable joins just these ports."
        )

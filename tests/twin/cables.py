# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Connect the Sparks with simulated cables, and simulate faults of the cables.

Each Spark creates the interfaces of its own ConnectX-7: see `spark/fabric.py`, also for the conditions.
A cable has two wires, one for each of the two interfaces of a port. A wire is a veth pair between the far ends of
the interfaces. Two Sparks have one cable. More Sparks have a switch: a container with a bridge, and a cable from each
Spark. There is one bridge for all, because a switch without VLANs is one network. In it the interfaces of a Spark also
reach each other. A ring has a cable from each Spark's port 1 to port 0 of the next.
Nothing of it is ever in the machine's own network namespace.

The cabling is recorded, so that a cable that a test has unplugged stays unplugged when a Spark restarts.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import subprocess
import threading
import time
import typing as t
from pathlib import Path

from tests.twin import engine
from tests.twin.images import as_root
from tests.twin.names import MAX_SPARKS, STATE, SWITCH, TwinError, spark_name
from tests.twin.spark.fabric import ARMED, CABLE, FACTS, MTU, PORTS, Port

RECORD = STATE / "cables.json"
FABRIC = "/usr/bin/python3 -I -S /usr/local/lib/dgx-spark-twin/fabric.py once"
HANDLER = "/opt/nvidia/dgx-spark-mlnx-hotplug/mtk-hotplug-handler.sh"
RAILS = (0, 1)
CABLE_BETWEEN, ON_SWITCH, IN_RING = WIRINGS = ("cable", "switch", "ring")
BRIDGE = "switch"
LAYING = threading.Lock()


@dataclasses.dataclass(frozen=True)
class End:
    """The end of a wire: a port of a Spark, or the switch, which has the number 0."""

    spark: int
    port: Port | None = None

    @property
    def bridge(self) -> str:
        return self.port.bridge if self.port else BRIDGE

    def __str__(self) -> str:
        return f"{self.spark}p{self.port.index}" if self.port else BRIDGE


Wire = tuple[End, End]


@dataclasses.dataclass(frozen=True)
class Cable:
    """A cable between ports of two Sparks, or the wiring of more Sparks."""

    port_a: int = 1
    port_b: int = 1
    # The rails with a wire. A real cable always has both.
    rails: tuple[int, ...] = RAILS
    # Larger packets are lost silently.
    mtu: int = MTU
    # Bandwidth of a wire in each direction, in Mbit/s. 0 means no limit.
    mbit: int = 0
    wiring: str = CABLE_BETWEEN
    sparks: int = 2

    def wires(self) -> list[Wire]:
        """Return the two ends of each wire."""
        if self.wiring == ON_SWITCH:
            ends = range(1, self.sparks + 1)
            return [(End(one, port(self.port_a, rail)), End(0)) for rail in self.rails for one in ends]
        pairs = [((1, self.port_a), (2, self.port_b))]
        if self.wiring == IN_RING:
            pairs = [((one, 1), (one % self.sparks + 1, 0)) for one in range(1, self.sparks + 1)]
        return [
            (End(a, port(port_a, rail)), End(b, port(port_b, rail)))
            for rail in self.rails
            for (a, port_a), (b, port_b) in pairs
        ]


def delivered(sparks: int, wiring: str = "") -> Cable | None:
    """Return the default cabling of this number of Sparks; None for one Spark."""
    wiring = wiring or (CABLE_BETWEEN if sparks < 3 else ON_SWITCH)
    if wiring == CABLE_BETWEEN and sparks > 2:
        raise TwinError(f"The twin's cable joins two Sparks; {sparks} are joined by a {' or a '.join(WIRINGS[1:])}.")
    return Cable(wiring=wiring, sparks=sparks) if sparks > 1 else None


def port(number: int, rail: int) -> Port:
    """Return one of a Spark's four interfaces: port 0 or 1, rail 0 (enp1s0f...) or 1 (enP2p1s0f...)."""
    return next(one for one in PORTS if (one.number, one.rail) == (number, rail))


def interface(number: int = 1, rail: int = 0) -> str:
    """Return the name of an interface."""
    return port(number, rail).interface


def recorded() -> Cable | None:
    """Return the recorded cabling; None without cables."""
    if not RECORD.exists():
        return None
    values = json.loads(RECORD.read_text())
    return Cable(**{**values, "rails": tuple(values["rails"])})


def record(cable: Cable | None) -> None:
    """Record the cabling, or that there are no cables."""
    RECORD.unlink(missing_ok=True)
    if cable:
        RECORD.parent.mkdir(parents=True, exist_ok=True)
        RECORD.write_text(json.dumps(dataclasses.asdict(cable)))


def plug(port_a: int = 1, port_b: int = 1) -> None:
    """Replace the cable by one without faults, and wait for the link."""
    sound = Cable(port_a, port_b)
    there = recorded() or sound
    record(dataclasses.replace(sound, wiring=there.wiring, sparks=there.sparks))
    connect(by_hand=True)


def unplug(rail: int | None = None) -> None:
    """Unplug the cable, or break one of its wires: both ends lose the carrier."""
    cable = recorded() or Cable()
    rails = () if rail is None else tuple(one for one in cable.rails if one != rail)
    record(dataclasses.replace(cable, rails=rails))
    connect()


@contextlib.contextmanager
def changed(**values: t.Any) -> t.Iterator[None]:
    """Change the cable for the time of a context.

    Such as `changed(rails=())`, `changed(port_b=0)`, `changed(rails=(0,))`, `changed(mtu=1500)` or `changed(mbit=200)`.
    """
    before = recorded() or Cable()
    record(dataclasses.replace(before, **values))
    try:
        connect(by_hand=True)
        yield
    finally:
        record(before)
        connect(by_hand=True)


@contextlib.contextmanager
def leads_elsewhere(*ends: tuple[int, int]) -> t.Iterator[None]:
    """Connect these ports (Spark and port) to a device that has a link but is not the other Spark."""
    there = [(both, port(number, rail)) for spark, number in ends for both in [namespaces()[spark]] for rail in RAILS]
    for end, one in there:
        end.run("ip", "link", "add", f"wire{one.index}", "type", "veth", "peer", "name", f"other{one.index}")
        for link, master in ((f"wire{one.index}", ["master", one.bridge]), (f"other{one.index}", [])):
            end.run("ip", "link", "set", link, *master, "up")
        end.wait(functools.partial(has_carrier, one), "the carrier of a port")
    try:
        yield
    finally:
        for end, one in there:
            end.run("ip", "link", "del", f"wire{one.index}")


@contextlib.contextmanager
def stranger(address: str, number: int = 1, rail: int = 0) -> t.Iterator[None]:
    """Give an address to another device on the wire, as on a switch."""
    end = namespaces()[1]
    change = (address, "dev", port(number, rail).bridge)
    end.run("ip", "address", "add", *change)
    try:
        yield
    finally:
        end.run("ip", "address", "del", *change)


def arm(number: int, armed: bool) -> None:
    """Let a Spark's ConnectX-7 disappear without a cable, as in DGX OS, or keep it from the next start on.

    To keep it, the marker gets another name, as a user would do.
    """
    names = ("cx7-hotplug-disabled", ARMED.name) if armed else (ARMED.name, "cx7-hotplug-disabled")
    old, new = (str(ARMED.with_name(one)) for one in names)
    # The service of the NIC reads the marker at its start and when something changes.
    script = '[ ! -e "$1" ] || { mv "$1" "$2" && systemctl restart dgx-spark-twin-fabric; }'
    engine.docker("exec", spark_name(number), "sh", "-c", script, "-", old, new)


@contextlib.contextmanager
def firewall(number: int, *ports: int) -> t.Iterator[None]:
    """Let a Spark drop packets from the cable to these TCP ports; without ports, all new connections."""
    rules = [["-p", "tcp", "--dport", str(one)] for one in ports]
    rules = rules or [["-m", "conntrack", "--ctstate", "NEW"]]
    tail = ["-i", "en+", "-j", "DROP"]
    for rule in rules:
        engine.docker("exec", spark_name(number), "iptables", "-I", "INPUT", *rule, *tail)
    try:
        yield
    finally:
        for rule in rules:
            # After a restart of the Spark, the rules do not exist any more.
            engine.attempt("exec", spark_name(number), "iptables", "-D", "INPUT", *rule, *tail)


@contextlib.contextmanager
def rdma(number: int, **values: str) -> t.Iterator[None]:
    """Change the reported values of a Spark's RDMA devices, as in `rdma(2, rate="25 Gb/sec (1X EDR)")`."""
    told = {port.rdma: values for port in PORTS}
    path = str(FACTS / "fabric.json")
    script = f'cat >"$1" && {FABRIC}'
    engine.docker("exec", "-i", spark_name(number), "sh", "-c", script, "-", path, text=json.dumps(told))
    try:
        yield
    finally:
        engine.attempt("exec", spark_name(number), "sh", "-c", f'rm -f "$1" && {FABRIC}', "-", path)


def name(here: End, there: End) -> str:
    """Return the name of a wire's end, with both ends in it."""
    return f"wire{here}-{there}"


class Namespace:
    """The network namespace at the far end of a Spark's interfaces, or that of the switch."""

    def __init__(self, number: int, process: int) -> None:
        self.number = number
        self.path = f"/proc/{process}/root{CABLE}" if number else f"/proc/{process}/ns/net"
        self.process = Path("/proc", str(process))

    @property
    def inside(self) -> list[str]:
        """Return the Docker arguments that run a command in this namespace, with the Spark's own programs."""
        return ["exec", spark_name(self.number), "nsenter", f"--net={CABLE}"] if self.number else ["exec", SWITCH]

    @property
    def ended(self) -> bool:
        """Return whether the Spark has stopped."""
        return not self.process.exists()

    def run(self, *command: str, text: str | None = None) -> str:
        """Run a program of this machine in this namespace."""
        program = as_root("nsenter", f"--net={self.path}", *command)
        result = subprocess.run(program, input=text, capture_output=True, text=True, check=False)
        if result.returncode:
            raise TwinError(f"The twin's cable does not fit: `{' '.join(command)}`: {engine.last_line(result.stderr)}")
        return result.stdout

    def links(self) -> dict[str, dict[str, t.Any]]:
        """Return the links by name; nothing if the namespace does not exist yet."""
        program = as_root("nsenter", f"--net={self.path}", "ip", "-json", "link")
        result = subprocess.run(program, capture_output=True, text=True, check=False)
        return {link["ifname"]: link for link in json.loads(result.stdout or "[]")} if result.returncode == 0 else {}

    def wait(self, done: t.Callable[[dict[str, dict[str, t.Any]]], bool], what: str) -> None:
        """Wait until the links fulfil a condition."""
        deadline = time.monotonic() + 60
        while not done(self.links()):
            if time.monotonic() > deadline:
                raise TwinError(f"The twin's cable waited a minute in vain for {what}.")
            time.sleep(0.05)


def namespaces() -> dict[int, Namespace]:
    """Return the namespaces of all running Sparks by number, and that of the switch as number 0."""
    names = {0: SWITCH, **{number: spark_name(number) for number in range(1, MAX_SPARKS + 1)}}
    states = {number: (engine.inspect("container", one) or {}).get("State", {}) for number, one in names.items()}
    return {number: Namespace(number, state["Pid"]) for number, state in states.items() if state.get("Running")}


def connect(by_hand: bool = False) -> None:
    """Create the recorded wires, remove all others, and wait until the interfaces have the right carrier.

    A NIC that was removed appears again if a user plugs the cable in, but not if the other Spark starts.
    """
    with LAYING:
        lay(by_hand)


def lay(by_hand: bool) -> None:
    """Lay the wires. The caller holds the lock. If a Spark stops meanwhile, its next start lays its wires."""
    cable = recorded()
    there = namespaces()
    if cable is None or len(there) < 2:
        return
    for end in there.values():
        if end.number:
            end.wait(functools.partial(has_ports, end), "the ports of a Spark")
    if any(end.ended for end in there.values()):
        return
    wanted = {name(*wire): wire for wire in cable.wires() if all(end.spark in there for end in wire)}
    present = {number: wires(end) for number, end in there.items()}
    whole = {one for one, ends in wanted.items() if all(one in present[end.spark] for end in ends)}
    for number, end in there.items():
        for wire in present[number].keys() - whole:
            # Deleting one end deletes the other, too.
            if wire in end.links():
                end.run("ip", "link", "del", wire)
    for wire in wanted.keys() - whole:
        near, far = (there[end.spark] for end in wanted[wire])
        near.run("ip", "link", "add", wire, "type", "veth", "peer", "name", wire, "netns", far.path)
    for number, end in there.items():
        # The wires that end here, with their ends.
        own = {wire: one for wire, ends in wanted.items() for one in ends if one.spark == number}
        lines = [f"link set {wire} mtu {cable.mtu} master {one.bridge} up\n" for wire, one in own.items()]
        end.run("ip", "-batch", "-", text="".join(lines))
        before = [present[number][wire] for wire in own.keys() & whole]
        if cable.mtu < MTU or cable.mbit or any(link["mtu"] < MTU or link["qdisc"] == "htb" for link in before):
            shape(end, cable, list(own))
    for number in sorted(there.keys() - {0}):
        ends = {wire: one for wire, pair in wanted.items() for one in pair if one.spark == number}
        if by_hand and ends.keys() - whole:
            engine.docker("exec", spark_name(number), HANDLER, "plug-in")
        interfaces = {one.port.interface for one in ends.values() if one.port}
        there[number].wait(functools.partial(alive, interfaces, by_hand), "the carrier of a port")


def has_ports(end: Namespace, links: t.Mapping[str, t.Any]) -> bool:
    """Return whether all ports exist, or the Spark has stopped."""
    return end.ended or all(port.bridge in links for port in PORTS)


def wires(end: Namespace) -> dict[str, dict[str, t.Any]]:
    """Return the existing wires."""
    return {link: details for link, details in end.links().items() if link.startswith("wire")}


def has_carrier(one: Port, links: dict[str, dict[str, t.Any]]) -> bool:
    return "UP" in links.get(one.interface, {}).get("flags", ())


def alive(interfaces: set[str], by_hand: bool, links: dict[str, dict[str, t.Any]]) -> bool:
    """Return whether exactly these interfaces have a carrier. An end has a carrier if the other end is up.

    A NIC that was removed has none, unless a user has just plugged the cable in.
    """
    there = {port.interface for port in PORTS if port.interface in links}
    return {one for one in there if "UP" in links[one]["flags"]} == (interfaces if there or by_hand else set())


def shape(end: Namespace, cable: Cable, names: t.Sequence[str]) -> None:
    """Apply the cable's MTU and bandwidth to these wires."""
    # With segmentation offload, larger pieces than the MTU would pass. Without it they are split before.
    whole = "off" if cable.mtu < MTU else "on"
    lines = ["set -e"]
    for wire in names:
        lines += [f"ethtool -K {wire} tso {whole} gso {whole}", f"tc qdisc del dev {wire} root 2>&- || :"]
        if cable.mbit:
            rate = f"{cable.mbit}mbit burst 256kb cburst 256kb"
            lines.append(f"tc qdisc add dev {wire} root handle 1: htb default 1")
            lines.append(f"tc class add dev {wire} parent 1: classid 1:1 htb rate {rate}")
    engine.docker(*end.inside, "sh", "-c", "\n".join(lines))

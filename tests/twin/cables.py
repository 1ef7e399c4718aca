# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The cable between two Sparks, and what can be wrong with it.

Each Spark makes the interfaces of its own ConnectX-7: see `spark/fabric.py`, also for when it has one at all.
A cable is two wires, one for each of the two interfaces that a port has; a wire is a veth pair between the far ends of
the interfaces. Nothing of it is ever in the machine's own network namespace.

How the Sparks are cabled is on record: what a test has pulled out stays out when a Spark restarts.
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
from tests.twin.names import STATE, TwinError, spark_name
from tests.twin.spark.fabric import ARMED, CABLE, FACTS, MTU, PORTS, Port

RECORD = STATE / "cables.json"
FABRIC = "/usr/bin/python3 -I -S /usr/local/lib/dgx-spark-twin/fabric.py once"
HANDLER = "/opt/nvidia/dgx-spark-mlnx-hotplug/mtk-hotplug-handler.sh"
RAILS = (0, 1)
LAYING = threading.Lock()


@dataclasses.dataclass(frozen=True)
class Cable:
    """From a port of the first Spark to a port of the second."""

    port_a: int = 1
    port_b: int = 1
    # Whose wire is there; a real cable always has both.
    rails: tuple[int, ...] = RAILS
    # Larger packets are lost without a word.
    mtu: int = MTU
    # What a wire carries in a second, in each direction; 0: what the machine is good for.
    mbit: int = 0

    def wires(self) -> list[tuple[Port, Port]]:
        """The two ends of each wire."""
        return [(port(self.port_a, rail), port(self.port_b, rail)) for rail in self.rails]


def port(number: int, rail: int) -> Port:
    """One of a Spark's four interfaces: port 0 or 1, rail 0 (enp1s0f...) or 1 (enP2p1s0f...)."""
    return next(one for one in PORTS if (one.number, one.rail) == (number, rail))


def interface(number: int = 1, rail: int = 0) -> str:
    """The name of an interface."""
    return port(number, rail).interface


def recorded() -> Cable | None:
    """How the Sparks are cabled; None when they are not."""
    if not RECORD.exists():
        return None
    values = json.loads(RECORD.read_text())
    return Cable(**{**values, "rails": tuple(values["rails"])})


def record(cable: Cable | None) -> None:
    """Remember how the Sparks shall be cabled, or that there is nothing between them any more."""
    RECORD.unlink(missing_ok=True)
    if cable:
        RECORD.parent.mkdir(parents=True, exist_ok=True)
        RECORD.write_text(json.dumps(dataclasses.asdict(cable)))


def plug(port_a: int = 1, port_b: int = 1) -> None:
    """Put a sound cable in, in the place of the one there is, and wait for the link."""
    record(Cable(port_a, port_b))
    connect(by_hand=True)


def unplug(rail: int | None = None) -> None:
    """Pull the cable, or have one of its wires dead: the carrier goes at both ends."""
    cable = recorded() or Cable()
    rails = () if rail is None else tuple(one for one in cable.rails if one != rail)
    record(dataclasses.replace(cable, rails=rails))
    connect()


@contextlib.contextmanager
def changed(**values: t.Any) -> t.Iterator[None]:
    """Have another cable for a while.

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
    """Have something in these ports, each a Spark and its port, that has a link and is not the other Spark."""
    there = [
        (both, port(number, rail)) for spark, number in ends for both in [namespaces()[spark - 1]] for rail in RAILS
    ]
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
    """Somebody else on the wire, as on a switch, has an address."""
    end = namespaces()[0]
    change = (address, "dev", port(number, rail).bridge)
    end.run("ip", "address", "add", *change)
    try:
        yield
    finally:
        end.run("ip", "address", "del", *change)


def arm(number: int, armed: bool) -> None:
    """Have a Spark's ConnectX-7 come and go with its cable, as DGX OS has it, or be there from its next start on.

    Who wants the latter gives the marker another name.
    """
    names = ("cx7-hotplug-disabled", ARMED.name) if armed else (ARMED.name, "cx7-hotplug-disabled")
    old, new = (str(ARMED.with_name(one)) for one in names)
    # Whoever has the card reads the marker when something changes, and when it starts.
    script = '[ ! -e "$1" ] || { mv "$1" "$2" && systemctl restart dgx-spark-twin-fabric; }'
    engine.docker("exec", spark_name(number), "sh", "-c", script, "-", old, new)


@contextlib.contextmanager
def firewall(number: int, *ports: int) -> t.Iterator[None]:
    """Have a Spark drop what comes in over the cable for these TCP ports, without any: all but answers."""
    rules = [["-p", "tcp", "--dport", str(one)] for one in ports]
    rules = rules or [["-m", "conntrack", "--ctstate", "NEW"]]
    tail = ["-i", "en+", "-j", "DROP"]
    for rule in rules:
        engine.docker("exec", spark_name(number), "iptables", "-I", "INPUT", *rule, *tail)
    try:
        yield
    finally:
        for rule in rules:
            # They are gone already where the Spark was restarted.
            engine.attempt("exec", spark_name(number), "iptables", "-D", "INPUT", *rule, *tail)


@contextlib.contextmanager
def rdma(number: int, **values: str) -> t.Iterator[None]:
    """Have the RDMA devices of a Spark tell this: `rdma(2, rate="25 Gb/sec (1X EDR)")`. What they do stays as it is."""
    told = {port.rdma: values for port in PORTS}
    path = str(FACTS / "fabric.json")
    script = f'cat >"$1" && {FABRIC}'
    engine.docker("exec", "-i", spark_name(number), "sh", "-c", script, "-", path, text=json.dumps(told))
    try:
        yield
    finally:
        engine.attempt("exec", spark_name(number), "sh", "-c", f'rm -f "$1" && {FABRIC}', "-", path)


def name(here: Port, there: Port) -> str:
    """What the end of a wire is called: both ends tell from where to where it goes, the first Spark's port first."""
    return f"wire{here.index}-{there.index}"


class Namespace:
    """The far end of a Spark's interfaces, seen from this machine."""

    def __init__(self, process: int) -> None:
        self.path = f"/proc/{process}/root{CABLE}"
        self.process = Path("/proc", str(process))

    @property
    def ended(self) -> bool:
        """Whether the Spark has gone down meanwhile."""
        return not self.process.exists()

    def run(self, *command: str, text: str | None = None) -> str:
        """Run a program of this machine there."""
        program = as_root("nsenter", f"--net={self.path}", *command)
        result = subprocess.run(program, input=text, capture_output=True, text=True, check=False)
        if result.returncode:
            raise TwinError(f"The twin's cable does not fit: `{' '.join(command)}`: {engine.last_line(result.stderr)}")
        return result.stdout

    def links(self) -> dict[str, dict[str, t.Any]]:
        """What is there, by name; nothing when the Spark is not that far yet."""
        program = as_root("nsenter", f"--net={self.path}", "ip", "-json", "link")
        result = subprocess.run(program, capture_output=True, text=True, check=False)
        return {link["ifname"]: link for link in json.loads(result.stdout or "[]")} if result.returncode == 0 else {}

    def wait(self, done: t.Callable[[dict[str, dict[str, t.Any]]], bool], what: str) -> None:
        """Wait until what is there looks like this."""
        deadline = time.monotonic() + 60
        while not done(self.links()):
            if time.monotonic() > deadline:
                raise TwinError(f"The twin's cable waited a minute in vain for {what}.")
            time.sleep(0.05)


def namespaces() -> list[Namespace]:
    """The far ends of the interfaces of all Sparks that run."""
    found = []
    for number in (1, 2):
        container = engine.inspect("container", spark_name(number))
        if container and container["State"]["Running"]:
            found.append(Namespace(container["State"]["Pid"]))
    return found


def connect(by_hand: bool = False) -> None:
    """Lay the wires on record between the Sparks, take all others away, and wait until the interfaces know.

    A card that has left comes back when somebody puts the cable in, and not when the other Spark has started again.
    """
    with LAYING:
        lay(by_hand)


def lay(by_hand: bool) -> None:
    """One at a time, since Sparks may start at once; whoever starts one that goes down meanwhile does it then."""
    cable = recorded()
    both = namespaces()
    if cable is None or len(both) < 2:
        return
    for end in both:
        end.wait(functools.partial(has_ports, end), "the ports of a Spark")
    if any(end.ended for end in both):
        return
    wanted = {name(*ends): ends for ends in cable.wires()}
    present = [wires(end) for end in both]
    whole = wanted.keys() & present[0].keys() & present[1].keys()
    for end, found in zip(both, present, strict=True):
        for wire in found.keys() - whole:
            # With one end goes the other, perhaps before its own turn.
            if wire in end.links():
                end.run("ip", "link", "del", wire)
    for wire in wanted.keys() - whole:
        both[0].run("ip", "link", "add", wire, "type", "veth", "peer", "name", wire, "netns", both[1].path)
    for number, (end, found) in enumerate(zip(both, present, strict=True)):
        bridges = {wire: ends[number].bridge for wire, ends in wanted.items()}
        lines = [f"link set {wire} mtu {cable.mtu} master {bridge} up\n" for wire, bridge in bridges.items()]
        end.run("ip", "-batch", "-", text="".join(lines))
        before = [found[wire] for wire in whole]
        if cable.mtu < MTU or cable.mbit or any(link["mtu"] < MTU or link["qdisc"] == "htb" for link in before):
            shape(number + 1, cable, list(wanted))
    for number, end in enumerate(both):
        if by_hand and wanted.keys() - whole:
            engine.docker("exec", spark_name(number + 1), HANDLER, "plug-in")
        interfaces = {ends[number].interface for ends in wanted.values()}
        end.wait(functools.partial(alive, interfaces, by_hand), "the carrier of a port")


def has_ports(end: Namespace, links: t.Mapping[str, t.Any]) -> bool:
    """Whether there is anything to wait for any more."""
    return end.ended or all(port.bridge in links for port in PORTS)


def wires(end: Namespace) -> dict[str, dict[str, t.Any]]:
    """The wires that there are."""
    return {link: details for link, details in end.links().items() if link.startswith("wire")}


def has_carrier(one: Port, links: dict[str, dict[str, t.Any]]) -> bool:
    return "UP" in links.get(one.interface, {}).get("flags", ())


def alive(interfaces: set[str], by_hand: bool, links: dict[str, dict[str, t.Any]]) -> bool:
    """Whether exactly these interfaces have a carrier: that of one end is whether the other is up.

    A card that has left has none, unless somebody has just put the cable in.
    """
    there = {port.interface for port in PORTS if port.interface in links}
    return {one for one in there if "UP" in links[one]["flags"]} == (interfaces if there or by_hand else set())


def shape(number: int, cable: Cable, names: t.Sequence[str]) -> None:
    """Have these wires carry no larger packets and no more of them than the cable does."""
    # A stream would pass in pieces that are larger than any packet; this has them cut before.
    whole = "off" if cable.mtu < MTU else "on"
    lines = ["set -e"]
    for wire in names:
        lines += [f"ethtool -K {wire} tso {whole} gso {whole}", f"tc qdisc del dev {wire} root 2>&- || :"]
        if cable.mbit:
            rate = f"{cable.mbit}mbit burst 256kb cburst 256kb"
            lines.append(f"tc qdisc add dev {wire} root handle 1: htb default 1")
            lines.append(f"tc class add dev {wire} parent 1: classid 1:1 htb rate {rate}")
    engine.docker("exec", spark_name(number), "nsenter", f"--net={CABLE}", "sh", "-c", "\n".join(lines))

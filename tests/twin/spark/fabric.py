# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Simulate the ConnectX-7: two ports with two network interfaces each, and their files in sysfs.

Run as: fabric.py [once | plug-in]

The interfaces (Ethernet, carrier, addresses, MTU, udev events) and the kernel's network stack are real. Each interface
is one end of a veth pair. The other end is in its own namespace, where a bridge connects it to the wire that
`tests/twin/cables.py` lays to the other Spark. Without a wire, or if its far end is down, there is no carrier.

DGX OS removes the NIC from the PCI bus if there is no cable, as long as a marker file enables that. 20 s after the last
carrier is lost, functions, interfaces, RDMA devices and their nodes disappear. A carrier alone, as when the other Spark
starts again, does not restore them. A user has to plug the cable in, start this Spark, or run the handler. Without the
marker, the NIC always exists from the start. Sources: NVIDIA/NV-Kernels pull request 271 (the driver),
graham33/nixos-dgx-spark issue 165 (the package with the marker), and owners whose NIC disappeared with the other Spark.

The RDMA devices are simulated: files with the interfaces' state, rate and GID table. No verb works on them.
`/sys/class/net/<interface>/speed` is that of a ConnectX-7. `ethtool`, which asks the kernel, prints 10000Mb/s.
"""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import hashlib
import ipaddress
import json
import os
import pathlib
import select
import shutil
import socket
import stat
import subprocess
import sys
import time
import typing as t

FACTS = pathlib.Path("/run/dgx-spark-twin")
# The namespace at the far end of the interfaces.
CABLE = FACTS / "cable"
# A test can change the values of an RDMA device: {"rocep1s0f1": {"rate": "25 Gb/sec (1X EDR)"}}
OVERRIDES = FACTS / "fabric.json"
SYS = pathlib.Path("/sys")
NODES = pathlib.Path("/dev/infiniband")
# DGX OS's marker, and the driver's file with the state of the NIC.
ARMED = pathlib.Path("/etc/nvidia/cx7-hotplug-enabled")
STATE = "devices/platform/MTKP0001:00/pcie_hotplug/debug_state"
# Socket for the message that a cable was plugged in, as from DGX OS's handler.
TOLD = "\0dgx-spark-twin-fabric"
OFF_AFTER_S = 20.0
IDENTITY = {"vendor": "0x15b3", "device": "0x1021", "class": "0x020000"}
# A ConnectX-7 can do more. It only has to be more than the configured 9000.
MTU = 9216
GIDS = 16
FAST, NO_SPEED = 200_000, -1
CLONE_NEWNET = 0x40000000
# Links, and IPv4 and IPv6 addresses.
NETLINK_GROUPS = 0x1 | 0x10 | 0x100


@dataclasses.dataclass(frozen=True)
class Port:
    """An interface. Each QSFP port has two interfaces, each on its own PCIe link."""

    number: int
    rail: int

    @property
    def index(self) -> int:
        return 2 * self.rail + self.number

    @property
    def interface(self) -> str:
        return f"en{self._place}np{self.number}"

    @property
    def rdma(self) -> str:
        return f"roce{self._place}"

    @property
    def pci(self) -> str:
        return f"{2 * self.rail:04d}:01:00.{self.number}"

    @property
    def bridge(self) -> str:
        return f"bridge{self.index}"

    @property
    def _place(self) -> str:
        return f"{'P2' if self.rail else ''}p1s0f{self.number}"


PORTS = tuple(Port(number, rail) for rail in (0, 1) for number in (0, 1))


def mac(machine: str, port: Port) -> str:
    """Return a hardware address that stays the same after a restart."""
    middle = hashlib.sha256(machine.encode()).hexdigest()
    return f"4c:bb:47:{middle[:2]}:{middle[2:4]}:{0x10 + port.index:02x}"


def default_gid(address: str) -> str:
    """Return the link-local GID of an interface's hardware address."""
    raw = bytes.fromhex(address.replace(":", ""))
    host = bytes([raw[0] ^ 2]) + raw[1:3] + b"\xff\xfe" + raw[3:]
    return ipaddress.IPv6Address(b"\xfe\x80" + bytes(6) + host).exploded


def address_gid(address: str) -> str:
    """Return the GID of an IP address."""
    ip = ipaddress.ip_address(address)
    return (ip if ip.version == 6 else ipaddress.IPv6Address(f"::ffff:{ip}")).exploded


def table(before: t.Sequence[str], wanted: t.Sequence[str]) -> list[str]:
    """Return the GIDs by index. Each has an entry for RoCE v1 and for v2, and keeps its index while it exists.

    The kernel's table has 256 entries, this one fewer. An empty entry is zero in both.
    """
    empty = ipaddress.IPv6Address(0).exploded
    places = [gid if gid in wanted else empty for gid in (*before, *[empty] * GIDS)[:GIDS]]
    for gid in wanted:
        if gid not in places:
            free = next((place for place in range(0, GIDS, 2) if places[place] == empty), None)
            if free is not None:
                places[free : free + 2] = [gid, gid]
    return places


def write(path: pathlib.Path, text: str) -> None:
    """Write a file atomically, unless it has this content already."""
    text += "\n"
    with contextlib.suppress(OSError):
        if path.read_text() == text:
            return
    path.parent.mkdir(parents=True, exist_ok=True)
    handle = os.open(path, os.O_WRONLY | os.O_CREAT, 0o644)
    try:
        os.pwrite(handle, text.encode(), 0)
        os.ftruncate(handle, len(text))
    finally:
        os.close(handle)


def describe(port: Port, link: t.Mapping[str, t.Any], overrides: t.Mapping[str, str], root: pathlib.Path) -> None:
    """Write the files of an interface's RDMA device."""
    pci = root / "bus/pci/devices" / port.pci
    # Values that a test may also change.
    for name, text in {**IDENTITY, "current_link_width": "4", "current_link_speed": "32.0 GT/s PCIe"}.items():
        write(pci / name, overrides.get(name, text))
    device = pci / "infiniband" / port.rdma
    up = "LOWER_UP" in link["flags"]
    write(device / "node_type", "1: CA")
    write(device / "hca_type", "MT4129")
    write(device / "fw_ver", "28.45.4028")
    told = {
        "link_layer": "Ethernet",
        "phys_state": "5: LinkUp" if up else "3: Disabled",
        # Without a link, a port has the driver's initial value.
        "rate": "200 Gb/sec (4X HDR)" if up else "40 Gb/sec (4X QDR)",
        "state": "4: ACTIVE" if up else "1: DOWN",
        **{name: text for name, text in overrides.items() if not name.startswith("current_link_")},
    }
    directory = device / "ports/1"
    for name, text in told.items():
        write(directory / name, text)
    wanted = [default_gid(link["address"])]
    wanted += [gid for entry in link.get("addr_info", ()) if (gid := address_gid(entry["local"])) not in wanted]
    places = directory / "gids"
    before = [(places / str(place)).read_text().strip() for place in range(GIDS) if (places / str(place)).exists()]
    for place, gid in enumerate(table(before, wanted)):
        write(places / str(place), gid)
        attributes = {"ndevs": port.interface, "types": ("IB/RoCE v1", "RoCE v2")[place % 2]}
        for kind, text in attributes.items():
            path = directory / "gid_attrs" / kind / str(place)
            if gid in wanted:
                write(path, text)
            else:
                # The kernel's file exists but is not readable.
                path.parent.mkdir(parents=True, exist_ok=True)
                path.unlink(missing_ok=True)
    node = verbs(port)
    write(pci / "infiniband_verbs" / node / "ibdev", port.rdma)
    write(pci / "infiniband_verbs" / node / "dev", f"231:{192 + port.index}")
    for path, target in {
        device / "device": "../..",
        root / "class/infiniband_verbs" / node: f"../../bus/pci/devices/{port.pci}/infiniband_verbs/{node}",
        root / "class/infiniband" / port.rdma: f"../../bus/pci/devices/{port.pci}/infiniband/{port.rdma}",
        pci / "net" / port.interface: f"../../../../../class/net/{port.interface}",
    }.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.is_symlink():
            path.symlink_to(target)


def ip(*arguments: str, batch: str | None = None, cable: bool = False) -> str:
    """Run `ip` here or at the far end of the interfaces."""
    there = ["nsenter", f"--net={CABLE}"] if cable else []
    return subprocess.run([*there, "ip", *arguments], input=batch, capture_output=True, text=True, check=True).stdout


def links(kind: str, cable: bool = False) -> dict[str, dict[str, t.Any]]:
    """Return the output of `ip link` or `ip address` by name."""
    return {link["ifname"]: link for link in json.loads(ip("-json", kind, cable=cable) or "[]")}


def lay() -> None:
    """Create the far end of the interfaces. Wires can be laid there even without a NIC."""
    if not CABLE.exists():
        CABLE.touch()
        # No IP at the far end.
        silence = "echo 1 | tee /proc/sys/net/ipv6/conf/all/disable_ipv6 /proc/sys/net/ipv6/conf/default/disable_ipv6"
        subprocess.run(["unshare", f"--net={CABLE}", "sh", "-c", silence], check=True)
    present = links("link", cable=True)
    ip(
        *("-batch", "-"),
        cable=True,
        batch="".join(
            f"link add {port.bridge} mtu {MTU} type bridge forward_delay 0 stp_state 0 mcast_snooping 0\n"
            f"link set {port.bridge} up\n"
            for port in PORTS
            if port.bridge not in present
        ),
    )


def power_on() -> None:
    """Put the NIC on the bus: missing interfaces and device nodes. `refresh` does the rest."""
    present, machine = links("link"), pathlib.Path("/etc/machine-id").read_text()
    missing = [port for port in PORTS if port.interface not in present]
    ip(
        *("-batch", "-"),
        batch="".join(
            f"link add {port.interface} address {mac(machine, port)} type veth"
            f" peer name {port.interface} mtu {MTU} netns {CABLE}\n"
            for port in missing
        ),
    )
    ip(
        *("-batch", "-"),
        cable=True,
        batch="".join(f"link set {port.interface} master {port.bridge}\n" for port in missing),
    )
    for port in missing:
        speed = FACTS / "speed" / port.interface
        write(speed, str(NO_SPEED))
        told = SYS / "devices/virtual/net" / port.interface / "speed"
        subprocess.run(["mount", "--bind", str(speed), str(told)], check=True)
    NODES.mkdir(exist_ok=True)
    for name, device in {**{verbs(port): (231, 192 + port.index) for port in PORTS}, "rdma_cm": (10, 58)}.items():
        with contextlib.suppress(FileExistsError):
            os.mknod(NODES / name, stat.S_IFCHR, os.makedev(*device))
        (NODES / name).chmod(0o666)


def power_off() -> None:
    """Remove the NIC from the bus, with its interfaces and nodes."""
    present = links("link")
    batch = "".join(f"link del {port.interface}\n" for port in PORTS if port.interface in present)
    ip("-batch", "-", batch=batch)
    for port in PORTS:
        (SYS / "class/infiniband" / port.rdma).unlink(missing_ok=True)
        (SYS / "class/infiniband_verbs" / verbs(port)).unlink(missing_ok=True)
        shutil.rmtree(SYS / "bus/pci/devices" / port.pci, ignore_errors=True)
        # The connection manager's node belongs to the kernel module, so it stays.
        (NODES / verbs(port)).unlink(missing_ok=True)


def verbs(port: Port) -> str:
    """Return the node of an RDMA device."""
    return f"uverbs{port.index}"


@dataclasses.dataclass
class Card:
    """The state of the NIC, and the time of its next change."""

    powered: bool
    due: float | None = None
    # The NIC was removed, and no cable was plugged in since.
    left: bool = False

    def follow(self, armed: bool, cabled: bool, now: float) -> bool:
        """Return whether the NIC changes its state now. Without the marker, it does not change."""
        if not armed or cabled == self.powered or (cabled and self.left):
            self.due = None
            return False
        if self.due is None:
            self.due = now + (OFF_AFTER_S if self.powered else 0)
        if now < self.due:
            return False
        self.powered, self.due, self.left = cabled, None, not cabled
        return True


def alive(there: t.Mapping[str, t.Mapping[str, t.Any]]) -> set[Port]:
    """Return the ports with a wire whose far end is up."""
    ends = [link for link in there.values() if "LOWER_UP" in link["flags"] and link["ifname"].startswith("wire")]
    return {port for port in PORTS if any(link.get("master") == port.bridge for link in ends)}


def follow_wires() -> set[Port]:
    """Give a carrier to the interfaces with a wire whose far end is up, and return their ports."""
    there = links("link", cable=True)
    found = alive(there)
    changes = []
    for port in PORTS:
        if port.interface in there and (port in found) != ("UP" in there[port.interface]["flags"]):
            changes.append(f"link set {port.interface} {'up' if port in found else 'down'}\n")
    if changes:
        ip("-batch", "-", batch="".join(changes), cable=True)
    return found


def refresh(card: Card | None = None) -> None:
    """Update all files. With a card, also add or remove the NIC."""
    cabled = bool(follow_wires())
    # The driver reports the cable, not the NIC.
    write(SYS / STATE, str(int(cabled)))
    if card and card.follow(ARMED.exists(), cabled, time.monotonic()):
        (power_on if card.powered else power_off)()
        follow_wires()
    try:
        overrides = json.loads(OVERRIDES.read_text())
    except (OSError, ValueError):
        overrides = {}
    here = links("address")
    for port in PORTS:
        if port.interface not in here:
            continue
        link = here[port.interface]
        describe(port, link, overrides.get(port.rdma, {}), SYS)
        up = "LOWER_UP" in link["flags"]
        write(FACTS / "speed" / port.interface, str(FAST if up else NO_SPEED))


def listen() -> socket.socket:
    """Return a socket with the kernel's events of links and addresses in the current namespace."""
    result = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE)
    result.bind((0, NETLINK_GROUPS))
    return result


def listen_there() -> socket.socket:
    """Return such a socket for the far end of the interfaces."""
    libc = ctypes.CDLL(None, use_errno=True)
    with pathlib.Path("/proc/self/ns/net").open() as own, CABLE.open() as there:
        if libc.setns(there.fileno(), CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), f"cannot enter {CABLE}")
        try:
            return listen()
        finally:
            libc.setns(own.fileno(), CLONE_NEWNET)


def listen_for_plugs() -> socket.socket:
    """Return the socket for messages of the handler."""
    result = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    result.bind(TOLD)
    return result


def tell_plugged() -> None:
    """Send the message that a cable was plugged in, as DGX OS's handler does."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as one:
        one.sendto(b"plug-in", TOLD)


def ready() -> None:
    """Notify systemd that the interfaces exist."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify:
        notify.connect(os.environ["NOTIFY_SOCKET"])
        notify.send(b"READY=1")


def main(arguments: list[str]) -> None:
    if arguments:
        {"once": refresh, "plug-in": tell_plugged}[arguments[0]]()
        return
    lay()
    card = Card(not ARMED.exists() or PORTS[0].interface in links("link"))
    (power_on if card.powered else power_off)()
    plugs = listen_for_plugs()
    sockets = [listen(), listen_there(), plugs]
    refresh(card)
    ready()
    while True:
        patience = None if card.due is None else max(card.due - time.monotonic(), 0)
        for changed in select.select(sockets, [], [], patience)[0]:
            card.left = card.left and changed is not plugs
            # Collect events that arrive together. Lost events do no harm, because the current state is read.
            time.sleep(0.02)
            with contextlib.suppress(OSError):
                while changed.recv(65536, socket.MSG_DONTWAIT):
                    pass
        refresh(card)


if __name__ == "__main__":
    main(sys.argv[1:])

# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this module util is internal to the collection; its interface may change at any time.

"""The ConnectX ports of a host, and what its other networks are. Nothing here needs root, and no name is hard-coded."""

from __future__ import annotations

import dataclasses
import ipaddress
import json
import os
import re
import socket
import subprocess
import typing as t
from pathlib import Path

from .._data.files import read_object, read_text, read_value
from .._deployment.bandwidth import read_bandwidth
from .._spark import hotplug as _hotplug
from .._spark.machine import CONNECTX7, LookError, find_functions
from . import fabric_filter
from .netplan import FILE, PENDING, STATUS, claims, declared_renderer, generated_for, is_ours, named_in, netplan_files

MELLANOX = "0x15b3"
# In /proc/net/tcp.
ESTABLISHED = "01"
SSH = ":0016"
DEADLINE_S = 15.0
# A shorter prefix is a hidden default route, as VPN clients set it.
SHORTEST_PREFIX = 8
_PCI = re.compile(r"([0-9a-f]{4,}):([0-9a-f]{2}:[0-9a-f]{2})\.([0-7])", re.IGNORECASE)

Run = t.Callable[[t.Sequence[str]], "tuple[int, str, str]"]


class FabricError(LookError):
    """A failure of the fabric. The text is one sentence with the fix."""


def run(command: t.Sequence[str], deadline: float = DEADLINE_S) -> tuple[int, str, str]:
    """Run a program that must not hang; one that is missing has the shell's exit code for that."""
    try:
        done = subprocess.run(
            list(command),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            timeout=deadline,
            env={**os.environ, "LC_ALL": "C", "PATH": f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin:/usr/bin:/bin"},
        )
    except FileNotFoundError:
        return 127, "", f"{command[0]} is not installed"
    except subprocess.TimeoutExpired:
        return 124, "", f"'{' '.join(command)}' did not end within {deadline:.0f} s"
    except OSError as error:
        return 126, "", f"{command[0]} cannot be run: {error.strerror}"
    return done.returncode, done.stdout, done.stderr


def read_number(path: Path) -> int | None:
    text = read_value(path)
    return int(text) if text and re.fullmatch(r"-?\d+", text) else None


# The ConnectX functions


@dataclasses.dataclass(frozen=True)
class Function:
    """One PCI function of the network card: half of a port, since each port hangs on two PCIe links."""

    pci: str
    interface: str
    rdma: str | None

    @property
    def port(self) -> int:
        return int(self.pci.rpartition(".")[2])

    @property
    def place(self) -> str:
        """Return the PCI address without its domain, which both interfaces of a port share."""
        return self.pci.partition(":")[2]


def pci_address(device: Path) -> str | None:
    """Return the PCI address of a device link in sysfs."""
    name = Path(os.path.realpath(device)).name
    if _PCI.fullmatch(name):
        return name
    match = re.search(r"^PCI_SLOT_NAME=(\S+)$", read_value(device / "uevent") or "", re.MULTILINE)
    return match.group(1) if match and _PCI.fullmatch(match.group(1)) else None


def _children(directory: Path) -> list[Path]:
    try:
        return sorted(directory.iterdir())
    except OSError:
        return []


def functions(sys: Path) -> list[Function]:
    """All ConnectX functions with a network interface, with or without an RDMA device; virtual ones are left out."""
    result: dict[str, Function] = {}
    for entry in _children(sys / "class" / "infiniband"):
        device = entry / "device"
        pci = pci_address(device)
        if read_value(device / "vendor") != MELLANOX or pci is None or (device / "physfn").exists():
            continue
        names = [net.name for net in _children(device / "net")]
        own = read_value(entry / "ports" / "1" / "gid_attrs" / "ndevs" / "0")
        name = own if own in names else next(iter(names), None)
        if name:
            result[name] = Function(pci, name, entry.name)
    for entry in _children(sys / "class" / "net"):
        device = entry / "device"
        pci = pci_address(device) if device.exists() else None
        known = {function.pci for function in result.values()}
        if read_value(device / "vendor") != MELLANOX or pci is None or (device / "physfn").exists() or pci in known:
            continue
        result[entry.name] = Function(pci, entry.name, None)
    return sorted(result.values(), key=lambda function: (function.place, function.pci))


def rate_mbps(text: str | None) -> int | None:
    """Return the speed in a rate file of an RDMA port, such as '200 Gb/sec (4X HDR)'."""
    match = re.match(r"\s*(\d+(?:\.\d+)?)\s*Gb/sec", text or "")
    return round(float(match.group(1)) * 1000) if match else None


def pcie_speed(text: str | None) -> float | None:
    """Return the transfers a second in a file such as '32.0 GT/s PCIe'; a link that is down has no known ones."""
    match = re.match(r"\s*(\d+(?:\.\d+)?) GT/s", text or "")
    return float(match.group(1)) if match else None


def after_colon(text: str | None) -> str | None:
    """Return the word in files such as '4: ACTIVE'."""
    return text.partition(":")[2].strip() or None if text else None


def gid_address(gid: str) -> str | None:
    """Return the IPv4 address that a GID stands for; None for any other GID."""
    try:
        mapped = ipaddress.IPv6Address(gid).ipv4_mapped
    except ValueError:
        return None
    return str(mapped) if mapped else None


def gids(port: Path, interface: str) -> list[dict[str, t.Any]]:
    """Return the RoCE v2 entries with an IPv4 address in the GID table of an RDMA port: index and address."""
    result = []
    for entry in _children(port / "gids"):
        address = gid_address(read_value(entry) or "")
        # The kernel does not return the type of an unused entry.
        kind = read_value(port / "gid_attrs" / "types" / entry.name) if address else None
        device = read_value(port / "gid_attrs" / "ndevs" / entry.name)
        if entry.name.isdigit() and kind == "RoCE v2" and device in (None, interface):
            result.append({"index": int(entry.name), "address": address})
    return sorted(result, key=lambda gid: t.cast("int", gid["index"]))


def rows(output: str) -> list[dict[str, t.Any]]:
    """Return a list as C(ip -json) writes it, which may hold empty objects, or be nothing at all."""
    try:
        data = json.loads(output or "[]")
    except ValueError:
        return []
    return [row for row in data if isinstance(row, dict) and row] if isinstance(data, list) else []


def ask_ip(runner: Run, *arguments: str) -> list[dict[str, t.Any]]:
    """Run `ip` with JSON output. Raise FabricError if the program is missing or broken."""
    code, output, error = runner(["ip", *arguments])
    if code != 0:
        raise FabricError(
            f"'ip {' '.join(arguments)}' failed ({error.strip() or f'exit code {code}'}). Install iproute2, then run "
            "again."
        )
    return rows(output)


def addresses(row: t.Mapping[str, t.Any]) -> list[dict[str, t.Any]]:
    """Return the IPv4 addresses in a row of C(ip -json address)."""
    result = []
    for info in row.get("addr_info") or []:
        if info.get("family", "inet") == "inet" and info.get("local") and info.get("prefixlen") is not None:
            result.append(
                {
                    "address": str(info["local"]),
                    "prefix": int(info["prefixlen"]),
                    "dynamic": bool(info.get("dynamic")),
                }
            )
    return result


def subnet(address: str, prefix: int) -> str:
    return str(ipaddress.IPv4Interface(f"{address}/{prefix}").network)


def _as_network(text: t.Any) -> ipaddress.IPv4Network | None:
    try:
        return ipaddress.IPv4Network(str(text), strict=False)
    except ValueError:
        return None


def networks(
    address_rows: t.Iterable[t.Mapping[str, t.Any]], route_rows: t.Iterable[t.Mapping[str, t.Any]]
) -> list[dict[str, str]]:
    """Every IPv4 network that the host has an address in or a route to, with its interface."""
    result: dict[tuple[str, str], dict[str, str]] = {}
    for row in address_rows:
        name = str(row.get("ifname", ""))
        for address in addresses(row):
            own = subnet(address["address"], address["prefix"])
            if name != "lo" and not own.startswith("127."):
                result[(own, name)] = {"network": own, "interface": name}
    for row in route_rows:
        network = _as_network(row.get("dst"))
        # Rows may lack the device (iproute2 of Ubuntu 24.04), or have none, like blackhole routes.
        name = str(row.get("dev") or "")
        if network is None or row.get("type", "unicast") != "unicast" or name == "lo":
            continue
        if network.prefixlen >= SHORTEST_PREFIX and not network.is_multicast:
            result.setdefault((str(network), name), {"network": str(network), "interface": name})
    return sorted(result.values(), key=lambda row: (row["interface"], row["network"]))


def controller(environment: t.Mapping[str, str]) -> tuple[str, str] | None:
    """From which address this run reaches the host over SSH, and at which; None on a local connection."""
    fields = environment.get("SSH_CONNECTION", "").split()
    return (fields[0], fields[2]) if len(fields) == 4 else None


def management(
    runner: Run,
    route_rows: t.Iterable[t.Mapping[str, t.Any]],
    address_rows: t.Iterable[t.Mapping[str, t.Any]],
    peer: tuple[str, str] | None,
) -> list[dict[str, str]]:
    """Return the interfaces that must not be touched, each with the reason."""
    result: dict[str, str] = {}
    if peer is not None:
        address, _separator, scope = peer[0].partition("%")
        code, output, _error = runner(["ip", "-json", "route", "get", address]) if not scope else (1, "", "")
        ways = [scope] if scope else [str(row.get("dev") or "") for row in rows(output) if code == 0]
        for name in ways:
            result.setdefault(name, f"the route to {address}, from where this run reaches the host")
        for row in address_rows:
            locals_ = [str(info.get("local")) for info in row.get("addr_info") or []]
            if peer[1].partition("%")[0] in locals_:
                result.setdefault(
                    str(row.get("ifname", "")), f"the address {peer[1]}, at which this run reaches the host"
                )
    for row in route_rows:
        if row.get("dst") == "default" and row.get("table", "main") in ("main", 254, "254"):
            result.setdefault(str(row.get("dev") or ""), "the default route")
    return [{"interface": name, "why": why} for name, why in result.items() if name and name != "lo"]


def in_use(table: str, own: t.Iterable[str]) -> bool:
    """Return whether a connection is open at one of these addresses, by /proc/net/tcp, as between running ranks."""
    words = {socket.inet_aton(address)[::-1].hex().upper() for address in own}
    table_rows = [line.split()[1:4] for line in table.splitlines()[1:]]
    # A user may be logged in through the cable; so may this run.
    users = [
        (here, there)
        for here, there, state in table_rows
        if state == ESTABLISHED and SSH not in (here[-5:], there[-5:])
    ]
    return any(here.partition(":")[0] in words for here, _there in users)


def split_terse(line: str) -> list[str]:
    """Return the fields of a line of C(nmcli --terse), in which colons and backslashes are escaped."""
    return [re.sub(r"\\(.)", r"\1", field) for field in re.split(r"(?<!\\):", line)]


def nm_devices(output: str) -> dict[str, tuple[str, str]]:
    """State and profile of each device, from C(nmcli -t -f DEVICE,STATE,CONNECTION device)."""
    lines = [split_terse(line) for line in output.splitlines()]
    return {fields[0]: (fields[1], fields[2]) for fields in lines if len(fields) == 3}


def nm_files(output: str) -> dict[str, str]:
    """Return the file of each active profile by device, from C(nmcli -t -f DEVICE,FILENAME connection show)."""
    lines = [split_terse(line) for line in output.splitlines()]
    return {fields[0]: fields[1] for fields in lines if len(fields) == 2 and fields[0]}


def networkd_link(text: str | None) -> tuple[str, str]:
    """Administrative state and file, from networkd's own state of a link."""
    values = dict(line.split("=", 1) for line in (text or "").splitlines() if "=" in line)
    return values.get("ADMIN_STATE", ""), values.get("NETWORK_FILE", "")


class Managers:
    """The manager of each interface, queried once."""

    def __init__(self, runner: Run, run_directory: Path) -> None:
        self._run_directory = run_directory
        code, output, _error = runner(["nmcli", "-t", "-f", "DEVICE,STATE,CONNECTION", "device"])
        self.nm_running = code == 0
        self._devices = nm_devices(output) if code == 0 else {}
        code, output, _error = (
            runner(["nmcli", "-t", "-f", "DEVICE,FILENAME", "connection", "show"]) if self.nm_running else (1, "", "")
        )
        self._files = nm_files(output) if code == 0 else {}
        code, _output, _error = runner(["systemctl", "is-active", "--quiet", "systemd-networkd"])
        self.networkd_running = code == 0

    def of(self, name: str, index: int | None) -> dict[str, str | None]:
        state, profile = self._devices.get(name, ("", ""))
        if state and not state.startswith("unmanaged") and not state.endswith("(externally)"):
            return {"manager": "NetworkManager", "profile": profile or None, "file": self._files.get(name)}
        link = self._run_directory / "systemd" / "netif" / "links" / str(index)
        state, file = networkd_link(read_value(link)) if self.networkd_running else ("", "")
        if state and state not in ("unmanaged", "pending", "initialized"):
            return {"manager": "networkd", "profile": None, "file": file or None}
        return {"manager": "none", "profile": None, "file": None}


def renderer(nm_manages: bool, declared: str | None, nm_running: bool, networkd_running: bool) -> str:
    """Return the renderer that netplan uses for this host's interfaces."""
    if nm_manages:
        return "NetworkManager"
    if declared in ("NetworkManager", "networkd"):
        return declared
    return "NetworkManager" if nm_running and not networkd_running else "networkd"


# All of it


class Fabric(t.TypedDict):
    """The QSFP ports with their interfaces, and what must not be touched."""

    ports: list[dict[str, t.Any]]
    connectx: int
    hotplug: dict[str, t.Any]
    starter: dict[str, t.Any]
    filter: dict[str, t.Any]
    # The results of the bandwidth test since the host started: interface, and on the head gbps, by and finding.
    measured: list[dict[str, t.Any]]
    # A TCP connection uses an address of the ports.
    in_use: bool
    # The addresses from which and at which this run reaches the host; None on a local connection.
    login: tuple[str, str] | None
    # The interfaces by which the host is reached, each with why.
    management: list[dict[str, str]]
    networks: list[dict[str, str]]
    # NetworkManager or networkd.
    renderer: str
    # Netplan is installed; its files that only root can read.
    netplan: bool
    netplan_unreadable: list[str]
    # This collection's netplan file exists.
    own_file: bool
    # The last change of the network since the host started.
    trial: dict[str, t.Any] | None
    # The content of /etc/nccl.conf.
    nccl_conf: str | None


class Look:
    """One look at a host. Its root can be another directory, for tests."""

    def __init__(
        self,
        runner: Run = run,
        root: Path = Path("/"),
        environment: t.Mapping[str, str] | None = None,
        state_directory: Path = Path(),
    ) -> None:
        self._runner = runner
        self._root = root
        self._environment = os.environ if environment is None else environment
        self._state_directory = state_directory

    def look(self) -> Fabric:
        links = {str(row.get("ifname")): row for row in ask_ip(self._runner, "-details", "-json", "link", "show")}
        address_rows = ask_ip(self._runner, "-json", "address", "show")
        by_name = {str(row.get("ifname")): row for row in address_rows}
        route_rows = ask_ip(self._runner, "-json", "-4", "route", "show", "table", "all")
        default_6 = self._runner(["ip", "-json", "-6", "route", "show", "default"])
        managers = Managers(self._runner, self._root / "run")
        files = netplan_files(self._root)
        texts = {path: read_text(path) for path in files}
        result = functions(self._root / "sys")
        interfaces = [self._interface(one, links, by_name, managers, texts) for one in result]
        own_file, trial = (self._root / FILE.relative_to("/")).exists(), self._trial()
        ours = [text for path, text in texts.items() if path.name == FILE.name and text is not None and is_ours(text)]
        for interface in interfaces:
            interface["own"] = (own_file or (trial or {}).get("state") in PENDING) and (
                interface["name"] in named_in(ours) if ours else generated_for(interface["name"], interface["file"])
            )
        declared = declared_renderer([texts[path] or "" for path in files])
        peer = controller(self._environment)
        return {
            "ports": ports(interfaces),
            "connectx": len(find_functions(self._root / "sys/bus/pci/devices", CONNECTX7)),
            "hotplug": _hotplug.look(self._root),
            "starter": _hotplug.starter(self._root),
            "filter": fabric_filter.look(self._runner, self._root),
            "measured": read_bandwidth(self._state_directory),
            "in_use": in_use(
                read_value(self._root / "proc/net/tcp") or "",
                [address["address"] for one in result for address in addresses(by_name.get(one.interface, {}))],
            ),
            "login": peer,
            "management": management(self._runner, [*route_rows, *rows(default_6[1])], address_rows, peer),
            "networks": networks(address_rows, route_rows),
            "renderer": renderer(
                any(interface["manager"] == "NetworkManager" for interface in interfaces),
                declared,
                managers.nm_running,
                managers.networkd_running,
            ),
            "netplan": self._has_netplan(),
            "netplan_unreadable": [f"/{path.relative_to(self._root)}" for path, text in texts.items() if text is None],
            "own_file": own_file,
            "trial": trial,
            "nccl_conf": read_value(self._root / "etc" / "nccl.conf"),
        }

    def _has_netplan(self) -> bool:
        return any((self._root / place / "netplan").exists() for place in ("usr/sbin", "sbin", "usr/bin", "bin"))

    def _trial(self) -> dict[str, t.Any] | None:
        """Return the state of the last change of this boot, from the program that watches it."""
        data = read_object(self._root / STATUS.relative_to("/"))
        return None if data is None else {key: data.get(key) for key in ("id", "action", "state", "error")}

    def _interface(
        self,
        function: Function,
        links: t.Mapping[str, t.Mapping[str, t.Any]],
        by_name: t.Mapping[str, t.Mapping[str, t.Any]],
        managers: Managers,
        texts: t.Mapping[Path, str | None],
    ) -> dict[str, t.Any]:
        """Return an interface: the speed is the RDMA port's, pcie_width counts lanes, pcie_gts is theirs in GT/s.

        The manager is NetworkManager, networkd or none. Whether `own`, this collection's, is added later.
        """
        name = function.interface
        net, link = self._root / "sys/class/net" / name, links.get(name, {})
        device = self._root / "sys/bus/pci/devices" / function.pci
        port = self._root / "sys/class/infiniband" / (function.rdma or "-") / "ports" / "1"
        up = "UP" in (link.get("flags") or [])
        speed = rate_mbps(read_value(port / "rate"))
        slow = read_number(net / "speed")
        naming = [
            f"/{path.relative_to(self._root)}"
            for path, text in texts.items()
            if text is not None
            and path.name != FILE.name
            and claims(path.name, text, name, str(link.get("address") or ""))
        ]
        return {
            "name": name,
            "pci": function.pci,
            "port": function.port,
            "rdma": function.rdma,
            "pcie_width": read_number(device / "current_link_width"),
            "pcie_gts": pcie_speed(read_value(device / "current_link_speed")),
            "mac": link.get("address"),
            "up": up,
            # An interface that is switched off does not know whether a cable is in it.
            "carrier": (read_number(net / "carrier") == 1) if up else None,
            "operstate": read_value(net / "operstate"),
            "speed_mbps": speed if speed else slow if slow and slow > 0 else None,
            "mtu": link.get("mtu") or read_number(net / "mtu"),
            "max_mtu": link.get("max_mtu") or None,
            "master": link.get("master"),
            "addresses": addresses(by_name.get(name, {})),
            "netplan_files": naming,
            "rdma_state": after_colon(read_value(port / "state")),
            "gids": gids(port, name) if function.rdma else [],
            **managers.of(name, link.get("ifindex") or read_number(net / "ifindex")),
        }


def ports(interfaces: t.Sequence[dict[str, t.Any]]) -> list[dict[str, t.Any]]:
    """Return the ports, each with its twin interfaces: the same place on the bus in different PCI domains."""
    result: dict[str, list[dict[str, t.Any]]] = {}
    for interface in interfaces:
        result.setdefault(interface["pci"].partition(":")[2], []).append(interface)
    return [
        {
            "number": twins[0]["port"],
            "place": place,
            "interfaces": sorted(twins, key=lambda twin: t.cast("str", twin["pci"])),
        }
        for place, twins in sorted(result.items())
    ]

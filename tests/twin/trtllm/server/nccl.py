# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Simulate NCCL: a ring of all ranks over real TCP connections, on the interfaces that NCCL would use.

Each rank reads its own environment. Every interface is a separate rail, and every exchange uses all rails. Data that
NCCL sends by RDMA over the devices in NCCL_IB_HCA also uses the interfaces. The network is chosen as in NCCL: by the
RDMA devices in sysfs, their nodes in the container, and the environment. The log has the texts of NVIDIA/nccl v2.28.9-1
and, for newer releases, of the plug-in in NVIDIA's containers (Mellanox/nccl-rdma-sharp-plugins, src/p2p_plugin.c), as
a DGX Spark printed them (mark-ramsey-ri/vllm-dgx-spark issue 1).
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import select
import signal
import socket
import stat
import struct
import sys
import termios
import time
import typing as t
from pathlib import Path

from .release import FAMILY

SIOCGIFADDR = 0x8915
# Time after which an InfiniBand queue pair fails without an answer of the other NIC. The NIC also answers while its
# process is paused.
SECONDS = 30.0
HEAD = struct.Struct(">4sI")
PASS, REQUEST, STOP = b"PASS", b"NEXT", b"STOP"
NODES = Path("/dev/infiniband")
CLASS, PORTS = Path("/sys/class/infiniband_verbs"), Path("/sys/class/infiniband")
# The networks in the order of attempts, each with the variable that disables it.
NETWORKS = {
    **({"IBext_v10": "NCCL_IBEXT_DISABLE"} if FAMILY == "1.3" else {}),
    "IB": "NCCL_IB_DISABLE",
}
DEFAULT_PARTS = ("INIT", "BOOTSTRAP", "ENV")
LEVELS = ("VERSION", "WARN", "INFO", "TRACE")
DEVICE = "f01000"


class NcclError(RuntimeError):
    """An NCCL failure, after which the real engine ends its rank."""


class Peer(t.NamedTuple):
    """The data that a rank sends to the others."""

    host: str
    addresses: list[tuple[str, int]]


def interface_addresses() -> dict[str, str]:
    """Return the IPv4 addresses of interfaces, in the system's order."""
    found = {}
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as anyone:
        for _, name in socket.if_nameindex():
            with contextlib.suppress(OSError):
                answer = fcntl.ioctl(anyone, SIOCGIFADDR, struct.pack("256s", name.encode()))
                found[name] = socket.inet_ntoa(answer[20:24])
    return found


def default_interface(routes: Path = Path("/proc/net/route")) -> str | None:
    """Return the interface of the default route with the lowest metric."""
    rows = [line.split() for line in routes.read_text().splitlines()[1:]]
    defaults = [(int(row[6]), row[0]) for row in rows if row[1] == "00000000" and row[7] == "00000000"]
    return min(defaults)[1] if defaults else None


def matches(name: str, wanted: str) -> bool:
    """Return whether NCCL_SOCKET_IFNAME matches: by prefixes, after = by whole names, after ^ all others."""
    if wanted.startswith("^"):
        return not matches(name, wanted[1:])
    exact = wanted.startswith("=")
    parts = [part.partition(":")[0] for part in wanted.removeprefix("=").split(",") if part]
    return any(name == part if exact else name.startswith(part) for part in parts)


def choose(wanted: str, found: t.Mapping[str, str], default: str | None) -> dict[str, str]:
    """Return the interfaces that NCCL uses, with their addresses; by default that of the default route."""
    if len(wanted) > 1:
        return {name: address for name, address in found.items() if matches(name, wanted)}
    others = [name for name in found if matches(name, "^docker,lo,virbr")]
    name = default if default in others else next(iter(others), None)
    return {} if name is None else {name: found[name]}


class Log:
    """NCCL's log, with the level of NCCL_DEBUG; nothing without it.

    NCCL_DEBUG_SUBSYS chooses the parts, but warnings are always logged. NCCL_DEBUG_FILE is overwritten.
    """

    def __init__(self, environment: t.Mapping[str, str]) -> None:
        wanted = environment.get("NCCL_DEBUG", "").upper()
        self._level = LEVELS.index(wanted) if wanted in LEVELS else -1
        parts = environment.get("NCCL_DEBUG_SUBSYS")
        named = set(DEFAULT_PARTS if parts is None else parts.upper().lstrip("^").split(","))
        self._all_but = parts is not None and parts.startswith("^")
        self._parts = named
        self._file: t.TextIO | None = None
        path = self._path(environment.get("NCCL_DEBUG_FILE", ""))
        if path and self._level > LEVELS.index("VERSION"):
            # If the file cannot be written, the log goes to standard output.
            with contextlib.suppress(OSError):
                self._file = Path(path).open("w", encoding="utf-8", buffering=1)  # noqa: SIM115 (as long as the rank)

    @staticmethod
    def _path(pattern: str) -> str:
        names = {"%%": "%", "%h": socket.gethostname().partition(".")[0], "%p": str(os.getpid())}
        return re.sub("%[%hp]", lambda found: names[found[0]], pattern)

    def _say(self, level: str, text: str, before: str = "") -> None:
        if self._level >= LEVELS.index(level):
            process = f"{socket.gethostname()}:{os.getpid()}:{os.getpid()} [0]"
            print(f"{before}{process} NCCL {level} {text}", file=self._file, flush=True)

    def info(self, text: str, *parts: str) -> None:
        """Log a text if one of its parts is chosen. The default parts are INIT and NET."""
        known = "ALL" in self._parts or bool(self._parts & set(parts or ("INIT", "NET")))
        if known is not self._all_but:
            self._say("INFO", text)

    def warn(self, text: str) -> None:
        self._say("WARN", text, "\n" + time.strftime("[%Y-%m-%d %H:%M:%S] "))


class Device(t.NamedTuple):
    """An RDMA device of the kernel. In the twin, each has one port."""

    name: str
    node: str
    number: str

    @property
    def opens(self) -> bool:
        """Return whether this container has the device's node."""
        try:
            status = (NODES / self.node).stat()
        except OSError:
            return False
        numbers = f"{os.major(status.st_rdev)}:{os.minor(status.st_rdev)}"
        return stat.S_ISCHR(status.st_mode) and numbers == self.number

    @property
    def active(self) -> bool:
        try:
            return (PORTS / self.name / "ports/1/state").read_text(encoding="ascii").startswith("4:")
        except OSError:
            return False

    def chosen(self, wanted: str) -> bool:
        """Return whether NCCL_IB_HCA matches its port: NAME or NAME:PORT, as in matches(); any without a value."""
        if wanted.startswith("^"):
            return not self.chosen(wanted[1:])
        names = [part.partition(":") for part in wanted.removeprefix("=").split(",") if part]
        exact = wanted.startswith("=")
        return not names or any(
            port in ("", "1") and (self.name == name if exact else self.name.startswith(name))
            for name, _colon, port in names
        )


def devices() -> list[Device]:
    """Return the devices of ibv_get_device_list, also those that cannot be opened."""
    found = []
    for entry in sorted(CLASS.glob("uverbs*")):
        with contextlib.suppress(OSError):
            name, number = ((entry / file).read_text(encoding="ascii").strip() for file in ("ibdev", "dev"))
            found.append(Device(name, entry.name, number))
    return found


class Communicator:
    """A rank's place in the ring: it sends to the next rank and receives from the previous one."""

    def __init__(self, rank: int, size: int, environment: t.Mapping[str, str] = os.environ) -> None:
        self._rank, self._size = rank, size
        self._log = Log(environment)
        wanted = environment.get("NCCL_SOCKET_IFNAME", "")
        if wanted:
            self._log.info(f"NCCL_SOCKET_IFNAME set by environment to {wanted}", "ENV")
        self.interfaces = choose(wanted, interface_addresses(), default_interface())
        if not self.interfaces:
            self._log.warn("Bootstrap : no socket interface found")
            raise NcclError("invalid usage (run with NCCL_DEBUG=WARN for details)")
        name, address = next(iter(self.interfaces.items()))
        self._log.info(f"Bootstrap: Using {name}:{address}<0>", "INIT", "BOOTSTRAP")
        self._network = self._choose_network(environment)
        self._listeners = [socket.create_server((one, 0)) for one in self.interfaces.values()]
        self._in: list[socket.socket] = []
        self._out: list[socket.socket] = []

    def _choose_network(self, environment: t.Mapping[str, str]) -> str:
        """Return the name of the network that NCCL would use. Without RDMA devices, that is sockets."""
        alone = environment.get("NCCL_NET", "").lower()
        for network, switch in NETWORKS.items():
            if alone in ("", network.lower()):
                if self._has_devices(environment, network, switch):
                    return self._assign(network)
                self._log.info(f"Failed to initialize NET plugin {network}")
        used = " ".join(f"[{n}]{name}:{address}<0>" for n, (name, address) in enumerate(self.interfaces.items()))
        self._log.info(f"NET/Socket : Using {used}")
        return self._assign("Socket")

    def _assign(self, network: str) -> str:
        self._log.info(f"Initialized NET plugin {network}")
        self._log.info(f"Assigned NET plugin {network} to comm")
        self._log.info(f"Using network {network}", "INIT")
        return network

    def _has_devices(self, environment: t.Mapping[str, str], network: str, switch: str) -> bool:
        """Return whether there is an active and chosen RDMA device. All devices are opened, also those not chosen.

        The plug-in does not log which devices were chosen.
        """
        if environment.get(switch, "0") != "0":
            self._log.info(f"{switch} set by environment to {environment[switch]}.", "ENV")
            return False
        wanted = environment.get("NCCL_IB_HCA", "")
        if wanted and network == "IB":
            self._log.info(f"NCCL_IB_HCA set to {wanted}", "ENV", "NET")
        used: list[str] = []
        for device in devices():
            if not device.opens:
                self._log.warn("Call to ibv_open_device failed")
                self._log.warn(f"NET/IB : Unable to open device {device.name}")
            elif device.active and device.chosen(wanted):
                used.append(f" [{len(used)}]{device.name}:1/RoCE")
        if not used:
            self._log.info("NET/IB : No device found.")
        name, address = next(iter(self.interfaces.items()))
        self._log.info(f"NET/IB : Using{''.join(used)} {'[RO]' if used else ''}; OOB {name}:{address}<0>")
        return bool(used)

    @property
    def me(self) -> Peer:
        return Peer(socket.gethostname(), [listener.getsockname() for listener in self._listeners])

    @property
    def identity(self) -> tuple[str, int]:
        """Return this rank's address for the others, which MPI distributes as NCCL's unique id."""
        address: tuple[str, int] = self._listeners[0].getsockname()
        return address

    def lead(self) -> None:
        """Wait for the other ranks, send them the list of all ranks, and join the ring."""
        with contextlib.ExitStack() as bootstraps:
            found: dict[int, socket.socket] = {}
            peers = {self._rank: self.me}
            while len(peers) < self._size:
                bootstrap = bootstraps.enter_context(self._listeners[0].accept()[0])
                rank, peer = _receive(bootstrap)
                found[rank], peers[rank] = bootstrap, Peer(*peer)
            ring = [peers[rank] for rank in range(self._size)]
            for bootstrap in found.values():
                _send(bootstrap, ring)
        self._join(ring)

    def follow(self, leader: tuple[str, int]) -> None:
        """Connect to the leader, and join the ring."""
        with self._connect(leader) as bootstrap:
            _send(bootstrap, (self._rank, self.me))
            ring = [Peer(*peer) for peer in _receive(bootstrap)]
        self._join(ring)

    def _join(self, ring: t.Sequence[Peer]) -> None:
        first: dict[str, int] = {}
        for rank, peer in enumerate(ring):
            if first.setdefault(peer.host, rank) != rank:
                ranks = f"rank {first[peer.host]} and rank {rank}"
                self._log.warn(f"Duplicate GPU detected : {ranks} both on CUDA device {DEVICE}")
                raise NcclError("invalid usage (run with NCCL_DEBUG=WARN for details)")
        after = (self._rank + 1) % self._size
        there = ring[after].addresses
        for rail in range(max(len(self._listeners), len(there))):
            self._out.append(self._connect(there[rail % len(there)]))
            self._log.info(f"Channel {rail:02d}/0 : {self._rank}[0] <-> {after}[0] via NET/{self._network}/{rail}")
        for rail in range(max(len(self._listeners), len(ring[self._rank - 1].addresses))):
            connection, _ = self._listeners[rail % len(self._listeners)].accept()
            self._in.append(connection)
        for connection in (*self._in, *self._out):
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._log.info(f"ncclCommInitRank comm nranks {self._size} cudaDev 0 - Init COMPLETE", "INIT")

    def _connect(self, address: tuple[str, int]) -> socket.socket:
        """Connect by the kernel's routes, as the real one. Retry only if the connection is refused."""
        deadline = time.monotonic() + 3.4
        while True:
            try:
                return socket.create_connection((address[0], address[1]))
            except ConnectionRefusedError as error:
                if time.monotonic() > deadline:
                    raise self._failure(address, error) from error
                time.sleep(0.1)
            except OSError as error:
                raise self._failure(address, error) from error

    def _failure(self, address: tuple[str, int], error: OSError) -> NcclError:
        self._log.warn(f"socketStartConnect: Connect to {address[0]}<{address[1]}> failed : {error.strerror}")
        return NcclError("unhandled system error (run with NCCL_DEBUG=INFO for details)")

    def exchange(self, kind: bytes, size: int) -> None:
        """Send a share to the next rank over every rail, and wait for that of the previous rank."""
        share = -(-size // len(self._out))
        try:
            self._hand_on(kind, [share] * len(self._out))
            for connection in self._in:
                connection.settimeout(SECONDS)
                self._await_share(connection)
        except TimeoutError:
            self._log.warn("NET/IB : Got completion from peer with status=12 opcode=0 (IBV_WC_RETRY_EXC_ERR)")
            hang()
        except OSError as error:
            self._log.warn(f"socketProgress: Connection closed by remote peer ({error})")
            raise NcclError("remote process exited or there was a network error") from error

    def answer(self) -> bytes:
        """Take part in the leader's next operation, and return its kind."""
        try:
            kind, shares = b"", []
            for connection in self._in:
                kind, share = _read_share(connection)
                shares.append(share)
            # The last rank does not send the stop to the leader.
            if kind != STOP or self._rank + 1 < self._size:
                self._hand_on(kind, [shares[rail % len(shares)] for rail in range(len(self._out))])
        except OSError as error:
            self._log.warn(f"socketProgress: Connection closed by remote peer ({error})")
            raise NcclError("remote process exited or there was a network error") from error
        return kind

    def _await_share(self, connection: socket.socket) -> None:
        """Wait for a share, as long as the next rank's NIC has acknowledged all data."""
        while not select.select([connection], [], [], SECONDS)[0]:
            if any(unanswered(one) for one in self._out):
                raise TimeoutError
        _read_share(connection)

    def _hand_on(self, kind: bytes, shares: t.Sequence[int]) -> None:
        for connection, share in zip(self._out, shares):
            connection.sendall(HEAD.pack(kind, share) + bytes(share))

    def stop(self) -> None:
        self._hand_on(STOP, [0] * len(self._out))


def unanswered(connection: socket.socket) -> int:
    """Return the number of bytes that the other kernel has not acknowledged."""
    return int.from_bytes(fcntl.ioctl(connection, termios.TIOCOUTQ, bytes(4)), sys.byteorder)


def hang() -> t.NoReturn:
    """Hang like a collective operation that has lost its peer."""
    while True:
        signal.pause()


def _read(connection: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        piece = connection.recv(min(1 << 20, size - len(data)))
        if not piece:
            raise ConnectionError("the connection is closed")
        data += piece
    return bytes(data)


def _read_share(connection: socket.socket) -> tuple[bytes, int]:
    """Return the kind of operation, and the number of bytes from this rail."""
    kind, share = HEAD.unpack(_read(connection, HEAD.size))
    _read(connection, share)
    return kind, share


def _send(connection: socket.socket, message: t.Any) -> None:
    data = json.dumps(message).encode()
    connection.sendall(HEAD.pack(PASS, len(data)) + data)


def _receive(connection: socket.socket) -> t.Any:
    _, size = HEAD.unpack(_read(connection, HEAD.size))
    return json.loads(_read(connection, size))

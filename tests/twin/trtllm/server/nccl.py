# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What stands in for NCCL: a ring of all ranks over real TCP connections, on the interfaces that NCCL would take.

Each rank reads its own environment. Every interface is a rail of its own, and every exchange uses all of them; what the
real one moves by RDMA over the devices in NCCL_IB_HCA goes over the interfaces, too. Which network the real one would
use is decided as it does that: by what sysfs says of the RDMA devices, whether the container has their nodes, and the
environment. Its log has the words of NVIDIA/nccl v2.28.9-1 and, for newer releases, of the plug-in that containers of
NVIDIA's bring along (Mellanox/nccl-rdma-sharp-plugins, src/p2p_plugin.c), as a DGX Spark printed them
(mark-ramsey-ri/vllm-dgx-spark issue 1).
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
# An InfiniBand queue pair gives up after about this long without an answer of the other card, which answers for a
# process that is paused, too.
SECONDS = 30.0
HEAD = struct.Struct(">4sI")
PASS, REQUEST, STOP = b"PASS", b"NEXT", b"STOP"
NODES = Path("/dev/infiniband")
CLASS, PORTS = Path("/sys/class/infiniband_verbs"), Path("/sys/class/infiniband")
# The networks in the order in which they are tried, each with what disables it.
NETWORKS = {
    **({"IBext_v10": "NCCL_IBEXT_DISABLE"} if FAMILY == "1.3" else {}),
    "IB": "NCCL_IB_DISABLE",
}
DEFAULT_PARTS = ("INIT", "BOOTSTRAP", "ENV")
LEVELS = ("VERSION", "WARN", "INFO", "TRACE")
DEVICE = "f01000"


class NcclError(RuntimeError):
    """NCCL has failed; the real engine ends its rank then."""


class Peer(t.NamedTuple):
    """What a rank tells the others about itself."""

    host: str
    addresses: list[tuple[str, int]]


def interface_addresses() -> dict[str, str]:
    """The IPv4 address of each interface that has one, in the system's order."""
    found = {}
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as anyone:
        for _, name in socket.if_nameindex():
            with contextlib.suppress(OSError):
                answer = fcntl.ioctl(anyone, SIOCGIFADDR, struct.pack("256s", name.encode()))
                found[name] = socket.inet_ntoa(answer[20:24])
    return found


def default_interface(routes: Path = Path("/proc/net/route")) -> str | None:
    """The interface of the default route, whose metric is the lowest."""
    rows = [line.split() for line in routes.read_text().splitlines()[1:]]
    defaults = [(int(row[6]), row[0]) for row in rows if row[1] == "00000000" and row[7] == "00000000"]
    return min(defaults)[1] if defaults else None


def matches(name: str, wanted: str) -> bool:
    """Whether NCCL_SOCKET_IFNAME means this interface: beginnings of names, after = whole ones, after ^ all others."""
    if wanted.startswith("^"):
        return not matches(name, wanted[1:])
    exact = wanted.startswith("=")
    parts = [part.partition(":")[0] for part in wanted.removeprefix("=").split(",") if part]
    return any(name == part if exact else name.startswith(part) for part in parts)


def choose(wanted: str, found: t.Mapping[str, str], default: str | None) -> dict[str, str]:
    """The interfaces that NCCL uses, with their addresses; without a wish the one of the default route."""
    if len(wanted) > 1:
        return {name: address for name, address in found.items() if matches(name, wanted)}
    others = [name for name in found if matches(name, "^docker,lo,virbr")]
    name = default if default in others else next(iter(others), None)
    return {} if name is None else {name: found[name]}


class Log:
    """Speaks as loud as NCCL_DEBUG says, without it not at all; of the parts in NCCL_DEBUG_SUBSYS, and into a file of
    NCCL_DEBUG_FILE, which is begun anew. A warning is of every part."""

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
            # One that cannot be written is no failure: what is said goes to the output.
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
        """Parts are INIT and NET if none is named."""
        known = "ALL" in self._parts or bool(self._parts & set(parts or ("INIT", "NET")))
        if known is not self._all_but:
            self._say("INFO", text)

    def warn(self, text: str) -> None:
        self._say("WARN", text, "\n" + time.strftime("[%Y-%m-%d %H:%M:%S] "))


class Device(t.NamedTuple):
    """An RDMA device as the kernel knows it. All that the twin has have one port."""

    name: str
    node: str
    number: str

    @property
    def opens(self) -> bool:
        """Whether this container has its node."""
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
        """Whether NCCL_IB_HCA means its port: NAME or NAME:PORT, as matches() has names; without a wish any."""
        if wanted.startswith("^"):
            return not self.chosen(wanted[1:])
        names = [part.partition(":") for part in wanted.removeprefix("=").split(",") if part]
        exact = wanted.startswith("=")
        return not names or any(
            port in ("", "1") and (self.name == name if exact else self.name.startswith(name))
            for name, _colon, port in names
        )


def devices() -> list[Device]:
    """What ibv_get_device_list finds, whether it can be opened or not."""
    found = []
    for entry in sorted(CLASS.glob("uverbs*")):
        with contextlib.suppress(OSError):
            name, number = ((entry / file).read_text(encoding="ascii").strip() for file in ("ibdev", "dev"))
            found.append(Device(name, entry.name, number))
    return found


class Communicator:
    """A place in the ring: what it sends goes to the rank after it, what it gets comes from the one before."""

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
        """The name of the network that the real one would take. Without RDMA devices it goes on with sockets."""
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
        """Whether verbs have a device that is active and chosen. All are opened, whichever is. The plug-in does not say
        which it was to take."""
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
        """Where the other ranks find this one: the unique id that is sent round by MPI."""
        address: tuple[str, int] = self._listeners[0].getsockname()
        return address

    def lead(self) -> None:
        """Wait for the other ranks, tell each of all, and join the ring."""
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
        """Go to the rank with this identity, and join the ring."""
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
        """The kernel chooses the way, as for the real one; only a refusal is tried again."""
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
        """Send the next rank its share over every rail, and wait for what comes round."""
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
        """Take part in what the leader does next: the kind of it."""
        try:
            kind, shares = b"", []
            for connection in self._in:
                kind, share = _read_share(connection)
                shares.append(share)
            # The leader, who comes after the last, is not told to stop.
            if kind != STOP or self._rank + 1 < self._size:
                self._hand_on(kind, [shares[rail % len(shares)] for rail in range(len(self._out))])
        except OSError as error:
            self._log.warn(f"socketProgress: Connection closed by remote peer ({error})")
            raise NcclError("remote process exited or there was a network error") from error
        return kind

    def _await_share(self, connection: socket.socket) -> None:
        """Wait for what comes round, as long as the card of the next rank has taken all that it was sent."""
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
    """How many bytes the other kernel has not acknowledged."""
    return int.from_bytes(fcntl.ioctl(connection, termios.TIOCOUTQ, bytes(4)), sys.byteorder)


def hang() -> t.NoReturn:
    """What a collective operation does that lost its peer."""
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
    """What is done, and how many bytes of it came by this rail."""
    kind, share = HEAD.unpack(_read(connection, HEAD.size))
    _read(connection, share)
    return kind, share


def _send(connection: socket.socket, message: t.Any) -> None:
    data = json.dumps(message).encode()
    connection.sendall(HEAD.pack(PASS, len(data)) + data)


def _receive(connection: socket.socket) -> t.Any:
    _, size = HEAD.unpack(_read(connection, HEAD.size))
    return json.loads(_read(connection, size))

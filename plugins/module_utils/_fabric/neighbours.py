# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this module util is internal to the collection; its interface may change at any time.

"""Find the host at the other end of an interface, and the addresses in use there, before any change of the host.

Two Sparks that send greetings at the same time learn which of their ports are joined, without any address. An address
for which a host answers is not free (RFC 5227). The query has no sender address, so it changes no table.
"""

from __future__ import annotations

import contextlib
import select
import socket
import struct
import time
import typing as t

ARP = 0x0806
# The EtherType for local experiments by IEEE 802.
GREETING = 0x88B5
WORD = b"dgx_spark.speculative"
BROADCAST = b"\xff" * 6
SHORTEST_FRAME = 60
# Ethernet, IPv4, lengths of both addresses.
_ARP = struct.Struct("!HHBBH6s4s6s4s")
_KIND = (1, 0x0800, 6, 4)
EVERY_S = 0.3
PROBES = 4
# As long as an answer to the last probe, or the other Spark's last greeting, may take.
LINGER_S = 1.2


def readable(mac: bytes) -> str:
    return mac.hex(":")


def frame(mac: bytes, kind: int, payload: bytes) -> bytes:
    return (BROADCAST + mac + struct.pack("!H", kind) + payload).ljust(SHORTEST_FRAME, b"\0")


def probe(mac: bytes, address: str) -> bytes:
    """Return an ARP probe for an address, without a sender address."""
    return frame(mac, ARP, _ARP.pack(*_KIND, 1, mac, bytes(4), bytes(6), socket.inet_aton(address)))


def claim(packet: bytes) -> tuple[str, str] | None:
    """Return the address that a packet shows to be taken, or about to be, and the hardware address of who has it."""
    if len(packet) < 14 + _ARP.size:
        return None
    kind, proto, size, length, _operation, mac, address, _target, wanted = _ARP.unpack_from(packet, 14)
    if (kind, proto, size, length) != _KIND:
        return None
    return socket.inet_ntoa(address if any(address) else wanted), readable(mac)


def raw(name: str, kind: int) -> socket.socket:
    """Return a raw socket for frames of this kind on an interface. Tests replace it."""
    try:
        # Of no kind until it is bound, or it would hear every interface meanwhile.
        end = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        end.bind((name, kind))
    except OSError as error:
        raise OSError(error.errno, error.strerror, name) from None
    return end


class End:
    """One interface, as raw frames see it."""

    def __init__(self, name: str, addresses: t.Sequence[str], greet: bool) -> None:
        self.addresses = set(addresses)
        self.heard: set[str] = set()
        self.taken: dict[str, set[str]] = {}
        self.sockets: dict[socket.socket, int] = {}
        for kind in (ARP, GREETING) if greet else (ARP,):
            end = raw(name, kind)
            self.sockets[end] = kind
            self.mac = t.cast("bytes", end.getsockname()[4])

    def send(self, probes: bool) -> None:
        for end, kind in self.sockets.items():
            packets = [frame(self.mac, kind, WORD)] if kind == GREETING else []
            if kind == ARP and probes:
                packets = [probe(self.mac, address) for address in sorted(self.addresses)]
            for packet in packets:
                # An interface that goes down hears no other host.
                with contextlib.suppress(OSError):
                    end.send(packet)

    def receive(self, end: socket.socket) -> None:
        try:
            packet = end.recv(2048)
        except OSError:
            return
        if self.sockets[end] == GREETING:
            if packet[14:].startswith(WORD):
                self.heard.add(readable(packet[6:12]))
            return
        claimed = claim(packet)
        if claimed and claimed[0] in self.addresses:
            self.taken.setdefault(claimed[0], set()).add(claimed[1])

    def close(self) -> None:
        for end in self.sockets:
            end.close()


def neighbours(addresses: t.Mapping[str, t.Sequence[str]], greet: bool, seconds: float) -> dict[str, t.Any]:
    """Return the hosts heard on each interface, and those that have its addresses, by hardware address.

    Raises OSError, with the interface as its C(filename), for one that is not there.
    """
    with contextlib.ExitStack() as stack:
        ends: dict[str, End] = {}
        for name, wanted in addresses.items():
            ends[name] = End(name, wanted, greet)
            stack.callback(ends[name].close)
        owners = {one: end for end in ends.values() for one in end.sockets}
        # On a switch, each of them hears the others of this host, too.
        own = {readable(end.mac) for end in ends.values()}
        started = time.monotonic()
        sent, complete = 0, None
        while True:
            waited = time.monotonic() - started
            if waited >= sent * EVERY_S:
                for end in ends.values():
                    end.send(probes=sent < PROBES)
                sent += 1
            for one in select.select(list(owners), [], [], EVERY_S / 3)[0]:
                owners[one].receive(one)
            if complete is None and (not greet or waited > seconds or all(end.heard - own for end in ends.values())):
                complete = waited
            if complete is not None and waited > max(complete, (PROBES - 1) * EVERY_S) + LINGER_S:
                break
        return {
            "heard": {name: sorted(end.heard - own) for name, end in ends.items()} if greet else None,
            "taken": {
                name: {address: sorted(macs - own) for address, macs in end.taken.items() if macs - own}
                for name, end in ends.items()
            },
        }

# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Read the connections of clients to the server's port, and the times of their requests, from the kernel.

The source is sock_diag(7), as for ss. /proc/net/tcp has no times, and clients that give up and retry are connected all
the time.
"""

from __future__ import annotations

import ipaddress
import socket
import struct
import time
import typing as t

# linux/netlink.h, linux/sock_diag.h, linux/inet_diag.h
NETLINK_SOCK_DIAG = 4
SOCK_DIAG_BY_FAMILY = 20
REQUEST_DUMP = 0x301
DONE, ERROR = 3, 2
INET_DIAG_INFO = 2
ESTABLISHED = 1 << 1
HEADER = struct.Struct("=IHHII")
# Family, protocol, extensions, states; then the ports, of which the first is a filter.
REQUEST = struct.Struct("=BBBxI")
PORTS = struct.Struct(">HH")
# The other end's port and address.
PEER = struct.Struct(">6xH16x16s")
NUMBER = struct.Struct("=i")
ID_BYTES, MESSAGE_BYTES = 48, 72
ATTRIBUTE = struct.Struct("=HH")
# Of struct tcp_info: milliseconds since data were received, and how many bytes have come.
TOLD = struct.Struct("=52xI72xQ")


OTHERS = "others are served"
UNKNOWN = "it cannot be told whether others are served"

# Address and port of one end of a connection.
End = tuple[str, int]


class ClientConnection(t.NamedTuple):
    """A client's connection: its remote end, and the seconds since the server received data; None if unknown.

    Data sent by the server is not considered: a stream has its headers long before its first token, and stops if its
    client does not read. A live server closes idle connections. A partial and a complete request look the same.
    """

    end: End
    asked_ago: float | None
    # A browser or a proxy connects before it has anything to ask.
    has_asked: bool = True


class ClientConnections:
    """The clients that are connected to the server's port."""

    def __init__(self, port: int, own: set[End]) -> None:
        self.port = port
        self.own = own

    def older_client(self, moment: float) -> str | None:
        """Return why an answer may be slow: a client sent its request before this moment of the monotonic clock.

        An engine takes requests in the order of their arrival, so a later one delays no earlier one. Without the
        kernel's answer a client may be there.
        """
        now = time.monotonic()
        try:
            asked = [one.asked_ago for one in self.here() if one.has_asked]
        except (OSError, struct.error):
            return UNKNOWN
        if any(ago is not None and now - ago < moment for ago in asked):
            return OTHERS
        return UNKNOWN if None in asked else None

    def here(self) -> list[ClientConnection]:
        return [
            connection
            for family in (socket.AF_INET, socket.AF_INET6)
            for connection in connections(family, self.port)
            if connection.end not in self.own
        ]


def connections(family: int, port: int) -> t.Iterator[ClientConnection]:
    """Yield the established connections to a port of this network namespace."""
    identity = PORTS.pack(port, 0).ljust(ID_BYTES, b"\0")
    body = REQUEST.pack(family, socket.IPPROTO_TCP, 1 << (INET_DIAG_INFO - 1), ESTABLISHED) + identity
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_SOCK_DIAG) as kernel:
        kernel.settimeout(5)
        kernel.send(HEADER.pack(HEADER.size + len(body), SOCK_DIAG_BY_FAMILY, REQUEST_DUMP, 1, 0) + body)
        while True:
            for kind, message in split(HEADER, kernel.recv(1 << 16), 4):
                if kind == ERROR:
                    raise OSError(-NUMBER.unpack_from(message)[0], "the kernel does not tell of connections")
                if kind == DONE:
                    return
                yield client_connection(family, message)


def split(header: struct.Struct, data: bytes, align: int) -> t.Iterator[tuple[int, bytes]]:
    """Yield type and content of each netlink message; a header begins with its length and its type."""
    while len(data) >= header.size:
        size, kind = header.unpack_from(data)[:2]
        if size < header.size:
            return
        yield kind, data[header.size : size]
        data = data[-(-size // align) * align :]


def client_connection(family: int, message: bytes) -> ClientConnection:
    """Return a connection from the kernel's answer."""
    port, raw = PEER.unpack_from(message)
    end = (address_of(raw[:4] if family == socket.AF_INET else raw), port)
    for kind, content in split(ATTRIBUTE, message[MESSAGE_BYTES:], 4):
        if kind == INET_DIAG_INFO and len(content) >= TOLD.size:
            received, size = TOLD.unpack_from(content)
            return ClientConnection(end, received / 1e3, size > 0)
    return ClientConnection(end, None)


def address_of(raw: bytes) -> str:
    """As the other end has it: one of IPv4 may come to a socket of IPv6."""
    address = ipaddress.ip_address(raw)
    return str(getattr(address, "ipv4_mapped", None) or address)

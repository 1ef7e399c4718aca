# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this module util is internal to the collection; its interface may change at any time.

"""Find the control groups of listening TCP sockets.

The kernel shows the control group to all users (as in ss --cgroup), but the process of a socket only to root.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import typing as t

# From linux/netlink.h, linux/sock_diag.h and linux/inet_diag.h.
_SOCK_DIAG = 4
_BY_FAMILY = 20
_REQUEST, _DUMP = 0x1, 0x300
_ERROR, _DONE = 2, 3
_LISTENING = 1 << 10
_CGROUP_ID = 21
_HEADER = struct.Struct("=IHHII")
_ATTRIBUTE = struct.Struct("=HH")
_MESSAGE_SIZE, _INODE_OFFSET = 72, 68


def _aligned(length: int) -> int:
    return (length + 3) & ~3


def _messages(data: bytes) -> t.Iterator[tuple[int, bytes]]:
    """Yield the netlink messages of a datagram with their kinds."""
    while len(data) >= _HEADER.size:
        length, kind, _flags, _sequence, _sender = _HEADER.unpack_from(data)
        if length < _HEADER.size:
            return
        yield kind, data[_HEADER.size : length]
        data = data[_aligned(length) :]


def _attributes(data: bytes) -> t.Iterator[tuple[int, bytes]]:
    while len(data) >= _ATTRIBUTE.size:
        length, kind = _ATTRIBUTE.unpack_from(data)
        if length < _ATTRIBUTE.size:
            return
        yield kind, data[_ATTRIBUTE.size : length]
        data = data[_aligned(length) :]


def parse(data: bytes) -> tuple[dict[int, int], bool]:
    """Return the control group ids of a datagram's sockets by inode, and whether it was the last datagram."""
    result: dict[int, int] = {}
    for kind, body in _messages(data):
        if kind in (_ERROR, _DONE):
            return result, True
        if kind != _BY_FAMILY or len(body) < _MESSAGE_SIZE:
            continue
        inode = struct.unpack_from("=I", body, _INODE_OFFSET)[0]
        for attribute, value in _attributes(body[_MESSAGE_SIZE:]):
            if attribute == _CGROUP_ID and len(value) == 8:
                result[inode] = struct.unpack("=Q", value)[0]
    return result, False


def _ask(family: int) -> dict[int, int]:
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _SOCK_DIAG) as netlink:
        netlink.settimeout(2)
        request = struct.pack("=BBBBI", family, socket.IPPROTO_TCP, 0, 0, _LISTENING) + bytes(48)
        netlink.send(_HEADER.pack(_HEADER.size + len(request), _BY_FAMILY, _REQUEST | _DUMP, 1, 0) + request)
        result: dict[int, int] = {}
        last = False
        while not last:
            rows, last = parse(netlink.recv(1 << 16))
            result.update(rows)
        return result


def listening_cgroups() -> dict[int, int]:
    """Return the control group ids of the listening TCP sockets by inode, as far as the kernel shows them."""
    result: dict[int, int] = {}
    for family in (socket.AF_INET, socket.AF_INET6):
        with contextlib.suppress(OSError, AttributeError):
            result.update(_ask(family))
    return result

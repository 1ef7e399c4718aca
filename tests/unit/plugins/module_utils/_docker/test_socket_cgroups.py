# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os
import socket
import struct

from ansible_collections.dgx_spark.speculative.plugins.module_utils._docker.socket_cgroups import (
    listening_cgroups,
    parse,
)


def attribute(kind: int, value: bytes) -> bytes:
    return struct.pack("=HH", 4 + len(value), kind) + value + bytes(-len(value) % 4)


def message(kind: int, body: bytes) -> bytes:
    return struct.pack("=IHHII", 16 + len(body), kind, 0, 1, 0) + body + bytes(-len(body) % 4)


def about(inode: int, *attributes: bytes) -> bytes:
    return message(20, bytes(68) + struct.pack("=I", inode) + b"".join(attributes))


def test_attributes_are_read() -> None:
    first = about(4242, attribute(8, b"x"), attribute(21, struct.pack("=Q", 77)))
    assert parse(first + about(4243, attribute(8, b"x"))) == ({4242: 77}, False)
    assert parse(first + message(3, bytes(4))) == ({4242: 77}, True)
    assert parse(message(2, struct.pack("=i", -2))) == ({}, True)


def test_rubbish_ends_the_reading() -> None:
    assert parse(bytes(40)) == ({}, False)
    assert parse(about(1, bytes(4))) == ({}, False)
    assert parse(message(20, b"short")) == ({}, False)


def test_the_kernel_tells_of_a_real_listener() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        inode = os.fstat(server.fileno()).st_ino
        found = listening_cgroups()
    # A kernel without control groups for sockets tells nothing.
    assert not found or inode in found

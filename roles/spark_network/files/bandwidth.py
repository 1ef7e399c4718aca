# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One plain TCP stream over each interface of the cable, bounded in time and bytes: for the module watched_job.

receive PORT RAIL...                               on the worker
send PORT SECONDS BYTES MINIMUM_GBPS RAIL...       on the head

A rail is INTERFACE=OWN_ADDRESS=PEER_ADDRESS. What counts is what the receiver says has arrived.
"""

from __future__ import annotations

import contextlib
import json
import socket
import struct
import sys
import time
import typing as t

BLOCK = 4 * 2**20
# The receiver is started a moment before the sender, by another task on another host.
CONNECT_WITHIN_S = 15.0
RECEIVE_WITHIN_S = 45.0
# One block may take this long before the link counts as dead.
STALL_S = 10.0


class Rail(t.NamedTuple):
    interface: str
    address: str
    peer_address: str


class BandwidthError(Exception):
    """Why nothing could be measured, in one sentence."""


def rails(arguments: t.Sequence[str]) -> list[Rail]:
    return [Rail(*argument.split("=")) for argument in arguments]


def drain(connection: socket.socket) -> int:
    """Take everything, and tell the other end how much it was."""
    buffer, total = bytearray(BLOCK), 0
    connection.settimeout(STALL_S)
    while True:
        count = connection.recv_into(buffer)
        if not count:
            break
        total += count
    connection.sendall(struct.pack("!Q", total))
    return total


def receive(port: int, wanted: t.Sequence[Rail], within: float = RECEIVE_WITHIN_S) -> dict[str, t.Any]:
    deadline = time.monotonic() + within
    with contextlib.ExitStack() as stack:
        servers = []
        for rail in wanted:
            try:
                server = stack.enter_context(socket.create_server((rail.address, port), reuse_port=False))
            except OSError as error:
                raise BandwidthError(
                    f"port {port} of {rail.address} cannot be opened ({error.strerror}); set "
                    "spark_network_bandwidth_port to a free one"
                ) from None
            servers.append(server)
        totals = []
        for rail, server in zip(wanted, servers):
            server.settimeout(max(0.1, deadline - time.monotonic()))
            try:
                connection, _address = server.accept()
                with connection:
                    totals.append(drain(connection))
            except OSError as error:
                raise BandwidthError(f"nothing arrived at {rail.address} ({error})") from None
    return {"bytes": totals}


def connect(rail: Rail, port: int, within: float) -> socket.socket:
    deadline = time.monotonic() + within
    while True:
        try:
            return socket.create_connection((rail.peer_address, port), timeout=2.0, source_address=(rail.address, 0))
        except OSError as error:
            if time.monotonic() > deadline:
                raise BandwidthError(
                    f"{rail.peer_address} takes no connection on port {port} ({error}); allow it in the firewall of "
                    "the worker, or set spark_network_bandwidth_port to an open one"
                ) from None
            time.sleep(0.2)


def send(rail: Rail, port: int, seconds: float, most: int, within: float = CONNECT_WITHIN_S) -> dict[str, t.Any]:
    """Send until the time or the bytes are used up; the rate is that of what has arrived."""
    block = memoryview(bytearray(BLOCK))
    with connect(rail, port, within) as connection:
        connection.settimeout(STALL_S)
        started, sent = time.monotonic(), 0
        try:
            while sent < most and time.monotonic() - started < seconds:
                sent += connection.send(block[: min(BLOCK, most - sent)])
            connection.shutdown(socket.SHUT_WR)
            answer = b""
            while len(answer) < 8:
                part = connection.recv(8 - len(answer))
                if not part:
                    raise BandwidthError(f"the receiver at {rail.peer_address} went away")
                answer += part
        except OSError as error:
            raise BandwidthError(f"the stream to {rail.peer_address} broke off ({error})") from None
        took = time.monotonic() - started
    arrived = struct.unpack("!Q", answer)[0]
    gbps = round(arrived * 8 / took / 1e9, 2)
    return {**rail._asdict(), "bytes": arrived, "seconds": round(took, 3), "gbps": gbps}


def findings(measured: t.Sequence[dict[str, t.Any]], minimum: float) -> list[str]:
    return [
        f"{row['interface']} carried {row['gbps']:g} Gb/s in one TCP stream, which is less than {minimum:g}. A network "
        "card that came up degraded does that, and its link speed does not show it: switch both Sparks off, take the "
        "power plugs out for a minute, and test again."
        for row in measured
        if row["gbps"] < minimum
    ]


def main(arguments: t.Sequence[str]) -> dict[str, t.Any]:
    if arguments[0] == "receive":
        return receive(int(arguments[1]), rails(arguments[2:]))
    port, seconds, most, minimum = int(arguments[1]), float(arguments[2]), int(arguments[3]), float(arguments[4])
    measured = [send(rail, port, seconds, most) for rail in rails(arguments[5:])]
    lines = [f"{row['interface']} {row['gbps']:g} Gb/s" for row in measured]
    return {"rails": measured, "lines": lines, "findings": findings(measured, minimum)}


if __name__ == "__main__":
    try:
        print(json.dumps({"result": main(sys.argv[1:])}), flush=True)
    except BandwidthError as error:
        print(json.dumps({"error": f"The bandwidth test failed: {error}."}), flush=True)
        sys.exit(1)

# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this plugin util is internal to the collection; its interface may change at any time.
"""Measure the bandwidth of each interface of the cable, bounded in time and bytes. A program for a watched job.

HOW DIRECTORY receive PORT RAIL...                               on the worker
HOW DIRECTORY send PORT SECONDS BYTES MINIMUM_GBPS RAIL...       on the head

HOW is auto if no user has requested the test: then a failed test is a finding. A rail is
INTERFACE=OWN_ADDRESS=PEER_ADDRESS. With one plain TCP stream the receiver's bytes count; with RDMA ib_write_bw
measures, if both Sparks have it. The result is stored in DIRECTORY, which belongs to the collection, and is valid until
the next boot. If HOW is tcp, there is only that stream, and nothing is written.
"""

from __future__ import annotations

import contextlib
import re
import shutil
import socket
import struct
import subprocess
import sys
import time
import typing as t
from pathlib import Path

from ...module_utils._deployment import bandwidth as record
from .progress import emit

BLOCK = 4 * 2**20
# The receiver is started a moment before the sender, by another task on another host.
CONNECT_WITHIN_S = 15.0
RECEIVE_WITHIN_S = 45.0
# One block may take this long before the link counts as dead.
STALL_S = 10.0
PERFTEST = "ib_write_bw"
# One second, and what it takes to begin.
PERFTEST_S = 8.0
# A card with a capped power carries 12.7 to 14 Gb/s (NVIDIA/dgx-spark-playbooks pull request 108 takes 8 to 25).
CAPPED_FROM, CAPPED_TO = 8.0, 25.0
NET = Path("/sys/class/net")


class Rail(t.NamedTuple):
    interface: str
    address: str
    peer_address: str


class BandwidthError(Exception):
    """The measurement failed. The text is one sentence."""


def rails(arguments: t.Sequence[str]) -> list[Rail]:
    return [Rail(*argument.split("=")) for argument in arguments]


def drain(connection: socket.socket) -> int:
    """Receive all data, and report its size to the other end."""
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


# By RDMA


def rdma_device(interface: str) -> str | None:
    """Return the RDMA device of an interface."""
    return next((entry.name for entry in sorted((NET / interface / "device/infiniband").glob("*"))), None)


def perftest(rail: Rail, port: int, *peer: str) -> list[str] | None:
    """Return the command of one end; None where there is no such program or device."""
    program, device = shutil.which(PERFTEST), rdma_device(rail.interface)
    if program is None or device is None:
        return None
    # Without an address it listens on all. perftest has that option since 23.07; Ubuntu 24.04 has 24.01.
    options = ["--ib-dev", device, "--port", str(port), "--bind_source_ip", rail.address]
    return [program, *options, "--duration", "1", "--CPU-freq", "--report_gbits", *peer]


def rate(output: str) -> float | None:
    """Return the average in the table of ib_write_bw: bytes, iterations, peak, average, messages."""
    match = re.search(r"^\s*\d+\s+\d+\s+[\d.]+\s+([\d.]+)\s+[\d.]+\s*$", output, re.MULTILINE)
    return round(float(match.group(1)), 2) if match else None


def run_perftest(command: list[str]) -> str:
    """Return the output of the program; empty if it failed, which is no fault of the link."""
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=PERFTEST_S)
        return done.stdout
    return ""


def by_rdma(rail: Rail, port: int) -> float | None:
    """Return the head's measurement; the other end may need a moment to listen."""
    command = perftest(rail, port, rail.peer_address)
    until = time.monotonic() + PERFTEST_S
    result = None
    while command and result is None and time.monotonic() < until:
        result = rate(run_perftest(command))
        if result is None:
            time.sleep(0.5)
    return result


def verdict(row: dict[str, t.Any], minimum: float) -> str | None:
    """Return why the bandwidth is too low; None if it is not, or without a minimum."""
    way, bound = ("by RDMA", CAPPED_TO) if row["by"] == "RDMA" else ("in one TCP stream", minimum)
    text = f"{row['interface']} carried {row['gbps']:g} Gb/s {way}"
    if not minimum or row["gbps"] >= bound:
        return None
    if row["gbps"] < CAPPED_FROM:
        return f"{text}, which is less than {bound:g}. Reseat the cable, or try another one."
    return (
        f"{text}, which is less than {bound:g}. A network card that was plugged in while the Spark ran does that, and "
        "its link speed does not show it: switch hot-plug off on both Sparks (run again with -K and "
        "-e spark_network_keep_nic_on=true) and reboot both with the cable in. If that does not help, switch both "
        "off, take the power plugs out for a minute, and test again."
    )


def findings(measured: t.Sequence[dict[str, t.Any]], minimum: float) -> list[str]:
    return [said for row in measured if (said := verdict(row, minimum))]


def send_all(arguments: t.Sequence[str], directory: Path | None) -> dict[str, t.Any]:
    port, seconds, most, minimum = int(arguments[0]), float(arguments[1]), int(arguments[2]), float(arguments[3])
    wanted = rails(arguments[4:])
    measured = [{**send(rail, port, seconds, most), "by": "TCP"} for rail in wanted]
    if directory:
        for row, rail in zip(measured, wanted):
            gbps = by_rdma(rail, port)
            if gbps is not None:
                row.update(gbps=gbps, by="RDMA")
        known = [{key: row[key] for key in ("interface", "gbps", "by")} for row in measured]
        record.write_bandwidth(directory, [{**row, "finding": verdict(row, minimum)} for row in known])
    lines = [f"{row['interface']} {row['gbps']:g} Gb/s by {row['by']}" for row in measured]
    return {"rails": measured, "lines": lines, "findings": findings(measured, minimum)}


def receive_all(port: int, wanted: t.Sequence[Rail], directory: Path | None) -> dict[str, t.Any]:
    received = receive(port, wanted)
    if directory:
        record.write_bandwidth(directory, [{"interface": rail.interface} for rail in wanted])
        for rail in wanted:
            command = perftest(rail, port)
            if command:
                run_perftest(command)
    return received


def main(arguments: t.Sequence[str]) -> dict[str, t.Any]:
    how, place, role, *rest = arguments
    directory = None if how == "tcp" else Path(place).expanduser()
    try:
        if role == "receive":
            return receive_all(int(rest[0]), rails(rest[1:]), directory)
        return send_all(rest, directory)
    except BandwidthError as error:
        if how != "auto":
            raise
        return {"rails": [], "lines": [], "findings": [f"What the cable carries was not measured: {error}."]}


if __name__ == "__main__":
    try:
        emit({"result": main(sys.argv[1:])})
    except BandwidthError as error:
        emit({"error": f"The bandwidth test failed: {error}."})
        sys.exit(1)

# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this module util is internal to the collection; its interface may change at any time.

"""Sensors of the link between two Sparks. Both ends measure at once, over the rails that their deployment proved."""

from __future__ import annotations

import base64
import json
import re
import sys
import tempfile
import time
import typing as t

from .sensor import NotInstalled, NotMeasured, Sensor, World

# As the role spark_network measures.
PORT, SECONDS, BYTES = 2235, 2, 10**9
DEADLINE_S = 60.0
RDMA_PORT = 2236
# The other end's program may start a little later.
MEET_WITHIN_S = 20.0
PAUSE_S = 0.3
# The last line of ib_write_bw: bytes, iterations, peak, average, messages.
AVERAGE = re.compile(r"^\s*\d+\s+\d+\s+[\d.]+\s+([\d.]+)\s+[\d.]+\s*$", re.MULTILINE)


def rails(world: World) -> tuple[int, list[dict[str, t.Any]]]:
    """Return the rank of this Spark and its links to the other one."""
    cluster = world.record().get("cluster") or {}
    if not cluster.get("rails"):
        raise NotMeasured("what is deployed here serves on one Spark")
    return cluster["rank"], cluster["rails"]


def by_tcp(program: str) -> t.Callable[[World], list[str]]:
    """Return a sensor that runs the program of the role spark_network: the worker receives, the head sends."""

    def read(world: World) -> list[str]:
        rank, ways = rails(world)
        streams = [f"{way['interface']}={way['address']}={way['peer_address']}" for way in ways]
        task = ["receive", str(PORT)] if rank else ["send", str(PORT), str(SECONDS), str(BYTES), "0"]
        # By TCP alone it leaves nothing behind.
        with tempfile.NamedTemporaryFile(suffix=".pyz") as file:
            file.write(base64.b64decode(program))
            file.flush()
            command = (sys.executable, file.name, "tcp", str(world.state_directory), *task, *streams)
            code, said, complaint = world.run(command, deadline=DEADLINE_S)
        if not said.strip():
            raise NotMeasured(" ".join(complaint.split())[-200:] or f"the test ended with {code}")
        answer = json.loads(said.splitlines()[-1])
        if "error" in answer:
            raise NotMeasured(answer["error"].rstrip("."))
        if rank:
            raise NotMeasured("the head tells what has arrived here")
        lines: list[str] = answer["result"]["lines"]
        return lines

    return read


def rdma_speed(world: World, way: t.Mapping[str, t.Any], rank: int) -> str:
    """One rail with ib_write_bw, which is a server on the worker and a client on the head."""
    if not way.get("rdma"):
        raise NotMeasured(f"{way['interface']} has no RDMA device")
    options = ("-d", way["rdma"], "-p", str(RDMA_PORT), "-D", str(SECONDS), "--report_gbits", "-F")
    peer = () if rank else (way["peer_address"],)
    until = time.monotonic() + MEET_WITHIN_S
    while True:
        try:
            said = world.output("ib_write_bw", *options, *peer, deadline=MEET_WITHIN_S)
            break
        except NotInstalled:
            raise
        except NotMeasured:
            # The worker's may not listen yet.
            if rank or time.monotonic() > until:
                raise
            time.sleep(PAUSE_S)
    matches = AVERAGE.findall(said)
    if not matches:
        raise NotMeasured("ib_write_bw ended without a figure")
    return f"{way['interface']} {float(matches[-1]):g} Gb/s"


def by_rdma(world: World) -> list[str]:
    rank, ways = rails(world)
    return [rdma_speed(world, way, rank) for way in ways]


def sensors(program: str) -> tuple[Sensor, ...]:
    """Return the link's sensors, with the program that measures TCP."""
    return (
        Sensor("link_tcp", "Link", "By TCP", by_tcp(program), "the role spark_network's test"),
        Sensor("link_rdma", "Link", "By RDMA", by_rdma, "ib_write_bw"),
    )

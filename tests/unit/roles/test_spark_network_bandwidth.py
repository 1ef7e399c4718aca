# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
import typing as t
from pathlib import Path

import pytest

from roles.spark_network.files import bandwidth

PROGRAM = Path(bandwidth.__file__)
# Both ends on this machine; every address of 127.0.0.0/8 is its own.
HEAD, WORKER = ("127.0.0.1", "127.0.1.1"), ("127.0.0.2", "127.0.1.2")


@pytest.fixture(name="port")
def fixture_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def streams(own: t.Sequence[str], peer: t.Sequence[str]) -> list[str]:
    return [f"rail{n}={a}={b}" for n, (a, b) in enumerate(zip(own, peer))]


def run(*arguments: str) -> tuple[int, dict[str, t.Any]]:
    done = subprocess.run(
        [sys.executable, str(PROGRAM), *arguments], capture_output=True, text=True, check=False, timeout=60
    )
    return done.returncode, json.loads(done.stdout)


def test_both_ends(port: int) -> None:
    received: list[tuple[int, dict[str, t.Any]]] = []
    worker = threading.Thread(target=lambda: received.append(run("receive", str(port), *streams(WORKER, HEAD))))
    worker.start()
    code, sent = run("send", str(port), "5", "20000000", "0", *streams(HEAD, WORKER))
    worker.join(timeout=30)
    assert code == 0
    assert received == [(0, {"result": {"bytes": [20_000_000, 20_000_000]}})]
    rows = sent["result"]["rails"]
    assert [(row["interface"], row["address"], row["bytes"]) for row in rows] == [
        ("rail0", "127.0.0.1", 20_000_000),
        ("rail1", "127.0.1.1", 20_000_000),
    ]
    assert all(row["gbps"] > 0 for row in rows)
    assert sent["result"]["findings"] == []
    assert sent["result"]["lines"][0] == f"rail0 {rows[0]['gbps']:g} Gb/s"


def test_time_ends_it_before_the_bytes_do(port: int) -> None:
    worker = threading.Thread(target=bandwidth.receive, args=(port, bandwidth.rails(streams(WORKER[:1], HEAD[:1]))))
    worker.start()
    row = bandwidth.send(bandwidth.rails(streams(HEAD[:1], WORKER[:1]))[0], port, 0.2, 10**15)
    worker.join(timeout=30)
    assert 0.2 <= row["seconds"] < 10
    assert 0 < row["bytes"] < 10**15


def test_nobody_listens(port: int) -> None:
    rail = bandwidth.Rail("rail0", *HEAD[:1], *WORKER[:1])
    with pytest.raises(
        bandwidth.BandwidthError, match=f"127.0.0.2 takes no connection on port {port} .*allow it in the firewall"
    ):
        bandwidth.send(rail, port, 1, 1000, within=0.1)


def test_nobody_sends(port: int) -> None:
    with pytest.raises(bandwidth.BandwidthError, match=r"nothing arrived at 127\.0\.0\.2"):
        bandwidth.receive(port, bandwidth.rails(streams(WORKER, HEAD)), within=0.1)


def test_the_port_is_taken(port: int) -> None:
    with socket.create_server(("127.0.0.2", port)):
        code, said = run("receive", str(port), *streams(WORKER, HEAD))
    assert code == 1
    assert said["error"].startswith(f"The bandwidth test failed: port {port} of 127.0.0.2 cannot be opened")


def test_a_slow_stream_is_a_finding() -> None:
    rows = [{"interface": "a", "gbps": 13.0}, {"interface": "b", "gbps": 40.0}]
    (finding,) = bandwidth.findings(rows, 15)
    assert finding.startswith("a carried 13 Gb/s in one TCP stream, which is less than 15.")

# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
import typing as t
from pathlib import Path

import pytest
from ansible_collections.dgx_spark.speculative.plugins.module_utils._deployment.bandwidth import read_bandwidth
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._jobs import bandwidth

from tests.unit.programs import standalone
from tests.unit.waiting import WITHIN_S

# Both ends on this machine; every address of 127.0.0.0/8 is its own.
HEAD, WORKER = ("127.0.0.1", "127.0.1.1"), ("127.0.0.2", "127.0.1.2")


@pytest.fixture(name="port")
def fixture_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def streams(own: t.Sequence[str], peer: t.Sequence[str]) -> list[str]:
    return [f"rail{n}={a}={b}" for n, (a, b) in enumerate(zip(own, peer))]


def run(*arguments: str, **environment: str) -> tuple[int, dict[str, t.Any]]:
    done = subprocess.run(
        [sys.executable, str(standalone("bandwidth")), *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=WITHIN_S,
        env={**os.environ, **environment},
    )
    return done.returncode, json.loads(done.stdout)


def test_both_ends(port: int, tmp_path: Path) -> None:
    head, worker_state = tmp_path / "head", tmp_path / "home/state"
    received: list[tuple[int, dict[str, t.Any]]] = []
    worker = threading.Thread(
        target=lambda: received.append(
            run("true", "~/state", "receive", str(port), *streams(WORKER, HEAD), HOME=str(tmp_path / "home"))
        )
    )
    worker.start()
    code, sent = run("auto", str(head), "send", str(port), "5", "20000000", "0", *streams(HEAD, WORKER))
    worker.join(timeout=WITHIN_S)
    assert code == 0
    assert received == [(0, {"result": {"bytes": [20_000_000, 20_000_000]}})]
    rows = sent["result"]["rails"]
    assert [(row["interface"], row["address"], row["bytes"]) for row in rows] == [
        ("rail0", "127.0.0.1", 20_000_000),
        ("rail1", "127.0.1.1", 20_000_000),
    ]
    assert all(row["gbps"] > 0 for row in rows)
    assert sent["result"]["findings"] == []
    assert sent["result"]["lines"][0] == f"rail0 {rows[0]['gbps']:g} Gb/s by TCP"
    # Both know until their next start that it was measured.
    known = [read_bandwidth(state) for state in (head, worker_state)]
    assert [[row["interface"] for row in rows] for rows in known] == [["rail0", "rail1"]] * 2
    assert known[0][0] == {"interface": "rail0", "gbps": rows[0]["gbps"], "by": "TCP", "finding": None}


def test_time_ends_it_before_the_bytes_do(port: int) -> None:
    worker = threading.Thread(target=bandwidth.receive, args=(port, bandwidth.rails(streams(WORKER[:1], HEAD[:1]))))
    worker.start()
    row = bandwidth.send(bandwidth.rails(streams(HEAD[:1], WORKER[:1]))[0], port, 0.2, 10**15)
    worker.join(timeout=WITHIN_S)
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


def test_the_port_is_taken(port: int, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.2", port)):
        code, said = run("true", str(tmp_path), "receive", str(port), *streams(WORKER, HEAD))
        assert run("auto", str(tmp_path), "receive", str(port), *streams(WORKER, HEAD))[0] == 0
    assert code == 1
    assert said["error"].startswith(f"The bandwidth test failed: port {port} of 127.0.0.2 cannot be opened")


def test_a_slow_stream_is_a_finding() -> None:
    rows = [{"interface": "a", "gbps": 13.0, "by": "TCP"}, {"interface": "b", "gbps": 40.0, "by": "TCP"}]
    (finding,) = bandwidth.findings(rows, 15)
    assert finding.startswith(
        "a carried 13 Gb/s in one TCP stream, which is less than 15. A network card that was plugged in while the "
        "Spark ran does that, and its link speed does not show it: switch hot-plug off on both Sparks"
    )


@pytest.mark.parametrize(
    ("gbps", "by", "said"),
    [
        (24.9, "RDMA", "carried 24.9 Gb/s by RDMA, which is less than 25. A network card that was plugged in"),
        (97.3, "RDMA", None),
        (24.9, "TCP", None),
        (3.0, "TCP", "carried 3 Gb/s in one TCP stream, which is less than 15. Reseat the cable"),
    ],
)
def test_what_a_rate_means(gbps: float, by: str, said: str | None) -> None:
    found = bandwidth.verdict({"interface": "a", "gbps": gbps, "by": by}, 15)
    assert (said is None and found is None) or str(found).startswith(f"a {said}")


@pytest.mark.parametrize("by", ["RDMA", "TCP"])
def test_with_a_minimum_of_nothing_no_rate_is_a_finding(by: str) -> None:
    assert bandwidth.findings([{"interface": "a", "gbps": 3.0, "by": by}], 0) == []


# As ib_write_bw prints it; the rate is the one of NVIDIA/dgx-spark-playbooks pull request 108.
TABLE = """ local address: LID 0000 QPN 0x0127 PSN 0x9ab1c5 RKey 0x1fffbc VAddr 0x00f2d1a0e00000
---------------------------------------------------------------------------------------
 #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]
 65536      21830            0.00               13.23  		   0.025234
---------------------------------------------------------------------------------------
"""


@pytest.fixture(name="double")
def fixture_double(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A test double of ib_write_bw, which like the real one fails while nobody listens, and a device for it."""
    monkeypatch.setattr(bandwidth, "NET", tmp_path)
    (tmp_path / "rail0/device/infiniband/rocep1s0f1").mkdir(parents=True)
    double, listens = tmp_path / bandwidth.PERFTEST, tmp_path / "listens"
    double.write_text(
        f"#!/bin/sh\n[ -e {listens} ] || {{ touch {listens}; exit 1; }}\n"
        f"[ \"$2 $4 $6 ${{11}}\" = 'rocep1s0f1 2235 127.0.0.1 127.0.0.2' ] && cat <<'END'\n{TABLE}END\n",
        encoding="utf-8",
    )
    double.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    return double


def test_the_rate_of_perftest(double: Path) -> None:
    assert bandwidth.rate(TABLE) == 13.23
    assert bandwidth.rate("Couldn't connect to 127.0.0.2:2235\n") is None
    rail = bandwidth.Rail("rail0", "127.0.0.1", "127.0.0.2")
    assert bandwidth.by_rdma(rail, 2235) == 13.23
    assert bandwidth.by_rdma(rail._replace(interface="rail1"), 2235) is None
    # Also the end that listens does so at the cable's address only.
    command = bandwidth.perftest(rail, 2235) or []
    assert command[0] == str(double)
    assert command[command.index("--bind_source_ip") + 1] == "127.0.0.1"


def test_by_tcp_alone_nothing_else_is_measured_nor_written(port: int, tmp_path: Path, double: Path) -> None:
    rail0 = streams(WORKER[:1], HEAD[:1])
    state = tmp_path / "state"
    worker = threading.Thread(target=bandwidth.main, args=(["tcp", str(state), "receive", str(port), *rail0],))
    worker.start()
    rail0 = streams(HEAD[:1], WORKER[:1])
    said = bandwidth.main(["tcp", str(state), "send", str(port), "5", "20000000", "0", *rail0])
    worker.join(timeout=WITHIN_S)
    assert [row["by"] for row in said["rails"]] == ["TCP"]
    assert not state.exists()
    # Nobody has called it.
    assert double.exists()
    assert not (tmp_path / "listens").exists()

# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Somebody else's model server has the port: its answer is not taken for that of the deployment."""

from __future__ import annotations

import contextlib
import json
import typing as t
from pathlib import Path

import pytest

from tests import playbook
from tests.deployed import SLOT, Deployed
from tests.slot import has_standby, loads
from tests.twin.control import Spark

pytest_plugins = ["tests.scenario"]

FORMER = 8001
HERS = "/srv/hers.py"
# Whatever it is asked, it is well and has the model.
SERVER = """
import http.server
import sys

class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = b'{"data": [{"id": "hers"}], "version": "1.2.0"}'
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""


@contextlib.contextmanager
def her_server(spark: Spark, port: int) -> t.Iterator[None]:
    """Somebody else's server at a port."""
    spark.write_file(HERS, SERVER)
    spark.exec(f"setsid python3 {HERS} {port} >/dev/null 2>&1 &", user="spark")
    listens = f"for i in $(seq 100); do ss -ltn | grep -q :{port} && exit; sleep 0.1; done; exit 1"
    assert spark.exec(listens).returncode == 0
    try:
        yield
    finally:
        spark.exec(["pkill", "-f", HERS])


@pytest.fixture(scope="module", autouse=True)
def moved(new_sparks: t.Callable[..., None]) -> None:
    """One that has served at another port and serves at the usual one."""
    new_sparks(1)
    playbook.succeed("single_eagle3", variables={"speculative_serve_port": FORMER})
    playbook.succeed("single_eagle3")


@pytest.fixture(name="before")
def fixture_before(deployed: Deployed) -> t.Iterator[dict[str, t.Any]]:
    """What is recorded, and is afterwards, too, and serves."""
    before = deployed.record()
    yield before
    assert deployed.record() == before
    deployed.wait_until_it_answers(60)


def test_nothing_is_stopped_for_what_has_no_port_any_more(spark: Spark, deployed: Deployed, before: t.Any) -> None:
    since = deployed.inspect()["State"]["StartedAt"]
    with her_server(spark, FORMER):
        message = playbook.fail("serve", variables={"previous": True}).message
    assert "port 8001 on 127.0.0.1 is in use by" in message
    assert "Nothing was changed." in message
    assert deployed.inspect()["State"]["StartedAt"] == since
    del before


def test_who_takes_the_port_while_the_model_loads(
    spark: Spark, deployed: Deployed, before: t.Any, tmp_path: Path
) -> None:
    with spark.gpu(seconds_per_gb=0.2):
        run = playbook.Background(tmp_path / "log", "serve", "-e", "previous=true")
        run.wait_for(lambda: loads(spark))
        with her_server(spark, FORMER):
            seen = set()
            while run.process.poll() is None:
                seen.add((loads(spark), deployed.state()["state"]))
    assert run.process.returncode != 0
    assert (True, "running") not in seen
    assert "The current deployment was restored." in (tmp_path / "log").read_text("utf-8")
    assert not has_standby(spark)
    assert deployed.answers()
    del before


def test_status_is_not_taken_in(spark: Spark, deployed: Deployed, tmp_path: Path) -> None:
    told = tmp_path / "status.json"
    with spark.gpu(seconds_per_gb=0.5):
        spark.exec(["docker", "restart", "--time", "1", SLOT])
        with her_server(spark, 8000):
            playbook.succeed("status", variables={"json": str(told)})
            look = json.loads(told.read_text("utf-8"))["spark-1"]
            # Its own one ends as soon as it wants the port.
            assert look["state"] in ("loading", "dead"), look
    deployed.wait_until_it_answers(180)

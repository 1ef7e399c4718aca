# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A network that was gone delivers late what a run has sent: the Spark refuses it."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests import playbook
from tests.deployed import SLOT, Deployed
from tests.lease import frozen, holder, processes, until
from tests.slot import containers
from tests.twin.control import Spark

pytest_plugins = ["tests.scenario", "tests.deployed"]

CONTAINER = "Run the container"
ONE = ("--limit", "spark-1")
# Longer than a lease that no run renews.
AWAY_S = 60


def wish(draft_length: int) -> tuple[str, ...]:
    return (*ONE, "-e", f"speculative_serve_draft_length={draft_length}")


@pytest.fixture(scope="module", autouse=True)
def serving(begin: None) -> None:
    playbook.succeed("single_eagle3", *wish(3))


def ports(spark: Spark) -> set[str]:
    """Return the client's port of each SSH connection to the Spark."""
    said = spark.exec("ss --no-header --numeric --tcp state established sport = :22").stdout
    return {line.rpartition(":")[2].strip() for line in said.splitlines()}


class Cut:
    """No packet of one connection arrives, in either direction. Nothing is reset."""

    def __init__(self, spark: Spark, port: str) -> None:
        self._spark = spark
        self._rules = (f"INPUT -p tcp --sport {port} -j DROP", f"OUTPUT -p tcp --dport {port} -j DROP")

    def __enter__(self) -> None:
        self._each("-I")

    def __exit__(self, *_details: object) -> None:
        self._each("-D")

    def _each(self, do: str) -> None:
        for rule in self._rules:
            assert self._spark.exec(f"iptables {do} {rule}").returncode == 0


def test_it_does_not_replace_what_another_one_has_proven(spark: Spark, deployed: Deployed, tmp_path: Path) -> None:
    others = ports(spark)
    # A connection that no other run uses.
    own = {"ANSIBLE_SSH_CONTROL_PATH_DIR": str(tmp_path)}
    with frozen(tmp_path / "log", [CONTAINER], "single_eagle3", *wish(2), **own) as run:
        (port,) = ports(spark) - others
        with Cut(spark, port):
            for pid in processes(run):
                os.kill(pid, signal.SIGCONT)
            until(lambda: holder(spark) is None, AWAY_S)
            playbook.succeed("single_eagle3", *wish(1))
            before = deployed.inspect()["Id"]
            assert run.process.poll() is None
    output = run.log.read_text("utf-8")
    # The task itself says it, so its module was on its way, and the Spark refused it.
    late = " ".join(output.rpartition(f": {CONTAINER}] ")[2].partition("\nTASK ")[0].split())
    assert "FAILED! => changed: false msg: 'spark-1: this run lost its lease" in late, output
    assert deployed.inspect()["Id"] == before
    assert containers(spark) == {SLOT: (True, "unless-stopped")}
    assert (deployed.record()["draft_length"], deployed.options()["speculative_config"]["max_draft_len"]) == (1, 1)

# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Two runs at once that want something else of one Spark, and one that stops it meanwhile."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests import playbook
from tests.deployed import SLOT, Deployed
from tests.lease import holder, until
from tests.slot import loads
from tests.twin.control import Internet, Spark

pytest_plugins = ["tests.scenario", "tests.deployed"]

ONE = ("--limit", "spark-1")


def wish(draft_length: int) -> tuple[str, ...]:
    return (*ONE, "-e", f"speculative_serve_draft_length={draft_length}")


@pytest.fixture(scope="module", autouse=True)
def serving(begin: None) -> None:
    """One that serves with three drafts."""
    playbook.succeed("single_eagle3", *wish(3))


def drafts(deployed: Deployed) -> tuple[int, int]:
    """What is recorded, and what serves."""
    return deployed.record()["draft_length"], deployed.options()["speculative_config"]["max_draft_len"]


def test_the_second_run_is_told_and_what_is_recorded_serves(spark: Spark, deployed: Deployed, tmp_path: Path) -> None:
    status = tmp_path / "status.json"
    with spark.gpu(seconds_per_gb=0.4):
        first = playbook.Background(tmp_path / "first.log", "single_eagle3", *wish(2))
        first.wait_for(lambda: holder(spark) is not None)
        refused = playbook.fail("single_eagle3", *wish(1))
        assert "has been running single_eagle3.yml for" in refused.message
        assert refused.changed == []
        playbook.succeed("status", *ONE, variables={"json": str(status)})
        assert json.loads(status.read_text("utf-8"))["spark-1"]["lease"]["activity"] == "single_eagle3.yml"
        second = playbook.Background(tmp_path / "second.log", "single_eagle3", *wish(1), "-e", "wait_minutes=10")
        second.wait_for(lambda: "spark-1 | waits: " in second.log.read_text("utf-8"))
        assert first.process.wait(timeout=300) == 0, first.log.read_text("utf-8")
        assert second.process.wait(timeout=300) == 0, second.log.read_text("utf-8")
    assert drafts(deployed) == (1, 1)


def test_what_was_stopped_stays_stopped(spark: Spark, deployed: Deployed, tmp_path: Path) -> None:
    proven = deployed.record()["draft_length"]
    with spark.gpu(seconds_per_gb=1.0):
        run = playbook.Background(tmp_path / "log", "single_eagle3", *wish(4))
        run.wait_for(lambda: loads(spark))
        stopped = playbook.succeed("stop", *ONE)
        assert run.process.wait(timeout=120) != 0
    assert "stays down" in stopped.output
    output = " ".join(run.log.read_text("utf-8").split())
    assert "has been running stop.yml for" in output
    assert deployed.inspect()["State"]["Running"] is False
    assert deployed.record()["draft_length"] == proven
    assert holder(spark) is None
    playbook.succeed("single_eagle3", *wish(proven))
    assert drafts(deployed) == (proven, proven)


def test_a_pull_that_goes_on_by_itself_holds_nothing_and_another_one_ends_it(
    spark: Spark, internet: Internet, tmp_path: Path
) -> None:
    playbook.succeed("cleanup", *ONE, variables={"image": True})
    internet.set_faults([{"host": "nvcr.io", "path": "*/blobs/*", "action": "slow", "bytes_per_second": 100_000}])
    job = "/home/spark/.local/share/dgx-spark-speculative/jobs/pull/job.json"
    run = playbook.Background(tmp_path / "first.log", "single_eagle3", *ONE)
    run.wait_for(lambda: spark.exec(f"grep -q pulling {job}").returncode == 0)
    run.kill()
    until(lambda: holder(spark) is None, 5)
    image = "nvcr.io/nvidia/tensorrt-llm/release:1.3.0rc13"
    other = playbook.Background(tmp_path / "other.log", "single_eagle3", *ONE, "-e", f"engine_container_image={image}")
    told = "another pull job, which had been running since"
    other.wait_for(lambda: told in other.log.read_text("utf-8"))
    internet.clear_faults()
    assert other.process.wait(timeout=400) == 0, other.log.read_text("utf-8")
    assert spark.exec(["docker", "inspect", "--format", "{{.Config.Image}}", SLOT]).stdout.strip() == image

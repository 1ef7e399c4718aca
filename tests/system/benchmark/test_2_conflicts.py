# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Drafts that do not pay, a benchmark that dies, and who wants the server meanwhile."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests import playbook
from tests.measured import (
    DEPLOYMENT,
    DRAFTS_LOSE,
    POINTS,
    draft_length_served,
    state,
    wait_until_it_serves_its_own,
    wishes,
)
from tests.twin.control import Spark

pytest_plugins = ["tests.scenario"]


@pytest.mark.parametrize("engine", [DRAFTS_LOSE], indirect=True)
def test_drafts_that_do_not_pay_are_turned_off_though_the_benchmark_dies(
    engine: None, spark: Spark, tmp_path: Path
) -> None:
    serving = draft_length_served(spark)
    asked = wishes(tmp_path, quick=True, apply=True)
    asked["speculative_benchmark_max_tokens"] = 40
    running = playbook.Background(tmp_path / "log", "benchmark", "-e", json.dumps(asked))
    before = spark.exec(["stat", "-c", "%Y", f"{POINTS}/off.json"]).stdout

    def measured_anew() -> bool:
        return spark.exec(["stat", "-c", "%Y", f"{POINTS}/off.json"]).stdout not in (before, "")

    running.wait_for(measured_anew)
    running.wait_for(lambda: (state(spark)["trial"] or {}).get("title") == "draft length 1")
    assert spark.exec(["pkill", "-9", "-f", "dgx-spark-speculative/benchmark"]).returncode == 0
    assert running.process.wait(timeout=120) != 0
    # Nobody takes the lease back.
    wait_until_it_serves_its_own(spark)
    assert draft_length_served(spark) == serving
    kept = spark.exec(["stat", "-c", "%Y", f"{POINTS}/off.json"]).stdout

    playbook.succeed("benchmark", variables=asked)
    assert spark.exec(["stat", "-c", "%Y", f"{POINTS}/off.json"]).stdout == kept, "a finished point was measured again"
    report = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    assert report["verdict"]["kind"] == "off"
    record = json.loads(spark.read_file(f"{DEPLOYMENT}/record.json"))
    assert (record["method"], record["draft_length"]) == ("none", 0)
    assert "speculative_config" not in record["options"]
    assert draft_length_served(spark) == 0
    assert playbook.succeed("single_eagle3").changed == []


def test_nobody_gets_in_the_way_and_stop_ends_it(spark: Spark, tmp_path: Path) -> None:
    # Longer answers than those that are kept.
    asked = wishes(tmp_path, speculative_benchmark_draft_lengths=[2, "off"], speculative_benchmark_max_tokens=56)
    running = playbook.Background(tmp_path / "log", "benchmark", "-e", json.dumps(asked))
    running.wait_for(lambda: (state(spark)["trial"] or {}).get("title") == "draft length 2")
    assert "has been running benchmark.yml for" in playbook.fail("single_eagle3").message
    # It goes on without its controller.
    running.kill()
    assert "a benchmark is running (draft length 2)" in playbook.fail("single_eagle3").message
    assert "draft length 2" in playbook.run("status").output
    assert "Ended the running job benchmark. Stopped." in playbook.succeed("stop").output
    assert spark.exec(["test", "-e", f"{DEPLOYMENT}/trial/lease.json"]).returncode != 0
    playbook.succeed("start")
    wait_until_it_serves_its_own(spark)

# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a second run asks; a sweep whose drafts pay, though the controller dies, and its winner.

The order of the tests is the story.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests import costs, playbook
from tests.measured import (
    DEPLOYMENT,
    DRAFTS_WIN,
    POINTS,
    SMALL,
    container,
    draft_length_served,
    points,
    state,
    truth,
    wishes,
)
from tests.twin.control import Spark

pytest_plugins = ["tests.scenario"]

# What is between the engine and who measures it: a machine that does other things hands tokens over late.
LATE = 0.1
# The lease is one of them. It may fall.
CALLS = 6


def test_a_second_run_calls_the_spark_no_more_often_than_it_did() -> None:
    calls = costs.remote_calls("single_eagle3")
    assert len(calls) <= CALLS, calls


def test_neither_it_nor_a_preflight_takes_longer_than_some_tasks_that_do_nothing() -> None:
    assert not costs.slow("single_eagle3", "preflight")


def test_it_asks_before_it_takes_the_endpoint_down(spark: Spark, tmp_path: Path) -> None:
    before = container(spark)["State"]["StartedAt"]
    refused = playbook.fail("benchmark", variables=wishes(tmp_path, yes=False))
    assert "-e yes=true" in refused.message
    text = " ".join(refused.output.split())
    assert "off, 1, 2, 3, 5, and at 4, 8 " in text
    assert "6 to 8 times" in text
    assert container(spark)["State"]["StartedAt"] == before


def test_what_cannot_be_measured_is_told_before_anything_is_changed(spark: Spark, tmp_path: Path) -> None:
    before = state(spark)
    prompts = tmp_path / "prompts.jsonl"
    prompts.write_text('{"prompt": "Why?"}\n{"prompt": 5}\n', encoding="utf-8")
    asked = {"speculative_benchmark_draft_lengths": ["off", "long"], "speculative_benchmark_compare_with": str(prompts)}
    assert "'long'" in playbook.fail("benchmark", variables={**SMALL, **asked}).message
    asked = {"speculative_benchmark_prompts": str(prompts)}
    told = playbook.fail("benchmark", variables=wishes(tmp_path, **asked)).message
    assert f"{prompts} cannot be used: - line 2: 'prompt' " in told
    asked = {"speculative_benchmark_compare_with": str(prompts)}
    assert str(prompts) in playbook.fail("benchmark", variables=wishes(tmp_path, **asked)).message
    prompts.write_text(json.dumps({"id": "book", "prompt": "word " * 140_000}) + "\n", encoding="utf-8")
    asked = {"speculative_benchmark_prompts": str(prompts)}
    assert "book" in playbook.fail("benchmark", variables=wishes(tmp_path, **asked)).message
    assert state(spark)["pid"] == before["pid"]
    assert spark.exec(["ls", "-A", f"{DEPLOYMENT}/trial"]).stdout == ""
    assert not (tmp_path / "report.json").exists()


@pytest.mark.parametrize("engine", [DRAFTS_WIN], indirect=True)
def test_drafts_that_pay_are_chosen_though_the_controller_dies(engine: None, spark: Spark, tmp_path: Path) -> None:
    before = container(spark)["Id"]
    options = spark.read_file(f"{spark.mounted()}/options.yml")
    asked = wishes(tmp_path)
    running = playbook.Background(tmp_path / "log", "benchmark", "-e", json.dumps(asked))
    running.wait_for(lambda: spark.exec(["test", "-e", f"{POINTS}/off.json"]).returncode == 0)
    running.kill()

    outcome = playbook.succeed("benchmark", variables=asked)
    assert "attached to it" in outcome.output
    report = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    measured = points(report)
    assert list(measured) == ["off", "1", "2", "3", "5"]
    assert [skipped["id"] for skipped in report["skipped"]] == ["4", "8"]
    for point in measured.values():
        assert point["error"] is None
        known = truth(spark, point["draft_length"], point["samples"])
        assert point["tokens_per_second"]["mean"] == pytest.approx(known["tokens_per_second"], rel=LATE)
        if point["draft_length"]:
            assert point["acceptance_length"]["mean"] == pytest.approx(known["acceptance_length"], rel=0.03)
            # Drafts change nothing of what is said.
            assert point["identical"]["same"] == point["identical"]["compared"] > 0

    speeds = {name: truth(spark, point["draft_length"], point["samples"]) for name, point in measured.items()}
    fastest = max(speeds, key=lambda name: speeds[name]["tokens_per_second"])
    verdict = report["verdict"]
    assert verdict["kind"] == "use"
    # Of two that are as fast the shorter one is chosen.
    chosen = speeds[str(verdict["draft_length"])]["tokens_per_second"]
    assert chosen == pytest.approx(speeds[fastest]["tokens_per_second"], rel=LATE)
    assert verdict["sentence"] in " ".join(outcome.output.split())
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "<svg" in page
    assert spark.address not in page

    # As it was.
    assert container(spark)["Id"] == before
    assert spark.read_file(f"{spark.mounted()}/options.yml") == options
    assert state(spark)["trial"] is None
    assert draft_length_served(spark) == 5


@pytest.mark.parametrize("engine", [DRAFTS_WIN], indirect=True)
def test_the_winner_serves_if_asked_and_stays_until_something_changes(
    engine: None, spark: Spark, tmp_path: Path
) -> None:
    kept = spark.exec(f"stat -c '%n %Y' {POINTS}/*").stdout
    assert "5.json" in kept
    outcome = playbook.succeed("benchmark", variables=wishes(tmp_path, apply=True))
    assert spark.exec(f"stat -c '%n %Y' {POINTS}/*").stdout == kept, "a finished point was measured again"
    best = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))["verdict"]["draft_length"]
    assert json.loads(spark.read_file(f"{DEPLOYMENT}/record.json"))["draft_length"] == best
    assert draft_length_served(spark) == best
    assert f"with EAGLE-3, draft length {best}" in outcome.output
    assert "By the benchmark of " in outcome.output
    assert playbook.succeed("single_eagle3").changed == []
    # What a person says is stronger.
    changes = playbook.succeed("single_eagle3", "--check", "-e", "speculative_serve_use_benchmark=false").changed
    assert "Run the container" in changes

# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import collections
import os
import pathlib
import subprocess
import sys
import threading

import pytest

from tests.unit.waiting import WITHIN_S, until
from tools import test

SCENARIOS = {path.parent.name for path in test.ROOT.glob("molecule/*/molecule.yml")} - {"default"}
SYSTEM = {path.parent.name for path in test.ROOT.glob("tests/system/*/test_*.py")}
ENGINES = {"rejected_by_vllm", "single_vllm", "two_sparks_vllm", "four_sparks_vllm"}
FAULTS = SYSTEM - ENGINES


@pytest.fixture(autouse=True)
def _logs(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(test, "LOGS", tmp_path)


def run_of(*scripts: str) -> test.Run:
    stages = [test.Stage(f"stage {number}", ("sh", "-c", script)) for number, script in enumerate(scripts)]
    return test.Run(collections.deque(stages))


def test_the_order_names_no_scenario_that_is_gone() -> None:
    assert set(test.LONGEST_FIRST) <= SCENARIOS | set(test.CORE)
    assert set(test.FAULTS_LONGEST_FIRST) <= FAULTS


def test_what_is_chosen_of_the_faults_is_there_and_no_scenario() -> None:
    for name in test.CORE:
        assert (test.ROOT / "tests/system" / name).exists()
    assert not set(test.CORE) & SCENARIOS


def test_the_faults_are_a_queue_of_their_own() -> None:
    assert {stage.name for stage in test.stages(["faults"])} == {"golden files", *(f"faults {name}" for name in FAULTS)}
    golden, first, second = test.queue_of_faults(["faults", "new"])
    assert golden.command[-1] == "tests/golden"
    assert first.name == "faults new"
    assert second.command[-1] == "tests/system/faults"
    with pytest.raises(SystemExit, match="There is no fault to test"):
        test.stages(["fault"])


def test_a_scenario_of_unknown_length_goes_first_and_the_checks_beside_it() -> None:
    names = [stage.name for stage in test.queue_of(["exposed", "two_sparks", "new", "day_two"], ["secrets"])]
    assert names == [
        *("molecule new", "lint", "units", "sanity", "build"),
        *("molecule two_sparks", "molecule day_two", "molecule exposed", "faults secrets"),
    ]


def test_a_failed_stage_keeps_no_other_from_running(capsys: pytest.CaptureFixture[str]) -> None:
    run = run_of("echo one; exit 3", "echo two $TWIN", "echo three")
    run.lanes()
    assert {result.name: result.passed for result in run.results} == {
        "stage 0": False,
        "stage 1": True,
        "stage 2": True,
    }
    printed = capsys.readouterr().out
    assert "==> stage 0\none\n" in printed
    assert "two a" in printed or "two b" in printed
    text = test.summary(run.results, 7)
    assert "Failed:\n     0 s  FAILED  stage 0\n           one\n" in text
    assert text.endswith("2 passed, 1 failed")


def test_stop_ends_what_has_left_its_process_group(tmp_path: pathlib.Path) -> None:
    # A stage that minds no signal, and what it started in a session of its own.
    script = f"trap '' TERM; setsid sh -c \"echo \\$\\$ >{tmp_path}/pid; exec sleep 600\" & sleep 600 & wait; sleep 600"
    run = run_of(script, "true")
    run.mark = f"{test.MARK}={os.getpid()}-{tmp_path.name}"
    lanes = threading.Thread(target=run.lanes)
    lanes.start()
    until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text().strip())
    assert test.marked(run.mark)
    run.stop()
    lanes.join(WITHIN_S)
    assert not lanes.is_alive()
    assert not test.marked(run.mark)
    assert [result.name for result in run.results] == ["stage 1"]


def test_the_twin_of_a_lane_shares_only_what_all_share() -> None:
    script = "from tests.twin import keys, names as n; print(n.CACHE, keys.SSH_KEY, n.BASE_IMAGE); print("
    script += "n.STATE, n.SUBNET, n.INTERNET, n.REGISTRY_VOLUME, n.spark_name(1), n.spark_address(2), n.NEIGHBOUR)"

    def told(twin: str) -> list[list[str]]:
        done = subprocess.run(
            [sys.executable, "-c", script],
            cwd=test.ROOT,
            env={**os.environ, "TWIN": twin},
            capture_output=True,
            text=True,
            check=True,
        )
        return [line.split() for line in done.stdout.splitlines()]

    shared, own = told("")
    shared_b, own_b = told("b")
    assert shared == shared_b
    assert not set(own) & set(own_b)
    with pytest.raises(subprocess.CalledProcessError):
        told("ab")

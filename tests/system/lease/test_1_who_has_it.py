# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One lease per Spark: who has it, for how long, and who gets it next, whatever happens to the controller."""

from __future__ import annotations

import os
import re
import signal
import time
import typing as t
from pathlib import Path

import pytest

from tests import playbook
from tests.lease import asleep, holder, until
from tests.twin.control import Spark

HOLD = str(Path(__file__).with_name("hold.yml").with_suffix(""))
ONE = ("--limit", "spark-1")
# Longer than a lease that nobody renews.
AWAY_S = 50

Start = t.Callable[..., playbook.Background]


@pytest.fixture(name="sparks", scope="module")
def fixture_sparks() -> list[Spark]:
    return [Spark(1), Spark(2)]


@pytest.fixture(name="start")
def fixture_start(tmp_path: Path) -> t.Iterator[Start]:
    """Begin a run that has the Sparks for a while."""
    runs: list[playbook.Background] = []

    def start(seconds: int, *arguments: str) -> playbook.Background:
        log = tmp_path / f"{len(runs)}.log"
        runs.append(playbook.Background(log, HOLD, "-e", f"seconds={seconds}", *arguments))
        return runs[-1]

    yield start
    for run in runs:
        if run.process.poll() is None:
            run.kill()


def begun(run: playbook.Background) -> None:
    """Its first Spark is busy; a task is only printed when it has ended."""
    (seconds,) = re.findall(r"seconds=(\d+)", " ".join(run.process.args))  # type: ignore[arg-type]
    run.wait_for(lambda: Spark(1).exec(["pgrep", "-f", f"^timeout {seconds} "]).returncode == 0)


def ends(run: playbook.Background) -> str:
    """What it has printed, if it ended well."""
    code, output = run.process.wait(timeout=180), run.log.read_text("utf-8")
    assert code == 0, output
    return output


def test_all_or_none_and_who_waits_has_none(sparks: list[Spark], start: Start) -> None:
    first = start(300, *ONE)
    begun(first)
    for further in ([], ["-e", "ansible_user=member"]):
        refused = playbook.fail(HOLD, *further, variables={"seconds": 0})
        assert "has been running hold.yml for" in refused.message
        assert "Nothing was changed." in refused.message
        assert refused.changed == []
    until(lambda: holder(sparks[1]) is None, 5)
    second = start(0, "-e", "wait_minutes=3")
    second.wait_for(lambda: "spark-1 | waits: " in second.log.read_text("utf-8"))
    until(lambda: holder(sparks[1]) is None, 5)
    assert first.process.poll() is None
    sparks[0].exec(["touch", "/tmp/go"])
    ends(first)
    sparks[0].exec(["rm", "/tmp/go"])
    ends(second)
    until(lambda: [holder(spark) for spark in sparks] == [None, None], 5)


def test_of_two_that_wait_for_the_same_both_get_it(start: Start) -> None:
    runs = [start(15)]
    begun(runs[0])
    runs += [start(1, "-e", "wait_minutes=4") for _run in range(2)]
    for run in runs:
        ends(run)


def test_it_is_renewed_beside_a_long_task_and_on_a_spark_without_one(
    sparks: list[Spark], tmp_path: Path, start: Start
) -> None:
    # With a password instead of a key, over a connection that is not there yet.
    options = f"ansible_password=twin ansible_ssh_private_key_file='' ansible_control_path_dir={tmp_path}"
    run = start(AWAY_S + 5, "-e", options)
    begun(run)
    owner = [(holder(spark) or {})["owner"] for spark in sparks]
    end = time.monotonic() + AWAY_S
    while time.monotonic() < end:
        assert [(holder(spark) or {}).get("owner") for spark in sparks] == owner
        time.sleep(2)
    ends(run)
    until(lambda: [holder(spark) for spark in sparks] == [None, None], 5)


@pytest.mark.parametrize(("kill", "seconds"), [(os.kill, 12), (os.killpg, 13)])
def test_a_controller_that_is_killed_has_it_no_more_when_what_it_had_begun_has_ended(
    sparks: list[Spark], start: Start, kill: t.Callable[[int, int], None], seconds: int
) -> None:
    run = start(seconds)
    begun(run)
    assert None not in [holder(spark) for spark in sparks]
    kill(run.process.pid, signal.SIGKILL)
    run.process.wait()
    until(lambda: holder(sparks[1]) is None, 5)
    until(lambda: holder(sparks[0]) is None, seconds + 10)
    assert sparks[0].exec(["pgrep", "-f", f"^timeout {seconds} "]).returncode != 0


def test_a_laptop_that_slept_goes_on_if_nobody_came(sparks: list[Spark], start: Start) -> None:
    run = start(3)
    begun(run)
    with asleep(run):
        time.sleep(AWAY_S)
        assert holder(sparks[0]) is None
    ends(run)


def test_a_laptop_that_slept_changes_nothing_more_if_somebody_came(sparks: list[Spark], start: Start) -> None:
    run = start(3)
    begun(run)
    with asleep(run):
        until(lambda: holder(sparks[0]) is None, AWAY_S)
        playbook.succeed(HOLD, *ONE, variables={"seconds": 0})
        until(lambda: holder(sparks[0]) is None, 5)
        sparks[0].exec(["rm", "/tmp/changed"])
    assert run.process.wait(timeout=60) != 0
    output = " ".join(run.log.read_text("utf-8").split())
    assert "spark-1: this run lost its lease" in output
    assert sparks[0].exec(["test", "-e", "/tmp/changed"]).returncode != 0


def test_a_network_that_was_away_for_a_while(sparks: list[Spark], start: Start) -> None:
    run = start(3)
    begun(run)
    rule = "INPUT -p tcp --dport 22 -j DROP"
    assert sparks[0].exec(f"iptables -I {rule}").returncode == 0
    try:
        until(lambda: holder(sparks[0]) is None, AWAY_S + 10)
        assert holder(sparks[1]) is not None
    finally:
        sparks[0].exec(f"iptables -D {rule}")
    ends(run)


def test_a_spark_that_was_restarted_is_free(sparks: list[Spark], start: Start) -> None:
    run = start(30)
    begun(run)
    sparks[0].power_cut()
    assert holder(sparks[0]) is None
    assert run.process.wait(timeout=120) != 0
    until(lambda: holder(sparks[1]) is None, 30)
    playbook.succeed(HOLD, variables={"seconds": 0})


def test_who_takes_over_waits_for_what_has_begun(sparks: list[Spark], start: Start) -> None:
    run = start(25)
    begun(run)
    sparks[0].exec(["rm", "-f", "/tmp/changed"])
    playbook.succeed("stop", *ONE)
    # The task that had begun has ended, and none has followed.
    assert sparks[0].exec(["pgrep", "-f", "^timeout 25 "]).returncode != 0
    assert run.process.wait(timeout=60) != 0
    output = " ".join(run.log.read_text("utf-8").split())
    assert "has been running stop.yml for" in output
    assert sparks[0].exec(["test", "-e", "/tmp/changed"]).returncode != 0

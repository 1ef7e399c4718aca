# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A run that replaces what serves is cut off: what was proven serves again, with no command from outside."""

from __future__ import annotations

import json
import typing as t
from pathlib import Path

import pytest

from tests import playbook
from tests.deployed import HOME, SLOT, Deployed
from tests.lease import holder, until
from tests.slot import containers, has_standby, loads
from tests.twin.control import Spark

pytest_plugins = ["tests.scenario"]

PROVEN, TRIED = 3, 4


@pytest.fixture(scope="module", autouse=True)
def serving(new_sparks: t.Callable[..., None]) -> None:
    """One that serves with three drafts."""
    new_sparks(1)
    playbook.succeed("single_eagle3", variables={"speculative_serve_draft_length": PROVEN})


def serves(deployed: Deployed, draft_length: int) -> None:
    """What is recorded, labelled and mounted is the same, and answers; nothing is left of the other one."""
    deployed.wait_until_it_answers(180)
    assert deployed.record()["draft_length"] == draft_length
    assert deployed.options()["speculative_config"]["max_draft_len"] == draft_length
    labels = deployed.inspect()["Config"]["Labels"]
    assert deployed.record()["container"]["labels"].items() <= labels.items()
    assert containers(deployed.spark) == {SLOT: (True, "unless-stopped")}


def replacing(tmp_path: Path) -> playbook.Background:
    return playbook.Background(tmp_path / "log", "single_eagle3", "-e", f"speculative_serve_draft_length={TRIED}")


MOMENTS = [("while it is on standby", has_standby), ("while the other one loads", loads)]


@pytest.mark.parametrize(("moment", "reached"), MOMENTS, ids=[moment for moment, _reached in MOMENTS])
@pytest.mark.parametrize("cut", ["power", "controller", "both"])
def test_cut_off(
    spark: Spark,
    deployed: Deployed,
    tmp_path: Path,
    moment: str,
    reached: t.Callable[[Spark], bool],
    cut: str,
) -> None:
    with spark.gpu(seconds_per_gb=0.5):
        run = replacing(tmp_path)
        run.wait_for(lambda: reached(spark))
        if cut == "controller":
            run.kill()
        else:
            if cut == "both":
                run.kill()
            spark.power_cut()
            # The run itself goes back, if it finds its Spark again, or tells what it has lost.
            if cut == "power":
                assert run.process.wait(timeout=600) != 0
    if cut == "controller":
        until(lambda: not has_standby(spark), 240)
    else:
        # It serves, although under its other name: whoever looks finds it, and is told.
        deployed.wait_until_it_answers(180)
        status = tmp_path / "status.json"
        playbook.succeed("status", variables={"json": str(status)})
        told = json.loads(status.read_text("utf-8"))["spark-1"]
        assert told["state"] == "ready", told
        assert told["draft_length"] == PROVEN
        assert [finding["id"] for finding in told["findings"]] == ["put_aside"] * has_standby(spark)
        # Looking finishes nothing.
        before = containers(spark)
        assert playbook.succeed("preflight").changed == []
        assert containers(spark) == before
    deployed.wait_until_it_answers(180)
    # Whatever was left is finished by the next run, and that changes nothing of what serves.
    playbook.succeed("start")
    serves(deployed, PROVEN)
    assert holder(spark) is None


def test_docker_restarted_in_between(spark: Spark, deployed: Deployed, tmp_path: Path) -> None:
    with spark.gpu(seconds_per_gb=0.5):
        run = replacing(tmp_path)
        run.wait_for(lambda: loads(spark))
        spark.exec(["systemctl", "restart", "docker"])
        assert run.process.wait(timeout=600) != 0
    # Docker has started again what was put aside, which answers in the place of the other one.
    output = " ".join(run.log.read_text("utf-8").split())
    assert "Docker or the Spark restarted" in output
    until(lambda: not has_standby(spark), 60)
    serves(deployed, PROVEN)


def test_stopped_in_between_it_stays_stopped_and_start_serves_what_was_proven(
    spark: Spark, deployed: Deployed, tmp_path: Path
) -> None:
    with spark.gpu(seconds_per_gb=1.5):
        run = replacing(tmp_path)
        run.wait_for(lambda: loads(spark))
        playbook.succeed("stop")
        assert run.process.wait(timeout=120) != 0
    assert containers(spark) == {SLOT: (False, "no")}
    spark.power_cut()
    assert containers(spark) == {SLOT: (False, "no")}
    playbook.succeed("start")
    serves(deployed, PROVEN)


def test_the_way_back_and_forth(spark: Spark, deployed: Deployed) -> None:
    playbook.succeed("single_eagle3", variables={"speculative_serve_draft_length": TRIED})
    serves(deployed, TRIED)
    playbook.succeed("serve", variables={"previous": True})
    serves(deployed, PROVEN)
    assert playbook.succeed("single_eagle3", variables={"speculative_serve_draft_length": PROVEN}).changed == []
    # One that does not come up, on the way back, too.
    with spark.fault(die_while_loading="RuntimeError: no."):
        outcome = playbook.fail("serve", variables={"previous": True})
    assert "could not be started again either" in outcome.message
    playbook.succeed("start")
    serves(deployed, PROVEN)


def test_cleaned_up_in_between_nothing_is_left(spark: Spark, deployed: Deployed, tmp_path: Path) -> None:
    with spark.gpu(seconds_per_gb=1.5):
        run = replacing(tmp_path)
        run.wait_for(lambda: loads(spark))
        playbook.succeed("cleanup")
        assert run.process.wait(timeout=120) != 0
    assert containers(spark) == {}
    assert spark.exec(["test", "-e", f"{HOME}/single_eagle3"]).returncode != 0
    assert spark.exec("pgrep -f 'jobs/[s]tandby'").returncode != 0

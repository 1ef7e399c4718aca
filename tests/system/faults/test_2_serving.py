# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What goes wrong with the server. A good deployment is there at first, and must be there at the end."""

from __future__ import annotations

import itertools
import json
import time
import typing as t

import pytest

from tests import playbook
from tests.twin.control import Spark

pytest_plugins = ["tests.scenario"]

HOME = "/home/spark/.local/share/dgx-spark-speculative"
SLOT = "dgx-spark-speculative"
# Each test deploys another configuration than the one before.
LENGTHS = itertools.cycle([2, 3, 4])


@pytest.fixture
def other() -> dict[str, t.Any]:
    return {"speculative_serve_draft_length": next(LENGTHS)}


@pytest.fixture(autouse=True)
def something_good_serves_at_the_end(spark: Spark) -> t.Iterator[None]:
    yield
    assert spark.exec("curl -sf --max-time 5 http://127.0.0.1:8000/v1/models").returncode == 0


def record(spark: Spark) -> dict[str, t.Any]:
    return dict(json.loads(spark.read_file(f"{HOME}/single_eagle3/record.json")))


@pytest.mark.parametrize(
    ("fault", "finding"),
    [({"nonsense": True}, "garbage"), ({"no_tool_calls": True}, "no_tool_call")],
)
def test_a_server_that_answers_badly_stays_and_the_findings_are_told(
    spark: Spark, other: dict[str, t.Any], fault: dict[str, t.Any], finding: str
) -> None:
    with spark.fault(**fault):
        outcome = playbook.succeed("single_eagle3", variables=other)
    assert record(spark)["outcome"] == "serving with findings"
    found = {one["id"]: one["message"] for one in record(spark)["findings"]}
    assert {
        "garbage": {"garbage", "wrong_answer", "unfinished"},
        "no_tool_call": {"no_tool_call"},
    }[finding] & set(found)
    assert "Findings:" in outcome.output


def test_an_error_inside_a_stream_under_http_200(spark: Spark, other: dict[str, t.Any]) -> None:
    with spark.fault(error_in_stream=True):
        outcome = playbook.run("single_eagle3", variables=other)
    assert outcome.code != 0
    assert "answered 200" in outcome.message
    assert "then failed" in outcome.message
    playbook.succeed("single_eagle3")


def test_a_server_that_hangs_is_started_again(spark: Spark, other: dict[str, t.Any]) -> None:
    quick = {**other, "speculative_serve_probe_interval_s": 2, "speculative_serve_stall_timeout_s": 4}
    playbook.succeed("single_eagle3", variables=quick)
    with spark.fault(hang_after_requests=0):
        wait_for(spark, lambda state: state["restarts"] >= 1)
        assert state(spark)["last_exit"]["by"] == "watchdog"
    wait_for(spark, lambda state: state["state"] == "running" and state["verdict"] == "answering")
    assert "no token came for 4 s" in spark.read_file(f"{HOME}/single_eagle3/state/server.log")


def test_a_crash_loop_ends_and_says_so(spark: Spark) -> None:
    with spark.fault(die_while_loading="RuntimeError: CUDA error: an illegal instruction was encountered"):
        spark.exec(["docker", "exec", SLOT, "bash", "-c", f"kill -9 {state(spark)['pid']}"])
        wait_for(spark, lambda state: state["state"] == "failed")
        health = spark.exec(["docker", "exec", SLOT, "python3", "/deployment/entrypoint.py", "health"])
        assert health.returncode == 1
        assert "illegal instruction" in playbook.succeed("diagnose").output
    assert playbook.succeed("single_eagle3").tasks("changed") != []


def test_a_disk_without_room_for_the_records_ends_a_run_before_a_server_is_stopped(
    spark: Spark, other: dict[str, t.Any]
) -> None:
    playbook.succeed("single_eagle3")
    playbook.succeed("stop")
    spark.exec(["cp", "-a", HOME, "/root/kept"])
    spark.exec(f"mount -t tmpfs -o size=12m,uid=1000,gid=1000,mode=700 tmpfs {HOME} && cp -a /root/kept/. {HOME}")
    playbook.succeed("start")
    before = started(spark)
    # There is room for the files of the new deployment, and not for its record.
    size = len(json.dumps(record(spark), indent=4))
    spark.exec(f"dd if=/dev/zero of={HOME}/filler bs=4k; truncate --size=-{2 * size + 100_000} {HOME}/filler")
    outcome = playbook.run("single_eagle3", variables=other)
    assert outcome.code != 0
    assert "No space left" in outcome.output
    assert "No server was stopped." in " ".join(outcome.output.split())
    assert started(spark) == before
    # What it has reserved is enough for the rest, however full the disk is by then.
    spark.exec(["truncate", f"--size=-{2 * size}", f"{HOME}/filler"])
    playbook.succeed("single_eagle3", variables=other)
    assert record(spark)["draft_length"] == other["speculative_serve_draft_length"]
    assert spark.exec(f"ls -A {HOME} {HOME}/single_eagle3 | grep -F .draft-").returncode != 0
    playbook.succeed("stop")
    spark.exec(f"rm {HOME}/filler; cp -a {HOME}/. /root/kept && umount {HOME} && cp -a /root/kept/. {HOME}")
    playbook.succeed("start")


def started(spark: Spark) -> str:
    return spark.exec(["docker", "inspect", "--format", "{{.Id}} {{.State.StartedAt}}", SLOT]).stdout


def state(spark: Spark) -> dict[str, t.Any]:
    return dict(json.loads(spark.read_file(f"{HOME}/single_eagle3/state/state.json")))


def wait_for(spark: Spark, condition: t.Callable[[dict[str, t.Any]], bool], seconds: float = 120) -> None:
    deadline = time.monotonic() + seconds
    while not condition(state(spark)):
        assert time.monotonic() < deadline, state(spark)
        time.sleep(0.3)

# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the engine itself saw while it was measured, for the tests that hold a benchmark against it."""

from __future__ import annotations

import contextlib
import json
import statistics
import time
import typing as t
from pathlib import Path

import pytest

from tests.twin.control import Spark

HOME = "/home/spark/.local/share/dgx-spark-speculative"
DEPLOYMENT = f"{HOME}/single_eagle3"
POINTS = f"{HOME}/benchmark/single_eagle3/points"
SLOT = "dgx-spark-speculative"
# Everything of a sweep, in little time.
SMALL = {
    "speculative_benchmark_max_tokens": 64,
    "speculative_benchmark_repetitions": 1,
    "speculative_benchmark_warmup": 1,
    "speculative_benchmark_lease_s": 30,
    "yes": True,
}
# A second draft is mostly right, and a third one costs more than it brings.
DRAFTS_WIN = {"pass_ms": 12, "draft_ms": 4}
DRAFTS_LOSE = {"pass_ms": 12, "draft_ms": 6, "draft_errors": 0.8}


def state(spark: Spark) -> dict[str, t.Any]:
    return dict(json.loads(spark.read_file(f"{DEPLOYMENT}/state/state.json")))


def container(spark: Spark) -> dict[str, t.Any]:
    return dict(json.loads(spark.exec(["docker", "inspect", SLOT]).stdout)[0])


def wait_until(condition: t.Callable[[], bool], spark: Spark, seconds: float = 300) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, (state(spark), spark.exec(["docker", "logs", "--tail", "20", SLOT]))
        time.sleep(0.3)


def wait_until_it_serves_its_own(spark: Spark) -> None:
    def serves() -> bool:
        with contextlib.suppress(OSError, ValueError, KeyError):
            seen = state(spark)
            return seen["state"] == "running" and seen["trial"] is None
        return False

    wait_until(serves, spark)


def restart(spark: Spark) -> None:
    assert spark.exec(["docker", "restart", SLOT]).returncode == 0
    wait_until_it_serves_its_own(spark)


@pytest.fixture(scope="module")
def engine(spark: Spark, request: pytest.FixtureRequest) -> t.Iterator[None]:
    """Servers with this truth; they read it when their container starts."""
    with spark.gpu(**request.param):
        restart(spark)
        yield
    restart(spark)


def draft_length_served(spark: Spark) -> int:
    """What the server that runs says of itself, not what a file says."""
    question = json.dumps({"model": "gpt-oss-120b", "prompt": "1, 2, 3,", "max_tokens": 4})
    ask = ["curl", "-sf", "--max-time", "20", "-H", "Content-Type: application/json", "-d", question]
    assert spark.exec([*ask, "http://127.0.0.1:8000/v1/completions"]).returncode == 0
    return int(diary(spark)[-1]["draft_length"])


def diary(spark: Spark) -> list[dict[str, t.Any]]:
    """What the engine itself saw of each request."""
    lines = spark.exec(["docker", "exec", SLOT, "cat", "/tmp/standin-requests.jsonl"]).stdout.splitlines()
    return [json.loads(line) for line in lines]


def truth(spark: Spark, draft_length: int, samples: int) -> dict[str, float]:
    """Speed and acceptance of the last requests at a draft length; the first ones warm up."""
    seen = [entry for entry in diary(spark) if entry["draft_length"] == draft_length and entry["tokens"] > 1]
    last = seen[-samples:]
    assert len(last) == samples
    return {
        "tokens": sum(entry["tokens"] for entry in last),
        "tokens_per_second": statistics.mean(
            (entry["tokens"] - 1) / entry["seconds_of_later_passes"] for entry in last
        ),
        "acceptance_length": statistics.mean(entry["made_by_later_passes"] / entry["later_passes"] for entry in last),
    }


def wishes(tmp_path: Path, **more: t.Any) -> dict[str, t.Any]:
    paths = {f"speculative_benchmark_{kind}_path": str(tmp_path / f"report.{kind}") for kind in ("html", "json")}
    return {**SMALL, **paths, **more}


def points(report: t.Mapping[str, t.Any]) -> dict[str, dict[str, t.Any]]:
    return {point["id"]: point for point in report["points"]}

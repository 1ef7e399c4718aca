# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One sweep after the other on the same Spark: the order of the tests is the story."""

from __future__ import annotations

import contextlib
import json
import statistics
import time
import typing as t
from pathlib import Path

import pytest

from tests import playbook
from tests.twin.control import Spark

pytest_plugins = ["tests.scenario"]

HOME = "/home/spark/.local/share/dgx-spark-speculative"
DEPLOYMENT = f"{HOME}/single_eagle3"
POINTS = f"{HOME}/benchmark/single_eagle3/points"
SLOT = "dgx-spark-speculative"
# Everything of a sweep, in little time.
SMALL = {
    "speculative_benchmark_max_tokens": 64,
    "speculative_benchmark_repetitions": 1,
    "speculative_benchmark_warmup": 1,
    "speculative_benchmark_lease_s": 8,
    "yes": True,
}
# A second draft is mostly right, and a third one costs more than it brings.
DRAFTS_WIN = {"pass_ms": 12, "draft_ms": 4}
DRAFTS_LOSE = {"pass_ms": 12, "draft_ms": 6, "draft_errors": 0.8}


@pytest.fixture(scope="module", autouse=True)
def deployed(spark: Spark) -> None:
    playbook.succeed("single_eagle3")
    # Of an earlier run of these tests, with another truth.
    spark.exec(["rm", "-rf", f"{HOME}/benchmark"])


@pytest.fixture(scope="module")
def engine(spark: Spark, request: pytest.FixtureRequest) -> t.Iterator[None]:
    """Servers with this truth; they read it when their container starts."""
    with spark.gpu(**request.param):
        restart(spark)
        yield
    restart(spark)


def restart(spark: Spark) -> None:
    assert spark.exec(["docker", "restart", SLOT]).returncode == 0
    wait_until_it_serves_its_own(spark)


def state(spark: Spark) -> dict[str, t.Any]:
    return dict(json.loads(spark.read_file(f"{DEPLOYMENT}/state/state.json")))


def container(spark: Spark) -> dict[str, t.Any]:
    return dict(json.loads(spark.exec(["docker", "inspect", SLOT]).stdout)[0])


def wait_until(condition: t.Callable[[], bool], spark: Spark, seconds: float = 90) -> None:
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
    paths = {f"speculative_benchmark_{kind}": str(tmp_path / f"report.{kind}") for kind in ("html", "json")}
    return {**SMALL, **paths, **more}


def points(report: t.Mapping[str, t.Any]) -> dict[str, dict[str, t.Any]]:
    return {point["id"]: point for point in report["points"]}


def test_it_asks_before_it_takes_the_endpoint_down(spark: Spark, tmp_path: Path) -> None:
    before = container(spark)["State"]
    refused = playbook.fail("benchmark", variables=wishes(tmp_path, yes=False))
    assert "nothing was changed, since nobody said yes. For a run that does not ask add -e yes=true" in refused.message
    text = " ".join(refused.output.split())
    assert "spark-1 is measured at draft length off, 1, 2, 3, 5, and at 4, 8 while longer drafts gain" in text
    assert "The model is loaded 6 to 8 times" in text
    assert container(spark)["State"] == before


def test_what_cannot_be_measured_is_told_before_anything_is_changed(spark: Spark, tmp_path: Path) -> None:
    before = state(spark)
    prompts = tmp_path / "prompts.jsonl"
    prompts.write_text('{"prompt": "Why?"}\n{"prompt": 5}\n', encoding="utf-8")
    asked = {"speculative_benchmark_draft_lengths": ["off", "long"], "speculative_benchmark_compare_with": str(prompts)}
    assert "has 'long'; a draft length is a number" in playbook.fail("benchmark", variables={**SMALL, **asked}).message
    asked = {"speculative_benchmark_prompts": str(prompts)}
    told = playbook.fail("benchmark", variables=wishes(tmp_path, **asked)).message
    assert f"The prompts in {prompts} cannot be used: - line 2: 'prompt' must be a text that is not empty" in told
    asked = {"speculative_benchmark_compare_with": str(prompts)}
    assert str(prompts) in playbook.fail("benchmark", variables=wishes(tmp_path, **asked)).message
    prompts.write_text(json.dumps({"id": "book", "prompt": "word " * 140_000}) + "\n", encoding="utf-8")
    asked = {"speculative_benchmark_prompts": str(prompts)}
    assert "book" in playbook.fail("benchmark", variables=wishes(tmp_path, **asked)).message
    assert state(spark)["pid"] == before["pid"]
    assert spark.exec(["test", "-e", f"{DEPLOYMENT}/trial"]).returncode != 0
    assert not (tmp_path / "report.json").exists()


@pytest.mark.parametrize("engine", [DRAFTS_WIN], indirect=True)
def test_drafts_that_pay_are_chosen_though_the_controller_dies(engine: None, spark: Spark, tmp_path: Path) -> None:
    before = container(spark)["Id"]
    options = spark.read_file(f"{DEPLOYMENT}/options.yml")
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
        assert point["tokens_per_second"]["mean"] == pytest.approx(known["tokens_per_second"], rel=0.03)
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
    assert chosen == pytest.approx(speeds[fastest]["tokens_per_second"], rel=0.03)
    assert verdict["sentence"] in " ".join(outcome.output.split())
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "<svg" in page
    assert spark.address not in page

    # As it was.
    assert container(spark)["Id"] == before
    assert spark.read_file(f"{DEPLOYMENT}/options.yml") == options
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
    assert "Write the engine options" in changes


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
    refused = playbook.fail("single_eagle3").message
    assert "a benchmark is at work here (draft length 2)" in refused
    assert "draft length 2" in playbook.run("status").output
    playbook.succeed("stop")
    assert running.process.wait(timeout=60) != 0
    assert spark.exec(["test", "-e", f"{DEPLOYMENT}/trial/lease.json"]).returncode != 0
    playbook.succeed("start")
    wait_until_it_serves_its_own(spark)

# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import contextlib
import dataclasses
import errno
import json
import os
import re
import signal
import stat
import subprocess
import sys
import threading
import typing as t
from collections import Counter
from pathlib import Path
from unittest import mock

import pytest
from ansible_collections.dgx_spark.speculative.plugins.module_utils._server import completions
from ansible_collections.dgx_spark.speculative.plugins.module_utils._server.decoding import Decoding
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._jobs import sweep

from tests.unit.entrypoint_container import lease_until
from tests.unit.programs import standalone
from tests.unit.speculating_server import Engine, Entrypoint, SpeculatingServer
from tests.unit.waiting import WITHIN_S, until

PROMPT_FILE = Path(__file__).parents[5] / "roles/speculative_benchmark/files/prompts.jsonl"
MODEL = "gpt-oss-120b"
PROMPTS = [
    {"id": "chat-1", "category": "chat", "prompt": "Tell me about the light on the rock.", "optional": False},
    {"id": "code-1", "category": "code", "prompt": "def light(rock): # turn it on, and say so", "optional": False},
]


def point(draft_length: int, always: bool = True, **engine: t.Any) -> dict[str, t.Any]:
    options = dataclasses.asdict(Engine(draft_length=draft_length, **engine))
    name = str(draft_length) if draft_length else "off"
    return {
        "id": name,
        "draft_length": draft_length,
        "options": json.dumps(options),
        "fingerprint": f"print of {name}",
        "always": always,
    }


class Spark:
    """A deployment that serves, and what a benchmark of it comes to."""

    def __init__(self, directory: Path) -> None:
        self.deployment = directory / "deployment"
        self.results = directory / "results"
        self.server = SpeculatingServer()
        self.own = Engine(draft_length=5)
        self.entrypoint = Entrypoint(self.deployment, self.server, self.own)
        self.entrypoint.start()
        self.progress: list[dict[str, t.Any]] = []

    def close(self) -> None:
        self.entrypoint.over.set()
        self.server.close()

    def task(self, *points: dict[str, t.Any], **changes: t.Any) -> dict[str, t.Any]:
        return {
            "title": "a model",
            "deployment": str(self.deployment),
            "results": str(self.results),
            "url": self.server.url,
            "model": MODEL,
            "points": list(points),
            "prompts": PROMPTS,
            "max_tokens": 12,
            "repetitions": 1,
            "warmup": 0,
            "prompt_lengths": [],
            "lease_s": 20,
            "ready_timeout": 20,
            "answer_timeout": 10,
            "seconds_a_load": None,
            **changes,
        }

    def sweep(self, *points: dict[str, t.Any], **changes: t.Any) -> t.Any:
        """A sweep in this process."""
        text = json.dumps(self.task(*points, **changes))
        return sweep.Sweep(sweep.Task.read(text), lambda message: self.progress.append(message["progress"]))

    def run(self, *points: dict[str, t.Any], **changes: t.Any) -> dict[str, t.Any]:
        """What results.json says."""
        made = self.sweep(*points, **changes)
        try:
            result = made.run()
        finally:
            made.lease.release()
        return t.cast("dict[str, t.Any]", json.loads(Path(result["results"]).read_text()))

    def start(self, *points: dict[str, t.Any], **changes: t.Any) -> subprocess.Popen[str]:
        """The program as the module watched_job runs it."""
        process = subprocess.Popen(
            [sys.executable, "-u", str(standalone("sweep")), "what makes it another job"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert process.stdin is not None
        process.stdin.write(json.dumps(self.task(*points, **changes)))
        process.stdin.close()
        process.stdin = None
        return process

    def texts(self) -> list[str]:
        return [progress["text"] for progress in self.progress]

    def titles(self) -> list[str | None]:
        """What was served, one after the other."""
        return [trial["title"] if trial else None for trial in self.entrypoint.served]

    def serves(self, title: str) -> bool:
        return self.titles()[-1] == title and self.server.engine is not None

    def soon(self, title: str, then: t.Callable[[], t.Any]) -> threading.Thread:
        """Do something as soon as a trial's server answers."""

        def act() -> None:
            until(lambda: self.serves(title))
            then()

        thread = threading.Thread(target=act)
        thread.start()
        return thread

    @property
    def is_restored(self) -> bool:
        return self.server.engine is self.own and not list((self.deployment / "trial").glob("*"))


@pytest.fixture(name="spark")
def fixture_spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> t.Iterator[Spark]:
    monkeypatch.setattr(sweep, "POLL_S", 0.01)
    spark = Spark(tmp_path)
    yield spark
    spark.close()


def messages(output: str) -> list[dict[str, t.Any]]:
    return [json.loads(line) for line in output.splitlines()]


def by_id(results: dict[str, t.Any]) -> dict[str, dict[str, t.Any]]:
    return {found["id"]: found for found in results["points"]}


# The whole program


def test_it_measures_what_the_server_did(spark: Spark) -> None:
    points = [point(0, pass_s=0.01), point(3, pass_s=0.025, load_s=0.4)]
    process = spark.start(*points, max_tokens=40, repetitions=2, warmup=1, prompt_lengths=[500])
    output, errors = process.communicate(timeout=WITHIN_S)
    said = messages(output)
    assert process.returncode == 0, output + errors
    results = json.loads((spark.results / "results.json").read_text())
    assert said[-1]["result"]["restored"] is True
    assert said[-1]["result"]["results"] == str(spark.results / "results.json")
    assert (results["schema"], results["version"], results["restored"]) == (1, "1.3.0rc12", True)
    assert (results["left_out"], results["skipped"]) == ([], [])

    off, three = by_id(results)["off"], by_id(results)["3"]
    prompts = {prompt["id"]: prompt["prompt"] for prompt in PROMPTS}
    for found in (off, three):
        truth = [a for a in spark.server.answered if a.draft_length == found["draft_length"] and a.max_tokens == 40]
        # The first answer warms up, and with another text than those that are measured.
        assert truth[0].prompt not in prompts.values()
        asked = [(sample["prompt"], sample["repetition"]) for sample in found["samples"]]
        assert asked == [("chat-1", 0), ("code-1", 0), ("chat-1", 1), ("code-1", 1)]
        for sample, answer in zip(found["samples"], truth[1:], strict=True):
            assert prompts[sample["prompt"]] == answer.prompt
            assert [sample["first_tokens"], *sample["pass_tokens"]] == answer.passes
            assert sample["tokens_per_pass"] == pytest.approx(40 / len(answer.passes))
            assert sum(sample["pass_seconds"]) == pytest.approx(sample["decode_s"], abs=1e-4)
            assert (sample["text"] is None) == (sample["repetition"] == 1)
            assert sample["prompt_tokens"] == len(answer.prompt) // 4
        # This machine may be too busy for most of them; what is measured wrong is wrong each time.
        true_speeds = [sum(answer.passes[1:]) / answer.seconds for answer in truth[1:]]
        ratios = [
            (Decoding.of(sample).speed or 0) / true for sample, true in zip(found["samples"], true_speeds, strict=True)
        ]
        assert min(ratios, key=lambda ratio: abs(ratio - 1)) == pytest.approx(1, abs=0.03)
        assert found["error"] is None
        assert 0 < found["loading_s"] < found["seconds"]
        assert found["memory_available"] > 1_000_000
    # Of three drafts the server accepts 2, 0, 3, 1 and again: 2.5 tokens a pass.
    assert sum(sum(s["pass_tokens"]) for s in three["samples"]) / sum(
        len(s["pass_tokens"]) for s in three["samples"]
    ) == pytest.approx(2.5, rel=0.03)
    assert off["samples"][0]["pass_tokens"] == [1] * 39
    assert off["samples"][0]["text"].split() == three["samples"][0]["text"].split()
    (length,) = three["lengths"]
    assert length["asked_tokens"] == 500
    assert length["prompt_tokens"] == pytest.approx(500, rel=0.1)
    assert length["ttft_s"] > 0

    assert spark.titles() == [None, "without speculation", "draft length 3", None]
    texts = [message["progress"]["text"] for message in said if "progress" in message]
    assert any(re.fullmatch(r"about \d+ s left; draft length 3 \(point 2 of 2\): loading, 0 s", text) for text in texts)
    figures = r"\d+\.\d tokens/s so far, without speculation \d+\.\d"
    pattern = rf"about \d+ s left; draft length 3 \(2 of 2\): prompt 4 of 4, {figures}"
    assert any(re.match(pattern, text) for text in texts), texts
    percents = [message["progress"]["percent"] for message in said if "progress" in message]
    assert 50 < [percent for percent in percents if percent is not None][-1] <= 100
    assert spark.is_restored


def test_a_signal_before_the_lease_is_kept_takes_it_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threading.Thread, "start", mock.Mock(side_effect=sweep.Terminated))
    lease = sweep.Lease(tmp_path / "trial", 60)
    with pytest.raises(sweep.Terminated):
        lease.grant(sweep.Point("off", 0, "", "0"))
    assert (tmp_path / "trial/lease.json").exists()
    lease.release()
    assert not (tmp_path / "trial/lease.json").exists()


def test_sigterm_takes_the_lease_back(spark: Spark) -> None:
    # An answer takes hours.
    process = spark.start(point(0, pass_s=100), max_tokens=200, answer_timeout=3600)
    until(lambda: spark.serves("without speculation"))
    process.send_signal(signal.SIGTERM)
    output, _errors = process.communicate(timeout=WITHIN_S)
    assert process.returncode == 1
    assert messages(output)[-1] == {"error": sweep.STOPPED}
    assert not list((spark.deployment / "trial").glob("*"))
    until(lambda: spark.is_restored)


def test_a_killed_sweep_lets_its_lease_run_out_and_the_next_goes_on(spark: Spark) -> None:
    process = spark.start(point(0), point(1, pass_s=0.1), max_tokens=100)
    until(lambda: spark.serves("draft length 1"))
    process.kill()
    process.communicate()
    left = spark.deployment / "trial" / "lease.json"
    sweep.write_object(left, {**json.loads(left.read_text()), **lease_until(1)})
    results = spark.run(point(0), point(1), lease_s=5)
    assert spark.titles()[-3:] == [None, "draft length 1", None]
    assert spark.titles().count("without speculation") == 1
    assert [found["error"] for found in results["points"]] == [None, None]
    assert any("interrupted benchmark" in text for text in spark.texts())
    assert spark.is_restored


def test_a_task_that_makes_no_sense_is_one_sentence(spark: Spark) -> None:
    task = {**spark.task(), "colour": "blue"}
    done = subprocess.run(
        [sys.executable, str(standalone("sweep")), "key"],
        input=json.dumps(task),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "colour" in messages(done.stdout)[-1]["error"]
    with pytest.raises(sweep.SweepError, match="name of a file"):
        spark.sweep({**point(0), "id": "../off"})
    for name, longest in (("lease_s", 900), ("ready_timeout", 86_400), ("answer_timeout", 86_400)):
        for seconds in (0, longest + 1):
            with pytest.raises(sweep.SweepError, match=rf"^speculative_benchmark_{name} is {seconds}, but must be"):
                spark.sweep(point(0), **{name: seconds})


# Which points are measured


def test_finished_points_are_kept(spark: Spark) -> None:
    spark.run(point(0), point(1))
    changed = {**point(1), "fingerprint": "another"}
    broken = spark.results / "points" / "2.json"
    broken.write_text('{"fingerprint": "print of 2", "err')
    before = (spark.results / "points" / "off.json").read_text()
    results = spark.run(point(0), changed, point(2))
    assert spark.titles() == [
        None,
        "without speculation",
        "draft length 1",
        None,
        "draft length 1",
        "draft length 2",
        None,
    ]
    assert "without speculation (point 1 of 3): measured before" in spark.texts()
    assert by_id(results)["1"]["fingerprint"] == "another"
    assert (spark.results / "points" / "off.json").read_text() == before
    restarts = len(spark.titles())
    assert spark.run(point(0), changed, point(2))["points"] == results["points"]
    assert len(spark.titles()) == restarts


def test_a_failed_point_is_told_and_tried_again_another_time(spark: Spark) -> None:
    results = spark.run(point(0), point(1, fails="torch.OutOfMemoryError: CUDA out of memory."), point(2))
    failed = by_id(results)["1"]
    assert failed["error"] == "the server ended: torch.OutOfMemoryError: CUDA out of memory"
    assert (failed["samples"], failed["loading_s"], failed["gpu"]) == ([], None, None)
    assert by_id(results)["2"]["error"] is None
    assert spark.is_restored
    again = spark.run(point(0), point(1), point(2))
    assert by_id(again)["1"]["error"] is None
    assert spark.titles()[-2:] == ["draft length 1", None]


def write_point(spark: Spark, draft_length: int, speed: float) -> None:
    """A point that was measured before."""
    made = point(draft_length)
    samples = [
        {
            "prompt": prompt["id"],
            "category": prompt["category"],
            "repetition": 0,
            "tokens": 101,
            "ttft_s": 0.1,
            "first_tokens": 1,
            "text": "So it is.",
            "decode_s": 100 / (speed * factor),
        }
        for prompt, factor in zip(PROMPTS, (0.5, 2.0), strict=True)
    ]
    path = spark.results / "points" / f"{made['id']}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    kept = {
        "id": made["id"],
        "draft_length": draft_length,
        "fingerprint": made["fingerprint"],
        "error": None,
        "loading_s": 100.0,
        "seconds": 250.0,
        "samples": samples,
        "lengths": [],
    }
    path.write_text(json.dumps(kept))


@pytest.mark.parametrize(
    "damage",
    [{"samples": [{"x": 1}]}, {"samples": ["x"]}, {"samples": {"x": 1}}],
)
def test_a_kept_point_that_cannot_be_judged_is_measured_again(spark: Spark, damage: dict[str, t.Any]) -> None:
    write_point(spark, 0, 50.0)
    path = spark.results / "points" / "off.json"
    assert sweep.finished_point(path, "print of off") is not None
    path.write_text(json.dumps({**json.loads(path.read_text()), **damage}))
    assert sweep.finished_point(path, "print of off") is None


def test_longer_drafts_are_measured_only_while_they_gain(spark: Spark) -> None:
    write_point(spark, 0, 50.0)
    write_point(spark, 2, 60.0)
    # It is served with 3 passes for what takes 2 with draft length 2 and more time a pass: slower than 60 tokens/s.
    results = spark.run(
        point(0),
        point(2),
        point(3, always=False, pass_s=0.06, load_s=0.4),
        point(4, always=False),
        point(8, always=False),
    )
    assert [found["id"] for found in results["points"]] == ["off", "2", "3"]
    assert [skipped["id"] for skipped in results["skipped"]] == ["4", "8"]
    assert all("draft length 3 was no faster than draft length 2 (0." in s["reason"] for s in results["skipped"])
    assert spark.titles() == [None, "draft length 3", None]
    # What the kept points took tells how long the next ones take: 100 s to load, 150 s to measure, and back.
    first = next(progress for progress in spark.progress if "loading" in progress["text"])
    assert first["text"] == "up to about 14 min left; draft length 3 (point 3 of 5): loading, 0 s"


@pytest.mark.parametrize(
    ("earlier", "errors", "expected"),
    [
        ([50.0, 60.0], [], None),
        ([50.0, 50.0], [], "draft length 1 was no faster than no speculation (1.00 times)"),
        ([50.0, 60.0, 55.0], [1], None),
        ([50.0, 60.0, 40.0], [1], "draft length 2 was no faster than no speculation (0.80 times)"),
        ([50.0], [], "there are no figures of shorter drafts that it could be judged by"),
        ([50.0, 60.0], [0], "there are no figures of shorter drafts that it could be judged by"),
    ],
)
def test_the_last_step_is_that_between_points_with_figures(
    spark: Spark, earlier: list[float], errors: list[int], expected: str | None
) -> None:
    made = spark.sweep()
    for draft_length, speed in enumerate(earlier):
        write_point(spark, draft_length, speed)
        found = json.loads((spark.results / "points" / f"{draft_length or 'off'}.json").read_text())
        made.points.append({**found, "error": "broken", "samples": []} if draft_length in errors else found)
    assert made.reason_to_skip(sweep.Point(**point(4, always=False))) == expected
    assert made.reason_to_skip(sweep.Point(**point(4))) is None


# Prompts


def long_prompt(tokens: int, **changes: t.Any) -> dict[str, t.Any]:
    return {"id": "long", "category": "long", "prompt": "word" * tokens, "optional": False, **changes}


def test_a_prompt_that_is_too_long_is_refused_before_any_restart(spark: Spark) -> None:
    spark.own.context = 200
    with pytest.raises(sweep.SweepError, match=r"the prompt long \(300 tokens are more than max_seq_len\): shorten"):
        spark.run(point(0), prompts=[*PROMPTS, long_prompt(300)])
    assert spark.titles() == [None]
    assert not list((spark.deployment / "trial").glob("*"))


def test_the_answer_has_to_have_room_as_well(spark: Spark) -> None:
    spark.own.context = 200
    with pytest.raises(sweep.SweepError, match="the prompt long "):
        spark.run(point(0), prompts=[*PROMPTS, long_prompt(190)])
    assert spark.titles() == [None]


def test_optional_prompts_and_lengths_that_are_too_long_are_left_out(spark: Spark) -> None:
    spark.own.context = 200
    prompts = [long_prompt(300, optional=True), *PROMPTS, long_prompt(190, id="edge", optional=True)]
    results = spark.run(point(0), prompts=prompts, prompt_lengths=[100, 400])
    assert [left["prompt"] for left in results["left_out"]] == ["long", "edge", "400 tokens"]
    assert "300 tokens are more than max_seq_len" in results["left_out"][0]["reason"]
    (found,) = results["points"]
    assert [sample["prompt"] for sample in found["samples"]] == ["chat-1", "code-1"]
    assert [length["asked_tokens"] for length in found["lengths"]] == [100]


def test_without_any_prompt_left_nothing_is_measured(spark: Spark) -> None:
    spark.own.context = 200
    with pytest.raises(sweep.SweepError, match="All prompts are too long"):
        spark.run(point(0), prompts=[long_prompt(300, optional=True)])


@pytest.mark.parametrize("tokens", [60, 1000, 20_000])
def test_text_of_a_length_begins_like_no_other(tokens: int) -> None:
    prompts = [sweep.Prompt("a", "chat", "Some words of a prompt, "), sweep.Prompt("b", "code", "and of another.")]
    text = sweep.natural_text(prompts, tokens, 0.25)
    assert len(text) / 4 == pytest.approx(tokens, rel=0.1)
    assert text.startswith(f"A collection of texts, about {tokens} ")
    assert text.split()[-1] in " ".join(prompt.prompt for prompt in prompts).split()


def test_the_shipped_prompts() -> None:
    prompts = [json.loads(line) for line in PROMPT_FILE.read_text(encoding="utf-8").splitlines()]
    assert Counter(prompt["category"] for prompt in prompts) == dict.fromkeys(
        ("chat", "reasoning", "code", "extraction", "long-context"), 3
    )
    assert len({prompt["id"] for prompt in prompts}) == len(prompts)
    for prompt in prompts:
        assert prompt.keys() == {"id", "category", "prompt", "optional"}
        assert prompt["optional"] is (prompt["category"] == "long-context")
        words = len(prompt["prompt"].split())
        # English has about 1.3 tokens a word.
        assert 1500 < 1.3 * words < 3000 if prompt["optional"] else 60 < words < 400


# What goes wrong


def test_a_broken_answer_is_asked_for_again_once(spark: Spark) -> None:
    results = spark.run(point(0, cuts=1), point(1, cuts=2), point(2))
    assert [found["error"] is None for found in results["points"]] == [True, False, True]
    assert by_id(results)["1"]["error"].startswith("the server did not answer in two tries: ")
    assert len(by_id(results)["off"]["samples"]) == 2
    assert spark.is_restored


def test_a_server_that_ends_in_the_middle_says_why(spark: Spark) -> None:
    def crash() -> None:
        spark.server.engine = None
        spark.entrypoint.write("trial failed", last_exit={"code": 1, "reason": "Illegal memory access"})

    killer = spark.soon("draft length 1", crash)
    results = spark.run(point(0), point(1, pass_s=0.05), point(2), max_tokens=30)
    killer.join()
    assert by_id(results)["1"]["error"] == "the server ended: Illegal memory access"
    assert by_id(results)["2"]["error"] is None


def test_a_server_may_come_up_slowly(spark: Spark) -> None:
    results = spark.run(point(0, load_s=1.2))
    assert results["points"][0]["error"] is None
    assert results["points"][0]["loading_s"] >= 1.2
    assert any(text.startswith("without speculation (point 1 of 1): loading, ") for text in spark.texts())


def test_a_server_that_does_not_come_up_has_its_last_words_told(spark: Spark) -> None:
    log = spark.deployment / "state" / "server.log"
    log.write_text('Compiling kernel 7\nINFO: "GET /health HTTP/1.1" 200 OK\n[entrypoint] switching\n\n')
    results = spark.run(point(0, load_s=30), ready_timeout=0.3)
    (found,) = results["points"]
    assert found["error"] == "the server was not ready within 1 s; it said last: Compiling kernel 7"


def test_a_container_that_is_stopped_ends_the_sweep_at_once(spark: Spark) -> None:
    stopper = spark.soon("draft length 1", spark.entrypoint.stop)
    with pytest.raises(sweep.SweepError, match=r"The container was stopped: start it with start\.yml"):
        spark.run(point(0), point(1, pass_s=1), max_tokens=50, answer_timeout=3600)
    stopper.join()
    assert not list((spark.deployment / "trial").glob("*"))
    assert [path.name for path in (spark.results / "points").iterdir()] == ["off.json"]


def test_a_container_that_is_gone_without_a_word_ends_the_sweep(spark: Spark, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweep, "SILENT_S", 0.2)

    def kill() -> None:
        spark.entrypoint.over.set()
        spark.server.close()
        spark.server.engine = None

    killer = spark.soon("without speculation", kill)
    with pytest.raises(sweep.NothingToRestore, match="Nothing listens at http"):
        spark.run(point(0, pass_s=0.1), max_tokens=50)
    killer.join()


def test_a_container_that_does_not_follow_ends_the_sweep(spark: Spark, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweep, "HEED_S", 0.2)
    spark.entrypoint.obeys = False
    with pytest.raises(sweep.SweepError, match="The container does not follow"):
        spark.run(point(0))
    assert spark.is_restored


def test_an_older_entrypoint_is_refused(spark: Spark) -> None:
    spark.entrypoint.stop("running")
    state = spark.deployment / "state" / "state.json"
    state.write_text('{"state": "running"}')
    with pytest.raises(sweep.SweepError, match="cannot be benchmarked"):
        spark.run(point(0))


def test_a_deployment_that_failed_is_not_measured(spark: Spark) -> None:
    spark.entrypoint.stop("failed")
    with pytest.raises(sweep.SweepError, match="does not serve, so it cannot be measured"):
        spark.run(point(0))


def test_a_deployment_that_does_not_come_back_is_told_with_the_figures(spark: Spark) -> None:
    def fail() -> None:
        until(lambda: spark.titles() == [None, "without speculation", None])
        spark.entrypoint.stop("failed")

    spark.own.load_s = 0.3
    failer = threading.Thread(target=fail)
    failer.start()
    results = spark.run(point(0))
    failer.join()
    assert results["restored"] is False
    assert "does not serve with its own options again (the server ended" in results["not_restored"]
    assert results["points"][0]["samples"]


def test_a_full_disk_ends_the_sweep_and_brings_the_deployment_back(
    spark: Spark, monkeypatch: pytest.MonkeyPatch
) -> None:
    spark.run(point(0))

    def fsync(number: int) -> None:
        if Path(f"/proc/self/fd/{number}").resolve().name == ".1.json.new":
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(sweep.SweepError, match=r"The disk under .*/points is full: make room and run the same again"):
        spark.run(point(0), point(1), point(2))
    assert spark.titles()[-2:] == ["draft length 1", None]
    assert spark.is_restored
    assert (spark.results / "points" / "off.json").exists()


def test_a_lease_that_cannot_be_renewed_ends_the_sweep(spark: Spark) -> None:
    in_the_way = spark.deployment / "trial" / ".lease.json.new"
    spoiler = spark.soon("without speculation", in_the_way.mkdir)
    with pytest.raises(sweep.SweepError, match=r"\.lease\.json\.new cannot be written"):
        spark.run(point(0, pass_s=0.05), max_tokens=100, lease_s=2)
    spoiler.join()
    assert spark.is_restored


def test_room_is_asked_for_first(tmp_path: Path, spark: Spark) -> None:
    with pytest.raises(sweep.SweepError, match="GB are free under"):
        sweep.make_room(tmp_path, needed=10**18)
    (tmp_path / "file").write_text("")
    with pytest.raises(sweep.SweepError, match="cannot be written"):
        spark.run(point(0), results=str(tmp_path / "file"))
    assert spark.titles() == [None]


@contextlib.contextmanager
def renewed_lease(directory: Path) -> t.Iterator[None]:
    """Another sweep's."""
    directory.mkdir()
    over = threading.Event()

    def renew() -> None:
        while True:
            sweep.write_object(directory / "lease.json", {"id": "theirs", "title": "other", **lease_until(5)})
            if over.wait(0.1):
                return

    (directory / "options.yml").write_text(json.dumps(dataclasses.asdict(Engine())))
    renewer = threading.Thread(target=renew)
    renewer.start()
    try:
        yield
    finally:
        over.set()
        renewer.join()


def test_another_sweep_is_not_disturbed(spark: Spark) -> None:
    with renewed_lease(spark.deployment / "trial"):
        until((spark.deployment / "trial" / "lease.json").exists)
        with pytest.raises(sweep.SweepError, match="Another benchmark is measuring this deployment"):
            spark.run(point(0))
    assert json.loads((spark.deployment / "trial" / "lease.json").read_text())["id"] == "theirs"


@pytest.mark.parametrize("by", ["removal", "replacement"])
def test_a_trial_that_is_ended_from_outside_ends_the_sweep(spark: Spark, by: str) -> None:
    lease = spark.deployment / "trial" / "lease.json"

    def take() -> None:
        if by == "removal":
            lease.unlink()
        else:
            sweep.write_object(lease, {"id": "theirs", "title": "other", **lease_until(5)})

    taker = spark.soon("without speculation", take)
    with pytest.raises(sweep.NothingToRestore, match="The trial of without speculation was ended from outside"):
        spark.run(point(0, pass_s=0.05), max_tokens=100, lease_s=2)
    taker.join()
    # What belongs to somebody else stays.
    assert lease.exists() == (by == "replacement")


@pytest.mark.parametrize("lease", ['{"until": 1', '{"until": 12.5}', '{"until": "soon"}', "[]"])
def test_what_is_no_lease_stops_nobody(tmp_path: Path, lease: str) -> None:
    (tmp_path / "lease.json").write_text(lease)
    assert sweep.lease_end(tmp_path / "lease.json") is None


def test_a_lease_of_days_is_none(tmp_path: Path) -> None:
    sweep.write_object(tmp_path / "lease.json", lease_until(3 * 24 * 3600))
    assert sweep.lease_end(tmp_path / "lease.json") is None
    sweep.write_object(tmp_path / "lease.json", lease_until(60))
    assert sweep.lease_end(tmp_path / "lease.json") == pytest.approx(lease_until(60)["until"], abs=2)


def test_each_trial_has_an_id_of_its_own(spark: Spark) -> None:
    spark.run(point(0), point(1))
    (spark.results / "points" / "off.json").unlink()
    spark.run(point(0), point(1))
    trials = [trial["id"] for trial in spark.entrypoint.served if trial]
    assert len(trials) == len(set(trials)) == 3


def test_a_server_that_does_not_count_chunks_leaves_the_passes_unknown(spark: Spark) -> None:
    (found,) = spark.run(point(3, counts_chunks=False))["points"]
    sample = found["samples"][0]
    assert (sample["first_tokens"], sample["pass_tokens"], sample["pass_seconds"]) == (None, None, None)
    assert sample["tokens"] == 12
    assert Decoding.of(sample).speed == pytest.approx(11 / sample["decode_s"])


def test_a_count_that_is_missing_once_leaves_the_passes_unknown() -> None:
    chunks = [completions.Chunk(0.1, 1, True), completions.Chunk(0.2, None, True), completions.Chunk(0.3, 5, True)]
    assert completions.Answer(streamed=True, chunks=chunks).decoding().pass_tokens is None
    # What brought no token was no pass.
    chunks[1] = completions.Chunk(0.2, 1, True)
    decoding = completions.Answer(streamed=True, chunks=chunks).decoding()
    assert (decoding.first_tokens, decoding.pass_tokens, decoding.pass_seconds) == (1, [4], [0.2])


# The GPU


def nvidia_smi(directory: Path, line: str) -> str:
    """A PATH with a nvidia-smi that prints a line."""
    path = directory / "bin" / "nvidia-smi"
    path.parent.mkdir()
    path.write_text(f"#!/bin/sh\n[ \"$1\" = {sweep.GPU_QUERY[1]} ] || exit 3\necho '{line}'\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return f"{path.parent}:{os.environ['PATH']}"


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (
            "2418, 61.20, 58",
            {
                "clock_mhz": {"mean": 2418.0, "low": 2418.0, "high": 2418.0},
                "power_w": {"mean": 61.2, "low": 61.2, "high": 61.2},
                "temperature_c": {"mean": 58.0, "low": 58.0, "high": 58.0},
            },
        ),
        (
            "2418, [N/A], [Not Supported]",
            {"clock_mhz": {"mean": 2418.0, "low": 2418.0, "high": 2418.0}, "power_w": None, "temperature_c": None},
        ),
        ("[N/A], [N/A], [N/A]", None),
        ("No devices were found", None),
        (None, None),
    ],
)
def test_the_gpu_is_watched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str | None, expected: dict[str, t.Any] | None
) -> None:
    monkeypatch.setenv("PATH", nvidia_smi(tmp_path, line) if line else str(tmp_path))
    monkeypatch.setattr(sweep, "GPU_EVERY_S", 0.02)
    with sweep.GpuWatch() as watch:
        until(lambda: len(watch._rows) > 1 or not watch.is_alive())
    summary = watch.summary()
    if expected is None:
        assert summary is None
    else:
        assert summary is not None
        assert summary.pop("samples") > 1
        assert summary == expected


# Words and figures


def test_the_time_that_is_left() -> None:
    unknown = sweep.Outlook(None)
    assert unknown.seconds_left(None, 10, 0.5, 3) is None
    hinted = sweep.Outlook(100.0)
    # Half of a point took 10 s: 10 s more, three points of 120 s each, and loading once more at the end.
    assert hinted.seconds_left(None, 10, 0.5, 3) == pytest.approx(10 + 3 * 120 + 100)
    assert hinted.seconds_left(30, 0, 0, 3) is None
    hinted.learn({"error": None, "loading_s": 60.0, "seconds": 100.0})
    hinted.learn({"error": "broken", "loading_s": None, "seconds": 5.0})
    assert hinted.seconds_left(20, 0, 0, 2) == pytest.approx(40 + 40 + 2 * 100 + 60)
    assert hinted.seconds_left(90, 0, 0, 0) == pytest.approx(0 + 40 + 60)


def test_a_gain_is_paired() -> None:
    def samples(**speeds: float) -> dict[str, t.Any]:
        return {
            "samples": [
                {"prompt": name, "repetition": 0, "tokens": 101, "first_tokens": 1, "decode_s": 100 / speed}
                for name, speed in speeds.items()
            ]
        }

    # Twice as fast here and half as fast there is no gain, whatever the mean of the speeds says.
    assert sweep.gain(samples(a=20, b=50), samples(a=10, b=100)) == pytest.approx(1.0)
    assert sweep.gain(samples(a=30, only=1), samples(a=10)) == pytest.approx(3.0)
    assert sweep.gain(samples(only=1), samples(a=10)) is None

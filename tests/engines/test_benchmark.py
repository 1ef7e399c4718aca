# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The benchmark of the real vLLM on the twin, held against what the engine itself counts; then two engines in one page.

The order of the tests is the story: each report is compared with those before it.
"""

from __future__ import annotations

import dataclasses
import json
import math
import re
import statistics
import subprocess
import typing as t
from pathlib import Path

import pytest
from scipy import stats  # type: ignore[import-untyped]

from tests import playbook
from tests.twin.control import Spark
from tests.twin.drafts import __main__ as drafts

PROMPTS = Path(__file__).with_name("prompts.jsonl")
# The model on the stand-in, whose speed is invented; then methods of the real engine.
WAYS = (
    ("methods_stand_in", "", 4),
    ("methods", "", 4),
    ("methods", "draft_target", 2),
    ("methods", "eagle3", 3),
)
SETTINGS = {"max_tokens": 192, "repetitions": 1, "warmup": 1, "prompts": str(PROMPTS)}
# Prints the counts of the server on this Spark when they change, and null when there is no server.
WATCH = r"""
import json, re, time, urllib.request
SAMPLE = re.compile(r'^vllm:(\w+?)(?:\{(.*)\})? (\S+)$', re.M)
NAMES = ("generation_tokens_total", "request_generation_tokens_sum", "request_generation_tokens_count")
NAMES += ("request_decode_time_seconds_sum", "iteration_tokens_total_count", "spec_decode_num_accepted_tokens_total")
before = ""
while True:
    line = before
    try:
        text = urllib.request.urlopen("http://127.0.0.1:8000/metrics", timeout=10).read().decode()
        found = dict.fromkeys(NAMES, 0.0)
        for name, labels, value in SAMPLE.findall(text):
            if name in found:
                found[name] += float(value)
            elif name == "spec_decode_num_accepted_tokens_per_pos_total":
                found[re.search(r'position="(\d+)"', labels)[1]] = float(value)
        line = json.dumps(found)
    except urllib.error.HTTPError:
        pass
    except urllib.error.URLError as error:
        if isinstance(error.reason, ConnectionRefusedError):
            line = "null"
    except OSError:
        pass
    if line != before:
        print(line, flush=True)
        before = line
    time.sleep(0.05)
"""

Counts = dict[str, float]


@dataclasses.dataclass(frozen=True)
class Answer:
    """What the engine counted while it gave one answer."""

    counts: Counts

    @property
    def tokens(self) -> float:
        """Return the tokens after the first one, which the pass of the prompt makes."""
        return self.counts["request_generation_tokens_sum"] - 1

    @property
    def passes(self) -> float:
        return self.counts["iteration_tokens_total_count"] - 1

    @property
    def pass_seconds(self) -> float:
        return self.counts["request_decode_time_seconds_sum"] / self.passes

    @property
    def speed(self) -> float:
        return self.tokens / self.counts["request_decode_time_seconds_sum"]

    def accepted(self, position: int) -> float:
        """Return the share of passes that accepted the drafted token at a position."""
        return self.counts.get(str(position), 0.0) / self.passes


class Watch:
    """The counts of the servers on a Spark, in order, while a block runs."""

    def __init__(self, spark: Spark, place: Path) -> None:
        self._command = ["docker", "exec", spark.container, "python3", "-c", WATCH]
        self._log = place / "counts"

    def __enter__(self) -> Watch:
        with self._log.open("w") as log:
            self._process = subprocess.Popen(self._command, stdout=log)
        return self

    def __exit__(self, *_exception: object) -> None:
        self._process.kill()
        self._process.wait()

    def answers(self, server: int, number: int) -> list[Answer]:
        """Return the last answers of a server.

        Between two answers the engine has counted no token of an answer that is not finished: it reads a prompt.
        """
        servers = re.split(r"^null$", self._log.read_text(), flags=re.MULTILINE)
        lines = [json.loads(line) for line in servers[server].splitlines() if line]
        whole = [line for line in lines if line["generation_tokens_total"] == line["request_generation_tokens_sum"]]
        ends = {line["request_generation_tokens_count"]: line for line in whole}
        last = [ends[max(ends) - back] for back in reversed(range(number + 1))]
        return [
            Answer({name: after[name] - before.get(name, 0.0) for name in after})
            for before, after in zip(last, last[1:])
        ]


def kind(fast: t.Sequence[Answer], slow: t.Sequence[Answer], error: float) -> str:
    """Return the verdict of the engine's own times, if they are wrong by a factor."""
    logs = [math.log(error * new.speed / old.speed) for new, old in zip(fast, slow)]
    middle, reach = statistics.fmean(logs), stats.t.ppf(0.975, len(logs) - 1) * stats.sem(logs)
    return "use" if middle - reach > 0 else "off" if middle + reach < 0 else "undecided"


@pytest.fixture(name="spark", scope="module")
def fixture_spark() -> Spark:
    """Start a bare Spark whose Hub has the model and its drafts."""
    subprocess.run(["tools/twin.sh", "up", "--fresh", "--vllm"], cwd=playbook.ROOT, check=True)
    drafts.offer()
    return Spark()


@pytest.fixture(name="place", scope="module")
def fixture_place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of the reports."""
    return tmp_path_factory.mktemp("reports")


def benchmark(place: Path, recipe: str, variant: str, length: int) -> dict[str, t.Any]:
    """Deploy a way and measure it; its report is compared with those that are there."""
    way = {"recipe": str(playbook.ROOT / f"tests/twin/recipes/{recipe}.yml"), "variant": variant}
    playbook.succeed("serve", variables=way)
    name = variant or recipe
    earlier = sorted(map(str, place.glob("*.json")))
    paths = {f"{end}_path": str(place / f"{name}.{end}") for end in ("html", "json")}
    asked = {**SETTINGS, **paths, "compare_with": earlier, "draft_lengths": ["off", length]}
    variables = {f"speculative_benchmark_{key}": value for key, value in asked.items()}
    playbook.succeed("benchmark", variables={**variables, "yes": True})
    return dict(json.loads((place / f"{name}.json").read_text(encoding="utf-8")))


@pytest.mark.parametrize(("recipe", "variant", "length"), WAYS, ids=[way[1] or way[0] for way in WAYS])
def test_the_report_is_what_the_engine_counted(
    spark: Spark, place: Path, tmp_path: Path, recipe: str, variant: str, length: int
) -> None:
    with Watch(spark, tmp_path) as watch:
        report = benchmark(place, recipe, variant, length)
    off, drafting = report["points"]
    assert (off["error"], drafting["error"]) == (None, None)
    if recipe == "methods_stand_in":
        return
    # The servers: one for the deployment, one without speculation, one with drafts, and the deployment's again.
    without, fast = (watch.answers(server, off["n"]) for server in (-3, -2))
    for point, answers in ((off, without), (drafting, fast)):
        speed = statistics.fmean(answer.speed for answer in answers)
        assert point["tokens_per_second"]["mean"] == pytest.approx(speed, rel=0.05)
    shares = [statistics.fmean(answer.accepted(position) for answer in fast) for position in range(length)]
    # A busy machine sends several passes in a chunk, and then the engine's own counts are shown. The engine also counts
    # what its last pass accepts beyond the end of an answer.
    length_shown = drafting["acceptance_length"] or drafting["server_acceptance_length"]
    assert length_shown["mean"] == pytest.approx(1 + sum(shares), rel=0.01)
    if drafting["by_position"]:
        assert drafting["by_position"] == pytest.approx(shares, abs=0.02)
    kinds = {kind(fast, without, error) for error in (0.97, 1, 1.03)}
    # A busy machine may make a pass with drafts the cheaper one.
    cost, base = (statistics.fmean(answer.pass_seconds for answer in answers) for answers in (fast, without))
    assert report["verdict"]["kind"] in kinds | ({"again"} if cost < base else set())


def test_the_last_page_has_all_engines_and_methods(place: Path) -> None:
    page = (place / "eagle3.html").read_text(encoding="utf-8")
    for words in (
        "vLLM without speculation",
        "vLLM with n-gram, draft length 4",
        "vLLM with Draft-Target, draft length 2",
        "vLLM with EAGLE-3, draft length 3",
        "TensorRT-LLM without speculation",
        "TensorRT-LLM with n-gram, draft length 4",
        "whose speed is invented",
    ):
        assert words in page

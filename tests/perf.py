# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Print the figures of the main job on the running twin: round trips, bytes, and time against the steps done by hand.

Timings on shared machines are noisy, so times are compared in turn within one run and given as ratios.
With AIPERF=PROGRAM the speed that our client sees is held against what NVIDIA's AIPerf sees (tests/aiperf.py).
"""

from __future__ import annotations

import dataclasses
import json
import math
import os
import statistics
import sys
import typing as t
from pathlib import Path

from ansible_collections.dgx_spark.speculative.plugins.module_utils._server import completions

from tests import aiperf, playbook
from tests.costs import MOST, NO_OP_TASKS, ROUNDS, in_turn, remote_calls, timed
from tests.deployed import tunnel
from tests.twin.control import Internet, Spark
from tests.twin.lifecycle import HUB

# The page's own commands with image and models on the Spark already, less the unused copies of the weights.
MANUAL_STEPS = Path(__file__).parent / "manual_steps.sh"
FIRST_TOKEN = Path(__file__).parent / "first_token.py"
PROMPTS = playbook.ROOT / "roles" / "speculative_benchmark" / "files" / "prompts.jsonl"
ANSWER_TOKENS = 128


@dataclasses.dataclass(frozen=True)
class Limit:
    """What a figure has to keep to."""

    most: float = math.inf
    least: float = -math.inf
    # Why, or what else is to be known of it.
    note: str = ""

    def keeps(self, value: float) -> bool:
        # Also not a number misses it.
        return self.least <= value <= self.most

    def __str__(self) -> str:
        words = [f"at least {self.least:g}"] if self.least > -math.inf else []
        words += [f"at most {self.most:g}"] if self.most < math.inf else []
        return "; ".join([*words, *filter(None, [self.note])])


# Of this run, in the order in which they were found.
MISSED: list[str] = []


def report(what: str, value: float, form: str = ".0f", limit: Limit | str = "") -> None:
    """Print a figure, with its limit; a text instead of a limit judges nothing."""
    # As it is measured, not as it is printed.
    missed = isinstance(limit, Limit) and not limit.keeps(value)
    print(f"{what:<62} {value:>12{form}}  {limit}{'  MISSED' if missed else ''}", flush=True)
    if missed:
        MISSED.append(what)


def conclude() -> None:
    """Fail when a figure has missed its limit."""
    if MISSED:
        sys.exit(f"{len(MISSED)} of the figures missed their limits: {'; '.join(MISSED)}")


def by_hand(spark: Spark) -> None:
    done = spark.exec(MANUAL_STEPS.read_text(encoding="utf-8"), user="spark", timeout=300)
    if done.returncode:
        sys.exit(f"the steps by hand failed: {done.stdout}{done.stderr}")


def record(spark: Spark) -> dict[str, t.Any]:
    return dict(json.loads(spark.read_file("/home/spark/.local/share/dgx-spark-speculative/single_eagle3/record.json")))


def bytes_and_requests(internet: Internet, spark: Spark) -> None:
    playbook.succeed("cleanup", variables={"models": "all"})
    internet.reset_counters()
    playbook.succeed("single_eagle3")
    served = sum(model["bytes"] for model in record(spark)["models"].values())
    fetched = internet.bytes_to(spark.address, "huggingface.co/")
    report("first deployment: bytes fetched / bytes of the served files", fetched / served, ".4f", Limit(1.02))

    internet.reset_counters()
    report("second run: tasks executed on the Spark", len(remote_calls("single_eagle3")), limit=Limit(25))
    report("second run: requests to the internet", len(internet.counters()["requests"]), limit=Limit(0))
    playbook.succeed("stop")
    playbook.succeed("start")
    report("stop and start: requests to the internet", len(internet.counters()["requests"]), limit=Limit(0))


def second_run_and_preflight() -> None:
    second, preflight, nothing = in_turn("single_eagle3", "preflight")
    report(f"{NO_OP_TASKS} no-op tasks, seconds (best of {ROUNDS})", nothing, ".2f")
    report(f"second run, seconds (best of {ROUNDS})", second, ".2f")
    report(f"second run / {NO_OP_TASKS} no-op tasks", second / nothing, ".2f", Limit(MOST["single_eagle3"]))
    report(f"preflight, seconds (best of {ROUNDS})", preflight, ".2f")
    report(f"preflight / {NO_OP_TASKS} no-op tasks", preflight / nothing, ".2f", Limit(MOST["preflight"]))


def proxy(spark: Spark) -> None:
    lan = {"speculative_serve_expose": "lan", "api_proxy_ca_path": str(playbook.ROOT / ".cache" / "perf-ca.crt")}
    playbook.succeed("single_eagle3", variables=lan)
    place = "/home/spark/.local/share/dgx-spark-speculative/proxy/keys/default"
    command = ["python3", "-c", FIRST_TOKEN.read_text(encoding="utf-8"), f"{spark.address}:8443", place, "40"]
    done = spark.exec(command, user="spark", timeout=300)
    if done.returncode:
        sys.exit(f"the time to the first token could not be measured: {done.stdout}{done.stderr}")
    taken = json.loads(done.stdout)
    report("first token straight from the server, ms (median of 40)", taken["direct"], ".1f")
    report("first token through the proxy, ms (median of 40, in turn)", taken["proxied"], ".1f")
    report("the proxy's share, ms", taken["proxied"] - taken["direct"], ".1f", Limit(10))
    playbook.succeed("single_eagle3")


def second_client() -> None:
    program = os.environ.get("AIPERF")
    if not program:
        print("our client / AIPerf: not compared; AIPERF=~/aiperf/bin/aiperf make perf does")
        return
    lines = [json.loads(line) for line in PROMPTS.read_text(encoding="utf-8").splitlines()]
    prompts = [line["prompt"] for line in lines if not line.get("optional")]
    with tunnel() as api:
        url = api.removesuffix("/v1")
        client = completions.Client(url)
        model = client.models()[0]
        questions = [completions.Question("completion", model, prompt, ANSWER_TOKENS) for prompt in prompts]
        speeds = [completions.measure(client.ask(question, 60))["tokens_per_second"] for question in questions]
        theirs = aiperf.tokens_per_second(
            str(Path(program).expanduser()), url, model, HUB / "openai" / "gpt-oss-120b", prompts, ANSWER_TOKENS
        )
    ours = statistics.fmean(speeds)
    report("speed of an answer as our client sees it, tokens/s", ours, ".1f")
    report("the same as AIPerf sees it, tokens/s", theirs, ".1f")
    report("our client / AIPerf", ours / theirs, ".3f", Limit(most=1.1, least=0.9))


def deployment(spark: Spark) -> None:
    deployments, hands = [], []
    for _round in range(ROUNDS):
        playbook.succeed("cleanup")
        deployments.append(timed(lambda: playbook.succeed("single_eagle3")))
        playbook.succeed("cleanup")
        hands.append(timed(lambda: by_hand(spark)))
        spark.exec(["docker", "rm", "--force", "by-hand"])
    ours, theirs = statistics.median(deployments), statistics.median(hands)
    report("deployment with image and models there, seconds", ours, ".2f")
    report("the same by hand, without reading or typing, seconds", theirs, ".2f")
    report("deployment / by hand", ours / theirs, ".2f")


def main() -> None:
    internet, spark = Internet(), Spark()
    internet.clear_faults()
    bytes_and_requests(internet, spark)
    second_run_and_preflight()
    proxy(spark)
    deployment(spark)
    playbook.succeed("single_eagle3")
    second_client()
    conclude()


if __name__ == "__main__":
    main()

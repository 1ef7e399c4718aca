# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the real vLLM serves: answers, drafts, a tool call, and its return after its engine has died."""

from __future__ import annotations

import json
import re
import typing as t

import pytest

from tests import slot
from tests.first_light import Rank
from tests.playbook import succeed
from tests.twin.control import Spark
from tests.unit.waiting import until

DEPLOYMENT = "/home/spark/.local/share/dgx-spark-speculative/first_light"
SLOT = "dgx-spark-speculative"
URL = "http://127.0.0.1:8000"
RECIPE = "tests/twin/recipes/first_light.yml"
MODEL = "SmolLM2-135M-Instruct-Q4"
LIST = "red, green, blue, yellow, orange, purple, black, white,"
TOOL = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}


@pytest.fixture(scope="module")
def spark() -> Spark:
    return Spark()


@pytest.fixture(scope="module")
def alone() -> Rank:
    return Rank(1, "first_light")


def read(spark: Spark, name: str) -> dict[str, t.Any]:
    return dict(json.loads(spark.read_file(f"{DEPLOYMENT}/{name}.json")))


def ask(spark: Spark, question: str, **body: t.Any) -> dict[str, t.Any]:
    """Return the answer to a chat request, sent from the Spark itself."""
    request = {"model": MODEL, "messages": [{"role": "user", "content": question}], "temperature": 0, **body}
    headers = ["-H", "Content-Type: application/json", "-d", json.dumps(request)]
    said = spark.exec(["curl", "-sf", "--max-time", "120", f"{URL}/v1/chat/completions", *headers])
    assert said.returncode == 0, said.stderr
    return dict(json.loads(said.stdout))


def counters(spark: Spark) -> dict[str, float]:
    """Return the engine's own counts of drafts."""
    text = spark.exec(["curl", "-sf", f"{URL}/metrics"]).stdout
    found = re.findall(r"^vllm:spec_decode_num_(\w+)_total\{[^}]*\} (\S+)$", text, re.MULTILINE)
    return {name: float(value) for name, value in found}


def test_the_plan_is_what_the_engine_made(spark: Spark) -> None:
    cache = read(spark, "state/state")["kv_cache"]
    assert cache == {"tokens": 2 * 2048, "planned": 2 * 2048}
    record = read(spark, "record")
    assert (record["engine"], record["method"]) == ("vllm", "ngram")
    judged = "the image itself accepts the engine options with the configuration of the models"
    assert {judged, "the model called the tool get_weather"} <= set(record["checks"])


def test_root_in_the_container_reaches_its_files_and_can_do_no_more(spark: Spark) -> None:
    assert slot.capabilities(spark) == slot.FILES


def test_a_question_is_answered(spark: Spark) -> None:
    answer = ask(spark, "What does a CPU do?", max_tokens=32)
    assert answer["model"] == MODEL
    assert answer["choices"][0]["message"]["content"]
    assert 0 < answer["usage"]["completion_tokens"] <= 32


def test_an_answer_with_drafts_is_the_models_own(alone: Rank) -> None:
    assert alone.is_right()


def test_a_tool_is_called(spark: Spark) -> None:
    answer = ask(spark, "What is the weather in Paris?", tools=[TOOL], max_tokens=64)
    (call,) = answer["choices"][0]["message"]["tool_calls"]
    assert call["function"]["name"] == "get_weather"
    assert "city" in json.loads(call["function"]["arguments"])


def test_drafts_are_accepted_where_a_text_repeats(spark: Spark, alone: Rank) -> None:
    before = counters(spark)
    assert alone.ask(prompt=" ".join([LIST] * 5), max_tokens=80)
    drafted, accepted = (counters(spark)[name] - before[name] for name in ("draft_tokens", "accepted_tokens"))
    assert 0 < accepted <= drafted


def test_a_second_run_changes_nothing(spark: Spark) -> None:
    started = spark.exec(["docker", "inspect", "--format", "{{.State.StartedAt}}", SLOT]).stdout
    assert succeed("serve", variables={"recipe": RECIPE}).changed == []
    assert spark.exec(["docker", "inspect", "--format", "{{.State.StartedAt}}", SLOT]).stdout == started


def test_an_engine_that_dies_comes_back(spark: Spark, alone: Rank) -> None:
    """vLLM ends with status 0 then, which counts as a failure all the same."""
    assert read(spark, "state/state")["restarts"] == 0
    spark.exec("pkill -9 VLLM::EngineCor")
    until(lambda: read(spark, "state/state")["restarts"] == 1)
    assert read(spark, "state/state")["last_exit"]["code"] == 0
    until(lambda: read(spark, "state/state")["state"] == "running")
    assert alone.is_right()

# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ask the server on the twin a question, show its answer as it comes, and what the engine counted of its drafts."""

from __future__ import annotations

import dataclasses
import json
import re
import subprocess
import time
import typing as t

from tests.twin.control import Spark
from tests.twin.names import TwinError

URL = "http://127.0.0.1:8000"
MOST_TOKENS = 160
COUNTER = re.compile(r"^vllm:spec_decode_num_(draft|accepted)_tokens_total\{[^}]*\} (\S+)$", re.MULTILINE)
# With n-gram drafts the first one pays, and the second one hardly finds anything to repeat. The model's answers to both
# read well also where another processor's rounding chooses other words.
QUESTIONS = (
    "Repeat this text: The train from Oslo to Bergen takes seven hours. The train from Bergen to Oslo takes seven "
    "hours. The train from Oslo to Turku takes nine hours. The train from Turku to Oslo takes nine hours.",
    "What does a CPU do?",
)


@dataclasses.dataclass
class Answer:
    """An answer, with its tokens, its seconds since the first of them, and the drafts of the engine."""

    tokens: int = 0
    seconds: float = 0.0
    drafted: int = 0
    accepted: int = 0

    def __str__(self) -> str:
        said = "1 token" if self.tokens == 1 else f"{self.tokens} tokens"
        if self.tokens > 1 and self.seconds > 0:
            said += f", {(self.tokens - 1) / self.seconds:.0f} a second"
        if self.drafted:
            said += f". The engine drafted {self.drafted} and accepted {self.accepted}"
        return f"{said}."


def counted(spark: Spark) -> dict[str, int]:
    """Return the engine's own counts of drafted and accepted tokens."""
    text = spark.exec(["curl", "-sf", "--max-time", "10", f"{URL}/metrics"]).stdout
    return {name: round(float(value)) for name, value in COUNTER.findall(text)}


def model(spark: Spark) -> str:
    """Return the name of the model that the server has."""
    said = spark.exec(["curl", "-sf", "--max-time", "10", f"{URL}/v1/models"])
    if said.returncode:
        raise TwinError("No server answers on the twin; 'make demo' starts one.")
    return str(json.loads(said.stdout)["data"][0]["id"])


def events(lines: t.Iterable[str]) -> t.Iterator[dict[str, t.Any]]:
    """Yield the events of a stream."""
    for line in lines:
        data = line.removeprefix("data: ").strip()
        if line.startswith("data: ") and data != "[DONE]":
            yield json.loads(data)


def stream(spark: Spark, body: t.Mapping[str, t.Any]) -> t.Iterator[dict[str, t.Any]]:
    """Send a chat request from the Spark itself, and yield the events of the answer as they come."""
    words = ["curl", "-sN", "--fail", "--max-time", "300", f"{URL}/v1/chat/completions"]
    words += ["-H", "Content-Type: application/json", "-d", json.dumps(body)]
    with subprocess.Popen(["docker", "exec", spark.container, *words], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield from events(process.stdout)
    if process.returncode:
        raise TwinError(f"The server refused the question, or broke off (curl ended with {process.returncode}).")


def ask(question: str, say: t.Callable[[str], None], spark: Spark | None = None) -> Answer:
    """Ask a question, pass the answer on in pieces, and return the figures of it."""
    spark = spark or Spark()
    body = {"model": model(spark), "messages": [{"role": "user", "content": question}], "max_tokens": MOST_TOKENS}
    before, result, first = counted(spark), Answer(), 0.0
    for event in stream(spark, {**body, "temperature": 0, "stream": True, "stream_options": {"include_usage": True}}):
        if event.get("usage"):
            result.tokens = event["usage"]["completion_tokens"]
        for choice in event["choices"]:
            if text := choice["delta"].get("content"):
                say(text)
                first = first or time.monotonic()
                result.seconds = time.monotonic() - first
    after = counted(spark)
    result.drafted = after.get("draft", 0) - before.get("draft", 0)
    result.accepted = after.get("accepted", 0) - before.get("accepted", 0)
    return result


def show(questions: t.Sequence[str]) -> None:
    """Print questions with their answers."""
    for question in questions:
        print(f"\n> {question}\n", flush=True)
        answer = ask(question, lambda text: print(text, end="", flush=True))
        print(f"\n\n  {answer}")
    if questions == QUESTIONS:
        print(
            "\nn-gram drafts repeat what was there before. They pay where a text repeats itself, and hardly elsewhere."
        )

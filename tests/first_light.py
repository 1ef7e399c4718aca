# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The small model that the real vLLM serves on the twin, on one Spark or several."""

from __future__ import annotations

import json
import typing as t

from tests import playbook
from tests.pair import Node

# How soon a lost worker and an engine that hangs are taken for what they are.
QUICK = {
    "speculative_serve_probe_interval_s": 5,
    "speculative_serve_stall_timeout_s": 60,
    "speculative_serve_worker_timeout_s": 8,
}
# What a busy machine needs to load all ranks.
LOADED_WITHIN_S = 600.0
# A text, and the mean log-probability of its tokens: about -0.08 on any processor, and -10.8 by chance. The words of an
# answer are no test, since rounding decides between those that are about equally likely.
NUMBERS, LIKELY = ", ".join(map(str, range(1, 41))), -0.5
# By how much a token of a greedy answer may be less likely than the likeliest when the same text is read at once.
TIE = 1.0
TOKENS = 16


class Place(t.NamedTuple):
    """What the engine says of a token that it reads: its log-probability, and that of the likeliest token there."""

    own: float
    best: float


class Rank(Node):
    """A Spark with a rank of the real vLLM."""

    url, model = "http://127.0.0.1:8000/v1", "SmolLM2-135M-Instruct-Q4"

    def __init__(self, number: int, name: str) -> None:
        super().__init__(number)
        self.name = name

    def processes(self) -> dict[int, str]:
        """Return the processes of the engine with their titles."""
        found = self.spark.exec(["pgrep", "-fa", "VLLM::|vllm serve"]).stdout.splitlines()
        return {int(pid): title for pid, _, title in (line.partition(" ") for line in found)}

    def ask(self, **body: t.Any) -> dict[str, t.Any]:
        """Return the answer to a request for a completion; empty for an error."""
        request = json.dumps({"model": self.model, "temperature": 0, **body})
        headers = ["-H", "Content-Type: application/json", "-d", request]
        said = self.spark.exec(["curl", "-sf", "--max-time", "110", *headers, f"{self.url}/completions"])
        return dict(json.loads(said.stdout)) if said.returncode == 0 else {}

    def read(self, tokens: t.Sequence[int]) -> list[Place]:
        """Return what the engine says of each token of a text but the first; empty for an error."""
        seen = self.ask(prompt=tokens, max_tokens=1, prompt_logprobs=1).get("choices")
        places = seen[0]["prompt_logprobs"][1:] if seen else []
        return [
            Place(place[str(token)]["logprob"], max(one["logprob"] for one in place.values()))
            for token, place in zip(tokens[1:], places)
        ]

    def is_right(self) -> bool:
        """Return whether an answer is there and is the model's own, whatever the processor makes of it."""
        said = self.ask(prompt=NUMBERS, max_tokens=TOKENS, ignore_eos=True, return_token_ids=True)
        if said.get("model") != self.model or said["usage"]["completion_tokens"] != TOKENS:
            return False
        (choice,) = said["choices"]
        places = self.read([*choice["prompt_token_ids"], *choice["token_ids"]])
        prompt, answer = places[:-TOKENS], places[-TOKENS:]
        return (
            bool(prompt)
            and sum(place.own for place in prompt) / len(prompt) > LIKELY
            and all(place.best - place.own < TIE for place in answer)
        )

    def wait_until_it_runs(self) -> None:
        self.wait_until(lambda: self.state["state"] == "running", LOADED_WITHIN_S)
        self.wait_until(self.is_right)


def variables(name: str) -> dict[str, t.Any]:
    """Return what a deployment of one of the twin's recipes is run with."""
    return {"recipe": str(playbook.ROOT / f"tests/twin/recipes/{name}.yml"), **QUICK}

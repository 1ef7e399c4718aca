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
QUESTION = "Question: What is the capital of France? Answer:"


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

    def is_right(self) -> bool:
        """Return whether the answer to a question is there, and right."""
        return any("Paris" in choice["text"] for choice in self.ask(prompt=QUESTION, max_tokens=16).get("choices", ()))

    def wait_until_it_runs(self) -> None:
        self.wait_until(lambda: self.state["state"] == "running", LOADED_WITHIN_S)
        self.wait_until(self.is_right)


def variables(name: str) -> dict[str, t.Any]:
    """Return what a deployment of one of the twin's recipes is run with."""
    return {"recipe": str(playbook.ROOT / f"tests/twin/recipes/{name}.yml"), **QUICK}

# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Sparks that a recipe has made serve as one, for the tests that look at them."""

from __future__ import annotations

import json
import time
import typing as t

import pytest

from tests.twin.control import Spark

HOME = "/home/spark/.local/share/dgx-spark-speculative"
NAME = "qwen3_235b_a22b_eagle3"
DEPLOYMENT = f"{HOME}/{NAME}"
SLOT = "dgx-spark-speculative"
URL = "http://127.0.0.1:8355/v1"


class Node:
    """One of them, seen past Ansible."""

    name, url, model = NAME, URL, "Qwen3-235B-A22B-FP4"

    def __init__(self, number: int) -> None:
        self.spark = Spark(number)

    def inspect(self) -> dict[str, t.Any]:
        return dict(json.loads(self.spark.exec(["docker", "inspect", SLOT]).stdout)[0])

    def json(self, name: str) -> dict[str, t.Any]:
        return dict(json.loads(self.spark.read_file(f"{HOME}/{self.name}/{name}")))

    @property
    def state(self) -> dict[str, t.Any]:
        return self.json("state/state.json")

    @property
    def health(self) -> int:
        return self.spark.exec(["docker", "exec", SLOT, "python3", "/deployment/entrypoint.py", "health"]).returncode

    def complete(self, prompt: str, seconds: int = 60) -> str:
        """What the server answers, as it is; empty for an error."""
        question = json.dumps({"model": self.model, "prompt": prompt, "max_tokens": 4})
        ask = ["curl", "-sf", "--max-time", str(seconds), "-H", "Content-Type: application/json", "-d", question]
        reply = self.spark.exec([*ask, f"{self.url}/completions"])
        return reply.stdout if reply.returncode == 0 else ""

    def answers(self) -> bool:
        """Whether text comes, and not only a status."""
        return '"text"' in self.complete("1, 2, 3,", 5)

    def wait_until(self, condition: t.Callable[[], bool], seconds: float = 300) -> None:
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline, (self.state, self.spark.exec(["docker", "logs", "--tail", "20", SLOT]))
            time.sleep(0.5)

    def wait_until_it_answers(self) -> None:
        self.wait_until(self.answers)


@pytest.fixture(scope="session")
def head() -> Node:
    return Node(1)


@pytest.fixture(scope="session")
def worker() -> Node:
    return Node(2)

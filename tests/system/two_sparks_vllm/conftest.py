# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest

from tests import playbook
from tests.pair import Node

pytest_plugins = ["tests.scenario"]

NAME = "first_light_two"
RECIPE = {"recipe": str(playbook.ROOT / f"tests/twin/recipes/{NAME}.yml")}
# How soon a lost worker and an engine that hangs are taken for what they are.
QUICK = {
    "speculative_serve_probe_interval_s": 5,
    "speculative_serve_stall_timeout_s": 60,
    "speculative_serve_worker_timeout_s": 8,
}


class Rank(Node):
    """A Spark with a rank of the real vLLM."""

    name, url, model = NAME, "http://127.0.0.1:8000/v1", "SmolLM2-135M-Instruct-Q4"


@pytest.fixture(scope="session")
def head() -> Rank:
    return Rank(1)


@pytest.fixture(scope="session")
def worker() -> Rank:
    return Rank(2)


@pytest.fixture(scope="session")
def variables() -> dict[str, t.Any]:
    """What the deployment is run with."""
    return {**RECIPE, **QUICK}


@pytest.fixture(scope="session", autouse=True)
def begin(new_sparks: t.Callable[..., None], variables: dict[str, t.Any]) -> None:
    """With the real vLLM, CPU build, on two Sparks that serve as one."""
    new_sparks(2, "--vllm")
    playbook.succeed("serve", variables=variables)

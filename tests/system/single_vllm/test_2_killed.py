# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Each process of a deployment of vLLM on one Spark is killed, and text comes again each time."""

from __future__ import annotations

import typing as t

import pytest

from tests import playbook
from tests.first_light import Rank, variables


@pytest.fixture(scope="module", autouse=True)
def begin_here(alone: Rank) -> None:
    """With the real vLLM, whatever served before."""
    playbook.succeed("serve", variables=variables("first_light"))
    alone.wait_until_it_runs()


def api_server(node: Rank) -> int:
    return next(pid for pid, title in node.processes().items() if "vllm serve" in title)


def engine_core(node: Rank) -> int:
    return next(pid for pid, title in node.processes().items() if title.startswith("VLLM::EngineCor"))


def worker(node: Rank) -> int:
    return next(pid for pid, title in node.processes().items() if title.startswith("VLLM::Worker"))


def supervisor(node: Rank) -> int:
    return int(node.inspect()["State"]["Pid"])


@pytest.mark.parametrize("process", [api_server, engine_core, worker, supervisor])
def test_whatever_is_killed_text_comes_again(alone: Rank, process: t.Callable[[Rank], int]) -> None:
    before, all_of_it = alone.inspect()["RestartCount"], set(alone.processes())
    restarts = alone.state["restarts"]
    assert alone.spark.exec(["kill", "-9", str(process(alone))]).returncode == 0
    # Nothing is left that holds memory.
    alone.wait_until(lambda: not all_of_it & set(alone.processes()))
    alone.wait_until_it_runs()
    own = process is supervisor
    assert alone.inspect()["RestartCount"] == before + own
    # The supervisor counts the ends of its servers, and Docker those of the supervisor.
    assert alone.state["restarts"] == (0 if own else restarts + 1)
    assert (alone.state["last_exit"] or {}).get("by") is None

# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Four Sparks on a switch serve as one: what is made for two is made for any number."""

from __future__ import annotations

import functools
import json
import typing as t
from pathlib import Path

import pytest

from tests import playbook
from tests.pair import Node
from tests.twin.control import Internet

pytest_plugins = ["tests.scenario"]

SPARKS = ["spark-1", "spark-2", "spark-3", "spark-4"]


@pytest.fixture(scope="module", autouse=True)
def begin(new_sparks: t.Callable[..., None]) -> None:
    """With four bare Sparks."""
    new_sparks(4)


def serves(node: Node) -> bool:
    return str(node.state["state"]) == "rank_runs"


def test_one_command_serves_and_fetches_everything_once(
    internet: Internet, nodes: list[Node], recipe: dict[str, str]
) -> None:
    playbook.succeed("serve", variables=recipe)
    head, *workers = nodes
    assert head.answers()
    report = head.json("state/ranks.json")
    assert report["differences"] == []
    assert [rank["host"] for rank in report["ranks"]] == SPARKS
    # From one to the next, and not from the internet.
    assert [internet.bytes_to(worker.spark.address) for worker in workers] == [0, 0, 0]


def test_status_tells_of_each(tmp_path: Path) -> None:
    path = tmp_path / "status.json"
    playbook.succeed("status", variables={"json": str(path)})
    told = json.loads(path.read_text(encoding="utf-8"))
    assert [told[name]["state"] for name in SPARKS] == ["ready", "rank_runs", "rank_runs", "rank_runs"]


def test_a_killed_worker_comes_back_and_the_others_with_it(nodes: list[Node]) -> None:
    head, *workers = nodes
    third = nodes[2]
    container = third.inspect()
    third.spark.exec(["kill", "-9", str(container["State"]["Pid"])])
    third.wait_until(lambda: third.inspect()["RestartCount"] > container["RestartCount"])
    head.wait_until_it_answers()
    for worker in workers:
        worker.wait_until(functools.partial(serves, worker))

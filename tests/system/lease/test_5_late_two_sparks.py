# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A run that was away changes neither of two Sparks when it is back: each of them refuses what comes late."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import playbook
from tests.lease import frozen, holder, until
from tests.pair import SLOT, Node
from tests.playbook import Background
from tests.slot import containers

pytest_plugins = ["tests.pair"]

CONTAINER, START, STOP = "Run the container", "Start the container as it was created", "Stop the container"
# One Spark after the other: the second has been sent nothing when the run is suspended before the first.
SINGLY = ("--forks", "1")
# Longer than a lease that no run renews.
AWAY_S = 60


def wish(draft_length: int) -> tuple[str, ...]:
    return ("-e", f"speculative_serve_draft_length={draft_length}")


@pytest.fixture(scope="module", autouse=True)
def serving(begin: None) -> None:
    playbook.succeed("two_sparks", *wish(3))


@pytest.fixture(name="nodes")
def fixture_nodes(head: Node, worker: Node) -> list[Node]:
    return [head, worker]


def state(nodes: list[Node]) -> list[object]:
    """Return which containers the Sparks have, since when those run, and what Docker does with them after a reboot."""
    found = [node.inspect() for node in nodes]
    return [(one["Id"], one["State"]["StartedAt"]) for one in found] + [containers(node.spark) for node in nodes]


def are_free(nodes: list[Node]) -> None:
    until(lambda: [holder(node.spark) for node in nodes] == [None, None], AWAY_S)


def are_proven(nodes: list[Node], draft_length: int) -> None:
    """What answers is what is recorded, on both."""
    nodes[0].wait_until_it_answers()
    for node in nodes:
        record = node.json("record.json")
        assert record["draft_length"] == draft_length
        assert record["container"]["labels"].items() <= node.inspect()["Config"]["Labels"].items()
        assert containers(node.spark) == {SLOT: (True, "unless-stopped")}


def refused(run: Background, task: str, *hosts: str) -> None:
    """The task itself fails, so its module was on its way; and it is the Spark that says so."""
    output = run.log.read_text("utf-8")
    late = " ".join(output.rpartition(f": {task}] ")[2].partition("\nTASK ")[0].split())
    for host in hosts:
        told = f"fatal: [{host}]: FAILED! => changed: false msg: '{host}: this run lost its lease"
        assert told in late, output


@pytest.mark.parametrize(("number", "draft_length"), [(2, 1), (1, 3)], ids=["worker", "head"])
def test_it_does_not_replace_what_another_one_has_proven(
    nodes: list[Node], tmp_path: Path, number: int, draft_length: int
) -> None:
    late = nodes[number - 1].spark
    with frozen(tmp_path / "log", [CONTAINER], "two_sparks", *wish(2), FREEZE_ON=late.address) as run:
        are_free(nodes)
        playbook.succeed("two_sparks", *wish(draft_length))
        before = state(nodes)
    assert state(nodes) == before
    refused(run, CONTAINER, f"spark-{number}")
    are_proven(nodes, draft_length)


def test_it_does_not_stop_what_another_one_has_started(nodes: list[Node], tmp_path: Path) -> None:
    with frozen(tmp_path / "log", [STOP], "stop", *SINGLY) as run:
        are_free(nodes)
        playbook.succeed("start")
        before = state(nodes)
    assert state(nodes) == before
    refused(run, STOP, "spark-1", "spark-2")
    are_proven(nodes, 3)


@pytest.mark.parametrize(
    ("late", "task", "numbers"),
    [
        (("two_sparks", *wish(2)), CONTAINER, [2]),
        (("two_sparks", *wish(2)), CONTAINER, [1]),
        (("start", *SINGLY), START, [1, 2]),
    ],
    ids=["worker", "head", "start"],
)
def test_it_does_not_start_what_another_one_has_stopped(
    nodes: list[Node], tmp_path: Path, late: tuple[str, ...], task: str, numbers: list[int]
) -> None:
    first = nodes[numbers[0] - 1].spark.address
    with frozen(tmp_path / "log", [task], *late, FREEZE_ON=first) as run:
        playbook.succeed("stop")
        before = state(nodes)
    assert state(nodes) == before
    refused(run, task, *[f"spark-{number}" for number in numbers])
    assert [containers(node.spark) for node in nodes] == [{SLOT: (False, "no")}] * 2
    playbook.succeed("start")
    are_proven(nodes, 3)

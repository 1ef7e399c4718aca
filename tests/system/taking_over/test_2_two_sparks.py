# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Two Sparks that an earlier state of the collection has deployed as one: neither half is ended."""

from __future__ import annotations

import typing as t

import pytest

from tests import left, playbook
from tests.left import HOME, inspect, record
from tests.pair import NAME, Node

KEPT = "goes on with the programs of the release that deployed it"


@pytest.fixture(scope="module", autouse=True)
def taken_over(new_sparks: t.Callable[..., None], head: Node, worker: Node) -> None:
    """Network, keys, image and models come from a deployment of today."""
    new_sparks(2)
    playbook.succeed("two_sparks")
    head.spark.exec(["docker", "stop", left.SLOT])
    # A head takes whatever answers for its worker.
    for number, node in ((2, worker), (1, head)):
        left.put(node.spark, NAME, f"two_sparks-{number}")
    head.wait_until_it_answers()


def started(*nodes: Node) -> list[str]:
    return [inspect(node.spark)["State"]["StartedAt"] for node in nodes]


def test_both_are_taken_over_without_a_restart(head: Node, worker: Node) -> None:
    before = started(head, worker)
    kept = [record(node.spark, f"{NAME}/record") for node in (head, worker)]
    outcome = playbook.succeed("two_sparks")
    assert (outcome.changed, started(head, worker)) == ([], before)
    assert " ".join(outcome.output.split()).count(KEPT) == 2
    assert [record(node.spark, f"{NAME}/record") for node in (head, worker)] == kept


def test_another_wish_is_made_anew_on_both_and_they_come_back_together(head: Node, worker: Node) -> None:
    playbook.succeed("two_sparks", variables={"speculative_serve_draft_length": 2})
    for node in (head, worker):
        assert node.spark.mounted().startswith(f"{HOME}/{NAME}/generations/")
    playbook.succeed("two_sparks", variables={"previous": True})
    assert [node.spark.mounted() for node in (head, worker)] == [f"{HOME}/{NAME}"] * 2
    assert head.answers()
    before = started(head, worker)
    assert (playbook.succeed("two_sparks").changed, started(head, worker)) == ([], before)


def test_all_of_it_can_be_removed(head: Node, worker: Node) -> None:
    playbook.succeed("cleanup", variables={"models": "all", "network": True})
    for node in (head, worker):
        assert node.spark.exec(["test", "-e", HOME]).returncode == 1

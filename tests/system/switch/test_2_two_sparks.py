# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Two Sparks of which each has put aside its half: both serve again by themselves, or neither was changed."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest

from tests import playbook
from tests.lease import until
from tests.pair import SLOT, Node
from tests.slot import containers, has_standby, loads

PROVEN, TRIED = 3, 2


@pytest.fixture(scope="module", autouse=True)
def serving(new_sparks: t.Callable[..., None]) -> None:
    new_sparks(2)
    playbook.succeed("two_sparks", variables={"speculative_serve_draft_length": PROVEN})


def serve(head: Node, worker: Node) -> None:
    head.wait_until_it_answers()
    for node in (head, worker):
        assert containers(node.spark) == {SLOT: (True, "unless-stopped")}
        assert node.json("record.json")["draft_length"] == PROVEN
        assert node.json("record.json")["container"]["labels"].items() <= node.inspect()["Config"]["Labels"].items()


def replacing(tmp_path: Path) -> playbook.Background:
    return playbook.Background(tmp_path / "log", "two_sparks", "-e", f"speculative_serve_draft_length={TRIED}")


def test_the_controller_is_gone_while_the_other_one_loads(head: Node, worker: Node, tmp_path: Path) -> None:
    with head.spark.gpu(seconds_per_gb=0.5):
        run = replacing(tmp_path)
        run.wait_for(lambda: loads(head.spark) and loads(worker.spark))
        run.kill()
        until(lambda: not has_standby(head.spark) and not has_standby(worker.spark), 60)
    serve(head, worker)


def test_the_power_of_both_is_gone_while_the_other_one_loads(head: Node, worker: Node, tmp_path: Path) -> None:
    with head.spark.gpu(seconds_per_gb=0.5):
        run = replacing(tmp_path)
        run.wait_for(lambda: loads(head.spark) and loads(worker.spark))
        run.kill()
        for node in (head, worker):
            node.spark.power_cut()
    head.wait_until_it_answers()
    playbook.succeed("start")
    serve(head, worker)


def test_a_container_that_docker_does_not_make_leaves_a_head_that_was_put_aside(head: Node, worker: Node) -> None:
    wish = {"speculative_serve_draft_length": TRIED, "engine_container_devices": ["/dev/none:/dev/none"]}
    outcome = playbook.fail("two_sparks", variables=wish)
    assert "Docker could not start the container" in outcome.output
    assert "The previous deployment serves again." in " ".join(outcome.output.split())
    serve(head, worker)

# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Each line of advice can be run as it is printed, whatever a Spark and the others do."""

from __future__ import annotations

import dataclasses
import itertools
import re
import shlex
import typing as t
from pathlib import Path

import pytest
import yaml
from ansible_collections.dgx_spark.speculative.plugins.module_utils._report.status import (
    Disk,
    Job,
    Previous,
    Status,
)
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._recipe.recipe import RECIPES, load, shipped
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._report.advice import (
    PLAYBOOKS,
    Advice,
    Around,
    advice,
)

PLAYBOOK_DIRECTORY = Path(__file__).parents[5] / "playbooks"
PAIR_RECIPE = "qwen3_235b_a22b_eagle3"
BOTH = ("spark-1", "spark-2")
ALONE_BEFORE = Previous("single_eagle3", "eagle3", 5, "then")
PAIR_BEFORE = Previous(PAIR_RECIPE, "eagle3", 3, "then", list(BOTH))
STATES = [*PLAYBOOKS, "ready", "busy", "waiting", "rank_runs"]


def of_pair(state: str | None, rank: int, **values: t.Any) -> Status:
    peer = {"name": BOTH[1 - rank]}
    return Status(
        state=state, deployment=PAIR_RECIPE, cluster={"rank": rank, "nodes": list(BOTH), "peer": peer}, **values
    )


def lines(host: str, status: Status, around: Around) -> list[str]:
    return [one.line(around.inventory) for one in advice(host, status, around)]


def every_advice() -> t.Iterator[tuple[Advice, tuple[str, ...]]]:
    """All that is ever printed, with the inventory that it is printed for."""
    disk = Disk(reclaimable_bytes=2_000_000_000)
    for state, before, inventory in itertools.product(STATES, (None, ALONE_BEFORE, PAIR_BEFORE), ((), BOTH[:1], BOTH)):
        own = Status(state=state, deployment="mine", previous=before, disk=disk)
        own_at_work = dataclasses.replace(own, jobs=[Job("pull", 5, "")])
        pairs = [of_pair(state, rank, previous=before, disk=disk) for rank in (0, 1)]
        for other in (own, *pairs):
            around = Around(inventory, {"spark-2": other} if len(inventory) > 1 else {})
            for status in (own, own_at_work, *pairs):
                host = BOTH[status.cluster["rank"]] if status.cluster else BOTH[0]
                yield from ((one, inventory) for one in advice(host, status, around))


EVERY = sorted(set(every_advice()))


def taken(playbook: str) -> set[str]:
    """The variables that a playbook says it takes."""
    text = (PLAYBOOK_DIRECTORY / f"{playbook}.yml").read_text(encoding="utf-8")
    return {name for listed in re.findall(r"playbook_inputs: (\{.*\})", text) for name in yaml.safe_load(listed)}


@pytest.mark.parametrize(("one", "inventory"), EVERY, ids=[one.line(inventory) for one, inventory in EVERY])
def test_each_can_be_run(one: Advice, inventory: tuple[str, ...]) -> None:
    words = shlex.split(one.line(inventory).rpartition(": ")[2])
    assert (PLAYBOOK_DIRECTORY / words[0]).is_file()
    variables = dict(word.split("=", 1) for flag, word in itertools.pairwise(words) if flag == "-e")
    assert set(variables) <= taken(one.playbook)
    limit = next((word for flag, word in itertools.pairwise(words) if flag == "--limit"), None)
    chosen = limit.split(",") if limit else list(inventory)
    assert set(chosen) == set(one.hosts if inventory else ())
    recipe = variables.get("recipe") or (one.playbook if one.playbook in shipped(RECIPES) else "")
    if recipe:
        assert load(shipped(RECIPES)[recipe])["sparks"] == len(one.hosts)


def test_every_state_but_those_that_are_well_has_advice() -> None:
    for state in STATES:
        status = of_pair(state, 0) if state == "waiting" else Status(state=state)
        well = state in ("ready", "busy", "rank_runs")
        assert bool(lines("spark-1", status, Around())) is not well


@pytest.mark.parametrize(
    ("state", "command"),
    [
        ("absent", "single_eagle3.yml"),
        ("stopped", "start.yml"),
        ("loading", "logs.yml"),
        ("dead", "diagnose.yml"),
        ("failed", "Start the deployment again: start.yml"),
        ("unhealthy", "diagnose.yml"),
        ("trial", "benchmark.yml"),
        (None, "diagnose.yml"),
    ],
)
def test_the_next_command(state: str | None, command: str) -> None:
    assert command in "\n".join(lines("spark-1", Status(state=state), Around()))


def test_an_interrupted_cleanup_is_finished_first_and_one_that_goes_on_is_not() -> None:
    status = Status(state="stopped", cleanup_began="2026-10-04T09:12:44Z")
    assert lines("spark-1", status, Around())[0] == "Finish the interrupted cleanup: cleanup.yml"
    held = dataclasses.replace(status, lease={"owner": "a@b"})
    assert "cleanup.yml" not in "\n".join(lines("spark-1", held, Around()))


def test_one_that_is_well_is_not_told_to_go_back() -> None:
    well = Status(state="ready", previous=ALONE_BEFORE, disk=Disk(reclaimable_bytes=999_999_999))
    assert lines("spark-1", well, Around(BOTH)) == []
    ill = dataclasses.replace(well, state="failed")
    assert lines("spark-1", ill, Around(BOTH))[-1] == (
        "Roll back to single_eagle3: serve.yml -e previous=true --limit spark-1"
    )
    assert lines("spark-1", ill, Around(BOTH[:1]))[-1] == "Roll back to single_eagle3: serve.yml -e previous=true"


def test_a_pair_goes_back_together_and_only_if_both_remember() -> None:
    ill = of_pair("failed", 0, previous=PAIR_BEFORE)
    both = Around(BOTH, {"spark-2": of_pair("waiting", 1, previous=PAIR_BEFORE)})
    assert lines("spark-1", ill, both)[-1] == f"Roll back to {PAIR_RECIPE}: serve.yml -e previous=true"
    other = Around(BOTH, {"spark-2": of_pair("waiting", 1, previous=ALONE_BEFORE)})
    assert "previous" not in "\n".join(lines("spark-1", ill, other) + lines("spark-1", ill, Around(BOTH)))


@pytest.mark.parametrize("state", ["waiting", "stopped", "loading"])
def test_a_worker_whose_head_serves_alone_is_freed(state: str) -> None:
    head = Status(state="ready", deployment="single_eagle3")
    told = lines("spark-2", of_pair(state, 1), Around(BOTH, {"spark-1": head}))
    freed = ["Free its memory, since spark-1 has another deployment now: stop.yml --limit spark-2"]
    again = f"Serve {PAIR_RECIPE} again: serve.yml -e recipe={PAIR_RECIPE}"
    assert told == [*(freed if state != "stopped" else []), again]


def test_a_worker_that_waits_for_its_head() -> None:
    head = of_pair("stopped", 0)
    told = lines("spark-2", of_pair("waiting", 1), Around(BOTH, {"spark-1": head}))
    assert told == ["See what spark-1 does: status.yml", "Start both: start.yml"]


def test_a_pull_that_goes_on() -> None:
    status = Status(state="absent", jobs=[Job("pull", 12.0, "59 MB of 89 MB")])
    assert lines("spark-1", status, Around(BOTH)) == [
        "Continue after the pull: run the same playbook again, such as this one: single_eagle3.yml --limit spark-1"
    ]
    # Whoever runs something now needs no advice to do so.
    assert lines("spark-1", Status(state="absent", lease={"owner": "me"}), Around()) == []

# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._serving.differences import differences

Facts = dict[str, t.Any]
HEAD = {"rank": 0, "role": "head", "nodes": ["a", "b"], "options": "1"}
WORKER = {**HEAD, "rank": 1, "role": "worker"}


def facts(pair: Facts | None = None, deployment: str | None = "big", runs: bool = True, **more: t.Any) -> Facts:
    container = {"state": "running" if runs else "exited"}
    return {"state": "ready", "deployment": deployment, "cluster": pair, "container": container, **more}


ABSENT = facts(None, None, container=None, state="absent")
UNKNOWN = facts(None, None, container=None, state=None)


@pytest.mark.parametrize(
    "statuses",
    [
        {"a": facts()},
        {"a": facts(), "b": facts()},
        {"a": facts(), "b": {}},
        {"a": facts(HEAD), "b": facts(WORKER)},
        {"a": facts(HEAD, runs=False), "b": facts(WORKER, runs=False)},
        {"a": facts(HEAD), "c": facts()},
        {"a": facts(HEAD), "b": facts(WORKER), "c": facts(deployment="other")},
        # Nothing is held that should be given back.
        {"a": facts(), "b": facts(WORKER, runs=False)},
        {"a": UNKNOWN, "b": facts(WORKER)},
    ],
)
def test_nothing_to_say(statuses: dict[str, Facts]) -> None:
    assert [differences(statuses, host) for host in statuses] == [[]] * len(statuses)


def test_one_that_could_not_be_looked_at() -> None:
    said = ["b could not be looked at; what is said of it here is what a sees."]
    assert differences({"a": facts(HEAD), "b": {}}, "a") == said
    assert differences({"a": facts(HEAD), "b": None}, "a") == said
    assert differences({"a": facts(HEAD), "b": {}}, "b") == []


@pytest.mark.parametrize(
    ("own", "its", "words"),
    [
        (
            facts(HEAD),
            facts(WORKER, "old"),
            "a is the head of big, but b is the worker of old. Run the playbook of the deployment that you want. "
            "'stop.yml --limit b' frees the memory of b.",
        ),
        (facts(HEAD), facts(HEAD), "a and b are both the head: a for big, b for big."),
        (
            facts(HEAD),
            facts({**WORKER, "options": "2"}),
            "a and b run different images or engine options of big: a run was interrupted",
        ),
        (
            facts(HEAD),
            facts(WORKER, runs=False),
            "The container of a runs, but the container of b does not. Neither can serve alone. Run start.yml",
        ),
        (
            facts(deployment="small"),
            facts(WORKER),
            "b still runs rank 1 of big, but its head a runs small alone. Free its memory with 'stop.yml --limit b'.",
        ),
        (ABSENT, facts(WORKER), "b still runs rank 1 of big, but its head a has no container."),
        (
            facts(HEAD),
            ABSENT,
            "a is the head of big, but its worker b has no container. "
            "Run the playbook of big again for both, or another one with --limit a.",
        ),
        (
            facts(HEAD, machine={"driver": "580.95", "kernel": "6.17"}),
            facts(WORKER, machine={"driver": "580.82", "kernel": "6.17"}),
            "The GPU driver is 580.95 here and 580.82 on b. Sparks that differ may be slow together.",
        ),
    ],
)
def test_what_does_not_belong_together(own: Facts, its: Facts, words: str) -> None:
    (said,) = differences({"a": own, "b": its}, "a")
    assert said.startswith(words)
    # The other one is told as well.
    assert len(differences({"a": own, "b": its}, "b")) == 1


def test_halves_that_were_never_seen_to_serve_know_no_names() -> None:
    statuses = {"a": facts({**HEAD, "nodes": []}), "b": facts({**WORKER, "nodes": []}, "old")}
    assert "b is the worker of old" in differences(statuses, "a")[0]


# Any number


def of_three(**changes: Facts) -> dict[str, Facts]:
    names = ["a", "b", "c"]
    pair = {"nodes": names, "options": "1"}
    ranks = [{**pair, "rank": rank, "role": "worker" if rank else "head"} for rank in range(3)]
    return {name: {**facts(rank), **changes.get(name, {})} for name, rank in zip(names, ranks)}


def test_three_that_belong_together() -> None:
    assert [differences(of_three(), host) for host in "abc"] == [[], [], []]


def test_one_of_three_that_does_not_run() -> None:
    stopped = {"container": {"state": "exited"}}
    said = (
        "The container of a runs, but the container of c does not. Neither can serve alone. Run start.yml, which "
        "starts all."
    )
    assert differences(of_three(c=stopped), "a") == [said]


def test_one_of_three_that_serves_something_else() -> None:
    other = of_three(c={"cluster": None, "deployment": "small"})
    (said,) = differences(other, "a")
    assert said.startswith(
        "a is the head of big, but its worker c runs small alone. Run the playbook of big again for all,"
    )
    # The other worker is not concerned.
    assert differences(other, "b") == []


def test_a_rank_of_three_whose_head_is_gone() -> None:
    (said,) = differences(of_three(a={**ABSENT}), "c")
    assert said.startswith("c still runs rank 2 of big, but its head a has no container.")

# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a run costs that has nothing to change: calls of the Sparks, and time against tasks that do nothing."""

from __future__ import annotations

import functools
import json
import re
import time
import typing as t

from tests import playbook

ROUNDS = 3
# How often that is done again before something counts as slow.
MOST_TIMES = 4
NO_OP_TASKS = 25
# What a run took where nothing is to be changed, with the time of so many tasks that do nothing as 1. It may fall; a
# quarter on top is the noise of a machine that is shared.
TOOK = {"single_eagle3": 1.25, "two_sparks": 1.5, "preflight": 0.75}
MOST = {name: share * 1.25 for name, share in TOOK.items()}
CALL = re.compile(r"^<(?P<spark>[^>]+)> SSH: EXEC ")
NO_OPS = {
    "name": "Do nothing, often",
    "hosts": "sparks",
    "gather_facts": False,
    "tasks": [{"name": f"Do nothing {number}", "ansible.builtin.ping": {}} for number in range(NO_OP_TASKS)],
}


def timed(action: t.Callable[[], t.Any]) -> float:
    start = time.monotonic()
    action()
    return time.monotonic() - start


def remote_calls(name: str) -> list[tuple[str, str]]:
    """The Spark and the task of each call of a run that changes nothing: with pipelining, each is one SSH command."""
    # Else a task's name is printed once it has done something, after its calls.
    outcome = playbook.succeed(name, "-vvv", ANSIBLE_DISPLAY_SKIPPED_HOSTS="1")
    assert outcome.changed == [], outcome.changed
    calls, task = [], ""
    for line in outcome.output.splitlines():
        found = playbook.TASK.match(line)
        task = found["name"] if found else task
        if call := CALL.match(line):
            calls.append((call["spark"], task))
    return calls


def no_ops() -> None:
    path = playbook.INVENTORY.with_name("no_ops.yml")
    path.write_text(json.dumps([NO_OPS]), encoding="utf-8")
    playbook.succeed(str(path.with_suffix("")))


def in_turn(*names: str) -> list[float]:
    """The seconds of each run, and last of tasks that do nothing: the best of some rounds, as others only add to it."""
    actions: list[t.Callable[[], t.Any]] = [*(functools.partial(playbook.succeed, name) for name in names), no_ops]
    rounds = [[timed(action) for action in actions] for _round in range(ROUNDS)]
    return [min(column) for column in zip(*rounds)]


def slow(*names: str) -> dict[str, float]:
    """Those of these runs, of which none has anything to change, that take longer than they may, and what they take.

    What does so is asked again, and the best of all counts: the machine may have been somebody else's for a while.
    """
    found: dict[str, float] = {}
    best: list[float] = []
    for _time in range(MOST_TIMES):
        took = in_turn(*names)
        best = [min(pair) for pair in zip(best or took, took)]
        *runs, nothing = best
        found = {name: seconds / nothing for name, seconds in zip(names, runs) if seconds / nothing > MOST[name]}
        if not found:
            break
    return found

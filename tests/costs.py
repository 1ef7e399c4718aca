# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a run costs that has nothing to change: calls of the Sparks, and time against tasks that do nothing."""

from __future__ import annotations

import json
import statistics
import time
import typing as t

from tests import playbook

ROUNDS = 3
NO_OP_TASKS = 25
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


def remote_calls(name: str) -> list[str]:
    """The tasks for which a run that changes nothing calls a Spark: with pipelining, each is one SSH command."""
    # Else a task's name is printed once it has done something, after its calls.
    outcome = playbook.succeed(name, "-vvv", ANSIBLE_DISPLAY_SKIPPED_HOSTS="1")
    assert outcome.changed == [], outcome.changed
    calls, task = [], ""
    for line in outcome.output.splitlines():
        found = playbook.TASK.match(line)
        task = found["name"] if found else task
        if " SSH: EXEC " in line:
            calls.append(task)
    return calls


def no_ops() -> None:
    path = playbook.INVENTORY.with_name("no_ops.yml")
    path.write_text(json.dumps([NO_OPS]), encoding="utf-8")
    playbook.succeed(str(path.with_suffix("")))


def in_turn(name: str) -> tuple[float, float]:
    """The seconds of a run, and of tasks that do nothing: medians, since timings on shared machines are noisy."""
    pairs = [(timed(lambda: playbook.succeed(name)), timed(no_ops)) for _round in range(ROUNDS)]
    run, nothing = (statistics.median(column) for column in zip(*pairs))
    return run, nothing

# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What status.yml advises on two Sparks works as it is printed, and none of its rows contradicts another."""

from __future__ import annotations

import re
import shlex

from tests import playbook
from tests.pair import NAME, Node
from tests.twin import cables


def advised(output: str) -> list[list[str]]:
    """The commands below each Next, as words."""
    lines = " ".join(output.split())
    return [
        shlex.split(found) for found in re.findall(r"- [^:]+: (\w+[.]yml(?: -e [\w=]+)?(?: --limit [\w,-]+)?)", lines)
    ]


def test_one_that_serves_is_left_alone(head: Node) -> None:
    assert head.answers()
    assert advised(playbook.succeed("status").output) == []


def test_without_the_cable_no_row_says_that_the_other_one_answers(head: Node) -> None:
    cables.unplug()
    try:
        shown = " ".join(playbook.succeed("status").output.split())
    finally:
        cables.plug()
    assert "the link is down" in shown
    assert "other Spark spark-2 does not answer at 192.168.100.11" in shown
    assert "spark-2 answers" not in shown
    assert "state busy" not in shown
    head.wait_until(head.answers, 300)


def test_the_half_that_is_left_alone_is_told_what_can_be_done(head: Node, worker: Node) -> None:
    playbook.succeed("serve", "-e", "previous=true", "--limit", "spark-1")
    free, again = ["stop.yml", "--limit", "spark-2"], ["serve.yml", "-e", f"recipe={NAME}"]
    assert advised(playbook.succeed("status").output) == [free, again]
    playbook.succeed("stop", *free[1:])
    assert worker.inspect()["State"]["Running"] is False
    assert advised(playbook.succeed("status").output) == [again]
    playbook.succeed("serve", *again[1:])
    head.wait_until_it_answers()

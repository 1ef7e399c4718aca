# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.dgx_spark.speculative.plugins.action import deployment_info
from ansible_collections.dgx_spark.speculative.plugins.action.deployment_info import log_lines

from tests.unit import actions

LINES = ["one", "two"]


@pytest.mark.parametrize(
    ("log", "expected"),
    [
        ({"path": "/a.log", "truncated": True, "detail": None}, ["spark-1: /a.log, the last 2 lines", *LINES]),
        ({"path": "/a.log", "truncated": False, "detail": None}, ["spark-1: /a.log", *LINES]),
        ({"path": None, "truncated": False, "detail": "There is none."}, ["spark-1: no log", "There is none.", *LINES]),
    ],
)
def test_a_log_is_told_below_where_it_is(log: dict[str, t.Any], expected: list[str]) -> None:
    assert log_lines("spark-1", {**log, "lines": LINES}) == expected


def look(*, listens: bool) -> t.Any:
    """The action on a host where somebody listens, or nobody."""
    awaited = {"address": "192.168.100.11", "port": 2233, "timeout": "5"}
    looked = {"reason": "It has ended.", "disk": {}}
    return actions.made(
        deployment_info,
        {"probe": False, "wait_for_port": awaited},
        lambda name, _arguments: {"failed": not listens} if name else looked,
    )


def test_who_lets_its_head_in_is_not_looked_at_and_who_does_not_is_told_why() -> None:
    asked = ("ansible.builtin.wait_for", {"host": "192.168.100.11", "port": 2233, "timeout": 5})
    listening, silent = look(listens=True), look(listens=False)
    assert listening.run(None, {"inventory_hostname": "spark-2"}) == {"changed": False}
    assert listening.calls == [asked]
    found = silent.run(None, {"inventory_hostname": "spark-2"})
    assert silent.calls == [asked, (None, {"probe": False})]
    assert found["failed"] is True
    assert found["msg"] == "spark-2: the container is started, but its head cannot log in. It has ended."

# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import types
import typing as t

import pytest
from ansible_collections.dgx_spark.speculative.plugins.action import deployment_info
from ansible_collections.dgx_spark.speculative.plugins.action.deployment_info import told

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
    assert told("spark-1", {**log, "lines": LINES}) == expected


class Action(deployment_info.ActionModule):
    """The action on a host where somebody listens, or nobody."""

    def __init__(self, listens: bool) -> None:
        lets_in = {"address": "192.168.100.11", "port": 2233, "timeout": "5"}
        self._task: t.Any = types.SimpleNamespace(args={"ask": False, "lets_in": lets_in}, check_mode=False)
        self._play_context: t.Any = types.SimpleNamespace(remote_addr="192.0.2.1")
        self._listens = listens
        self.calls: list[tuple[str | None, t.Any]] = []

    def _execute_module(self, module_name: t.Any = None, module_args: t.Any = None, *_: t.Any, **__: t.Any) -> t.Any:
        self.calls.append((module_name, module_args))
        return {"failed": not self._listens} if module_name else {"why": "It has ended.", "disk": {}}


def test_who_lets_its_head_in_is_not_looked_at_and_who_does_not_is_told_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deployment_info.ActionBase, "run", lambda *_a, **_k: {})
    asked = ("ansible.builtin.wait_for", {"host": "192.168.100.11", "port": 2233, "timeout": 5})
    listening, silent = Action(listens=True), Action(listens=False)
    assert listening.run(None, {"inventory_hostname": "spark-2"}) == {"changed": False}
    assert listening.calls == [asked]
    found = silent.run(None, {"inventory_hostname": "spark-2"})
    assert silent.calls == [asked, (None, {"ask": False})]
    assert found["failed"] is True
    assert found["msg"] == "spark-2: the container is started, but its head cannot log in. It has ended."

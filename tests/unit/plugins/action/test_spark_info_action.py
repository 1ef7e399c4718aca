# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import types
import typing as t

import pytest
from ansible_collections.dgx_spark.speculative.plugins.action import spark_info

TAKEN = {"address": "127.0.0.1", "port": 8000, "container": None, "process": None, "holder": "a process", "user": None}
OWN = {**TAKEN, "process": "python3 (4711)", "user": "me", "holder": "process python3 (4711) of user me"}
DOCKER = {"container": "slot", "port": 8000, "usage": True}


class Action(spark_info.ActionModule):
    """The action on a host on which a port is taken, or none."""

    def __init__(self, become: str | None, *taken: t.Mapping[str, t.Any]) -> None:
        self._task: t.Any = types.SimpleNamespace(args={"gather": ["docker"], "docker": DOCKER})
        self._connection: t.Any = types.SimpleNamespace(become=become)
        self._taken = list(taken)
        self.calls: list[tuple[str | None, t.Any]] = []

    def _execute_module(self, module_name: t.Any = None, module_args: t.Any = None, *_: t.Any, **__: t.Any) -> t.Any:
        self.calls.append((self._connection.become, module_args))
        seen = {**OWN, "description": None}
        as_asked = {"slot": {}, "ports_in_use": [{**one, "description": None} for one in self._taken]}
        return {"docker": {"published_ports": [], "port": seen} if len(self.calls) > 1 else as_asked}


@pytest.mark.parametrize(("become", "taken"), [("sg", []), (None, [TAKEN])])
def test_one_look_is_enough_where_no_port_is_taken_or_nothing_is_hidden(
    become: str | None, taken: list[dict[str, t.Any]]
) -> None:
    action = Action(become, *taken)
    action.run()
    assert action.calls == [(become, None)]


def test_who_has_a_port_is_seen_as_the_login_user() -> None:
    action = Action("sg", TAKEN)
    docker = action.run()["docker"]
    assert action.calls == [("sg", None), (None, {"gather": ["docker"], "docker": {"port": 8000}})]
    assert action._connection.become == "sg"
    assert (docker["slot"], docker["ports_in_use"]) == ({}, [{**OWN, "description": None}])


def test_what_was_given_back_is_told_in_words() -> None:
    before, now = ({"memory_available": many * 10**9, "memory_free": many * 10**8} for many in (4, 110))
    told = "Memory available: 4.0 GB before, 110 GB now; free: 400 MB before, 11.0 GB now."
    assert spark_info.memory_released(before, now) == told


@pytest.mark.parametrize(
    ("now", "told"),
    [(93 * 10**9, "92.0 GB of disk space are free again."), (10**9 + 4096, "No disk space was freed."), (0, "No disk")],
)
def test_how_much_of_the_disk_is_free_again(now: int, told: str) -> None:
    assert spark_info.disk_released({"disk_free": 10**9}, {"disk_free": now}).startswith(told)

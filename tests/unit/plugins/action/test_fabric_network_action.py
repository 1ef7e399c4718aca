# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import types
import typing as t

import pytest
from ansible.errors import AnsibleConnectionFailure, AnsibleError
from ansible_collections.dgx_spark.speculative.plugins.action import fabric_network

TRIED = {"changed": True, "trial": True, "change": "1"}
Answer = t.Union[dict[str, t.Any], Exception]


class Connection:
    def __init__(self) -> None:
        self.resets = 0

    def reset(self) -> None:
        self.resets += 1


class Action(fabric_network.ActionModule):
    """The action on a host that answers as listed."""

    def __init__(self, answers: list[Answer], **arguments: t.Any) -> None:
        self._answers = answers
        self._task: t.Any = types.SimpleNamespace(
            args=arguments, async_val=0, check_mode=False, diff=False, environment=None, action="fabric_network"
        )
        self._connection: t.Any = Connection()
        self.calls: list[dict[str, t.Any]] = []

    def _execute_module(self, module_name: t.Any = None, module_args: t.Any = None, *_: t.Any, **__: t.Any) -> t.Any:
        self.calls.append(module_args)
        answer = self._answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fabric_network, "POLL_S", 0.0)


def stage(name: str, **more: t.Any) -> dict[str, t.Any]:
    return {"changed": False, "stage": name, **more}


def test_nothing_to_try_is_one_call() -> None:
    action = Action([{"changed": False, "trial": False}], document={})
    assert action.run() == {"changed": False, "trial": False}
    assert (len(action.calls), action._connection.resets) == (1, 0)


def test_a_connection_that_breaks_is_opened_again() -> None:
    gone = AnsibleConnectionFailure("Connection timed out")
    action = Action([TRIED, stage("starting"), gone, gone, stage("applying"), stage("waiting")], document={"a": 1})
    assert action.run() == {**TRIED, "stage": "waiting"}
    assert action.calls[1:] == [{"state": "tried", "change": "1"}] * 5
    # Each look is one over a new connection.
    assert action._connection.resets == 5


@pytest.mark.parametrize("ended", ["undone", "failed"])
def test_a_change_that_was_undone_is_a_failure(ended: str) -> None:
    result = Action(
        [TRIED, stage("undoing"), stage(ended, reason="the change was undone, because x.")], document={}
    ).run()
    assert (result["failed"], result["refused"], result["msg"]) == (True, True, "the change was undone, because x.")
    assert result["change"] == "1"


def test_a_host_that_restarts_has_forgotten_the_change() -> None:
    assert (
        "the host was restarted while its network was changed"
        in Action([TRIED, stage("")], state="absent").run()["msg"]
    )


def test_a_host_that_stays_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fabric_network, "MORE_S", -1.0)
    result = Action([TRIED, AnsibleConnectionFailure("no route")], timeout=1).run()
    assert result["failed"]
    assert result["msg"].startswith(
        "the host cannot be reached since its network was changed (no route). The change undoes itself"
    )


def test_a_refusal_is_handed_on() -> None:
    refused = {"failed": True, "refused": True, "msg": "another run has begun another change"}
    assert Action([TRIED, refused], document={}).run()["msg"] == "another run has begun another change"


def test_what_is_confirmed_is_a_new_connection() -> None:
    action = Action([stage("confirmed")], state="confirmed", change="1")
    assert action.run()["stage"] == "confirmed"
    assert action._connection.resets == 1


def test_a_local_connection_has_nothing_to_close() -> None:
    action = Action([TRIED, stage("waiting")], document={})
    action._connection = object()
    assert action.run()["stage"] == "waiting"


def given_up(answers: list[Answer], **arguments: t.Any) -> tuple[str, list[dict[str, t.Any]]]:
    """What is said in the end, and what the host was asked to do."""
    action = Action(answers, state="reverted", others="spark-2", **{"failure_reason": "", "change": "1", **arguments})
    result = action.run(task_vars={"inventory_hostname": "spark-1"})
    assert result["failed"]
    assert result["of_another"] == ("failure_reason" not in arguments)
    return result["msg"], action.calls


def test_what_was_tried_is_taken_back_and_told() -> None:
    said, calls = given_up([stage("undone")], failure_reason="No way.")
    assert said.startswith("spark-1: No way. ")
    assert calls == [{"state": "reverted", "change": "1"}]


def test_where_nothing_was_tried_nothing_is_taken_back() -> None:
    said, calls = given_up([], change="")
    assert said.startswith("spark-1: ")
    assert "spark-2" in said
    assert calls == []


@pytest.mark.parametrize("answer", [{"failed": True, "msg": "spark-1: no sudo."}, AnsibleError("no sudo.")])
def test_addresses_that_cannot_be_taken_back_are_told(answer: Answer) -> None:
    said = given_up([answer], failure_reason="No way.")[0]
    assert said.startswith("spark-1: No way. ")
    assert said.endswith(": no sudo.")


def test_a_host_that_is_lost_stays_lost() -> None:
    with pytest.raises(AnsibleConnectionFailure):
        given_up([AnsibleConnectionFailure("gone")])

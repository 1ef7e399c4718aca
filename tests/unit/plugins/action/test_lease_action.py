# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os
import types
import typing as t
from pathlib import Path
from unittest import mock

import pytest
from ansible.errors import AnsibleActionFail
from ansible_collections.dgx_spark.speculative.plugins.action import lease
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._lease import run_state

HOLDER = {"owner": "bob@desk", "activity": "two_sparks.yml", "for_s": 130}
HELD = {"changed": False, "state": "held", "python": "/usr/bin/python3"}
REFUSED = {"changed": False, "state": "refused", "holder": HOLDER, "python": "/usr/bin/python3"}


class Action(lease.ActionModule):
    """The action on a host whose module answers so."""

    def __init__(self, *answers: t.Any, check_mode: bool = False, shell: str = lease.SHELL, **arguments: t.Any) -> None:
        self._answers = list(answers)
        self._task: t.Any = types.SimpleNamespace(args=arguments, check_mode=check_mode)
        self._templar: t.Any = types.SimpleNamespace(template=lambda value: value)
        self._connection: t.Any = types.SimpleNamespace(_shell=types.SimpleNamespace(ansible_name=shell))
        self.requests: list[dict[str, t.Any]] = []

    def _execute_module(self, module_name: t.Any = None, module_args: t.Any = None, *_: t.Any, **__: t.Any) -> t.Any:
        self.requests.append(module_args)
        return self._answers.pop(0) if self._answers[1:] else self._answers[0]


class Spark:
    """What the lock on the Spark is asked by the controller, and answers."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.answers: list[t.Any] = []

    def ask(self, _action: t.Any, _python: str, do: str, **_more: t.Any) -> t.Any:
        self.said.append(do)
        return self.answers.pop(0) if self.answers else {"state": "held"}


@pytest.fixture(name="spark", autouse=True)
def fixture_spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Spark:
    spark = Spark()
    monkeypatch.setattr(run_state, "directory", lambda: tmp_path / "lease")
    monkeypatch.setattr(run_state, "reply", spark.ask)
    monkeypatch.setattr(lease.fence.renewer, "start", lambda *_: 2**22 + 1)
    monkeypatch.setattr(lease, "LOOK_S", 0.0)
    monkeypatch.setattr(lease, "JUST_ENDED_S", 0.0)
    monkeypatch.setattr(lease, "APART_S", 0.0)
    monkeypatch.setattr(lease.context, "CLIARGS", {"args": ("playbooks/stop.yml", "more/x.yml")})
    return spark


def run(action: Action, host: str = "spark-1", **variables: t.Any) -> dict[str, t.Any]:
    return action.run(task_vars={"inventory_hostname": host, **variables})


def test_it_is_taken_once() -> None:
    first = Action(HELD, state="held", take_over=True)
    assert run(first) == {"changed": False, "held": True}
    (request,) = first.requests
    assert (request["activity"], request["take_over"]) == ("stop.yml, x.yml", True)
    assert "@" in request["owner"]
    second = Action(state="held")
    assert run(second) == {"changed": False, "held": True}
    assert second.requests == []


@pytest.mark.parametrize("error", [KeyError("getpwuid(): uid not found"), OSError("No username set")])
def test_a_user_without_a_name_is_a_number(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("getpass.getuser", mock.Mock(side_effect=error))
    action = Action(HELD, state="held")
    run(action)
    assert action.requests[0]["owner"].startswith(f"{os.getuid()}@")


def test_it_is_not_taken_where_modules_would_not_ask() -> None:
    action = Action(HELD, state="held", shell="ansible.builtin.sh")
    with pytest.raises(AnsibleActionFail, match=r"^spark-1: ansible_shell_type is ansible\.builtin\.sh, but"):
        run(action)
    assert action.requests == []


def test_a_run_that_has_just_ended_stands_in_nobodys_way() -> None:
    action = Action(REFUSED, HELD, state="held")
    assert run(action) == {"changed": False, "held": True}
    assert len(action.requests) == 2


def test_in_check_mode_nothing_is_asked() -> None:
    for state in ("held", "checked", "awaited"):
        assert run(Action(check_mode=True, state=state)) == {"changed": False, "held": False}
    assert not run_state.directory().exists()


@pytest.mark.parametrize("minutes", [0, -1, "nan"])
def test_it_is_told_who_has_it_and_what_to_do(minutes: t.Any) -> None:
    result = run(Action(REFUSED, state="held"))
    assert result["failed"]
    assert result["msg"] == (
        "spark-1: bob@desk has been running two_sparks.yml for 2 min, and only one run at a time can change a Spark. "
        "Nothing was changed. Run again later, add -e wait_minutes=30 to wait, or end the other run with stop.yml."
    )
    with pytest.raises(AnsibleActionFail) as refusal:
        run(Action(state="awaited", wait_minutes=minutes))
    assert str(refusal.value) == result["msg"]


def test_all_or_none(spark: Spark) -> None:
    run(Action(HELD, state="held"), "spark-1")
    run(Action(REFUSED, state="held"), "spark-2")
    with pytest.raises(AnsibleActionFail, match=r"^spark-2: bob@desk"):
        run(Action(state="awaited"), "spark-1")
    assert spark.said == ["release"]
    assert run_state.Lease("spark-1").read() is None


def test_who_waits_has_none_meanwhile_and_tries_again(spark: Spark) -> None:
    run(Action(HELD, state="held"), "spark-1")
    run(Action(REFUSED, state="held"), "spark-2")
    assert run(Action(state="awaited", wait_minutes=1), "spark-1") == {"changed": False}
    spark.answers = [{"state": "held", "holder": HOLDER}, None, {"state": "held", "holder": HOLDER}, {"state": "free"}]
    assert run(Action(state="awaited", wait_minutes=1), "spark-2") == {"changed": False}
    assert spark.said == ["release", "ask", "ask", "ask", "ask"]
    again = [Action(HELD, state="held"), Action(HELD, state="held")]
    assert [run(action, host) for action, host in zip(again, ("spark-1", "spark-2"))] == [
        {"changed": False, "held": True}
    ] * 2
    assert [len(action.requests) for action in again] == [1, 1]
    assert run_state.refusals() == []


def test_the_waiting_ends_for_all_rounds_together(spark: Spark, monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter(range(0, 1000, 50))
    monkeypatch.setattr(run_state, "now", lambda: float(next(times)))
    run(Action(REFUSED, state="held"))
    spark.answers = [{"state": "none"}]
    run(Action(state="awaited", wait_minutes=4))
    run(Action(REFUSED, state="held"))
    spark.answers = [{"state": "held", "holder": HOLDER}] * 20
    with pytest.raises(AnsibleActionFail, match=r"^spark-1: bob@desk"):
        run(Action(state="awaited", wait_minutes=4))
    assert len(spark.said) < 6


def test_what_else_failed_is_said_as_it_was(spark: Spark) -> None:
    with pytest.raises(AnsibleActionFail, match=r"^The process 7 has the socket"):
        run(Action(state="awaited", wait_minutes=9), ansible_failed_result={"msg": "The process 7 has the socket."})
    assert spark.said == []


def test_a_module_that_fails_leaves_no_lease() -> None:
    failed = {"failed": True, "msg": "No room."}
    assert run(Action(failed, state="held")) == failed
    assert run_state.Lease("spark-1").read() is None
    assert run(Action(state="checked")) == {"changed": False, "held": False}

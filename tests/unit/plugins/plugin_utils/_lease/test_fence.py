# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import os
import subprocess
import typing as t

import pytest
from ansible.errors import AnsibleActionFail
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._lease import fence, run_state

HOLDER = {"owner": "bob@desk", "activity": "stop.yml", "for_s": 4}


class Action:
    """One whose Spark answers as listed."""

    def __init__(self, *answers: t.Any) -> None:
        self.answers = list(answers)
        self.asked: list[dict[str, t.Any]] = []

    def _low_level_execute_command(self, command: str, sudoable: bool) -> dict[str, t.Any]:
        assert not sudoable
        self.asked.append(json.loads(command.rpartition(" '")[2].rstrip("'")))
        answer = self.answers.pop(0)
        return {"rc": 0, "stdout": f"Welcome\n{json.dumps(answer)}\n"} if answer else {"rc": 255, "stdout": ""}


def require(action: Action, host: str = "spark-1", asks: bool = False) -> None:
    fence.require_lease(t.cast("t.Any", action), host, asks)


def confirmed(ago: float, host: str = "spark-1") -> run_state.Lease:
    lease = run_state.Lease(host)
    lease.record_renewal(run_state.now() - ago, python="/usr/bin/python3", taken=0.0, kept=True, renewer=os.getpid())
    return lease


def test_a_run_without_a_lease_is_not_checked() -> None:
    require(Action())


def test_what_was_confirmed_just_now_costs_no_call() -> None:
    confirmed(ago=14)
    require(Action())


def test_before_what_stops_a_server_the_spark_is_asked_in_any_case() -> None:
    """Its lock may have been killed a moment ago."""
    confirmed(ago=1)
    action = Action({"state": "held"}, {"state": "none"})
    require(action, asks=True)
    with pytest.raises(AnsibleActionFail, match="this run lost its lease"):
        require(action, asks=True)


def test_what_was_not_is_asked_for() -> None:
    lease = confirmed(ago=16)
    action = Action({"state": "held"})
    require(action)
    # No longer than its renewer needs: a laptop may be switched off now.
    assert [(one["do"], one["ttl"]) for one in action.asked] == [("renew", 45.0)]
    assert run_state.now() - (lease.read() or {})["sent"] < 5
    require(action)


@pytest.mark.parametrize("age", [0, 3, 14])
def test_before_its_renewer_has_had_its_turn_a_run_has_it_for_no_longer(age: float) -> None:
    """A run that is killed then would have the Spark for a quarter of an hour after its end."""
    now = run_state.now()
    run_state.Lease("spark-1").record_renewal(now, python="python3", taken=now - age, kept=False, renewer=os.getpid())
    action = Action({"state": "held"})
    require(action, asks=True)
    assert [one["ttl"] for one in action.asked] == [45.0]


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (
            {"state": "lost", "holder": HOLDER},
            r"spark-1: another run took over \(bob@desk has been running stop.yml for 4 s\)\. This run stops:",
        ),
        ({"state": "none"}, "spark-1: this run lost its lease"),
    ],
)
def test_what_was_lost_on_one_spark_stays_lost_for_all(answer: t.Any, why: str) -> None:
    confirmed(ago=60)
    with pytest.raises(AnsibleActionFail, match=f"^{why}"):
        require(Action(answer))
    confirmed(ago=0, host="spark-2")
    for host in ("spark-1", "spark-2"):
        with pytest.raises(AnsibleActionFail, match=f"^{why}"):
            require(Action(), host)


def test_what_cannot_be_asked_is_not_taken_for_granted() -> None:
    confirmed(ago=60)
    with pytest.raises(AnsibleActionFail, match="Check that the host is reachable, then run again"):
        require(Action(None))


@pytest.mark.parametrize("state", ["silent", "denied"])
def test_the_reason_of_a_lock_that_does_not_tell_is_said(state: str) -> None:
    confirmed(ago=60)
    words = "The process 7 of user bob has the socket and does not answer. 'sudo kill -9 7' ends it; then run again"
    with pytest.raises(AnsibleActionFail) as refused:
        require(Action({"state": state, "words": words}))
    assert str(refused.value) == (
        f"spark-1: cannot check whether this run still holds the lease: {words}. This run changes nothing more."
    )
    # It is not lost: the next task asks again.
    require(Action({"state": "held"}))


def test_without_a_renewer_that_is_said_once_and_the_lease_lasts_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    warnings: list[str] = []
    monkeypatch.setattr(fence.display, "warning", warnings.append)
    action = Action(*[{"state": "held"}] * 3)
    # The first time it was just taken, from somebody who had to be waited for.
    for taken in (run_state.now(), run_state.now() - 60, run_state.now() - 60):
        run_state.Lease("spark-1").record_renewal(
            run_state.now() - 60, python="python3", taken=taken, renewer=os.getpid()
        )
        require(action)
    assert [one["ttl"] for one in action.asked] == [45.0, 900.0, 900.0]
    assert len(warnings) == 1
    assert warnings[0].startswith("spark-1: the lease of this run cannot be renewed beside its tasks.")


def ended() -> int:
    """The number of a process that is no more."""
    process = subprocess.Popen(["true"])
    process.wait()
    return process.pid


@pytest.fixture
def successors(monkeypatch: pytest.MonkeyPatch) -> list[t.Callable[[str], t.Any]]:
    """What each renewer that is started asks with."""
    asks: list[t.Callable[[str], t.Any]] = []

    def start(_lease: run_state.Lease, ask: t.Callable[[str], t.Any]) -> int:
        asks.append(ask)
        return os.getpid()

    monkeypatch.setattr(fence.renewer, "start", start)
    return asks


def test_a_renewer_that_has_ended_gets_a_successor(successors: list[t.Callable[[str], t.Any]]) -> None:
    """Somebody killed it: the run would have the Spark for a quarter of an hour after its end, as without one."""
    lease = confirmed(ago=16)
    lease.record_renewal(run_state.now() - 16, renewer=ended())
    action = Action(*[{"state": "held"}] * 2)
    require(action)
    known = lease.read() or {}
    # Whether this one can renew is seen when its turn has come.
    assert (known["renewer"], known["kept"]) == (os.getpid(), False)
    assert run_state.now() - known["taken"] < 5
    successors[0]("renew")
    assert [one.get("ttl") for one in action.asked] == [45.0, None]
    require(Action())
    assert len(successors) == 1


def test_one_that_has_ended_before_its_turn_gets_one_successor(
    successors: list[t.Callable[[str], t.Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    warnings: list[str] = []
    monkeypatch.setattr(fence.display, "warning", warnings.append)
    lease = run_state.Lease("spark-1")
    lease.record_renewal(run_state.now() - 60, python="python3", taken=run_state.now() - 60, renewer=ended())
    require(Action({"state": "held"}))
    assert (len(successors), warnings) == (1, [])
    lease.record_renewal(run_state.now() - 60, taken=run_state.now() - 60, renewer=ended())
    action = Action({"state": "held"})
    require(action)
    assert (len(successors), len(warnings)) == (1, 1)
    assert action.asked[0]["ttl"] == 900.0

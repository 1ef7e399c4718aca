# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A history in which everything was as promised passes, and one with a planted lie of any kind does not."""

from __future__ import annotations

import copy
import typing as t

import pytest

from tests.soak import answers
from tests.soak.judge import LASTING, Line, counted, judge, longest
from tests.soak.promises import PROMISES, Inputs, bound, truth_within

INPUTS = Inputs(load_s=5, boot_s=10, interval_s=3, stall_s=15, peer_lost_s=10, patience_s=8)
SPARK = {
    "addresses": {"eth0": ["192.0.2.11/24"]},
    "routes": ["default via 192.0.2.1 dev eth0"],
    "netplan": {"/etc/netplan/01.yaml": "aa"},
    "containers": {"dgx-spark-speculative": {"image": "sha256:1", "running": True, "policy": "unless-stopped"}},
    "images": ["sha256:1"],
    "volumes": ["dgx-spark-speculative"],
    "foreign": ["/home/spark/mine f 644 spark spark 5"],
    "generation": {"single_eagle3/generations/1/options.yml": "100644 bb"},
    "firewall": ["-A DOCKER-USER -j RETURN"],
    "networks": ["bridge"],
    "models": ["/home/spark/.cache/huggingface d 755 spark spark 4096"],
    "processes": [],
    "deployed": {"recorded": [5, "aa"], "served": [5, "aa"]},
    "leaks": [],
}
FAULT_AT, OVER_AT, BACK_AT, ROUNDED_AT, END_AT = 100, 110, 118, 120, 300
PROMPT = answers.PROMPTS[0]


def answer(number: int, at: float, **changes: t.Any) -> list[Line]:
    """A question that is asked then, and answered a moment later."""
    text, finish = answers.expected(PROMPT, 20)
    who = {"client": "a", "life": 1, "id": number, "prompt": PROMPT, "max_tokens": 20}
    said = {"status": 200, "ended": "whole", "text": text, "finish": finish, **changes}
    return [{"at": at, "kind": "asked", **who}, {"at": at + 0.4, "kind": "answered", **who, **said}]


def status(at: float, state: str) -> Line:
    return {"at": at + 2, "begun": at, "kind": "status", "hosts": {"spark-1": {"state": state}}, "code": 0}


def look(at: float, what: str, faults: t.Sequence[str] = (), /, **changes: t.Any) -> Line:
    sparks = [{**copy.deepcopy(SPARK), **changes}]
    return {"at": at, "kind": "look", "what": what, "faults": list(faults), "runs": [], "sparks": sparks}


def ran(at: float, **changes: t.Any) -> Line:
    said = {"code": 0, "said": "", "leaks": False, "traceback": False}
    return {"at": at, "kind": "run", "playbook": "single_eagle3", **said, **changes}


def history(fault: str = "engine killed") -> list[Line]:
    """One fault, with peace before and after it."""
    refused = {"status": None, "ended": "refused", "text": "", "finish": None}
    seconds = range(1, END_AT)
    gone = range(FAULT_AT, BACK_AT) if PROMISES[fault].terms else range(0)
    asked = [answer(second, second, **(refused if second in gone else {})) for second in seconds]
    return [
        {"at": 0, "kind": "begin", "sparks": 1, "seed": 1, "inputs": vars(INPUTS), "canary": "hf_1"},
        look(0.5, "baseline"),
        *(line for two in asked for line in two),
        status(50, "ready"),
        status(OVER_AT, "dead" if gone else "ready"),
        status(200, "busy"),
        {"at": FAULT_AT - 0.7, "kind": "round", "number": 1, "faults": [fault]},
        {"at": FAULT_AT, "kind": "fault", "name": fault, "phase": "begins"},
        {"at": OVER_AT, "kind": "fault", "name": fault, "phase": "ends"},
        {"at": BACK_AT + 0.5, "kind": "back", "number": 1, "faults": [fault], "over": OVER_AT, "came": BACK_AT + 0.4},
        look(ROUNDED_AT - 0.2, "back", [fault]),
        ran(ROUNDED_AT - 0.1),
        look(ROUNDED_AT - 0.05, "repaired"),
        {"at": ROUNDED_AT, "kind": "rounded", "number": 1, "seconds": ROUNDED_AT - FAULT_AT + 0.5},
        {"at": END_AT, "kind": "end", "rounds": 1, "seconds": 20},
    ]


def rules(lines: t.Sequence[Line]) -> set[str]:
    return {found.rule for found in judge(lines)}


def change(lines: list[Line], kind: str, at: float, **changes: t.Any) -> list[Line]:
    """The same history, but for one of its lines."""
    (index,) = (number for number, line in enumerate(lines) if (line["kind"], line["at"]) == (kind, at))
    return [*lines[:index], {**lines[index], **changes}, *lines[index + 1 :]]


def test_what_was_as_promised_passes() -> None:
    lines = history()
    assert judge(lines) == []
    assert counted(lines) == {"engine killed": 1}
    assert longest(lines) == {"engine killed": (BACK_AT + 0.4 - OVER_AT, bound(["engine killed"], INPUTS))}


def test_a_round_that_was_cut_off_is_no_peace() -> None:
    cut = [line for line in history() if line["kind"] not in ("back", "rounded") and line["at"] < BACK_AT]
    assert [found for found in judge(cut) if found.rule == "interrupted"] == []


@pytest.mark.parametrize(
    ("rule", "changes"),
    [
        ("incomplete answer", {"finish": None}),
        ("wrong answer", {"text": "The sky is green."}),
        # What another number of tokens would have been.
        ("wrong answer", {"text": answers.expected(PROMPT, 19).text}),
        ("wrong answer", {"finish": "stop"}),
        ("interrupted", {"status": 200, "ended": "broken", "finish": None}),
        ("interrupted", {"status": 503, "ended": "whole", "finish": None}),
        ("interrupted", {"status": None, "ended": "gave up", "finish": None}),
    ],
)
def test_an_answer_that_is_not_what_it_says(rule: str, changes: dict[str, t.Any]) -> None:
    assert rules(change(history(), "answered", 40.4, **changes)) == {rule}


@pytest.mark.parametrize("at", [FAULT_AT + 0.4, FAULT_AT - 0.6 + 1e-9])
def test_an_answer_that_is_cut_off_by_a_fault_is_none(at: float) -> None:
    """Also of a question that was asked just before."""
    cut = {"status": 200, "ended": "broken", "text": "The", "finish": None}
    lines = history()
    number = next(line["id"] for line in lines if line["kind"] == "answered" and abs(line["at"] - at) < 0.01)
    assert (
        judge([{**line, **cut} if line["kind"] == "answered" and line["id"] == number else line for line in lines])
        == []
    )


def test_it_comes_back_too_late_or_never() -> None:
    limit = bound(["engine killed"], INPUTS)
    late = [line for line in history() if line["kind"] != "answered" or not OVER_AT < line["at"] < OVER_AT + limit + 2]
    assert "late" in rules(late)
    never = [line for line in history() if line["kind"] != "answered" or line["at"] < OVER_AT]
    (found,) = (found for found in judge(never) if found.rule == "late")
    assert found.what == f"engine killed: answered never, promised within {limit:.0f} s"


def test_it_is_back_when_it_stays() -> None:
    """One answer between two refusals is none."""
    late = OVER_AT + int(bound(["engine killed"], INPUTS)) + 4
    cut = {"status": None, "ended": "refused", "text": "", "finish": None}
    asked = {line["id"]: line["at"] for line in history() if line["kind"] == "asked"}
    lines = [
        {**line, **cut} if line["kind"] == "answered" and BACK_AT + 2 < asked[line["id"]] < late else line
        for line in history()
        if line["kind"] not in ("back", "rounded")
    ]
    back = {"at": late + 9, "kind": "back", "number": 1, "faults": ["engine killed"], "over": OVER_AT, "came": late}
    assert rules([*lines, back, {"at": late + 10, "kind": "rounded", "number": 1, "seconds": late - FAULT_AT}]) == {
        "late"
    }


def test_a_fault_that_nobody_felt_was_none() -> None:
    unharmed = [line for line in history("disk full") if line["kind"] not in ("round", "back", "fault")]
    told = [line for line in history("engine killed") if line["kind"] in ("round", "back", "fault")]
    assert rules([*unharmed, *told]) == {"not felt"}
    # One of several may hit nothing.
    both = [{**line, "faults": ["engine killed", "disk full"]} if "faults" in line else line for line in told]
    assert rules([*unharmed, *both]) == set()


def test_combined_faults_add_up() -> None:
    both = bound(["engine killed", "power cut"], INPUTS)
    assert bound(["engine killed"], INPUTS) < both < bound(["engine killed"], INPUTS) + bound(["power cut"], INPUTS)


def test_who_was_to_be_served_on_is_cut_off() -> None:
    assert judge(history("disk full")) == []
    assert rules(change(history("disk full"), "answered", FAULT_AT + 2.4, ended="broken", finish=None)) == {
        "interrupted"
    }


def test_status_says_that_it_serves_though_nobody_is_served() -> None:
    until = FAULT_AT + truth_within(INPUTS) + 10
    lines = [line for line in history() if line["kind"] != "answered" or not FAULT_AT < line["at"] < until + 5]
    assert "false status" not in rules([*lines, status(until, "loading")])
    assert "false status" in rules([*lines, status(until, "ready")])
    # For as long as the watchdog may take it may be wrong.
    assert "false status" not in rules([*lines, status(FAULT_AT + 5, "ready")])


@pytest.mark.parametrize("state", ["absent", "stopped", "dead", "failed", "unhealthy"])
def test_status_says_that_it_is_down_though_it_serves(state: str) -> None:
    assert rules([*history(), status(230, state)]) == {"false status"}


@pytest.mark.parametrize("changes", [{"hosts": {}}, {"code": 2}, {"hosts": {"spark-1": {"state": "loading"}}}])
def test_status_does_not_see_what_has_long_been_served(changes: dict[str, t.Any]) -> None:
    assert rules([*history(), {**status(230, "ready"), **changes}]) == {"false status"}
    # Just after it came back it may be on its way.
    assert rules([*history(), {**status(BACK_AT + 6, "ready"), **changes}]) == set()


def test_nobody_has_asked_for_status() -> None:
    """For longer than it takes to ask, be it in the middle or at the end."""
    later = [{**line, "at": line["at"] + 120} if line["kind"] == "end" else line for line in history()]
    assert rules([line for line in later if line["kind"] != "status"]) == {"not watched"}
    # While it was cut off nobody asks.
    assert rules([{**line, "at": 900} if line["kind"] == "end" else line for line in history()]) == {"not watched"}
    gone_on = [{"at": 890, "kind": "goes on"}, {"at": 895, "kind": "rounded", "number": 0, "seconds": 1}]
    on = [*({**line, "at": 900} if line["kind"] == "end" else line for line in history()), *gone_on]
    assert rules(on) == set()


def test_status_ends_with_a_traceback() -> None:
    assert rules([*history(), {**status(230, "ready"), "traceback": True}]) == {"traceback"}


@pytest.mark.parametrize("what", sorted({*LASTING, "containers"}))
def test_what_is_somebody_elses_is_another_one(what: str) -> None:
    (found,) = judge([*history(), look(250, "round", **{what: type(SPARK[what])()})])
    assert (found.rule, found.at) == ("changed", 250)
    assert found.what.startswith(f"spark-1's {what}: gone ")


def test_what_serves_is_not_what_is_on_record() -> None:
    for served in ([3, "aa"], [5, "bb"]):
        lie = look(250, "round", deployed={"recorded": [5, "aa"], "served": served})
        assert rules([*history(), lie]) == {"wrong record"}
    assert rules([*history(), look(250, "round", generation={"options.yml": "100600 bb"})]) == {"changed"}


def test_what_a_fault_leaves_is_put_right_and_else_nothing() -> None:
    """Before the same playbook has run."""
    left: dict[str, t.Any] = {"generation": {}, "deployed": {"recorded": [5, "aa"], "served": [3, "bb"]}}
    assert judge([*history(), look(250, "back", ["files edited"], **left)]) == []
    assert rules([*history(), look(250, "back", ["engine killed"], **left)]) == {"changed", "wrong record"}
    assert rules([*history(), look(250, "back", ["files edited"], firewall=["-A OUTPUT -j DROP"])]) == {"changed"}


def test_what_runs_leave_behind() -> None:
    assert rules([*history(), look(250, "repaired", processes=["python3 AnsiballZ_lease.py"])]) == {"changed"}
    assert rules([*history(), {**look(250, "repaired"), "runs": ["ansible-playbook"]}]) == {"left behind"}


def test_a_look_that_failed_is_told_as_that() -> None:
    failed = {**look(250, "back"), "sparks": [{"error": "no room"}]}
    (found,) = judge([*history(), failed])
    assert (found.rule, found.what) == ("not looked at", "spark-1: no room")


def test_nobody_has_looked_before_it_began() -> None:
    assert rules([line for line in history() if line.get("what") != "baseline"]) == {"no baseline"}


def test_a_secret_is_seen() -> None:
    assert rules([*history(), look(250, "round", leaks=["journal"])]) == {"secret"}
    assert rules([*history(), {**status(230, "ready"), "leaks": True}]) == {"secret"}
    for kind in ("run", "background"):
        assert rules([*history(), {**ran(ROUNDED_AT - 0.1, leaks=True), "kind": kind}]) == {"secret"}
    spied = {"at": ROUNDED_AT - 0.1, "kind": "spied", "looks": 40, "leaks": False}
    assert rules([*history(), spied]) == set()
    assert rules([*history(), {**spied, "leaks": True}]) == {"secret"}
    assert rules([*history(), {**spied, "looks": 2}]) == {"not watched"}


def test_the_run_that_puts_it_right_fails() -> None:
    assert rules(change(history(), "run", ROUNDED_AT - 0.1, code=2, said="no")) == {"failed run"}
    # So does one in the middle of a fault that is alone, but not on top of another.
    inside = ran(FAULT_AT + 1, code=2, said="no")
    assert rules([*history(), inside]) == {"failed run"}
    both = [{**line, "faults": ["engine killed", "power cut"]} if "faults" in line else line for line in history()]
    assert judge([*both, inside]) == []
    for kind in ("run", "background"):
        assert rules([*both, {**inside, "kind": kind, "traceback": True}]) == {"traceback"}


def test_what_could_not_be_tried_is_told() -> None:
    failed = {"at": FAULT_AT + 1, "fault": "engine killed", "error": "no such container"}
    assert rules([*history(), {**failed, "kind": "harness"}]) == {"broken soak"}
    missed = {**failed, "kind": "missed", "first": True}
    assert rules([*history(), missed]) == {"not inflicted"}
    assert rules([*history(), {**missed, "first": False}]) == set()
    assert counted([*history(), missed]) == {}
    assert rules([*history(), {"at": 299, "kind": "lost", "code": 0}]) == {"lost"}


def test_a_soak_that_did_nothing_proves_nothing() -> None:
    assert rules([line for line in history() if line["kind"] in ("begin", "look")]) == {"not done"}
    assert rules([line for line in history() if line["kind"] != "end"]) == {"not done"}


def test_a_client_that_died_of_its_answer() -> None:
    assert rules([line for line in history() if (line["kind"], line["at"]) != ("answered", 40.4)]) == {"no end"}
    garbled = {"ended": "garbled", "error": "KeyError: 'choices'", "finish": None}
    assert rules(change(history(), "answered", 40.4, **garbled)) == {"garbled answer", "interrupted"}


def test_a_history_has_one_beginning() -> None:
    with pytest.raises(ValueError, match="begins once"):
        judge(history()[1:])

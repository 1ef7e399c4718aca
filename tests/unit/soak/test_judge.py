# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A history in which everything was as promised passes, and one with a planted lie of any kind does not."""

from __future__ import annotations

import copy
import typing as t

import pytest

from tests.soak import answers
from tests.soak.judge import LOOKED_AT, Line, counted, judge, longest
from tests.soak.promises import PROMISES, Inputs, bound, on_its_way_within, truth_within

INPUTS = Inputs(load_s=5, boot_s=10, interval_s=3, stall_timeout_s=15, worker_timeout_s=10, patience_s=8)
SPARK: dict[str, t.Any] = {
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
    "commands": ["python3 trtllm-serve --config /deployment/options.yml"],
    "server": {"options": "bb", "options_on_disk": "bb", "draft_lengths": [5], "load_s": 3.0},
    "leaks": [],
}
FAULT_AT, OVER_AT, BACK_AT, ROUNDED_AT, END_AT = 100, 110, 118, 120, 300
PROMPT = answers.PROMPTS[0]


def answer(number: int, at: float, **changes: t.Any) -> list[Line]:
    """A question that is asked then, and answered a moment later."""
    text, finish, _thinking, _calls = answers.expected(PROMPT, 20)
    who = {"client": "a", "life": 1, "id": number, "route": "completions", "prompt": PROMPT, "max_tokens": 20}
    said = {"status": 200, "ended": "whole", "text": text, "finish": finish, "thinking": "", "calls": []}
    said |= {"model": "gpt-oss-120b", **changes}
    return [{"at": at, "kind": "asked", **who}, {"at": at + 0.4, "kind": "answered", **who, **said}]


def status(at: float, state: str) -> Line:
    return {"at": at + 2, "begun": at, "kind": "status", "hosts": {"spark-1": {"state": state}}, "code": 0}


def look(at: float, what: str, faults: t.Sequence[str] = (), /, **changes: t.Any) -> Line:
    sparks = [{**copy.deepcopy(SPARK), **changes}]
    return {"at": at, "kind": "look", "what": what, "faults": list(faults), "runs": [], "sparks": sparks}


def ran(at: float, **changes: t.Any) -> Line:
    said = {"code": 0, "said": "", "leaks": [], "traceback": False, "wishes": {}, "begun": at - 0.05}
    return {"at": at, "kind": "run", "playbook": "single_eagle3", **said, **changes}


BEGIN: Line = {
    "at": 0,
    "kind": "begin",
    "sparks": 1,
    "seed": 1,
    "inputs": vars(INPUTS),
    "playbook": "single_eagle3",
    "draft_length": 5,
    "routes": ["completions"],
    "model": "gpt-oss-120b",
}


def history(fault: str = "engine killed") -> list[Line]:
    """One fault, with peace before and after it."""
    refused = {"status": None, "ended": "refused", "text": "", "finish": None}
    seconds = range(1, END_AT)
    gone = range(FAULT_AT, BACK_AT) if PROMISES[fault].terms else range(0)
    asked = [answer(second, second, **(refused if second in gone else {})) for second in seconds]
    return [
        BEGIN,
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


def and_also(fault: str, lines: t.Sequence[Line]) -> list[Line]:
    """The same history with one more fault in its round, as long as the first."""
    more = [{**line, "name": fault} for line in lines if line["kind"] == "fault"]
    first = [{**line, "faults": [*line["faults"], fault]} if line.get("faults") else line for line in lines]
    return [*first, *more]


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


@pytest.mark.parametrize("asked", [FAULT_AT, FAULT_AT - 1])
def test_an_answer_that_is_cut_off_by_a_fault_is_none(asked: float) -> None:
    """Also of a question that was asked just before."""
    cut = {"at": FAULT_AT + 0.4, "status": 200, "ended": "broken", "text": "The", "finish": None}
    lines = [
        {**line, **cut} if line["kind"] == "answered" and abs(line["at"] - asked - 0.4) < 0.01 else line
        for line in history()
    ]
    assert judge(lines) == []


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
        "late",
        "interrupted",
    }


def test_a_fault_that_nobody_felt_was_none() -> None:
    unharmed = [line for line in history("disk full") if line["kind"] not in ("round", "back", "fault", "look")]
    told = [line for line in history("engine killed") if line["kind"] in ("round", "back", "fault", "look")]
    assert rules([*unharmed, *told]) == {"not felt"}
    # One of several may hit nothing.
    assert rules(and_also("disk full", [*unharmed, *told])) == set()


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


@pytest.mark.parametrize(("head", "is_a_lie"), [("loading", False), ("dead", True), ("ready", True)])
def test_a_worker_says_that_its_rank_runs_though_nobody_is_served(head: str, is_a_lie: bool) -> None:
    until = FAULT_AT + truth_within(INPUTS) + 10
    lines = [line for line in history() if line["kind"] != "answered" or not FAULT_AT < line["at"] < until + 5]
    hosts = {"spark-1": {"state": head}, "spark-2": {"state": "rank_runs"}}
    begin = [{**line, "sparks": 2} if line["kind"] == "begin" else line for line in lines]
    found = judge([*begin, {**status(until, "ready"), "hosts": hosts}])
    assert any(one.what.startswith("spark-2 rank_runs, though") for one in found) == is_a_lie


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
    # An answer that takes long is one.
    long = {**status(205, "ready"), "at": 640}
    on = [{**line, "at": 650} if line["kind"] == "end" else line for line in [*history(), long]]
    assert "not watched" not in rules(on)
    # While it was cut off nobody asks.
    assert rules([{**line, "at": 900} if line["kind"] == "end" else line for line in history()]) == {"not watched"}
    gone_on = [{"at": 890, "kind": "goes on"}, {"at": 895, "kind": "rounded", "number": 0, "seconds": 1}]
    on = [*({**line, "at": 900} if line["kind"] == "end" else line for line in history()), *gone_on]
    assert rules(on) == set()


def test_status_ends_with_a_traceback() -> None:
    assert rules([*history(), {**status(230, "ready"), "traceback": True}]) == {"traceback"}


@pytest.mark.parametrize("what", sorted({*LOOKED_AT} - {"processes"}))
def test_what_is_somebody_elses_is_another_one(what: str) -> None:
    (found,) = judge([*history(), look(250, "round", **{what: type(SPARK[what])()})])
    assert (found.rule, found.at) == ("changed", 250)
    assert found.what.startswith(f"spark-1's {what}: gone ")


def test_what_serves_is_not_what_is_on_record() -> None:
    for served in ([3, "aa"], [5, "bb"]):
        lie = look(250, "round", deployed={"recorded": [5, "aa"], "served": served})
        assert "wrong record" in rules([*history(), lie])
    assert rules([*history(), look(250, "round", generation={"options.yml": "100600 bb"})]) == {"changed"}


def test_what_a_fault_leaves_is_put_right_and_else_nothing() -> None:
    """Before the same playbook has run."""
    assert judge([*history(), look(250, "back", ["files edited"], generation={})]) == []
    assert rules([*history(), look(250, "back", ["engine killed"], generation={})]) == {"changed"}
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
    place = "the sudo password as base64 (1) in /root/notes"
    assert rules([*history(), look(250, "round", leaks=[place])]) == {"secret"}
    assert rules([*history(), {**look(250, "round"), "leaks": [place]}]) == {"secret"}
    assert rules([*history(), {**status(230, "ready"), "leaks": ["the token as hex"]}]) == {"secret"}
    for kind in ("run", "background"):
        line = {**ran(ROUNDED_AT - 0.1, leaks=["the token as plain"]), "kind": kind}
        assert rules([*history(), line]) == {"secret"}
    spied = {"at": ROUNDED_AT - 0.1, "kind": "spied", "looks": 40, "leaks": []}
    assert rules([*history(), spied]) == set()
    assert rules([*history(), {**spied, "leaks": ["the token as plain"]}]) == {"secret"}
    assert rules([*history(), {**spied, "looks": 2}]) == {"not watched"}


def test_the_run_that_puts_it_right_fails() -> None:
    assert rules(change(history(), "run", ROUNDED_AT - 0.1, code=2, said="no")) == {"failed run"}
    # So does one in the middle of a fault that is alone, but not on top of another.
    inside = ran(FAULT_AT + 1, code=2, said="no")
    assert rules([*history(), inside]) == {"failed run"}
    both = and_also("power cut", history())
    assert judge([*both, inside]) == []
    for kind in ("run", "background"):
        assert rules([*both, {**inside, "kind": kind, "traceback": True}]) == {"traceback"}


def test_what_could_not_be_tried_is_told() -> None:
    failed = {"at": FAULT_AT + 1, "fault": "engine killed", "error": "no such container"}
    assert rules([*history(), {**failed, "kind": "harness"}]) == {"broken soak"}
    missed = {**failed, "kind": "missed", "amid": []}
    assert rules([*history(), missed]) == {"not inflicted"}
    # What another one has taken away cannot be hit.
    assert rules([*history(), {**missed, "amid": ["power cut"]}]) == set()
    assert counted([*history(), missed]) == {}
    assert rules([*history(), {"at": 299, "kind": "lost", "code": 0}]) == {"lost"}


def test_a_soak_that_did_nothing_proves_nothing() -> None:
    assert rules([line for line in history() if line["kind"] in ("begin", "look")]) == {"not done", "not asked"}
    assert rules([line for line in history() if line["kind"] != "end"]) == {"not done"}


def test_a_client_that_died_of_its_answer() -> None:
    assert rules([line for line in history() if (line["kind"], line["at"]) != ("answered", 40.4)]) == {"no end"}
    garbled = {"ended": "garbled", "error": "KeyError: 'choices'", "finish": None}
    assert rules(change(history(), "answered", 40.4, **garbled)) == {"garbled answer", "interrupted"}


def test_a_history_has_one_beginning() -> None:
    with pytest.raises(ValueError, match="begins once"):
        judge(history()[1:])


# The lies that an earlier judge did not notice.


def asked_for(at: float, draft_length: int, **changes: t.Any) -> Line:
    return ran(at, wishes={"speculative_serve_draft_length": draft_length}, **changes)


def serving(draft_length: int) -> dict[str, t.Any]:
    """A Spark that serves and has on record another draft length, process and all."""
    of_server = {**SPARK["server"], "draft_lengths": [draft_length]}
    return {"deployed": {"recorded": [draft_length, "aa"], "served": [draft_length, "aa"]}, "server": of_server}


@pytest.mark.parametrize("kind", ["run", "background"])
def test_a_run_ends_well_for_another_draft_length_than_serves(kind: str) -> None:
    said = {**asked_for(240, 2), "kind": kind}
    assert rules([*history(), said, look(250, "back")]) == {"not as asked"}
    assert rules([*history(), said, look(250, "back", **serving(2))]) == set()
    # One that ended before is told of after it.
    before = {**said, "kind": "background", "at": 246, "ended": 241}
    assert rules([*history(), before, ran(245), look(250, "back")]) == set()
    # One that was cut off may have come to its end, or not.
    cut = {**said, "kind": "background", "code": -9}
    assert rules([*history(), cut, look(250, "back")]) == set()
    assert rules([*history(), cut, look(250, "back", **serving(2))]) == set()
    assert rules([*history(), cut, look(250, "back", **serving(4))]) == {"not as asked"}
    assert rules([*history(), cut, ran(245), look(250, "back", **serving(2))]) == {"not as asked"}


@pytest.mark.parametrize(
    "lie",
    [{"options": "cc"}, {"options": None}, {"draft_lengths": [0]}, {"draft_lengths": [3, 5]}, {"draft_lengths": []}],
)
def test_the_process_has_other_options_than_the_file(lie: dict[str, t.Any]) -> None:
    assert rules([*history(), look(250, "back", server={**SPARK["server"], **lie})]) == {"wrong server"}


def test_the_process_has_another_command_line() -> None:
    assert rules([*history(), look(250, "back", commands=["python3 trtllm-serve --config /tmp/x"])]) == {"changed"}


@pytest.mark.parametrize("fault", ["controller killed", "two controllers", "files edited"])
@pytest.mark.parametrize(
    "lie",
    [
        {"dgx-spark-speculative": {"image": "sha256:1", "running": True, "policy": "no"}},
        {
            **SPARK["containers"],
            "dgx-spark-speculative-standby": {"image": "sha256:1", "running": False, "policy": "no"},
        },
    ],
)
def test_a_container_is_another_one_after_a_fault_that_leaves_something(fault: str, lie: dict[str, t.Any]) -> None:
    assert rules([*history(), look(250, "back", [fault], containers=lie)]) == {"changed"}


def test_the_bytes_of_a_weight_are_others() -> None:
    """Of the same size."""
    sums = ["/home/spark/.cache/huggingface/blobs/a f 644 spark spark 4096  aa"]
    before = [{**line, "sparks": [{**SPARK, "models": sums}]} if line["kind"] == "look" else line for line in history()]
    assert judge(before) == []
    assert rules([*before, look(250, "back", models=[sums[0].replace("aa", "bb")])]) == {"changed"}


def refused_between(lines: t.Sequence[Line], begin: float, end: float) -> list[Line]:
    """The same history, but those who ask then are refused."""
    refused = {"status": None, "ended": "refused", "text": "", "finish": None}
    return [
        {**line, **refused} if line["kind"] == "answered" and begin <= line["at"] <= end else line for line in lines
    ]


def test_it_is_back_and_away_again_within_the_round() -> None:
    """Back after 8 s, it holds for 5 s, and is away for 40 s, before the round is over."""
    lines = [{**line, "at": 290} if line["kind"] == "rounded" else line for line in history()]
    assert judge(lines) == []
    assert rules(refused_between(lines, BACK_AT + 6, BACK_AT + 46)) == {"interrupted"}


def test_what_serves_on_disturbs_nothing_on_top_of_what_breaks_it() -> None:
    """Once that one's promise is over, long before the round is."""
    later = {"rounded": 290, "back": 280, "begins": 130, "ends": 270}
    lines = [
        {**line, "at": later[line["kind"]]}
        if line["kind"] in later
        else {**line, "at": later[line["phase"]]}
        if line.get("name") == "disk full"
        else line
        for line in and_also("disk full", history())
    ]
    assert judge(lines) == []
    assert rules(refused_between(lines, 160, 162)) == {"interrupted"}


def test_it_is_half_a_minute_late() -> None:
    """With a load of 3 s, which this history shows, 8 s are promised, and not a minute."""
    inputs = {**vars(INPUTS), "load_s": 3.0}
    lines = [{**line, "inputs": inputs} if line["kind"] == "begin" else line for line in history()]
    assert judge(lines) == []
    late = refused_between(lines, FAULT_AT, OVER_AT + 29)
    late = [{**line, "at": OVER_AT + 45} if line["kind"] == "back" else line for line in late]
    late = [{**line, "at": OVER_AT + 46} if line["kind"] == "rounded" else line for line in late]
    assert rules(late) == {"late", "interrupted"}


def test_a_machine_that_is_slower_by_its_own_clock_has_longer() -> None:
    """A time that is set takes no longer for that."""
    slow = {"server": {**SPARK["server"], "load_s": 6.0}}
    limit = bound(["engine killed"], INPUTS, pace=2)
    assert bound(["engine killed"], INPUTS) < limit < 2 * bound(["engine killed"], INPUTS)
    late = refused_between(history(), FAULT_AT, OVER_AT + limit - 2)
    late = [line for line in late if line["kind"] not in ("look", "back", "rounded")]
    late += [
        {"at": 160, "kind": "back", "number": 1, "faults": ["engine killed"], "over": OVER_AT, "came": 150},
        {"at": 162, "kind": "rounded", "number": 1, "seconds": 62},
        look(0.5, "baseline"),
    ]
    assert rules([*late, look(161, "back", ["engine killed"])]) == {"interrupted", "late"}
    assert rules([*late, look(161, "back", ["engine killed"], **slow)]) == set()


@pytest.mark.parametrize("state", ["dead", "loading", "waiting", None])
def test_the_second_spark_is_said_to_be_down_though_the_two_serve(state: str | None) -> None:
    lines: list[Line] = []
    for line in history():
        if line["kind"] == "begin":
            line = {**line, "sparks": 2}
        if line["kind"] == "look":
            line = {**line, "sparks": 2 * line["sparks"]}
        if line["kind"] == "status":
            line = {**line, "hosts": {**line["hosts"], "spark-2": {"state": "rank_runs"}}}
        lines.append(line)
    assert judge(lines) == []
    lie = {**status(230, "ready"), "hosts": {"spark-1": {"state": "ready"}, "spark-2": {"state": state}}}
    assert rules([*lines, lie]) == {"false status"}
    assert rules([*lines, status(230, "ready")]) == {"false status"}


def test_status_says_for_ever_that_it_is_on_its_way() -> None:
    """No way takes so long, and clients are not served, so only that tells it."""
    down = refused_between(history(), FAULT_AT, END_AT)
    limit = on_its_way_within(INPUTS)
    asked = range(OVER_AT + 1, END_AT - 5, 10)
    assert len(asked) * 10 > limit
    lies = [status(at, "loading") for at in asked]
    kept = [line for line in down if line["kind"] != "status"]
    assert "false status" in rules([*kept, *lies])
    # It was on its way twice.
    lies[len(lies) // 2] = status(asked[len(lies) // 2], "dead")
    assert "false status" not in rules([*kept, *lies])


@pytest.mark.parametrize("route", ["chat", "tools"])
def test_a_route_is_dead(route: str) -> None:
    prompt = {"chat": PROMPT, "tools": answers.ASKS_FOR_A_CALL}[route]
    text, finish, thinking, calls = answers.expected(prompt, 80, route)
    whole = {"prompt": prompt, "max_tokens": 80, "route": route, "text": text, "finish": finish}
    right = {**whole, "thinking": thinking, "calls": [list(call) for call in calls]}

    def asked(**changes: t.Any) -> list[Line]:
        return [{**line, "client": "b", **right, **changes} for line in answer(1, 230)]

    begin = {**BEGIN, "routes": ["completions", route]}
    lines = [begin if line["kind"] == "begin" else line for line in history()]
    assert rules([*lines, *asked()]) == set()
    assert rules([*lines, *asked(status=404)]) == {"interrupted", "not asked"}
    assert rules([*lines, *asked(thinking="It is a lie.")]) == {"wrong answer"}
    assert rules([*lines, *asked(calls=[["get_time", "{}"]])]) == {"wrong answer"}
    # No client has tried it.
    assert rules(lines) == {"not asked"}


def test_one_of_several_faults_hits_nothing() -> None:
    """Though the other one was not in its way."""
    missed = {"at": FAULT_AT + 5, "kind": "missed", "fault": "memory taken", "error": "no daemon"}
    assert rules([*history(), {**missed, "amid": ["containerd killed"]}]) == {"not inflicted"}


def test_other_inputs_promise_other_times() -> None:
    """For the rounds that have them; a look shows their files."""
    lines = [{**line, "at": line["at"] + 200} if line["at"] > 99 else line for line in history("engine hangs")]
    watched = {"interval_s": 60, "stall_timeout_s": 300, "worker_timeout_s": 60}
    own = {"generation": {"options.yml": "100644 cc"}}
    other = [
        {"at": 90, "kind": "changing"},
        {"at": 95, "kind": "changed", "watched": watched},
        look(96, "baseline", **own),
    ]
    lines = [line for line in lines if line["kind"] in ("begin", "round", "fault", "back", "rounded", "end")]
    (back,) = (line for line in lines if line["kind"] == "back")
    late = [{**line, "at": 700, "over": 310, "came": 690} if line is back else line for line in lines]
    late = [{**line, "at": 701} if line["kind"] == "rounded" else line for line in late]
    late = [{**line, "at": 710} if line["kind"] == "end" else line for line in late]
    served = [answer(number, at) for number, at in enumerate((20, 92, 680, 690, 702))]
    told = [look(0.5, "baseline"), *late, *(line for two in served for line in two)]
    assert "late" in rules(told)
    assert "late" not in rules([*told, *other])
    assert "changed" in rules([*told, *other, look(702, "back")])
    assert "changed" not in rules([*told, *other, look(702, "back", **own)])


def test_a_lease_outlives_its_run() -> None:
    freed = {"at": 260, "kind": "freed", "killed": 200, "after": 44.0}
    assert rules([*history(), freed]) == set()
    assert rules([*history(), {**freed, "after": 59.0}]) == {"lease"}
    assert rules([*history(), {**freed, "after": None}]) == {"lease"}


@pytest.mark.parametrize("kind", ["back", "look", "rounded", "fault"])
def test_a_round_is_not_waited_for_or_not_looked_at(kind: str) -> None:
    whole = history()
    assert judge(whole) == []
    assert "not watched" in rules([line for line in whole if line["kind"] != kind or line.get("what") == "baseline"])


def test_a_round_is_waited_for_and_looked_at_as_if_it_were_another_one() -> None:
    """With more faults, which promise a longer time and leave more, or a later end of them."""
    more = ["engine killed", "files edited", "power cut"]
    late = refused_between(history(), FAULT_AT, OVER_AT + int(bound(["engine killed"], INPUTS)) + 5)
    late = [line for line in late if line["kind"] not in ("back", "rounded") and line.get("what") != "back"]
    back = {"at": 140, "kind": "back", "number": 1, "faults": more, "over": 130, "came": 139}
    rounded = {"at": 145, "kind": "rounded", "number": 1, "seconds": 45}
    seen = look(141, "back", more, generation={})
    assert rules([*late, back, seen, rounded]) == {"late", "interrupted", "not watched"}


def test_what_a_round_leaves_is_not_looked_at_once_it_was_put_right() -> None:
    lines = [line for line in history("files edited") if line.get("what") != "repaired"]
    assert judge(history("files edited")) == []
    assert rules(lines) == {"not watched"}


def test_a_load_takes_ten_times_as_long_by_the_engines_own_word() -> None:
    """And it answers half a minute late."""
    slow = {"server": {**SPARK["server"], "load_s": 30.0}}
    late = refused_between(history(), FAULT_AT, OVER_AT + 48)
    late = [line for line in late if line["kind"] not in ("look", "back", "rounded")]
    late += [
        {"at": OVER_AT + 60, "kind": "back", "number": 1, "faults": ["engine killed"], "over": OVER_AT, "came": 158},
        {"at": OVER_AT + 62, "kind": "rounded", "number": 1, "seconds": 72},
        look(0.5, "baseline"),
        look(OVER_AT + 61, "back", ["engine killed"], **slow),
    ]
    assert rules(late) == {"late", "interrupted"}


@pytest.mark.parametrize("figure", [{"stall_timeout_s": 3000}, {"interval_s": 600}, {"worker_timeout_s": 61}])
def test_inputs_promise_longer_times_than_users_have(figure: dict[str, float]) -> None:
    """At the beginning, and later."""
    watched = {"interval_s": 60, "stall_timeout_s": 300, "worker_timeout_s": 60}
    assert rules([*history(), {"at": 295, "kind": "changed", "watched": watched}]) == set()
    assert rules([*history(), {"at": 295, "kind": "changed", "watched": {**watched, **figure}}]) == {"stretched"}
    begin = {**BEGIN, "inputs": {**vars(INPUTS), **figure}}
    assert "stretched" in rules([begin if line["kind"] == "begin" else line for line in history()])


@pytest.mark.parametrize("figure", ["load_s", "boot_s", "patience_s"])
def test_the_machine_and_its_clients_are_measured_as_no_twin_is(figure: str) -> None:
    begin = {**BEGIN, "inputs": {**vars(INPUTS), figure: 1000}}
    assert rules([begin if line["kind"] == "begin" else line for line in history()]) == {"stretched"}


def test_answers_are_whole_and_slow() -> None:
    """One each three seconds, be it that nobody asks or that all wait."""
    seldom = [line for line in history() if line["kind"] not in ("asked", "answered") or line["id"] % 3 == 0]
    assert rules(seldom) == {"slow"}
    (found,) = judge(seldom)[-1:]
    assert found.at > BACK_AT
    # What is disturbed may be so.
    short = [line for line in seldom if line["at"] >= END_AT or FAULT_AT - 9 < line["at"] < ROUNDED_AT]
    assert "slow" not in rules([BEGIN, look(0.5, "baseline"), *short])


def test_each_second_fault_hits_nothing() -> None:
    """Amid one that breaks something, which excuses one or the other."""
    missed = {"fault": "disk full", "error": "", "amid": ["power cut"]}
    rounds = [
        {"at": 200, "kind": "round", "number": number, "faults": ["power cut", "disk full"]} for number in range(8)
    ]
    told = [*history(), *rounds, {"at": 201, "kind": "goes on"}]
    assert "not inflicted" not in rules([*told, *4 * [{"at": 200, "kind": "missed", **missed}]])
    assert "not inflicted" in rules([*told, *5 * [{"at": 200, "kind": "missed", **missed}]])


def test_a_user_is_refused_while_two_harmless_faults_are_under_way() -> None:
    for faults, found in ((("memory taken", "internet fails"), {"failed run"}), (("memory taken", "power cut"), set())):
        begin = {"at": 240, "kind": "round", "number": 2, "faults": list(faults)}
        phases = [
            {"at": 241 + number, "kind": "fault", "name": name, "phase": "begins"} for number, name in enumerate(faults)
        ]
        cut = {"at": 250, "kind": "goes on"}
        lines = [*history(), begin, *phases, ran(245, code=2, said="no"), cut]
        assert rules(lines) == found


def test_another_model_answers() -> None:
    assert rules(change(history(), "answered", 40.4, model="another")) == {"wrong answer"}

# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Holds a history against the promises. It knows what happened from the history alone."""

from __future__ import annotations

import bisect
import collections
import dataclasses
import typing as t

from tests.soak.answers import expected
from tests.soak.promises import NOBODY, PROMISES, Inputs, bound, truth_within

Line = dict[str, t.Any]
SERVING = ("ready", "ready_without_speculation", "busy")
# Of status: what it says of a server that nobody can be served by. Loading and waiting are on the way.
DOWN = ("absent", "stopped", "dead", "failed", "unhealthy")
# Clients that are answered as often as this are served without a break.
BREAK_S = 4.0
# What a look shows, and has to be as it was.
LOOKED_AT = ("addresses", "routes", "netplan", "containers", "images", "volumes", "foreign", "generation")


@dataclasses.dataclass(frozen=True)
class Finding:
    """A promise that was not kept: which one, when (seconds since the begin), and what happened."""

    rule: str
    at: float
    what: str

    def __str__(self) -> str:
        return f"{self.at:7.0f} s  {self.rule}: {self.what}"


def question(line: Line) -> tuple[t.Any, ...]:
    """Which question it is, of all that were asked."""
    return line["client"], line["life"], line["id"]


def is_served(line: Line) -> bool:
    """Whether somebody got a whole answer."""
    return line["status"] == 200 and line["ended"] == "whole" and line["finish"] is not None


class History:
    """A history, with what the rules ask of it."""

    def __init__(self, lines: t.Sequence[Line]) -> None:
        self.lines = sorted(lines, key=lambda line: line["at"])
        begin = self.of("begin")
        if len(begin) != 1:
            raise ValueError(f"A history begins once; this one does so {len(begin)} times.")
        self.begin = begin[0]
        self.inputs = Inputs(**self.begin["inputs"])
        self.asked: dict[tuple[t.Any, ...], float] = {question(line): line["at"] for line in self.of("asked")}
        self.served: list[tuple[float, float]] = [
            (self.asked.get(question(line), float(line["at"])), line["at"])
            for line in self.of("answered")
            if is_served(line)
        ]
        self.answers = [at for _asked, at in self.served]
        # What was asked for in time order, to know whether anybody wanted something.
        self.questions = sorted(self.asked.values())

    def of(self, *kinds: str) -> list[Line]:
        return [line for line in self.lines if line["kind"] in kinds]

    def finding(self, rule: str, at: float, what: str) -> Finding:
        return Finding(rule, at - self.begin["at"], what)

    def answered_between(self, begin: float, end: float) -> list[float]:
        return self.answers[bisect.bisect_left(self.answers, begin) : bisect.bisect_right(self.answers, end)]

    def asked_between(self, begin: float, end: float) -> bool:
        return bisect.bisect_left(self.questions, begin) < bisect.bisect_right(self.questions, end)

    def disturbed(self) -> list[tuple[float, float]]:
        """When something was wrong, or had been just before: from a fault's begin until it answered again."""
        spans: list[tuple[float, float]] = []
        since: float | None = None
        for line in self.lines:
            if line["kind"] in ("round", "renewed"):
                since = line["at"] if since is None else since
            elif line["kind"] == "rounded" and since is not None:
                spans.append((since, line["at"]))
                since = None
        return spans if since is None else [*spans, (since, float("inf"))]


def each_question_has_an_end(history: History) -> t.Iterator[Finding]:
    """A client that died over what it was told has not said what that was; one whose Spark lost its power may."""
    answered = {question(line) for line in history.of("answered")}
    disturbed = history.disturbed()
    last = {line["client"]: line["at"] for line in history.of("asked")}
    for line in history.of("asked"):
        open_at_the_end = line["at"] == last[line["client"]]
        within = any(begin <= line["at"] + BREAK_S and line["at"] <= end for begin, end in disturbed)
        if question(line) not in answered and not open_at_the_end and not within:
            yield history.finding("no end", line["at"], f"nothing is known of the answer to {line['prompt']!r}")


def answers_are_right(history: History) -> t.Iterator[Finding]:
    """Every answer with status 200 that ended in order is complete, and the right one for its prompt."""
    for line in history.of("answered"):
        if line["ended"] == "garbled":
            yield history.finding("garbled answer", line["at"], line["error"])
        if line["status"] != 200 or line["ended"] != "whole":
            continue
        wanted = expected(line["prompt"], line["max_tokens"])
        if line["finish"] is None:
            yield history.finding(
                "incomplete answer", line["at"], f"{line['prompt']!r} ends with {line['text'][-40:]!r}"
            )
        elif (line["text"], line["finish"]) != wanted:
            yield history.finding("wrong answer", line["at"], f"{line['prompt']!r}: {line['text'][:80]!r}")


def it_is_back_in_time(history: History) -> t.Iterator[Finding]:
    """After its last fault, or what somebody had to do, it answers within what is promised."""
    for line in history.of("back"):
        limit = bound(line["faults"], history.inputs)
        over = float(line["over"])
        came: float | None = min((at for asked, at in history.served if asked >= over), default=None)
        if came is None or came > over + limit:
            took = "never" if came is None else f"after {came - over:.0f} s"
            what = f"{' and '.join(line['faults'])}: answered {took}, promised within {limit:.0f} s"
            yield history.finding("late", over, what)


def it_serves_on(history: History) -> t.Iterator[Finding]:
    """Where serving on is promised, or nothing is wrong, nobody who asks is refused or cut off."""
    quiet = [
        (line["at"] - float(line["seconds"]) - 1, line["at"])
        for line in history.of("rounded")
        for back in history.of("back")
        if back["number"] == line["number"] and all(serves_on(name) for name in back["faults"])
    ]
    disturbed = history.disturbed()
    for line in history.of("answered"):
        asked = history.asked.get(question(line), float(line["at"]))
        if is_served(line) or (line["status"] == 200 and line["ended"] == "whole"):
            continue
        # One that was asked before it went wrong may be cut off by it.
        within = any(begin <= line["at"] and asked <= end for begin, end in disturbed)
        harmless = any(begin <= asked and line["at"] <= end for begin, end in quiet)
        if harmless or not within:
            yield history.finding("interrupted", asked, f"a question {line['ended']}, status {line['status']}")


def serves_on(name: str) -> bool:
    promise = PROMISES[name]
    return not promise.terms and promise.by == NOBODY


def status_is_true(history: History) -> t.Iterator[Finding]:
    """It says neither that it serves though nobody is served for longer than promised, nor that it is down while it
    serves."""
    allowed = truth_within(history.inputs)
    for line in history.of("status"):
        # The first of several has the API.
        state = next(iter(line["hosts"].values()), {"state": None})["state"]
        begin, end = line["begun"], line["at"]
        wanted = history.asked_between(begin - allowed, begin - allowed + 30)
        if state in SERVING and wanted and not history.answered_between(begin - allowed, end):
            yield history.finding("false status", begin, f"{state}, though nobody was served for {allowed:.0f} s")
        seen = history.answered_between(begin - BREAK_S, end + BREAK_S)
        moments = [begin - BREAK_S, *seen, end + BREAK_S]
        unbroken = all(after - before < BREAK_S for before, after in zip(moments, moments[1:]))
        if state in DOWN and unbroken:
            yield history.finding("false status", begin, f"{state}, though clients were served all the time")
        if line.get("traceback"):
            yield history.finding("traceback", begin, "status ended with one")


def things_are_as_they_were(history: History) -> t.Iterator[Finding]:
    """Network, containers, images, volumes, files of others and ours are after each round as before the first."""
    looks = history.of("look")
    baseline = next((line["sparks"] for line in looks if line["what"] == "baseline"), None)
    if baseline is None:
        yield history.finding("no baseline", history.begin["at"], "nobody has looked before anything went wrong")
        return
    for line in looks:
        for number, (before, now) in enumerate(zip(baseline, line["sparks"]), start=1):
            if "error" in now:
                yield history.finding("not looked at", line["at"], f"spark-{number}: {now['error']}")
                continue
            for what in LOOKED_AT:
                if now.get(what) != before.get(what):
                    told = difference(before.get(what), now.get(what))
                    yield history.finding("changed", line["at"], f"spark-{number}'s {what}: {told}")
            recorded, served = (now.get("draft_lengths") or {}).values() or (None, None)
            if recorded != served:
                what = f"spark-{number} serves draft length {served}, and {recorded} is recorded"
                yield history.finding("wrong record", line["at"], what)


def difference(before: t.Any, now: t.Any) -> str:
    """What is gone and what is new, in few words."""
    old, new = items(before), items(now)
    gone = sorted(map(str, old - new))[:3]
    come = sorted(map(str, new - old))[:3]
    return f"gone {', '.join(gone) or 'nothing'}; new {', '.join(come) or 'nothing'}"[:600]


def items(value: t.Any) -> set[str]:
    if isinstance(value, dict):
        return {f"{name}: {inner}" for name, inner in value.items()}
    return set(map(str, value or ()))


def nothing_leaks(history: History) -> t.Iterator[Finding]:
    """The secret that every run was given is nowhere."""
    for line in history.of("look"):
        for number, spark in enumerate(line["sparks"], start=1):
            for place in spark.get("leaks", ()):
                yield history.finding("secret", line["at"], f"in the {place} of spark-{number}")
    for line in history.of("run", "status"):
        if line.get("leaks"):
            yield history.finding("secret", line["at"], f"in the output of {line.get('playbook', 'status')}.yml")


def runs_converge(history: History) -> t.Iterator[Finding]:
    """What somebody has to run ends well, and no run ends with a traceback."""
    faults = collections.Counter[str]()
    inside = 0
    for line in history.lines:
        if line["kind"] == "fault":
            inside += 1 if line["phase"] == "begins" else -1
            faults[line["name"]] += line["phase"] == "begins"
        elif line["kind"] == "round":
            inside = 0
        elif line["kind"] in ("run", "background"):
            if "Traceback (most" in line.get("said", "") or "Module failed" in line.get("said", ""):
                yield history.finding("traceback", line["at"], line["said"][-200:])
            if line["kind"] == "run" and inside <= 0 and line["code"]:
                yield history.finding("failed run", line["at"], f"{line['playbook']}.yml: {line['said'][-300:]}")


def the_twin_did_it(history: History) -> t.Iterator[Finding]:
    """A fault that could not be inflicted proves nothing."""
    for line in history.of("harness"):
        yield history.finding("not inflicted", line["at"], f"{line['fault']}: {line['error']}")
    if not (history.of("rounded") and history.of("end")):
        yield history.finding("not done", history.lines[-1]["at"], "no round has ended, or the soak was cut off")
    for line in history.of("lost"):
        yield history.finding("lost", line["at"], "nothing served after the same playbook had run")


RULES: t.Final = (
    each_question_has_an_end,
    answers_are_right,
    it_is_back_in_time,
    it_serves_on,
    status_is_true,
    things_are_as_they_were,
    nothing_leaks,
    runs_converge,
    the_twin_did_it,
)


def judge(lines: t.Sequence[Line]) -> list[Finding]:
    """All that was not as promised, in the order in which it happened."""
    history = History(lines)
    return sorted((found for rule in RULES for found in rule(history)), key=lambda found: found.at)


def counted(lines: t.Sequence[Line]) -> dict[str, int]:
    """How often each fault was inflicted, the most frequent first."""
    names = (line["name"] for line in lines if line["kind"] == "fault" and line["phase"] == "begins")
    return dict(collections.Counter(names).most_common())


def longest(lines: t.Sequence[Line]) -> dict[str, tuple[float, float]]:
    """Of each fault that came alone: the longest time until it served again, and what is promised, in seconds."""
    history = History(lines)
    found: dict[str, tuple[float, float]] = {}
    for line in history.of("back"):
        if len(line["faults"]) == 1 and line["came"] is not None:
            (name,) = line["faults"]
            took = max(line["came"] - line["over"], found.get(name, (0.0, 0.0))[0])
            found[name] = (took, bound([name], history.inputs))
    return found

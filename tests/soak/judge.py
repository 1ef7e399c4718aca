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
# It is back when it has served for so long whoever asked.
HOLD_S = 5.0
# What has served for so long without a break is what status says, which may have asked just before.
SETTLED_S = 20.0
# Somebody asks for status at least as often as this.
ASKED_S = 300.0
# Whoever looks for a secret while a run goes on does so as often as this.
SPIED = 10
# What a look shows, and has to be as it was: always, and when also that is put right which a fault leaves.
LASTING = ("addresses", "routes", "netplan", "firewall", "images", "volumes", "networks", "models", "foreign")
LOOKED_AT = (*LASTING, "containers", "generation", "processes")


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


Span = tuple[float, float]


def came_back(served: t.Iterable[Span], refused: t.Iterable[Span], moment: float) -> float | None:
    """When the first whole answer came after which nobody was refused any more, of those who asked since this moment.

    Each is when somebody asked, and when that ended.
    """
    since = max((asked for asked, _end in refused if asked >= moment), default=moment)
    return min((end for asked, end in served if asked >= since), default=None)


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
        self.served = self.ended(True)
        self.refused = self.ended(False)
        self.answers = [at for _asked, at in self.served]
        # What was asked for in time order, to know whether anybody wanted something.
        self.questions = sorted(self.asked.values())

    def of(self, *kinds: str) -> list[Line]:
        return [line for line in self.lines if line["kind"] in kinds]

    def ended(self, served: bool) -> list[Span]:
        """When each was asked that got a whole answer, or none, and when that ended."""
        return [
            (self.asked.get(question(line), float(line["at"])), line["at"])
            for line in self.of("answered")
            if is_served(line) is served
        ]

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
            if line["kind"] in ("round", "renewed", "goes on"):
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
        refused = [one for one in history.refused if one[0] <= line["at"]]
        came = came_back(history.served, refused, over)
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


def faults_are_felt(history: History) -> t.Iterator[Finding]:
    """One that came alone, and that nobody can miss, was one: somebody was not served, or had to wait."""
    begun = {line["number"]: line["at"] for line in history.of("round")}
    for line in history.of("back"):
        (name, *more) = line["faults"]
        if more or not PROMISES[name].breaks:
            continue
        begin, end = begun[line["number"]], line["at"]
        refused = any(begin <= at and asked <= end for asked, at in history.refused)
        moments = [begin, *history.answered_between(begin, end), end]
        waited = any(after - before > BREAK_S for before, after in zip(moments, moments[1:]))
        if not refused and not waited:
            yield history.finding("not felt", begin, f"{name}: clients were served all the time")


def serves_on(name: str) -> bool:
    promise = PROMISES[name]
    return not promise.terms and promise.by == NOBODY


def status_is_true(history: History) -> t.Iterator[Finding]:
    """It says neither that it serves though nobody is served for longer than promised, nor that it is down, on its way
    or not to be seen while it serves."""
    allowed = truth_within(history.inputs)
    for line in history.of("status"):
        # The first of several has the API.
        state = next(iter(line["hosts"].values()), {"state": None})["state"]
        begin, end = line["begun"], line["at"]
        wanted = history.asked_between(begin - allowed, begin - allowed + 30)
        if state in SERVING and wanted and not history.answered_between(begin - allowed, end):
            yield history.finding("false status", begin, f"{state}, though nobody was served for {allowed:.0f} s")
        said = f"{state or 'no state'}, ended with {line['code']}, "
        if state in DOWN and is_unbroken(history, begin - BREAK_S, end + BREAK_S):
            yield history.finding("false status", begin, f"{said}though clients were served all the time")
        elif (state not in SERVING or line["code"]) and is_unbroken(history, begin - SETTLED_S, end + BREAK_S):
            yield history.finding("false status", begin, f"{said}though clients had long been served")
        if line.get("traceback"):
            yield history.finding("traceback", begin, "status ended with one")


def is_unbroken(history: History, begin: float, end: float) -> bool:
    moments = [begin, *history.answered_between(begin, end), end]
    return all(after - before < BREAK_S for before, after in zip(moments, moments[1:]))


def somebody_asks_for_status(history: History) -> t.Iterator[Finding]:
    """All the time that a soak goes on; one that was cut off goes on some day."""
    last: Line | None = None
    for line in history.of("begin", "status", "rounded", "end", "goes on"):
        if line["kind"] in ("begin", "goes on"):
            last = line
        elif last and line["at"] - last["at"] > ASKED_S:
            yield history.finding("not watched", line["at"], f"nobody has asked for status for {ASKED_S:.0f} s")
            last = line
        elif line["kind"] == "status":
            last = line


def things_are_as_they_were(history: History) -> t.Iterator[Finding]:
    """Network, containers, images, volumes, files of others and ours are after each round as before the first.

    Where a fault leaves something, what it may not touch is judged as it is found, and all when that was put right.
    """
    looks = history.of("look")
    baseline = next((line["sparks"] for line in looks if line["what"] == "baseline"), None)
    if baseline is None:
        yield history.finding("no baseline", history.begin["at"], "nobody has looked before anything went wrong")
        return
    for line in looks:
        leaves = any(PROMISES[name].leaves for name in line.get("faults", ()))
        if line.get("runs"):
            yield history.finding("left behind", line["at"], f"on the controller: {'; '.join(line['runs'])[:300]}")
        for number, (before, now) in enumerate(zip(baseline, line["sparks"]), start=1):
            if "error" in now:
                yield history.finding("not looked at", line["at"], f"spark-{number}: {now['error']}")
                continue
            for what in LASTING if leaves else LOOKED_AT:
                if now.get(what) != before.get(what):
                    told = difference(before.get(what), now.get(what))
                    yield history.finding("changed", line["at"], f"spark-{number}'s {what}: {told}")
            deployed = now["deployed"]
            if not leaves and deployed["recorded"] != deployed["served"]:
                what = f"spark-{number} serves {deployed['served']}, and {deployed['recorded']} is recorded"
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
    for line in history.of("run", "background", "status"):
        if line.get("leaks"):
            yield history.finding("secret", line["at"], f"in the output of {line.get('playbook', 'status')}.yml")
    for line in history.of("spied"):
        if line["leaks"]:
            yield history.finding("secret", line["at"], "in a command line, an environment or a container's definition")
        if line["looks"] < SPIED:
            yield history.finding("not watched", line["at"], f"a run was looked at {line['looks']} times only")


def runs_converge(history: History) -> t.Iterator[Finding]:
    """What somebody has to run ends well, and no run ends with a traceback."""
    inside, alone = 0, True
    for line in history.lines:
        if line["kind"] == "fault":
            inside += 1 if line["phase"] == "begins" else -1
        elif line["kind"] == "round":
            # A run that a fault is about has to end well if nothing else is wrong.
            inside, alone = 0, len(line["faults"]) == 1
        elif line["kind"] in ("run", "background"):
            if line["traceback"]:
                yield history.finding("traceback", line["at"], line["said"][-200:])
            if line["kind"] == "run" and line["code"] and (alone or inside <= 0):
                yield history.finding("failed run", line["at"], f"{line['playbook']}.yml: {line['said'][-300:]}")


def the_twin_did_it(history: History) -> t.Iterator[Finding]:
    """A fault that could not be inflicted proves nothing; one on top of another may find nothing to hit."""
    for line in history.of("harness"):
        yield history.finding("broken soak", line["at"], f"{line['fault']}: {line['error']}")
    for line in history.of("missed"):
        if line["first"]:
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
    faults_are_felt,
    status_is_true,
    somebody_asks_for_status,
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
    found = collections.Counter(line["name"] for line in lines if line["kind"] == "fault" and line["phase"] == "begins")
    found -= collections.Counter(line["fault"] for line in lines if line["kind"] == "missed")
    return dict(found.most_common())


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

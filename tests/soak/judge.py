# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Holds a history against the promises. It knows what happened from the history alone."""

from __future__ import annotations

import bisect
import collections
import dataclasses
import functools
import typing as t

from tests.soak.answers import expected
from tests.soak.promises import (
    HARMLESS,
    LEASE_ENDS_S,
    MOST,
    NO_ACTION,
    PROMISES,
    SLACK_S,
    SLOWEST,
    Inputs,
    bound,
    on_its_way_within,
    truth_within,
)

Line = dict[str, t.Any]
SERVING = ("ready", "ready_without_speculation", "busy", "rank_runs")
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
# Two clients that nothing disturbs have so many answers within so many seconds.
ANSWERS, WITHIN_S = 10, 25.0
# Of so many faults on top of others half hit something, whatever the others have taken away.
TRIED = 6
# Whoever looks for a secret while a run goes on does so as often as this.
SPIED = 10
# What a look shows, and has to be as it was, but for what a fault may leave.
LOOKED_AT = (
    *("addresses", "routes", "netplan", "firewall", "images", "volumes", "networks", "models", "foreign"),
    *("containers", "generation", "processes", "commands"),
)
# What other inputs make another one.
OF_INPUTS = ("generation",)
DRAFT_LENGTH = "speculative_serve_draft_length"


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

    def asks_status(self, moment: float) -> bool:
        return any(line["begun"] <= moment <= line["at"] for line in self.of("status"))

    @functools.cached_property
    def rounds(self) -> list[Round]:
        """The rounds in their order, each with its lines; what was cut off has no end."""
        found: list[Round] = []
        for line in self.lines:
            if line["kind"] == "round":
                found.append(Round(line, []))
            elif found and not found[-1].is_over:
                found[-1].lines.append(line)
        return found

    def inputs_at(self, moment: float) -> Inputs:
        """Return the figures of what is deployed then."""
        watched = [line["watched"] for line in self.of("changed") if line["at"] <= moment]
        return Inputs.of(self.begin["inputs"], watched[-1] if watched else None)

    def limit(self, one: Round, names: t.Iterable[str]) -> float:
        """Return within how many seconds after these faults of a round it serves again."""
        return bound(names, self.inputs_at(one.begin["at"]), self.pace(one))

    def pace(self, one: Round) -> float:
        """Return by how much loads took longer in a round than in peace, by the engine's own clock."""
        peace = loads_of(line for line in self.of("look") if line["what"] == "baseline")
        here = loads_of(line for line in one.lines if line["kind"] == "look")
        return min(SLOWEST, max(1.0, max(here) / max(peace))) if here and peace else 1.0

    def came(self, one: Round) -> float | None:
        """Return since when all clients are served again, as far as that was known at the end of the wait."""
        back = one.last("back")
        if back is None:
            return None
        refused = [span for span in self.refused if span[0] <= back["at"]]
        return came_back(self.served, refused, one.over)

    @functools.cached_property
    def disturbed(self) -> list[Span]:
        """Return when clients may be refused: from each fault that breaks something until its own promise is over.

        A fault after which the server goes on excuses nothing. A run does only if it has something to put right.
        """
        spans = [span for one in self.rounds for span in self.disturbed_by(one)]
        spans += [(line["at"], line["at"] + bound(["container restarted"], self.inputs)) for line in self.of("renewed")]
        # Other inputs make another container; one that was cut off begins by restarting it.
        spans += self.between("changing", "changed") + self.between("goes on", "round")
        return spans

    def between(self, first: str, last: str) -> list[Span]:
        ends = [float(line["at"]) for line in self.of(last, "end")]
        begins = [line["at"] for line in self.of(first)]
        return [(begin, next((end for end in ends if end > begin), float("inf"))) for begin in begins]

    def disturbed_by(self, one: Round) -> t.Iterator[Span]:
        back, came = one.last("back"), self.came(one)
        breaking: list[str] = []
        for name, begin, end in one.faults():
            if PROMISES[name].serves_on:
                continue
            breaking.append(name)
            if back and PROMISES[name].by != NO_ACTION:
                end = one.over
            until = end + self.limit(one, breaking)
            yield (begin, max(end, min(until, came)) if came else until)
        for line in one.lines:
            if breaking and line["kind"] in ("run", "background") and line.get("playbook") == self.begin["playbook"]:
                # One that ended well has seen it answer.
                yield (line["begun"], ended(line) + (self.limit(one, ["container restarted"]) if line["code"] else 0))


@dataclasses.dataclass(frozen=True)
class Round:
    """One combination of faults: its first line, and those up to its last."""

    begin: Line
    lines: list[Line]

    @property
    def is_over(self) -> bool:
        return bool(self.lines) and self.lines[-1]["kind"] in ("rounded", "goes on", "end")

    @property
    def is_cut_off(self) -> bool:
        return self.is_over and self.lines[-1]["kind"] == "goes on"

    @property
    def names(self) -> list[str]:
        return list(self.begin["faults"])

    @property
    def over(self) -> float:
        """Since when it has to serve again: the last fault has ended, and who had to do something has done it."""
        end = (self.last("back") or self.begin)["at"]
        acts = any(PROMISES[name].by != NO_ACTION for name in self.names)
        kinds = ("round", "fault", "run") if acts else ("round", "fault")
        return max(line["at"] for line in (self.begin, *self.lines) if line["kind"] in kinds and line["at"] <= end)

    def last(self, kind: str) -> Line | None:
        return next((line for line in reversed(self.lines) if line["kind"] == kind), None)

    def looks(self) -> list[str]:
        """What was looked at: what is left of these faults, and what is when that was put right."""
        lines = [line for line in self.lines if line["kind"] == "look"]
        return [line["what"] for line in lines if line["what"] != "back" or line["faults"] == self.names]

    def faults(self) -> t.Iterator[tuple[str, float, float]]:
        """Each fault with its begin and its end; one whose end is not known has none."""
        lines = [line for line in self.lines if line["kind"] == "fault"]
        for line in lines:
            if line["phase"] == "begins":
                ends: list[float] = [
                    one["at"] for one in lines if one["name"] == line["name"] and one["phase"] == "ends"
                ]
                cut: float = self.lines[-1]["at"] if self.is_over else float("inf")
                yield line["name"], line["at"], min(ends, default=cut)


def ended(line: Line) -> float:
    """Return when a run ended, which may be long before that was written down."""
    return float(line["ended"] if "ended" in line else line["at"])


def loads_of(looks: t.Iterable[Line]) -> list[float]:
    sparks = [spark for line in looks for spark in line["sparks"]]
    return [spark["server"]["load_s"] for spark in sparks if (spark.get("server") or {}).get("load_s")]


def each_question_has_an_end(history: History) -> t.Iterator[Finding]:
    """A client that died over what it was told has not said what that was; one whose Spark lost its power may."""
    answered = {question(line) for line in history.of("answered")}
    disturbed = history.disturbed
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
        wanted = expected(line["prompt"], line["max_tokens"], line.get("route", "completions"))
        if line["finish"] is None:
            yield history.finding(
                "incomplete answer", line["at"], f"{line['prompt']!r} ends with {line['text'][-40:]!r}"
            )
        elif given(line) != wanted or line.get("model") != history.begin.get("model", line.get("model")):
            what = f"{line['prompt']!r}: {line['text'][:80]!r} of {line.get('model')}"
            yield history.finding("wrong answer", line["at"], what)


def given(line: Line) -> tuple[t.Any, ...]:
    calls = tuple((name, arguments) for name, arguments in line.get("calls", ()))
    return line["text"], line["finish"], line.get("thinking", ""), calls


def answers_come_as_fast_as_ever(history: History) -> t.Iterator[Finding]:
    """At the usual rate, if nothing disturbs; those who are refused are another rule's."""
    last = history.begin["at"]
    times = [line["at"] for line in history.of("answered")]
    for first, end in zip(times, times[ANSWERS:]):
        if first >= last and end - first > WITHIN_S and not any(a <= end and first <= b for a, b in history.disturbed):
            last = end
            yield history.finding("slow", first, f"{ANSWERS} answers took {end - first:.0f} s, and nothing was wrong")


def each_route_is_asked(history: History) -> t.Iterator[Finding]:
    """A route without an answer may have been dead all the time."""
    for route in history.begin.get("routes", ()):
        if not any(is_served(line) and line.get("route") == route for line in history.of("answered")):
            yield history.finding("not asked", history.begin["at"], f"no client has had an answer of {route}")


def it_is_back_in_time(history: History) -> t.Iterator[Finding]:
    """After its last fault, or what somebody had to do, it answers within what is promised."""
    for one in history.rounds:
        if one.last("back") is None:
            continue
        limit, over, came = history.limit(one, one.names), one.over, history.came(one)
        if came is None or came > over + limit:
            took = "never" if came is None else f"after {came - over:.0f} s"
            what = f"{' and '.join(one.names)}: answered {took}, promised within {limit:.0f} s"
            yield history.finding("late", over, what)


def each_round_is_watched(history: History) -> t.Iterator[Finding]:
    """Its faults have begun and ended, somebody has waited for what was promised, and looked at what is left."""
    for one in history.rounds:
        if one.is_cut_off or (one is history.rounds[-1] and not one.is_over):
            continue
        kinds = [line["kind"] for line in one.lines]
        phases = [(line["name"], line["phase"]) for line in one.lines if line["kind"] == "fault"]
        wanted = [(name, phase) for name in one.names for phase in ("begins", "ends")]
        looks = ["back", "repaired"] if any(PROMISES[name].leaves for name in one.names) else ["back"]
        missing = [kind for kind in ("back", "rounded") if kind not in kinds]
        missing += [f"{name} {phase}" for name, phase in wanted if (name, phase) not in phases]
        missing += [f"look {what}" for what in looks if what not in one.looks()]
        if missing:
            what = f"round {one.begin['number']} has no line of {', '.join(missing)}"
            yield history.finding("not watched", one.begin["at"], what)


def no_promise_is_stretched(history: History) -> t.Iterator[Finding]:
    """What the times are made of is what a twin needs and users set."""
    for line in history.of("begin", "changed"):
        for name, value in (line.get("inputs") or line["watched"]).items():
            if value > getattr(MOST, name):
                yield history.finding("stretched", line["at"], f"{name} is {value:g}, {getattr(MOST, name):g} at most")


def it_serves_on(history: History) -> t.Iterator[Finding]:
    """No client is refused or cut off, but while a fault is on its way to be put right."""
    for line in history.of("answered"):
        asked = history.asked.get(question(line), float(line["at"]))
        if is_served(line) or (line["status"] == 200 and line["ended"] == "whole"):
            continue
        # One that was asked before it went wrong may be cut off by it.
        if not any(begin <= line["at"] and asked <= end for begin, end in history.disturbed):
            what = f"a question of {line.get('route', 'completions')} {line['ended']}, status {line['status']}"
            yield history.finding("interrupted", asked, what)


def faults_are_felt(history: History) -> t.Iterator[Finding]:
    """One that came alone, and that nobody can miss, was one: somebody was not served, or had to wait."""
    for one in history.rounds:
        (name, *more), back = one.names, one.last("back")
        if more or not back or not PROMISES[name].breaks:
            continue
        begin, end = one.begin["at"], back["at"]
        refused = any(begin <= at and asked <= end for asked, at in history.refused)
        moments = [begin, *history.answered_between(begin, end), end]
        waited = any(after - before > BREAK_S for before, after in zip(moments, moments[1:]))
        if not refused and not waited:
            yield history.finding("not felt", begin, f"{name}: clients were served all the time")


def status_is_true(history: History) -> t.Iterator[Finding]:
    """It says neither that it serves though nobody is served for longer than promised, nor that it is down, on its way
    or not to be seen while it serves; of no Spark."""
    names = [f"spark-{number + 1}" for number in range(history.begin["sparks"])]
    for line in history.of("status"):
        begin, end = line["begun"], line["at"]
        allowed = truth_within(history.inputs_at(begin))
        wanted = history.asked_between(begin - allowed, begin - allowed + 30)
        unserved = wanted and not history.answered_between(begin - allowed, end)
        just = is_unbroken(history, begin - BREAK_S, end + BREAK_S)
        long = is_unbroken(history, begin - SETTLED_S, end + BREAK_S)
        head = (line["hosts"].get(names[0]) or {}).get("state")
        for name in names:
            state = (line["hosts"].get(name) or {}).get("state")
            # A worker's rank runs already while its head loads, and says so.
            loads = name != names[0] and head not in (None, *SERVING, *DOWN)
            if state in SERVING and unserved and not loads:
                yield history.finding(
                    "false status", begin, f"{name} {state}, though nobody was served for {allowed:.0f} s"
                )
            said = f"{name}: {state or 'no state'}, ended with {line['code']}, "
            if state in DOWN and just:
                yield history.finding("false status", begin, f"{said}though clients were served all the time")
            elif (state not in SERVING or line["code"]) and long:
                yield history.finding("false status", begin, f"{said}though clients had long been served")
        if line.get("traceback"):
            yield history.finding("traceback", begin, "status ended with one")


def status_gets_somewhere(history: History) -> t.Iterator[Finding]:
    """No Spark is on its way for longer than the longest way takes, unless something new has come in it."""
    since: dict[str, float] = {}
    for line in history.of("status", "fault", "run", "background", "goes on"):
        if line["kind"] != "status":
            since.clear()
            continue
        limit = on_its_way_within(history.inputs_at(line["begun"]))
        for name, one in line["hosts"].items():
            if one["state"] is None or one["state"] in (*SERVING, *DOWN):
                since.pop(name, None)
                continue
            took = line["at"] - since.setdefault(name, line["begun"])
            if took > limit:
                what = f"{name} has been {one['state']} for {took:.0f} s; no way takes longer than {limit:.0f} s"
                yield history.finding("false status", line["begun"], what)
                since.pop(name)


def is_unbroken(history: History, begin: float, end: float) -> bool:
    moments = [begin, *history.answered_between(begin, end), end]
    return all(after - before < BREAK_S for before, after in zip(moments, moments[1:]))


def somebody_asks_for_status(history: History) -> t.Iterator[Finding]:
    """All the time that a soak goes on, however long an answer takes; one that was cut off goes on some day."""
    last = 0.0
    for line in history.of("begin", "status", "rounded", "end", "goes on"):
        if line["kind"] in ("begin", "goes on"):
            last = line["at"]
        elif line["kind"] == "status":
            if line["begun"] - last > ASKED_S:
                yield history.finding("not watched", line["begun"], f"no status was asked for in {ASKED_S:.0f} s")
            last = max(last, line["at"])
        elif not history.asks_status(line["at"]) and line["at"] - last > ASKED_S:
            yield history.finding("not watched", line["at"], f"no status was asked for in {ASKED_S:.0f} s")
            last = line["at"]


def things_are_as_they_were(history: History) -> t.Iterator[Finding]:
    """Network, containers, images, volumes, files of others and ours are after each round as before the first.

    What a fault may leave is judged when that was put right. Other inputs have files of their own.
    """
    looks = history.of("look")
    baseline = next((line["sparks"] for line in looks if line["what"] == "baseline"), None)
    if baseline is None:
        yield history.finding("no baseline", history.begin["at"], "nobody has looked before anything went wrong")
        return
    with_inputs = baseline
    for line in looks:
        if line["what"] == "baseline":
            with_inputs = line["sparks"]
        if line.get("runs"):
            yield history.finding("left behind", line["at"], f"on the controller: {'; '.join(line['runs'])[:300]}")
        left = {what for name in line.get("faults", ()) for what in PROMISES[name].leaves}
        for number, now in enumerate(line["sparks"]):
            if "error" in now:
                yield history.finding("not looked at", line["at"], f"spark-{number + 1}: {now['error']}")
                continue
            for what in LOOKED_AT:
                before = (with_inputs if what in OF_INPUTS else baseline)[number]
                if what not in left and now.get(what) != before.get(what):
                    told = difference(before.get(what), now.get(what))
                    yield history.finding("changed", line["at"], f"spark-{number + 1}'s {what}: {told}")


def looked_at(history: History) -> t.Iterator[tuple[Line, str, dict[str, t.Any]]]:
    """Each Spark of each look that saw it."""
    for line in history.of("look"):
        for number, spark in enumerate(line["sparks"], start=1):
            if "error" not in spark:
                yield line, f"spark-{number}", spark


def the_record_is_what_serves(history: History) -> t.Iterator[Finding]:
    """What is on record is what the files say, and what the server's process has read and goes by."""
    for line, name, spark in looked_at(history):
        deployed, server = spark["deployed"], spark["server"]
        if deployed["recorded"] != deployed["served"]:
            what = f"{name} serves {deployed['served']}, and {deployed['recorded']} is recorded"
            yield history.finding("wrong record", line["at"], what)
        if name != "spark-1":
            # A worker is told by the head what to load.
            continue
        if server["options"] is None or server["options"] != server["options_on_disk"]:
            yield history.finding("wrong server", line["at"], f"{name}'s has read other options than are on disk")
        if server["draft_lengths"] != deployed["served"][:1]:
            what = f"{name}'s drafts {server['draft_lengths']}, and its files say {deployed['served'][0]}"
            yield history.finding("wrong server", line["at"], what)


def runs_do_what_they_are_asked(history: History) -> t.Iterator[Finding]:
    """What the last run that ended well was asked for is on record, or what one that was cut off since was."""
    wanted = {history.begin["draft_length"]}
    for line in sorted(history.of("run", "background", "look"), key=ended):
        if line["kind"] != "look" and line["playbook"] == history.begin["playbook"]:
            asked = line.get("wishes", {}).get(DRAFT_LENGTH, history.begin["draft_length"])
            wanted = {asked} if line["code"] == 0 else wanted | {asked}
        elif line["kind"] == "look":
            for number, spark in enumerate(line["sparks"], start=1):
                found = spark.get("deployed", {}).get("recorded", [None])[0]
                if "error" not in spark and found not in wanted:
                    what = f"spark-{number} has draft length {found} on record, and runs were asked for {wanted}"
                    yield history.finding("not as asked", line["at"], what)


def a_lease_ends(history: History) -> t.Iterator[Finding]:
    """The Spark is free soon after a run that had it was killed."""
    for line in history.of("freed"):
        if line["after"] is None or line["after"] > LEASE_ENDS_S + SLACK_S:
            took = "not" if line["after"] is None else f"after {line['after']:.0f} s"
            yield history.finding("lease", line["killed"], f"it was free {took}, promised within {LEASE_ENDS_S} s")


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
    """No secret that runs were given, or that a Spark has, is anywhere but where it belongs, in no spelling."""
    for line in history.of("look"):
        for number, spark in enumerate(line["sparks"], start=1):
            for place in spark.get("leaks", ()):
                yield history.finding("secret", line["at"], f"on spark-{number}: {place}")
        for place in line.get("leaks", ()):
            yield history.finding("secret", line["at"], f"on the controller: {place}")
    for line in history.of("run", "background", "status"):
        for what in line.get("leaks") or ():
            yield history.finding("secret", line["at"], f"{what} in the output of {line.get('playbook', 'status')}.yml")
    for line in history.of("spied"):
        if line["leaks"]:
            yield history.finding("secret", line["at"], "in a command line, an environment or a container's definition")
        if line["looks"] < SPIED:
            yield history.finding("not watched", line["at"], f"a run was looked at {line['looks']} times only")


def runs_converge(history: History) -> t.Iterator[Finding]:
    """What somebody has to run ends well, and no run ends with a traceback."""
    under_way, alone = list[str](), True
    for line in history.lines:
        if line["kind"] == "fault" and line["phase"] == "begins":
            under_way.append(line["name"])
        elif line["kind"] == "fault" and line["name"] in under_way:
            under_way.remove(line["name"])
        elif line["kind"] == "round":
            # A run that a fault is about has to end well if nothing else is wrong.
            under_way, alone = [], len(line["faults"]) == 1
        elif line["kind"] in ("run", "background"):
            if line["traceback"]:
                yield history.finding("traceback", line["at"], line["said"][-200:])
            spared = alone or set(under_way) <= set(HARMLESS)
            if line["kind"] == "run" and line["code"] and spared:
                yield history.finding("failed run", line["at"], f"{line['playbook']}.yml: {line['said'][-300:]}")


def the_twin_did_it(history: History) -> t.Iterator[Finding]:
    """A fault that could not be inflicted proves nothing; one on top of another may find nothing to hit."""
    for line in history.of("harness"):
        yield history.finding("broken soak", line["at"], f"{line['fault']}: {line['error']}")
    for line in history.of("missed"):
        # What another fault has taken away cannot be hit.
        if all(PROMISES[name].serves_on for name in line["amid"]):
            yield history.finding("not inflicted", line["at"], f"{line['fault']}: {line['error']}")
    amid = sum(len(one.names) - 1 for one in history.rounds)
    missed = sum(bool(line["amid"]) for line in history.of("missed"))
    if amid >= TRIED and missed > amid / 2:
        what = f"{missed} of {amid} faults on top of others hit nothing"
        yield history.finding("not inflicted", history.lines[-1]["at"], what)
    if not (history.of("rounded") and history.of("end")):
        yield history.finding("not done", history.lines[-1]["at"], "no round has ended, or the soak was cut off")
    for line in history.of("lost"):
        yield history.finding("lost", line["at"], "nothing served after the same playbook had run")


RULES: t.Final = (
    each_question_has_an_end,
    answers_are_right,
    answers_come_as_fast_as_ever,
    each_route_is_asked,
    it_is_back_in_time,
    each_round_is_watched,
    no_promise_is_stretched,
    it_serves_on,
    faults_are_felt,
    status_is_true,
    status_gets_somewhere,
    somebody_asks_for_status,
    things_are_as_they_were,
    the_record_is_what_serves,
    runs_do_what_they_are_asked,
    a_lease_ends,
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
    for one in history.rounds:
        back = one.last("back")
        if back and len(one.names) == 1 and back["came"] is not None:
            (name,) = one.names
            took = back["came"] - one.over
            if took >= found.get(name, (0.0, 0.0))[0]:
                found[name] = (took, history.limit(one, [name]))
    return found

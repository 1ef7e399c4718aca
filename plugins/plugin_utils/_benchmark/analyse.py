# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this plugin util is internal to the collection; its interface may change at any time.

"""From what a benchmark measured to its report: figures with intervals, the verdict, and what looks wrong.

A prompt counts once, however often it was asked: greedy answers to it are the same, so only prompts are independent.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import statistics
import typing as t

from ...module_utils._data.text import count_noun, join_words
from ...module_utils._server.decoding import Decoding
from . import statistics as figures
from .point import called, drafts, label, without_drafts
from .statistics import Figure
from .theory import bound, fit_acceptance, theory

SCHEMA = 1
FEWEST_PROMPTS = 5
# Two means that differ by less are the same, and the shorter draft is taken.
_ALIKE = 0.01
_CLOCK_CHANGE = 0.1
_COUNT_DIFFERENCE = 0.03
# A pass with drafts does more than one without. A difference below it may be chance.
_CHEAPER = 0.05
# Findings after which no speed can be compared, with the reason in words.
_INCOMPARABLE = {"pass_too_fast": "the Spark was not idle", "clock_changed": "the GPU changed its clock"}
# So many chunks with more tokens than one pass can make may be hiccups of the network.
_MERGED = 0.01
# Characters of two answers that are shown around their first difference.
_BEFORE, _AFTER = 20, 40

Facts = t.Mapping[str, t.Any]
Report = dict[str, t.Any]


class BadResultsError(ValueError):
    """Results that cannot be analysed."""


# One draft length


@dataclasses.dataclass(frozen=True)
class Point:
    """The measurements with one draft length. A point with an error has no samples."""

    entry: Facts

    @property
    def drafts(self) -> int:
        """Return the draft length; 0 is without speculation."""
        return drafts(self.entry)

    @property
    def title(self) -> str:
        return f"with {called(self.drafts)}" if self.drafts else called(0)

    @property
    def error(self) -> str | None:
        return self.entry.get("error")

    @functools.cached_property
    def samples(self) -> list[Facts]:
        return [] if self.error else list(self.entry.get("samples") or [])

    @functools.cached_property
    def prompts(self) -> dict[str, str]:
        """The categories of the prompts."""
        return {sample["prompt"]: sample["category"] for sample in self.samples}

    @functools.cached_property
    def grouped(self) -> bool:
        """Return whether a chunk of the stream has several passes, so that single passes are unknown."""
        counts = [count for answer in map(Decoding.of, self.samples) for count in answer.pass_tokens or ()]
        return sum(count > self.drafts + 1 for count in counts) > _MERGED * len(counts)

    def by_prompt(self, value: t.Callable[[Decoding], float | None]) -> dict[str, float]:
        """Return a value of each prompt that has one: its mean over the repetitions."""
        result: dict[str, list[float]] = {}
        for sample in self.samples:
            known = value(Decoding.of(sample))
            if known is not None:
                result.setdefault(sample["prompt"], []).append(known)
        return {prompt: statistics.fmean(values) for prompt, values in result.items()}

    @functools.cached_property
    def speeds(self) -> dict[str, float]:
        return self.by_prompt(lambda answer: answer.speed)

    @functools.cached_property
    def acceptance(self) -> dict[str, float]:
        """Acceptance lengths; there are none without speculation."""
        return self.by_prompt(lambda answer: answer.acceptance_length) if self.drafts and not self.grouped else {}

    @functools.cached_property
    def server_acceptance(self) -> dict[str, float]:
        return self.by_prompt(lambda answer: answer.server_acceptance_length) if self.drafts else {}

    @functools.cached_property
    def length(self) -> float | None:
        """The mean acceptance length, by our own count or else the server's."""
        known = self.acceptance or self.server_acceptance
        return statistics.fmean(known.values()) if known else None

    @functools.cached_property
    def texts(self) -> dict[str, str]:
        return {sample["prompt"]: sample["text"] for sample in self.samples if sample.get("text") is not None}


def _mean(values: Facts) -> Figure | None:
    return figures.mean(list(values.values()))


def _speedup(point: Point, off: Point | None, prompts: t.Iterable[str]) -> Figure | None:
    """Return the speed-up over the target model alone, paired by prompt."""
    if off is None or not point.drafts:
        return None
    pairs = [prompt for prompt in prompts if prompt in point.speeds and prompt in off.speeds]
    return figures.ratio([point.speeds[prompt] for prompt in pairs], [off.speeds[prompt] for prompt in pairs])


def _share(answer: Decoding, position: int) -> float | None:
    """In how many of the passes the drafted token at a position, and all before it, were accepted."""
    counts = answer.whole_passes
    return sum(count > position for count in counts) / len(counts) if counts else None


def _by_position(point: Point) -> list[float] | None:
    """Return the acceptance of each drafted token; with the target's own they add up to the acceptance length."""
    if not point.acceptance:
        return None
    return [
        statistics.fmean(point.by_prompt(functools.partial(_share, position=position)).values())
        for position in range(1, point.drafts + 1)
    ]


def _parting(one: str, other: str) -> int:
    """Return the first character in which two texts differ."""
    return next((at for at, (a, b) in enumerate(zip(one, other)) if a != b), min(len(one), len(other)))


def _identical(point: Point, off: Point | None) -> Report | None:
    """Return how many answers equal those without speculation, and where the first other one differs."""
    if off is None or not point.drafts:
        return None
    compared = [prompt for prompt in off.texts if prompt in point.texts]
    if not compared:
        return None
    different = [prompt for prompt in compared if point.texts[prompt] != off.texts[prompt]]
    first = None
    if different:
        new, old = point.texts[different[0]], off.texts[different[0]]
        at = _parting(new, old)
        excerpt = slice(max(0, at - _BEFORE), at + _AFTER)
        first = {"prompt": different[0], "at_character": at, "with": new[excerpt], "without": old[excerpt]}
    return {"compared": len(compared), "same": len(compared) - len(different), "first_difference": first}


def _by_category(point: Point, off: Point | None) -> Report:
    result = {}
    for category in dict.fromkeys(point.prompts.values()):
        prompts = [prompt for prompt, its in point.prompts.items() if its == category]
        result[category] = {
            "n": len(prompts),
            "speedup": _speedup(point, off, prompts),
            "acceptance_length": figures.mean(
                [point.acceptance[prompt] for prompt in prompts if prompt in point.acceptance]
            ),
            "tokens_per_second": figures.mean([point.speeds[prompt] for prompt in prompts if prompt in point.speeds]),
            # By which another report is compared prompt by prompt.
            "speeds": {prompt: point.speeds[prompt] for prompt in prompts if prompt in point.speeds},
        }
    return result


def _describe(
    point: Point, off: Point | None, serving: int | None, acceptance: float | None, roofline: Facts | None
) -> Report:
    k = point.drafts
    return {
        "id": point.entry["id"],
        "draft_length": k,
        "label": label(k),
        "serving": k == serving,
        "error": point.error,
        "n": len(point.prompts),
        "samples": len(point.samples),
        "tokens_per_second": _mean(point.speeds),
        "ttft_s": _mean(point.by_prompt(lambda answer: answer.ttft_s)),
        "pass_ms": None if point.grouped else _mean(point.by_prompt(lambda answer: answer.pass_ms)),
        "acceptance_length": _mean(point.acceptance),
        "server_acceptance_length": _mean(point.server_acceptance),
        "acceptance_rate": None if point.length is None else (point.length - 1) / k,
        "by_position": _by_position(point),
        "speedup": _speedup(point, off, point.prompts),
        "identical": _identical(point, off),
        "theory": None if acceptance is None or point.length is None else theory(acceptance, k, roofline),
        "by_category": _by_category(point, off),
        "lengths": point.entry.get("lengths") or [],
        "gpu": point.entry.get("gpu"),
        "loading_s": point.entry.get("loading_s"),
        "memory_available": point.entry.get("memory_available"),
    }


def _best(points: t.Sequence[Facts]) -> Facts:
    """Return the fastest; of those that are as fast within 1 % the one with the shortest draft."""
    fastest = max(point["speedup"]["mean"] for point in points)
    alike = [point for point in points if point["speedup"]["mean"] > fastest * (1 - _ALIKE)]
    return min(alike, key=drafts)


def _times(figure: Figure) -> str:
    prompts = count_noun(figure["n"], "prompt")
    if figure["low"] is None:
        return f"{figure['mean']:.2f} times as fast as without speculation ({prompts})"
    return (
        f"{figure['mean']:.2f} times as fast as without speculation (95 % interval {figure['low']:.2f} to "
        f"{figure['high']:.2f}, {prompts})"
    )


def _verdict(kind: str, chosen: int | None, sentence: str) -> Report:
    return {"kind": kind, "draft_length": chosen, "sentence": sentence}


def _not_compared(points: t.Sequence[Facts]) -> str:
    """Return why there is no speed-up."""
    off = without_drafts(points)
    if off is not None and off["error"]:
        return f"the point without speculation failed, so there is nothing to compare with: {off['error']}"
    if off is None or not off["tokens_per_second"]:
        return "the speed without speculation was not measured, so there is nothing to compare with."
    return "no draft length gave a speed for a prompt that was measured without speculation, too."


def _use(winners: t.Sequence[Facts], compared: t.Sequence[Facts]) -> Report:
    best, fastest = _best(winners), max(winners, key=lambda point: point["speedup"]["mean"])
    k = drafts(best)
    other = next((point for point in compared if point["serving"] and point is not best), None)
    now = ""
    if other:
        now = f"; {drafts(other)}, the current one, is {other['speedup']['mean']:.2f} times as fast"
    tie = "" if fastest is best else f" {called(drafts(fastest)).capitalize()} is as fast within 1 %, but longer."
    word = "Keep" if best["serving"] else "Use"
    return _verdict("use", k, f"{word} draft length {k}: it is {_times(best['speedup'])}{now}.{tie}")


def _off(best: Facts, compared: t.Sequence[Facts], serving: bool) -> Report:
    k = drafts(best)
    which = f"the best draft length, {k}," if len(compared) > 1 else f"draft length {k}"
    word = "Leave" if serving else "Turn"
    return _verdict("off", 0, f"{word} speculation off: {which} is {_times(best['speedup'])}.")


def verdict(points: t.Sequence[Facts], repetitions: int = 1, found: t.Iterable[t.Mapping[str, str]] = ()) -> Report:
    """Return the verdict in one sentence, from the points and findings of a report."""
    for reason in (_INCOMPARABLE[finding["id"]] for finding in found if finding["id"] in _INCOMPARABLE):
        sentence = f"Measure again: {reason}, so the speeds cannot be compared."
        return {**_verdict("again", None, sentence), "reason": reason}
    compared = [point for point in points if point["speedup"]]
    if not compared:
        return _verdict("undecided", None, f"Undecided: {_not_compared(points)}")
    winners = [point for point in compared if (point["speedup"]["low"] or 0) > 1]
    if winners:
        return _use(winners, compared)
    unclear = [point for point in compared if point["speedup"]["high"] is None or point["speedup"]["high"] >= 1]
    if not unclear:
        return _off(_best(compared), compared, any(point["serving"] and not drafts(point) for point in points))
    best = _best(unclear)
    return _verdict(
        "undecided",
        None,
        f"Undecided: {called(drafts(best))} is {_times(best['speedup'])}, which may be chance; more "
        f"prompts, or -e speculative_benchmark_repetitions={2 * repetitions}, may settle it.",
    )


def _finding(name: str, message: str) -> dict[str, str]:
    return {"id": name, "message": message}


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


def _answers(point: Point, off: Point | None) -> t.Iterator[dict[str, str]]:
    identical = _identical(point, off)
    if not identical or not identical["first_difference"]:
        return
    first = identical["first_difference"]
    new, old = (json.dumps(first[key], ensure_ascii=False) for key in ("with", "without"))
    others = identical["compared"] - identical["same"]
    yield _finding(
        "answers_differ",
        f"{others} of {identical['compared']} greedy answers {point.title} differ from those without speculation; the "
        f"first is {first['prompt']}, from character {first['at_character']} on: {new} instead of {old}. Rounding can "
        "do that, since a pass with drafts computes several tokens at once. Read such answers before you rely on them.",
    )


def _clocks(points: t.Sequence[Point]) -> t.Iterator[dict[str, str]]:
    known = [
        (clock["mean"], point)
        for point in points
        if (clock := (point.entry.get("gpu") or {}).get("clock_mhz")) and clock.get("mean")
    ]
    if not known:
        return
    low, slow = min(known, key=lambda pair: pair[0])
    high, fast = max(known, key=lambda pair: pair[0])
    if high - low > _CLOCK_CHANGE * high:
        yield _finding(
            "clock_changed",
            f"The GPU ran at {high:.0f} MHz {fast.title}, but at {low:.0f} MHz {slow.title}, so their speeds cannot be "
            "compared. Let the Spark cool down, see that nothing else uses it, and measure again.",
        )


def _few(points: t.Sequence[Point]) -> t.Iterator[dict[str, str]]:
    fewest = min((len(point.speeds) for point in points if point.speeds), default=FEWEST_PROMPTS)
    if fewest < FEWEST_PROMPTS:
        yield _finding(
            "few_prompts",
            f"Only {fewest} prompt{' was' if fewest == 1 else 's were'} measured, which says little about others; take "
            f"{FEWEST_PROMPTS} or more.",
        )


def _costs(described: Facts, point: Point) -> t.Iterator[dict[str, str]]:
    best = (described["theory"] or {}).get("break_even_best")
    if best is None or point.length is None or point.length >= best:
        return
    faster = described["speedup"] is not None and described["speedup"]["mean"] > 1
    so = "it was faster all the same, so reading is not all that costs." if faster else "use a shorter one, or none."
    yield _finding(
        "below_break_even",
        f"{_sentence(point.title)} a pass makes {point.length:.2f} tokens, fewer than the {best:.2f} from which it "
        f"pays at best by what it reads; {so}",
    )


def _pass_cost(described: Facts, point: Point, off: Facts | None) -> float | None:
    """Return the time of a pass in passes without speculation: measured, and by the speed-up; the lower one."""
    with_drafts, without = described["pass_ms"], off and off["pass_ms"]
    measured = with_drafts["mean"] / without["mean"] if with_drafts and without else None
    by_speed = point.length / described["speedup"]["mean"] if point.length and described["speedup"] else None
    return min((cost for cost in (measured, by_speed) if cost is not None), default=None)


def _disturbed(points: t.Sequence[Point], described: t.Sequence[Facts]) -> t.Iterator[dict[str, str]]:
    off = without_drafts(described)
    costs = {point.title: _pass_cost(description, point, off) for point, description in zip(points, described)}
    fast = [f"{cost:.2f} of its time {title}" for title, cost in costs.items() if cost and cost < 1 - _CHEAPER]
    if fast:
        yield _finding(
            "pass_too_fast",
            f"A pass with drafts does more than one without, but took only {join_words(fast)}. So something else used "
            "the Spark meanwhile. Run the benchmark again while the Spark is idle: it measures all points again.",
        )


def _counts(point: Point) -> t.Iterator[dict[str, str]]:
    if point.grouped:
        yield _finding(
            "grouped_chunks",
            f"{_sentence(point.title)} the server sends several passes in one chunk, so passes cannot be told apart. "
            "Either the Spark was busy, or the engine options have a stream interval above 1.",
        )
        return
    if not point.drafts:
        return
    ours = point.by_prompt(lambda answer: answer.counted_per_pass)
    theirs = point.by_prompt(lambda answer: answer.tokens_per_pass)
    both = [prompt for prompt in ours if prompt in theirs]
    if not both:
        return
    own = statistics.fmean(ours[prompt] for prompt in both)
    its = statistics.fmean(theirs[prompt] for prompt in both)
    if abs(own / its - 1) > _COUNT_DIFFERENCE:
        yield _finding(
            "acceptance_differs",
            f"{_sentence(point.title)} the stream shows {own:.2f} tokens per pass, but the server counts {its:.2f}; "
            "rely on the speeds, and take the acceptance length for unknown.",
        )


def findings(
    results: Facts, points: t.Sequence[Point], described: t.Sequence[Facts], off: Point | None
) -> list[dict[str, str]]:
    """Return the findings that the figures alone would hide."""
    result = []
    if results.get("restored") is False:
        result.append(
            _finding(
                "not_restored",
                "The deployment does not serve with its own options again; status.yml says what it does, and running "
                "its playbook again repairs it.",
            )
        )
    for point in points:
        result += _answers(point, off)
    incomparable = [*_disturbed(points, described), *_clocks(points)]
    result += [*incomparable, *_few(points)]
    for point, description in zip(points, described, strict=True):
        # What pays is known by speeds only.
        result += [*(() if incomparable else _costs(description, point)), *_counts(point)]
    return result


def analyse(results: Facts, context: Facts) -> Report:
    """Return the report on what sweep.py measured (results.json) and on what (context)."""
    if results.get("schema") != SCHEMA:
        raise BadResultsError(
            f"The benchmark's results have schema {results.get('schema')}, but this release reads {SCHEMA}; run the "
            "benchmark again."
        )
    points = [Point(entry) for entry in sorted(results["points"], key=drafts)]
    off = next((point for point in points if not point.drafts and point.samples), None)
    acceptance = fit_acceptance({point.drafts: point.length for point in points if point.length is not None})
    roofline = context.get("roofline")
    described = [_describe(point, off, context.get("draft_length"), acceptance, roofline) for point in points]
    sparks = (context.get("hardware") or {}).get("sparks") or 1
    found = findings(results, points, described, off)
    return {
        **context,
        "schema": SCHEMA,
        "points": described,
        "verdict": verdict(described, (context.get("settings") or {}).get("repetitions") or 1, found),
        "bound": bound(roofline, sparks, statistics.fmean(off.speeds.values()) if off and off.speeds else None),
        "left_out": results.get("left_out") or [],
        "skipped": results.get("skipped") or [],
        "findings": found,
    }

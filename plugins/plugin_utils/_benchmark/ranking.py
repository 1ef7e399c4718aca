# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this plugin util is internal to the collection; its interface may change at any time.

"""Several reports as ways to serve a model: which engine and which method is fastest, for each kind of prompt.

All ways are compared on the same prompts, each prompt with itself.
"""

from __future__ import annotations

import dataclasses
import statistics
import typing as t

from .._engines.methods import method_words
from .conditions import differing_conditions, engine_words
from .point import Point, called, drafts, fastest_drafting, measured, without_drafts
from .statistics import Figure, ratio

Report = t.Mapping[str, t.Any]

ALL = "all prompts"
ALIKE = 0.01
# Without speculation, one engine is as fast in all reports, unless something else used the Spark.
STEADY = 0.1
# Conditions that have to be equal for a difference in speed to be one of engine and method, in words.
EQUAL = {
    "hardware": "They ran on different hardware or drivers",
    "settings": "They were measured with different settings",
    "prompts": "They were measured with different prompts of the same names",
}


@dataclasses.dataclass(frozen=True)
class Way:
    """A way to serve the model: engine, method and draft length, with the speed of each prompt by its kind."""

    words: str
    title: str
    point: Point

    @property
    def speeds(self) -> dict[str, dict[str, float]]:
        """Return the tokens per second of each prompt, by kind of prompt."""
        return {kind: its.get("speeds") or {} for kind, its in (self.point.get("by_category") or {}).items()}


@dataclasses.dataclass(frozen=True)
class Place:
    """A way's place for a kind of prompt: its mean speed, and its speed by that of the fastest way."""

    way: Way
    speed: float
    share: Figure | None

    @property
    def is_clear(self) -> bool:
        """Return whether the way is slower than the fastest one, by more than 1 % and not by chance."""
        share = self.share
        return bool(share and share["high"] is not None and share["high"] < 1 and share["mean"] < 1 - ALIKE)


@dataclasses.dataclass(frozen=True)
class Kind:
    """A kind of prompt, and the ways from the fastest to the slowest."""

    name: str
    prompts: int
    places: tuple[Place, ...]

    @property
    def rivals(self) -> tuple[Place, ...]:
        """Return the ways that may be as fast as the fastest one."""
        return tuple(place for place in self.places[1:] if not place.is_clear)

    def place(self, way: Way) -> Place:
        """Return the place of a way."""
        return next(place for place in self.places if place.way is way)


@dataclasses.dataclass(frozen=True)
class Ranking:
    """The ways from the fastest to the slowest for all prompts, and what limits the comparison."""

    ways: tuple[Way, ...]
    kinds: tuple[Kind, ...]
    notes: tuple[str, ...]


def is_same_way(before: Report, after: Report) -> bool:
    """Return whether two reports are of one engine and method, so that their draft lengths can be compared."""
    return all(before.get(key) == after.get(key) for key in ("engine", "method"))


def rank(reports: t.Sequence[Report]) -> Ranking:
    """Compare the fastest draft length of each report, and each engine without speculation."""
    ways = list(_ways(reports))
    shared = _shared(ways)
    # A single kind is all prompts.
    by_kind = shared if len(shared) > 1 else {}
    everything = {prompt for prompts in shared.values() for prompt in prompts}
    kinds = tuple(_kind(name, prompts, ways) for name, prompts in ({ALL: everything} | by_kind).items() if prompts)
    ordered = tuple(place.way for place in kinds[0].places) if kinds else ()
    return Ranking(ordered, kinds, tuple(_notes(reports, ways, len(everything))))


def fastest_way(kind: Kind) -> str:
    """Return the fastest way for a kind of prompt."""
    first = kind.places[0]
    start = f"{kind.name[:1].upper()}{kind.name[1:]}: {first.way.words}"
    if kind.rivals:
        others = ", ".join(f"{place.way.words} ({_behind(place)})" for place in kind.rivals)
        return f"{start} was fastest, but others may be as fast: {others}."
    if len(kind.places) == 1:
        return f"{start} was the only one measured."
    return f"{start} is fastest; next is {kind.places[1].way.words} ({_behind(kind.places[1])})."


def _behind(place: Place) -> str:
    return f"{place.share['mean']:.2f} times its speed" if place.share else "no common prompt"


def _ways(reports: t.Sequence[Report]) -> t.Iterator[Way]:
    """Yield the ways with speeds. Without speculation, one report of an engine is enough."""
    engines: set[str] = set()
    for report in reports:
        engine = engine_words(report)
        off = without_drafts(measured(report["points"]))
        if off and engine not in engines:
            engines.add(engine)
            yield Way(f"{engine} {called(0)}", report["title"], off)
        best = fastest_drafting(report["points"])
        if best:
            method = str(report.get("method") or "drafts")
            yield Way(f"{engine} with {method_words(method)}, {called(drafts(best))}", report["title"], best)


def _shared(ways: t.Sequence[Way]) -> dict[str, set[str]]:
    """Return the prompts that all ways have, by their kind."""
    kinds = ways[0].speeds if ways else {}
    return {kind: set.intersection(*(set(way.speeds.get(kind, {})) for way in ways)) for kind in kinds}


def _kind(name: str, prompts: set[str], ways: t.Sequence[Way]) -> Kind:
    speeds = [{prompt: speed for its in way.speeds.values() for prompt, speed in its.items()} for way in ways]
    of = [[its[prompt] for prompt in sorted(prompts)] for its in speeds]
    first = max(of, key=statistics.geometric_mean)
    places = [
        Place(way, statistics.fmean(its), None if its is first else ratio(its, first)) for way, its in zip(ways, of)
    ]
    return Kind(
        name, len(prompts), tuple(sorted(places, key=lambda place: -place.share["mean"] if place.share else -2))
    )


def _notes(reports: t.Sequence[Report], ways: t.Sequence[Way], prompts: int) -> t.Iterator[str]:
    """Yield what else may be the reason of a difference."""
    if not prompts:
        yield "No prompt was measured in all reports, so there is nothing to compare."
    elif any(way.point["n"] > prompts for way in ways):
        yield f"Only the {prompts} prompts that all reports have are compared."
    models = [{(name, str(commit)) for name, commit in (report.get("models") or {}).items()} for report in reports]
    if not set.intersection(*models):
        yield "The reports have no model in common, so the answers differ in quality, which is not measured here."
    differing = differing_conditions(reports)
    for key, words in EQUAL.items():
        if key in differing:
            yield f"{words}, so a difference in speed is not of engine and method alone."
    for report in reports:
        if report["verdict"]["kind"] == "again":
            yield f"{report['title']}: {report['verdict']['sentence']}"
    plain: dict[str, list[float]] = {}
    for report in reports:
        off = without_drafts(measured(report["points"]))
        if off:
            plain.setdefault(engine_words(report), []).append(off["tokens_per_second"]["mean"])
    for engine, speeds in plain.items():
        if min(speeds) < max(speeds) * (1 - STEADY):
            yield (
                f"Without speculation, {engine} made {min(speeds):.0f} to {max(speeds):.0f} tokens/s in these reports. "
                "Something else used the Spark meanwhile, so measure again while it is idle."
            )

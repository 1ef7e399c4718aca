# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this plugin util is internal to the collection; its interface may change at any time.

"""A benchmark's report, or two of them, as one HTML file that loads nothing."""

from __future__ import annotations

import itertools
import typing as t
from pathlib import Path

from ...module_utils._data.text import amount, count_noun
from .._engines.methods import method_words
from .comparison import Change, Comparison, compare, judgement
from .conditions import engine_words, flat, named
from .plots import (
    WITHOUT_MATPLOTLIB,
    acceptance_chance,
    break_even,
    focus,
    measured_without,
    pass_cost,
    plots,
    points_with,
)
from .point import called, drafting, drafts, label
from .ranking import Ranking, fastest_way
from .table import acceptance_length, digits, interval, is_chosen, mean, short
from .template import page_template

Report = t.Mapping[str, t.Any]
Point = t.Mapping[str, t.Any]

TEMPLATE = Path(__file__).with_name("page.html.j2")
HEADLINES = {
    "use": "Yes: draft length {draft_length}",
    "off": "No: serve without speculation",
    "undecided": "Not decided yet",
    "again": "Measure again: {reason}",
}
SETTINGS = {
    "max_tokens": "Tokens of an answer, at most",
    "repetitions": "Repetitions of each prompt",
    "warmup": "Answers before measuring, at each point",
    "prompt_lengths": "Prompt lengths for the first token",
}
COLUMNS = {
    "tokens_per_second": "Tokens/s",
    "speedup": "Speed-up",
    "pass_ms": "ms a pass",
    "acceptance_length": "Tokens a pass",
    "ttft_s": "First token, s",
}
# Of these less is better.
COSTS = ("pass_ms", "ttft_s")


class Tile(t.NamedTuple):
    """A figure to be seen first."""

    name: str
    value: str
    note: str


def page(report: Report, before: Report | None = None, ranking: Ranking | None = None) -> str:
    """Return the whole file. It also shows what changed since an earlier report, or which way of several is fastest."""
    comparison = compare(before, report) if before is not None else None
    return page_template(TEMPLATE, **FILTERS).render(
        report=report,
        before=before,
        comparison=comparison,
        comparison_columns=COLUMNS,
        ranking=ranking,
        headline=HEADLINES[report["verdict"]["kind"]].format(**report["verdict"]),
        header=list(header(report, comparison)),
        tiles=tiles(report),
        plots=plots(report, before),
        without_matplotlib=WITHOUT_MATPLOTLIB,
        drafting=[point for point in drafting(report["points"]) if not point["error"]],
        categories=categories(report),
        different=[
            (point, first_difference(first))
            for point in points_with(report, "identical")
            if (first := point["identical"]["first_difference"])
        ],
        machine=[point for point in report["points"] if point.get("gpu") or point.get("memory_available")],
        a=acceptance_chance(report),
        settings=list(settings(report)),
        identity=list(identity(report)),
    )


def cost(point: Point, report: Report) -> str | None:
    """Return the cost of a pass with these drafts, in passes without speculation."""
    result = pass_cost(point, report)
    return None if result is None else digits(result)


def speedup_certainty(figure: t.Mapping[str, t.Any]) -> str:
    """Return whether a speed-up is significant."""
    if figure["low"] is not None and figure["low"] > 1:
        return "faster"
    return "slower" if figure["high"] is not None and figure["high"] < 1 else "unsure"


def changed(change: Change, key: str) -> str:
    """Return whether a figure is significantly better or worse."""
    result = judgement(change)
    if result not in ("more", "less"):
        return ""
    return "good" if (result == "less") == (key in COSTS) else "bad"


def first_difference(first: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """Return the common beginning of two answers, and the rest of each."""
    alike = itertools.takewhile(lambda pair: pair[0] == pair[1], zip(first["with"], first["without"]))
    common = "".join(character for character, _same in alike)
    return {**first, "common": common, **{key: first[key][len(common) :] for key in ("with", "without")}}


def cost_computed(point: Point) -> str | None:
    """Return the break-even acceptance length by what is read from memory, between the best and the worst case."""
    theory = point["theory"] or {}
    best, worst = theory.get("break_even_best"), theory.get("break_even_worst")
    if best is None or worst is None:
        return None
    return digits(best) if digits(best) == digits(worst) else f"{digits(best)} to {digits(worst)}"


def categories(report: Report) -> list[tuple[str, int]]:
    """Return the kinds of prompts and how many there are of each; nothing if all are of one."""
    result: dict[str, int] = {}
    for point in points_with(report, "by_category"):
        for name, figures in point["by_category"].items():
            result.setdefault(name, figures["n"])
    return list(result.items()) if len(result) > 1 else []


def drafts_of(report: Report) -> str:
    """Return the speculation of the deployment in words."""
    if not report["draft_length"]:
        return "no speculation"
    method = str(report.get("method") or "drafts")
    return f"{method_words(method)}, {called(report['draft_length'])}"


def join_values(values: t.Mapping[str, t.Any] | None) -> str:
    return ", ".join(f"{named(name)} {text}" for name, text in flat(values or {}).items())


def hardware(report: Report) -> str:
    facts = dict(report.get("hardware") or {})
    sparks, gpu, driver = facts.pop("sparks", None), facts.pop("gpu", None), facts.pop("driver", None)
    memory = facts.pop("memory_bytes", None)
    parts = [
        count_noun(sparks, "DGX Spark") if sparks else None,
        gpu,
        f"driver {driver}" if driver else None,
        amount(memory) if isinstance(memory, (int, float)) else None,
        join_values(facts),
    ]
    return ", ".join(str(part) for part in parts if part)


def header(report: Report, comparison: Comparison | None) -> t.Iterator[tuple[str, list[str]]]:
    """Yield the measured deployment, in short."""
    image = report.get("image") or {}
    rows = {
        "Date": [f"{report['date']}, compared with {comparison['date']}" if comparison else report["date"]],
        "Recipe": [f"{report.get('recipe') or 'unknown'} ({engine_words(report)}, {drafts_of(report)})"],
        "Image": [short(digest) for digest in (image.get("digests") or [])[:1]]
        or [image.get("reference") or "unknown"],
        "Models": [
            f"{name} at {short(str(commit or 'unknown'))}" for name, commit in (report.get("models") or {}).items()
        ],
        "Hardware": [hardware(report) or "unknown"],
        "Versions": [join_values(report.get("versions")) or "unknown"],
    }
    reference = image.get("reference")
    if reference and rows["Image"] != [reference]:
        rows["Image"].insert(0, reference)
    yield from rows.items()


def identity(report: Report) -> t.Iterator[tuple[str, str]]:
    """Yield the measured deployment, in full."""
    image = report.get("image") or {}
    yield "Deployment", report["deployment"]
    yield "Image", image.get("reference") or "unknown"
    yield "Image id", image.get("id") or "unknown"
    for digest in image.get("digests") or []:
        yield "Image digest", digest
    for name, commit in (report.get("models") or {}).items():
        yield name, str(commit or "unknown")


def settings(report: Report) -> t.Iterator[tuple[str, str]]:
    for name, text in flat(report.get("settings") or {}).items():
        yield SETTINGS.get(name, name.replace("_", " ").capitalize()), text


def tiles(report: Report) -> list[Tile]:
    """Return the figures to be seen first: of the best draft length, beside no speculation."""
    best, off = focus(report), measured_without(report)
    if best is None or report["verdict"]["kind"] == "again":
        return []
    name = called(drafts(best)).capitalize()
    result = []
    if best["speedup"]:
        note = f"times as fast as without speculation {interval(best['speedup']).partition(' ')[2]}"
        result.append(Tile(f"{name}, speed-up", digits(best["speedup"]["mean"]), note))
    base = mean(off, "tokens_per_second") if off else None
    note = "tokens/s" if base is None else f"tokens/s, without speculation {digits(base)}"
    result.append(Tile(f"{name}, speed", digits(mean(best, "tokens_per_second")), note))
    accepted, least = acceptance_length(best), break_even(best, report)
    if accepted:
        note = f"of at most {drafts(best) + 1}" + (f"; break-even at {digits(least)}" if least else "")
        result.append(Tile(f"{name}, tokens a pass", digits(accepted["mean"]), note))
    same = best["identical"]
    if same and same["compared"]:
        result.append(Tile(f"{name}, same answers", f"{same['same']} of {same['compared']}", "as without speculation"))
    return result


FILTERS: dict[str, t.Callable[..., t.Any]] = {
    "digits": digits,
    "short": short,
    "judged": speedup_certainty,
    "changed": changed,
    "fastest_way": fastest_way,
    "acceptance_length": acceptance_length,
    "cost": cost,
    "cost_computed": cost_computed,
    "label": label,
    "drafts": drafts,
    "is_chosen": is_chosen,
}

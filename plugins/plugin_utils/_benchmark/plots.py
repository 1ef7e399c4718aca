# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this plugin util is internal to the collection; its interface may change at any time.

"""The plots of a benchmark's report: SVG that takes its colours and its font from the page, and the same in words.

The same report gives the same bytes on every machine. Only numbers get into a plot, never text out of the results.
"""

from __future__ import annotations

import dataclasses
import io
import logging
import re
import typing as t
from xml.etree import ElementTree

from .point import Point, called, drafting, drafts, fastest_drafting, label, without_drafts
from .table import acceptance_length, digits, interval, mean
from .theory import expected_length

if t.TYPE_CHECKING:
    from matplotlib.axes import Axes

Report = t.Mapping[str, t.Any]

WITHOUT_MATPLOTLIB = (
    "The report has no plots, because matplotlib is not installed where Ansible runs: pip install matplotlib there (or "
    "make setup in a checkout), and run the benchmark again; finished points are not measured again."
)
# In points. Narrow enough for a phone, where it is shown at its own size.
WIDTH, HEIGHT = 322, 240
# Colours that stand for variables of the page's style sheet, which differ between light and dark.
INK, MUTED, LINE, ACCENT, SECOND, GOOD, BAD = (f"#0{number}0{number}0{number}" for number in range(1, 8))
VARIABLES = {
    INK: "ink",
    MUTED: "muted",
    LINE: "line",
    ACCENT: "accent",
    SECOND: "second",
    GOOD: "good",
    BAD: "bad",
}
STYLE: t.Any = {
    # Text stays text: small, sharp, and found by a search.
    "svg.fonttype": "none",
    "svg.hashsalt": "dgx_spark.speculative",
    "text.parse_math": False,
    "font.family": "DejaVu Sans",
    "font.size": 10.5,
    "text.color": INK,
    "axes.edgecolor": LINE,
    "axes.facecolor": "none",
    "axes.labelcolor": MUTED,
    "axes.labelsize": 10,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.axisbelow": True,
    "figure.facecolor": "none",
    "grid.color": LINE,
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "legend.fontsize": 9.8,
    "xtick.labelsize": 10,
    "ytick.labelsize": 10,
    "legend.handlelength": 1.4,
    "legend.borderaxespad": 0,
    "lines.linewidth": 1.8,
    "xtick.color": LINE,
    "xtick.labelcolor": INK,
    "ytick.color": LINE,
    "ytick.labelcolor": MUTED,
    "ytick.left": False,
    "xtick.bottom": False,
}
NO_METADATA: dict[str, t.Any] = {"Date": None, "Creator": None, "Format": None, "Type": None}
# With more draft lengths than that, figures at the marks would overlap; they stand in the words and in the tables.
MOST_NOTES = 9
# The series of a comparison, and how they are drawn.
BEFORE, AFTER = "before", "after"


@dataclasses.dataclass(frozen=True)
class Series:
    """A report and how its points look."""

    report: Report
    name: str
    colour: str = ACCENT
    marker: str = "o"
    offset: float = 0


@dataclasses.dataclass(frozen=True)
class Plot:
    """A plot: what it shows, how to read it, all its figures in words, and the SVG unless matplotlib is missing."""

    name: str
    title: str
    caption: str
    text: str
    svg: str | None


def is_available() -> bool:
    """Return whether matplotlib is available. It is imported only here and below: the controller may lack it."""
    # At its first use it logs its search for fonts, and a home without a writable cache.
    logging.getLogger("matplotlib").setLevel(logging.ERROR)
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError:
        return False
    return True


def plots(report: Report, before: Report | None = None) -> list[Plot]:
    """Return the plots of a report, or of two in one; one without any figures is left out."""
    series = [Series(report, "measured")]
    if before is not None:
        series = [
            Series(before, BEFORE, SECOND, "s", -0.15),
            Series(report, AFTER, ACCENT, "o", 0.15),
        ]
    able = is_available()
    return [
        Plot(name, title, caption(series), text, _svg(name, draw, series) if able else None)
        for name, title, caption, words, draw in (
            ("speedup", "Speed-up by draft length", lambda _series: SPEEDUP_CAPTION, _speedup_text, _draw_speedup),
            ("acceptance", "Acceptance length", _acceptance_caption, _acceptance_text, _draw_acceptance),
            ("position", "Acceptance by position", lambda _series: POSITION_CAPTION, _position_text, _draw_position),
            ("pass", "Time per pass", _pass_caption, _pass_text, _draw_pass),
            ("ttft", "Time to first token by prompt length", lambda _series: TTFT_CAPTION, _ttft_text, _draw_ttft),
        )
        if (text := _in_words(words, series))
    ]


def points_with(report: Report, key: str, drafts_only: bool = True) -> list[Point]:
    """Return the points that have this, those with drafts or all."""
    points = drafting(report["points"]) if drafts_only else report["points"]
    return [p for p in points if p.get(key)]


def with_acceptance(report: Report) -> list[Point]:
    return [p for p in drafting(report["points"]) if acceptance_length(p)]


def measured_without(report: Report) -> Point | None:
    """Return the point without speculation, if it has figures."""
    return without_drafts(p for p in report["points"] if not p["error"])


def focus(report: Report) -> Point | None:
    """Return the point with drafts that is looked at most closely: the verdict's, or else the fastest."""
    fast = points_with(report, "tokens_per_second")
    return fastest_drafting([point for point in fast if drafts(point) == report["verdict"]["draft_length"]] or fast)


def base_ms(report: Report) -> float | None:
    """Return the milliseconds of a pass without speculation."""
    off = measured_without(report)
    return mean(off, "pass_ms") if off else None


def pass_cost(point: Point, report: Report) -> float | None:
    """Return the cost of a pass with these drafts, in passes without speculation."""
    with_drafts, without = mean(point, "pass_ms"), base_ms(report)
    return with_drafts / without if with_drafts and without else None


def break_even(point: Point, report: Report) -> float | None:
    """Return the tokens a pass from which drafts pay; None if it would be less than one, which each pass makes."""
    cost = pass_cost(point, report)
    return cost if cost and cost >= 1 else None


def acceptance_chance(report: Report) -> float | None:
    """Return the chance of a draft to be accepted, as fitted to all draft lengths."""
    return next((p["theory"]["a"] for p in points_with(report, "theory")), None)


def longest_draft(series: t.Sequence[Series]) -> list[tuple[Series, Point]]:
    """Return the longest drafts of each report; in a comparison the longest that both have, if there are any."""
    lengths = [{drafts(p) for p in points_with(one.report, "by_position")} for one in series]
    chosen = max(set.intersection(*lengths) or set.union(*lengths), default=None)
    return [(one, p) for one in series for p in points_with(one.report, "by_position") if drafts(p) == chosen]


# In words


def of_length(point: Point) -> str:
    return called(drafts(point))


def _in_words(words: t.Callable[[Report], list[str]], series: t.Sequence[Series]) -> str:
    parts = []
    for one in series:
        sentences = words(one.report)
        if sentences:
            parts.append((f"{one.name.capitalize()}: " if len(series) > 1 else "") + "; ".join(sentences) + ".")
    return " ".join(parts)


def _speedup_text(report: Report) -> list[str]:
    return [f"{of_length(p)}: {interval(p['speedup'])}" for p in points_with(report, "speedup")]


def _acceptance_text(report: Report) -> list[str]:
    result = []
    for point in with_acceptance(report):
        text = f"{of_length(point)}: {interval(acceptance_length(point))} tokens a pass"
        least = break_even(point, report)
        result.append(text + (f", break-even at {least:.2f}" if least else ""))
    a = acceptance_chance(report)
    return [*result, f"fitted chance a of a draft to be accepted: {a:.2f}"] if result and a is not None else result


def _position_text(report: Report) -> list[str]:
    return [
        f"{of_length(p)}: {', '.join(f'{100 * share:.0f} %' for share in p['by_position'])}"
        for p in points_with(report, "by_position")
    ]


def _pass_text(report: Report) -> list[str]:
    base = base_ms(report)
    result = []
    for point in points_with(report, "pass_ms", drafts_only=False):
        total = point["pass_ms"]["mean"]
        added = f", {total - base:+.1f} ms" if base is not None and drafts(point) else ""
        result.append(f"{of_length(point)}: {total:.1f} ms{added}")
    return result


def _ttft_text(report: Report) -> list[str]:
    return [
        f"{of_length(p)}: "
        + ", ".join(f"{length['ttft_s']:.2f} s at {length['prompt_tokens']} tokens" for length in lengths)
        for p in points_with(report, "lengths", drafts_only=False)
        if (lengths := _timed(p))
    ]


def _timed(point: Point) -> list[t.Mapping[str, t.Any]]:
    """Return the prompts of chosen lengths that were answered, by length."""
    timed = [length for length in point["lengths"] if length.get("ttft_s") is not None and length.get("prompt_tokens")]
    return sorted(timed, key=lambda one: one["prompt_tokens"])


SPEEDUP_CAPTION = (
    "Times as fast as without speculation, on the same prompts, with 95 % intervals. Above the line at 1.0, drafts pay."
)
ACCEPTANCE_CAPTION = "Tokens that one pass of the target model yields."
BREAK_EVEN_CAPTION = (
    " Drafts pay where they lie above the break-even line, which is what a pass with drafts costs in passes without."
)
POSITION_CAPTION = "Share of passes in which the first, second, ... drafted token was accepted."
PASS_CAPTION = "How long one pass of the target model takes, with drafting and checking the drafts."
STACK_CAPTION = "Below, one target pass without speculation; above it, what drafting and checking the drafts add."
TTFT_CAPTION = "How long a prompt takes until its first token comes. Drafts do not make this any faster."


def _acceptance_caption(series: t.Sequence[Series]) -> str:
    has_line = any(break_even(p, one.report) for one in series for p in with_acceptance(one.report))
    return ACCEPTANCE_CAPTION + (BREAK_EVEN_CAPTION if has_line else "")


def _pass_caption(series: t.Sequence[Series]) -> str:
    return STACK_CAPTION if any(is_stacked(one.report) for one in series) else PASS_CAPTION


def is_stacked(report: Report) -> bool:
    """Return whether a pass with drafts takes longer than one without, so that it has two parts."""
    return any((pass_cost(p, report) or 0) > 1 for p in points_with(report, "pass_ms"))


# Drawing


def _draw_speedup(axes: Axes, series: t.Sequence[Series]) -> None:
    lengths = _lengths(series)
    values = [1.0]
    for one in series:
        for point in drafting(one.report["points"]):
            x = lengths.index(drafts(point)) + one.offset
            figure = point.get("speedup")
            if not figure:
                if point["error"]:
                    _note(axes, x, 1.0, "failed", BAD)
                continue
            values += [value for value in (figure["mean"], figure["low"], figure["high"]) if value is not None]
            _interval(axes, x, figure, one)
            if len(series) == 1 and len(lengths) <= MOST_NOTES:
                _note(axes, x, figure["high"] or figure["mean"], f"{figure['mean']:.2f}", INK)
    room = max(0.25 * (max(values) - min(values)), 0.06)
    low, high = min(values) - room, max(values) + room
    axes.axhspan(1, high, color=GOOD, alpha=0.07, linewidth=0)
    axes.axhspan(low, 1, color=BAD, alpha=0.07, linewidth=0)
    axes.axhline(1, color=INK, linewidth=1.2)
    axes.set_ylim(low, high)
    axes.set_ylabel("times as fast as without speculation")
    axes.annotate("faster", (0.015, 0.985), xycoords="axes fraction", va="top", color=GOOD, size=9.8)
    axes.annotate("slower", (0.015, 0.015), xycoords="axes fraction", va="bottom", color=BAD, size=9.8)
    _categories(axes, [label(number) for number in lengths])
    if len(series) > 1:
        _legend(axes)


def _draw_acceptance(axes: Axes, series: t.Sequence[Series]) -> None:
    alone = len(series) == 1
    lengths = sorted({drafts(p) for one in series for p in with_acceptance(one.report)})
    for one in series:
        points = with_acceptance(one.report)
        for point in points:
            _interval(axes, drafts(point) + one.offset / 2, acceptance_length(point), one)
        costs = [(drafts(p), cost) for p in points if (cost := break_even(p, one.report))]
        if costs:
            axes.plot(
                *_columns(costs),
                color=BAD if alone else one.colour,
                linestyle=(0, (1, 1.2)),
                marker=".",
                markersize=4,
                label="break-even" if alone else f"break-even {one.name}",
            )
        a = acceptance_chance(one.report)
        if a is not None:
            steps = [lengths[-1] * step / 60 for step in range(61)]
            axes.plot(
                steps,
                [expected_length(a, step) for step in steps],
                color=INK if alone else one.colour,
                linewidth=1,
                linestyle=(0, (5, 2)),
                label=f"theory, a = {a:.2f}" if alone else f"theory {one.name}",
                zorder=1.5,
            )
    band = [
        (drafts(p), p["theory"]["break_even_best"], p["theory"]["break_even_worst"])
        for p in points_with(series[0].report, "theory")
        if alone and p["theory"]["break_even_best"] is not None and p["theory"]["break_even_worst"] is not None
    ]
    if len(band) > 1:
        places, best, worst = _columns(band)
        axes.fill_between(places, best, worst, color=BAD, alpha=0.1, linewidth=0, label="break-even computed")
    axes.set_xlim(0, lengths[-1] + 0.4)
    axes.set_ylim(bottom=0.9)
    axes.set_ylabel("tokens a pass")
    axes.set_xlabel("draft length")
    axes.set_xticks([0, *lengths])
    _legend(axes)


def _draw_position(axes: Axes, series: t.Sequence[Series]) -> None:
    alone = len(series) == 1
    chosen = longest_draft(series)
    others = [p for p in points_with(series[0].report, "by_position") if alone and p is not chosen[0][1]]
    for number, point in enumerate(others):
        places = range(1, len(point["by_position"]) + 1)
        label = None if number else "shorter drafts"
        axes.plot(places, point["by_position"], color=MUTED, linewidth=1, marker=".", alpha=0.6, label=label)
    for one, point in chosen:
        places = range(1, len(point["by_position"]) + 1)
        label = of_length(point) if alone else one.name
        axes.plot(places, point["by_position"], color=one.colour, marker=one.marker, label=label)
        for place, share in zip(places, point["by_position"]):
            if alone and len(places) <= MOST_NOTES:
                _note(axes, place, share, f"{100 * share:.0f} %", INK)
    most = max(len(point["by_position"]) for _one, point in chosen)
    axes.set_ylim(0, 1.1)
    axes.set_xlim(0.6, most + 0.4)
    axes.set_xticks(range(1, most + 1))
    axes.set_yticks([0, 0.25, 0.5, 0.75, 1], ["0 %", "25 %", "50 %", "75 %", "100 %"])
    axes.set_xlabel("position of the drafted token" + ("" if alone else f", {of_length(chosen[0][1])}"))
    axes.set_ylabel("accepted")
    _legend(axes)


def _draw_pass(axes: Axes, series: t.Sequence[Series]) -> None:
    alone = len(series) == 1
    lengths = sorted({drafts(p) for one in series for p in points_with(one.report, "pass_ms", drafts_only=False)})
    width = 0.6 / len(series)
    highest = 0.0
    for one in series:
        base = base_ms(one.report)
        bars = [
            (lengths.index(drafts(p)) + one.offset, p["pass_ms"]["mean"])
            for p in points_with(one.report, "pass_ms", drafts_only=False)
        ]
        if not bars:
            continue
        places, totals = _columns(bars)
        pure = [total if base is None else min(base, total) for total in totals]
        added = [total - part for total, part in zip(totals, pure)]
        what = "pass without speculation" if any(added) else "whole pass"
        look: dict[str, t.Any] = {"color": SECOND} if alone else {"color": one.colour, "alpha": 0.5}
        axes.bar(places, pure, width, label=what if alone else None, **look)
        if any(added):
            name = "what drafts add" if alone else one.name
            axes.bar(places, added, width, bottom=pure, color=one.colour, label=name)
        for place, total in bars:
            if alone and len(lengths) <= MOST_NOTES:
                _note(axes, place, total, digits(total), INK)
        highest = max([highest, *totals])
    axes.set_ylim(0, highest * 1.12)
    axes.set_ylabel("milliseconds")
    _categories(axes, [label(number) for number in lengths])
    _legend(axes)


def _draw_ttft(axes: Axes, series: t.Sequence[Series]) -> None:
    from matplotlib.ticker import MaxNLocator

    for one in series:
        # The two mostly lie upon each other, so that two reports need no more than one of them.
        for point in [focus(one.report)] if len(series) > 1 else [measured_without(one.report), focus(one.report)]:
            timed = _timed(point) if point else []
            if not point or not timed:
                continue
            places = [item["prompt_tokens"] for item in timed]
            seconds = [item["ttft_s"] for item in timed]
            colour = one.colour if len(series) > 1 or drafts(point) else SECOND
            name = of_length(point) if len(series) == 1 else f"{one.name}, {of_length(point)}"
            look = {"linewidth": 1.6, "markersize": 4} if drafts(point) else {"linewidth": 5, "markersize": 9}
            marker = one.marker if drafts(point) else "s"
            axes.plot(places, seconds, color=colour, marker=marker, label=name, **look)
    axes.set_ylim(bottom=0)
    axes.set_xlim(left=0)
    axes.set_xlabel("tokens of the prompt")
    axes.set_ylabel("seconds")
    axes.xaxis.set_major_formatter(lambda value, _place: f"{value:,.0f}".replace(",", " "))
    axes.xaxis.set_major_locator(MaxNLocator(5))
    _legend(axes)


def _lengths(series: t.Sequence[Series]) -> list[int]:
    """Return the draft lengths of all reports."""
    return sorted({drafts(p) for one in series for p in drafting(one.report["points"])})


def _columns(rows: t.Sequence[tuple[t.Any, ...]]) -> list[list[t.Any]]:
    return [list(column) for column in zip(*rows)]


def _interval(axes: Axes, x: float, figure: t.Mapping[str, t.Any] | None, one: Series) -> None:
    """Draw a marker with its interval; the first of a series names it in the legend."""
    if figure is None:
        return
    if figure["low"] is not None and figure["high"] is not None:
        axes.vlines(x, figure["low"], figure["high"], color=one.colour, linewidth=2.2, zorder=2)
    named = one.name in axes.get_legend_handles_labels()[1]
    axes.plot(
        [x],
        [figure["mean"]],
        color=one.colour,
        marker=one.marker,
        markersize=7,
        linestyle="none",
        label=None if named else one.name,
        zorder=3,
    )


def _note(axes: Axes, x: float, y: float, text: str, colour: str) -> None:
    """Text just above a mark."""
    axes.annotate(text, (x, y), xytext=(0, 5), textcoords="offset points", ha="center", color=colour, size=9.8)


def _categories(axes: Axes, labels: t.Sequence[str]) -> None:
    axes.set_xticks(range(len(labels)), labels)
    axes.set_xlim(-0.6, len(labels) - 0.4)
    axes.set_xlabel("draft length")


def _legend(axes: Axes) -> None:
    """Above the plot, where it hides nothing."""
    if axes.get_legend_handles_labels()[0]:
        axes.legend(loc="lower left", bbox_to_anchor=(0, 1.02), ncols=2, columnspacing=1.2, labelspacing=0.3)


def _svg(name: str, draw: t.Callable[[Axes, t.Sequence[Series]], None], series: t.Sequence[Series]) -> str:
    import matplotlib
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    target = io.BytesIO()
    with matplotlib.rc_context():
        # Independent of the user's matplotlibrc.
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(STYLE)
        figure = Figure(figsize=(WIDTH / 72, HEIGHT / 72), layout="constrained")
        FigureCanvasSVG(figure)
        draw(figure.add_subplot(), series)
        figure.savefig(target, format="svg", metadata=NO_METADATA)
    return for_page(target.getvalue().decode(), name)


def for_page(svg: str, name: str) -> str:
    """Return an SVG file as part of a page: ids of its own, the page's colours and font.

    No style of it affects the rest of the page.
    """
    root = ElementTree.fromstring(svg)
    for parent in list(root.iter()):
        parent.tag = parent.tag.partition("}")[2]
        for child in list(parent):
            if child.tag.endswith(("}metadata", "}style")):
                parent.remove(child)
        for attribute, value in list(parent.attrib.items()):
            del parent.attrib[attribute]
            parent.set(attribute.rpartition("}")[2], _for_page(attribute, value, name))
    for group in list(root.iter()):
        # Only what something refers to needs an id.
        if group.tag == "g" and "id" in group.attrib:
            del group.attrib["id"]
    root.attrib = {
        "viewBox": root.attrib["viewBox"],
        "role": "img",
        "aria-labelledby": f"{name}-title",
        "aria-describedby": f"{name}-text",
    }
    for element in root.iter():
        # Line breaks between elements would only be bytes.
        element.tail = None
        if element.text is not None and not element.text.strip():
            element.text = None
    return ElementTree.tostring(root, encoding="unicode")


def _for_page(attribute: str, value: str, name: str) -> str:
    if attribute == "id":
        return f"{name}-{value}"
    value = value.replace("url(#", f"url(#{name}-")
    if attribute.endswith("href"):
        return value.replace("#", f"#{name}-", 1)
    if attribute == "style":
        value = re.sub(r"font-family:[^;]*;?\s*", "", value)
        value = re.sub(r"font:\s*([\d.]+px)[^;]*", r"font-size: \1", value)
        for colour, variable in VARIABLES.items():
            value = value.replace(colour, f"var(--{variable})")
    return value

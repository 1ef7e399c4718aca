# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._benchmark import plots as drawing

from tests.unit import benchmark_reports as reports
from tests.unit import benchmark_results as measured


@pytest.fixture(scope="module")
def plots() -> dict[str, drawing.Plot]:
    return {plot.name: plot for plot in drawing.plots(reports.wins())}


def svg(plot: drawing.Plot) -> ElementTree.Element:
    assert plot.svg is not None
    return ElementTree.fromstring(plot.svg)


def texts(plot: drawing.Plot) -> list[str]:
    return [element.text or "" for element in svg(plot).iter("text")]


def heights(plot: drawing.Plot, style: str) -> list[float]:
    """Where lines of this style begin, from the top."""
    found = [path for path in svg(plot).iter("path") if style in path.get("style", "")]
    return [float(path.get("d", "").split()[2]) for path in found]


def test_all_plots(plots: dict[str, drawing.Plot]) -> None:
    assert list(plots) == ["speedup", "acceptance", "position", "pass", "ttft"]
    for plot in plots.values():
        assert plot.svg is not None
        assert len(plot.svg) < 20_000
        assert svg(plot).get("viewBox") == f"0 0 {drawing.WIDTH} {drawing.HEIGHT}"
        # Nothing in it reaches out of it or tells when and where it was made.
        assert not [element.tag for element in svg(plot).iter() if element.tag in ("style", "metadata", "script")]
        assert not re.findall(r"xmlns|xlink|font-family|Date|matplotlib|20\d\d-", plot.svg)


def test_time_to_first_token_only_when_measured() -> None:
    results = reports.report()
    for point in results["points"]:
        point["lengths"] = []
    assert "ttft" not in {plot.name for plot in drawing.plots(results)}


def test_the_line_at_one(plots: dict[str, drawing.Plot]) -> None:
    (line,) = heights(plots["speedup"], "stroke: var(--ink); stroke-width: 1.2")
    tick = next(text for text in svg(plots["speedup"]).iter("text") if text.text == "1.0")
    # A tick's text stands around its line.
    assert float(tick.get("y", "")) == pytest.approx(line, abs=5)
    marks = [use for use in svg(plots["speedup"]).iter("use") if "--accent" in use.get("style", "")]
    assert len(marks) == 4
    assert all(float(mark.get("y", "")) < line for mark in marks)


def test_drafts_that_lose_are_below_the_line() -> None:
    plot = drawing.plots(reports.loses())[0]
    (line,) = heights(plot, "stroke: var(--ink); stroke-width: 1.2")
    marks = [use for use in svg(plot).iter("use") if "--accent" in use.get("style", "")]
    assert len(marks) == 2
    assert all(float(mark.get("y", "")) > line for mark in marks)


def test_a_failed_length_keeps_its_place() -> None:
    plot = drawing.plots(reports.fails())[0]
    assert {"1", "3", "8", "failed"} <= set(texts(plot))


def test_figures_stand_at_the_marks(plots: dict[str, drawing.Plot]) -> None:
    points = [point for point in reports.wins()["points"] if point["draft_length"]]
    assert {f"{point['speedup']['mean']:.2f}" for point in points} <= set(texts(plots["speedup"]))
    assert {f"{point['pass_ms']['mean']:.1f}" for point in points} <= set(texts(plots["pass"]))
    assert {f"{100 * share:.0f} %" for share in points[-1]["by_position"]} <= set(texts(plots["position"]))
    assert f"theory, a = {points[0]['theory']['a']:.2f}" in texts(plots["acceptance"])


def test_many_lengths_have_no_figures_at_the_marks() -> None:
    report = reports.report(draft_lengths=range(13))
    assert not [text for text in texts(drawing.plots(report)[0]) if re.fullmatch(r"\d\.\d\d", text)]


def test_what_drafts_add_stands_on_a_pass_without(plots: dict[str, drawing.Plot]) -> None:
    def bars(variable: str) -> list[tuple[float, float]]:
        paths = [path.get("d", "").split() for path in svg(plots["pass"]).iter("path") if path.get("clip-path")]
        styles = [path.get("style", "") for path in svg(plots["pass"]).iter("path") if path.get("clip-path")]
        ends = [
            (float(path[2]), float(path[8]))
            for path, style in zip(paths, styles)
            if f"fill: var(--{variable})" in style
        ]
        return [(max(pair), min(pair)) for pair in ends]

    base, added = bars("second"), bars("accent")
    assert len(base) == 5
    assert len({top for _bottom, top in base}) == 1
    heights = [bottom - top for bottom, top in added if bottom > top]
    assert len(heights) == 4
    # Of the truth: 3 ms a drafted token, beside 20 ms a pass.
    per_ms = (base[0][0] - base[0][1]) / 20
    assert [height / per_ms for height in heights] == pytest.approx([3, 6, 9, 15], rel=0.05)


def test_a_pass_that_costs_less_with_drafts_has_no_break_even_and_no_second_part() -> None:
    made = {plot.name: plot for plot in drawing.plots(reports.disturbed())}
    for name, word in (("acceptance", "break-even"), ("pass", "without speculation")):
        assert word not in made[name].caption
        assert word not in made[name].text.replace("without speculation: ", "")
        assert not [text for text in texts(made[name]) if text == word or "pass without" in text]
    assert drawing.break_even(reports.wins()["points"][1], reports.wins()) == pytest.approx(1.15, rel=0.01)


def test_captions_explain_what_is_drawn(plots: dict[str, drawing.Plot]) -> None:
    assert plots["acceptance"].caption.endswith(drawing.BREAK_EVEN_CAPTION)
    assert plots["pass"].caption == drawing.STACK_CAPTION


def test_in_words(plots: dict[str, drawing.Plot]) -> None:
    point = reports.wins()["points"][1]
    low, high = point["speedup"]["low"], point["speedup"]["high"]
    assert f"draft length 1: {point['speedup']['mean']:.2f} ({low:.2f} to {high:.2f})" in plots["speedup"].text
    assert "break-even at 1.15" in plots["acceptance"].text
    assert "without speculation: 20.0 ms; draft length 1: 23.0 ms, +3.0 ms;" in plots["pass"].text
    assert "0.31 s at 1019 tokens, 2.42 s at 8177 tokens" in plots["ttft"].text


def test_two_reports() -> None:
    plots = {plot.name: plot for plot in drawing.plots(reports.wins(), reports.older())}
    for plot in plots.values():
        assert plot.text.startswith("Before: ")
        assert " After: " in plot.text
        assert [text for text in texts(plot) if text.startswith("before")]
    # Both have length 3, and only one has 5.
    assert "position of the drafted token, draft length 3" in texts(plots["position"])


def test_the_fastest_is_looked_at_without_a_verdict() -> None:
    report = {**reports.wins(), "verdict": {"kind": "undecided", "draft_length": None, "sentence": ""}}
    point = drawing.focus(report)
    assert point is not None
    assert point["speedup"]["mean"] == max(one["speedup"]["mean"] for one in report["points"] if one["speedup"])
    assert drawing.focus(reports.loses())["draft_length"] == 1  # type: ignore[index]
    assert drawing.focus({**report, "points": []}) is None


def test_what_a_pass_costs() -> None:
    truth = measured.WINS
    for point in reports.wins()["points"]:
        wanted = truth.pass_ms(point["draft_length"]) / truth.pass_ms(0)
        assert drawing.pass_cost(point, reports.wins()) == pytest.approx(wanted, rel=0.01)
    assert drawing.pass_cost(reports.wins()["points"][1], reports.report(draft_lengths=(1, 2))) is None

# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import copy
import dataclasses
import json
import re
import subprocess
import sys
import typing as t
from pathlib import Path

import pytest
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._benchmark import plots as drawing
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._benchmark.analyse import analyse
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._benchmark.page import page

from tests.unit import benchmark_reports as reports
from tests.unit import benchmark_results as measured

REPOSITORY = Path(__file__).parents[5]
HOSTILE = "</script><script>alert(1)</script><img src=x onerror='a()'>\"&{{ 7 * 7 }}$\\frac{\x1b[31m\u202e"
PAGES = {
    "wins": (reports.wins, None),
    "loses": (reports.loses, None),
    "fails": (reports.fails, None),
    "compared": (reports.wins, reports.older),
}


@pytest.fixture(scope="module", params=list(PAGES))
def made(request: pytest.FixtureRequest) -> str:
    report, before = PAGES[request.param]
    return page(report(), before() if before else None)


@pytest.fixture(scope="module")
def wins() -> reports.Page:
    return reports.Page(page(reports.wins()))


def row(made: reports.Page, first: str) -> list[list[str]]:
    """The rows of all tables that begin with this."""
    return [cells for cells in made.rows if cells and cells[0] == first]


def test_it_stands_alone(made: str) -> None:
    parsed = reports.Page(made)
    assert not parsed.all("script")
    assert not parsed.all("link")
    assert not parsed.all("img")
    assert not parsed.values("src")
    # What refers refers to something within the page.
    ids = parsed.values("id")
    assert len(ids) == len(set(ids))
    assert all(value.startswith("#") and value[1:] in ids for value in parsed.values("href"))
    assert set(re.findall(r"url\(([^)]*)\)", made)) <= {f"#{name}" for name in ids}
    assert "@import" not in made
    assert "://" not in made
    assert not [key for _tag, attributes in parsed.elements for key in attributes if key.startswith("on")]
    (policy,) = (one["content"] for one in parsed.all("meta") if one.get("http-equiv"))
    assert policy == "default-src 'none'; style-src 'unsafe-inline'"


def test_it_can_be_read_by_everybody(made: str) -> None:
    parsed = reports.Page(made)
    ids = parsed.values("id")
    assert parsed.all("html") == [{"lang": "en"}]
    assert {"name": "viewport", "content": "width=device-width, initial-scale=1"} in parsed.all("meta")
    assert "prefers-color-scheme: dark" in made
    pictures = [svg for svg in parsed.all("svg") if "aria-hidden" not in svg]
    assert len(pictures) == 5
    for svg in pictures:
        assert svg["role"] == "img"
        assert svg["aria-labelledby"] in ids
        assert svg["aria-describedby"] in ids
    assert len(parsed.all("caption")) == len(parsed.all("table")) > 3
    assert all(one.get("scope") in ("col", "row") for one in parsed.all("th"))
    assert len(parsed.all("h1")) == 1
    # Colours come from the page, light or dark, and not from the plots.
    assert not re.findall(r"(?:fill|stroke): ?#", made)


def test_it_is_small(made: str) -> None:
    assert len(made.encode()) < 120_000


def test_figures(wins: reports.Page) -> None:
    report = reports.wins()
    best = report["verdict"]["draft_length"]
    assert report["verdict"]["sentence"] in wins.text
    assert f"Yes: draft length {best}" in wins.text
    point = next(one for one in report["points"] if one["draft_length"] == best)
    points = row(wins, f"{best} best")[0]
    assert points[1].startswith(f"{point['speedup']['mean']:.2f} {point['speedup']['low']:.2f} to ")
    assert points[2].startswith(f"{point['tokens_per_second']['mean']:.1f} ")
    assert points[4].startswith(f"{point['acceptance_length']['mean']:.2f} ")
    assert points[6] == "15 of 15"
    # The truth: 20 ms a pass without speculation, 23 ms with one.
    (why,) = (cells for cells in row(wins, "1") if "%" in cells[4])
    assert why[5] == "1.15"
    assert why[6] == "1.32 to 1.69"
    assert row(wins, "chat")[0][1] == "3"
    assert "Reading 5.00 GB a token at 273 GB/s allows 54.6 tokens/s" in " ".join(wins.text.split())


def test_what_was_measured(wins: reports.Page) -> None:
    text = " ".join(wins.text.split())
    head = text[: text.index(">Findings<") if ">Findings<" in text else text.index("In pictures")]
    for part in (
        "single_eagle3 (TensorRT-LLM, EAGLE-3, draft length 5)",
        "sha256:222222222222",
        "nvidia/gpt-oss-120b-Eagle3-long-context",
    ):
        assert part in head
    for part in (
        "at 444444444444",
        "1 DGX Spark, NVIDIA GB10, driver 580.95.05",
        "TensorRT-LLM 1.3.0rc12",
        "2026-11-22",
    ):
        assert part in head
    # At the end whole.
    for part in ("sha256:" + "1" * 64, "sha256:" + "2" * 64, "3" * 40, "4" * 40):
        assert part in text


def test_drafts_that_lose() -> None:
    made = reports.Page(page(reports.loses()))
    assert "No: serve without speculation" in made.text
    assert row(made, "off best")
    assert len(row(made, "off best")) == 2


def test_a_failed_point() -> None:
    made = reports.Page(page(reports.fails()))
    assert ["8", "Failed. The server ended: CUDA out of memory."] in made.rows
    assert "Draft length 5: draft length 3 was no faster than 2." in made.text
    assert "Prompt long-1: it has 18231 tokens, the server takes 16384." in made.text
    assert "failed" in made.text[made.text.index("Speed-up by draft length") :]


def test_answers_that_differ() -> None:
    results = measured.results()
    measured.change_answer(results, "3", "code-1", 30)
    made = page(analyse(results, measured.context()))
    parsed = reports.Page(made)
    assert "Draft length 3: 1 of 15 answers differ" in parsed.text
    with_drafts = re.findall(r"<pre>(.*?)<mark>(.*?)</mark></pre>", made)
    assert len(with_drafts) == 2
    (common, without), (also_common, changed) = with_drafts
    assert common == also_common
    assert changed.startswith("# and now")
    assert without[0] != "#"
    assert row(parsed, "3 best")[0][6] == "14 of 15"


def test_undecided() -> None:
    report = reports.report(draft_lengths=(1, 2))
    assert report["verdict"]["kind"] == "undecided"
    made = reports.Page(page(report))
    assert "Not decided yet" in made.text
    assert "Speed-up by draft length" not in made.text
    assert row(made, "1")[0][1] == "unknown"


def test_speeds_that_cannot_be_compared() -> None:
    report = reports.disturbed()
    text = page(report)
    made = reports.Page(text)
    assert "Measure again: the Spark was not idle" in re.findall(r'<h2 id="verdict">(.*)</h2>', text)
    # No figure is in large type, and no draft length is the best.
    assert not [one for one in made.all("div") if one.get("class") == "card tile"]
    assert not [cells for cells in made.rows if cells and "best" in cells[0]]
    assert re.search(r"\.verdict\.again[^}]*unsure", text)


@pytest.mark.parametrize(
    "results",
    [
        measured.results(dataclasses.replace(measured.WINS, chunk_usage=False)),
        measured.results(dataclasses.replace(measured.WINS, chunk_usage=False, server_count=False)),
        measured.results(asked=measured.prompts(1, ["chat"])),
        measured.results(draft_lengths=(0,)),
        measured.results(draft_lengths=(0, 2)),
        measured.results(errors={0: "no", 1: "no", 2: "no", 3: "no"}),
        measured.results(errors={0: "no"}),
        measured.results(draft_lengths=range(13)),
        {**measured.results(), "points": []},
    ],
    ids=[
        "no chunks",
        "no counts",
        "one prompt",
        "only off",
        "one length",
        "all failed",
        "off failed",
        "many",
        "nothing",
    ],
)
def test_whatever_is_missing(results: dict[str, t.Any]) -> None:
    for point in results["points"]:
        point["gpu"] = point["memory_available"] = point["loading_s"] = None
        point["lengths"] = []
    context = measured.context(
        roofline=None, image=None, models={}, hardware={}, versions=None, settings=None, method=None
    )
    report = analyse(results, context)
    for made in (page(report), page(report, reports.older()), page(reports.older(), report)):
        text = reports.Page(made).text
        assert report["verdict"]["sentence"] in text
        assert not re.findall(r"\b(?:None|nan|Undefined)\b", text)


def test_hostile_text_is_only_text() -> None:
    results = measured.results(asked=measured.prompts(2, [HOSTILE, "chat"]), errors={2: HOSTILE})
    measured.change_answer(results, "3", f"{HOSTILE.replace(' ', '-')}-1", 5)
    for sample in results["points"][3]["samples"]:
        sample["text"] = sample["text"] and HOSTILE + sample["text"]
    results["points"][2]["error"] += "\ud800"
    results["skipped"] = [{"id": HOSTILE, "reason": HOSTILE}]
    results["left_out"] = [{"prompt": HOSTILE, "reason": HOSTILE}]
    words = {"title", "deployment", "recipe", "method", "date"}
    context = measured.context(**dict.fromkeys(words, HOSTILE))
    context["models"] = {HOSTILE: HOSTILE}
    context["image"] = {"reference": HOSTILE, "id": HOSTILE, "digests": [HOSTILE]}
    context["versions"] = context["settings"] = context["hardware"] = {"repetitions": 3, "sparks": 1, HOSTILE: HOSTILE}
    report = analyse(results, context)
    made = page(report, copy.deepcopy(report))
    parsed = reports.Page(made)
    assert not parsed.all("script")
    assert not parsed.all("img")
    assert "<script" not in made.lower()
    assert "{{ 7 * 7 }}" in made
    assert not set(made) & {"\x1b", "\u202e"}
    # It is all there to be read.
    assert parsed.text.count("alert(1)") > 15
    assert json.loads(json.dumps(report)) == report


def test_the_same_again_is_the_same(tmp_path: Path) -> None:
    """Also in another process, whatever the user's matplotlib is set to."""
    (tmp_path / "matplotlibrc").write_text("font.size: 30\nsvg.fonttype: path\naxes.facecolor: red\n")
    (tmp_path / "report.json").write_text(json.dumps(reports.wins()))
    program = (
        "import json, sys\n"
        "from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._benchmark.page import page\n"
        "sys.stdout.write(page(json.load(open('report.json'))))\n"
    )
    environment = {
        "MATPLOTLIBRC": str(tmp_path / "matplotlibrc"),
        "MPLCONFIGDIR": str(tmp_path / "configuration"),
        "PYTHONPATH": str(REPOSITORY / "collections"),
        "PYTHONHASHSEED": "7",
        "PYTHONIOENCODING": "utf-8",
        "TZ": "Pacific/Auckland",
    }
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout == page(reports.wins())
    assert done.stderr == ""


def test_without_matplotlib(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    parsed = reports.Page(page(reports.wins()))
    assert not [svg for svg in parsed.all("svg") if "aria-hidden" not in svg]
    assert drawing.WITHOUT_MATPLOTLIB in parsed.text
    assert "pip install matplotlib" in parsed.text
    # The figures are there in words, and open.
    assert parsed.all("details") == [{"open": None}] * 5
    assert "without speculation: 20.0 ms; draft length 1: 23.0 ms, +3.0 ms" in parsed.text


def test_two_reports() -> None:
    made = reports.Page(page(reports.wins(), reports.older()))
    text = " ".join(made.text.split())
    assert "What changed since 2026-09-30" in text
    assert reports.older()["verdict"]["sentence"] in text
    # A pass takes 20 instead of 24 ms; each draft 3 instead of 3.6.
    off = next(cells for cells in made.rows if cells[0] == "off" and "→" in cells[1])
    assert off[1].startswith("41.7 → 50.0 1.20 times (1.2")
    assert off[3].startswith("24.0 → 20.0 0.83 times (0.8")
    assert [cells[0] for cells in made.rows if "→" in " ".join(cells)] == ["off", "1", "2", "3"]
    assert [
        "image",
        "nvcr.io/nvidia/tensorrt-llm/release:1.2.0",
        "nvcr.io/nvidia/tensorrt-llm/release:1.3.0rc12",
    ] in made.rows
    assert ["image digest", "unknown", "nvcr.io/nvidia/tensorrt-llm/release@sha256:222222222222"] in made.rows
    assert not [cells for cells in made.rows if cells[0].startswith(("model", "setting", "hardware"))]
    assert "break-even before" in text

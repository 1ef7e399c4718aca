# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import copy
import json
import random
import typing as t
from pathlib import Path

import pytest
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._benchmark import document as documents
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._benchmark import plots as drawing
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._benchmark.page import page

from tests.unit import benchmark_reports as reports
from tests.unit import benchmark_results as measured

HOSTS = ("athena", "athena.lan", "spark-7", "spark", "one")


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("see http://127.0.0.1:8000/health, (http://x:1/)", "see <address>, (<address>)"),
        ("https://user:secret@hub.example/x?token=CANARY123", "<address>"),
        ("ssh://alice@athena", "<address>"),
        (
            "connect to 127.0.0.1:8000 or localhost:8000 or [::1]:80 or 0.0.0.0",
            "connect to " + " or ".join(["<address>"] * 4),
        ),
        ("192.168.1.17 is down, fe80::1ff:fe23:4567:890a, too", "<ip-2> is down, <ip-1>, too"),
        ("Athena.lan said, athena; spark-7:8000", "<host> said, <host>; <host>:8000"),
        ("/home/alice/x and /Users/alice/y", "/home/<user>/x and /Users/<user>/y"),
        ("user=alice, alice@laptop", "user=<user>, <user>@laptop"),
        ("HF_TOKEN=hf_CANARYabc123 Bearer CANARY.abc-1", "HF_TOKEN=<token> Bearer <token>"),
    ],
)
def test_what_is_taken_out(text: str, left: str) -> None:
    found = documents.redacted({"points": [{"error": text}]}, HOSTS, ["alice"])
    assert found == {"points": [{"error": left}]}


@pytest.mark.parametrize(
    "text",
    [
        "gpt-oss-120b with EAGLE-3 on one Spark",
        "openai/gpt-oss-120b",
        "nvcr.io/nvidia/tensorrt-llm/release@sha256:" + "2" * 64,
        "NVIDIA GB10, driver 580.95.05, 1.3.0rc12",
        "2026-11-22T10:00:00Z at 10:00:00",
        "the localhosts of std::vector",
        "CUDA out of memory. Tried to allocate 12.00 GiB.",
    ],
)
def test_what_stays(text: str) -> None:
    assert documents.redacted({"title": text}, HOSTS, ["spark"]) == {"title": text}


def test_an_ordinary_report_stays_as_it_is() -> None:
    assert documents.redacted(reports.fails(), HOSTS, ["root", "spark"]) == reports.fails()


def test_a_registry_of_ones_own() -> None:
    image = {
        "reference": "registry.corp.example:5000/nvidia/release:1",
        "digests": ["registry.corp.example:5000/x@sha256:1"],
    }
    report = {"image": image, "points": [{"error": "pull from registry.corp.example:5000 failed"}]}
    found = documents.redacted(report, (), ())
    assert found["image"] == {"reference": "<host>/nvidia/release:1", "digests": ["<host>/x@sha256:1"]}
    assert found["points"][0]["error"] == "pull from <host> failed"


def test_names_of_models_are_looked_at_as_well() -> None:
    found = documents.redacted({"models": {"/home/alice/model": "1"}}, (), ())
    assert found == {"models": {"/home/<user>/model": "1"}}


# Reading


def written(directory: Path, report: t.Any) -> Path:
    path = directory / "report.json"
    path.write_text(json.dumps(report))
    return path


def test_what_was_written_can_be_read(tmp_path: Path) -> None:
    for report in (reports.wins(), reports.loses(), reports.fails(), reports.report(draft_lengths=(1,))):
        assert documents.read(written(tmp_path, report)) == report


@pytest.mark.parametrize(
    "content",
    [
        b"not json",
        b"\xff\xfe{",
        b"[" * 100_000,
        b"[]",
        json.dumps({**reports.wins(), "schema": 2}).encode(),
        json.dumps({**reports.wins(), "points": [1]}).encode(),
        json.dumps(reports.wins()).replace('"mean": ', '"mean": NaN, "x": ').encode(),
    ],
    ids=["text", "bytes", "deep", "list", "another schema", "another shape", "no number"],
)
def test_what_is_no_report_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "notes.txt"
    path.write_bytes(content)
    with pytest.raises(documents.DocumentError) as refused:
        documents.read(path)
    assert str(refused.value) == (
        f"{path} is no report of a benchmark of this collection: compare with the JSON file that an earlier "
        "benchmark.yml wrote."
    )


def test_a_report_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(documents.DocumentError, match=r"cannot be read \(No such file or directory\)\.$"):
        documents.read(tmp_path / "none.json")
    with pytest.raises(documents.DocumentError, match=r"cannot be read \(Is a directory\)\.$"):
        documents.read(tmp_path)


def mutated(report: t.Any, chance: random.Random) -> t.Any:
    """The report with one value somewhere in it changed or gone."""
    changed = copy.deepcopy(report)
    spot, places = changed, []
    while isinstance(spot, (dict, list)) and spot:
        key = chance.choice(list(spot) if isinstance(spot, dict) else list(range(len(spot))))
        places.append((spot, key))
        spot = spot[key]
    parent, key = chance.choice(places)
    if chance.random() < 0.3:
        del parent[key]
    else:
        parent[key] = chance.choice([None, 0, 1, -1, 0.5, 1e11, "", "x", True, [], {}, [1], {"mean": 1}])
    return changed


def test_any_other_is_refused_or_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(6)
    refused = 0
    for number in range(150):
        path = written(tmp_path, mutated(reports.older(), chance))
        try:
            before = documents.read(path)
        except documents.DocumentError:
            refused += 1
            continue
        # Drawing takes most of the time.
        with monkeypatch.context() as patched:
            patched.setattr(drawing, "is_available", lambda number=number: number % 30 == 0)
            assert "What changed since" in page(reports.wins(), before)
    assert 30 < refused < 120


# Writing


def test_files_are_written_whole(tmp_path: Path) -> None:
    page_, data = tmp_path / "new/page.html", tmp_path / "other/new/data.json"
    for content in ("first", "second \ud800"):
        documents.write({page_: content, data: "{}"})
    assert page_.read_text() == "second ?"
    assert data.read_text() == "{}"
    assert page_.stat().st_mode & 0o777 == 0o600
    assert [one.name for one in page_.parent.iterdir()] == ["page.html"]


def test_none_is_written_if_one_cannot_be(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "page.html").write_text("of before")
    with pytest.raises(
        documents.DocumentError, match=r"^The report .*/file/data\.json cannot be written \(.*\); choose"
    ):
        documents.write({tmp_path / "page.html": "new", tmp_path / "file/data.json": "{}"})
    (tmp_path / "directory").mkdir()
    with pytest.raises(
        documents.DocumentError, match=r"cannot be written \(it is a directory\); choose another path\.$"
    ):
        documents.write({tmp_path / "page.html": "new", tmp_path / "directory": "{}"})
    assert (tmp_path / "page.html").read_text() == "of before"
    assert sorted(one.name for one in tmp_path.iterdir()) == ["directory", "file", "page.html"]


def test_what_was_measured_is_told_without_where() -> None:
    wanted = measured.context()
    record = {
        **{key: wanted[key] for key in ("title", "deployment", "draft_length", "method", "image")},
        "models": {**{name: {"commit": one} for name, one in wanted["models"].items()}, "/here": {"fingerprint": "f"}},
        "break_even_figures": None,
        "cluster": {"rank": 0, "nodes": ["spark-1", "spark-2"]},
        "url": "http://10.1.2.3:8000",
    }
    plan = {"settings": wanted["settings"], "prompts": [], "collection_version": "0.1.0"}
    machine = {"gpus": [{"name": "NVIDIA GB10", "driver": "580.95.05"}], "memory_total": 5, "hostname": "athena"}
    assert documents.context(record, plan, machine, {"version": "1.3.0rc12"}, wanted["date"]) == {
        **wanted,
        "models": {**wanted["models"], "/here": None},
        "hardware": {**wanted["hardware"], "memory_bytes": 5, "sparks": 2},
        "roofline": {},
    }

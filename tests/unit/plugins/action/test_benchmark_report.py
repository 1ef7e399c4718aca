# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import os
import re
import typing as t
from pathlib import Path
from unittest import mock

import pytest
from ansible_collections.dgx_spark.speculative.plugins.action import benchmark
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._benchmark.analyse import analyse

from tests.unit import benchmark_reports as reports
from tests.unit import benchmark_results as measured
from tests.unit import plays

HOST, USER = "athena.lan.example", "alice"
# What a server may say when it ends, with all that strangers need not know.
LAST_WORDS = (
    f"http://10.1.2.3:8000/health of {HOST} (athena, 10.1.2.3): /home/{USER}/.cache/huggingface/token "
    f"hf_CANARYabcd1234, user={USER}, ssh {USER}@10.1.2.3, localhost:8000"
)
CONTEXT = measured.context()
WHAT = {
    "record": {
        **{key: CONTEXT[key] for key in ("title", "deployment", "draft_length", "method", "image")},
        "models": {name: {"commit": commit} for name, commit in CONTEXT["models"].items()},
        "break_even_figures": CONTEXT["roofline"],
    },
    "plan": {"settings": CONTEXT["settings"], "prompts": [], "collection_version": "0.1.0", "recipe": {}},
    "machine": {
        "gpus": [{"name": "NVIDIA GB10", "driver": "580.95.05"}],
        "memory_total": 128_000_000_000,
    },
}
PRIVATE = ("athena", "10.1.2.3", f"/{USER}", f"{USER}@", f"={USER}", "CANARY", "://", "localhost")


def play(directory: Path, *tasks: dict[str, t.Any], **environment: str) -> str:
    """Run tasks on a host that nobody can reach, and return what was printed."""
    (directory / "measured.json").write_text(json.dumps(measured.results(errors={2: LAST_WORDS})))
    every = [
        {"name": "Report", "dgx_spark.speculative.benchmark": {"report": task}, "ignore_errors": True} for task in tasks
    ]
    variables = {"ansible_user": USER, "ansible_connection": "ssh"}
    play = {"gather_facts": False, "vars": variables, "tasks": every}
    done = plays.run(directory, play, hosts=f"{HOST},", **environment)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    return " ".join(done.stdout.split()) + done.stderr


def task(**changes: t.Any) -> dict[str, t.Any]:
    return {
        "results": "{{ lookup('ansible.builtin.file', 'measured.json') }}",
        **WHAT,
        "html_path": "new/report.html",
        "json_path": "new/report.json",
        **changes,
    }


def test_a_user_without_a_name_has_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("getpass.getuser", mock.Mock(side_effect=KeyError("getpwuid(): uid not found")))
    assert benchmark.users_of({"ansible_user": USER}) == {USER, str(os.getuid())}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """Four reports: one, the same beside an older one, one of the same again, and one beside another engine's."""
    directory = tmp_path_factory.mktemp("controller")
    (directory / "older.json").write_text(json.dumps(reports.older()))
    (directory / "vllm.json").write_text(json.dumps(reports.report(engine="vllm", draft_lengths=(0, 2))))
    compared = {"html_path": str(directory / "both.html"), "json_path": "both.json", "compare_with": "older.json"}
    ranked = {"html_path": "ways.html", "json_path": "ways.json", "compare_with": ["older.json", "vllm.json"]}
    again = {"html_path": "again.html", "json_path": "again.json"}
    printed = play(directory, *(task(**changes) for changes in ({}, compared, again, again, ranked)))
    return directory, printed


def test_the_report_is_kept_and_printed(made: tuple[Path, str]) -> None:
    directory, printed = made
    report = json.loads((directory / "new/report.json").read_text())
    # All but the last words, which name the Spark.
    what = {
        **CONTEXT,
        "hardware": {**CONTEXT["hardware"], "memory_bytes": 128_000_000_000},
        "versions": {"collection": "0.1.0", "tensorrt_llm": None},
        "date": report["date"],
    }
    wanted = analyse(measured.results(errors={2: ""}), what)
    assert report["points"][2]["error"].count("<host>") == 2
    report["points"][2]["error"] = ""
    assert report == wanted
    assert wanted["verdict"]["sentence"] in printed
    assert wanted["verdict"]["sentence"] in (directory / "new/report.html").read_text()
    assert f"The report: {directory}/new/report.html The same as JSON: {directory}/new/report.json" in printed
    assert "changed=0" in printed
    for name in ("report.html", "report.json"):
        assert (directory / "new" / name).stat().st_mode & 0o777 == 0o600
    assert sorted(one.name for one in (directory / "new").iterdir()) == ["report.html", "report.json"]


@pytest.mark.parametrize("name", ["new/report.html", "new/report.json", "both.html", "both.json"])
def test_no_token_and_no_address(made: tuple[Path, str], name: str) -> None:
    text = (made[0] / name).read_text()
    assert not [word for word in PRIVATE if word in text]
    assert not re.search(r"\d+\.\d+\.\d+\.\d+", text)


def test_the_same_results_make_the_same_files(made: tuple[Path, str]) -> None:
    for kind in ("html", "json"):
        assert (made[0] / f"new/report.{kind}").read_bytes() == (made[0] / f"again.{kind}").read_bytes()


def test_a_report_that_takes_the_place_of_another_says_so(made: tuple[Path, str]) -> None:
    assert re.findall(r"It replaced an earlier (\S+)", made[1]) == ["again.html", "again.json"]


def test_two_reports_in_one_page(made: tuple[Path, str]) -> None:
    directory, printed = made
    assert "Compared with the report of 2026-09-30, which said: Use draft length" in printed
    assert "off 41.7 -> 50.0 1.20 (1." in printed
    assert "What changed since" in (directory / "both.html").read_text()
    assert json.loads((directory / "both.json").read_text()) == json.loads((directory / "new/report.json").read_text())


def test_reports_of_two_engines_are_ranked(made: tuple[Path, str]) -> None:
    directory, printed = made
    assert "vLLM with EAGLE-3, draft length 2" in printed
    assert "vLLM without speculation" in (directory / "ways.html").read_text()


def test_what_cannot_be_done_is_told_in_a_sentence_and_nothing_is_written(tmp_path: Path) -> None:
    (tmp_path / "results.json").write_text(json.dumps(measured.results()))
    (tmp_path / "new.json").write_text(json.dumps(reports.older()))
    (tmp_path / "file").write_text("")
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    printed = play(
        tmp_path,
        task(compare_with="results.json"),
        task(compare_with="none.json"),
        task(json_path="new.json", compare_with="./new.json"),
        task(json_path="new/report.html"),
        task(json_path="file/report.json"),
        task(results={"schema": 7}),
        task(results={"schema": 1, "points": [{"id": "off"}]}),
    )
    for sentence in (
        f"{tmp_path}/results.json is no report",
        f"The report to compare with, {tmp_path}/none.json, cannot be read (No such file or directory).",
        f"The report to compare with and the new report are the same file, {tmp_path}/new.json.",
        f"html_path and json_path are the same file, {tmp_path}/new/report.html; name two.",
        f"The report {tmp_path}/file/report.json cannot be written (File exists); choose another path.",
        "have schema 7",
        "The results of the benchmark cannot be evaluated: KeyError: 'draft_length'",
    ):
        assert sentence in printed
    assert "ignored=7" in printed
    assert {path: path.read_bytes() for path in before} == before
    assert not [path for path in tmp_path.rglob("report.*") if path.is_file()]


def test_without_matplotlib(tmp_path: Path) -> None:
    (tmp_path / "stand_in/matplotlib").mkdir(parents=True)
    (tmp_path / "stand_in/matplotlib/__init__.py").write_text("raise ImportError('not here')\n")
    printed = play(tmp_path, task(compare_with=""), PYTHONPATH=str(tmp_path / "stand_in"))
    assert "matplotlib is not installed where Ansible runs: pip install matplotlib there" in printed
    assert " speed-up tokens/s " in printed
    assert json.loads((tmp_path / "new/report.json").read_text())["schema"] == 1
    page = (tmp_path / "new/report.html").read_text()
    assert "pip install matplotlib" in page
    assert 'role="img"' not in page

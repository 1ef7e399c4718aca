# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""AIPerf weighs 1.2 GB and is not installed here: a program that behaves like version 0.13.0 stands in for it."""

from __future__ import annotations

import importlib.util
import os
import sys
import typing as t
from pathlib import Path

import pytest

FILE = Path(__file__).parents[3] / "roles/speculative_benchmark/files/aiperf.py"
SPEC = importlib.util.spec_from_file_location("speculative_benchmark_aiperf", FILE)
assert SPEC is not None
assert SPEC.loader is not None
aiperf = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(aiperf)

DOUBLE = f"""#!{sys.executable}
import json, os, sys
from pathlib import Path

arguments = sys.argv[1:]
if arguments == ["--version"]:
    print(os.environ.get("DOUBLE_VERSION", "0.13.0"))
    raise SystemExit
if "HF_HUB_OFFLINE" in os.environ:
    print("|    Reason: Repo id must be in the form 'namespace/name'   |")
    raise SystemExit(1)
given = dict(zip(arguments[1::1], arguments[2::1]))
prompts = [json.loads(line) for line in Path(given["--input-file"]).read_text().splitlines()]
output = Path(given["--output-artifact-dir"])
output.mkdir()
speed = 100 / int(given["--concurrency"])
report = {{
    "aiperf_version": "0.13.0",
    "output_token_throughput_per_user": {{"unit": "tokens/sec/user", "avg": speed}},
    "output_token_throughput": {{"unit": "tokens/sec", "avg": 180.5}},
    "time_to_first_token": {{"unit": "ms", "avg": 46.5}},
    "request_count": {{"unit": "requests", "avg": float(len(prompts))}},
}}
if "--use-server-token-count" not in arguments or prompts[0] != {{"text": "Why?", "output_length": 32}}:
    report = {{}}
(output / "profile_export_aiperf.json").write_text(json.dumps(report))
"""


@pytest.fixture
def program(tmp_path: Path) -> str:
    path = tmp_path / "aiperf"
    path.write_text(DOUBLE, encoding="utf-8")
    path.chmod(0o755)
    return str(path)


def profile(program: str, tmp_path: Path, concurrency: int = 2) -> dict[str, t.Any]:
    where = ("http://127.0.0.1:8000", "gpt-oss-120b", str(tmp_path))
    return t.cast(
        "dict[str, t.Any]",
        aiperf.profile(program, *where, ["Why?", "How?"], 32, concurrency, tmp_path / "work", 30),
    )


def test_what_it_measures_is_kept_and_its_files_are_not(program: str, tmp_path: Path) -> None:
    assert profile(program, tmp_path) == {
        "concurrency": 2,
        "tokens_per_second": 50.0,
        "total_tokens_per_second": 180.5,
        "ttft_s": 0.0465,
        "requests": 2.0,
        "error": None,
    }
    assert not (tmp_path / "work").exists()


def test_the_variable_that_makes_it_take_a_path_for_a_name_is_not_passed_on(
    program: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert profile(program, tmp_path)["tokens_per_second"] == 50.0
    assert os.environ["HF_HUB_OFFLINE"] == "1"


def test_what_it_does_not_tell_is_unknown() -> None:
    assert aiperf.figures({"output_token_throughput_per_user": {"avg": None}}, 1)["tokens_per_second"] is None


def test_a_version_that_is_known_to_do(program: str) -> None:
    assert aiperf.version(program) == "0.13.0"


@pytest.mark.parametrize("old", ["0.12.9", "0.9", "unknown"])
def test_another_version_is_refused(program: str, monkeypatch: pytest.MonkeyPatch, old: str) -> None:
    monkeypatch.setenv("DOUBLE_VERSION", old)
    with pytest.raises(aiperf.AiperfError, match=rf"is AIPerf {old}, but 0.13 or newer is needed: install it with"):
        aiperf.version(program)


def test_a_missing_one_is_told_with_the_way_to_get_it(tmp_path: Path) -> None:
    with pytest.raises(aiperf.AiperfError, match=r"cannot be run as .* install it with: python3 -m venv"):
        aiperf.version(str(tmp_path / "none"))


def test_a_run_without_a_report_is_told_in_its_own_words(tmp_path: Path) -> None:
    path = tmp_path / "aiperf"
    path.write_text("#!/bin/sh\necho '│    Reason: All 6 inference request(s) failed   │'\nexit 1\n", encoding="utf-8")
    path.chmod(0o755)
    with pytest.raises(aiperf.AiperfError, match=r"measured nothing: All 6 inference request\(s\) failed\.$"):
        profile(str(path), tmp_path)


def test_a_report_of_another_shape_is_no_figures(tmp_path: Path) -> None:
    path = tmp_path / "aiperf"
    path.write_text(DOUBLE.replace("json.dumps(report)", "json.dumps([report])"), encoding="utf-8")
    path.chmod(0o755)
    with pytest.raises(aiperf.AiperfError, match=r"measured nothing\.$"):
        profile(str(path), tmp_path)
    assert aiperf.figures({"output_token_throughput_per_user": 50.0}, 1)["tokens_per_second"] is None


def test_a_program_that_has_gone_and_a_place_that_cannot_be_written(program: str, tmp_path: Path) -> None:
    with pytest.raises(aiperf.AiperfError, match="measured nothing: No such file or directory"):
        profile(str(tmp_path / "none"), tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(aiperf.AiperfError, match="measured nothing: Not a directory"):
        profile(program, tmp_path / "file")

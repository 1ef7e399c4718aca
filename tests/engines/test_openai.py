# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The own tests of the package openai, from its source distribution, ask each engine."""

from __future__ import annotations

import typing as t
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
import yaml

from tests.engines import packages
from tests.engines.conftest import Servers
from tests.engines.deviations import Complaint, unexplained

KNOWN = yaml.safe_load(Path(__file__).with_name("openai_tests.yml").read_text(encoding="utf-8"))
TESTS = "tests/api_resources"
FILES = ("test_completions.py", "chat/test_completions.py", "test_models.py", "test_responses.py")


def complaint(case: ElementTree.Element, error: ElementTree.Element) -> Complaint:
    """Return an error under its file and function, whichever client the test was run with."""
    file = case.get("classname", "").rpartition(".")[0].removeprefix(f"{TESTS.replace('/', '.')}.")
    return Complaint(f"{file}::{case.get('name', '').partition('[')[0]}", error.get("message", ""))


def read(report: Path) -> tuple[int, list[Complaint]]:
    """Return the number of tests that passed, and the errors of the others."""
    cases = list(ElementTree.parse(report).iter("testcase"))
    errors = [(case, error) for case in cases for kind in ("failure", "error") for error in case.iter(kind)]
    failed = {id(case) for case, _error in errors}
    passed = [case for case in cases if id(case) not in failed and case.find("skipped") is None]
    return len(passed), [complaint(case, error) for case, error in errors]


# Its tests give a key of their own, so that the proxy would refuse them.
@pytest.mark.parametrize("server", ["vllm", "harmony", "parsers"])
def test_openais_own_tests_pass_but_for_known_deviations(servers: Servers, tmp_path: Path, server: str) -> None:
    at, report = servers[server], tmp_path / "report.xml"
    pytest_: tuple[str, ...] = ("-m", "pytest", *(f"{TESTS}/{file}" for file in FILES), f"--junitxml={report}")
    own: t.Mapping[str, str] = {"addopts": "", "filterwarnings": "default", "cache_dir": str(tmp_path / "cache")}
    overridden = [word for name, value in own.items() for word in ("--override-ini", f"{name}={value}")]
    environment = {**at.environment(tmp_path), "TEST_API_BASE_URL": f"{at.url}/v1"}
    done = packages.call("python", *pytest_, *overridden, cwd=packages.source("openai"), env=environment)
    assert report.is_file(), done.stdout[-3000:] + done.stderr[-3000:]
    passed, found = read(report)
    assert passed > 100
    assert unexplained(found, KNOWN) == ([], [])

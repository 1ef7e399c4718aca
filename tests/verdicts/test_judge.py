# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The judge of the option check, with the parser and the configuration of each release that is asked."""

from __future__ import annotations

import functools
import typing as t

import pytest

from tests.verdicts.configurations import CASES, case_request, write
from tests.verdicts.environments import RELEASES, ask


@pytest.fixture(name="answers", scope="module")
def fixture_answers(tmp_path_factory: pytest.TempPathFactory) -> t.Callable[[str], list[dict[str, t.Any]]]:
    directory = tmp_path_factory.mktemp("models")
    write(directory)
    (directory / "empty").mkdir()
    empty = {"target": str(directory / "empty"), "draft": "", "sparks": 1, "environment": {}}
    requests = [*(case_request(case, directory) for case in CASES), {"options": {}, "models": empty}]
    return functools.cache(lambda release: ask(release, requests))


@pytest.mark.parametrize("number", range(len(CASES)), ids=[str(case["refusal"] or "accepted")[:40] for case in CASES])
@pytest.mark.parametrize("release", RELEASES)
def test_it_says_what_the_release_says(
    answers: t.Callable[[str], list[dict[str, t.Any]]], release: str, number: int
) -> None:
    answer, refusal = answers(release)[number], CASES[number]["refusal"]
    assert (answer["available"], answer["with_models"]) == (True, "target" in CASES[number]), answer
    assert answer["version"].startswith(release)
    assert answer["accepted"] is (refusal is None), answer
    assert (refusal or "") in (answer["error"] or "")


@pytest.mark.parametrize("release", RELEASES)
def test_models_without_files_are_no_refusal(answers: t.Callable[[str], list[dict[str, t.Any]]], release: str) -> None:
    answer = answers(release)[-1]
    assert (answer["accepted"], answer["with_models"]) == (True, False), answer
    assert answer["without_models"]

# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whether the shipped playbooks still make of a Spark what is written down."""

from __future__ import annotations

import pytest

from tests.golden.__main__ import difference
from tests.golden.stories import EXPECTED, STORIES, Case, tell

CASES = [(story, case) for story, chains in STORIES.items() for chain in chains.values() for case in chain]


@pytest.fixture(name="told", scope="session")
def fixture_told(request: pytest.FixtureRequest) -> dict[Case, str]:
    said: dict[Case, str] = {}
    tell(request.param, said.__setitem__)
    return said


@pytest.mark.parametrize(
    ("told", "case"),
    [pytest.param(*each, id=f"{each[0]}-{each[1].name}") for each in CASES],
    indirect=["told"],
)
def test_what_becomes_of_a_spark_is_as_written_down(told: dict[Case, str], case: Case) -> None:
    found = difference(case, told[case])
    if found:
        pytest.fail(f"{found}\n\nIf it is meant: python -m tests.golden --record", pytrace=False)


def test_every_file_belongs_to_a_case() -> None:
    assert {path.name for path in EXPECTED.iterdir()} == {case.expected.name for _, case in CASES}

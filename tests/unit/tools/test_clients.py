# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The page lists each client that is tried, and each difference of vLLM that is not due to the tests."""

from __future__ import annotations

from tests.engines.conversations import PARTS
from tools import clients

# The second one runs the own tests of openai.
JUDGES = {"llm-comply", "pytest-asyncio", "schemathesis"}


def test_each_pinned_package_is_a_client_or_a_judge() -> None:
    assert set(clients.versions()) == {*clients.PACKAGES.values(), *JUDGES}


def test_each_part_belongs_to_a_client() -> None:
    assert {part.__name__.partition("_")[0] for part in PARTS} == set(clients.PACKAGES)


def test_what_is_tried_follows_from_the_parts() -> None:
    assert dict(row[::2] for row in clients.packages())["`llm`"] == "chat, stream, tool call"


def test_differences_that_are_due_to_the_tests_are_left_out() -> None:
    sentences = [sentence for _route, sentence in clients.deviations()]
    assert sentences
    assert not [sentence for sentence in sentences if "test" in sentence]

# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from pathlib import Path

import pytest

from tests.pair import Node

RECIPE = str(Path(__file__).with_name("four_sparks.yml"))


class Quarter(Node):
    """One of the four."""

    name, url, model = "four_sparks", "http://127.0.0.1:8000/v1", "gpt-oss-20b"


@pytest.fixture(scope="session")
def nodes() -> list[Node]:
    """The four, the head first."""
    return [Quarter(number) for number in (1, 2, 3, 4)]


@pytest.fixture(scope="session")
def recipe() -> dict[str, str]:
    """What is served on all of them: no shipped recipe is for more than two."""
    return {"recipe": RECIPE}

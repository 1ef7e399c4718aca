# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest

from tests import playbook
from tests.first_light import Rank, variables

pytest_plugins = ["tests.scenario"]

NAME = "first_light_two"


@pytest.fixture(scope="session")
def head() -> Rank:
    return Rank(1, NAME)


@pytest.fixture(scope="session")
def worker() -> Rank:
    return Rank(2, NAME)


@pytest.fixture(scope="session", autouse=True)
def begin(new_sparks: t.Callable[..., None]) -> None:
    """With the real vLLM, CPU build, on two Sparks that serve as one."""
    new_sparks(2, "--vllm")
    playbook.succeed("serve", variables=variables(NAME))

# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest

from tests import playbook
from tests.first_light import Rank, variables

NAME = "first_light_four"


@pytest.fixture(scope="session")
def nodes(new_sparks: t.Callable[..., None]) -> list[Rank]:
    """Four Sparks that serve as one with the real vLLM, the head first."""
    new_sparks(4, "--vllm")
    playbook.succeed("serve", variables=variables(NAME))
    return [Rank(number, NAME) for number in (1, 2, 3, 4)]

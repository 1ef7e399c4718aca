# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest

from tests import playbook
from tests.pair import head, worker

__all__ = ["head", "worker"]


@pytest.fixture(scope="session", autouse=True)
def begin(new_sparks: t.Callable[..., None]) -> None:
    """With two Sparks of which the first has served alone before they serve as one."""
    new_sparks(2)
    playbook.succeed("single_eagle3", "--limit", "spark-1")
    playbook.succeed("two_sparks")

# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest

pytest_plugins = ["tests.scenario"]


@pytest.fixture(scope="session", autouse=True)
def begin(new_sparks: t.Callable[..., None]) -> None:
    """With a bare Spark, and the real vLLM in the registry."""
    new_sparks(1, "--vllm")

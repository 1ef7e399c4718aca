# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the scenarios' tests share."""

from __future__ import annotations

import typing as t

import pytest

from tests.twin.control import Internet, Spark


@pytest.fixture(scope="session")
def spark() -> Spark:
    return Spark()


@pytest.fixture
def internet() -> t.Iterator[Internet]:
    """The twin's internet, well behaved and with nothing counted before and well behaved again after the test."""
    internet = Internet()
    internet.clear_faults()
    internet.reset_counters()
    yield internet
    internet.clear_faults()

# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from pathlib import Path

import pytest

from tests.exposed import neighbour
from tests.twin.control import Spark
from tests.twin.names import STATE

__all__ = ["neighbour"]


@pytest.fixture(scope="session")
def authority() -> Path:
    """Where the run has put the authority's certificate."""
    return STATE / "authority.crt"


@pytest.fixture(scope="session")
def spark() -> Spark:
    return Spark()

# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from tests.deployed import deployed
from tests.pair import head, worker

# Each file begins with Sparks of its own: one alone, and two.
__all__ = ["deployed", "head", "worker"]

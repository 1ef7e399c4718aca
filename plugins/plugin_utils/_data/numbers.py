# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this plugin util is internal to the collection; its interface may change at any time.

"""Numbers in options and inputs."""

from __future__ import annotations

import typing as t

# A larger number is a mistake.
MAX_INT = 2**63 - 1


def positive_int(value: t.Any) -> int | None:
    """Return a positive whole number, or None."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value <= MAX_INT else None


def too_large(value: t.Any) -> bool:
    return isinstance(value, int) and value > MAX_INT

# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this module util is internal to the collection; its interface may change at any time.

"""Check numbers in options, inputs and the answers of others."""

from __future__ import annotations

import typing as t

# A larger number is a mistake.
MAX_INT = 2**63 - 1


def is_number(value: t.Any) -> t.TypeGuard[float]:
    """Return whether this is a number. For Python a boolean is one, too."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def is_whole(value: t.Any) -> t.TypeGuard[int]:
    """Return whether this is a whole number."""
    return isinstance(value, int) and not isinstance(value, bool)


def natural_int(value: t.Any) -> int | None:
    """Return a whole number that may be 0, or None."""
    return value if is_whole(value) and 0 <= value <= MAX_INT else None


def positive_int(value: t.Any) -> int | None:
    """Return a positive whole number, or None."""
    return natural_int(value) or None


def too_large(value: t.Any) -> bool:
    return isinstance(value, int) and value > MAX_INT

# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this plugin util is internal to the collection; its interface may change at any time.
"""Write counts and lists in words."""

from __future__ import annotations

import typing as t

from ...module_utils._data.text import join_words

COUNTS = {1: "one", 2: "two", 3: "three", 4: "four"}
SHARES = {1: "all", 2: "half", 3: "a third", 4: "a quarter"}


def count(many: int) -> str:
    return COUNTS.get(many, str(many))


def fraction_words(many: int) -> str:
    """Return the fraction that each of so many has, in words."""
    return SHARES.get(many, f"one part in {many}")


def group_by_value(told: t.Iterable[tuple[str, str]]) -> str:
    """Return values with the names that share each: a and b have 1, c has 2."""
    groups: dict[str, list[str]] = {}
    for name, value in told:
        groups.setdefault(value, []).append(name)
    return join_words(
        f"{join_words(group)} {'have' if len(group) > 1 else 'has'} {value}" for value, group in groups.items()
    )

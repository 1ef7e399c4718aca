# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this plugin util is internal to the collection; its interface may change at any time.

"""Read the key draft_length of a report's points and of its verdict.

0 is without speculation.
"""

from __future__ import annotations

import typing as t

Point = t.Mapping[str, t.Any]


def drafts(point: Point) -> int:
    """Return the draft length, which every point has."""
    return int(point["draft_length"])


def label(drafted: int) -> str:
    """As people give it, and read it in a table."""
    return str(drafted) if drafted else "off"


def called(drafted: int) -> str:
    """As it stands in a sentence."""
    return f"draft length {drafted}" if drafted else "without speculation"


def drafting(points: t.Iterable[Point]) -> list[Point]:
    """Return the points with speculation."""
    return [point for point in points if drafts(point)]


def measured(points: t.Iterable[Point]) -> list[Point]:
    """Return the points with a speed."""
    return [point for point in points if point.get("tokens_per_second")]


def without_drafts(points: t.Iterable[Point]) -> Point | None:
    """Return the one that the others are compared with, if it was asked for."""
    return next((point for point in points if not drafts(point)), None)


def fastest_drafting(points: t.Iterable[Point]) -> Point | None:
    """Return the fastest of the points with speculation, by speed-up if that is known."""

    def order(point: Point) -> tuple[float, float]:
        return ((point.get("speedup") or {}).get("mean") or 0, point["tokens_per_second"]["mean"])

    return max(measured(drafting(points)), key=order, default=None)

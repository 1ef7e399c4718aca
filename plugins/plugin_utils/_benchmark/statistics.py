# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this plugin util is internal to the collection; its interface may change at any time.

"""Means with 95 % intervals by Student's t distribution, in pure Python."""

from __future__ import annotations

import math
import statistics
import typing as t

# Halvings of an interval of angles down to the precision of a float.
_HALVINGS = 60
_CONFIDENCE = 0.95


class Figure(t.TypedDict):
    """A mean with its interval; the interval is unknown (None) for less than two values."""

    mean: float
    low: float | None
    high: float | None
    n: int


def _central(angle: float, degrees: int) -> float:
    """Return the chance of |t| < sqrt(degrees) tan(angle): a finite series for whole degrees.

    Source: Abramowitz, Stegun 26.7.
    """
    sine, cosine = math.sin(angle), math.cos(angle)
    odd = degrees % 2
    term = total = cosine if odd else 1.0
    for divisor in range(2 + odd, degrees - 1, 2):
        term *= cosine * cosine * (divisor - 1) / divisor
        total += term
    if not odd:
        return sine * total
    return 2 / math.pi * (angle + (sine * total if degrees > 1 else 0.0))


def t_975(degrees: int) -> float:
    """Return the 97.5 % quantile of Student's t distribution: 95 % lie between it and its negative."""
    low, high = 0.0, math.pi / 2
    for _halving in range(_HALVINGS):
        middle = (low + high) / 2
        if _central(middle, degrees) < _CONFIDENCE:
            low = middle
        else:
            high = middle
    return math.sqrt(degrees) * math.tan((low + high) / 2)


def mean(values: t.Sequence[float]) -> Figure | None:
    """Return the mean and its 95 % interval; None without values."""
    n = len(values)
    if not n:
        return None
    middle = statistics.fmean(values)
    if n == 1:
        return Figure(mean=middle, low=None, high=None, n=n)
    reach = t_975(n - 1) * statistics.stdev(values) / math.sqrt(n)
    return Figure(mean=middle, low=middle - reach, high=middle + reach, n=n)


def ratio(new: t.Sequence[float], old: t.Sequence[float]) -> Figure | None:
    """By which factor the new values exceed the old ones, in pairs: geometric mean, interval on logarithms."""
    result = mean([math.log(after / before) for after, before in zip(new, old, strict=True)])
    if result is None:
        return None
    low, high = result["low"], result["high"]
    return Figure(
        mean=math.exp(result["mean"]),
        low=None if low is None else math.exp(low),
        high=None if high is None else math.exp(high),
        n=result["n"],
    )

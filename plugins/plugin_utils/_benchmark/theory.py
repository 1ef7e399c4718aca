# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this plugin util is internal to the collection; its interface may change at any time.

"""Compute the expected gain of speculation, and the speed limit by a Spark's memory bandwidth.

If each drafted token is accepted with probability a, a pass that verifies k of them yields E(a, k) = 1 + a + ... + a^k
tokens. At batch 1 the time of a pass is that of reading the weights, and a constant part (t0):
t_pass = t0 + bytes / bandwidth.
"""

from __future__ import annotations

import typing as t

from ...module_utils._deployment.break_even import Bounds, break_even
from .._recipe.text import count, fraction_words

# Of a Spark's LPDDR5x, by its data sheet; and what is reached in practice.
BANDWIDTH_GB_S = 273.0
REACHABLE_GB_S = 192.0
# Below this share of the bound most of a pass is not reading.
_FAR_BELOW = 0.5
_HALVINGS = 60
_NUMBERS = ("draft_cost", "expert_share", "experts", "active_experts")


class Theory(t.TypedDict):
    """Acceptance of one draft length: by the curve of all lengths, and what it takes to pay."""

    a: float
    expected_length: float
    break_even_best: float | None
    break_even_worst: float | None


class Bound(t.TypedDict):
    """The fastest that is possible without speculation, and how far the measurement is from it."""

    target_gb: float
    bandwidth_gb_s: float
    ceiling_tokens_per_second: float
    share_of_ceiling: float | None
    overhead_ms: float | None
    assumptions: list[str]
    note: str | None


def expected_length(acceptance: float, drafts: float) -> float:
    """E(a, k): tokens that a pass over k drafted tokens makes on average."""
    # Nearer to one, the quotient is only rounding errors.
    return drafts + 1 if acceptance > 1 - 1e-9 else (1 - acceptance ** (drafts + 1)) / (1 - acceptance)


def fit_acceptance(lengths: t.Mapping[int, float]) -> float | None:
    """Return the chance of acceptance whose curve fits acceptance lengths by draft length; None if there are none.

    It is the one with the same sum of lengths, which is unique, since each length grows with it.
    """
    if not lengths:
        return None
    measured = sum(lengths.values())
    low, high = 0.0, 1.0
    for _halving in range(_HALVINGS):
        middle = (low + high) / 2
        if sum(expected_length(middle, drafts) for drafts in lengths) < measured:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def bounds(drafts: int, roofline: t.Mapping[str, t.Any] | None) -> Bounds | None:
    """Return the break-even acceptance lengths; None if the costs are unknown."""
    if not roofline or roofline.get("draft_cost") is None:
        return None
    return break_even(drafts, **{name: roofline[name] for name in _NUMBERS if roofline.get(name) is not None})


def theory(acceptance: float, drafts: int, roofline: t.Mapping[str, t.Any] | None) -> Theory:
    """Return the prediction of theory for a draft length."""
    cost = bounds(drafts, roofline)
    return Theory(
        a=acceptance,
        expected_length=expected_length(acceptance, drafts),
        break_even_best=cost.best if cost else None,
        break_even_worst=cost.worst if cost else None,
    )


def _assumptions(gigabytes: float, sparks: int) -> list[str]:
    bandwidth = sparks * BANDWIDTH_GB_S
    reachable = sparks * REACHABLE_GB_S
    each = f" on each of the {count(sparks)} Sparks, {fraction_words(sparks)} of the weights each" if sparks > 1 else ""
    result = [
        f"A token reads {gigabytes:.2f} GB: every weight it needs is read once, in the format of the checkpoint.",
        "One answer is made at a time, and its context is short, so the KV cache does not count.",
        f"Memory delivers its nominal {BANDWIDTH_GB_S:.0f} GB/s{each}; in practice about {REACHABLE_GB_S:.0f} GB/s are "
        f"reached, which allows {reachable / gigabytes:.1f} tokens/s instead of {bandwidth / gigabytes:.1f}.",
        "Nothing but reading takes time.",
    ]
    if sparks > 1:
        result.append("The link between the Sparks costs nothing, although each layer waits for it twice.")
    return result


def _note(share: float | None, overhead_ms: float | None, pass_ms: float | None) -> str | None:
    if share is None:
        return "It was not measured without speculation, so nothing can be compared with the bound."
    if share > 1:
        return (
            f"The speed without speculation is {100 * share:.0f} % of the bound, so one of the assumptions does not "
            "hold; most likely weights are read in fewer bits than those of the checkpoint."
        )
    if share < _FAR_BELOW and overhead_ms is not None and pass_ms is not None:
        return (
            f"Of the {pass_ms:.1f} ms that a pass takes, {overhead_ms:.1f} ms are no reading of weights at the nominal "
            "bandwidth. All tokens of a pass share what is fixed in that, so drafts can bring more here than what they "
            "read lets expect."
        )
    return None


def bound(roofline: t.Mapping[str, t.Any] | None, sparks: int, tokens_per_second: float | None) -> Bound | None:
    """Return the bound of the speed without speculation and the measured one; None without the bytes per token."""
    gigabytes = (roofline or {}).get("target_gb")
    if not gigabytes:
        return None
    bandwidth = sparks * BANDWIDTH_GB_S
    reading = gigabytes / bandwidth
    share = tokens_per_second * reading if tokens_per_second else None
    pass_ms = 1000 / tokens_per_second if tokens_per_second else None
    # A pass that is faster than reading has no fixed part that could be known.
    overhead_ms = pass_ms - 1000 * reading if pass_ms is not None and pass_ms >= 1000 * reading else None
    return Bound(
        target_gb=gigabytes,
        bandwidth_gb_s=bandwidth,
        ceiling_tokens_per_second=1 / reading,
        share_of_ceiling=share,
        overhead_ms=overhead_ms,
        assumptions=_assumptions(gigabytes, sparks),
        note=_note(share, overhead_ms, pass_ms),
    )

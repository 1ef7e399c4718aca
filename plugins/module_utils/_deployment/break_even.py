# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this module util is internal to the collection; its interface may change at any time.

"""Compute the acceptance length from which speculation pays.

At batch 1 a pass costs the bytes that it reads from memory. A pass that verifies k drafted tokens yields the acceptance
length in tokens, and costs g + k c passes of the target model alone. c is the cost of a drafted token as a fraction of
a pass. g is 1 for a dense model, and more for a mixture of experts, because k + 1 tokens use more experts than one.
"""

from __future__ import annotations

import typing as t

NUMBERS = {"draft_cost": float, "expert_share": float, "experts": int, "active_experts": int}
# Only for the bound of a benchmark.
UNUSED = ("target_gb",)
# Tokens a pass below which drafts hardly pay: a pass that checks them takes longer.
LITTLE = 1.5


class Bounds(t.NamedTuple):
    """Break-even acceptance lengths: if all tokens share their experts, and if each takes its own at random."""

    best: float
    worst: float


def distinct_experts(tokens: int, experts: int, active_experts: int) -> float:
    """Return the expected number of experts of a layer that these tokens use, if each chooses independently."""
    return experts * (1 - (1 - active_experts / experts) ** tokens)


def break_even(
    length: int,
    draft_cost: float,
    expert_share: float = 0,
    experts: int = 0,
    active_experts: int = 0,
) -> Bounds:
    """Return the bounds for a draft length.

    draft_cost is what one draft step reads, expert_share what the experts make up, both as a share of what one pass of
    the target model reads for one token. A dense model has no experts.
    """
    if length < 1:
        raise ValueError(f"the draft length is {length}, but must be at least 1")
    if not 0 <= draft_cost < float("inf"):
        raise ValueError(f"draft_cost is {draft_cost}, but must be a number that is not negative")
    if not 0 <= expert_share <= 1:
        raise ValueError(f"expert_share is {expert_share}, but must lie between 0 and 1")
    if expert_share and not 0 < active_experts <= experts:
        raise ValueError(f"active_experts is {active_experts}, but must lie between 1 and experts ({experts})")
    drafts = length * draft_cost
    growth = distinct_experts(length + 1, experts, active_experts) / active_experts if expert_share else 1
    return Bounds(best=1 + drafts, worst=expert_share * growth + (1 - expert_share) + drafts)


def bounds_from(length: int, figures: t.Mapping[str, t.Any] | None) -> dict[str, float] | None:
    """Return the bounds from figures of a recipe or a user; None without speculation or figures."""
    if not figures or not length:
        return None
    unknown = sorted(set(figures) - {*NUMBERS, *UNUSED})
    if "draft_cost" not in figures or unknown:
        wrong = f"{', '.join(unknown)} is not known" if unknown else "draft_cost is missing"
        raise ValueError(f"{wrong}; the figures are {', '.join(NUMBERS)}")
    numbers: dict[str, t.Any] = {name: NUMBERS[name](value) for name, value in figures.items() if name in NUMBERS}
    bounds = break_even(length, **numbers)
    return {"best": round(bounds.best, 2), "worst": round(bounds.worst, 2)}


def little(acceptance_length: float | None) -> str | None:
    """Return a sentence if drafts bring little, where nothing is known of what they cost; else None."""
    if acceptance_length is None or acceptance_length >= LITTLE:
        return None
    return (
        f"Drafts bring little here: with acceptance length {acceptance_length:.2f}, speculation is at most "
        f"{acceptance_length:.2f} times as fast. Compare the speed with that of -e speculation=off."
    )


def verdict(acceptance_length: float | None, bounds: Bounds) -> str | None:
    """Return a sentence if speculation may not pay off; None if it does or if the acceptance length is unknown."""
    if acceptance_length is None or acceptance_length >= bounds.worst:
        return None
    if acceptance_length < bounds.best:
        return (
            f"Speculation costs more than it brings here (acceptance length {acceptance_length:.2f}, "
            f"break-even {bounds.best:.2f}): try a smaller speculative_serve_draft_length, or "
            "-e speculation=off."
        )
    return (
        f"Speculation may or may not pay here (acceptance length {acceptance_length:.2f}): break-even lies between "
        f"{bounds.best:.2f} and {bounds.worst:.2f}; compare the speed with that of -e speculation=off."
    )

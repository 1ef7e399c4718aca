# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.dgx_spark.speculative.plugins.module_utils._deployment.break_even import (
    Bounds,
    bounds_from,
    break_even,
    distinct_experts,
    verdict,
)

# Bytes that one token reads, in GB: 36 layers of 4 MXFP4 experts (3 matrices of 2880 by 2880, 4.25 bits a weight),
# attention and head at 16 bit; a draft step reads the draft head and the shared language model head.
EXPERTS = 36 * 4 * 3 * 2880**2 * 4.25 / 8 / 1e9
HEAD = 201_088 * 2880 * 2 / 1e9
GPT_OSS = {"draft_cost": 0.318, "expert_share": 0.381, "experts": 128, "active_experts": 4}


def test_the_shares_of_gpt_oss_come_from_its_sizes() -> None:
    assert pytest.approx(GPT_OSS["expert_share"], abs=0.0005) == EXPERTS / 5.00
    assert pytest.approx(GPT_OSS["draft_cost"], abs=0.0005) == (0.431 + HEAD) / 5.00


@pytest.mark.parametrize(
    ("draft_length", "experts", "worst", "best"),
    [(1, 7.9, 1.69, 1.32), (2, 11.6, 2.36, 1.64), (3, 15.3, 3.03, 1.95), (5, 22.2, 4.32, 2.59), (8, 31.8, 6.19, 3.54)],
)
def test_gpt_oss_with_eagle3(draft_length: int, experts: float, worst: float, best: float) -> None:
    assert distinct_experts(draft_length + 1, 128, 4) == pytest.approx(experts, abs=0.05)
    bounds = break_even(draft_length, 0.318, 0.381, 128, 4)
    assert (round(bounds.worst, 2), round(bounds.best, 2)) == (worst, best)


def test_a_dense_model_has_one_bound() -> None:
    assert break_even(3, 0.123) == pytest.approx((1.369, 1.369))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((0, 0.1), "the draft length is 0"),
        ((1, -0.1), "draft_cost is -0.1"),
        ((1, 0.1, 1.5), "expert_share is 1.5"),
        ((1, 0.1, 0.5), "active_experts is 0"),
        ((1, 0.1, 0.5, 4, 8), "must lie between 1 and experts"),
    ],
)
def test_nonsense_is_refused(arguments: tuple[float, ...], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        break_even(*arguments)  # type: ignore[arg-type]


def test_the_verdict() -> None:
    bounds = Bounds(2.59, 4.32)
    assert verdict(2.1, bounds) == (
        "Speculation costs more than it brings here (acceptance length 2.10, break-even 2.59): "
        "try a smaller speculative_serve_draft_length, or -e speculation=off."
    )
    assert verdict(2.81, bounds) == (
        "Speculation may or may not pay here (acceptance length 2.81): break-even lies between 2.59 and 4.32"
        "; compare the speed with that of -e speculation=off."
    )
    assert verdict(4.32, bounds) is None
    assert verdict(None, bounds) is None


def test_figures_from_templates_are_strings() -> None:
    assert bounds_from(5, {name: str(value) for name, value in GPT_OSS.items()}) == {"best": 2.59, "worst": 4.32}
    assert bounds_from(5, {"draft_cost": 0.1, "target_gb": 2}) == {"best": 1.5, "worst": 1.5}


@pytest.mark.parametrize(("draft_length", "figures"), [(0, GPT_OSS), (5, {}), (5, None)])
def test_without_drafts_or_figures_there_are_no_bounds(draft_length: int, figures: t.Any) -> None:
    assert bounds_from(draft_length, figures) is None


@pytest.mark.parametrize(
    ("figures", "words"),
    [
        ({"experts": 3}, "draft_cost is missing"),
        ({**GPT_OSS, "expert": 1}, "expert is not known"),
        ({**GPT_OSS, "draft_cost": "much"}, "could not convert"),
        ({**GPT_OSS, "active_experts": 500}, "active_experts is 500"),
        *(({"draft_cost": wrong}, "draft_cost is .*, but must be") for wrong in ("nan", "inf", -1)),
    ],
)
def test_figures_that_make_no_sense_are_named(figures: dict[str, t.Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        bounds_from(5, figures)

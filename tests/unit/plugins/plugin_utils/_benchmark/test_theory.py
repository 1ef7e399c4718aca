# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The worked tables that these functions have to give were computed by hand from the models' configurations."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.dgx_spark.speculative.plugins.module_utils._deployment.break_even import distinct_experts
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._benchmark import theory

from tests.unit.benchmark_results import ROOFLINE

# The tables name 0.123, and 0.14 for Qwen3; they were computed before rounding.
LLAMA = {"draft_cost": 0.1225, "target_gb": 40.6}
QWEN3 = {"draft_cost": 0.143, "expert_share": 0.61, "experts": 128, "active_experts": 8}


def rounded(values: t.Iterable[float], digits: int = 2) -> list[float]:
    return [round(value, digits) for value in values]


def speedup(acceptance: float, draft_length: int, roofline: dict[str, t.Any], case: str) -> float:
    cost = theory.bounds(draft_length, roofline)
    assert cost is not None
    return theory.expected_length(acceptance, draft_length) / getattr(cost, case)


@pytest.mark.parametrize(
    ("draft_length", "lengths"),
    [
        (1, [1.30, 1.50, 1.60, 1.70, 1.80, 1.90]),
        (2, [1.39, 1.75, 1.96, 2.19, 2.44, 2.71]),
        (3, [1.42, 1.88, 2.18, 2.53, 2.95, 3.44]),
        (4, [1.43, 1.94, 2.31, 2.77, 3.36, 4.10]),
        (8, [1.43, 2.00, 2.47, 3.20, 4.33, 6.13]),
    ],
)
def test_expected_lengths(draft_length: int, lengths: list[float]) -> None:
    found = [theory.expected_length(acceptance, draft_length) for acceptance in (0.3, 0.5, 0.6, 0.7, 0.8, 0.9)]
    assert rounded(found) == lengths


def test_ends_of_the_curve() -> None:
    assert theory.expected_length(0.0, 5) == 1
    assert theory.expected_length(1.0, 5) == 6
    assert theory.expected_length(0.7, 0) == 1


@pytest.mark.parametrize(
    ("draft_length", "speedups"),
    [
        (1, [1.34, 1.43, 1.51, 1.60, 1.69]),
        (2, [1.41, 1.57, 1.76, 1.96, 2.18]),
        (3, [1.37, 1.59, 1.85, 2.16, 2.51]),
        (4, [1.30, 1.55, 1.86, 2.26, 2.75]),
        (8, [1.01, 1.25, 1.62, 2.19, 3.09]),
    ],
)
def test_speedups_of_a_dense_model(draft_length: int, speedups: list[float]) -> None:
    found = [speedup(acceptance, draft_length, LLAMA, "best") for acceptance in (0.5, 0.6, 0.7, 0.8, 0.9)]
    assert rounded(found) == speedups
    assert found == [speedup(acceptance, draft_length, LLAMA, "worst") for acceptance in (0.5, 0.6, 0.7, 0.8, 0.9)]


@pytest.mark.parametrize(
    ("draft_length", "experts", "worst", "best", "worst_speedups", "best_speedups"),
    [
        (1, 7.9, 1.69, 1.32, [1.01, 1.07, 1.13], [1.29, 1.37]),
        (2, 11.6, 2.36, 1.64, [0.93, 1.03, 1.15], []),
        (3, 15.3, 3.03, 1.95, [0.84, 0.98, 1.14], [1.30, 1.51]),
        (5, 22.2, 4.32, 2.59, [0.68, 0.85, 1.08], [1.14, 1.42]),
        (8, 31.8, 6.19, 3.54, [0.52, 0.70, 0.99], []),
    ],
)
def test_a_mixture_of_experts(
    draft_length: int,
    experts: float,
    worst: float,
    best: float,
    worst_speedups: list[float],
    best_speedups: list[float],
) -> None:
    assert rounded([distinct_experts(draft_length + 1, 128, 4)], 1) == [experts]
    cost = theory.bounds(draft_length, ROOFLINE)
    assert cost is not None
    assert rounded(cost) == [best, worst]
    assert rounded(speedup(each, draft_length, ROOFLINE, "worst") for each in (0.7, 0.8, 0.9)) == worst_speedups
    found = rounded(speedup(each, draft_length, ROOFLINE, "best") for each in (0.7, 0.8))
    assert found[: len(best_speedups)] == best_speedups


def test_break_even_of_two_sparks() -> None:
    cost = theory.bounds(3, QWEN3)
    assert cost is not None
    assert rounded(cost) == [1.43, 3.04]


@pytest.mark.parametrize(
    ("gigabytes", "sparks", "ceiling", "reported", "share"),
    [
        (5.00, 1, 54.6, 58.8, 1.08),
        (5.00, 2, 109, None, None),
        (40.6, 1, 6.72, None, None),
        (13.1, 2, 41.7, 11.7, 0.28),
    ],
)
def test_the_bound_of_a_model(
    gigabytes: float, sparks: int, ceiling: float, reported: float | None, share: float | None
) -> None:
    found = theory.bound({"target_gb": gigabytes}, sparks, reported)
    assert found is not None
    assert found["bandwidth_gb_s"] == 273 * sparks
    assert found["ceiling_tokens_per_second"] == pytest.approx(ceiling, rel=0.005)
    assert found["share_of_ceiling"] == (None if share is None else pytest.approx(share, abs=0.0051))


def test_the_fixed_part_of_a_pass_is_what_reading_does_not_explain() -> None:
    fixed = 0.0042
    measured = 1 / (fixed + 5.0 / theory.BANDWIDTH_GB_S)
    found = theory.bound(ROOFLINE, 1, measured)
    assert found is not None
    assert found["overhead_ms"] == pytest.approx(4.2)
    assert found["note"] is None


def test_above_the_bound_is_a_note() -> None:
    found = theory.bound(ROOFLINE, 1, 58.8)
    assert found is not None
    assert found["overhead_ms"] is None
    assert found["note"] == (
        "The speed without speculation is 108 % of the bound, so one of the assumptions does not hold; most likely "
        "weights are read in fewer bits than those of the checkpoint."
    )


def test_far_below_the_bound_is_a_note() -> None:
    found = theory.bound({"target_gb": 13.1}, 2, 11.73)
    assert found is not None
    assert found["overhead_ms"] == pytest.approx(1000 / 11.73 - 1000 * 13.1 / 546)
    assert str(found["note"]).startswith("Of the 85.3 ms that a pass takes, 61.3 ms are no reading of weights")


def test_nothing_to_compare_with_the_bound() -> None:
    found = theory.bound(ROOFLINE, 1, None)
    assert found is not None
    assert found["share_of_ceiling"] is None
    assert found["overhead_ms"] is None
    assert "not measured without speculation" in str(found["note"])


@pytest.mark.parametrize("roofline", [None, {}, {"target_gb": None}, LLAMA | {"target_gb": None}])
def test_nobody_knows_what_a_token_reads(roofline: dict[str, t.Any] | None) -> None:
    assert theory.bound(roofline, 1, 50.0) is None


def test_assumptions_are_sentences_with_their_figures() -> None:
    one, two = theory.bound(ROOFLINE, 1, 50.0), theory.bound({"target_gb": 13.1}, 2, 11.7)
    assert one is not None
    assert two is not None
    for sentence in (*one["assumptions"], *two["assumptions"]):
        assert sentence[0].isupper()
        assert sentence.endswith(".")
    assert "A token reads 5.00 GB" in one["assumptions"][0]
    assert "about 192 GB/s are reached, which allows 38.4 tokens/s instead of 54.6" in one["assumptions"][2]
    assert "on each of the two Sparks, half of the weights each;" in two["assumptions"][2]
    four = theory.bound(ROOFLINE, 4, 50.0)
    assert four is not None
    assert "on each of the four Sparks, a quarter of the weights each;" in four["assumptions"][2]
    assert "instead of 41.7" in two["assumptions"][2]
    assert len(two["assumptions"]) == len(one["assumptions"]) + 1


@pytest.mark.parametrize("acceptance", [0.05, 0.5, 0.7, 0.93])
def test_the_chance_is_found_again(acceptance: float) -> None:
    lengths = {k: theory.expected_length(acceptance, k) for k in (1, 3, 8)}
    assert theory.fit_acceptance(lengths) == pytest.approx(acceptance)
    assert theory.fit_acceptance({3: lengths[3]}) == pytest.approx(acceptance)


def test_one_curve_through_lengths_that_no_chance_gives() -> None:
    # The third token is accepted less often than the first.
    fitted = theory.fit_acceptance({1: 1.75, 3: 2.3})
    assert fitted is not None
    assert theory.expected_length(fitted, 1) < 1.75
    assert theory.expected_length(fitted, 3) > 2.3
    assert theory.expected_length(fitted, 1) + theory.expected_length(fitted, 3) == pytest.approx(1.75 + 2.3)


def test_a_chance_is_a_chance() -> None:
    assert theory.fit_acceptance({}) is None
    assert theory.fit_acceptance({2: 0.9}) == pytest.approx(0)
    assert theory.fit_acceptance({2: 3.4}) == pytest.approx(1)


def test_theory_of_a_draft_length() -> None:
    assert theory.theory(0.7, 3, ROOFLINE) == pytest.approx(
        {"a": 0.7, "expected_length": 2.533, "break_even_best": 1.954, "break_even_worst": 3.03}, abs=0.01
    )
    dense = theory.theory(0.7, 3, LLAMA)
    assert dense["break_even_best"] == dense["break_even_worst"] == pytest.approx(1.3675)
    assert theory.theory(0.7, 3, None)["break_even_best"] is None
    assert theory.theory(0.7, 3, {"target_gb": 5.0})["break_even_worst"] is None

# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import random

import numpy as np
import pytest
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._benchmark.statistics import mean, ratio, t_975
from scipy import stats  # type: ignore[import-untyped]


def test_quantiles_are_those_of_scipy() -> None:
    degrees = [*range(1, 61), 99, 100, 479, 2500]
    ours = [t_975(each) for each in degrees]
    assert ours == pytest.approx([stats.t.ppf(0.975, each) for each in degrees], rel=1e-9)


@pytest.mark.parametrize("n", [2, 3, 5, 15, 200])
def test_the_mean_and_its_interval_are_those_of_scipy(n: int) -> None:
    luck = random.Random(n)
    values = [luck.gauss(50, 8) for _unused in range(n)]
    found = mean(values)
    low, high = stats.t.interval(0.95, n - 1, loc=np.mean(values), scale=stats.sem(values))
    assert found == pytest.approx({"mean": np.mean(values), "low": low, "high": high, "n": n})


def test_an_interval_needs_two_values() -> None:
    assert mean([]) is None
    assert mean([4.5]) == {"mean": 4.5, "low": None, "high": None, "n": 1}
    assert mean([4.5, 4.5]) == {"mean": 4.5, "low": 4.5, "high": 4.5, "n": 2}


@pytest.mark.parametrize("n", [2, 5, 40])
def test_the_ratio_is_paired_and_geometric(n: int) -> None:
    luck = random.Random(n)
    old = [luck.uniform(5, 90) for _unused in range(n)]
    new = [value * luck.gauss(1.4, 0.1) for value in old]
    found = ratio(new, old)
    test = stats.ttest_rel(np.log(new), np.log(old)).confidence_interval(0.95)
    expected = {"mean": stats.gmean(np.divide(new, old)), "low": np.exp(test.low), "high": np.exp(test.high), "n": n}
    assert found == pytest.approx(expected)


def test_a_ratio_of_few() -> None:
    assert ratio([], []) is None
    assert ratio([3.0], [2.0]) == pytest.approx({"mean": 1.5, "low": None, "high": None, "n": 1})
    with pytest.raises(ValueError, match="zip"):
        ratio([3.0], [2.0, 1.0])


def test_the_interval_holds_the_truth_19_times_of_20() -> None:
    luck = random.Random(6)
    trials = 2000
    held = 0
    for _trial in range(trials):
        found = mean([luck.gauss(20, 3) for _unused in range(6)])
        assert found is not None
        assert found["low"] is not None
        assert found["high"] is not None
        held += found["low"] <= 20 <= found["high"]
    assert held / trials == pytest.approx(0.95, abs=0.015)

# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._serving import memory_guard
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._serving.sizes import GIB, PlanError
from server.guard import Limits
from server.sampler import limits_from

RESERVE = 12 * GIB
USUAL = f"floor={4 * GIB} seconds=3"


@pytest.mark.parametrize(
    ("given", "reserve", "text"),
    [
        *(
            (word, RESERVE, USUAL)
            for word in (True, "true", "on", {}, {"floor_gib": 4}, {"floor_gib": "4", "seconds": 3.0})
        ),
        *((word, RESERVE, "off") for word in (False, "false", "off", "No")),
        ({"floor_gib": 2}, RESERVE, f"floor={2 * GIB} seconds=3"),
        ({"floor_gib": 6.5, "seconds": "4.5"}, RESERVE, f"floor={13 * GIB // 2} seconds=4.5"),
        # Where less is kept for everything else, the guard leaves as much of it as with the usual reserve.
        (True, 6 * GIB, f"floor={2 * GIB} seconds=3"),
        (True, 0, f"floor={GIB // 2} seconds=3"),
        (True, 40 * GIB, USUAL),
    ],
)
def test_what_the_container_is_told(given: t.Any, reserve: int, text: str) -> None:
    assert memory_guard.handed_over(given, reserve) == text


def test_the_container_understands_it() -> None:
    told = memory_guard.handed_over({"floor_gib": 6.5, "seconds": 4.5}, RESERVE)
    assert limits_from({"DGX_SPARK_GUARD": told}) == Limits(13 * GIB // 2, 4.5)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            "maybe",
            "speculative_serve_memory_guard is 'maybe', but must be true, false, or limits such as "
            "{floor_gib: 4, seconds: 3}.",
        ),
        (None, "speculative_serve_memory_guard is None, but must be true, false, or limits"),
        (7, "speculative_serve_memory_guard is 7, but must be"),
        (
            {"floor_gib": 13, "second": 1},
            "speculative_serve_memory_guard has no limit second, only floor_gib and seconds. "
            "speculative_serve_memory_guard.floor_gib is 13, but must be a number from 0.5 to 12, which is what "
            "speculative_serve_reserve_gib keeps free.",
        ),
        ({"floor_gib": True}, "floor_gib is True, but must be a number"),
        ({"seconds": "soon"}, "speculative_serve_memory_guard.seconds is 'soon', but must be a number from 1 to 30."),
        ({"seconds": float("nan")}, "must be a number from 1 to 30."),
        ({"seconds": 31}, "must be a number from 1 to 30."),
    ],
)
def test_what_is_no_limit_is_refused_in_one_sentence(given: t.Any, said: str) -> None:
    with pytest.raises(PlanError) as refused:
        memory_guard.handed_over(given, RESERVE)
    assert said in str(refused.value)

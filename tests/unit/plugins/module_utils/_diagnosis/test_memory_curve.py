# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import typing as t

import pytest
from ansible_collections.dgx_spark.speculative.plugins.module_utils._diagnosis import memory_curve
from server import guard, sampler

from tests.unit.roles.test_guard import CURVES

GIB = 2**30
BOOT = 1000.0
BEGIN = {"at": -9, "event": "loading", "available": 100 * GIB, "takes": 88 * GIB, "floor": 4 * GIB}


def log(name: str, until: float, *events: dict[str, t.Any], begin: dict[str, t.Any] = BEGIN) -> str:
    """A curve as the guard writes it, to some second."""
    curve = next(curve for curve in CURVES if curve.name == name)
    seconds = [number / 4 for number in range(1, int(until * 4) + 1)]
    lines = [begin, *events, *({"at": one, "available": int(curve.at(one) * GIB)} for one in seconds)]
    return "".join(json.dumps(line) + "\n" for line in sorted(lines, key=lambda line: line["at"]))


def test_a_freeze_is_told_with_the_plan_though_the_last_line_is_cut() -> None:
    said = "frozen while loading: memory fell from 29 to 2 GiB in 9 s"
    said += "; GiB in its last seconds: 29 29 29 26 23 20 17 14 11 8 5 2"
    said += "; 100 GiB were available before it, and the plan takes 88"
    text = log("collapse while loading", 14)
    for end in ("", '{"at": 14.2, "avail', "\0\0\0\n", "[]\n7\n"):
        assert memory_curve.froze(text + end, BOOT, None) == said
    assert memory_curve.froze(text, BOOT, 32768) == f"{said} with a context of 32,768 tokens"


def test_what_was_written_last_may_be_two_seconds_old() -> None:
    said = memory_curve.froze(log("collapse while loading", 12.5), BOOT, None)
    assert said
    assert "memory fell from 29 to 7 GiB in 8 s" in said
    assert memory_curve.froze(log("collapse while loading", 9), BOOT, None) is None


def test_a_guard_that_was_too_late_says_so_and_when_it_served() -> None:
    events = ({"at": 1, "event": "ready"}, {"at": 13, "event": "SIGKILL", "reason": "x"})
    said = memory_curve.froze(log("collapse while loading", 14, *events), BOOT, None)
    assert said
    assert said.startswith("frozen while serving: memory fell from 29 to 2 GiB in 9 s; the memory guard was too late;")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "nothing of ours",
        # It ended, in whatever way, or the container was stopped.
        log("collapse while loading", 14, {"at": 14.1, "event": "ended"}),
        # The power was cut.
        log("12 GiB after ready, of 24", 60),
        log("25 GB for a moment", 121),
        log("the driver says NV_ERR_NO_MEMORY", 60),
        # Another server has run since.
        log("collapse while loading", 14) + json.dumps({"at": 20, "event": "loading"}) + "\n",
    ],
)
def test_what_is_no_freeze(text: str) -> None:
    assert memory_curve.froze(text, BOOT, None) is None


def test_what_is_from_after_the_boot_is_no_freeze() -> None:
    text = log("collapse while loading", 14)
    assert memory_curve.froze(text, 5, None) is None
    assert memory_curve.froze(text, None, None) is None


def test_what_the_guard_writes_is_what_is_read_here() -> None:
    assert (memory_curve.STEEP, memory_curve.FALL_S) == (guard.STEEP, guard.FALL_S)
    assert memory_curve.WRITE_EVERY_S == sampler.WRITE_EVERY_S


def test_a_load_before_the_fall_is_hardly_part_of_it() -> None:
    loading = [(second / 2, int((100 - second / 2) * GIB)) for second in range(142)]
    falling = [(71 + second / 4, int((29 - second / 4 * 2.95) * GIB)) for second in range(1, 37)]
    top, low, seconds = memory_curve.fall(loading + falling)
    assert (round(top / GIB), round(low / GIB), round(seconds)) == (32, 2, 12)


def test_what_the_memory_did_before_a_server_was_ended_though_another_one_runs() -> None:
    text = log("collapse while loading", 12, {"at": 12.1, "event": "SIGKILL", "reason": "x"})
    text += "".join(
        json.dumps({"at": second, **values}) + "\n"
        for second, values in ((13, {"event": "ended"}), (14, {**BEGIN, "at": 14}), (15, {"available": 90 * GIB}))
    )
    assert memory_curve.guarded("memory fell", text, 1024) == (
        "memory fell; GiB in its last seconds: 29 29 29 29 29 26 23 20 17 14 11 8; 100 GiB were available before it, "
        "and the plan takes 88 with a context of 1,024 tokens"
    )
    assert memory_curve.guarded("memory fell", "", None) == "memory fell"

# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this plugin util is internal to the collection; its interface may change at any time.

"""Read the limits of the memory guard from the input speculative_serve_memory_guard."""

from __future__ import annotations

import typing as t

from .sizes import GIB, PlanError, parse_number

ON, OFF = ("true", "on", "yes"), ("false", "off", "no")
# A Spark has frozen with 2.5 GiB left, and a killed engine takes on for a second: hence 4 GiB.
FLOOR_GIB, SECONDS = 4.0, 3.0
# A guard that keeps nothing free or looks no second ahead is none.
LEAST = {"floor_gib": 0.5, "seconds": 1.0}
MOST_SECONDS = 30.0
# Default limit of the memory guard, as a share of the memory reserved for the system.
SHARE = FLOOR_GIB / 12


def problems(limits: t.Mapping[str, t.Any], reserve: int) -> list[str]:
    """Return the problems of limits; reserve is in bytes."""
    unknown = [str(name) for name in limits if name not in LEAST]
    result = (
        [f"speculative_serve_memory_guard has no limit {', '.join(unknown)}, only {' and '.join(LEAST)}."]
        if unknown
        else []
    )
    # A server that is planned to land below the floor would be ended as soon as it has loaded.
    most = {"floor_gib": max(reserve / GIB, LEAST["floor_gib"]), "seconds": MOST_SECONDS}
    kept = {"floor_gib": ", which is what speculative_serve_reserve_gib keeps free", "seconds": ""}
    for name in (name for name in LEAST if name in limits):
        given = parse_number(limits[name])
        if given is None or not LEAST[name] <= given <= most[name]:
            result.append(
                f"speculative_serve_memory_guard.{name} is {limits[name]!r}, but must be a number from "
                f"{LEAST[name]:g} to {most[name]:g}{kept[name]}."
            )
    return result


def handed_over(given: t.Any, reserve: int) -> str:
    """Return the limits for the container's environment; raise PlanError with all problems."""
    limits: t.Mapping[str, t.Any] = given if isinstance(given, dict) else {}
    if not isinstance(given, dict):
        word = str(given).strip().lower()
        if word in OFF:
            return "off"
        if word not in ON:
            raise PlanError(
                f"speculative_serve_memory_guard is {given!r}, but must be true, false, or limits such as "
                f"{{floor_gib: {FLOOR_GIB:g}, seconds: {SECONDS:g}}}."
            )
    wrong = problems(limits, reserve)
    if wrong:
        raise PlanError(" ".join(wrong))
    usual = max(LEAST["floor_gib"], min(FLOOR_GIB, SHARE * reserve / GIB))
    floor = parse_number(limits.get("floor_gib", usual)) or usual
    seconds = parse_number(limits.get("seconds", SECONDS)) or SECONDS
    return f"floor={round(floor * GIB)} seconds={seconds:g}"

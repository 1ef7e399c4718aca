# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this plugin util is internal to the collection; its interface may change at any time.

"""The conditions under which a benchmark was measured, in words, and those in which reports differ."""

from __future__ import annotations

import typing as t

from .._engines.registry import ENGINES

Report = t.Mapping[str, t.Any]

# Paths in a report, in words.
CONDITIONS = {
    "title": "title",
    "deployment": "deployment",
    "engine": "engine",
    "method": "method",
    "image.reference": "image",
    "image.id": "image id",
    "image.digests": "image digest",
    "models": "model",
    "hardware": "hardware",
    "versions": "version",
    "settings": "setting",
    "prompts": "prompts",
}


def engine_words(report: Report) -> str:
    """Return the engine of a report as users call it."""
    name = str(report.get("engine") or "")
    return ENGINES[name].words if name in ENGINES else name or "unknown engine"


def flat(value: t.Any, name: str = "") -> dict[str, str]:
    """Nested facts as name and text; what is unknown is left out."""
    if isinstance(value, t.Mapping):
        result: dict[str, str] = {}
        for key, item in value.items():
            result |= flat(item, f"{name} {key}".strip())
        return result
    if isinstance(value, (list, tuple)):
        value = ", ".join(str(item) for item in value)
    return {} if value is None or value == "" else {name: str(value)}


def named(key: str) -> str:
    """Return the key of a fact in words."""
    return ENGINES[key].words if key in ENGINES else key.replace("_", " ")


def condition(report: Report, path: str) -> dict[str, str]:
    """Return a condition as names and texts."""
    value: t.Any = report
    for key in path.split("."):
        value = (value or {}).get(key)
    return flat(value)


def differing_conditions(reports: t.Sequence[Report]) -> list[str]:
    """Return the conditions that are not the same in all reports."""
    return [path for path in CONDITIONS if any(condition(one, path) != condition(reports[0], path) for one in reports)]

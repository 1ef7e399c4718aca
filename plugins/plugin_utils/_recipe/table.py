# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this plugin util is internal to the collection; its interface may change at any time.

"""Recipes for people: in a table, and as lines for a terminal."""

from __future__ import annotations

import typing as t

from ...module_utils._deployment.lines import width, wrap_text
from .._engines.methods import METHODS, NONE, called
from .._engines.registry import engine_of

COLUMNS = ("recipe", "target model", "method", "image", "Sparks", "variants")
# An error's text is indented by as much.
INDENT = 4

Recipe = t.Mapping[str, t.Any]


def method(recipe: Recipe) -> str:
    if recipe["method"] in METHODS:
        return called(recipe)
    # Left out where the engine options say it themselves.
    return "none" if recipe["method"] == NONE else engine_of(recipe).speculation


def figure(recipe: Recipe, name: str, unit: str) -> tuple[str, str]:
    """Return a figure with its unit, and its source; empty texts if no page has it."""
    known = recipe["figures"][name]
    return (f"{known['value']:g} {unit}", known["source"]) if known else ("", "")


def image(recipe: Recipe) -> str:
    """Return the image's tag, the only difference between the shipped ones."""
    return str(recipe["image"]).partition("@")[0].rpartition("/")[2].rpartition(":")[2]


def cells(recipe: Recipe) -> tuple[str, ...]:
    """Return a recipe in the order of COLUMNS."""
    return (
        recipe["name"],
        recipe["target"],
        method(recipe),
        image(recipe),
        str(recipe["sparks"]),
        ", ".join(recipe["variants"]),
    )


def table(recipes: t.Iterable[Recipe]) -> list[dict[str, str]]:
    """Return a row a recipe."""
    return [dict(zip(COLUMNS, cells(recipe))) for recipe in recipes]


def lines(recipes: t.Iterable[Recipe]) -> list[str]:
    """Return a name and its description for each, as wide as the page: beside it, or below where that is too narrow."""
    rows, room = table(recipes), width() - INDENT
    column = max((len(row["recipe"]) for row in rows), default=0) + 2
    beside = all(column + len(row["target model"]) < room for row in rows)
    result = []
    for row in rows:
        sparks = f"{row['Sparks']} Spark{'s' if row['Sparks'] != '1' else ''}"
        others = f", variants {row['variants']}" if row["variants"] else ""
        text = f"{row['target model']}, {row['method']}; {row['image']}, {sparks}{others}"
        name = [f"{row['recipe']:<{column}}"] if beside else [row["recipe"], " " * INDENT]
        result += [*name[:-1], *wrap_text(text, name[-1], " " * (column if beside else INDENT), room)]
    return result

# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this plugin util is internal to the collection; its interface may change at any time.

"""Recipes in a table, for a terminal."""

from __future__ import annotations

import itertools
import textwrap
import typing as t

from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._trtllm.methods import METHODS, NONE, called

COLUMNS = ("recipe", "target model", "method", "image", "Sparks")

# Where a cell of the shipped ones would make the table wider than a screen; the others are as wide as they need to be.
BROKEN = {"target model": 24, "method": 23, "image": 13}

Recipe = t.Mapping[str, t.Any]


def method(recipe: Recipe) -> str:
    if recipe["method"] in METHODS:
        return called(recipe)
    # Left out where the engine options say it themselves.
    return "no drafts" if recipe["method"] == NONE else "speculative_config"


def image(recipe: Recipe) -> str:
    """The image's tag, which is all that tells the shipped ones apart."""
    return str(recipe["image"]).partition("@")[0].rpartition("/")[2].rpartition(":")[2]


def cells(recipe: Recipe) -> tuple[str, ...]:
    """A recipe in the order of COLUMNS."""
    return (
        recipe["name"],
        recipe["target"],
        method(recipe),
        image(recipe),
        str(recipe["sparks"]),
    )


def table(recipes: t.Iterable[Recipe]) -> list[dict[str, str]]:
    """A row a recipe."""
    return [dict(zip(COLUMNS, cells(recipe))) for recipe in recipes]


def lines(recipes: t.Iterable[Recipe]) -> list[str]:
    """The table, where what is too wide for its column goes on below itself."""
    rows = [
        [textwrap.wrap(cell, BROKEN.get(name, len(cell) + 1)) for name, cell in zip(COLUMNS, row)]
        for row in (COLUMNS, *map(cells, recipes))
    ]
    widths = [max(len(part) for cell in column for part in cell) for column in zip(*rows)]
    return [
        "  ".join(part.ljust(width) for part, width in zip(parts, widths)).rstrip()
        for row in rows
        for parts in itertools.zip_longest(*row, fillvalue="")
    ]

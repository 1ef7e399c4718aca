# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this plugin util is internal to the collection; its interface may change at any time.

"""The effects of TensorRT-LLM's options and variables, by its rows and the schemas of its release families."""

from __future__ import annotations

import functools
import typing as t
from pathlib import Path

from ..effects import ANY_NAME, Effects, Shape, joined, read_effects
from .schema import FAMILIES, Family
from .vocabulary import ROOT

KINDS = {"bool": "switch", "int": "int", "float": "number"}


def shape_of_field(field: t.Mapping[str, t.Any], family: Family) -> Shape:
    """Return the shape of a field of the schema; that of a list is the one of its items."""
    kind = field["type"]
    if kind == "section":
        return shape_of_section(field["section"], family)
    if kind == "list":
        return shape_of_field(field["items"], family)
    if kind == "map":
        return {ANY_NAME: shape_of_field(field["of"], family)}
    if kind == "union":
        return joined(shape_of_field(one, family) for one in field["any_of"])
    return field["values"] if "values" in field else KINDS.get(kind, "other")


def shape_of_section(name: str, family: Family) -> Shape:
    """Return the shapes of a section's fields; a union has those of all its variants."""
    section = family["sections"][name]
    if "tag" in section:
        inner = [shape_of_section(variant, family) for variant in section["variants"].values()]
        return joined([{section["tag"]: list(section["variants"])}, *inner])
    above = shape_of_section(section["extends"], family) if section.get("extends") else {}
    return {**above, **{key: shape_of_field(field, family) for key, field in section["fields"].items()}}


@functools.cache
def effects() -> Effects:
    """Return the table, which only some of a run's tasks need."""
    shapes = joined(shape_of_section(ROOT, family) for family in FAMILIES)
    return read_effects(Path(__file__).with_name("effects.yml"), shapes)

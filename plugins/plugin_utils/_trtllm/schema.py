# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this plugin util is internal to the collection; its interface may change at any time.

"""The vocabulary of the engine option schemas.

A release family of TensorRT-LLM is one mapping `FAMILY` in one module `schema_<family>`. It is a Python module
and not a data file because only Python travels to a Spark together with a module.

A family
    name               what people call it
    first, last        the first and last release it holds for; last is None for the newest family
    known              the releases it was written for; any other one of the family is a warning
    methods            decoding_type of each method of this collection
    draft_model_key    how speculative_config names the draft model
    needs_draft_model  the decoding types that the server refuses without a draft model
    needs_draft_length the decoding types that the server refuses without a draft length
    refused_types      decoding types that the schema knows and the server refuses, and why
    schedule_start     the batch size that draft_len_schedule must hold; None if its smallest one counts
    tree_by_width      true if dynamic_tree_max_topK alone turns the dynamic tree on
    two_models_end     true if drafting as two models is deprecated
    sections           the mappings, by the name that TensorRT-LLM gives them; `TorchLlmArgs` is the whole file

A section
    fields             field name -> field; the order is the order of the rendered file
    extends            another section whose fields come first
    renamed            names people use here which never were or no longer are fields -> what to write instead
    newer              names that newer releases have; a final * stands for any end
A section with `tag` is a union: the value under that name chooses the section in `variants`.

A field
    type               bool, int, float, str, any, list (items), map (keys, of), section (section), union (any_of)
    null               true if null may be written
    required           true if it must be there
    min, max           bounds; above and below exclude the bound itself
    values             the allowed values; fold (upper or lower) means that the server does not mind the case
    newer              values of newer releases, spelled as in a section's newer
    min_items          the least length of a list
    alias              another name the server accepts
    since              the first release of the family that may have it
    never              why a file can not hold it
    advice             what to say when it is there
"""

from __future__ import annotations

import typing as t

Field = t.Mapping[str, t.Any]
Section = t.Mapping[str, t.Any]
Family = t.Mapping[str, t.Any]


def optional(field: Field, **changes: t.Any) -> Field:
    """The same field, which may also be null."""
    return {**field, "null": True, **changes}


def integer(least: int | None = None, **more: t.Any) -> Field:
    return {"type": "int", **({} if least is None else {"min": least}), **more}


def number(**more: t.Any) -> Field:
    return {"type": "float", **more}


def choice(*values: str, **more: t.Any) -> Field:
    return {"type": "str", "values": values, **more}


def list_of(items: Field, **more: t.Any) -> Field:
    return {"type": "list", "items": items, **more}


def map_of(of: Field, **more: t.Any) -> Field:
    return {"type": "map", "of": of, **more}


def section(name: str, **more: t.Any) -> Field:
    return {"type": "section", "section": name, **more}


def since(release: str, field: Field) -> Field:
    """The same field, which older releases of the family do not have."""
    return {**field, "since": release}


def any_of(*fields: Field, **more: t.Any) -> Field:
    return {"type": "union", "any_of": fields, **more}


def never(why: str) -> Field:
    return {"type": "any", "never": why}


ANY: Field = {"type": "any"}
BOOL: Field = {"type": "bool"}
INT: Field = integer()
COUNT: Field = integer(0)
SIZE: Field = integer(1)
FLOAT: Field = number()
FRACTION: Field = number(min=0, max=1)
STR: Field = {"type": "str"}
OPTIONAL_BOOL: Field = optional(BOOL)
OPTIONAL_INT: Field = optional(INT)
OPTIONAL_SIZE: Field = optional(SIZE)
OPTIONAL_STR: Field = optional(STR)

# Why a file can not hold a field.
OBJECT = "it is a Python object, which a file can not hold"
INTERNAL = "the server sets it itself"
TENSORRT = "it exists for the TensorRT backend only"
COMMAND_LINE = "it is an option of trtllm-serve's command line"

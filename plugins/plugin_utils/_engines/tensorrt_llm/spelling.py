# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this plugin util is internal to the collection; its interface may change at any time.

"""TensorRT-LLM's spelling of the speculation methods: their rows of methods.yml, under its name.

length         the key of speculative_config for the draft length; default: max_draft_len
decoding_type  by release family; a family that extends another one inherits its spelling
adds           further keys of speculative_config
"""

from __future__ import annotations

import dataclasses
import typing as t
from pathlib import Path

from ..._data.rows import Field
from ..methods import FILE, NONE, read_engine_rows
from .schema import FAMILIES, Family
from .vocabulary import SPECULATION

NAME = "tensorrt_llm"
LENGTH = "max_draft_len"


@dataclasses.dataclass(frozen=True)
class Spelling:
    """A method in speculative_config."""

    decoding_type: t.Mapping[str, str]
    length: str = LENGTH
    adds: t.Mapping[str, t.Any] = dataclasses.field(default_factory=dict)

    def in_family(self, family: Family) -> str | None:
        """Return the decoding type in a family, if it has the method."""
        return next((self.decoding_type[name] for name in family["lineage"] if name in self.decoding_type), None)


ROW: dict[str, Field] = {
    "length": Field(str),
    "adds": Field(dict),
    "decoding_type": Field(
        dict,
        required=True,
        fields={
            family["name"]: Field(str, choices=tuple(family["sections"][SPECULATION]["variants"]))
            for family in FAMILIES
        },
    ),
}


def read(path: Path) -> dict[str, Spelling]:
    """Return the spelling of each method of a file that TensorRT-LLM has, by its name; raises DataError."""
    return {name: Spelling(**row) for name, row in read_engine_rows(path, NAME, ROW).items()}


SPELLINGS = read(FILE)


def method_of(decoding_type: str | None) -> str:
    """Return the method of a decoding type, or the type itself where it belongs to none."""
    if not decoding_type:
        return NONE
    rows = ((name, spelling.decoding_type.values()) for name, spelling in SPELLINGS.items())
    return next((name for name, types in rows if decoding_type in types), decoding_type)


def decided_keys(length: str) -> tuple[str, ...]:
    """Return the keys of speculative_config that follow from a method and its inputs, with its key for the length."""
    return ("decoding_type", length, "speculative_model", "speculative_model_dir")


def length_key(decoding_type: t.Any) -> str:
    """Return the key of speculative_config for the draft length of a decoding type."""
    spelling = SPELLINGS.get(method_of(decoding_type if isinstance(decoding_type, str) else None))
    return spelling.length if spelling else LENGTH

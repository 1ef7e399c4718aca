# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this plugin util is internal to the collection; its interface may change at any time.

"""Read the speculation methods, the rows of methods.yml.

A row, under the name that recipes have for it
    words          its usual name
    description    its effect, as the rest of a sentence
    length         the key of speculative_config for the draft length; default: max_draft_len
    draft_model    its draft model: a `head` continues from the target's hidden states, with one layer of KV cache of
                   the target's type; a `model` drafts by itself, with a cache of its own; default: none
    decoding_type  its spelling by release family; a family that extends another one inherits its spelling
"""

from __future__ import annotations

import dataclasses
import typing as t
from pathlib import Path

from ansible_collections.dgx_spark.speculative.plugins.module_utils._deployment.records import (
    decoding_type,
)
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._data.rows import Field, load, refuse
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._trtllm.schema import FAMILIES, Family
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._trtllm.vocabulary import SPECULATION

HEAD, MODEL = "head", "model"
# The name of no method: the target model alone.
NONE = "none"


@dataclasses.dataclass(frozen=True)
class Method:
    """A row. A method without a draft model drafts from the target model or the text."""

    words: str
    description: str
    decoding_type: t.Mapping[str, str]
    draft_model: str | None = None
    length: str = "max_draft_len"

    def spelling(self, family: Family) -> str | None:
        """Return the decoding type in a family, if it has the method."""
        return next((self.decoding_type[name] for name in family["lineage"] if name in self.decoding_type), None)


ROW: dict[str, Field] = {
    "words": Field(str, required=True),
    "description": Field(str, required=True),
    "draft_model": Field(str, choices=(HEAD, MODEL)),
    "length": Field(str),
    "decoding_type": Field(
        dict,
        required=True,
        fields={
            family["name"]: Field(str, choices=tuple(family["sections"][SPECULATION]["variants"]))
            for family in FAMILIES
        },
    ),
}


def read(path: Path) -> dict[str, Method]:
    """Return the methods of a file, by name; raises DataError."""
    rows = load(path, Field(dict, each=Field(dict, required=True, fields=ROW)))
    refuse(path, [f"{name} is the name of no method: give it another one" for name in rows if name == NONE])
    return {name: Method(**row) for name, row in rows.items()}


METHODS = read(Path(__file__).with_suffix(".yml"))
CHOICES = (*METHODS, NONE)


def draft_model(method: str | None) -> str | None:
    """Return the kind of draft model that a method needs; None if it is not a method."""
    return METHODS[method].draft_model if method in METHODS else None


def method_of(decoding_type: str | None) -> str:
    """Return the method of a decoding type, or the type itself where it belongs to none."""
    if not decoding_type:
        return NONE
    rows = ((name, row.decoding_type.values()) for name, row in METHODS.items())
    return next((name for name, types in rows if decoding_type in types), decoding_type)


def length_key(decoding_type: t.Any) -> str:
    """Return the key of speculative_config for the draft length of a decoding type."""
    method = METHODS.get(method_of(decoding_type if isinstance(decoding_type, str) else None))
    return method.length if method else "max_draft_len"


def called(how: t.Mapping[str, t.Any]) -> str:
    """Return a method and a draft length, as recipes and records have them, in words."""
    return f"{METHODS[how['method']].words}, draft length {how['draft_length']}"


def at_most(how: t.Mapping[str, t.Any]) -> int:
    """Return the maximum tokens of a pass: all drafted tokens, and the target model's own one."""
    return int(how["draft_length"]) + 1


def drafting(how: t.Mapping[str, t.Any]) -> str | None:
    """Return the speculation in words; None if it is unknown."""
    method = how.get("method")
    if method is None:
        return None
    if method in METHODS:
        return f"with {called(how)}"
    if method:
        return "without speculation"
    # The engine options have the method.
    own = decoding_type(how) or how.get("decoding_type")
    words = METHODS[method_of(own)].words if method_of(own) in METHODS else own
    return f"with {words}, by a speculative_config of its own" if own else "with a speculative_config of its own"

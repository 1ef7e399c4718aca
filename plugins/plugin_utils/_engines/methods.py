# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this plugin util is internal to the collection; its interface may change at any time.

"""Read the speculation methods, the rows of methods.yml.

A row, under the name that recipes have for it
    words        its usual name
    description  its effect, as the rest of a sentence
    draft_model  its draft model: a `head` continues from the target's hidden states, with one layer of KV cache of the
                 target's type, or as many as its own config.json has; a `model` drafts by itself, with a cache of its
                 own; an `assistant` is a head that only some targets need, the others have prediction layers of their
                 own, each with a layer of KV cache; default: none, and no KV cache
    engines      by the name of each engine that has it, the engine's spelling of it; the engine's package explains it
    not_offered  instead of engines, why no engine may use it, as the end of a sentence
    options_only
                 by the name of each further engine that has it, its name there: a recipe without `method` can
                 configure it in `options`
"""

from __future__ import annotations

import dataclasses
import typing as t
from pathlib import Path

from .._data.rows import Field, check_mapping, load, refuse

HEAD, MODEL, ASSISTANT = "head", "model", "assistant"
# The name of no method: the target model alone.
NONE = "none"


@dataclasses.dataclass(frozen=True)
class Method:
    """A row. A method without a draft model drafts from the target model or the text."""

    words: str
    description: str
    engines: t.Mapping[str, t.Mapping[str, t.Any]] = dataclasses.field(default_factory=dict)
    draft_model: str | None = None
    not_offered: str = ""
    options_only: t.Mapping[str, str] = dataclasses.field(default_factory=dict)


ROW: dict[str, Field] = {
    "words": Field(str, required=True),
    "description": Field(str, required=True),
    "draft_model": Field(str, choices=(HEAD, MODEL, ASSISTANT)),
    "engines": Field(dict, each=Field(dict, required=True)),
    "not_offered": Field(str),
    "options_only": Field(dict, each=Field(str, required=True)),
}


def read_methods(path: Path) -> dict[str, Method]:
    """Return the rows of a file, by name; raises DataError."""
    rows = load(path, Field(dict, each=Field(dict, required=True, fields=ROW)))
    both = [name for name, row in rows.items() if ("engines" in row) == ("not_offered" in row)]
    refuse(path, [f"{name} must have either engines or not_offered" for name in both])
    refuse(path, [f"{name} is the name of no method: give it another one" for name in rows if name == NONE])
    return {name: Method(**row) for name, row in rows.items()}


def read_engine_rows(path: Path, engine: str, fields: t.Mapping[str, Field]) -> dict[str, t.Mapping[str, t.Any]]:
    """Return an engine's spelling of each method that it has, by the method's name; raises DataError."""
    rows = {name: row.engines[engine] for name, row in read_methods(path).items() if engine in row.engines}
    wrong = [check_mapping(f"{name}.engines.{engine}", row, fields) for name, row in rows.items()]
    refuse(path, [error for errors in wrong for error in errors])
    return rows


FILE = Path(__file__).with_suffix(".yml")
ROWS = read_methods(FILE)
METHODS = {name: row for name, row in ROWS.items() if row.engines}
# The reason of each method that is not offered.
NOT_OFFERED = {name: row.not_offered for name, row in ROWS.items() if row.not_offered}
CHOICES = (*METHODS, NONE)


def draft_model(method: str | None) -> str | None:
    """Return the kind of draft model that a method may have; None if it has none, or is not a method."""
    return METHODS[method].draft_model if method in METHODS else None


def method_words(name: str) -> str:
    """Return the usual name of a method; the engine's own name of another one stays."""
    return METHODS[name].words if name in METHODS else name


def needs_draft_model(method: str | None) -> bool:
    """Return whether a method drafts with nothing but a draft model."""
    return draft_model(method) in (HEAD, MODEL)


def called(how: t.Mapping[str, t.Any]) -> str:
    """Return a method and a draft length, as recipes and records have them, in words."""
    return f"{METHODS[how['method']].words}, draft length {how['draft_length']}"


def at_most(how: t.Mapping[str, t.Any]) -> int:
    """Return the maximum tokens of a pass: all drafted tokens, and the target model's own one."""
    return int(how["draft_length"]) + 1

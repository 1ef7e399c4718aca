# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this plugin util is internal to the collection; its interface may change at any time.

"""Tell the engine options and variables that are plain from those that do more than tune the server.

A value is plain if it is of the shape that the engine's own release gives its option: a switch, a number, or one of the
listed choices. For all other options a row of the engine's effects.yml decides. An option without a row is unknown.

A file of effects
    plain         options that are plain, each with the shape of its values
    code, file, network, other_model
                  options that are not, each with the effect as a predicate: the option is the subject. `false` has no
                  effect, and neither has a value of the option's shape in `plain`
    variables     the same for the variables of the environment, where the names of `plain` stand under their shape

An option within a mapping is written with dots, such as compilation-config.backend. A part * stands for each name.

A shape is a list of choices, or one of
    switch        true or false
    int, number   a number, also with a suffix such as 32k
    text          words, but no path, address or class of Python
    any           any text
"""

from __future__ import annotations

import dataclasses
import fnmatch
import json
import re
import typing as t
from pathlib import Path

from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._data.rows import Field, load, refuse

if t.TYPE_CHECKING:
    from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._engines.engine import Engine

Mapping = t.Mapping[str, t.Any]
# A word for a kind of value, a list of choices, or a mapping of nested options to their shapes.
Shape = t.Any
CODE, FILE, NETWORK, OTHER_MODEL, UNKNOWN = "code", "file", "network", "other model", "unknown"
# The keys of a file of effects.
KINDS = {"code": CODE, "file": FILE, "network": NETWORK, "other_model": OTHER_MODEL}
ANY_NAME = "*"

SWITCHES = ("true", "false", "0", "1", "yes", "no", "on", "off")
NUMBER = re.compile(r"[+-]?(\d[\d_]*\.?\d*|\.\d+)(e[+-]?\d+)?([kmgt]i?)?", re.IGNORECASE)
PATH, ADDRESS, PARENT = re.compile(r"[/\\~]"), re.compile(r"://"), re.compile(r"\.\.")
CLASS = re.compile(r"[A-Za-z_]\w*([.:][A-Za-z_]\w*)*\.[A-Za-z_]\w*([.:][A-Za-z_]\w*)*")
CONTROL = re.compile(r"[\x00-\x1f\x7f]")
WORDS = ("switch", "int", "number", "text", "any")

NOT_LISTED = "is not known to be harmless"
NOT_OF_SHAPE = "has a value that is not known to be harmless"
RESERVED = "replaces a decision of this collection"
# Variables by which the collection tells the programs in its containers what it decided.
OWN_VARIABLES = "DGX_SPARK_"


@dataclasses.dataclass(frozen=True)
class Effect:
    """What an option or a variable can do beyond tuning the server.

    The words are a predicate for the path as subject.
    """

    path: str
    kind: str
    words: str


@dataclasses.dataclass(frozen=True)
class Rows:
    """Rows by path: the shapes of what is plain, and the kind and the words of the effect of what is not."""

    plain: t.Mapping[str, Shape]
    effects: t.Mapping[str, tuple[str, str]]


@dataclasses.dataclass(frozen=True)
class Effects:
    """What is known of the options and the variables of an engine; `shapes` come from its releases."""

    shapes: t.Mapping[str, Shape]
    options: Rows
    variables: Rows


SHAPE = Field(object, required=True)
TEXTS = Field(dict, each=Field(str, required=True))
NAMES = Field(list, each=Field(str, required=True))
ROWS: dict[str, Field] = dict.fromkeys(KINDS, TEXTS)
FILE_FIELDS: dict[str, Field] = {
    "plain": Field(dict, each=SHAPE),
    **ROWS,
    "variables": Field(dict, fields={"plain": Field(dict, each=NAMES), **ROWS}),
}


def read_effects(path: Path) -> tuple[Rows, Rows]:
    """Return the rows for options and for variables of a file; raises DataError."""
    data = load(path, Field(dict, fields=FILE_FIELDS))
    variables = data.get("variables") or {}
    shapes = [(name, shape) for shape, names in (variables.get("plain") or {}).items() for name in names]
    options = rows_of(path, list((data.get("plain") or {}).items()), data)
    return options, rows_of(path, shapes, variables)


def rows_of(path: Path, plain: t.Sequence[tuple[str, Shape]], data: Mapping) -> Rows:
    found = [(name, (KINDS[kind], words)) for kind in KINDS for name, words in (data.get(kind) or {}).items()]
    refuse(path, [f"{name} has no shape, but {shape!r}" for name, shape in plain if not is_shape(shape)])
    for names in ([name for name, _shape in plain], [name for name, _effect in found]):
        refuse(path, [f"{name} is there twice" for name in sorted({one for one in names if names.count(one) > 1})])
    return Rows(dict(plain), dict(found))


def is_shape(shape: Shape) -> bool:
    return shape in WORDS if isinstance(shape, str) else isinstance(shape, list)


def is_of_shape(value: t.Any, shape: Shape) -> bool:
    """Return whether a single value is plain for an option of a shape."""
    text = str(value)
    if value is None:
        return True
    if isinstance(shape, list):
        return text.lower() in {str(choice).lower() for choice in shape}
    if shape == "switch":
        return text.lower() in SWITCHES
    if shape in ("int", "number"):
        return isinstance(value, (int, float)) or bool(NUMBER.fullmatch(text))
    return shape == "any" or (shape == "text" and names(text) is None and not CONTROL.search(text))


def names(text: str) -> tuple[str, str] | None:
    """Return the kind and the words of the effect of a text that names something; None for plain words."""
    if ADDRESS.search(text):
        return NETWORK, "has an address as value"
    if PATH.search(text) or PARENT.search(text):
        return FILE, "has a path as value"
    if any(CLASS.fullmatch(part) for part in re.split(r"[,;\s]+", text)):
        return CODE, "has a class of Python as value"
    return None


def lookup(rows: Mapping, path: str) -> t.Any:
    """Return the row of a path. One with * counts if there is no other."""
    if path in rows:
        return rows[path]
    parts = path.split(".")
    fitting = (row for row in rows if ANY_NAME in row and fits(row.split("."), parts))
    return next((rows[row] for row in fitting), None)


def fits(pattern: t.Sequence[str], parts: t.Sequence[str]) -> bool:
    return len(pattern) == len(parts) and all(map(fnmatch.fnmatchcase, parts, pattern))


def effects_of(path: str, value: t.Any, shape: Shape, rows: Rows) -> t.Iterator[Effect]:
    """Yield the effects of a value and of all values within it."""
    row, plain = lookup(rows.effects, path), lookup(rows.plain, path)
    if isinstance(value, (list, tuple, set)) and value:
        for part in value:
            yield from effects_of(path, part, shape, rows)
    elif row and (value is False or value is None or (plain is not None and is_of_shape(value, plain))):
        return
    elif row:
        yield Effect(path, *row)
    elif isinstance(mapping := as_mapping(value), dict):
        inner = shape if isinstance(shape, dict) else {}
        for key, part in mapping.items():
            yield from effects_of(f"{path}.{key}", part, inner.get(str(key), inner.get(ANY_NAME)), rows)
    elif not any(is_of_shape(value, one) for one in (shape, plain)):
        yield Effect(path, *unplain(value, shape, plain))


def as_mapping(value: t.Any) -> t.Any:
    """Return the mapping that a text has as JSON, which engines read as such; else the value."""
    if isinstance(value, str) and value.lstrip().startswith("{"):
        try:
            return json.loads(value)
        except ValueError:
            return value
    return value


def unplain(value: t.Any, shape: Shape, plain: Shape) -> tuple[str, str]:
    """Return the kind and the words for a value without a row, or of another shape."""
    if plain is None and (shape is None or shape == "other"):
        return UNKNOWN, NOT_LISTED
    return names(str(value)) or (UNKNOWN, NOT_OF_SHAPE)


def nested(name: str, value: t.Any) -> tuple[str, t.Any]:
    """Return an option and its value; a name with dots, another spelling of a key in a mapping, as that mapping."""
    first, *parts = name.split(".")
    for part in reversed(parts):
        value = {part: value}
    return first, value


def option_effects(engine: Engine, options: Mapping) -> list[Effect]:
    """Return all that is not plain in options of an engine, each path once."""
    effects = engine.effects
    found = [
        effect
        for name, value in (nested(str(name), value) for name, value in options.items())
        for effect in effects_of(name, value, effects.shapes.get(name), effects.options)
    ]
    return list({effect.path: effect for effect in reversed(found)}.values())[::-1]


def variable_effect(engine: Engine, name: str, value: t.Any) -> Effect | None:
    """Return the effect of a variable; None if it only tunes, and has a value of the right shape."""
    path = f"environment.{name}"
    if name.startswith(OWN_VARIABLES):
        return Effect(path, CODE, RESERVED)
    rows = engine.effects.variables
    shape, row = rows.plain.get(name), lookup(rows.effects, name)
    if shape is not None and is_of_shape(value, shape):
        return None
    if row:
        return Effect(path, *row)
    return Effect(path, *unplain(value, None, shape))

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
    unpins        options that replace what runs by the option for remote code: its commit would not hold
    variables     the same for variables of the environment. The file beside this one has those of all engines

An option within a mapping is written with dots, such as compilation-config.backend. A part * stands for any name.

A shape is a list of choices, or one of
    switch        true or false
    int, number   a number, also with a suffix such as 32k
    text          words, but no path, address or class of Python
    any           any text
"""

from __future__ import annotations

import dataclasses
import fnmatch
import functools
import json
import re
import typing as t
from pathlib import Path

from .._data.rows import Field, load, refuse

Mapping = t.Mapping[str, t.Any]
# A word for a kind of value, a list of choices, or a mapping of nested options to their shapes.
Shape = t.Any
CODE, FILE, NETWORK, OTHER_MODEL, UNKNOWN = "code", "file", "network", "other model", "unknown"
# The keys of a file of effects.
KINDS = {"code": CODE, "file": FILE, "network": NETWORK, "other_model": OTHER_MODEL}
ANY_NAME = "*"
ENVIRONMENT = "environment."

SWITCHES = ("true", "false", "0", "1", "yes", "no", "on", "off")
NUMBER = re.compile(r"[+-]?(\d[\d_]*\.?\d*|\.\d+)(e[+-]?\d+)?([kmgt]i?)?", re.IGNORECASE)
# With a dot, which is looked for beforehand.
CLASS = re.compile(r"[A-Za-z_]\w*([.:][A-Za-z_]\w*)+")
CONTROL = re.compile(r"[\x00-\x1f\x7f]")
NUMBERS = ("switch", "int", "number")
WORDS = (*NUMBERS, "text", "any")

NOT_LISTED = "is not known to be harmless"
NOT_OF_SHAPE = "has a value that is not known to be harmless"
RESERVED = "replaces a decision of this collection"
# Variables by which the collection tells the programs in its containers what it decided.
OWN_VARIABLES = "DGX_SPARK_"


@dataclasses.dataclass(frozen=True)
class Effect:
    """Something that an option or a variable can do beyond tuning the server.

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

    @functools.cached_property
    def _patterns(self) -> dict[str, list[str]]:
        return {row: row.split(".") for row in (*self.effects, *self.plain) if ANY_NAME in row}

    def find(self, path: str) -> tuple[tuple[str, str] | None, Shape]:
        """Return the effect and the plain shape of a path. A row with * counts if there is no other."""
        parts = path.split(".")
        fitting = [row for row, pattern in self._patterns.items() if fits(pattern, parts)]

        def first(rows: t.Mapping[str, t.Any]) -> t.Any:
            return rows.get(path, next((rows[row] for row in fitting if row in rows), None))

        return first(self.effects), first(self.plain)


@dataclasses.dataclass(frozen=True)
class Effects:
    """The rows of an engine for options and variables, and the shapes that its releases give their options."""

    shapes: t.Mapping[str, Shape]
    options: Rows
    variables: Rows
    # The paths of options and variables beside which the commit of remote code does not hold.
    unpins: t.AbstractSet[str]
    # Whether the engine reads its file as a command line, in which a value that begins with a dash is an option.
    is_command_line: bool


ROWS: dict[str, Field] = {
    "plain": Field(dict, each=Field(object)),
    **dict.fromkeys(KINDS, Field(dict, each=Field(str, required=True))),
    "unpins": Field(list, each=Field(str, required=True)),
}
VARIABLES = {"variables": Field(dict, required=True, fields=ROWS)}
# The variables of all engines.
COMMON = Path(__file__).with_suffix(".yml")


def read_effects(path: Path, shapes: t.Mapping[str, Shape], is_command_line: bool = False) -> Effects:
    """Return the effects of an engine by its file, and by the common one for variables; raises DataError."""
    common = load(COMMON, Field(dict, fields=VARIABLES))["variables"]
    options = load(path, Field(dict, fields={**ROWS, **VARIABLES}))
    own = options["variables"]
    variables = [rows(COMMON, common), rows(path, own)]
    return Effects(
        shapes=shapes,
        options=rows(path, options),
        variables=Rows(
            {name: shape for one in variables for name, shape in one.plain.items()},
            {name: effect for one in variables for name, effect in one.effects.items()},
        ),
        unpins={
            *options.get("unpins", ()),
            *(f"{ENVIRONMENT}{name}" for one in (common, own) for name in one.get("unpins", ())),
        },
        is_command_line=is_command_line,
    )


def rows(path: Path, data: Mapping) -> Rows:
    """Return the rows of options, or of variables, in a file."""
    found = [(name, (KINDS[kind], words)) for kind in KINDS for name, words in data.get(kind, {}).items()]
    names = [name for name, _effect in found]
    plain = data.get("plain", {})
    refuse(path, [f"{name} has no shape, but {shape!r}" for name, shape in plain.items() if not is_shape(shape)])
    refuse(path, [f"{name} has two effects" for name in sorted({one for one in names if names.count(one) > 1})])
    return Rows(plain, dict(found))


def joined(shapes: t.Iterable[Shape]) -> Shape:
    """Return the shape for values of each of several shapes, such as those of several releases."""
    made: Shape = None
    for shape in shapes:
        if isinstance(made, dict) and isinstance(shape, dict):
            made = {key: joined(one[key] for one in (made, shape) if key in one) for key in {**made, **shape}}
        elif isinstance(made, list) and isinstance(shape, list):
            made = sorted({*made, *shape}, key=lambda choice: (str(choice).lower(), str(choice)))
        elif made is None or isinstance(shape, dict):
            made = shape
        elif not isinstance(made, dict) and made != shape:
            made = "number" if made in NUMBERS and shape in NUMBERS else "other"
    return made


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
    return shape == "any" or (shape == "text" and named(text) is None and not CONTROL.search(text))


def named(text: str) -> tuple[str, str] | None:
    """Return the kind and the words for a text that names something; None for plain words."""
    if "://" in text:
        return NETWORK, "has an address as value"
    if re.search(r"[/\\~]|\.\.", text):
        return FILE, "has a path as value"
    if any("." in part and CLASS.fullmatch(part) for part in re.split(r"[,;\s]+", text)):
        return CODE, "has a class of Python as value"
    return None


def has_row(rows: t.Iterable[str], path: str) -> bool:
    """Return whether a path is one of the rows, or fits one with *."""
    parts = path.split(".")
    return any(fits(row.split("."), parts) for row in rows)


def fits(pattern: t.Sequence[str], parts: t.Sequence[str]) -> bool:
    return len(pattern) == len(parts) and all(map(fnmatch.fnmatchcase, parts, pattern))


def effects_of(path: str, value: t.Any, shape: Shape, table: Rows) -> t.Iterator[Effect]:
    """Yield the effects of a value and of all values within it."""
    row, plain = table.find(path)
    for part in parts_of(value):
        mapping = as_mapping(part)
        if row:
            if part is not False and not is_of_shape(part, plain):
                yield Effect(path, *row)
        elif isinstance(mapping, dict):
            inner = shape if isinstance(shape, dict) else {}
            for key, below in mapping.items():
                yield from effects_of(f"{path}.{key}", below, inner.get(str(key), inner.get(ANY_NAME)), table)
        elif not is_of_shape(part, shape) and not is_of_shape(part, plain):
            yield Effect(path, *unplain(part, shape, plain))


def parts_of(value: t.Any) -> t.Iterator[t.Any]:
    """Yield the values in lists within each other, or the only value."""
    if isinstance(value, (list, tuple, set)):
        for part in value:
            yield from parts_of(part)
    else:
        yield value


def as_mapping(value: t.Any) -> t.Any:
    """Return the mapping that a text has as JSON, which engines read as such; else the value."""
    if isinstance(value, str) and value.lstrip().startswith("{"):
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            return value
    return value


def unplain(value: t.Any, shape: Shape, plain: Shape) -> tuple[str, str]:
    """Return the kind and the words for a value without a row, or of another shape."""
    if plain is None and shape in (None, "other"):
        return UNKNOWN, NOT_LISTED
    return named(str(value)) or (UNKNOWN, NOT_OF_SHAPE)


def adds_option(value: t.Any) -> bool:
    """Return whether a value would be read as an option by an engine that makes a command line of its file."""
    parts = value if isinstance(value, (list, tuple, set)) else [value]
    return any(isinstance(part, str) and part.startswith("-") and not NUMBER.fullmatch(part) for part in parts)


def option_effects(effects: Effects, options: Mapping) -> list[Effect]:
    """Return all that is not plain in options, each path once."""
    found: list[Effect] = []
    for name, value in ((str(name), value) for name, value in options.items()):
        if effects.is_command_line and adds_option(value):
            found.append(Effect(name, CODE, "has a value that begins with a dash, which adds an option of its own"))
        found += effects_of(name, value, effects.shapes.get(name), effects.options)
    first: dict[str, Effect] = {}
    for effect in found:
        first.setdefault(effect.path, effect)
    return list(first.values())


def variable_effect(effects: Effects, name: str, value: t.Any) -> Effect | None:
    """Return the effect of a variable; None if it only tunes, and has a value of the right shape."""
    path = f"{ENVIRONMENT}{name}"
    if name.startswith(OWN_VARIABLES):
        return Effect(path, CODE, RESERVED)
    row, shape = effects.variables.find(name)
    if shape is not None and is_of_shape(value, shape):
        return None
    return Effect(path, *(row or unplain(value, None, shape)))


def known_effects(effects: Effects, options: Mapping, environment: Mapping) -> list[Effect]:
    """Return the effects of options and variables; the engine's rules and its image judge those that are unknown."""
    variables = (variable_effect(effects, name, value) for name, value in environment.items())
    found = [*option_effects(effects, options), *(effect for effect in variables if effect)]
    return [effect for effect in found if effect.kind != UNKNOWN]

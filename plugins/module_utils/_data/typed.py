# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this module util is internal to the collection; its interface may change at any time.

"""Turn mappings into dataclasses by their type hints, and name each part that has another type.

dataclasses.asdict() does the reverse. A hint may be a dataclass, a plain type, a list, a tuple or a mapping, with or
without the type of its parts, a union, a Literal, Any, or Annotated with a Check. Python 3.9 cannot evaluate X | None,
so a dataclass that is read on a Spark has Optional[X].
"""

from __future__ import annotations

import collections.abc
import copy
import dataclasses
import functools
import reprlib
import types
import typing as t

T = t.TypeVar("T")
KeyPath = tuple[t.Union[str, int], ...]

UNIONS = (t.Union, getattr(types, "UnionType", t.Union))
LISTS = (list, tuple, collections.abc.Sequence)
MAPPINGS = (dict, collections.abc.Mapping)
NAMES: dict[t.Any, str] = {
    str: "a string",
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    type(None): "null",
    **dict.fromkeys(LISTS, "a list"),
    **dict.fromkeys(MAPPINGS, "a mapping"),
}


class Check(t.NamedTuple):
    """A condition of an Annotated hint, and what the value must be, in words."""

    is_met: t.Callable[[t.Any], bool]
    words: str


class Mismatch(t.NamedTuple):
    """A part of a value that its hint does not allow, and why."""

    path: KeyPath
    reason: str

    def __str__(self) -> str:
        keys = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in self.path)
        return f"{keys.lstrip('.') or 'it'} {self.reason}"


class MismatchError(ValueError):
    """A value does not have the type that was asked for. The text names all parts that are wrong."""

    def __init__(self, mismatches: t.Sequence[Mismatch]) -> None:
        super().__init__("; ".join(map(str, mismatches)))
        self.mismatches = tuple(mismatches)


def type_name(hint: t.Any) -> str:
    """Return the name of a type as text."""
    if t.get_origin(hint) is t.Annotated:
        return type_name(t.get_args(hint)[0])
    if t.get_origin(hint) is t.Literal:
        return f"one of {', '.join(map(str, t.get_args(hint)))}"
    kind = t.get_origin(hint) or hint
    return "a mapping" if dataclasses.is_dataclass(hint) else NAMES.get(kind) or str(kind)


def has_type(value: t.Any, kind: t.Any) -> bool:
    """Return whether a value has a type. A boolean is not a number; a whole number also counts as float."""
    if isinstance(value, bool):
        return kind in (bool, object)
    return isinstance(value, (int, float) if kind is float else kind)


# Evaluating the hints of a dataclass takes longer than reading a value.
@functools.cache
def hints_of(kind: type) -> dict[str, t.Any]:
    return t.get_type_hints(kind, include_extras=True)


class _Reader:
    """Reads a value, and collects what is wrong with it. What it returns counts only if nothing is."""

    def __init__(self, ignore_unknown: bool, allow_null: bool = True) -> None:
        self.ignore_unknown = ignore_unknown
        self.allow_null = allow_null
        self.mismatches: list[Mismatch] = []

    def refuse(self, path: KeyPath, reason: str) -> None:
        self.mismatches.append(Mismatch(path, reason))

    def read_part(self, hint: t.Any, value: t.Any, path: KeyPath) -> t.Any:
        origin, parts = t.get_origin(hint) or hint, t.get_args(hint)
        if hint is t.Any:
            return value
        if origin is t.Annotated:
            return self._read_checked(parts[0], parts[1:], value, path)
        if origin in UNIONS:
            return self._read_union(parts, value, path)
        if origin is t.Literal:
            if not any(has_type(value, type(choice)) and value == choice for choice in parts):
                self.refuse(path, f"is {reprlib.repr(value)}, but must be {type_name(hint)}")
            return value
        is_mapping = dataclasses.is_dataclass(hint) or origin in MAPPINGS
        kind = collections.abc.Mapping if is_mapping else (list, tuple) if origin in LISTS else origin
        if not has_type(value, kind):
            self.refuse(path, f"must be {type_name(hint)}, not {reprlib.repr(value)}")
            return value
        if dataclasses.is_dataclass(hint):
            return self._read_fields(t.cast("type", hint), value, path)
        if parts and origin in MAPPINGS:
            return {
                self.read_part(parts[0], key, (*path, key)): self.read_part(parts[1], item, (*path, key))
                for key, item in value.items()
            }
        if parts and origin in LISTS:
            items = [self.read_part(parts[0], item, (*path, number)) for number, item in enumerate(value)]
            return tuple(items) if origin is tuple else items
        return value

    def _read_checked(self, hint: t.Any, checks: t.Iterable[Check], value: t.Any, path: KeyPath) -> t.Any:
        before = len(self.mismatches)
        result = self.read_part(hint, value, path)
        for check in checks:
            if len(self.mismatches) == before and not check.is_met(result):
                self.refuse(path, f"is {reprlib.repr(value)}, but must be {check.words}")
        return result

    def _read_union(self, hints: t.Sequence[t.Any], value: t.Any, path: KeyPath) -> t.Any:
        kinds = [hint for hint in hints if hint is not type(None)]
        if value is None and len(kinds) < len(hints):
            if not self.allow_null:
                self.refuse(path, "is null")
            return None
        if len(kinds) == 1:
            return self.read_part(kinds[0], value, path)
        of_fields: list[Mismatch] = []
        for kind in kinds:
            reader = _Reader(self.ignore_unknown, self.allow_null)
            result = reader.read_part(kind, value, path)
            if not reader.mismatches:
                return result
            if dataclasses.is_dataclass(kind) and isinstance(value, collections.abc.Mapping):
                of_fields += reader.mismatches
        # Of a dataclass among other types, the parts that are wrong say more.
        self.mismatches += of_fields
        if not of_fields:
            self.refuse(path, f"must be {' or '.join(map(type_name, kinds))}, not {reprlib.repr(value)}")
        return value

    def _read_fields(self, kind: type, value: t.Mapping[str, t.Any], path: KeyPath) -> t.Any:
        before = len(self.mismatches)
        fields = {field.name: field for field in dataclasses.fields(kind) if field.init}
        if not self.ignore_unknown:
            for key in value:
                if key not in fields:
                    self.refuse((*path, key), "is not known")
        result = {}
        for name, field in fields.items():
            if name in value:
                result[name] = self.read_part(hints_of(kind)[name], value[name], (*path, name))
            elif field.default is field.default_factory is dataclasses.MISSING:
                self.refuse((*path, name), "is missing")
        return kind(**result) if len(self.mismatches) == before else value


def read_typed(kind: type[T], value: t.Any, ignore_unknown: bool = False) -> T:
    """Return a value as an instance of a dataclass, or of another type. Raise MismatchError if it is none."""
    reader = _Reader(ignore_unknown)
    result = reader.read_part(kind, value, ())
    if reader.mismatches:
        raise MismatchError(reader.mismatches)
    return t.cast("T", result)


def find_mismatches(kind: t.Any, value: t.Any) -> list[Mismatch]:
    """Return what is wrong with a value. Unknown keys are not."""
    reader = _Reader(ignore_unknown=True)
    reader.read_part(kind, value, ())
    return reader.mismatches


def _without(value: t.Any, path: KeyPath) -> t.Any:
    """Return a copy of a value without one part, if it is there."""
    result = copy.copy(value)
    if len(path) > 1:
        result[path[0]] = _without(value[path[0]], path[1:])
    elif isinstance(path[0], int) or path[0] in value:
        del result[path[0]]
    return result


def keep_matching(kind: t.Any, value: t.Any) -> t.Any:
    """Return a copy of a value without the parts that have another type or are null; None if nothing is left.

    An item of a list goes as a whole. A missing part is no reason to drop another one.
    """
    reader = _Reader(ignore_unknown=True, allow_null=False)
    reader.read_part(kind, value, ())
    paths = set()
    for path, _reason in reader.mismatches:
        index = next((number for number, key in enumerate(path) if isinstance(key, int)), len(path))
        paths.add(path[: index + 1])
    if () in paths:
        return None
    # From the end of a list on, since what follows an item moves.
    for path in sorted(paths, reverse=True):
        value = _without(value, path)
    return value

# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this plugin util is internal to the collection; its interface may change at any time.

"""Read a file of another launcher as data."""

from __future__ import annotations

import dataclasses
import hashlib
import re
import typing as t
from pathlib import Path

import yaml

from ...module_utils._data.numbers import MAX_INT
from .._data.rows import CONTROL, describe
from .._recipe.recipe import Loader
from .formats import RecipeImportError

# The largest known one has 3 kB.
MOST_BYTES = 50_000
# An expression, a statement or a comment of Jinja.
JINJA = re.compile(r"\{\{|\{%|\{#")
# Values whose doubled braces may be those of JSON. Options are made of them, which are checked again.
TEMPLATES = ("command", "defaults")
MOST_DEPTH = 20


@dataclasses.dataclass(frozen=True)
class Source:
    """A file as data: its name, the hash of its text, its format, and its keys that were there twice."""

    name: str
    digest: str
    format: str
    data: t.Mapping[str, t.Any]
    doubles: t.Sequence[str]

    def mapping(self, key: str) -> dict[str, t.Any]:
        """Return a key with a mapping whose names are text; raises RecipeImportError."""
        value = self.data.get(key)
        if value is not None and not (isinstance(value, dict) and all(isinstance(name, str) for name in value)):
            raise RecipeImportError(f"{key} must be a mapping of names to values, not {value!r}.")
        return value or {}

    def text(self, key: str) -> str:
        """Return a key with a text; raises RecipeImportError."""
        value = self.data.get(key)
        if isinstance(value, (dict, list)):
            raise RecipeImportError(f"{key} must be text, not {value!r}.")
        return "" if value is None else str(value).strip()

    def is_set(self, key: str) -> bool:
        """Return whether a switch is on, which may be written as text."""
        return self.text(key).lower() in ("true", "yes", "on", "1")


class LastKeyLoader(Loader):
    """Let the last of several equal keys count, as the launchers do, and remember it."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.doubles: list[str] = []

    def check_keys(self, node: yaml.MappingNode) -> None:
        last: dict[t.Any, tuple[yaml.Node, yaml.Node]] = {}
        for key, value in node.value:
            name = (key.tag, key.value) if isinstance(key, yaml.ScalarNode) else id(key)
            self.doubles += [str(key.value)] * (name in last)
            last[name] = (key, value)
        node.value = list(last.values())


def read_bytes(path: Path) -> bytes:
    """Return the content of a file; raises RecipeImportError."""
    try:
        if not path.exists():
            raise RecipeImportError("There is no such file. Give another one with -e from=FILE.")
        if not path.is_file():
            raise RecipeImportError("It is not a file. Give a file with -e from=FILE.")
        with path.open("rb") as file:
            content = file.read(MOST_BYTES + 1)
    except (OSError, ValueError) as error:
        raise RecipeImportError(f"It cannot be read: {getattr(error, 'strerror', None) or error}.") from None
    if len(content) > MOST_BYTES:
        raise RecipeImportError("It has more than 50 kB, which no recipe has. Give another file.")
    return content


def check_values(value: t.Any, path: str = "", jinja: re.Pattern[str] | None = JINJA, depth: int = 0) -> None:
    """Raise RecipeImportError for names and values that no recipe has, or that a later program could interpret."""
    where = path or "The file"
    if depth > MOST_DEPTH:
        raise RecipeImportError(f"{where} is nested more than {MOST_DEPTH} levels deep, or contains itself.")
    if isinstance(value, dict):
        check_values([*value], path, depth=depth + 1)
        for key, part in value.items():
            check_values(
                part, f"{path}.{key}".lstrip("."), None if not depth and key in TEMPLATES else jinja, depth + 1
            )
    elif isinstance(value, list):
        for part in value:
            check_values(part, path, jinja, depth + 1)
    elif isinstance(value, (int, float)):
        # In this order also for .nan, which is not above anything.
        if not abs(value) <= MAX_INT:
            raise RecipeImportError(f"{where} has a number that is too large for an option.")
    elif CONTROL.search(str(value).replace("\n", "").replace("\t", "")):
        raise RecipeImportError(f"{where} has a control character. Remove it.")
    elif jinja and jinja.search(str(value)):
        raise RecipeImportError(
            f"{where} has a Jinja template, and nothing in the file is executed. Write the value instead."
        )


def format_of(data: t.Mapping[str, t.Any]) -> str:
    """Return the format of a recipe, as sparkrun decides it: it asks only whether the version is 1."""
    version = data.get("sparkrun_version") or data.get("recipe_version")
    is_first = bool(data.get("mods") or data.get("build_args")) if version is None else str(version) == "1"
    return "1" if is_first else "2"


def read(path: Path) -> Source:
    """Return a file as data; raises RecipeImportError."""
    content = read_bytes(path)
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise RecipeImportError(
            f"It is not text in UTF-8: byte {error.start + 1} is wrong. Save it as UTF-8."
        ) from None
    try:
        loader = LastKeyLoader(text)
        data = loader.get_single_data()
    except (yaml.YAMLError, ValueError, KeyError, AttributeError, RecursionError) as error:
        raise RecipeImportError(f"It is not valid YAML: {describe(error)}.") from None
    if not isinstance(data, dict):
        raise RecipeImportError("It must be a mapping of keys such as 'model' and 'command'.")
    check_values(data)
    return Source(path.name, hashlib.sha256(content).hexdigest(), format_of(data), data, loader.doubles)

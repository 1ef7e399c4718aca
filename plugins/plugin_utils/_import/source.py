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
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._data.rows import describe
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._import.formats import FORMATS, RecipeImportError
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._recipe.recipe import Loader

MOST_BYTES = 1_000_000
# An expression, a statement or a comment of Jinja. In format 1, doubled braces stand for those of JSON.
JINJA = re.compile(r"\{\{-?\s*[A-Za-z_]|\{%|\{#")


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
        raise RecipeImportError("It has more than 1 MB, which no recipe has. Give another file.")
    return content


def refuse_jinja(text: str) -> None:
    """Raise RecipeImportError for a template, whose values are not known here."""
    for number, line in enumerate(text.splitlines(), start=1):
        if JINJA.search(line) and not line.lstrip().startswith("#"):
            raise RecipeImportError(
                f"Line {number} has a Jinja template, and nothing in the file is executed. Write the value instead."
            )


def format_of(data: t.Mapping[str, t.Any]) -> str:
    """Return the format of a recipe. Without a version, as sparkrun decides it."""
    version = data.get("sparkrun_version") or data.get("recipe_version")
    if version is None:
        return "1" if data.get("mods") or data.get("build_args") else "2"
    if str(version) not in FORMATS.formats:
        known = " and ".join(FORMATS.formats)
        raise RecipeImportError(f"Its recipe_version is {version!r}, but only {known} can be imported.")
    return str(version)


def read(path: Path) -> Source:
    """Return a file as data; raises RecipeImportError."""
    content = read_bytes(path)
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise RecipeImportError(
            f"It is not text in UTF-8: byte {error.start + 1} is wrong. Save it as UTF-8."
        ) from None
    refuse_jinja(text)
    try:
        loader = LastKeyLoader(text)
        data = loader.get_single_data()
    except (yaml.YAMLError, ValueError, KeyError, AttributeError, RecursionError) as error:
        raise RecipeImportError(f"It is not valid YAML: {describe(error)}.") from None
    if not isinstance(data, dict):
        raise RecipeImportError("It must be a mapping of keys such as 'model' and 'command'.")
    return Source(path.name, hashlib.sha256(content).hexdigest(), format_of(data), data, loader.doubles)

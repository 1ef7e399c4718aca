# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this plugin util is internal to the collection; its interface may change at any time.

"""Read data files against a table of their keys, and report all errors of a file at once."""

from __future__ import annotations

import dataclasses
import re
import typing as t
from pathlib import Path

import yaml
from ansible.errors import AnsibleError

from ...module_utils._data.typed import has_type, type_name
from .spelling import did_you_mean

# Of both sets, and what no encoding writes; of the rest a terminal shows something.
CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


class DataError(AnsibleError):
    """An unusable data file of this collection. Ansible ends with the message, without a traceback."""


@dataclasses.dataclass(frozen=True)
class Field:
    """The type and the limits of a key."""

    kind: type
    required: bool = False
    default: t.Any = None
    choices: tuple[t.Any, ...] = ()
    pattern: re.Pattern[str] | None = None
    # The pattern in words.
    form: str = ""
    # Text is printed, so it has no control characters. True allows line breaks.
    lines: bool = False
    least: int | None = None
    most: int | None = None
    # Each part of a list, or each value of a mapping whose keys are free.
    each: Field | None = None
    # Values that are no choice although they are known, each with the reason.
    refused: t.Mapping[str, str] = dataclasses.field(default_factory=dict)
    fields: t.Mapping[str, Field] | None = None


def check_value(path: str, value: t.Any, field: Field) -> list[str]:
    if not has_type(value, field.kind):
        return [f"{path} must be {type_name(field.kind)}, not {value!r}"]
    if field.fields is not None:
        return check_mapping(path, value, field.fields)
    if field.each is not None:
        return check_parts(path, value, field.each)
    if isinstance(value, str) and value in field.refused:
        return [f"{path} is {value!r}, which is not offered: {field.refused[value]}"]
    if field.choices and value not in field.choices:
        choices = ", ".join(str(choice) for choice in field.choices)
        return [f"{path} is {value!r}, but must be one of {choices}{did_you_mean(str(value), map(str, field.choices))}"]
    if field.least is not None and value < field.least:
        return [f"{path} is {value}, but must be {field.least} or more"]
    if field.most is not None and value > field.most:
        return [f"{path} is {value}, but must be {field.most} or less"]
    if field.pattern and not field.pattern.fullmatch(value):
        return [f"{path} is {value!r}, but must be {field.form}"]
    if field.kind is str and CONTROL.search(value.replace("\n", "") if field.lines else value.rstrip("\n")):
        kind = "text without control characters" if field.lines else "one line of text without control characters"
        return [f"{path} is {value!r}, but must be {kind}"]
    return []


def check_parts(path: str, value: t.Any, each: Field) -> list[str]:
    """Each part of a list or a mapping; the names in a mapping are text, which 1.3, no and off are not."""
    if isinstance(value, list):
        return [error for index, part in enumerate(value) for error in check_value(f"{path}[{index}]", part, each)]
    prefix = f"{path}." if path else ""
    errors = [f"{prefix}{key} must be text; put it in quotes" for key in value if not isinstance(key, str)]
    for key, part in value.items():
        if part is not None:
            errors += check_value(f"{prefix}{key}", part, each)
        elif each.required:
            errors.append(f"{prefix}{key} is empty")
    return errors


def unknown(path: str, key: t.Any, known: t.Iterable[str]) -> str:
    """Return the error for an unknown key, with the likely key or all of them."""
    known = list(known)
    if str(key) in known:
        return f"{path} must be text; put it in quotes"
    return f"{path} is not known{did_you_mean(str(key), known) or '; there are ' + ', '.join(known)}"


def check_mapping(path: str, data: t.Mapping[t.Any, t.Any], fields: t.Mapping[str, Field]) -> list[str]:
    prefix = f"{path}." if path else ""
    errors = [unknown(f"{prefix}{key}", key, fields) for key in data if key not in fields]
    for key, field in fields.items():
        if data.get(key) is not None:
            errors += check_value(f"{prefix}{key}", data[key], field)
        elif field.required:
            errors.append(f"{prefix}{key} is missing")
    return errors


def refuse_doubles(node: yaml.MappingNode) -> None:
    """Of a key that is there twice the last would win."""
    seen = set()
    for key in (key for key, _value in node.value if isinstance(key, yaml.ScalarNode)):
        if (key.tag, key.value) in seen:
            raise yaml.MarkedYAMLError(problem=f"the key '{key.value}' is there twice", problem_mark=key.start_mark)
        seen.add((key.tag, key.value))


def describe(error: Exception) -> str:
    """Return the position and the reason of a YAML error."""
    mark = getattr(error, "problem_mark", None)
    if mark is None:
        return " ".join(str(error).split())
    return f"line {mark.line + 1}, column {mark.column + 1}: {getattr(error, 'problem', None) or 'it ends too early'}"


def mappings(node: yaml.Node | None, seen: set[int]) -> t.Iterator[yaml.MappingNode]:
    """Yield the mappings of a text, each once, even with several aliases."""
    if id(node) in seen or not isinstance(node, yaml.CollectionNode):
        return
    seen.add(id(node))
    parts = node.value
    if isinstance(node, yaml.MappingNode):
        yield node
        parts = [part for pair in node.value for part in pair]
    for part in parts:
        yield from mappings(part, seen)


# The parser in C if it is available: it takes a tenth of the time.
class Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """A loader that refuses duplicate keys."""

    def get_single_node(self) -> yaml.Node | None:
        node: yaml.Node | None = super().get_single_node()
        for mapping in mappings(node, set()):
            refuse_doubles(mapping)
        return node


def refuse(path: Path, errors: t.Sequence[str]) -> None:
    if errors:
        raise DataError("\n".join([f"{path} cannot be used. Correct in it:", *(f"- {error}" for error in errors)]))


def load(path: Path, fields: Field) -> dict[str, t.Any]:
    """Return a file of data, which is a mapping; raises DataError with all that is wrong in it at once."""
    try:
        data = yaml.load(path.read_text(encoding="utf-8"), Loader=Loader)
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path} cannot be read: {error}") from None
    except (yaml.YAMLError, ValueError) as error:
        raise DataError(f"{path} is not valid YAML: {describe(error)}") from None
    refuse(path, check_value("the file", data, dataclasses.replace(fields, each=None, fields=None)))
    refuse(path, check_value("", data, fields))
    return dict(data)

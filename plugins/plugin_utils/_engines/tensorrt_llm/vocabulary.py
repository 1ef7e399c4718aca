# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this plugin util is internal to the collection; its interface may change at any time.

"""The keys of a release family's file as a table; schema.py explains each of them."""

from __future__ import annotations

import typing as t

from ....module_utils._docker import release
from ..._data.rows import Field, check_mapping, check_value

Said = t.Mapping[str, t.Any]

ROOT = "TorchLlmArgs"
SPECULATION = "SpeculativeConfig"
WORDS: dict[str, Said] = {
    **{name: {"type": name} for name in ("bool", "int", "float", "str", "any")},
    "count": {"type": "int", "min": 0},
    "size": {"type": "int", "min": 1},
    "fraction": {"type": "float", "min": 0, "max": 1},
}
KINDS = ("is", "values", "list", "map", "section", "any_of", "never")
NEWER = "newer"

RELEASE = Field(str, pattern=release.RELEASE, form="a release such as 1.3.0rc12")
WORD = Field(str, choices=tuple(word + null for word in WORDS for null in ("", " or null")))
TEXT = Field(str, required=True)
TEXTS = Field(list, each=TEXT)
FIELD: dict[str, Field] = {
    "is": WORD,
    "values": TEXTS,
    **dict.fromkeys(("list", "map"), Field(object)),
    "any_of": Field(list),
    **dict.fromkeys(("section", "never", "alias", "advice", "after", "instead"), Field(str)),
    **dict.fromkeys(("nullable", "required"), Field(bool)),
    **dict.fromkeys(("min", "max", "above", "below"), Field(float)),
    "newer": TEXTS,
    "min_items": Field(int),
    "keys": Field(str, choices=("int",)),
    "fold": Field(str, choices=("lower", "upper")),
    **dict.fromkeys(("since", "until"), RELEASE),
}
SECTION: dict[str, Field] = {
    "fields": Field(dict, each=Field(object)),
    "extends": Field(str),
    "renamed": Field(dict, each=Field(str)),
    "newer": TEXTS,
    "tag": Field(str),
    "variants": Field(dict, each=TEXT),
    "since": RELEASE,
    "known": Field(list, each=RELEASE),
}
FAMILY: dict[str, Field] = {
    "extends": Field(str),
    "first": Field(str, required=True, pattern=RELEASE.pattern, form=RELEASE.form),
    "last": RELEASE,
    "known": Field(list, required=True, each=RELEASE),
    "tags": Field(dict, each=RELEASE),
    "draft_model_key": TEXT,
    **dict.fromkeys(("needs_model", "needs_length"), Field(list, required=True, each=TEXT)),
    "refused_types": Field(dict, required=True, each=TEXT),
    "schedule_start": Field(int),
    **dict.fromkeys(("tree_by_width", "two_models_end", "graph_sizes_together"), Field(bool, required=True)),
    "reasons": Field(list),
    "sections": Field(dict, required=True, each=Field(dict, fields=SECTION)),
}


def inner(said: Said) -> list[t.Any]:
    """Return the fields inside a field."""
    return [*(said[key] for key in ("list", "map") if key in said), *said.get("any_of", [])]


def field_errors(path: str, said: t.Any, before: t.Any = None) -> list[str]:
    """Return the errors of a field and its subfields; a field of an earlier family may omit keys."""
    if not isinstance(said, dict):
        return check_value(path, said, WORD)
    errors = check_mapping(path, said, FIELD)
    if errors:
        return errors
    kinds = [kind for kind in KINDS if kind in said]
    if len(kinds) > 1 or not (kinds or before):
        errors.append(f"{path} must have one of {', '.join(KINDS)}, but has {' and '.join(kinds) or 'none of them'}")
    return errors + [error for one in inner(said) for error in field_errors(path, one)]


def section_errors(path: str, said: Said, before: Said, extends: bool) -> list[str]:
    """Return the errors in the fields of a section; the extended family may have some of them."""
    fields, known = said.get("fields") or {}, before.get("fields") or {}
    errors = []
    for name, field in fields.items():
        if field is None or (extends and field == NEWER):
            continue
        where = f"{path}.fields.{name}"
        errors += field_errors(where, field, known.get(name))
        after = field.get("after") if isinstance(field, dict) else None
        if after is not None and after not in (known.keys() | fields.keys()) - {name}:
            errors.append(f"{where}.after is '{after}', which is no other field of the section")
    return errors


def said_errors(said: Said, before: Said) -> list[str]:
    """Return the errors of a file; `before` is the family that it extends, or the defaults."""
    errors = check_mapping("", {**before, **said}, FAMILY)
    if errors:
        return errors
    sections = before.get("sections", {})
    return [
        error
        for name, section in said.get("sections", {}).items()
        if section is not None
        for error in section_errors(f"sections.{name}", section, sections.get(name, {}), bool(said.get("extends")))
    ]


def names_in(section: Said) -> t.Iterator[tuple[str, str]]:
    """Yield the other sections that a section names, each with where."""
    yield from ((f"variants.{key}", name) for key, name in (section.get("variants") or {}).items())
    if section.get("extends"):
        yield "extends", section["extends"]
    for key, said in (section.get("fields") or {}).items():
        waiting = [said]
        while waiting:
            one = waiting.pop()
            if isinstance(one, dict):
                waiting += inner(one)
                if "section" in one:
                    yield f"fields.{key}", one["section"]


def whole_errors(family: Said) -> list[str]:
    """Return the references of a whole family that lead nowhere."""
    sections: Said = family["sections"]
    errors = [f"sections.{name} is missing" for name in (ROOT, SPECULATION) if name not in sections]
    errors += [
        f"sections.{name}.{where} names the section '{other}', which there is not"
        for name, section in sections.items()
        for where, other in names_in(section)
        if other not in sections
    ]
    errors += [
        f"sections.{name} must have tag and variants, or none of them"
        for name, section in sections.items()
        if ("tag" in section) != ("variants" in section)
    ]
    types = sections.get(SPECULATION, {}).get("variants", {})
    return errors + [
        f"{key} names the decoding type '{name}', but there are {', '.join(types)}"
        for key in ("needs_model", "needs_length", "refused_types")
        for name in family[key]
        if name not in types
    ]

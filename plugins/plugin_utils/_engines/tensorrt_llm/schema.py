# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this plugin util is internal to the collection; its interface may change at any time.

"""Read the release families of TensorRT-LLM, one file of `families/` each, with their engine options.

A family, named like its file
    extends            another family, from which all other values are inherited
    first, last        its first and last release; without last it ends where another family begins
    known              the releases that were read for it; any other one of the family is a warning
    tags               moving tags, each with the release that it stands for
    draft_model_key    the key of speculative_config for the draft model
    needs_model        decoding types that need a draft model
    needs_length       decoding types that need a draft length
    refused_types      decoding types of the schema that the server refuses, with the reason
    schedule_start     the batch size that draft_len_schedule must hold; null if its smallest one counts
    tree_by_width      true if dynamic_tree_max_topK alone turns the dynamic tree on
    two_models_end     true if drafting as two models is deprecated
    graph_sizes_together  true if cuda_graph_config may have batch_sizes and max_batch_size, which must agree
    sections           the mappings, by their names in TensorRT-LLM; `TorchLlmArgs` is the whole file

A section
    fields             field name -> field; the order is the order of the rendered file
    extends            another section whose fields come first
    renamed            names that are not fields, or no longer -> the replacement
    newer              names of newer releases; a final * matches any ending
    since              of a variant: the first release of the family that is known to have it
    known              the releases that it was read for, besides those of the family; inherited by what extends it
A section with `tag` is a union: the value under that name chooses the section in `variants`.

A field is a word (bool, int, count, size, float, fraction, str, any; followed by `or null` if null is allowed) or a
mapping with one of
    is                 a word
    values             the allowed texts; with fold (upper or lower) the server ignores case
    list               the field of each item
    map                the field of each value; keys (int) is the type of the keys
    section            the name of a section
    any_of             several fields
    never              the reason why a file cannot have it
and optionally
    nullable           true if null is allowed
    required           true if the key is mandatory
    min, max           bounds; above and below exclude the bound itself
    newer              values of newer releases, spelled as in a section's newer
    min_items          the minimum length of a list
    alias              another name that the server accepts
    since              the first release of the family that is known to have this field
    instead            the replacement in releases before that one
    until              the first release that is known to lack it; an earlier one may lack it as well
    advice             the warning if it is set
A text that is used several times has a YAML anchor; `reasons` is a place for such texts.

In a family that extends another one, `fields` and `renamed` have only the differences, and null removes a name or a
whole section. A field may be `newer` (only newer releases have it), and may have only its changed keys. It keeps its
position, or follows the field that `after` names. Any other key of a section replaces the inherited one.
"""

from __future__ import annotations

import typing as t
from pathlib import Path

from ....module_utils._docker.release import version_of
from ..._data import rows
from .vocabulary import KINDS, NEWER, WORDS, said_errors, whole_errors

Field = t.Mapping[str, t.Any]
Section = t.Mapping[str, t.Any]
Family = t.Mapping[str, t.Any]
Said = dict[str, t.Any]

DIRECTORY = Path(__file__).parent / "families"
# Keys that are not inherited.
OWN: Said = {"last": None, "tags": {}}
MADE_OF = ("extends", "reasons")
# Defaults of a family that extends no other one.
WITHOUT: Said = {"schedule_start": None, "sections": {}}


def _in_full(said: t.Any) -> Said:
    return dict(said) if isinstance(said, dict) else {"is": said}


def _changed_field(before: t.Any, said: t.Any) -> t.Any:
    """Return the changed field. A mapping without a type adds its keys to the inherited field."""
    if not isinstance(said, dict):
        return said
    change = {key: value for key, value in said.items() if key != "after"}
    return change if any(kind in change for kind in KINDS) else {**_in_full(before), **change}


def _changed_fields(before: t.Mapping[str, t.Any], changes: t.Mapping[str, t.Any]) -> Said:
    names = [name for name in before if changes.get(name, before) is not None and changes.get(name) != NEWER]
    for name, said in changes.items():
        if said is None or said == NEWER:
            continue
        after = said.get("after") if isinstance(said, dict) else None
        if after is not None and name in names:
            names.remove(name)
        if name not in names:
            names.insert(len(names) if after is None else names.index(after) + 1, name)
    return {
        name: _changed_field(before.get(name), changes[name]) if name in changes else before[name] for name in names
    }


def _changed_section(before: Section, change: Section) -> Said:
    section = {**before, **change}
    if "fields" in change:
        section["fields"] = _changed_fields(before.get("fields") or {}, change["fields"])
        gone = [name for name, said in change["fields"].items() if said == NEWER]
        section["newer"] = [*(section.get("newer") or ()), *gone]
    if "renamed" in change:
        section["renamed"] = {**before.get("renamed", {}), **change["renamed"]}
        section["renamed"] = {old: new for old, new in section["renamed"].items() if new is not None}
    return {key: value for key, value in section.items() if value is not None}


def overlaid(before: Said, change: Said) -> Said:
    """Return a family from an inherited one and its differences."""
    sections = {
        name: _changed_section(before["sections"].get(name, {}), said)
        for name, said in {**{key: {} for key in before["sections"]}, **change.get("sections", {})}.items()
        if said is not None
    }
    return {**before, **OWN, **change, "sections": sections}


def field(said: t.Any) -> Field:
    """Return a field with its type (that of its word; list, map, section, union or any) and its content."""
    more = _in_full(said)
    kind = next(kind for kind in KINDS if kind in more)
    value = more.pop(kind)
    word, _or, null = value.partition(" or ") if kind == "is" else ("", "", "")
    nullable = more.pop("nullable", null == "null")
    made = {**(WORDS[word] if word else _holding(kind, value)), **more}
    return {**made, "null": True} if nullable else made


def _holding(kind: str, value: t.Any) -> Field:
    if kind == "list":
        return {"type": "list", "items": field(value)}
    if kind == "map":
        return {"type": "map", "of": field(value)}
    if kind == "any_of":
        return {"type": "union", "any_of": [field(other) for other in value]}
    types = {"values": "str", "never": "any", "section": "section"}
    return {"type": types[kind], kind: value}


def _section(said: Section) -> Section:
    fields = {} if "tag" in said else {"fields": {name: field(one) for name, one in said.get("fields", {}).items()}}
    return {**said, **fields}


def read(directory: Path) -> tuple[Family, ...]:
    """Return the families of a directory, the oldest first, each with its name and ancestors.

    Raises DataError, with all that is wrong in the first file that cannot be used.
    """
    files = {path.stem: path for path in sorted(directory.glob("*.yml"))}
    said = {name: rows.load(path, rows.Field(dict)) for name, path in files.items()}
    made: dict[str, Said] = {}

    def whole(name: str, above: t.Sequence[str] = ()) -> Said:
        if name not in made:
            base = said[name].get("extends")
            others = [other for other in said if other not in (name, *above)]
            allowed = " or ".join(map(repr, others)) or "left out"
            wrong = base is not None and base not in others
            rows.refuse(files[name], [f"extends is {base!r}, but must be {allowed}"] if wrong else [])
            before = dict(WITHOUT) if base is None else dict(whole(base, (name, *above)))
            lineage = [name, *before.pop("lineage", [])]
            rows.refuse(files[name], said_errors(said[name], before))
            # Keys of the file that are not facts of the family.
            family = {key: value for key, value in overlaid(before, said[name]).items() if key not in MADE_OF}
            rows.refuse(files[name], whole_errors(family))
            made[name] = {**family, "lineage": lineage}
        return made[name]

    result = [
        {**family, "name": name, "sections": {key: _section(section) for key, section in family["sections"].items()}}
        for name, family in ((name, whole(name)) for name in files)
    ]
    return tuple(sorted(result, key=lambda family: version_of(family["first"]) or ()))


FAMILIES = read(DIRECTORY)

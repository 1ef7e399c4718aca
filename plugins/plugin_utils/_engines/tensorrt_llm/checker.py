# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this plugin util is internal to the collection; its interface may change at any time.

"""Engine options against the schema of a release family: names, types, bounds and spellings of single values."""

from __future__ import annotations

import fnmatch
import re
import typing as t

from ....module_utils._docker.release import version_of
from ..._data.spelling import did_you_mean, is_misspelt, same_word
from ..findings import Report, seen
from .releases import Release
from .schema import Field, Section
from .vocabulary import ROOT


def _is_newer(word: str, patterns: t.Iterable[str]) -> bool:
    return any(fnmatch.fnmatchcase(word, pattern) for pattern in patterns)


def _bounds(field: Field) -> str:
    words = {"min": "at least", "above": "above", "max": "at most", "below": "below"}
    bounds = [f"{word} {field[key]}" for key, word in words.items() if key in field]
    return f" ({', '.join(bounds)})" if bounds else ""


def _expected(field: Field) -> str:
    """Return the values that a field may have, as the middle of a sentence."""
    if field["type"] == "union":
        return " or ".join(_expected(other) for other in field["any_of"])
    if "values" in field:
        return "one of " + ", ".join(field["values"])
    return {
        "any": "anything",
        "bool": "true or false",
        "int": "a whole number" + _bounds(field),
        "float": "a number" + _bounds(field),
        "str": "a text",
        "list": "a list",
        "map": "a mapping",
        "section": "a mapping",
    }[field["type"]]


# Values against the schema


def _has_shape(field: Field, value: t.Any) -> bool:
    kind = field["type"]
    if kind == "any":
        return True
    if kind == "union":
        return any(_has_shape(other, value) for other in field["any_of"])
    if isinstance(value, bool):
        return kind == "bool"
    shapes: dict[str, tuple[type, ...]] = {
        "bool": (bool,),
        "int": (int,),
        "float": (int, float),
        "str": (str,),
        "list": (list, tuple),
        "map": (dict,),
        "section": (dict,),
    }
    return isinstance(value, shapes[kind])


def _in_bounds(field: Field, value: float) -> bool:
    return (
        value >= field.get("min", value)
        and value <= field.get("max", value)
        and ("above" not in field or value > field["above"])
        and ("below" not in field or value < field["below"])
    )


def _join(path: str, key: object) -> str:
    return f"{path}.{key}" if path else str(key)


class Checker:
    """Checks values against the schema of a release and returns them in the schema's order and spelling."""

    def __init__(self, release: Release, report: Report) -> None:
        self.release = release
        self.family = release.family
        self.sections: t.Mapping[str, Section] = release.family["sections"]
        self.report = report

    def fields(self, name: str) -> dict[str, Field]:
        """Return the fields of a section, those of the section it extends first."""
        section = self.sections[name]
        inherited = self.fields(section["extends"]) if "extends" in section else {}
        return {**inherited, **section["fields"]}

    def _gathered(self, name: str, what: str) -> list[t.Any]:
        section = self.sections[name]
        inherited = self._gathered(section["extends"], what) if "extends" in section else []
        return [*inherited, section.get(what, ())]

    def _renamed(self, name: str) -> dict[str, str]:
        return {old: new for table in self._gathered(name, "renamed") for old, new in dict(table).items()}

    def _newer(self, name: str) -> list[str]:
        return [pattern for patterns in self._gathered(name, "newer") for pattern in patterns]

    def _known(self, name: str) -> t.Sequence[str]:
        """Return the releases that a section was read for, besides those of the family."""
        section = self.sections[name]
        inherits = "extends" in section and "known" not in section
        return self._known(section["extends"]) if inherits else section.get("known", ())

    def value(self, field: Field, value: t.Any, path: str) -> t.Any:
        """Return the value as it is written, or the same value and an error."""
        if "never" in field:
            self.report.error(path, f"remove it: {field['never']}")
            return value
        if "since" in field:
            self._check_age(field["since"], path, "is not a key", field.get("instead"))
        if "until" in field:
            self._check_end(field["until"], path)
        if "advice" in field:
            self.report.warn(path, field["advice"])
        if value is None and field.get("null"):
            return None
        if not _has_shape(field, value):
            self.report.error(path, f"must be {_expected(field)}, not {seen(value)}")
            return value
        check: t.Callable[[Field, t.Any, str], t.Any] = getattr(self, f"_{field['type']}")
        return check(field, value, path)

    def _check_age(self, since: str, path: str, lack: str, instead: str | None = None) -> None:
        version, first = self.release.version, version_of(since)
        if version is None:
            self.report.warn(path, f"the oldest releases of family {self.family['name']} do not have this key")
        elif first is None or version >= first:
            return
        elif self.release.is_unread and not instead:
            self.report.warn(path, f"{since} has it, {self.release.name} may not have it yet; the image decides")
        else:
            remedy = f"write {instead}" if instead else "later releases have it"
            self.report.error(path, f"{lack} of {self.release.name} yet; {remedy}")

    def _check_end(self, until: str, path: str) -> None:
        version, end = self.release.version, version_of(until)
        if version is None or end is None:
            return
        if version >= end:
            self.report.error(path, f"is no key of {self.release.name} any more; remove it")
        elif self.release.is_unread:
            self.report.warn(path, f"is gone from {until} on, and may be gone in {self.release.name}; remove it if so")

    def _any(self, field: Field, value: t.Any, path: str) -> t.Any:
        return value

    def _bool(self, field: Field, value: bool, path: str) -> bool:
        return value

    def _int(self, field: Field, value: int, path: str) -> int:
        return t.cast(int, self._float(field, value, path))

    def _float(self, field: Field, value: float, path: str) -> float:
        if not _in_bounds(field, value):
            self.report.error(path, f"must be {_expected(field)}, not {value}")
        return value

    def _str(self, field: Field, value: str, path: str) -> str:
        values = field.get("values")
        folded = {"lower": value.lower(), "upper": value.upper()}.get(field.get("fold", ""), value)
        if not values or folded in values:
            return folded if values else value
        self._unknown_value(field, value, values, f"must be {_expected(field)}", path)
        return value

    def _unknown_value(self, among: Field, value: str, known: t.Collection[str], rule: str, path: str) -> None:
        newer = _is_newer(value, among.get("newer", ()))
        if self.release.is_unread and (newer or not is_misspelt(value, known)):
            self.report.warn(path, f"'{value}' is not known here; the image decides")
        elif newer:
            self.report.error(path, f"'{value}' is of a newer release than release family {self.family['name']}")
        else:
            self.report.error(path, f"{rule}, not '{value}'{did_you_mean(value, known)}")

    def _list(self, field: Field, value: list[t.Any], path: str) -> list[t.Any]:
        if len(value) < field.get("min_items", 0):
            self.report.error(path, "must not be an empty list")
        return [self.value(field["items"], item, f"{path}[{index}]") for index, item in enumerate(value)]

    def _map(self, field: Field, value: dict[t.Any, t.Any], path: str) -> dict[t.Any, t.Any]:
        pairs = {self._map_key(field, key, path): (key, item) for key, item in value.items()}
        ordered = sorted(pairs, key=lambda key: (not isinstance(key, int), key if isinstance(key, int) else str(key)))
        return {key: self.value(field["of"], pairs[key][1], _join(path, pairs[key][0])) for key in ordered}

    def _map_key(self, field: Field, key: t.Any, path: str) -> t.Any:
        if field.get("keys") != "int":
            return str(key)
        # Module parameters travel as JSON, which makes texts of all keys.
        if re.fullmatch(r"-?\d+", str(key)):
            return int(key)
        self.report.error(_join(path, key), "the key must be a whole number")
        return key

    def _union(self, field: Field, value: t.Any, path: str) -> t.Any:
        fitting = next(other for other in field["any_of"] if _has_shape(other, value))
        return self.value(fitting, value, path)

    def _section(self, field: Field, value: dict[str, t.Any], path: str) -> dict[str, t.Any]:
        return self.section(field["section"], value, path)

    def section(self, name: str, value: t.Mapping[str, t.Any], path: str) -> dict[str, t.Any]:
        """Return the mapping of a section, in the order of its fields."""
        if "tag" in self.sections[name]:
            return self._variant(name, value, path)
        return self._members(name, value, path)

    def _variant(self, name: str, value: t.Mapping[str, t.Any], path: str) -> dict[str, t.Any]:
        section = self.sections[name]
        tag, variants = section["tag"], section["variants"]
        where = _join(path, tag)
        if tag not in value:
            self.report.error(where, f"is missing; it must be one of {', '.join(variants)}")
            return dict(value)
        chosen = value[tag]
        if not isinstance(chosen, str) or chosen not in variants:
            self._report_unknown_variant(section, chosen, where)
            return dict(value)
        if "since" in self.sections[variants[chosen]]:
            self._check_age(self.sections[variants[chosen]]["since"], where, f"'{chosen}' is not a value")
        members = {key: item for key, item in value.items() if key != tag}
        siblings = {other: self.fields(target) for other, target in variants.items() if other != chosen}
        return {tag: chosen, **self._members(variants[chosen], members, path, tag, siblings)}

    def _report_unknown_variant(self, section: Section, chosen: t.Any, where: str) -> None:
        rule = f"must be one of {', '.join(section['variants'])}"
        if not isinstance(chosen, str):
            self.report.error(where, f"{rule}, not {seen(chosen)}")
        else:
            self._unknown_value(section, chosen, section["variants"], rule, where)

    def _members(
        self,
        name: str,
        value: t.Mapping[str, t.Any],
        path: str,
        tag: str = "",
        siblings: t.Mapping[str, t.Mapping[str, Field]] | None = None,
    ) -> dict[str, t.Any]:
        fields = self.fields(name)
        aliases = {field["alias"]: key for key, field in fields.items() if "alias" in field}
        unknown = {key: item for key, item in value.items() if key not in fields and key not in aliases}
        new = {key: item for key, item in unknown.items() if self._is_new_key(name, str(key), siblings or {})}
        for key in unknown:
            if key in new:
                self.report.warn(_join(path, key), "is not known here; the image decides")
            else:
                self.report.error(_join(path, key), self._unknown_key(name, str(key), tag, siblings or {}))
        result: dict[str, t.Any] = {}
        for key, field in fields.items():
            spellings = dict.fromkeys((key, field.get("alias", key)))
            given = [spelling for spelling in spellings if spelling in value]
            if len(given) > 1:
                self.report.error(_join(path, given[1]), f"is another name of {given[0]}; give only one of them")
            if given:
                result[key] = self.value(field, value[given[0]], _join(path, given[0]))
            elif field.get("required"):
                self.report.error(_join(path, key), "is missing")
        return {**result, **new}

    def _is_new_key(self, name: str, key: str, siblings: t.Mapping[str, t.Mapping[str, Field]]) -> bool:
        """Return whether an unread release may have a key: one that is misplaced, renamed or misspelt is none."""
        renamed, newer = self._renamed(name), self._newer(name)
        if not self.release.is_newer_than([*self.family["known"], *self._known(name)]) or key in renamed:
            return False
        owned = any(key in others for others in siblings.values()) or any(self._places(key))
        return _is_newer(key, newer) or not (owned or is_misspelt(key, [*self.fields(name), *renamed]))

    def _unknown_key(self, name: str, key: str, tag: str, siblings: t.Mapping[str, t.Mapping[str, Field]]) -> str:
        family = self.family["name"]
        renamed = self._renamed(name)
        if key in renamed:
            return f"is not a key of release family {family}; use {renamed[key]}"
        if _is_newer(key, self._newer(name)):
            return f"is a key of a newer release than release family {family}"
        owners = [variant for variant, fields in siblings.items() if key in fields]
        if owners:
            return f"is a key of {tag} {', '.join(owners)} only"
        unknown = f"is not a key of release family {family}"
        fields = self.fields(name)
        spelling = same_word(key, fields)
        elsewhere = [] if spelling else [place for place in self._places(key) if place]
        if elsewhere:
            return f"{unknown} here; did you mean '{elsewhere[0]}'?"
        return unknown + did_you_mean(key, [*fields, *renamed])

    def _places(self, key: str) -> t.Iterator[str]:
        """Yield the places where a misplaced key belongs: at the top, or in one of the top's sections."""
        top = self.fields(ROOT)
        if key in top and "never" not in top[key]:
            yield key
        for parent, field in top.items():
            if field["type"] == "section" and "tag" not in self.sections[field["section"]]:
                fields = self.fields(field["section"])
                if key in fields:
                    yield f"{parent}.{key}"

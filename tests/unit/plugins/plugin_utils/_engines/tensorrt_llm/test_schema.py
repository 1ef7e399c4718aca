# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.dgx_spark.speculative.plugins.module_utils._docker.release import version_of
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._engines.findings import Report
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._engines.tensorrt_llm import schema
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._engines.tensorrt_llm.checker import ROOT, Checker
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._engines.tensorrt_llm.releases import (
    Release,
    family_of,
)
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._engines.tensorrt_llm.schema import FAMILIES


def fields_within(field: t.Mapping[str, t.Any]) -> t.Iterator[t.Mapping[str, t.Any]]:
    yield field
    for inner in (*field.get("any_of", ()), *(field[key] for key in ("items", "of") if key in field)):
        yield from fields_within(inner)


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: str(family["name"]))
def test_schema_is_sound(family: dict[str, t.Any]) -> None:
    sections = family["sections"]
    checker = Checker(Release(family["first"], family), Report())
    used = {ROOT}
    for name, section in sections.items():
        used |= {section["extends"]} if "extends" in section else set()
        used |= set(section.get("variants", {}).values())
        for key, field in {} if "tag" in section else checker.fields(name).items():
            for inner in fields_within(field):
                assert hasattr(checker, f"_{inner['type']}"), f"{name}.{key}"
                used |= {inner["section"]} if "section" in inner else set()
    assert used == set(sections)
    assert family["draft_model_key"] in checker.fields("DecodingBaseConfig")
    assert version_of(family["first"])
    assert [family_of(version) for version in map(version_of, family["known"]) if version] == [family] * len(
        family["known"]
    )


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: str(family["name"]))
def test_families_say_the_same_things(family: dict[str, t.Any]) -> None:
    assert set(family) == set(FAMILIES[-1])


def test_since_is_a_release_of_the_family() -> None:
    for family in FAMILIES:
        first = version_of(family["first"])
        assert first is not None
        for section in family["sections"].values():
            for key, field in section.get("fields", {}).items():
                since = version_of(field.get("since", family["first"]))
                assert since is not None, key
                assert since >= first, key


BEFORE: dict[str, t.Any] = {
    "first": "1.0.0",
    "last": "1.0.9",
    "tags": {"moving": "1.0.1"},
    "draft_model_key": "model",
    "sections": {
        "A": {"fields": {"one": "int", "two": {"list": "str"}, "three": "bool or null"}, "renamed": {"x": "one"}},
        "B": {"tag": "kind", "variants": {"a": "A"}, "newer": ["b"]},
        "C": {"fields": {}},
    },
}


def changed(fields: dict[str, t.Any]) -> dict[str, t.Any]:
    """Section A of a family in which these fields differ."""
    section: dict[str, t.Any] = schema.overlaid(BEFORE, {"sections": {"A": {"fields": fields}}})["sections"]["A"]
    return section


def test_a_family_that_extends_another_one_is_like_it_but_for_where_it_ends() -> None:
    made = schema.overlaid(BEFORE, {"first": "2.0.0", "sections": {"C": None}})
    assert (made["first"], made["last"], made["tags"], made["draft_model_key"]) == ("2.0.0", None, {}, "model")
    assert made["sections"] == {name: BEFORE["sections"][name] for name in "AB"}


@pytest.mark.parametrize(
    ("fields", "expected", "newer"),
    [
        ({"one": "str"}, {"one": "str", "two": {"list": "str"}, "three": "bool or null"}, []),
        (
            {"one": {"since": "1"}},
            {"one": {"is": "int", "since": "1"}, "two": {"list": "str"}, "three": "bool or null"},
            [],
        ),
        (
            {"two": {"nullable": True}, "one": None},
            {"two": {"list": "str", "nullable": True}, "three": "bool or null"},
            [],
        ),
        (
            {"two": {"map": "int"}, "three": "newer", "z*": "newer"},
            {"one": "int", "two": {"map": "int"}},
            ["three", "z*"],
        ),
        (
            {"four": {"is": "int", "after": "one"}, "three": {"after": "four"}, "five": "str"},
            {
                "one": "int",
                "four": {"is": "int"},
                "three": {"is": "bool or null"},
                "two": {"list": "str"},
                "five": "str",
            },
            [],
        ),
    ],
)
def test_what_differs_of_fields(fields: dict[str, t.Any], expected: dict[str, t.Any], newer: list[str]) -> None:
    made = changed(fields)
    assert list(made["fields"].items()) == list(expected.items())
    assert made.get("newer", []) == newer


def test_names_and_variants_of_a_section_that_differ() -> None:
    change = {"A": {"renamed": {"x": None, "y": "two"}}, "B": {"variants": {"c": "C"}, "newer": None}}
    made = schema.overlaid(BEFORE, {"sections": change})["sections"]
    assert made["A"]["renamed"] == {"y": "two"}
    assert made["B"] == {"tag": "kind", "variants": {"c": "C"}}


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("size", {"type": "int", "min": 1}),
        ("str or null", {"type": "str", "null": True}),
        ({"is": "str or null", "nullable": False}, {"type": "str"}),
        ({"is": "float or null", "above": 0}, {"type": "float", "above": 0, "null": True}),
        ({"values": ["a"], "fold": "lower"}, {"type": "str", "values": ["a"], "fold": "lower"}),
        (
            {"map": {"list": "int"}, "keys": "int"},
            {"type": "map", "of": {"type": "list", "items": {"type": "int"}}, "keys": "int"},
        ),
        (
            {"any_of": [{"section": "A"}, "str"]},
            {"type": "union", "any_of": [{"type": "section", "section": "A"}, {"type": "str"}]},
        ),
        ({"never": "no"}, {"type": "any", "never": "no"}),
    ],
)
def test_how_a_field_is_said(said: t.Any, expected: dict[str, t.Any]) -> None:
    assert schema.field(said) == expected

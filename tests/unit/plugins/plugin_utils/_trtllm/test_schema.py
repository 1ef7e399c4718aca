# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._trtllm.checker import ROOT, Checker
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._trtllm.findings import Report
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._trtllm.options import METHODS
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._trtllm.releases import (
    FAMILIES,
    Release,
    version_of,
)


def fields_within(field: t.Mapping[str, t.Any]) -> t.Iterator[t.Mapping[str, t.Any]]:
    yield field
    for inner in (*field.get("any_of", ()), *(field[key] for key in ("items", "of") if key in field)):
        yield from fields_within(inner)


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: str(family["name"]))
def test_schema_is_sound(family: dict[str, t.Any]) -> None:
    sections = family["sections"]
    known = {"type", "null", "required", "min", "max", "above", "below", "values", "fold", "newer", "min_items"}
    known |= {"items", "of", "keys", "section", "any_of", "alias", "never", "advice", "since"}
    checker = Checker(Release(family["first"], family), Report())
    used = {ROOT}
    for name, section in sections.items():
        assert set(section) <= {"fields", "extends", "renamed", "newer", "tag", "variants"}, name
        used |= {section["extends"]} if "extends" in section else set()
        used |= set(section.get("variants", {}).values())
        for key, field in {} if "tag" in section else checker.fields(name).items():
            for inner in fields_within(field):
                assert set(inner) <= known, f"{name}.{key}"
                assert hasattr(checker, f"_{inner['type']}"), f"{name}.{key}"
                used |= {inner["section"]} if "section" in inner else set()
    assert used == set(sections)
    types = sections["SpeculativeConfig"]["variants"]
    named = {*family["methods"].values(), *family["needs_draft_model"], *family["needs_draft_length"]}
    assert named | set(family["refused_types"]) <= set(types)
    assert family["draft_model_key"] in checker.fields("DecodingBaseConfig")
    assert set(family["methods"]) == set(METHODS) - {"none"}
    assert all(version_of(release) for release in (family["first"], *family["known"]))


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

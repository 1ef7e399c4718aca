# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.dgx_spark.speculative.plugins.module_utils._updates.updates import Row
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._report import updates

TARGET: dict[str, t.Any] = {"id": "a/target", "directory": "", "revision": "main", "include": [], "exclude": ["m/*"]}
DRAFT: dict[str, t.Any] = {"id": "", "directory": "/models/draft", "revision": "main", "include": [], "exclude": []}
RECIPE: dict[str, t.Any] = {
    "name": "mine",
    "image": "nvcr.io/x:1.3.0rc12",
    "note": "Untried.",
    "method": "eagle3",
    "target_model": TARGET,
    "draft_model": DRAFT,
}
RECORD: dict[str, t.Any] = {
    "deployment": "mine",
    "deployed_at": "2026-01-02T03:04:05Z",
    "image": {"reference": "nvcr.io/x:1.3.0rc13"},
    "target_model": "a/target",
    "draft_model": "/models/draft",
    "models": {"a/target": {"commit": "1" * 40}, "/models/draft": {"commit": None}},
}
IMAGE = Row("image", "nvcr.io/x", "1.3.0rc13", "1.3.0rc14", "newer", "nvcr.io/x:1.3.0rc14", 17_500_000_000)
MODEL = Row("model", "a/target", "1" * 40, "2" * 40, "newer", "2" * 40)
LOCAL = Row("model", "/models/draft", verdict="directory")


def test_a_deployed_model_has_the_revision_and_the_files_of_its_recipe() -> None:
    draft: dict[str, t.Any] = {"id": "/models/draft", "commit": None, "revision": "main", "include": [], "exclude": []}
    target = {"id": "a/target", "commit": "1" * 40, "revision": "main", "include": [], "exclude": ["m/*"]}
    assert updates.deployed_models(RECORD, RECIPE) == [target, draft]
    assert updates.deployed_models(RECORD, {}) == [{**target, "exclude": []}, draft]
    assert updates.deployed_models({**RECORD, "draft_model": ""}, RECIPE) == [target]


def test_the_recipe_is_deployed_with_the_newer_versions_and_otherwise_with_the_deployed_image() -> None:
    found = updates.overrides(RECORD, RECIPE, [MODEL])
    assert (found["image"], found["note"]) == ("nvcr.io/x:1.3.0rc13", "")
    assert found["target_model"]["revision"] == found["repositories"][0]["revision"] == "2" * 40
    assert found["draft_model"] == DRAFT
    assert RECIPE["target_model"]["revision"] == "main"
    assert updates.overrides(RECORD, RECIPE, [IMAGE])["image"] == "nvcr.io/x:1.3.0rc14"
    assert updates.overrides({**RECORD, "image": {"reference": RECIPE["image"]}}, RECIPE, [MODEL])["note"] == "Untried."
    # A recipe that was loaded without speculation stays so.
    without = updates.overrides(RECORD, {**RECIPE, "method": "none", "draft_model": None}, [MODEL])
    assert (without["method"], without["draft_model"]) == ("none", None)


def test_the_report() -> None:
    image = Row(**{**vars(IMAGE), "beyond": "1.4.0rc1", "notes": ["A note."]})
    found = updates.report("spark-1", RECORD, RECIPE, [image, MODEL, LOCAL])
    assert found["lines"] == [
        "spark-1: what is newer than 'mine', deployed 2026-01-02T03:04:05Z",
        "                 now        newest",
        "  nvcr.io/x      1.3.0rc13  1.3.0rc14  newer, 17.5 GB to fetch at most",
        "  a/target       11111111   22222222   newer",
        "  /models/draft  -          -          directory",
        "  - A note.",
        "  - 1.4.0rc1 is the newest release. It is not proposed, because it may need other engine options; to",
        "    try it: -e engine_container_image=nvcr.io/x:1.4.0rc1.",
    ]
    assert "update.yml -e apply=true" in found["next_steps"][0]
    assert found["newer"] is True


def test_without_its_recipe_nothing_can_be_deployed() -> None:
    found = updates.report("spark-1", RECORD, {}, [IMAGE])
    assert (found["newer"], found["overrides"]) == (True, {})
    assert "give it with -e recipe=PATH" in " ".join(found["next_steps"])


@pytest.mark.parametrize(("rows", "keeps_image"), [([MODEL], False), ([IMAGE, MODEL], True)])
def test_only_a_newer_image_has_to_be_kept(rows: list[Row], keeps_image: bool) -> None:
    keep = ["To keep this image, set engine_container_image: nvcr.io/x:1.3.0rc14 in the inventory."]
    back = ["To roll back: serve.yml -e previous=true"]
    assert updates.report("spark-1", RECORD, RECIPE, rows)["persist_lines"] == keep * keeps_image + back


def test_nothing_is_newer() -> None:
    found = updates.report("spark-1", RECORD, RECIPE, [LOCAL])
    assert (found["newer"], found["overrides"]) == (False, {})
    assert found["next_steps"] == ["Nothing newer to deploy."]
    # Of a tag such as latest the registry is not asked.
    assert updates.next_steps(RECIPE, [Row("image", "x:latest"), LOCAL, Row("model", "a/target")]) == [
        "Nothing newer to deploy, but what is newest is unknown for x:latest and a/target."
    ]


def test_nothing_is_deployed() -> None:
    answer = updates.nothing("spark-1")
    assert (answer["newer"], answer["rows"]) == (False, [])
    assert answer["lines"][0] == "spark-1: nothing is deployed here that could be newer."

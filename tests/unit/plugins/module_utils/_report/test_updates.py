# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.dgx_spark.speculative.plugins.module_utils._models.hub import RemoteFile, Wanted
from ansible_collections.dgx_spark.speculative.plugins.module_utils._report import updates
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._trtllm.releases import RANGES

TAGS = [
    *("latest", "nightly", "spark-single-gpu-dev", "1.3.0rc12-arm64", "1.3.0rc14-arm64"),
    *("1.2.0rc1", "1.2.0rc6", "1.2.0rc7", "1.3.0rc2", "1.3.0rc12", "1.3.0rc12.post1", "1.3.0rc13", "1.3.0rc9"),
]


@pytest.mark.parametrize(
    ("tag", "tags", "line", "beyond"),
    [
        # rc9 is older than rc12, though its text comes after it.
        ("1.3.0rc12", TAGS, ["1.3.0rc13", "1.3.0rc12.post1"], None),
        ("1.3.0rc13", TAGS, [], None),
        ("1.3.0rc13", [*TAGS, "1.3.0", "1.3.1rc1", "1.4.0rc0"], [], "1.4.0rc0"),
        ("1.3.0", [*TAGS, "1.3.0", "1.3.1", "1.3.2rc1", "1.4.0"], ["1.3.1"], "1.4.0"),
        ("1.2.0rc1", TAGS[:8], ["1.2.0rc7", "1.2.0rc6"], None),
        # 1.3.0rc1 belongs to no known release family.
        ("1.2.0rc1", ["1.2.0rc6", "1.3.0rc1"], ["1.2.0rc6"], "1.3.0rc1"),
        ("1.3.0rc12-arm64", TAGS, ["1.3.0rc14-arm64"], None),
        ("spark-single-gpu-dev", TAGS, [], None),
        ("1.3.0rc13", [*TAGS, "1.3.0rc15.dev1"], [], None),
        ("1.3.0rc14.dev1", ["1.3.0rc14.dev2", "1.3.0rc15.dev1"], ["1.3.0rc15.dev1"], None),
        ("1.3.0rc12", [], [], None),
    ],
)
def test_what_follows_a_tag(tag: str, tags: list[str], line: list[str], beyond: str | None) -> None:
    assert updates.newer_tags(tag, tags, RANGES) == (line, beyond)


@pytest.mark.parametrize(
    ("image", "expected"),
    [
        ("nvcr.io/a/b:1", "nvcr.io/a/b:2"),
        ("127.0.0.1:5000/a:1", "127.0.0.1:5000/a:2"),
        (f"nvcr.io/a:1@sha256:{'0' * 64}", "nvcr.io/a:2"),
    ],
)
def test_with_tag(image: str, expected: str) -> None:
    assert updates.with_tag(image, "2") == expected


RECIPE = {
    "name": "mine",
    "image": "nvcr.io/x:1.3.0rc12",
    "method": "eagle3",
    "options": {},
    "target_model": {"id": "a/target", "revision": "main", "include": [], "exclude": ["metal/*"]},
    "draft_model": {"directory": "/models/draft"},
    "repositories": [{"id": "a/target", "revision": "main", "include": [], "exclude": ["metal/*"]}],
}
RECORD = {
    "deployment": "mine",
    "deployed_at": "2026-01-02T03:04:05Z",
    "image": {"reference": "nvcr.io/x:1.3.0rc13", "id": "sha256:1", "digests": ["nvcr.io/x@sha256:abc"]},
    "method": "eagle3",
    "options": {},
    "target_model": "a/target",
    "draft_model": "/models/draft",
    "models": {
        "a/target": {"commit": "1" * 40, "snapshot": "/x", "bytes": 1},
        "/models/draft": {"commit": None, "snapshot": "/models/draft", "bytes": 1},
    },
}


def test_a_deployment_is_what_serves_and_what_its_recipe_pins() -> None:
    found = updates.deployment_of(RECORD, RECIPE)
    assert (found.image, found.digests) == ("nvcr.io/x:1.3.0rc13", ("nvcr.io/x@sha256:abc",))
    target, draft = found.models
    assert (target.name, target.commit, target.revision, target.exclude) == ("a/target", "1" * 40, "main", ("metal/*",))
    assert (draft.name, draft.directory) == ("/models/draft", True)
    assert (found.target, found.draft) == ("a/target", "/models/draft")


def test_a_deployment_without_its_recipe_and_a_recipe_without_deployment() -> None:
    recorded = updates.deployment_of(RECORD, {})
    assert [(model.name, model.directory) for model in recorded.models] == [
        ("a/target", False),
        ("/models/draft", True),
    ]
    planned = updates.deployment_of({}, RECIPE)
    assert planned.image == "nvcr.io/x:1.3.0rc12"
    assert [model.commit for model in planned.models] == [None, None]


def test_a_deployment_without_drafts_has_none_whatever_its_recipe_has() -> None:
    record = {**RECORD, "method": "none", "draft_model": ""}
    assert updates.is_recipe_of(record, RECIPE)
    assert [model.name for model in updates.deployment_of(record, RECIPE).models] == ["a/target"]


def test_a_recipe_of_other_models_is_another_one() -> None:
    assert updates.is_recipe_of(RECORD, RECIPE)
    assert not updates.is_recipe_of(RECORD, {**RECIPE, "draft_model": {"id": "a/other"}})
    assert not updates.is_recipe_of(RECORD, {**RECIPE, "target_model": {"id": "a/other"}})


def test_differing_files_are_the_wanted_ones() -> None:
    old = [RemoteFile("a", 1, "1" * 40), RemoteFile("b", 2, "2" * 40), RemoteFile("metal/x", 3, "3" * 40)]
    new = [RemoteFile("a", 1, "1" * 40), RemoteFile("c", 2, "4" * 40), RemoteFile("metal/x", 3, "5" * 40)]
    found = updates.differing(old, new, Wanted("a/target", exclude=("metal/*",)))
    assert [(file.path, file.size) for file in found] == [("b", 0), ("c", 2)]


@pytest.mark.parametrize(
    ("path", "expected"),
    [("README.md", True), ("images/plot.png", True), ("config.json", False), ("chat_template.jinja", False)],
)
def test_is_documentation(path: str, expected: bool) -> None:
    assert updates.is_documentation(path) is expected


@pytest.mark.parametrize(
    ("record", "recipe", "sparks"),
    [
        ({"pair": {"nodes": ["a", "b", "c"]}}, {}, 3),
        ({"pair": {}}, {"sparks": 1}, 1),
        ({}, {"sparks": 2}, 2),
        ({}, {}, 1),
    ],
)
def test_it_is_known_on_how_many_sparks_it_serves(
    record: dict[str, t.Any], recipe: dict[str, t.Any], sparks: int
) -> None:
    given = {"target_model": {"id": "a/b"}, **recipe} if recipe else {}
    assert updates.deployment_of(record, given).sparks == sparks

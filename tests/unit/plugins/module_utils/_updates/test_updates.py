# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.dgx_spark.speculative.plugins.module_utils._models.disk import ModelSpec, RemoteFile
from ansible_collections.dgx_spark.speculative.plugins.module_utils._updates import updates

TAGS = [
    *("latest", "nightly", "spark-single-gpu-dev", "1.3.0rc12-arm64", "1.3.0rc14-arm64"),
    *("1.2.0rc1", "1.2.0rc6", "1.2.0rc7", "1.3.0rc2", "1.3.0rc12", "1.3.0rc12.post1", "1.3.0rc13", "1.3.0rc9"),
]


FAMILIES: list[list[str | None]] = [["1.2.0rc1", "1.2.1"], ["1.3.0rc3", None]]


@pytest.mark.parametrize(
    ("tag", "tags", "proposed", "beyond"),
    [
        # rc9 is older than rc12, though its text comes after it.
        ("1.3.0rc12", TAGS, ["1.3.0rc13", "1.3.0rc12.post1"], None),
        ("1.3.0rc13", TAGS, [], None),
        ("1.3.0rc13", [*TAGS, "1.3.0", "1.3.1rc1", "1.4.0rc0"], [], "1.4.0rc0"),
        ("1.3.0", [*TAGS, "1.3.0", "1.3.1", "1.3.2rc1", "1.4.0"], ["1.3.1"], "1.4.0"),
        ("1.2.0rc1", TAGS[:8], ["1.2.0rc7", "1.2.0rc6"], None),
        ("1.3.0rc12-arm64", TAGS, ["1.3.0rc14-arm64"], None),
        ("spark-single-gpu-dev", TAGS, [], None),
        ("1.3.0rc13", [*TAGS, "1.3.0rc15.dev1"], [], None),
        ("1.3.0rc14.dev1", ["1.3.0rc14.dev2", "1.3.0rc15.dev1"], ["1.3.0rc15.dev1"], None),
        ("1.3.0rc12", [], [], None),
        # No rules cover 1.2.2; those of 1.3 cover each later release.
        ("1.2.0", ["1.2.1", "1.2.2"], ["1.2.1"], "1.2.2"),
        ("1.2.1", ["1.2.1.post1", "1.2.2"], ["1.2.1.post1"], "1.2.2"),
        ("1.3.0", ["1.3.9"], ["1.3.9"], None),
        # A candidate of a release that is proposed is not the newest one.
        ("1.3.0", ["1.3.1rc1", "1.3.1"], ["1.3.1"], None),
    ],
)
def test_newer_tags(tag: str, tags: list[str], proposed: list[str], beyond: str | None) -> None:
    assert updates.newer_tags(tag, tags, FAMILIES) == (proposed, beyond)


def test_differing_files_are_the_wanted_ones() -> None:
    old = [RemoteFile("a", 1, "1" * 40), RemoteFile("b", 2, "2" * 40), RemoteFile("metal/x", 3, "3" * 40)]
    new = [RemoteFile("a", 1, "1" * 40), RemoteFile("c", 2, "4" * 40), RemoteFile("metal/x", 3, "5" * 40)]
    found = updates.differing(old, new, ModelSpec("a/target", exclude=("metal/*",)))
    assert [(file.path, file.size) for file in found] == [("b", 0), ("c", 2)]


@pytest.mark.parametrize(
    ("path", "expected"),
    [("README.md", True), ("images/plot.png", True), ("config.json", False), ("chat_template.jinja", False)],
)
def test_is_documentation(path: str, expected: bool) -> None:
    assert updates.is_documentation(path) is expected

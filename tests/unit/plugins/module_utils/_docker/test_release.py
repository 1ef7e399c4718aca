# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.dgx_spark.speculative.plugins.module_utils._docker.release import (
    Range,
    range_of,
    release_of,
    version_of,
)


@pytest.mark.parametrize(
    ("text", "release"),
    [
        ("1.3.0rc12", "1.3.0rc12"),
        ("nvcr.io/nvidia/tensorrt-llm/release:1.3.0rc12", "1.3.0rc12"),
        ("nvcr.io/nvidia/tensorrt-llm/release:1.3.0rc12@sha256:0a1b", "1.3.0rc12"),
        ("registry.example:5000/release:1.3.0rc13", "1.3.0rc13"),
        ("registry.example:5000/release", "release"),
        ("nvcr.io/nvidia/tensorrt-llm/release@sha256:0a1b", "release"),
    ],
)
def test_release_of(text: str, release: str) -> None:
    assert release_of(text) == release


def test_versions_in_order() -> None:
    releases = ["1.2.0rc6", "1.2.0rc6.post1", "1.2.0", "1.3.0rc2", "1.3.0rc12", "1.3.0", "1.3.1"]
    versions = [version for version in map(version_of, releases) if version]
    assert len(versions) == len(releases)
    assert versions == sorted(versions)


@pytest.mark.parametrize(
    ("release", "expected"),
    [("1.0.0", None), ("1.2.0rc3", 0), ("1.2.0rc6.post1", 0), ("1.2.0", None), ("1.3.0rc5", 1), ("1.4.0rc1", 2)],
)
def test_the_range_that_begins_last(release: str, expected: int | None) -> None:
    ranges: list[Range] = [["1.2.0rc1", "1.2.0rc6"], ["1.3.0rc3", None], ["1.4.0rc1", None]]
    version = version_of(release)
    assert version is not None
    assert range_of(version, ranges) == (None if expected is None else ranges[expected])

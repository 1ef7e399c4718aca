# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.dgx_spark.speculative.plugins.module_utils._docker.release import version_of
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._engines.engine import Request
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._engines.tensorrt_llm import (
    releases as trtllm_releases,
)
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._engines.tensorrt_llm.options import build
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._engines.tensorrt_llm.releases import (
    FAMILIES,
    in_words,
)

FAMILY_LIST = ", ".join(f"{family['name']} ({in_words(number)})" for number, family in enumerate(FAMILIES))
DOUBT = "the server may refuse what passes here and accept what is refused"


def findings(release: str, family: str = "auto") -> tuple[str, list[str], list[str]]:
    """The family, the errors and the warnings of a release without options."""
    answer = build(Request(release, family=family))
    return answer.family, [str(error) for error in answer.errors], [str(warning) for warning in answer.warnings]


@pytest.mark.parametrize(
    ("release", "family"),
    [
        ("1.3.0rc12", "1.3"),
        ("1.3.0rc13", "1.3"),
        ("v1.3.0rc12", "1.3"),
        ("1.3.0rc13.post1", "1.3"),
        ("1.3.0rc12-arm64", "1.3"),
        ("1.2.0rc1", "1.2"),
        ("1.2.0rc6", "1.2"),
        ("1.2.0rc6.post1", "1.2"),
        ("nvcr.io/nvidia/tensorrt-llm/release:1.2.0rc6@sha256:0a1b", "1.2"),
    ],
)
def test_known_releases(release: str, family: str) -> None:
    assert findings(release) == (family, [], [])
    assert findings(release, family) == (family, [], [])


@pytest.mark.parametrize(
    ("release", "relation", "known", "family"),
    [
        ("1.3.0rc13.dev202605010000", "none of", "1.3.0rc12, 1.3.0rc13", "1.3"),
        ("1.3.0rc3", "older than", "1.3.0rc12, 1.3.0rc13", "1.3"),
        ("1.2.0rc4", "none of", "1.2.0rc1, 1.2.0rc6", "1.2"),
    ],
)
def test_other_releases_of_a_family_are_a_warning(release: str, relation: str, known: str, family: str) -> None:
    warning = f"release: {release} is {relation} the releases these rules were written for ({known}); {DOUBT}"
    assert findings(release) == (family, [], [warning])


@pytest.mark.parametrize(
    ("release", "known", "family"),
    [
        ("1.2.0", "1.2.0rc1, 1.2.0rc6", "1.2"),
        ("1.2.1", "1.2.0rc1, 1.2.0rc6", "1.2"),
        *(
            (release, "1.3.0rc12, 1.3.0rc13", "1.3")
            for release in ("1.3.0rc14", "1.3.0rc29", "1.3.0rc26.dev202609010000", "1.3.0", "1.4.0rc1")
        ),
    ],
)
def test_the_options_of_a_newer_release_are_judged_by_its_image(release: str, known: str, family: str) -> None:
    warning = (
        f"release: {release} is newer than the releases known here ({known}): options are judged by the image only"
    )
    assert findings(release) == (family, [], [warning])


@pytest.mark.parametrize("release", ["1.3.0rc0", "1.3.0rc3.dev202602010000", "1.3.0rc2", "1.2.0rc0", "0.21.0"])
def test_releases_of_no_family_need_one_to_be_chosen(release: str) -> None:
    error = (
        f"release: the engine options of {release} are not known here; use a release of the known release families,"
        f" {FAMILY_LIST}, or set family (in playbooks speculative_serve_family) to the one to check by"
    )
    assert findings(f"nvcr.io/nvidia/tensorrt-llm/release:{release}") == ("", [error], [])
    for family in ("1.2", "1.3"):
        warning = (
            f"release: {release} belongs to none of the known release families, so its options are checked by the"
            f" rules of {family}, as family says; {DOUBT}"
        )
        assert findings(release, family) == (family, [], [warning])


def test_a_release_says_its_family_itself() -> None:
    error = "family: 1.3.0rc12 belongs to release family 1.3, not 1.2; remove it"
    assert findings("1.3.0rc12", "1.2") == ("", [error], [])


@pytest.mark.parametrize("text", ["nvcr.io/nvidia/tensorrt-llm/release", "x/release:mine", "latest", ""])
def test_a_tag_that_names_no_release_needs_a_family(text: str) -> None:
    error = (
        f"release: '{text}' names no TensorRT-LLM release such as 1.3.0rc12; give the release, or an image reference"
        " with its tag, or set family (in playbooks speculative_serve_family) to one of the known release families:"
        f" {FAMILY_LIST}"
    )
    assert findings(text) == ("", [error], [])
    warning = (
        f"release: '{text}' names no release, so its options are checked by the rules of release family 1.3,"
        f" as family says; {DOUBT}"
    )
    assert findings(text, "1.3") == ("1.3", [], [warning])


@pytest.mark.parametrize(("choice", "family"), [("auto", "1.2"), ("1.2", "1.2"), ("1.3", "1.3")])
def test_the_moving_tag_is_checked_as_1_2_with_a_warning(choice: str, family: str) -> None:
    warning = (
        "release: spark-single-gpu-dev is a tag that moves, so its options are checked by the rules of release family"
        f" {family}; only the image itself knows what it accepts"
    )
    assert findings("nvcr.io/nvidia/tensorrt-llm/release:spark-single-gpu-dev", choice) == (family, [], [warning])


def test_moving_tags_lead_to_a_family() -> None:
    for release in trtllm_releases.MOVING_TAGS.values():
        version = version_of(release)
        assert version is not None
        assert trtllm_releases.family_of(version) in FAMILIES

# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._plan.images import copies, image_mismatch

MADE = {"fingerprint": "made", "base": "base", "bytes": 13}
HEAD = {"cluster_image": "release:1", "images": {"cluster": MADE, "base": {"fingerprint": "base"}}}


def look(fingerprint: str | None) -> dict[str, t.Any]:
    return {"images": {"cluster": fingerprint and {"fingerprint": fingerprint}, "base": None}}


def test_who_has_the_very_same_lacks_nothing() -> None:
    looks = {"a": HEAD, "b": look("made"), "c": look("other"), "d": look(None), "e": {}}
    sent = {"reference": "release:1", "fingerprint": "made", "bytes": 13}
    assert copies(looks) == {"content": sent, "to": ["c", "d", "e"]}
    assert copies({"a": HEAD, "b": look("made")})["to"] == []
    assert copies({"a": HEAD})["to"] == []


def test_a_base_that_is_another_one_now() -> None:
    renewed = {"images": {"cluster": MADE, "base": {"fingerprint": "newer"}}}
    assert copies({"a": renewed, "b": look("made")})["to"] == ["b"]
    assert copies({"a": {"images": {"cluster": MADE, "base": None}}, "b": look("made")})["to"] == ["b"]


def test_a_head_without_an_image_as_in_check_mode() -> None:
    nothing = {"content": {"reference": "", "fingerprint": "", "bytes": 0}, "to": ["b"]}
    assert copies({"a": look(None), "b": look(None)}) == nothing
    assert copies({"a": {}, "b": {}}) == nothing


def test_an_image_that_is_not_the_one_that_was_sent() -> None:
    looks = {name: {"cluster_image": "release:1"} for name in "abc"}
    assert image_mismatch(looks, "c") == (
        "c: the image release:1 that was loaded is not the one of b: its layers or settings differ. Remove it on both "
        "with 'docker image rm release:1' and run again."
    )

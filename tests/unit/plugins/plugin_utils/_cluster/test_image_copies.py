# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._cluster.image_copies import copies

MADE = {"fingerprint": "made", "base": "base", "bytes": 13}
HEAD = {"cluster_image": "release:1", "image_made": True, "images": {"cluster": MADE, "base": {"fingerprint": "base"}}}


def look(fingerprint: str | None) -> dict[str, t.Any]:
    return {"images": {"cluster": fingerprint and {"fingerprint": fingerprint}, "base": None}}


def test_who_has_the_very_same_lacks_nothing() -> None:
    looks = {"a": HEAD, "b": look("made"), "c": look("other"), "d": look(None)}
    sent = {"reference": "release:1", "fingerprint": "made", "bytes": 13}
    assert copies(looks) == {"content": sent, "to": ["c", "d"]}
    assert copies({"a": HEAD, "b": look("made")})["to"] == []
    assert copies({"a": HEAD})["to"] == []


def test_a_head_whose_image_is_not_made_from_its_present_base() -> None:
    assert copies({"a": {**HEAD, "image_made": False}, "b": look("made")})["to"] == ["b"]

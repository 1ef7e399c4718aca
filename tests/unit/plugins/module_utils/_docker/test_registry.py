# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.dgx_spark.speculative.plugins.module_utils._docker import registry

DIGEST = "sha256:" + "0" * 64


@pytest.mark.parametrize(
    ("text", "parts", "base_url"),
    [
        ("debian", ("registry-1.docker.io", "library/debian", "latest", ""), "https://registry-1.docker.io"),
        ("a/b:1", ("registry-1.docker.io", "a/b", "1", ""), "https://registry-1.docker.io"),
        ("docker.io/library/a:1", ("registry-1.docker.io", "library/a", "1", ""), "https://registry-1.docker.io"),
        ("docker.io/a:1", ("registry-1.docker.io", "library/a", "1", ""), "https://registry-1.docker.io"),
        ("index.docker.io/a/b", ("registry-1.docker.io", "a/b", "latest", ""), "https://registry-1.docker.io"),
        (
            "nvcr.io/nvidia/tensorrt-llm/release:1.3.0rc12",
            ("nvcr.io", "nvidia/tensorrt-llm/release", "1.3.0rc12", ""),
            "https://nvcr.io",
        ),
        (f"nvcr.io/a@{DIGEST}", ("nvcr.io", "a", "", DIGEST), "https://nvcr.io"),
        (f"nvcr.io/a:1@{DIGEST}", ("nvcr.io", "a", "1", DIGEST), "https://nvcr.io"),
        ("localhost/a", ("localhost", "a", "latest", ""), "http://localhost"),
        ("127.0.0.1:5000/a", ("127.0.0.1:5000", "a", "latest", ""), "http://127.0.0.1:5000"),
        ("spark-1:5000/a", ("spark-1:5000", "a", "latest", ""), "https://spark-1:5000"),
    ],
)
def test_parse_reference(text: str, parts: tuple[str, str, str, str], base_url: str) -> None:
    reference = registry.parse_reference(text)
    assert (reference.host, reference.repository, reference.tag, reference.digest) == parts
    assert reference.base_url == base_url
    assert reference.version == (parts[3] or parts[2])


@pytest.mark.parametrize("text", ["", "Upper", "a b", "nvcr.io/", "a:", "a@sha256:12", "a/../b"])
def test_what_is_not_a_reference(text: str) -> None:
    with pytest.raises(registry.RegistryError) as caught:
        registry.parse_reference(text)
    assert str(caught.value) == f"{text!r} is not the name of an image; it should look like nvcr.io/nvidia/name:tag."


INDEX = {
    "manifests": [
        {"digest": "d1", "platform": {"os": "linux", "architecture": "amd64"}},
        {"digest": "d2", "platform": {"os": "linux", "architecture": "arm64", "variant": "v8"}},
        {"digest": "d3", "platform": {"os": "unknown", "architecture": "unknown"}},
        {"digest": "d4"},
    ]
}


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ("linux/amd64", "d1"),
        ("linux/arm64", "d2"),
        ("linux/arm64/v8", "d2"),
        ("linux/arm64/v9", None),
        ("linux/arm", None),
        ("linux/amd64/v3", None),
    ],
)
def test_pick(wanted: str, expected: str | None) -> None:
    assert registry.pick(INDEX, wanted) == expected


def test_nearest() -> None:
    tags = ["1.2.0", "1.3.0rc12", "1.3.0rc11", "latest", "1.3.0rc1", "nightly", "0.21.0"]
    near = registry.nearest("1.3.0rc13", tags)
    assert set(near[:3]) == {"1.3.0rc12", "1.3.0rc11", "1.3.0rc1"}
    assert len(near) == 5
    assert registry.nearest("1.3", []) == []

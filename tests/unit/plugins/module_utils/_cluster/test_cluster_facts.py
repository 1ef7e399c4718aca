# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import subprocess
import typing as t
from pathlib import Path

import pytest
from ansible_collections.dgx_spark.speculative.plugins.module_utils._cluster.cluster_facts import (
    authorized_key,
    cluster_image,
    fingerprint,
    image_facts,
    is_made,
    read_key_pair,
)

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIE0f2b0c1d2e3f4a5b6c7d8e9f0a1b2c3d4e5f6a7b8c9d0"
BASE = {"fingerprint": "f", "base": None, "bytes": 7}
MADE = {"fingerprint": "g", "base": "f", "bytes": 8}
OLD = {"fingerprint": "h", "base": "e", "bytes": 8}


@pytest.mark.parametrize(
    ("images", "made"),
    [
        ({"base": None, "cluster": None}, False),
        ({"base": BASE, "cluster": None}, False),
        # Of an image that has been pulled anew since.
        ({"base": BASE, "cluster": OLD}, False),
        ({"base": BASE, "cluster": MADE}, True),
    ],
)
def test_whether_the_image_of_all_is_made(images: dict[str, t.Any], made: bool) -> None:
    assert is_made(images) is made


def test_who_is_let_in_is_read() -> None:
    line = f'restrict,from="10.0.0.1,10.0.1.1",command="/usr/bin/python3 /x" {KEY}\n'
    assert authorized_key(line) == {"from": ["10.0.0.1", "10.0.1.1"], "key": KEY}
    assert authorized_key("") is None


@pytest.mark.parametrize(
    ("base", "name"),
    [
        ("nvcr.io/nvidia/tensorrt-llm/release:1.3.0rc12", "dgx-spark-speculative/release:1.3.0rc12"),
        ("localhost:5000/release", "dgx-spark-speculative/release:latest"),
        ("a/release:1@sha256:0123456789abcdef", "dgx-spark-speculative/release:1"),
        ("a/release@sha256:0123456789abcdef", "dgx-spark-speculative/release:sha256-0123456789ab"),
    ],
)
def test_the_pairs_image_keeps_the_tag(base: str, name: str) -> None:
    assert cluster_image(base) == name


INSPECTED: dict[str, t.Any] = {
    "Id": "sha256:1",
    "Os": "linux",
    "Architecture": "arm64",
    "Size": 7,
    "RootFS": {"Type": "layers", "Layers": ["sha256:a", "sha256:b"]},
    "Config": {"Env": ["A=1"], "Cmd": ["bash"], "Labels": {"dgx_spark.speculative.base": "f"}, "Volumes": None},
}


def test_the_same_image_in_another_docker_is_the_same() -> None:
    other = {**INSPECTED, "Id": "sha256:2", "Size": 9, "Created": "now", "RepoTags": ["x"], "Variant": ""}
    other["Config"] = {**INSPECTED["Config"], "Hostname": "", "Image": "sha256:3", "Volumes": {}, "User": ""}
    assert fingerprint(other) == fingerprint(INSPECTED)
    assert image_facts(INSPECTED) == {"id": "sha256:1", "fingerprint": fingerprint(other), "bytes": 7, "base": "f"}
    assert image_facts(None) is None


@pytest.mark.parametrize(
    "change",
    [
        {"Architecture": "amd64"},
        {"RootFS": {"Layers": ["sha256:a", "sha256:c"]}},
        {"RootFS": {"Layers": ["sha256:b", "sha256:a"]}},
        {"Config": {**INSPECTED["Config"], "Env": ["A=2"]}},
        {"Config": {**INSPECTED["Config"], "Entrypoint": ["x"]}},
    ],
)
def test_another_image_is_another_one(change: dict[str, t.Any]) -> None:
    assert fingerprint({**INSPECTED, **change}) != fingerprint(INSPECTED)


@pytest.fixture(name="key_pair")
def fixture_key_pair(tmp_path: Path) -> t.Callable[..., tuple[str, str]]:
    """What ssh-keygen itself makes."""

    def make(name: str, *, kind: str = "ed25519", passphrase: str = "") -> tuple[str, str]:
        file = tmp_path / name
        subprocess.run(
            ["ssh-keygen", "-q", "-t", kind, "-N", passphrase, "-C", "some body", "-f", str(file)], check=True
        )
        return file.read_text(encoding="ascii"), file.with_suffix(".pub").read_text(encoding="ascii")

    return make


def test_a_whole_key_pair_is_known_by_its_public_half(key_pair: t.Callable[..., tuple[str, str]]) -> None:
    private, public = key_pair("one")
    assert read_key_pair(private, public) == " ".join(public.split()[:2])


def test_a_key_pair_that_cannot_be_used_is_none(key_pair: t.Callable[..., tuple[str, str]]) -> None:
    private, public = key_pair("one")
    lines = private.splitlines(keepends=True)
    # Cut off anywhere, as by a power cut.
    cut = [private[:end] for end in range(0, len(private) - 1, 7)]
    short = ["".join([*lines[:2], *lines[3:]])]
    for damaged in (*cut, *short, private.replace("BEGIN OPENSSH", "BEGIN RSA")):
        assert read_key_pair(damaged, public) is None
    assert read_key_pair(private, "") is None
    assert read_key_pair(private, key_pair("other")[1]) is None
    assert read_key_pair(*key_pair("locked", passphrase="some thing")) is None
    assert read_key_pair(*key_pair("ecdsa", kind="ecdsa")) is None


def test_without_ssh_keygen_no_key_pair_is_known(
    key_pair: t.Callable[..., tuple[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    pair = key_pair("one")
    monkeypatch.setenv("PATH", "/nonexistent")
    assert read_key_pair(*pair) is None

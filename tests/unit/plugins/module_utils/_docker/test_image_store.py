# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest
from ansible_collections.dgx_spark.speculative.plugins.module_utils._docker import image_store as stores

# As an Engine says it: 20.10 on Debian 12, and 26.1 on Debian 13 with the feature containerd-snapshotter.
OVERLAY = {
    "Driver": "overlay2",
    "DriverStatus": [["Backing Filesystem", "extfs"], ["Supports d_type", "true"], ["Native Overlay Diff", "true"]],
    "DockerRootDir": "/var/lib/docker",
}
SNAPSHOTTER = {
    "Driver": "overlayfs",
    "DriverStatus": [["driver-type", "io.containerd.snapshotter.v1"]],
    "DockerRootDir": "/var/lib/docker",
}
# The head of what 'containerd config default' writes.
CONFIG = """\
disabled_plugins = []
imports = []
oom_score = 0
root = "/mnt/big/containerd"
state = "/run/containerd"

[plugins."io.containerd.snapshotter.v1.devmapper"]
  root = "/elsewhere"
"""
# What Debian installs.
COMMENTED = '#root = "/nowhere"\nversion = 2\n\n[plugins]\n  root = "/elsewhere"\n'


@pytest.mark.parametrize(
    ("info", "kind", "path", "factor"),
    [
        (OVERLAY, "classic", "/var/lib/docker", 3.0),
        ({**OVERLAY, "DockerRootDir": "/data/docker"}, "classic", "/data/docker", 3.0),
        (SNAPSHOTTER, "containerd", "/var/lib/containerd", 3.3),
    ],
)
def test_where_images_lie(tmp_path: Path, info: dict[str, t.Any], kind: str, path: str, factor: float) -> None:
    store = stores.store_of(info, tmp_path)
    assert store is not None
    assert (store.kind, str(store.path), round(store.unpack_factor, 3)) == (kind, path, factor)


@pytest.mark.parametrize("info", [{}, {"DockerRootDir": None, "DriverStatus": None}])
def test_an_engine_that_says_nothing(info: dict[str, t.Any]) -> None:
    assert stores.store_of(info) is None


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (CONFIG, "/mnt/big/containerd"),
        ("root='/mnt/x' # moved\n", "/mnt/x"),
        (COMMENTED, "/var/lib/containerd"),
        ("", "/var/lib/containerd"),
        (None, "/var/lib/containerd"),
    ],
)
def test_containerd_s_own_configuration(tmp_path: Path, content: str | None, expected: str) -> None:
    if content is not None:
        (tmp_path / "etc/containerd").mkdir(parents=True)
        (tmp_path / "etc/containerd/config.toml").write_text(content, encoding="utf-8")
    assert str(stores.containerd_root(tmp_path)) == expected


def test_what_is_free(tmp_path: Path) -> None:
    facts = stores.Store(stores.CLASSIC, tmp_path).facts()
    assert facts["free_bytes"] > 0
    assert facts["way_out"] == "Docker's data-root"
    facts = stores.Store(stores.CONTAINERD, tmp_path / "none").facts()
    assert facts["free_bytes"] is None
    assert facts["way_out"] == "containerd's root ('root' in /etc/containerd/config.toml)"


def test_what_the_engine_calls_an_image_s_size() -> None:
    assert stores.sizes(46_000, stores.CLASSIC) == (46_000, 46_000)
    assert stores.sizes(20_000, stores.CONTAINERD) == (46_000, 20_000)

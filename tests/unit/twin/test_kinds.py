# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The kinds of Sparks that the twin has, and the control groups that a machine can give them."""

from __future__ import annotations

import pathlib

import pytest

from tests.twin import groups, lifecycle
from tests.twin.lifecycle import Delivery, deliveries
from tests.twin.names import TwinError


@pytest.mark.parametrize(
    ("sparks", "system", "stores", "expected"),
    [
        (1, "trixie", (), [("trixie", "containerd")]),
        (1, "bookworm", (), [("bookworm", "overlay2")]),
        (2, "trixie", ("overlay2",), [("trixie", "overlay2")] * 2),
        (2, "trixie", ("overlay2", "containerd"), [("trixie", "overlay2"), ("trixie", "containerd")]),
    ],
)
def test_each_spark_comes_as_asked_for(
    sparks: int, system: str, stores: tuple[str, ...], expected: list[tuple[str, str]]
) -> None:
    assert deliveries(sparks, system, stores, "wifi") == [Delivery(*each, network="wifi") for each in expected]


@pytest.mark.parametrize(
    ("sparks", "system", "stores", "network", "message"),
    [
        (5, "trixie", (), "wifi", "The twin has 1 to 4 Sparks, not 5."),
        (1, "jammy", (), "wifi", "The twin's system can be trixie, bookworm, not jammy."),
        (
            1,
            "trixie",
            (),
            "dhcp",
            "The twin's network can be networkmanager, networkd, foreign, wifi, link-local, saved, not dhcp.",
        ),
        # Docker 20.10 knows one kind of store.
        (1, "bookworm", ("containerd",), "wifi", "The twin's image store can be overlay2, not containerd."),
        (1, "trixie", ("overlay2",) * 2, "wifi", "The twin has 1 Sparks, and 2 image stores are named."),
    ],
)
def test_what_there_is_not_is_refused(
    sparks: int, system: str, stores: tuple[str, ...], network: str, message: str
) -> None:
    with pytest.raises(TwinError) as caught:
        deliveries(sparks, system, stores, network)
    assert str(caught.value) == message


def test_groups_are_removed_with_those_below(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(groups, "BESIDE", tmp_path)
    monkeypatch.setattr(groups, "as_root", lambda *command: list(command))
    (tmp_path / "one" / "system.slice" / "docker.service").mkdir(parents=True)
    (tmp_path / "other").mkdir()
    groups.remove("one")
    groups.remove("one")
    assert [path.name for path in tmp_path.iterdir()] == ["other"]
    (tmp_path / "other" / "file").touch()
    with pytest.raises(TwinError, match=r"^The control groups of other cannot be removed: rmdir: .*not empty$"):
        groups.remove("other")


def test_images_of_a_checkout_go_with_it(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lifecycle, "BUILD_LOCK", tmp_path / "lock")
    # An image that does not say whose it is counts as this checkout's.
    monkeypatch.setattr(lifecycle, "CACHE", tmp_path)
    owners = {"spark:here": str(tmp_path), "spark:gone": str(tmp_path / "gone"), "spark:unknown": None}
    removed: list[tuple[str, ...]] = []
    monkeypatch.setattr(lifecycle.engine, "docker", lambda *_arguments: "\n".join(owners))
    monkeypatch.setattr(lifecycle.engine, "image_label", lambda tag, _label: owners[tag])
    monkeypatch.setattr(lifecycle.engine, "attempt", lambda *arguments: removed.append(arguments))
    lifecycle.remove_outdated()
    # Without force: what runs stays.
    assert [arguments for arguments in removed if arguments[0] == "rmi"] == [("rmi", "spark:gone")]

# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.dgx_spark.speculative.plugins.module_utils._spark import hotplug


def test_without_the_package_and_without_the_driver(tmp_path: Path) -> None:
    assert hotplug.look(tmp_path) == {"armed": False, "powered": None, "disabled_marker": []}


@pytest.mark.parametrize(("state", "powered"), [("0\n", False), ("1\n", True), ("", None), ("?\n", None)])
def test_what_the_driver_says(tmp_path: Path, state: str, powered: bool | None) -> None:
    for path, text in ((hotplug.MARKER, ""), (hotplug.STATE, state)):
        place = tmp_path / path.relative_to("/")
        place.parent.mkdir(parents=True)
        place.write_text(text, encoding="ascii")
    assert hotplug.look(tmp_path) == {"armed": True, "powered": powered, "disabled_marker": []}


def test_a_marker_that_was_put_aside(tmp_path: Path) -> None:
    place = tmp_path / hotplug.DISABLED_MARKER.relative_to("/")
    place.parent.mkdir(parents=True)
    place.touch()
    back = ["/etc/nvidia/cx7-hotplug-enabled.dgx-spark-speculative", "/etc/nvidia/cx7-hotplug-enabled"]
    assert hotplug.look(tmp_path) == {"armed": False, "powered": None, "disabled_marker": back}


def test_what_is_there_of_the_starter(tmp_path: Path) -> None:
    assert hotplug.starter(tmp_path) == {"files": {}, "enabled": False}
    first = next(iter(hotplug.STARTER))
    for path in (tmp_path / first.lstrip("/"), tmp_path / hotplug.ENABLED.relative_to("/")):
        path.parent.mkdir(parents=True)
    (tmp_path / first.lstrip("/")).write_bytes(b"x")
    # It leads to a file that is not there, as seen from here.
    (tmp_path / hotplug.ENABLED.relative_to("/")).symlink_to("/nonexistent")
    assert hotplug.starter(tmp_path) == {"files": {first: hotplug.digest(b"x")}, "enabled": True}

# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.dgx_spark.speculative.plugins.module_utils import _hotplug


def test_without_the_package_and_without_the_driver(tmp_path: Path) -> None:
    assert _hotplug.look(tmp_path) == {"armed": False, "powered": None}


@pytest.mark.parametrize(("state", "powered"), [("0\n", False), ("1\n", True), ("", None), ("?\n", None)])
def test_what_the_driver_says(tmp_path: Path, state: str, powered: bool | None) -> None:
    for path, text in ((_hotplug.MARKER, ""), (_hotplug.STATE, state)):
        place = tmp_path / path.relative_to("/")
        place.parent.mkdir(parents=True)
        place.write_text(text, encoding="ascii")
    assert _hotplug.look(tmp_path) == {"armed": True, "powered": powered}

# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._network.units import (
    Unit,
    is_due,
    unit_lines,
    unit_steps,
)

UNIT = Unit("echo.service", "echo", "echo_back")
FILES = [{"dest": "/etc/echo", "content": "echo"}]
OWN = {"/etc/echo": "digest"}
COMPLETE = {"files": OWN, "enabled": True}
OTHER = {"files": {"/etc/echo": "another", "/etc/older": "digest"}, "enabled": True}


@pytest.mark.parametrize(
    ("state", "choice", "configure", "line", "lacking"),
    [
        ({}, None, True, "echo: to be installed", False),
        ({}, None, False, "", True),
        ({}, True, False, "echo: to be installed", False),
        ({}, False, True, "", False),
        (COMPLETE, True, True, "", False),
        (COMPLETE, None, False, "", False),
        (COMPLETE, False, False, "echo: to be removed", False),
        ({**COMPLETE, "enabled": False}, None, True, "echo: to be installed", False),
        ({**COMPLETE, "enabled": False}, None, False, "", True),
        (OTHER, None, True, "echo: to be installed", False),
        (OTHER, None, False, "", True),
        (OTHER, False, True, "echo: to be removed", False),
    ],
)
def test_a_unit_is_installed_where_it_is_missing(
    state: dict[str, t.Any], choice: bool | None, configure: bool, line: str, lacking: bool
) -> None:
    steps = unit_steps(UNIT, state, OWN, FILES, choice, configure)
    assert unit_lines({"spark-1": steps}) == ([f"spark-1: {line}"] if line else [])
    assert is_due(steps) == bool(line)
    assert steps["install"] == (FILES if "installed" in line else [])
    assert steps["remove"] == (list(state["files"]) if "removed" in line else [])
    assert steps["lacking"] == lacking

# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest
from ansible_collections.dgx_spark.speculative.plugins.module_utils._fabric import fabric_filter
from ansible_collections.dgx_spark.speculative.plugins.module_utils._spark.hotplug import digest

SHOWN = "ActiveState=active\nUnitFileState=enabled\nNeedDaemonReload=no\n"


def never(command: t.Sequence[str]) -> tuple[int, str, str]:
    raise AssertionError(command)


def test_without_the_file_systemd_is_not_asked(tmp_path: Path) -> None:
    assert fabric_filter.look(never, tmp_path) == {"files": {}, "enabled": False}


@pytest.mark.parametrize(
    ("code", "shown", "enabled"),
    [
        (0, SHOWN, True),
        (0, SHOWN.replace("=active", "=failed"), False),
        (0, SHOWN.replace("=enabled", "=disabled"), False),
        # A run was killed after it had written the file.
        (0, SHOWN.replace("=no", "=yes"), False),
        (127, "", False),
    ],
)
def test_the_unit_is_in_effect(tmp_path: Path, code: int, shown: str, enabled: bool) -> None:
    path = tmp_path / fabric_filter.UNIT.relative_to("/")
    path.parent.mkdir(parents=True)
    path.write_bytes(b"x")
    result = fabric_filter.look(lambda _command: (code, shown, ""), tmp_path)
    assert result == {"files": {str(fabric_filter.UNIT): digest(b"x")}, "enabled": enabled}

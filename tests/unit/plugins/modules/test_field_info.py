# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import typing as t
from pathlib import Path

import pytest
from ansible.module_utils.testing import patch_module_args
from ansible_collections.dgx_spark.speculative.plugins.modules import field_info


def run(capsys: pytest.CaptureFixture[str], **parameters: t.Any) -> dict[str, t.Any]:
    with patch_module_args(parameters), pytest.raises(SystemExit):
        field_info.main()
    result: dict[str, t.Any] = json.loads(capsys.readouterr().out)
    return result


@pytest.fixture(name="nowhere")
def fixture_nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Arguments for a machine without anything to look at."""
    monkeypatch.setattr(field_info, "ROOT", tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    return {"state_directory": str(tmp_path), "socket": str(tmp_path / "docker.sock")}


def test_a_machine_that_tells_nothing(capsys: pytest.CaptureFixture[str], nowhere: dict[str, str]) -> None:
    result = run(capsys, **nowhere)
    assert result["changed"] is False
    rows = {row["id"]: row for row in result["rows"]}
    assert len(rows) == len(result["rows"]) > 35
    assert rows["memory_loading"]["not_measured"].endswith("ask for that with -e restart=true")
    assert "does not reboot" in rows["reboot"]["not_measured"]
    assert rows["docker_version"]["not_measured"] == "the Docker Engine cannot be asked (No such file or directory)"


def test_what_was_watched_before_is_reported(capsys: pytest.CaptureFixture[str], nowhere: dict[str, str]) -> None:
    rows = run(capsys, **nowhere, samples=[[0.0, 5, 6], [1.0, 4, 5]])["rows"]
    assert [row["value"] for row in rows if row["id"] == "memory_loading"] == [[[0.0, 5, 6], [1.0, 4, 5]]]


def test_watching(capsys: pytest.CaptureFixture[str], nowhere: dict[str, str], tmp_path: Path) -> None:
    failed = run(capsys, **nowhere, watch_until=str(tmp_path / "end"), deadline=0.01)
    assert failed["msg"].startswith("Watching the memory failed: there is no /proc/meminfo.")
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/meminfo").write_text("MemFree: 1 kB\nMemAvailable: 2 kB\n")
    result = run(capsys, **nowhere, watch_until=str(tmp_path / "end"), deadline=0.01)
    assert result["rows"] == []
    assert result["samples"][0][1:] == [1024, 2048]

# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import typing as t
from pathlib import Path

import pytest
from ansible.module_utils.testing import patch_module_args
from ansible_collections.dgx_spark.speculative.plugins.modules import deployment_files

SCRIPT = {"name": "serve.sh", "content": "#!/bin/bash\necho hello\n", "mode": "0755"}


def run(capsys: pytest.CaptureFixture[str], directory: Path, **arguments: t.Any) -> dict[str, t.Any]:
    with patch_module_args({"directory": str(directory), "files": [SCRIPT], **arguments}), pytest.raises(SystemExit):
        deployment_files.main()
    return dict(json.loads(capsys.readouterr().out))


def test_everything_is_made_once(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    home = tmp_path / "a" / "b"
    first = run(capsys, home, subdirectories=["state"])
    second = run(capsys, home, subdirectories=["state"])
    assert (first["changed"], second["changed"]) == (True, False)
    assert first["sha256"] == second["sha256"]
    assert (len(first["diff"]), second["diff"]) == (3, [])
    assert (home / "serve.sh").read_text(encoding="utf-8") == SCRIPT["content"]
    assert [oct(path.stat().st_mode)[-4:] for path in (home, home / "state", home / "serve.sh")] == [
        "0700",
        "0755",
        "0755",
    ]


def test_a_changed_file_shows_its_difference(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    first = run(capsys, tmp_path)
    second = run(capsys, tmp_path, files=[{**SCRIPT, "content": "echo bye\n"}])
    assert second["changed"]
    assert [(part["before"], part["after"]) for part in second["diff"]] == [(SCRIPT["content"], "echo bye\n")]
    assert second["sha256"] != first["sha256"]


def test_a_changed_mode_is_a_change(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    run(capsys, tmp_path)
    second = run(capsys, tmp_path, files=[{**SCRIPT, "mode": "0644"}])
    assert second["changed"]
    assert [(part["before"], part["after"]) for part in second["diff"]] == [("mode 0755\n", "mode 0644\n")]
    assert oct((tmp_path / "serve.sh").stat().st_mode)[-4:] == "0644"


def test_check_mode_writes_nothing(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    result = run(capsys, tmp_path / "new", subdirectories=["state"], _ansible_check_mode=True)
    assert result["changed"]
    assert len(result["diff"]) == 3
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("name", ["../x", "a/../../b", "/a", "a//b", "..", ""])
def test_a_name_that_leads_out_is_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path, name: str) -> None:
    result = run(capsys, tmp_path, files=[{**SCRIPT, "name": name}])
    assert result["failed"]
    assert "must stay below it" in result["msg"]


def test_a_directory_that_cannot_be_made_says_so(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    result = run(capsys, tmp_path / "file" / "below")
    assert result["failed"]
    assert result["msg"].startswith(f"Writing the deployment to {tmp_path / 'file' / 'below'} failed: Not a directory")


def test_wrong_line_endings_are_a_difference(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    run(capsys, tmp_path)
    (tmp_path / "serve.sh").write_bytes(SCRIPT["content"].replace("\n", "\r\n").encode())
    assert run(capsys, tmp_path)["changed"]
    assert b"\r" not in (tmp_path / "serve.sh").read_bytes()

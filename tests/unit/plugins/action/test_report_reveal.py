# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit import plays

SECRET = "sk-spark-shown-once-0123456789"


def play(directory: Path, *options: str, no_log: bool = True) -> tuple[int, str, str]:
    """A run on this host; what the screen shows, and what the log file keeps."""
    (directory / "key").write_text(SECRET + "\n")
    secrets = {"paths": {"laptop": str(directory / "key")}, "what": "API key"}
    task = {"dgx_spark.speculative.report": {"reveal": secrets}}
    play = {"gather_facts": False, "tasks": [{**task, "no_log": no_log}]}
    done = plays.run(directory, play, *options, ANSIBLE_LOG_PATH=str(directory / "log"))
    return done.returncode, done.stdout + done.stderr, (directory / "log").read_text()


@pytest.mark.parametrize("options", [[], ["-vvvv", "--diff"]])
def test_once_on_the_screen_and_never_in_the_log(tmp_path: Path, options: list[str]) -> None:
    code, screen, log = play(tmp_path, *options)
    assert code == 0
    assert screen.count(SECRET) == 1
    assert "new API key 'laptop', shown this once:" in screen
    assert SECRET not in log
    assert "PLAY RECAP" in log


def test_not_in_check_mode(tmp_path: Path) -> None:
    code, screen, _log = play(tmp_path, "--check")
    assert code == 0
    assert SECRET not in screen


def test_not_without_no_log(tmp_path: Path) -> None:
    code, screen, _log = play(tmp_path, no_log=False)
    assert code != 0
    assert "Set 'no_log: true' on the task" in screen
    assert SECRET not in screen

# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Programs of jobs in one text each, which runs where nothing of Ansible is."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from ansible.errors import AnsibleLookupError
from ansible_collections.dgx_spark.speculative.plugins.lookup import job

from tests.unit.waiting import WITHIN_S

SHARED = {"engine", "files", "said"}
PROGRAMS = sorted({path.stem for path in job.JOBS.glob("*.py")} - SHARED)


def test_the_parts_come_before_those_that_need_them() -> None:
    assert list(job.parts("pull_image")) == ["said", "engine", "pull_image"]
    assert list(job.parts("said")) == ["said"]


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_runs_without_the_collection(tmp_path: Path, name: str) -> None:
    text = job.program(name)
    # The same job is the same text, or an attached one would be taken for another.
    assert text == job.program(name)
    path = tmp_path / "program.py"
    path.write_text(text, encoding="utf-8")
    code = f"import runpy; print(sorted(runpy.run_path({str(path)!r}).keys() & {{'main', 'Message'}}))"
    done = subprocess.run(
        [sys.executable, "-I", "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=WITHIN_S
    )
    assert done.returncode == 0, done.stderr
    assert "'main'" in done.stdout


def test_a_text_that_has_everything_in_it_comes_through(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "jobs"
    folder.mkdir()
    lines = ["WORDS = '''a \\\\ \"\"\" {b} \\u00e4'''", "from sys import argv"]
    (folder / "part.py").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (folder / "whole.py").write_text("from .part import WORDS\nif __name__ == '__main__':\n    print(ascii(WORDS))\n")
    monkeypatch.setattr(job, "JOBS", folder)
    done = subprocess.run(
        [sys.executable, "-I", "-c", job.program("whole")], capture_output=True, text=True, check=True
    )
    assert done.stdout == ascii('a \\ """ {b} ä') + "\n"


def test_an_unknown_name_is_an_error() -> None:
    with pytest.raises(AnsibleLookupError, match="There is no job 'nothing'"):
        job.LookupModule().run(["nothing"])

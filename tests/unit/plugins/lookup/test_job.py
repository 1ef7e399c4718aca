# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Programs of jobs in one file each, which runs where nothing of Ansible is."""

from __future__ import annotations

import re
import subprocess
import sys
import typing as t
from pathlib import Path

import pytest
from ansible.errors import AnsibleLookupError
from ansible_collections.dgx_spark.speculative.plugins.lookup import job

from tests.unit.waiting import WITHIN_S

PROGRAMS = sorted(
    path.stem for path in job.file_of(f"{job.JOBS}x").parent.glob("*.py") if "__main__" in path.read_text()
)


def run(program: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Run a program where neither the collection nor Ansible is."""
    command = [sys.executable, "-I", "-S", *options, str(program)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=WITHIN_S)


@pytest.fixture(name="whole")
def fixture_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> t.Callable[[str], Path]:
    """A program of one's own, with a part beside it and one that modules have, too."""
    jobs, shared = tmp_path / "plugin_utils/_jobs", tmp_path / "module_utils/_docker"
    for folder in (jobs, shared):
        folder.mkdir(parents=True)
    (jobs / "part.py").write_text("WORDS = 'ä'\n", encoding="utf-8")
    (shared / "names.py").write_text("NAME = 'a name'\n")
    monkeypatch.setattr(job, "PLUGINS", tmp_path)

    def made(text: str) -> Path:
        head = f"from {job.COLLECTION}module_utils._docker import names\nfrom .part import WORDS\n"
        (jobs / "whole.py").write_text(f"{head}if __name__ == '__main__':\n    {text}\n")
        path = tmp_path / "whole.pyz"
        path.write_bytes(job.program("whole"))
        return path

    return made


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_needs_neither_the_collection_nor_ansible(tmp_path: Path, name: str) -> None:
    # The same job is the same bytes, or an attached one would be taken for another.
    assert job.program(name) == job.program(name)
    path = tmp_path / "program.pyz"
    path.write_bytes(job.program(name))
    code = f"import sys; sys.path[:0] = [{str(path)!r}]; from {job.JOBS.rstrip('.')} import {name}; {name}.main"
    done = run(Path("-c"), "-c", code)
    assert done.returncode == 0, done.stderr


def test_a_program_has_its_parts_and_its_arguments(whole: t.Callable[[str], Path]) -> None:
    done = run(whole("import sys; print(ascii(WORDS), names.NAME, sys.argv[1:])"))
    assert done.stdout == r"'\xe4' a name []" + "\n", done.stderr


def test_a_traceback_names_file_and_line(whole: t.Callable[[str], Path]) -> None:
    done = run(whole("raise ValueError(WORDS)"))
    assert re.search(r'/whole\.pyz/\S+/_jobs/whole\.py", line 4, in <module>', done.stderr)


def test_an_unknown_name_is_an_error() -> None:
    with pytest.raises(AnsibleLookupError, match="There is no job 'nothing'"):
        job.LookupModule().run(["nothing"])

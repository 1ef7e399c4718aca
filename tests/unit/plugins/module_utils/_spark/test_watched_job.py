# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import errno
import os
import subprocess
import sys
import typing as t
from pathlib import Path

import pytest
from ansible_collections.dgx_spark.speculative.plugins.module_utils._spark import watched_job as wj

from tests.unit.waiting import WITHIN_S


@pytest.fixture(name="job")
def fixture_job(tmp_path: Path) -> wj.Job:
    job = wj.Job(tmp_path, "pull")
    job.directory.mkdir()
    return job


def test_job_key_depends_on_program_and_arguments_only() -> None:
    assert wj.job_key(b"a", ["b"]) == wj.job_key(b"a", ("b",))
    assert len({wj.job_key(b"a", ["b"]), wj.job_key(b"ab", []), wj.job_key(b"a", []), wj.job_key(b"a", ["b", ""])}) == 4


def test_process_stat_of_a_name_with_parentheses(tmp_path: Path) -> None:
    awkward = tmp_path / "a) S 1 (b"
    awkward.symlink_to("/bin/sleep")
    with subprocess.Popen([str(awkward), "30"], start_new_session=True) as process:
        stat = wj.process_stat(process.pid)
        assert stat is not None
        assert stat[1:3] == (process.pid, process.pid)
        assert wj.is_same_process(process.pid, stat[3])
        assert not wj.is_same_process(process.pid, stat[3] + 1), "another process that was given the number"
        assert wj.group_lives(process.pid)
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert not wj.is_same_process(process.pid, stat[3]), "a zombie does not run"
    assert wj.process_stat(process.pid) is None
    assert not wj.is_same_process(None, None)


@pytest.mark.parametrize(("rc", "expected"), [(0, "exit code 0"), (3, "exit code 3"), (-9, "signal 9")])
def test_how_it_ended(rc: int, expected: str) -> None:
    assert wj.how_it_ended(rc) == expected


@pytest.mark.parametrize(
    ("rc", "result", "error", "log", "expected"),
    [
        (0, {"a": 1}, None, "", {"result": {"a": 1}, "error": None}),
        (0, None, None, "", {"result": {}, "error": None}),
        (1, None, "No space.", "x", {"result": None, "error": "No space."}),
        (0, {"a": 1}, "No space.", "x", {"result": None, "error": "No space."}),
        (
            3,
            {"a": 1},
            None,
            "",
            {"result": None, "error": "The pull job ended with exit code 3 and without saying why; its log is {log}."},
        ),
        (
            -15,
            None,
            None,
            "one\nKilled by me\n\n",
            {
                "result": None,
                "error": "The pull job ended with signal 15 and without saying why; its log is {log}, "
                "which ends with: Killed by me",
            },
        ),
    ],
)
def test_outcome(job: wj.Job, rc: int, result: t.Any, error: str | None, log: str, expected: dict[str, t.Any]) -> None:
    job.log.write_text(log)
    got = wj.outcome(job, rc, result, error)
    if expected["error"]:
        expected = {**expected, "error": expected["error"].format(log=job.log)}
    assert {key: got[key] for key in ("result", "error")} == expected
    assert got["finished"]
    assert got["rc"] == rc


def test_files_are_private(job: wj.Job) -> None:
    job.write({"id": "x"})
    assert job.read() == wj.of_any({"id": "x"})
    assert (job.directory / "job.json").stat().st_mode & 0o777 == 0o600
    assert [entry.name for entry in job.directory.iterdir()] == ["job.json"]


def test_directories_above_are_private_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o002)
    try:
        with wj.Job(tmp_path / "share" / "jobs", "pull").locked():
            pass
    finally:
        os.umask(before)
    assert {(tmp_path / name).stat().st_mode & 0o777 for name in ("share", "share/jobs")} == {0o700}


def test_directories_and_lock_get_the_group_of_the_directory_above(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: dict[str, tuple[int, int]] = {}

    def give(path: Path, user: int, group: int) -> None:
        given[Path(path).name] = user, group
        raise PermissionError

    monkeypatch.setattr(os, "chown", give)
    with wj.Job(tmp_path / "share" / "jobs", "pull").locked():
        pass
    owner = tmp_path.stat()
    assert given == dict.fromkeys(("share", "jobs", "pull.lock"), (owner.st_uid, owner.st_gid))


def test_a_full_disk_does_not_lose_the_state(job: wj.Job, monkeypatch: pytest.MonkeyPatch) -> None:
    job.write({"id": "long enough to be shortened"})

    def full(self: Path, target: Path) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    job.write({"id": "y"})
    assert job.read() == wj.of_any({"id": "y"})
    assert [entry.name for entry in job.directory.iterdir()] == ["job.json"]


@pytest.mark.parametrize("content", ["", "{", "[]", "[" * 100_000])
def test_a_state_that_is_not_valid_is_none(job: wj.Job, content: str) -> None:
    (job.directory / "job.json").write_text(content)
    assert job.read() is None


def test_a_state_of_an_earlier_boot_is_not_running(job: wj.Job) -> None:
    own = wj.process_stat(os.getpid())
    assert own is not None
    state = {"finished": False, "boot": wj.boot_id(), "pid": os.getpid(), "start_time": own[3]}
    assert job.is_running(state)
    assert not job.is_running({**state, "boot": "an earlier one"})
    assert not job.is_running({**state, "finished": True})


def test_terminate_insists(tmp_path: Path) -> None:
    script = "import signal, subprocess, sys, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(1, flush=True)"
    script += "; subprocess.run(['sleep', '60'])"
    command = [sys.executable, "-c", script]
    with subprocess.Popen(command, start_new_session=True, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        stat = wj.process_stat(process.pid)
        assert stat is not None
        state = {"boot": wj.boot_id(), "program_pid": process.pid, "program_start": stat[3]}
        wj.terminate_program({**state, "program_start": stat[3] + 1}, 0.2)
        wj.terminate_program({**state, "boot": "an earlier one"}, 0.2)
        assert process.poll() is None, "another process of that number is left alone"
        wj.terminate_program(state, 0.2)
        assert process.wait(WITHIN_S) == -9
        assert not wj.group_lives(process.pid)

# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import base64
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
import typing as t
from pathlib import Path

import pytest
from ansible_collections.dgx_spark.speculative.plugins.modules import watched_job

from tests.unit import modules
from tests.unit.waiting import until

SAY = "import json, sys\ndef say(**message): print(json.dumps(message), flush=True)\n"
# Runs until a file appears, and notes each start.
PATIENT = (
    SAY
    + """
import os, pathlib, time
gate = pathlib.Path(sys.argv[1])
with open(str(gate) + ".starts", "a") as f: f.write("%d\\n" % os.getpid())
say(progress={"percent": 50, "text": "half"})
while not gate.exists(): time.sleep(0.02)
say(progress={"percent": 100, "text": "whole"})
say(result={"gate": str(gate)})
"""
)


class Caller:
    """Calls the module with one job in its own directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def __call__(self, check_mode: bool = False, program: str | None = None, **args: t.Any) -> dict[str, t.Any]:
        params = {"name": "pull", "directory": str(self.directory), **args, "_ansible_check_mode": check_mode}
        params["program"] = None if program is None else base64.b64encode(program.encode()).decode()
        return modules.run(watched_job, params)

    def state(self) -> dict[str, t.Any]:
        state: dict[str, t.Any] = json.loads((self.directory / "pull" / "job.json").read_text())
        return state


@pytest.fixture(name="call")
def fixture_call(tmp_path: Path) -> t.Iterator[Caller]:
    caller = Caller(tmp_path / "jobs")
    yield caller
    caller(state="absent")


def starts(gate: Path) -> list[int]:
    return [int(line) for line in Path(f"{gate}.starts").read_text().split()]


def is_alive(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


def test_what_a_job_warns_of_is_a_warning(call: Caller) -> None:
    result = call(program=SAY + 'say(result={"warnings": ["Look."]})', wait=20)
    assert [warning["event"]["msg"] for warning in result["warnings"]] == ["Look."]


def test_a_short_job_is_one_call(call: Caller) -> None:
    program = SAY + "say(progress={'percent': 100, 'text': 'done'}); say(result={'arguments': sys.argv[1:]})"
    before = time.time()
    result = call(program=program, arguments=["a b", "'"])
    assert result == {
        "changed": True,
        "finished": True,
        "attached": False,
        "progress": {"percent": 100.0, "text": "done"},
        "result": {"arguments": ["a b", "'"]},
        "rc": 0,
        "log": str(call.directory / "pull" / "log"),
        "job": result["job"],
        "follow": {"job": result["job"]},
        "started": result["started"],
    }
    assert before - 1 < result["started"] < time.time() + 1
    assert (call.directory / "pull").stat().st_mode & 0o777 == 0o700
    for file in (call.directory / "pull").iterdir():
        assert file.stat().st_mode & 0o777 == 0o600, file


def test_a_second_call_attaches_and_the_end_is_told_once(call: Caller, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    job: dict[str, t.Any] = {"program": PATIENT, "arguments": [str(gate)]}
    first = call(**job, wait=0.5)
    assert (first["finished"], first["attached"], first["changed"], first["result"]) == (False, False, True, {})
    until(lambda: call.state()["progress"]["text"])
    second = call(**job, wait=0)
    assert (second["finished"], second["attached"], second["changed"]) == (False, True, False)
    assert second["progress"] == {"percent": 50.0, "text": "half"}
    gate.touch()
    third = call(**job)
    assert (third["finished"], third["attached"], third["changed"], third["rc"]) == (True, True, True, 0)
    assert third["result"] == {"gate": str(gate)}
    again = call(job=first["job"], **job)
    assert (again["finished"], again["changed"], again["result"]) == (True, False, {"gate": str(gate)})
    assert len(starts(gate)) == 1
    anew = call(**job)
    assert (anew["finished"], anew["attached"]) == (True, False)
    assert len(starts(gate)) == 2


def test_the_end_of_an_unwatched_job_is_told_later(call: Caller, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    job: dict[str, t.Any] = {"program": PATIENT, "arguments": [str(gate)]}
    call(**job, wait=0)
    gate.touch()
    until(lambda: call.state()["finished"])
    checked = call(check_mode=True, **job)
    assert (checked["finished"], checked["attached"], checked["changed"]) == (True, True, False)
    later = call(**job)
    assert (later["finished"], later["attached"], later["changed"]) == (True, True, True)
    assert len(starts(gate)) == 1


def test_a_failure_that_nobody_saw_is_tried_again(call: Caller, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    program = f"""{SAY}
import pathlib, time
while not pathlib.Path(sys.argv[1] + ".go").exists(): time.sleep(0.02)
say(result={{}}) if pathlib.Path(sys.argv[1]).exists() else (say(error="The disk is full."), sys.exit(1))
"""
    job: dict[str, t.Any] = {"program": program, "arguments": [str(gate)]}
    call(**job, wait=0)
    Path(f"{gate}.go").touch()
    until(lambda: call.state()["finished"])
    gate.touch()
    assert call(**job, wait=10)["attached"] is False
    assert call.state()["error"] is None


def test_other_work_of_the_name_is_ended_and_told(call: Caller, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    first = call(program=PATIENT, arguments=[str(gate)], wait=0)
    until(lambda: call.state()["program_pid"])
    program = call.state()["program_pid"]
    other: dict[str, t.Any] = {"program": PATIENT, "arguments": [str(gate), "other"], "wait": 0}
    checked = call(check_mode=True, **other)
    assert (checked["finished"], checked["changed"]) == (True, True)
    assert is_alive(program)
    second = call(**other)
    told = r"another pull job, which had been running since \d{4}-\d\d-\d\d \d\d:\d\d:\d\d, was ended"
    assert re.fullmatch(told, second["stopped_job"])
    assert (second["attached"], second["changed"], is_alive(program)) == (False, True, False)
    assert second["job"] != first["job"]
    # Who watched the first one is told.
    assert "was stopped by another command" in call(job=first["job"], **other)["error"]
    gate.touch()


def test_two_calls_at_the_same_instant_start_one_job(call: Caller, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    code = "import sys, json; from ansible.module_utils.testing import patch_module_args as p\n"
    code += "from ansible_collections.dgx_spark.speculative.plugins.modules import watched_job as m\n"
    code += "with p(json.loads(sys.argv[1])): m.main()"
    program = base64.b64encode(PATIENT.encode()).decode()
    params = {"name": "pull", "directory": str(call.directory), "program": program, "arguments": [str(gate)], "wait": 1}
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    processes = [
        subprocess.Popen([sys.executable, "-c", code, json.dumps(params)], stdout=subprocess.PIPE, env=environment)
        for _ in range(4)
    ]
    results = [json.loads(process.communicate()[0]) for process in processes]
    assert sorted(result["attached"] for result in results) == [False, True, True, True]
    assert len({result["job"] for result in results}) == 1
    assert len(starts(gate)) == 1
    gate.touch()


def test_the_secret_reaches_the_program_and_nothing_else(call: Caller, tmp_path: Path) -> None:
    program = SAY + (
        "import os, pathlib\nsecret = sys.stdin.read()\n"
        "public = pathlib.Path('/proc/self/cmdline').read_bytes() + pathlib.Path('/proc/self/environ').read_bytes()\n"
        "say(result={'length': len(secret), 'public': secret.encode() in public})"
    )
    secret = "hf_canary" * 20000
    result = call(program=program, stdin=secret)
    assert result["result"] == {"length": len(secret), "public": False}
    for file in call.directory.rglob("*"):
        assert not file.is_file() or b"hf_canary" not in file.read_bytes()


def test_a_program_that_does_not_read_the_secret(call: Caller) -> None:
    assert call(program=SAY + "say(result={})", stdin="x" * 200000)["rc"] == 0


@pytest.mark.parametrize(
    ("program", "rc", "error"),
    [
        (SAY + "say(error='The image is gone.'); sys.exit(1)", 1, "The image is gone."),
        (
            "raise OSError('disk on fire')",
            1,
            "The pull job ended with exit code 1 and without saying why; its log is {log}, "
            "which ends with: OSError: disk on fire",
        ),
        (
            "import os; os.kill(os.getpid(), 9)",
            -9,
            "The pull job ended with signal 9 and without saying why; its log is {log}.",
        ),
    ],
)
def test_failures(call: Caller, program: str, rc: int, error: str) -> None:
    result = call(program=program)
    assert result["error"] == error.format(log=result["log"])
    assert (result["rc"], result["result"], result["finished"], result["failed"]) == (rc, {}, True, True)


def test_other_output_goes_to_the_log(call: Caller) -> None:
    program = (
        SAY + "print('hello'); print('[1]'); sys.stderr.write('oops\\n'); print('{\"result\": {\"a\": 1}}', end='')"
    )
    result = call(program=program)
    assert result["result"] == {"a": 1}
    assert sorted(Path(result["log"]).read_text().split()) == ["[1]", "hello", "oops"]


def test_a_background_child_does_not_hold_the_job(call: Caller) -> None:
    program = SAY + "import subprocess; say(result={'child': subprocess.Popen(['sleep', '300']).pid})"
    child = call(program=program)["result"]["child"]
    assert is_alive(child)
    os.kill(child, signal.SIGKILL)


@pytest.mark.parametrize("whom", ["supervisor", "both"])
def test_a_killed_supervisor(call: Caller, tmp_path: Path, whom: str) -> None:
    gate = tmp_path / "gate"
    job: dict[str, t.Any] = {"program": PATIENT, "arguments": [str(gate)]}
    first = call(**job, wait=0.5)
    until(Path(f"{gate}.starts").exists)
    state = call.state()
    assert (state["pid"], state["program_pid"]) == (state["pid"], starts(gate)[0])
    for pid in (state["pid"], state["program_pid"])[: 1 if whom == "supervisor" else 2]:
        os.kill(pid, signal.SIGKILL)
    watched = call(job=first["job"], **job)
    assert watched["error"] == (
        "The pull job ended without a result, because it was killed or the host rebooted. "
        f"Run again to start it again (its log is {first['log']})."
    )
    anew = call(**job, wait=0.5)
    assert (anew["attached"], anew["finished"]) == (False, False)
    until(lambda: len(starts(gate)) == 2)
    old, new = starts(gate)
    assert not is_alive(old)
    assert is_alive(new)
    gate.touch()
    assert call(job=anew["job"], **job)["finished"]


def test_a_stopped_job_is_not_started_by_the_one_who_watches(call: Caller, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    job: dict[str, t.Any] = {"program": PATIENT, "arguments": [str(gate)]}
    first = call(**job, wait=0)
    until(Path(f"{gate}.starts").exists)
    assert call(check_mode=True, state="absent") == {"changed": True, "finished": True}
    assert is_alive(starts(gate)[0])
    assert call(state="absent") == {"changed": True, "finished": True}
    assert not is_alive(starts(gate)[0])
    assert [entry.name for entry in call.directory.iterdir()] == ["pull.lock"]
    assert call(state="absent") == {"changed": False, "finished": True}
    watched = call(job=first["job"], **job)
    assert watched["finished"]
    assert watched["error"] == ("The pull job was stopped by another command. Run again to start it again.")
    assert len(starts(gate)) == 1


def test_what_is_left_of_a_job_that_has_ended_is_no_work_that_is_aborted(call: Caller) -> None:
    call(program=SAY, wait=20)
    assert (call.directory / "pull").exists()
    assert call(check_mode=True, state="absent") == {"changed": False, "finished": True}
    assert call(state="absent") == {"changed": False, "finished": True}
    assert not (call.directory / "pull").exists()


def test_a_program_that_has_survived_its_supervisor_is_work_that_is_aborted(call: Caller, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    call(program=PATIENT, arguments=[str(gate)], wait=0)
    until(Path(f"{gate}.starts").exists)
    os.kill(call.state()["pid"], signal.SIGKILL)
    until(lambda: not is_alive(call.state()["pid"]))
    assert call(state="absent")["changed"]
    assert not is_alive(starts(gate)[0])


@pytest.mark.parametrize(
    "state", [{}, {"finished": True}, {"id": 7, "finished": "yes", "pid": "x", "started": "today", "progress": []}]
)
def test_a_state_of_another_shape_is_that_of_no_job(call: Caller, state: dict[str, t.Any]) -> None:
    (call.directory / "pull").mkdir(parents=True)
    (call.directory / "pull" / "job.json").write_text(json.dumps(state))
    assert call(check_mode=True, program=SAY)["changed"]
    watched = call(program=SAY, job="1")
    assert watched["error"].startswith("The pull job was stopped by another command")
    anew = call(program=SAY + "say(result={'a': 1})")
    assert (anew["attached"], anew["finished"], anew["result"]) == (False, True, {"a": 1})


def test_check_mode_starts_nothing(call: Caller, tmp_path: Path) -> None:
    result = call(check_mode=True, program=PATIENT, arguments=[str(tmp_path / "gate")])
    assert (result["changed"], result["finished"], result["attached"], result["result"]) == (True, True, False, {})
    assert not call.directory.exists()


@pytest.mark.parametrize("name", ["../x", "", ".x", "a b"])
def test_the_name_is_a_file_name(call: Caller, name: str) -> None:
    result = call(name=name, program="")
    assert result["failed"]
    assert result["msg"] == f"The job's name is {name!r}, but may contain only letters, digits, '_', '-' and '.'."


def test_a_directory_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    result = Caller(tmp_path / "file" / "jobs")(program="")
    assert result["msg"] == (
        f"Keeping the pull job in {tmp_path}/file/jobs failed: Not a directory ({tmp_path}/file/jobs); "
        "check the owner, the mode and the free space of the directory."
    )

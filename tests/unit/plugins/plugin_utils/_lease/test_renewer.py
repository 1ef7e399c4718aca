# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import ast
import contextlib
import json
import os
import signal
import subprocess
import sys
import textwrap
import typing as t
from pathlib import Path

import pytest
from ansible_collections.dgx_spark.speculative.plugins.module_utils._spark import lock
from ansible_collections.dgx_spark.speculative.plugins.module_utils._spark.processes import process_stat
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._lease import renewer, run_state

from tests.unit.waiting import WITHIN_S, until

HOLDER = {"owner": "bob@desk", "activity": "stop.yml", "for_s": 4}


def test_the_program_that_asks_is_understood() -> None:
    done = subprocess.run(
        [sys.executable, "-c", run_state.CLIENT.replace(lock.NAME, "nobody-has-this-name"), "{}"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(done.stdout) == {"state": "none"}


def test_the_program_that_asks_has_no_words_and_is_of_a_sparks_python() -> None:
    (first, *others) = ast.parse(run_state.CLIENT, feature_version=(3, 9)).body
    assert isinstance(first, ast.ImportFrom)
    assert not any(ast.get_docstring(one) for one in others if isinstance(one, (ast.FunctionDef, ast.ClassDef)))


def confirmed(ago: float) -> None:
    run_state.Lease("spark-1").record_renewal(run_state.now() - ago, python="/usr/bin/python3")


class Run:
    """One that lives for so many looks."""

    def __init__(self, looks: int, stopped: bool = False) -> None:
        self.looks, self._stopped = looks, stopped

    def is_alive(self) -> bool:
        self.looks -= 1
        return self.looks >= 0

    def is_stopped(self) -> bool:
        return self._stopped


def kept(run: Run, monkeypatch: pytest.MonkeyPatch, *answers: t.Any) -> list[str]:
    monkeypatch.setattr(renewer, "LOOK_S", 0.0)
    monkeypatch.setattr(renewer, "RENEW_S", 0.0)
    monkeypatch.setattr(renewer, "AGAIN_S", 0.0)
    said, left = list[str](), list(answers)

    def ask(do: str) -> t.Any:
        said.append(do)
        return left.pop(0) if left else {"state": "held"}

    renewer.Renewer(t.cast("t.Any", run), run_state.Lease("spark-1"), ask).renew()
    return said


def test_it_is_renewed_while_the_run_lives_and_then_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    confirmed(ago=60)
    # An answer that does not come is no loss.
    assert kept(Run(3), monkeypatch, {"state": "held"}, None) == ["renew", "renew", "renew", "release"]
    known = run_state.Lease("spark-1").read() or {}
    assert known["kept"]
    assert run_state.now() - known["sent"] < 5


def test_it_is_given_back_though_the_files_of_the_run_are_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    run_state.directory().rmdir()
    assert kept(Run(1), monkeypatch) == ["renew", "release"]


def test_a_run_that_was_stopped_is_not_renewed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert kept(Run(3, stopped=True), monkeypatch) == ["release"]


def test_who_was_taken_over_from_asks_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    confirmed(ago=0)
    assert kept(Run(99), monkeypatch, {"state": "lost", "holder": HOLDER}) == ["renew"]
    assert "bob@desk has been running" in run_state.losses()[0]


MAIN = """
import multiprocessing, os, sys, time
from pathlib import Path
from ansible_collections.dgx_spark.speculative.plugins.module_utils._spark import lock
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._lease import run_state, renewer

renewer.RENEW_S = 0.1
run_state.directory = lambda: Path(sys.argv[1])

def ask(do):
    if do == "release" or not Path(sys.argv[1], "said").exists():
        renewer.display.warning("nobody hears this")
    with Path(sys.argv[1], "said").open("a") as file:
        file.write(do + "\\n")
    return {"state": "held"}

def task():
    while len(sys.argv) > 2 and os.getppid() == main:
        time.sleep(0.05)
    lease = run_state.Lease("spark-1")
    lease.record_renewal(0.0, renewer=renewer.start(lease, ask))

main = os.getpid()
worker = multiprocessing.get_context("fork").Process(target=task)
worker.start()
if len(sys.argv) > 2:
    os.kill(main, 9)
worker.join()
print(worker.exitcode, flush=True)
time.sleep(60)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_the_renewer_outlives_the_task_and_not_the_run(of_the_run: Path, number: int) -> None:
    main = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(MAIN), str(of_the_run)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        start_new_session=True,
    )
    assert main.stdout is not None
    assert main.stdout.readline() == b"0\n"
    said = of_the_run / "said"
    until(lambda: said.exists() and said.read_text().count("renew") > 2)
    process = process_stat((run_state.Lease("spark-1").read() or {})["renewer"])
    assert process is not None
    os.killpg(main.pid, number)
    main.wait()
    until(lambda: said.read_text().endswith("release\n"))
    until(lambda: process_stat((run_state.Lease("spark-1").read() or {})["renewer"]) != process)


def test_a_run_that_was_killed_while_it_took_the_lease_gives_it_back(of_the_run: Path) -> None:
    command = [sys.executable, "-c", textwrap.dedent(MAIN), str(of_the_run), "killed"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    assert subprocess.run(command, env=environment, timeout=WITHIN_S, check=False).returncode == -signal.SIGKILL
    said = of_the_run / "said"
    until(said.exists)
    # The renewer may have ended before the task has noted its number.
    process = until(lambda: int((run_state.Lease("spark-1").read() or {}).get("renewer") or 0))
    until(lambda: process_stat(process) is None)
    assert said.read_text() == "release\n"


def test_a_run_that_was_stopped_lives_until_it_has_ended() -> None:
    process = subprocess.Popen(["sleep", "30"])
    try:
        process.send_signal(signal.SIGSTOP)
        stopped = renewer.Run(process.pid)
        until(stopped.is_stopped)
        assert stopped.is_alive()
    finally:
        process.kill()
        process.wait()
    assert not stopped.is_alive()


GIVING_UP = """
import contextlib, os, subprocess, sys, time
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._lease import renewer

renewer.ANSWER_S = 1

def ask(do):
    # As what Ansible calls on the way does.
    with contextlib.suppress(Exception):
        asks = subprocess.Popen(["sleep", "60"])
        print(asks.pid, flush=True)
        asks.wait()
    return {"state": "held"}

asked = renewer._limited(ask)
print([asked("renew"), asked("renew")], flush=True)
time.sleep(60)
"""


def test_an_answer_that_does_not_come_is_given_up_with_what_asks() -> None:
    """Each time: it would be said late, perhaps when the run is over."""
    main = subprocess.Popen(
        [sys.executable, "-c", GIVING_UP],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        start_new_session=True,
    )
    assert main.stdout is not None
    first, second, said = (main.stdout.readline().decode().strip() for _line in range(3))
    try:
        assert said == "[None, None]"
        until(lambda: not any(renewer.is_at_work(int(pid)) for pid in (first, second)))
        # SIGTERM ends it, too, as before.
        main.terminate()
        assert main.wait(WITHIN_S) == -signal.SIGTERM
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(main.pid, signal.SIGKILL)

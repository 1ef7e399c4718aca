# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Run the shipped playbooks against the twin the way a person does, and look at what came of it."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import re
import signal
import subprocess
import sys
import time
import typing as t
from pathlib import Path

from tests.twin.names import STATE

ROOT = Path(__file__).parent.parent
INVENTORY = STATE / "inventory.yml"
TASK = re.compile(r"^TASK \[(?P<name>.*?)\] \**$")


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What a run of a playbook printed, and how it ended."""

    code: int
    output: str

    @property
    def changed(self) -> list[str]:
        """Names of the tasks that changed something, in order, without their role."""
        return self.tasks("changed")

    def tasks(self, verdict: str) -> list[str]:
        names: list[str] = []
        task = ""
        for line in self.output.splitlines():
            found = TASK.match(line)
            if found:
                task = found["name"].rpartition(" : ")[2]
            elif line.startswith(f"{verdict}: [") and (not names or names[-1] != task):
                names.append(task)
        return names

    @property
    def message(self) -> str:
        """What the failing task said, with white space folded."""
        failed = self.output.rpartition("FAILED! =>")[2].partition("PLAY RECAP")[0]
        found = re.search(r"msg: (?:>-|\|-)?(.*?)(?:\n    \w|\Z)", failed, re.DOTALL)
        text = found[1] if found else failed
        return " ".join(text.split()).strip("'\"").replace("''", "'")


def command(playbook: str, *arguments: str, variables: t.Mapping[str, t.Any] | None = None) -> list[str]:
    extra = ["-e", json.dumps(variables)] if variables else []
    return [
        str(Path(sys.executable).with_name("ansible-playbook")),
        *([] if "-i" in arguments else ["-i", str(INVENTORY)]),
        *extra,
        *arguments,
        str(Path("playbooks") / f"{playbook}.yml"),
    ]


def environment(**changes: str) -> dict[str, str]:
    """The environment without anything of the calling program's Ansible, and without a token."""
    inherited = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("ANSIBLE_", "MOLECULE_", "HF_")) and name != "SUDO_USER"
    }
    # Ansible's own output, which Outcome reads, whatever ansible.cfg chooses for people.
    pinned = {"ANSIBLE_STDOUT_CALLBACK": "ansible.builtin.default", "ANSIBLE_NOCOLOR": "1"}
    return {**inherited, **pinned, "HF_TOKEN_PATH": "/nonexistent", **changes}


def run(playbook: str, *arguments: str, variables: t.Mapping[str, t.Any] | None = None, **changes: str) -> Outcome:
    """Run a shipped playbook from the checkout with the twin's inventory; keyword arguments go to its environment."""
    done = subprocess.run(
        command(playbook, *arguments, variables=variables),
        cwd=ROOT,
        env=environment(**changes),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=900,
        check=False,
        # A test that kills the run must not be killed with it.
        start_new_session=True,
    )
    return Outcome(done.returncode, done.stdout)


def succeed(playbook: str, *arguments: str, variables: t.Mapping[str, t.Any] | None = None, **changes: str) -> Outcome:
    outcome = run(playbook, *arguments, variables=variables, **changes)
    assert outcome.code == 0, outcome.output
    return outcome


def fail(playbook: str, *arguments: str, variables: t.Mapping[str, t.Any] | None = None, **changes: str) -> Outcome:
    outcome = run(playbook, *arguments, variables=variables, **changes)
    assert outcome.code != 0, outcome.output
    assert "Traceback" not in outcome.output
    return outcome


class Background:
    """A playbook that runs while the test does something else, in a process group of its own."""

    def __init__(self, log: Path, playbook: str, *arguments: str, **changes: str) -> None:
        self.log = log
        with log.open("w", encoding="utf-8") as output:
            self.process = subprocess.Popen(
                command(playbook, *arguments),
                cwd=ROOT,
                env=environment(PYTHONUNBUFFERED="1", **changes),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def wait_for(self, condition: t.Callable[[], bool], seconds: float = 240) -> None:
        deadline = time.monotonic() + seconds
        while not condition():
            assert self.process.poll() is None, self.log.read_text(encoding="utf-8")
            assert time.monotonic() < deadline, self.log.read_text(encoding="utf-8")
            time.sleep(0.1)

    def kill(self) -> None:
        """As when its machine is switched off: a worker is in a session of its own, and would stay for ever."""
        pid = self.process.pid
        workers = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
        os.killpg(pid, signal.SIGKILL)
        for worker in map(int, workers):
            with contextlib.suppress(ProcessLookupError):
                os.kill(worker, signal.SIGKILL)
        self.process.wait()

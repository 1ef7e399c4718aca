# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import typing as t
from pathlib import Path

import pytest
import yaml
from ansible_collections.dgx_spark.speculative.plugins.action import (
    completions_probe,
    huggingface_snapshot,
    watched_job,
)
from ansible_collections.dgx_spark.speculative.plugins.modules import completions_probe as probe_module
from ansible_collections.dgx_spark.speculative.plugins.modules import huggingface_snapshot as snapshot_module
from ansible_collections.dgx_spark.speculative.plugins.modules import watched_job as job_module

from tests.unit.waiting import WITHIN_S, until

REPOSITORY = Path(__file__).parents[4]
PROGRAM = """
import json, pathlib, sys, time
gate = pathlib.Path(sys.argv[1])
with open(str(gate) + ".starts", "a") as f: f.write("x")
for percent in range(10, 100000, 10):
    print(json.dumps({"progress": {"percent": percent, "text": "%d %%" % percent}}), flush=True)
    if gate.exists():
        break
    time.sleep(0.3)
reason = gate.read_text() if gate.exists() else "never opened"
print(json.dumps({"error": reason} if reason else {"result": {"percent": percent}}))
sys.exit(bool(reason))
"""


class Playbook:
    """Runs one task on this machine with the real ansible-playbook."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.gate = directory / "gate"
        self.processes: list[subprocess.Popen[str]] = []
        self.environment = {
            **os.environ,
            "ANSIBLE_CONFIG": str(directory / "ansible.cfg"),
            "ANSIBLE_LOCAL_TEMP": str(directory / "local"),
            "ANSIBLE_REMOTE_TEMP": str(directory / "remote"),
        }
        config = f"[defaults]\ncollections_path={REPOSITORY}/collections\ncallback_result_format=json\n"
        (directory / "ansible.cfg").write_text(config + "[connection]\npipelining=true\n")
        (directory / "program.py").write_text(PROGRAM)

    def start(self, *arguments: str, when: str = "true", **options: t.Any) -> subprocess.Popen[str]:
        args = {
            "name": "count",
            "directory": str(self.directory / "jobs"),
            "program": "{{ lookup('ansible.builtin.file', 'program.py') | b64encode }}",
            "arguments": [str(self.gate)],
            "stdin": "canary",
            "wait": 1,
        }
        task = {
            "name": "Count",
            "dgx_spark.speculative.watched_job": {**args, "interval": 0.1, **options},
            "register": "followed",
            "when": when,
        }
        show = {"name": "Show", "ansible.builtin.copy": {"content": "{{ followed | to_json }}", "dest": "{{ out }}"}}
        tasks = [task, {**show, "check_mode": False}]
        play = {"name": "Play", "hosts": "all", "gather_facts": False, "tasks": tasks}
        (self.directory / "play.yml").write_text(json.dumps([play]))
        command = [sys.executable, "-m", "ansible", "playbook", "-i", "spark-1,", "-c", "local"]
        command += ["-e", f"ansible_python_interpreter={sys.executable}", "-e", f"out={self.directory}/out.json"]
        process = subprocess.Popen(
            [*command, *arguments, str(self.directory / "play.yml")],
            cwd=self.directory,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self.processes.append(process)
        return process

    def run(self, *arguments: str, **options: t.Any) -> tuple[int, str]:
        process = self.start(*arguments, **options)
        output = process.communicate(timeout=WITHIN_S)[0]
        return process.returncode, output

    def wait_for(self, process: subprocess.Popen[str], text: str) -> str:
        assert process.stdout is not None
        seen = ""
        for line in process.stdout:
            seen += line
            if text in line:
                return seen
        raise AssertionError(seen)

    def result(self) -> dict[str, t.Any]:
        result: dict[str, t.Any] = json.loads((self.directory / "out.json").read_text())
        return result

    def state(self) -> dict[str, t.Any]:
        state: dict[str, t.Any] = json.loads((self.directory / "jobs/count/job.json").read_text())
        return state

    def starts(self) -> int:
        return len(Path(f"{self.gate}.starts").read_text())


@pytest.fixture(name="playbook")
def fixture_playbook(tmp_path: Path) -> t.Iterator[Playbook]:
    playbook = Playbook(tmp_path)
    yield playbook
    playbook.gate.touch()
    for process in playbook.processes:
        process.kill()
        process.communicate()


def test_the_job_survives_the_playbook(playbook: Playbook) -> None:
    code, output = playbook.run("--check")
    assert code == 0, output
    assert (playbook.result()["changed"], playbook.result()["attempts"]) == (True, 1)
    assert not (playbook.directory / "jobs").exists()

    process = playbook.start()
    playbook.wait_for(process, "spark-1 | ")
    playbook.wait_for(process, "Ctrl-C stops watching, not the job. Run the same command to reattach.")
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    before = playbook.state()["progress"]["percent"]
    # The job did not stop with the one who watched it.
    until(lambda: playbook.state()["progress"]["percent"] > before)

    process = playbook.start()
    playbook.wait_for(process, "Ctrl-C")
    # A worker that is killed in the middle of saying a line leaves Ansible waiting for ever.
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    output = process.communicate(timeout=WITHIN_S)[0]
    assert "User interrupted execution" in output

    process = playbook.start()
    playbook.wait_for(process, "spark-1 | ")
    playbook.gate.touch()
    output = process.communicate(timeout=WITHIN_S)[0]
    assert process.returncode == 0, output
    result = playbook.result()
    assert (result["finished"], result["attached"], result["changed"]) == (True, True, True)
    assert result["result"]["percent"] == result["progress"]["percent"]
    assert f"spark-1 | {result['progress']['text']}" in output.splitlines()
    assert playbook.starts() == 1


def test_a_job_that_another_one_replaces_is_named_at_once(playbook: Playbook) -> None:
    process = playbook.start()
    playbook.wait_for(process, "spark-1 | ")
    os.killpg(process.pid, signal.SIGKILL)
    # With other arguments it is another job.
    playbook.wait_for(playbook.start(arguments=[str(playbook.gate), "again"]), "spark-1 | another count job")


def test_failures_are_sentences(playbook: Playbook) -> None:
    code, output = playbook.run(timeout=0.5)
    assert code == 2
    assert (
        "Following dgx_spark.speculative.watched_job on spark-1 ended after 0.5 seconds; the job keeps running there."
    ) in output

    playbook.gate.write_text("The image is gone.")
    code, output = playbook.run()
    assert code == 2
    assert '"msg": "The image is gone."' in output
    # The job failed while nobody watched, so it was tried again, and failed again.
    assert playbook.starts() == 2


def test_one_call_only(playbook: Playbook) -> None:
    code, output = playbook.run(follow=False)
    assert code == 0, output
    result = playbook.result()
    assert (result["finished"], result["attached"], "attempts" in result) == (False, False, False)
    assert "spark-1 | " not in output


def test_two_hosts_below_each_other(playbook: Playbook) -> None:
    # Only the second one has something to wait for, as when the worker gets its models.
    process = playbook.start("-i", "worker-of-two,", when="inventory_hostname != 'spark-1'")
    seen = playbook.wait_for(process, "Ctrl-C stops watching")
    playbook.gate.touch()
    output = seen + process.communicate(timeout=WITHIN_S)[0]
    assert process.returncode == 0, output
    assert "skipping: [spark-1]" in output
    assert output.count("Ctrl-C stops watching") == 1

    playbook.gate.unlink()
    process = playbook.start("-i", "worker-of-two,", when="inventory_hostname == 'spark-1'")
    seen = playbook.wait_for(process, "Ctrl-C stops watching")
    playbook.gate.touch()
    assert "spark-1       | " in seen + process.communicate(timeout=WITHIN_S)[0]


@pytest.mark.parametrize(
    ("action", "module"),
    [(watched_job, job_module), (completions_probe, probe_module), (huggingface_snapshot, snapshot_module)],
)
def test_action_and_module_agree_on_the_default(action: t.Any, module: t.Any) -> None:
    assert yaml.safe_load(module.DOCUMENTATION)["options"]["follow"]["default"] is action.ActionModule.BY_DEFAULT

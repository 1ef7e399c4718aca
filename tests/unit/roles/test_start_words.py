# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is said where a container cannot be started: the remedy is that of the cause."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest
import yaml

from tests.unit import plays

REPOSITORY = Path(__file__).parents[3]
NOT_THERE = 'Error starting container 1: 400 Client Error ("invalid mount config: bind source path does not exist: /x")'
NO_ANSWER = 'Error connecting: ("Connection refused")'
NO_DEVICE = 'Error starting container 1: 500 Server Error ("error gathering device information: /dev/none")'


def refusal(path: str, name: str) -> str:
    """The message of a task."""
    found: list[dict[str, t.Any]] = yaml.safe_load((REPOSITORY / "roles" / path).read_text(encoding="utf-8"))
    return next(str(task["ansible.builtin.fail"]["msg"]) for task in found if task["name"] == name)


def said(directory: Path, message: str, variables: dict[str, t.Any]) -> str:
    """What Ansible makes of a message."""
    keep = {"content": "{{ message }}", "dest": str(directory / "said"), "mode": "0600"}
    task = {"name": "Keep", "ansible.builtin.copy": keep, "vars": {"message": message, **variables}}
    play = {"name": "Play", "hosts": "all", "gather_facts": False, "tasks": [task]}
    done = plays.run(directory, play)
    assert done.returncode == 0, done.stdout + done.stderr
    return (directory / "said").read_text(encoding="utf-8").strip()


@pytest.mark.parametrize(
    ("reason", "remedy"),
    [
        (NOT_THERE, "Run the playbook again that deployed it, which writes what is not there."),
        (NO_ANSWER, "Docker does not answer. Start it with 'sudo systemctl start docker', then run again."),
        (NO_DEVICE, "engine_container_ulimits are handed to Docker as they are) and run again."),
    ],
)
def test_why_docker_does_not_start_a_container(tmp_path: Path, reason: str, remedy: str) -> None:
    message = refusal("engine_container/tasks/refuse_start.yml", "Report why the container does not start")
    failed = {
        "engine_container_name": "slot",
        "ansible_failed_result": {"msg": reason},
    }
    text = said(tmp_path, message, failed)
    assert text.startswith(f"spark-1: Docker could not start the container slot: {reason.split(chr(34))[1]}. ")
    assert text.endswith(remedy)


def test_half_of_a_pair_is_not_told_to_serve_alone() -> None:
    message = refusal("speculative_serve/tasks/start.yml", "Check that there is a deployment")
    assert message.endswith("First deploy a model, for example with single_eagle3.yml or two_sparks.yml.")

# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Plays with the real ansible-playbook, whose hosts are this machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import typing as t
from pathlib import Path

COLLECTIONS = Path(__file__).parents[2] / "collections"


def run(
    directory: Path,
    play: t.Mapping[str, t.Any],
    *arguments: str,
    hosts: str = "spark-1,",
    where: Path | str = COLLECTIONS,
    **environment: str,
) -> subprocess.CompletedProcess[str]:
    """Run a play in a directory, which also gets what Ansible writes; where are the collections, this one first."""
    (directory / "play.yml").write_text(json.dumps([{"name": "Play", "hosts": "all", **play}]), encoding="utf-8")
    (directory / "ansible.cfg").write_text(
        f"[defaults]\ncollections_path={where}\n[connection]\npipelining=true\n", encoding="utf-8"
    )
    environment = {
        **os.environ,
        "ANSIBLE_CONFIG": str(directory / "ansible.cfg"),
        "ANSIBLE_LOCAL_TEMP": str(directory / "local"),
        "ANSIBLE_REMOTE_TEMP": str(directory / "remote"),
        "ANSIBLE_NOCOLOR": "1",
        **environment,
    }
    command = [sys.executable, "-m", "ansible", "playbook", "-i", hosts, "-c", "local", *arguments]
    command += ["-e", f"ansible_python_interpreter={sys.executable}", "play.yml"]
    return subprocess.run(
        command, cwd=directory, env=environment, capture_output=True, text=True, timeout=300, check=False
    )


def do(
    directory: Path, *tasks: t.Mapping[str, t.Any], hosts: str = "spark-1,", **keywords: t.Any
) -> subprocess.CompletedProcess[str]:
    """Run tasks that need no facts, in a play with these keywords."""
    return run(directory, {"gather_facts": False, "tasks": tasks, **keywords}, hosts=hosts)


def registered(
    directory: Path, task: t.Mapping[str, t.Any], *arguments: str, **keywords: t.Any
) -> tuple[dict[str, t.Any], str]:
    """What a task that succeeds registers on the last host, and what was printed."""
    show = {
        "name": "Show",
        "ansible.builtin.copy": {"content": "{{ registered | to_json }}", "dest": f"{directory}/registered.json"},
        "check_mode": False,
        "delegate_to": "localhost",
        "vars": {"ansible_connection": "local"},
    }
    tasks = [{"name": "Do it", **task, "register": "registered"}, show]
    done = run(directory, {"gather_facts": False, "tasks": tasks}, *arguments, **keywords)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads((directory / "registered.json").read_text(encoding="utf-8")), done.stdout + done.stderr

# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is put before a module, and before which."""

from __future__ import annotations

import json
import shlex
import typing as t
from pathlib import Path

import pytest
from ansible.errors import AnsibleActionFail
from ansible.plugins.shell import ShellBase
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._lease import run_state
from ansible_collections.dgx_spark.speculative.plugins.shell import fenced

CONTAINER = {"action": "community.docker.docker_container"}
PYTHON = "#!/usr/bin/python3.11"


@pytest.fixture(name="lease", autouse=True)
def fixture_lease(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> run_state.Lease:
    """That of a run which has it."""

    def set_options(shell: t.Any, task_keys: t.Any, var_options: dict[str, str], direct: t.Any) -> None:
        """As Ansible does, which the twin shows."""
        del task_keys, direct
        monkeypatch.setattr(shell, "get_option", {"lease_host": var_options["inventory_hostname"]}.get)

    monkeypatch.setattr(ShellBase, "set_options", set_options)
    monkeypatch.setattr(run_state, "directory", lambda: tmp_path / "ansible-local-1" / "lease")
    run_state.directory().mkdir(parents=True)
    lease = run_state.Lease("spark-1")
    lease.record_renewal(run_state.now(), python="/usr/bin/python3")
    return lease


def command(task: dict[str, t.Any], host: str = "spark-1", environment: str = "", cmd: str = "") -> str:
    shell = fenced.ShellModule()
    shell.set_options(task_keys=task, var_options={"inventory_hostname": host})
    return shell.build_module_command(environment, PYTHON, cmd)


def test_the_guard_stands_before_what_changes_a_spark() -> None:
    environment, python, option, program, question, sentences, *module = shlex.split(
        command(CONTAINER, environment="A=b", cmd="/tmp/a b/AnsiballZ_x.py")
    )
    assert (environment, python, option) == ("A=b", "/usr/bin/python3", "-c")
    assert program == run_state.CLIENT
    assert json.loads(question) == {"do": "change", "run": run_state.run_name()}
    assert json.loads(sentences)["lost"].startswith("spark-1: another run took over (<words>).")
    assert module == ["/usr/bin/python3.11", "/tmp/a b/AnsiballZ_x.py"]


@pytest.mark.parametrize(
    "task",
    [
        {"action": "ansible.builtin.setup"},
        {"action": "dgx_spark.speculative.spark_info"},
        {**CONTAINER, "check_mode": True},
        {**CONTAINER, "delegate_to": "localhost"},
    ],
)
def test_it_does_not_before_what_changes_none(task: dict[str, t.Any]) -> None:
    assert command(task, environment="A=b", cmd="x.py") == "A=b /usr/bin/python3.11 x.py"


def test_what_ansible_would_run_is_run_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ShellBase, "build_module_command", lambda _shell, _environment, *_: "~/venv/bin/python 'a b'")
    assert command(CONTAINER, environment="A=b").endswith(" ~/venv/bin/python 'a b'")


def test_it_does_not_for_a_run_without_a_lease() -> None:
    assert command(CONTAINER, "spark-3") == "/usr/bin/python3.11"


def test_a_run_that_has_lost_one_spark_sends_nothing_to_any(lease: run_state.Lease) -> None:
    lease.record_loss({"state": "none"})
    for host in ("spark-1", "spark-2"):
        with pytest.raises(AnsibleActionFail, match="this run lost its lease"):
            command(CONTAINER, host)

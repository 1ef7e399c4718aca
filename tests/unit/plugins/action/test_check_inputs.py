# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is refused before a Spark is touched: nothing here answers under its address."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from unittest import mock

import pytest
from ansible.errors import AnsibleActionFail
from ansible_collections.dgx_spark.speculative.plugins.action import check_inputs

from tests.unit import actions, plays

OWN = {"recipe": "str", "models": "list", "lines": "int", "json": "path", "apply": "bool"}
CHECK = {"name": "Check", "dgx_spark.speculative.check_inputs": {"playbook_inputs": OWN}}
PLAY = {"name": "Play", "hosts": "all", "gather_facts": False, "tasks": [CHECK]}
# Nobody of this name logs in on this machine, so that whoever becomes root becomes somebody else.
REMOTE = ("-c", "ssh", "-e", "ansible_user=somebody")


def refused(directory: Path, *arguments: str) -> str:
    """What the play is refused with; empty if it is not."""
    done = plays.run(directory, PLAY, *REMOTE, *arguments)
    said = " ".join(done.stdout.split())
    assert (done.returncode == 0) == ("[ERROR]" not in said + done.stderr), done.stdout + done.stderr
    return "" if done.returncode == 0 else said


@pytest.mark.parametrize(
    "arguments",
    [
        [
            "-e",
            '{"speculative_serve_port": 8001, "json": "status.json", "lines": "5", "models": "all", "apply": "yes"}',
        ],
        [
            "-e",
            '{"models": ["openai/gpt-oss-120b"], "wait_minutes": "1.5", "speculative_serve_family": "{{ __later }}"}',
        ],
        ["-e", '{"open_webui_address": "::1", "open_webui_remove_data": "yes", "open_webui_environment": {"A": "1"}}'],
        # A password is for what asks for sudo itself.
        ["-e", "ansible_become_password=secret", "-e", "ansible_become_user=root", "-e", "ansible_become=false"],
        # Who logs in as root becomes nobody else.
        ["-e", "ansible_user=root", "-b"],
    ],
)
def test_what_can_be_used_is_not_refused(tmp_path: Path, arguments: list[str]) -> None:
    assert refused(tmp_path, *arguments) == ""


def test_values_of_another_type_are_told_at_once(tmp_path: Path) -> None:
    wrong = '{"speculative_serve_port": "1e3", "json": ["a"], "lines": "abc", "models": {"a": 1}, "apply": "yep"}'
    text = refused(tmp_path, "-e", wrong, "-e", "speculative_serve_deployment=../../x")
    for name in ("apply", "json", "lines", "models", "speculative_serve_port", "speculative_serve_deployment"):
        assert f"{name} is " in text


def test_templates_that_never_have_a_value(tmp_path: Path) -> None:
    wrong = {"speculative_serve_port": "{{ my_prot }}", "json": "{{ broken", "speculative_serve_draft_model": ["a/b"]}
    text = refused(tmp_path, "-e", json.dumps(wrong))
    assert "speculative_serve_port uses the variable 'my_prot', which has no value" in text
    assert "json cannot be evaluated: Syntax error in template" in text
    assert "speculative_serve_draft_model is ['a/b'], but must be text; put a number in quotes" in text


def test_the_template_of_a_secret_is_not_evaluated_before_it_is_needed(tmp_path: Path) -> None:
    assert refused(tmp_path, "-e", json.dumps({"huggingface_cache_token": "{{ lookup('file', '/absent') }}"})) == ""


@pytest.mark.parametrize("arguments", [["-b"], ["-e", "ansible_become=true"], ["-e", "ansible_become=yes"]])
def test_a_run_that_becomes_root_for_everything(tmp_path: Path, arguments: list[str]) -> None:
    text = refused(tmp_path, *arguments)
    assert "All tasks would run as root (-b, or become in the inventory or ansible.cfg)" in text
    assert "Remove it: the roles use sudo only where they need it, and -K asks for its password." in text


def test_a_user_without_a_name_is_another_one_than_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("getpass.getuser", mock.Mock(side_effect=KeyError("getpwuid(): uid not found")))
    action = actions.made(check_inputs, {})
    action._connection.become, action._task.become_user = "sudo", None
    action._get_remote_user = lambda: None
    with pytest.raises(AnsibleActionFail, match=r"^All tasks would run as root"):
        action._refuse_another_user({})


@pytest.mark.parametrize(
    ("strategy", "hosts", "says"),
    [
        ("host_pinned", ["a", "b"], "The strategy is host_pinned, but must be linear"),
        ("ansible.builtin.free", ["a", "b"], "The strategy is free, but must be linear"),
        ("free", ["a"], ""),
        ("linear", ["a", "b"], ""),
        ("mitogen_linear", ["a", "b"], ""),
    ],
)
def test_several_sparks_take_each_step_together(
    monkeypatch: pytest.MonkeyPatch, strategy: str, hosts: list[str], says: str
) -> None:
    monkeypatch.setenv("ANSIBLE_STRATEGY", strategy)
    with pytest.raises(AnsibleActionFail, match=says) if says else contextlib.nullcontext():
        check_inputs.ActionModule._refuse_another_strategy({"ansible_play_hosts_all": hosts})


@pytest.mark.parametrize("arguments", [["--become-user", "other"], ["-e", "ansible_become_user=other"]])
def test_somebody_else_than_root(tmp_path: Path, arguments: list[str]) -> None:
    assert "Tasks that need root would run as other (--become-user, or ansible_become_user" in refused(
        tmp_path, *arguments
    )
    assert "All tasks would run as other" in refused(tmp_path, *arguments, "-b")

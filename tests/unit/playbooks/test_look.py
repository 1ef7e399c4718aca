# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The parts of the one look: what is remembered of them, and what they need."""

from __future__ import annotations

import json
import subprocess
import sys
import typing as t
from pathlib import Path

import pytest
import yaml

from tests.unit import plays
from tests.unit.waiting import WITHIN_S

ROOT = Path(__file__).resolve().parents[3]
LOOK = ROOT / "playbooks/tasks/preflight_and_plan.yml"
# Each host says how a part ends; a file is what is left of the play.
ROLE = """
- dgx_spark.speculative.fabric_network:
    state: reverted
    failure_reason: "{{{{ '' if inventory_hostname in refers else '{part} of ' ~ inventory_hostname }}}}"
    others: a
  when: inventory_hostname in fails.{part} | default([])
"""
PLAY = """
- hosts: all
  gather_facts: false
  tasks:
    - ansible.builtin.set_fact: {deployment_problems: [], deployment_failed_checks: []}
    - ansible.builtin.include_tasks: {file: "%s", apply: {any_errors_fatal: false}}
      vars: {check: {key: docker, name: one, role: part, tasks: docker, of: all}}
    - ansible.builtin.include_tasks: {file: "%s", apply: {any_errors_fatal: true}}
      vars: {check: {key: cable, name: two, role: part, tasks: cable, of: cluster, needs: [all_hosts]}}
    - ansible.builtin.include_tasks: {file: "%s", apply: {any_errors_fatal: true}}
      vars: {check: {key: cluster, name: cluster, role: part, tasks: cluster, of: cluster, needs: [docker, cable]}}
    - ansible.builtin.include_tasks: {file: "%s", apply: {any_errors_fatal: false}}
      vars: {check: {key: image, name: three, role: part, tasks: image, of: all, needs: [docker]}}
    - ansible.builtin.copy:
        content: "{{ {'problems': deployment_problems, 'missing': deployment_failed_checks} | to_json }}"
        dest: "{{ playbook_dir }}/{{ inventory_hostname }}.json"
        mode: "0600"
"""


def looked(tmp_path: Path, fails: dict[str, list[str]], refers: t.Sequence[str] = ()) -> dict[str, t.Any]:
    """What two hosts remember."""
    check = (ROOT / "playbooks/tasks/preflight_check.yml").read_text(encoding="utf-8")
    # The roles of the test in place of the collection's.
    text = check.replace("dgx_spark.speculative.{{ check.role }}", "{{ check.role }}")
    (tmp_path / "preflight_check.yml").write_text(text, encoding="utf-8")
    tasks = tmp_path / "roles/part/tasks"
    tasks.mkdir(parents=True)
    for part in ("docker", "cable", "cluster", "image"):
        (tasks / f"{part}.yml").write_text(ROLE.format(part=part), encoding="utf-8")
    every = yaml.safe_load((ROOT / "playbooks/group_vars/all.yml").read_text(encoding="utf-8"))
    given = {name: every[name] for name in ("deployment_hosts", "deployment_failed_checks_for")}
    known = {**given, "fails": fails, "refers": [*refers], "deployment_settings": {"expose": "local"}}
    play = {**yaml.safe_load(PLAY % (("preflight_check.yml",) * 4))[0], "vars": known}
    done = plays.run(tmp_path, play, hosts="a,b,")
    assert done.returncode == 0, done.stdout + done.stderr
    return {name: json.loads((tmp_path / f"{name}.json").read_text(encoding="utf-8")) for name in "ab"}


def test_each_remembers_its_own_and_what_needs_it_is_left_out(tmp_path: Path) -> None:
    found = looked(tmp_path, {"docker": ["a"], "cable": ["b"], "image": ["a", "b"]})
    # Not b's cable too, though a is in the same rescue and has failed before.
    assert found["a"] == {"problems": ["a: docker of a"], "missing": ["docker"]}
    # b's image is looked at, since b has Docker.
    assert found["b"] == {"problems": ["b: cable of b", "b: image of b"], "missing": ["cable", "image"]}


def test_who_only_points_at_anothers_message_has_nothing_to_remember(tmp_path: Path) -> None:
    found = looked(tmp_path, {"cable": ["a", "b"]}, refers=["b"])
    assert [found[host]["problems"] for host in ("a", "b")] == [["a: cable of a"], []]


def test_what_concerns_several_needs_it_on_each(tmp_path: Path) -> None:
    found = looked(tmp_path, {"docker": ["a"], "cluster": ["a", "b"]})
    assert [found[name]["problems"] for name in "ab"] == [["a: docker of a"], []]


def test_what_goes_wrong_keeps_no_other_part_from_looking(tmp_path: Path) -> None:
    found = looked(tmp_path, {"cable": ["a"], "image": ["b"]})
    assert found["a"]["problems"] == ["a: cable of a"]
    assert found["b"]["problems"] == ["b: image of b"]


@pytest.mark.parametrize("late", ["proxy"])
def test_who_takes_part_is_known_before_the_loop(late: str) -> None:
    """The conditions of a loop are all judged before its first part; a proxy shows in what `image` finds."""
    loops = [task["loop"] for task in yaml.safe_load(LOOK.read_text(encoding="utf-8")) if "loop" in task]
    (whose,) = [loop for loop in loops if any(part["of"] == late for part in loop)]
    assert len(whose) == 1
    assert loops.index(whose) == len(loops) - 1


def test_a_recipe_that_its_image_refuses_reaches_no_spark(tmp_path: Path) -> None:
    recipe = yaml.safe_load((ROOT / "playbooks/recipes/single_eagle3.yml").read_text(encoding="utf-8"))
    (tmp_path / "mine.yml").write_text(
        yaml.safe_dump({**recipe, "options": {"enable_autotunr": True}}), encoding="utf-8"
    )
    (tmp_path / "hosts.yml").write_text("sparks: {hosts: {nowhere.invalid: {}}}\n", encoding="utf-8")
    command = [
        sys.executable,
        "-m",
        "ansible",
        "playbook",
        "-i",
        str(tmp_path / "hosts.yml"),
        "playbooks/preflight.yml",
    ]
    command += ["-e", f"recipe={tmp_path}/mine.yml"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT, timeout=WITHIN_S)
    said = " ".join((done.stdout + done.stderr).split())
    assert done.returncode != 0
    assert "options.enable_autotunr: " in said
    assert "nowhere.invalid" not in said

# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A value gets stronger in this order: role default, recipe, a benchmark's choice, inventory, command line."""

from __future__ import annotations

import json
import subprocess
import sys
import typing as t
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PLAY = """
- name: Show what a role would use
  hosts: sparks
  connection: local
  gather_facts: false
  vars:
    deployment_recipe: "{{ __recipe.recipe }}"
  tasks:
    - name: Read the recipe
      dgx_spark.speculative.recipe_info:
        recipe: "{{ recipe }}"
      register: __recipe

    - name: Make the role's defaults visible
      ansible.builtin.import_role:
        name: dgx_spark.speculative.speculative_serve
        tasks_from: preflight
      when: false

    - name: Show them
      ansible.builtin.debug:
        msg: "port={{ speculative_serve_port }} length={{ speculative_serve_draft_length }}"
"""
# What a benchmark has chosen for just this recipe and image.
REPORT = {"date": "2026-11-22", "verdict": {"kind": "use", "draft_length": 4, "sentence": "Use draft length 4."}}
CHOICE = (
    "{{ report | dgx_spark.speculative.benchmark_chosen("
    "{'image': {'reference': __recipe.recipe.image}, 'models': {}}, __recipe.recipe, {}) }}"
)
CHOSEN: dict[str, t.Any] = {"report": REPORT, "__speculative_serve_records": {"choice": CHOICE}}


def shown(directory: Path, inventory: t.Mapping[str, t.Any], *arguments: str) -> str:
    hosts = {"sparks": {"hosts": {"spark-1": {}}, "vars": {"recipe": "single_eagle3", **inventory}}}
    (directory / "hosts.yml").write_text(json.dumps(hosts), encoding="utf-8")
    (directory / "play.yml").write_text(PLAY, encoding="utf-8")
    done = subprocess.run(
        [
            str(Path(sys.executable).with_name("ansible-playbook")),
            *("-i", str(directory / "hosts.yml"), str(directory / "play.yml"), *arguments),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize(
    ("inventory", "arguments", "expected"),
    [
        ({}, [], "port=8000 length=5"),
        ({"speculative_serve_draft_length": 3}, [], "port=8000 length=3"),
        ({"speculative_serve_draft_length": 3}, ["-e", "speculative_serve_draft_length=2"], "port=8000 length=2"),
        ({"speculative_serve_port": 8001}, [], "port=8001 length=5"),
        (CHOSEN, [], "port=8000 length=4"),
        (CHOSEN, ["-e", "trtllm_container_image=another"], "port=8000 length=5"),
        ({**CHOSEN, "speculative_serve_use_benchmark": False}, [], "port=8000 length=5"),
        ({**CHOSEN, "speculative_serve_draft_length": 3}, [], "port=8000 length=3"),
    ],
    ids=[
        "the recipe beats the default",
        "the inventory beats the recipe",
        "-e beats the inventory",
        "default",
        "a benchmark beats the recipe",
        "but not for another image",
        "nor where it is not wanted",
        "the inventory beats a benchmark",
    ],
)
def test_precedence(tmp_path: Path, inventory: dict[str, t.Any], arguments: list[str], expected: str) -> None:
    assert expected in shown(tmp_path, inventory, *arguments)


def test_a_recipe_of_ones_own_beats_the_one_of_the_inventory(tmp_path: Path) -> None:
    text = (ROOT / "playbooks" / "recipes" / "single_eagle3.yml").read_text(encoding="utf-8")
    (tmp_path / "mine.yml").write_text(text.replace("draft_length: 5", "draft_length: 7"), encoding="utf-8")
    assert "length=7" in shown(tmp_path, {}, "-e", f"recipe={tmp_path / 'mine.yml'}")

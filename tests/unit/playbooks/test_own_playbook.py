# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The playbooks that docs/plugins.md shows, and the message for one that has no recipe."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit import plays

ROOT = Path(__file__).parents[3]
BLOCKS = re.findall(r"```yaml\n(.*?)```", (ROOT / "docs/plugins.md").read_text(encoding="utf-8"), re.DOTALL)


@pytest.mark.parametrize("block", range(len(BLOCKS)))
def test_it_is_a_playbook(tmp_path: Path, block: int) -> None:
    playbook = tmp_path / "play.yml"
    playbook.write_text(BLOCKS[block], encoding="utf-8")
    program = Path(sys.executable).with_name("ansible-playbook")
    command = [str(program), "-i", "spark-1,", "--syntax-check", str(playbook)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_each_role_and_file_of_tasks_that_is_included_exists() -> None:
    included = re.findall(r"\{role: (\w+)(?:, tasks: (\w+))?\}", "\n".join(BLOCKS))
    assert included
    for role, tasks in included:
        assert (ROOT / "roles" / role / "tasks" / f"{tasks or 'main'}.yml").is_file()


@pytest.mark.parametrize(
    ("role", "tasks"), [("engine_container", "image"), ("huggingface_cache", "main"), ("speculative_serve", "main")]
)
def test_a_role_without_a_recipe_says_what_is_missing(tmp_path: Path, role: str, tasks: str) -> None:
    include = {"name": f"dgx_spark.speculative.{role}", "tasks_from": tasks}
    task = {"name": "Include", "ansible.builtin.include_role": include}
    play = {"name": "Play", "hosts": "all", "gather_subset": ["min"], "tasks": [task]}
    done = plays.run(tmp_path, play)
    assert done.returncode != 0
    said = " ".join((done.stdout + done.stderr).split())
    assert "deployment_recipe is not set. Read a recipe with recipe_info first, as docs/plugins.md shows." in said

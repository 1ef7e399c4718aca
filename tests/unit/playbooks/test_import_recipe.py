# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The playbook runs on the controller only, without an inventory."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
SOURCE = """
model: example/Example
container: vllm/vllm-openai:v0.32.0
runtime: vllm
defaults: {max_model_len: 8192, port: 9000}
"""


def run(directory: Path, *arguments: str) -> tuple[int, str]:
    playbook = str(ROOT / "playbooks/import_recipe.yml")
    environment = {**os.environ, "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"), "ANSIBLE_NOCOLOR": "1"}
    command = [sys.executable, "-m", "ansible", "playbook", "-i", "localhost,", playbook, *arguments]
    done = subprocess.run(command, cwd=directory, env=environment, capture_output=True, text=True, check=False)
    return done.returncode, " ".join(done.stdout.split())


def test_a_file_becomes_a_recipe(tmp_path: Path) -> None:
    (tmp_path / "Example.yaml").write_text(SOURCE, encoding="utf-8")
    given = ("-e", "from=Example.yaml", "-e", "to=mine")
    code, told = run(tmp_path, *given, "--check", "--diff")
    assert (code, (tmp_path / "recipes").exists()) == (0, False), told
    assert "+context: 8192" in told
    code, told = run(tmp_path, *given)
    assert code == 0, told
    assert "--port 9000 set speculative_serve_port" in told
    assert "Next: ansible-playbook playbooks/preflight.yml -e recipe=recipes/mine.yml" in told
    assert "changed=1" in told
    assert "context: 8192\n" in (tmp_path / "recipes/mine.yml").read_text(encoding="utf-8")
    assert "changed=0" in run(tmp_path, *given)[1]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "Say which one to import with -e from=FILE"),
        (("-e", "from=absent.yaml"), "There is no such file"),
        (("-e", "form=absent.yaml"), "form is not known; did you mean 'from'?"),
        (("-e", "from=absent.yaml", "-e", "context=many"), "context is 'many', but must be a whole number"),
    ],
)
def test_what_is_refused(tmp_path: Path, arguments: tuple[str, ...], words: str) -> None:
    code, told = run(tmp_path, *arguments)
    assert code != 0
    assert words in told
    assert not (tmp_path / "recipes").exists()

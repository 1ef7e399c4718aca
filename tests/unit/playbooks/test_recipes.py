# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The table of recipes, of this machine as a Spark without models."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_each_recipe_has_a_row_and_nothing_is_changed(tmp_path: Path) -> None:
    (tmp_path / "recipes").mkdir()
    shutil.copy(ROOT / "playbooks/recipes/single_first_light.yml", tmp_path / "recipes/mine.yml")
    spark = {
        "ansible_connection": "local",
        "ansible_python_interpreter": sys.executable,
        "huggingface_cache_directory": str(tmp_path / "hub"),
        "speculative_serve_state_directory": str(tmp_path / "state"),
    }
    inventory = {"sparks": {"hosts": {"spark-1": spark}}}
    (tmp_path / "hosts.json").write_text(json.dumps(inventory), encoding="utf-8")
    environment = {**os.environ, "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"), "ANSIBLE_NOCOLOR": "1"}
    command = [sys.executable, "-m", "ansible", "playbook", "-i", "hosts.json", str(ROOT / "playbooks/recipes.yml")]
    command += ["-e", "json=recipes.json"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    names = [*(path.stem for path in (ROOT / "playbooks/recipes").glob("*.yml")), "recipes/mine.yml"]
    assert [name for name in names if sum(line.startswith(f"  {name} ") for line in lines) != 1] == []
    (row,) = [line for line in lines if line.startswith("  recipes/mine.yml ")]
    assert "not known yet" in row
    assert row.endswith("models")
    assert "changed=0" in done.stdout
    document = json.loads((tmp_path / "recipes.json").read_text(encoding="utf-8"))["spark-1"]
    assert sorted(document["recipes"]) == sorted(names)
    mine = document["recipes"]["recipes/mine.yml"]
    assert (mine["engine"], mine["method"], mine["fits"]) == ("vllm", "ngram", "not known yet")
    assert mine["figures"]["download_gb"]["value"] == 0.3
    assert not (tmp_path / "hub").exists()
    assert not (tmp_path / "state").exists()

# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Engine options are validated and rendered on the controller, with the real ansible-playbook."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import typing as t
from pathlib import Path

import yaml

REPOSITORY = Path(__file__).parents[4]
VALID: dict[str, t.Any] = {
    "release": "1.3.0rc12",
    "method": "eagle3",
    "draft_model": "/models/head",
    "max_draft_len": 5,
    # Also from a template, whose values carry Ansible's tags.
    "options": {"max_batch_size": "{{ 1 + 1 }}", "kv_cache_config": {"free_gpu_memory_fraction": 0.9}},
}


def play(
    directory: Path, arguments: dict[str, t.Any], *, host: str = "localhost", connection: str = "local"
) -> subprocess.CompletedProcess[str]:
    task = {"name": "Look", "dgx_spark.speculative.trtllm_config": arguments, "register": "result"}
    show = {
        "name": "Show",
        "ansible.builtin.copy": {"content": "{{ result | to_json }}", "dest": f"{directory}/out.json"},
    }
    content = {"name": "Play", "hosts": host, "gather_facts": False, "tasks": [task, show]}
    (directory / "play.yml").write_text(json.dumps([content]), encoding="utf-8")
    (directory / "ansible.cfg").write_text(f"[defaults]\ncollections_path={REPOSITORY}/collections\n", encoding="utf-8")
    return subprocess.run(
        [
            str(Path(sys.executable).with_name("ansible-playbook")),
            *("-i", f"{host},", "-e", f"ansible_connection={connection}"),
            *("-e", f"ansible_python_interpreter={sys.executable}"),
            "play.yml",
        ],
        cwd=directory,
        env={**os.environ, "ANSIBLE_CONFIG": str(directory / "ansible.cfg"), "ANSIBLE_NOCOLOR": "1"},
        capture_output=True,
        text=True,
        check=False,
    )


def test_validating_asks_no_host(tmp_path: Path) -> None:
    done = play(tmp_path, {**VALID, "max_draft_len": 0}, host="nowhere.invalid", connection="ssh")
    assert "UNREACHABLE" not in done.stdout
    assert "found 1 error, to be corrected" in done.stdout, done.stdout


def test_what_is_validated_is_rendered(tmp_path: Path) -> None:
    done = play(tmp_path, VALID)
    assert done.returncode == 0, done.stdout
    checked = json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))
    assert (checked["changed"], checked["options"]) == (False, yaml.safe_load(checked["text"]))
    assert checked["options"]["max_batch_size"] == 2
    assert [checked[key] for key in ("release", "family", "method")] == ["1.3.0rc12", "1.3", "eagle3"]


def test_a_parameter_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    done = play(tmp_path, {**VALID, "draft_modle": "x"})
    assert "draft_modle. Supported parameters include: draft_model, " in done.stdout


def test_a_warning_is_shown(tmp_path: Path) -> None:
    said = " ".join(play(tmp_path, {**VALID, "release": "1.3.0rc99"}).stderr.split())
    assert "[WARNING]: release: 1.3.0rc99" in said, said

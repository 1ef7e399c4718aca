# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from tools import check_artifact

ROOT = Path(__file__).parents[3]

GOOD = {
    *check_artifact.REQUIRED,
    "FILES.json",
    "plugins/modules/a.py",
    "meta",
    "docs/hardware.md",
}


def test_clean() -> None:
    assert list(check_artifact.findings(GOOD)) == []


@pytest.mark.parametrize(
    "name",
    [
        ".venv/bin/python",
        ".cache",
        "tests/unit/test_a.py",
        "collections/ansible_collections",
        "inventory/hosts.yml",
        "inventory/group_vars/sparks/mine.yml",
        "benchmark/spark-1-single_eagle3-2026-10-01.html",
        "docs/status.json",
        "plugins/modules/__pycache__/a.pyc",
        "plugins/modules/a.py.orig",
        "dgx_spark-speculative-0.1.0.tar.gz",
        "notes.txt",
        "reports/schema.json",
        "field/spark-1-2026-12-01.html",
        "recipes/mine.yml",
    ],
)
def test_junk(name: str) -> None:
    assert list(check_artifact.findings({*GOOD, name})) == [
        f"{name} does not belong into the collection: add it to build_ignore in galaxy.yml."
    ]


def test_missing() -> None:
    assert list(check_artifact.findings(GOOD - {"LICENSE"})) == ["LICENSE is missing from the collection."]


def test_what_a_user_leaves_in_a_clone_stays_there(tmp_path: Path) -> None:
    theirs = (
        "benchmark/spark-1-single_eagle3-2026-10-01.html",
        "benchmark/spark-1-single_eagle3-2026-10-01.json",
        "field/spark-1-2026-10-01.html",
        "inventory/hosts.yml",
        "recipes/mine.yml",
        "inventory/group_vars/sparks/huggingface_cache.yml",
        "inventory/host_vars/spark-1.yml",
        "report.tar.gz",
        "status.json",
    )
    ours = ("README.md", "LICENSE", "meta/runtime.yml", "playbooks/a.yml", "plugins/a.py", "roles/a/files/a.jsonl")
    for name in (*theirs, *ours):
        path = tmp_path / "clone" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("theirs", encoding="utf-8")
    (tmp_path / "clone" / "galaxy.yml").write_bytes((ROOT / "galaxy.yml").read_bytes())
    command = [str(Path(sys.executable).with_name("ansible-galaxy")), "collection", "build", str(tmp_path / "clone")]
    subprocess.run([*command, "--output-path", str(tmp_path)], check=True, capture_output=True)
    with tarfile.open(next(tmp_path.glob("*.tar.gz"))) as artifact:
        names = artifact.getnames()
    assert list(check_artifact.findings(names)) == []
    assert set(ours) <= set(names)

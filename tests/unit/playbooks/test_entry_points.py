# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import re
import subprocess
import typing as t
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[3]
COLLECTION = "dgx_spark.speculative."
ROLES = sorted(path.name for path in (ROOT / "roles").iterdir())
# As tests name an entry point that a playbook of theirs includes.
QUOTED = re.compile(rf'"({"|".join(ROLES)})/([a-z_]+)"')
INCLUDES = ("ansible.builtin.include_role", "ansible.builtin.import_role")


def tracked(*globs: str) -> list[Path]:
    listed = subprocess.run(["git", "ls-files", "--", *globs], cwd=ROOT, capture_output=True, text=True, check=True)
    return [path for name in listed.stdout.splitlines() if (path := ROOT / name).is_file()]


def included(value: t.Any) -> t.Iterator[tuple[str, str]]:
    """Yield role and entry point of each include of our roles whose names are not templates."""
    if isinstance(value, list):
        for item in value:
            yield from included(item)
    elif isinstance(value, dict):
        for key, item in value.items():
            if key in INCLUDES:
                names = (item["name"], item.get("tasks_from", "main"))
                if item["name"].startswith(COLLECTION) and "{{" not in "".join(names):
                    yield names[0].removeprefix(COLLECTION), names[1]
            else:
                yield from included(item)


def from_yaml() -> set[tuple[str, str]]:
    files = tracked(
        "roles/**/tasks/*.yml", "roles/**/handlers/*.yml", "playbooks/**.yml", "molecule/**.yml", "tests/**.yml"
    )
    loaded = [yaml.safe_load(path.read_text(encoding="utf-8")) for path in files if "golden" not in path.parts]
    return {names for content in loaded for names in included(content)}


def from_tests() -> set[tuple[str, str]]:
    texts = [path.read_text(encoding="utf-8") for path in tracked("tests/system/*.py", "tests/*.py", "molecule/*.py")]
    return {(found[1], found[2]) for text in texts for found in QUOTED.finditer(text)}


@pytest.mark.parametrize("names", [from_yaml, from_tests])
def test_every_entry_point_exists(names: t.Callable[[], set[tuple[str, str]]]) -> None:
    entry_points = names()
    assert entry_points
    assert [
        f"{role}/{entry}"
        for role, entry in sorted(entry_points)
        if not (ROOT / f"roles/{role}/tasks/{entry}.yml").is_file()
    ] == []

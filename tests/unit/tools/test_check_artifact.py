# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from tools import check_artifact

GOOD = {
    *check_artifact.REQUIRED,
    "FILES.json",
    "plugins/modules/a.py",
    "inventory/hosts.yml.example",
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
        "plugins/modules/__pycache__/a.pyc",
        "plugins/modules/a.py.orig",
        "dgx_spark-speculative-0.1.0.tar.gz",
        "notes.txt",
        "reports/schema.json",
        "field/spark-1-2026-12-01.html",
    ],
)
def test_junk(name: str) -> None:
    assert list(check_artifact.findings({*GOOD, name})) == [
        f"{name} does not belong into the collection: add it to build_ignore in galaxy.yml."
    ]


def test_missing() -> None:
    assert list(check_artifact.findings(GOOD - {"LICENSE"})) == ["LICENSE is missing from the collection."]

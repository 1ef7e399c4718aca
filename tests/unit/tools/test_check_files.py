# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from tools import check_files

HEADER = f"# {check_files.SPDX}\n"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("plugins/modules/a.py", f"#!/usr/bin/python\n{HEADER}"),
        ("plugins/modules/a.py", ""),
        ("schema.json", "{}"),
        ("README.md", "# Title"),
        ("roles/a/tasks/main.yml", f"{HEADER}path: ~/work/models"),
    ],
)
def test_clean(name: str, text: str) -> None:
    assert list(check_files.findings(name, text)) == []


def test_missing_header() -> None:
    assert list(check_files.findings("a.py", "import os\n")) == [
        "a.py: the first 8 lines lack 'SPDX-License-Identifier: GPL-3.0-or-later'."
    ]


def test_registry_host() -> None:
    host = check_files.REGISTRY_HOSTS[0]
    assert list(check_files.findings("a.yml", f"{HEADER}url: https://{host}/simple")) == [
        f"a.yml:2: names the package registry {host}; leave that to the tools' configuration."
    ]


@pytest.mark.parametrize("path", check_files.MACHINE_PATHS)
def test_machine_path(path: str) -> None:
    assert list(check_files.findings("a.md", f"see {path}x")) == [f"a.md:1: names {path}, a path of one machine."]

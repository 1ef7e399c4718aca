# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What goes wrong: each directory is a story of its own, which begins with new Sparks of the twin."""

from __future__ import annotations

import subprocess
import typing as t

import pytest

from tests.playbook import ROOT


@pytest.fixture(scope="session")
def new_sparks() -> t.Callable[..., None]:
    """Replace the twin's Sparks by so many bare ones."""

    def replace(number: int, *how: str) -> None:
        subprocess.run(["tools/twin.sh", "up", "--fresh", "--sparks", str(number), *how], cwd=ROOT, check=True)

    return replace

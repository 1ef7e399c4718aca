# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""tools/environment.sh in a checkout of its own, with something that is called python3."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from tests.unit.waiting import WITHIN_S

TOOLS = Path(__file__).parents[3] / "tools"


def test_an_environment_that_others_use_is_not_emptied(tmp_path: Path) -> None:
    checkout, shared = tmp_path / "checkout", tmp_path / "shared"
    for directory in (checkout / "tools", checkout / "bin", shared / "bin"):
        directory.mkdir(parents=True)
    for name in ("environment.sh", "apt.sh"):
        shutil.copy(TOOLS / name, checkout / "tools")
    (checkout / ".venv").symlink_to(shared)
    called = checkout / "called"
    for program in (shared / "bin/python", *(checkout / "bin" / name for name in ("python3", "sudo", "apt-get"))):
        program.write_text(f'#!/bin/sh\necho "$0 $*" >>{called}\n', encoding="utf-8")
        program.chmod(0o755)
    done = subprocess.run(
        [str(checkout / "tools/environment.sh"), "demo"],
        env={**os.environ, "PATH": f"{checkout / 'bin'}:/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=WITHIN_S,
        check=False,
    )
    assert (done.returncode, done.stdout, called.exists()) == (1, "", False)
    assert done.stderr == (
        f".venv is a link to {shared}, which this would empty: remove the link with 'rm .venv' and run this again.\n"
    )

# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Install the programs of requirements.txt into an environment of their own, once for each list of versions."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tarfile
import tempfile
import typing as t
from pathlib import Path

from tests.twin.wheels import run

ROOT = Path(__file__).parents[2]
REQUIREMENTS = Path(__file__).with_name("requirements.txt")


def environment() -> Path:
    """Return the directory of the programs."""
    key = hashlib.sha256(f"{sys.version} {REQUIREMENTS.read_text(encoding='utf-8')}".encode()).hexdigest()[:16]
    place = ROOT / ".cache/engines" / f"clients-{key}"
    finished = place / "finished"
    if not finished.is_file():
        print("Installing the clients (some minutes, once) ...", flush=True)
        run([sys.executable, "-m", "venv", "--clear", str(place)])
        pip = [str(place / "bin/python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        run([*pip, "--requirement", str(REQUIREMENTS)])
        finished.touch()
    return place / "bin"


def source(package: str) -> Path:
    """Return the directory of a package's source distribution, which has its own tests."""
    requirement = next(
        line for line in REQUIREMENTS.read_text(encoding="utf-8").split() if line.startswith(f"{package}==")
    )
    place = environment().parent / "sources"
    directory = place / requirement.replace("==", "-")
    if not directory.is_dir():
        pip = [str(environment() / "python"), "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
        run([*pip, "--no-deps", "--no-binary", package, "--dest", str(place), requirement])
        # What is cut off while it unpacks is not taken for the whole.
        with tarfile.open(place / f"{directory.name}.tar.gz") as archive, tempfile.TemporaryDirectory(dir=place) as new:
            archive.extractall(new, filter="data")
            Path(new, directory.name).rename(directory)
    return directory


def call(program: str, *arguments: str, **options: t.Any) -> subprocess.CompletedProcess[str]:
    """Run a program of the environment and return what it wrote."""
    command = [str(environment() / program), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, **options)

# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Download the Python packages of an image on this machine, and run what builds it."""

from __future__ import annotations

import hashlib
import json
import platform
import shutil
import subprocess
import sys
import typing as t
from pathlib import Path

# Of Debian 12: Python, and the minor version of the C library.
PYTHON = "3.11"
GLIBC = 36


class BuildError(RuntimeError):
    """An image could not be built."""


def install(requirements: Path, context: Path, *options: str) -> Path:
    """Download the packages once for each list of requirements, and return their directory."""
    key = hashlib.sha256(requirements.read_bytes() + platform.machine().encode()).hexdigest()[:16]
    packages = context / f"packages-{key}"
    if packages.is_dir():
        return packages
    unfinished = context / f"packages-{key}.unfinished"
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    machine = platform.machine()
    tags = [f"manylinux2014_{machine}", *(f"manylinux_2_{minor}_{machine}" for minor in range(17, GLIBC + 1))]
    run(
        [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-warn-conflicts"]
        + ["--target", str(unfinished), "--python-version", PYTHON, "--only-binary=:all:"]
        + [option for tag in tags for option in ("--platform", tag)]
        + [*options, "--requirement", str(requirements)]
    )
    unfinished.rename(packages)
    return packages


def inspect(image: str) -> dict[str, t.Any] | None:
    """Return what Docker knows of an image; None without it."""
    answer = subprocess.run(["docker", "image", "inspect", image], capture_output=True, text=True, check=False)
    if answer.returncode != 0:
        return None
    return t.cast("dict[str, t.Any]", json.loads(answer.stdout)[0])


def run(command: t.Sequence[str]) -> None:
    """Run a command; raise BuildError with the end of its output."""
    answer = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if answer.returncode != 0:
        last = "\n".join(answer.stdout.splitlines()[-30:])
        raise BuildError(f"The command {' '.join(command[:4])} ... failed with code {answer.returncode}:\n{last}")

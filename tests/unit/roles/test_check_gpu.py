# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The program that starts CUDA in a container, against a driver's library that can be started, or cannot."""

from __future__ import annotations

import json
import platform
import subprocess
import sys
import typing as t
from pathlib import Path

import pytest

from tests.twin.trtllm import tiny_library
from tests.unit.waiting import WITHIN_S

MARK = "dgx-spark-speculative-gpu:"
FREE, TOTAL = 101_000_000_000, 128_521_625_600
PROGRAM = (Path(__file__).parents[3] / "roles/engine_container/files/check_gpu.py").read_text(encoding="utf-8")


def check(place: Path, program: str = PROGRAM) -> tuple[int, dict[str, t.Any]]:
    """The program as the role starts it, where the library lies: how it ends, and its marked line."""
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={"LD_LIBRARY_PATH": str(place)},
        capture_output=True,
        text=True,
        check=False,
        timeout=WITHIN_S,
    )
    # A line of its own, whatever stands before it.
    empty, line = done.stdout.splitlines()
    assert empty == ""
    assert line.startswith(MARK)
    return done.returncode, dict(json.loads(line[len(MARK) :]))


def test_cuda_starts_and_tells_what_is_free(tmp_path: Path) -> None:
    (tmp_path / tiny_library.CUDA).write_bytes(tiny_library.cuda(platform.machine(), 0, FREE, TOTAL))
    code, said = check(tmp_path)
    assert (code, said["problem"], said["free"]) == (0, None, FREE)
    assert said["unused"] > 0
    assert said["available"] > 0


@pytest.mark.parametrize("error", [100, 999])
def test_cuda_does_not_start(tmp_path: Path, error: int) -> None:
    (tmp_path / tiny_library.CUDA).write_bytes(tiny_library.cuda(platform.machine(), error, FREE, TOTAL))
    code, said = check(tmp_path)
    assert (code, said["problem"]) == (1, f"cuInit(0) failed with CUDA error {error}")
    assert said["free"] is None


@pytest.mark.parametrize("function", ["cuDevicePrimaryCtxRetain", "cuMemGetInfo_v2"])
def test_a_driver_that_does_not_tell_what_is_free(tmp_path: Path, function: str) -> None:
    driver = tiny_library.cuda(platform.machine(), 0, FREE, TOTAL)
    (tmp_path / tiny_library.CUDA).write_bytes(driver.replace(function.encode(), b"x" * len(function)))
    code, said = check(tmp_path)
    assert (code, said["problem"], said["free"]) == (0, None, None)


def test_a_container_without_the_driver_s_library(tmp_path: Path) -> None:
    (tmp_path / tiny_library.CUDA).write_text("no library")
    code, said = check(tmp_path)
    assert code == 1
    assert said["problem"].startswith("CUDA cannot be loaded: ")
    assert "libcuda.so.1" in said["problem"]


def test_a_library_of_something_else(tmp_path: Path) -> None:
    (tmp_path / tiny_library.CUDA).write_bytes(tiny_library.nccl(platform.machine()))
    code, said = check(tmp_path)
    assert (code, said["problem"].startswith("CUDA cannot be loaded: ")) == (1, True)


def test_a_driver_that_hangs(tmp_path: Path) -> None:
    # The last line starts it.
    hangs = (
        "DEADLINE_S, ask, join = 0.2, lambda *_: threading.Event().wait(), threading.Thread.join\n"
        "def joined(thread, seconds):\n    assert seconds == DEADLINE_S\n    join(thread, seconds)\n"
        "threading.Thread.join = joined\nmain()\n"
    )
    code, said = check(tmp_path, PROGRAM.rpartition("if __name__")[0] + hangs)
    assert (code, said["problem"]) == (1, "cuInit(0) gave no answer within 0 s")


def test_a_driver_that_hangs_over_the_memory_can_be_used(tmp_path: Path) -> None:
    (tmp_path / tiny_library.CUDA).write_bytes(tiny_library.cuda(platform.machine(), 0, FREE, TOTAL))
    # Its time is over when it hangs there, and not when a slow machine has not come so far.
    hangs = (
        "import time\nhanging = threading.Event()\nthreading.Thread.join = lambda *_: hanging.wait()\n"
        "free = lambda _driver: (hanging.set(), time.sleep(100))\nmain()\n"
    )
    code, said = check(tmp_path, PROGRAM.rpartition("if __name__")[0] + hangs)
    assert (code, said["problem"], said["free"]) == (0, None, None)

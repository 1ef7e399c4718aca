# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the description of the simulated machine, and set up the log of the stand-in."""

from __future__ import annotations

import dataclasses
import json
import logging
import os
import subprocess
import sys
import typing as t
from pathlib import Path

TWIN = Path("/run/dgx-spark-twin")
NVIDIA_SMI = Path("/usr/bin/nvidia-smi")

log = logging.getLogger("TRT-LLM")


@dataclasses.dataclass(frozen=True)
class Gpu:
    """The simulated GPU; every key of gpu.json may also be given as STANDIN_<KEY> in the environment."""

    memory_bytes: float = 119.6 * 2**30  # total, in the units of the real GPU
    system_bytes: float = 0.0  # used by the rest of the machine
    seconds_per_gb: float = 0.0  # load time
    estimate_s: float = 0.0  # time of the estimate of the KV cache
    pass_ms: float = 12.0  # one pass of the target model
    draft_ms: float = 1.5  # one drafted token
    draft_errors: float = 0.0  # share of the drafted tokens that are wrong on purpose
    prefill_us: float = 100.0  # one token of the prompt
    import_seconds: float = 0.0  # reading the libraries from a cold disk


@dataclasses.dataclass(frozen=True)
class Faults:
    """Faults that tests cause on purpose."""

    die_while_loading: str | None = None
    nonsense: bool = False
    repeat: bool = False
    error_in_stream: bool = False
    no_tool_calls: bool = False
    # After this many requests, the engine hangs, or the server ends.
    hang_after_requests: int | None = None
    exit_after_requests: int | None = None
    # Fault of the first all-reduce of two ranks in family 1.3: it crashes or hangs.
    all_reduce: str | None = None
    # Additional memory while loading, in the form of tests/twin/spark/meminfo.py.
    memory_curve: str | None = None
    # After this many requests the engine has failed, but the port still answers.
    unhealthy_after_requests: int | None = None


def read_gpu(directory: Path = TWIN, environment: t.Mapping[str, str] = os.environ) -> Gpu:
    given = _read(directory / "gpu.json")
    known = {field.name for field in dataclasses.fields(Gpu)}
    values = {name: float(value) for name, value in given.items() if name in known and value is not None}
    for name in known:
        text = environment.get(f"STANDIN_{name.upper()}")
        if text:
            values[name] = float(text)
    return Gpu(**values)


def read_faults(directory: Path = TWIN) -> Faults:
    given = _read(directory / "engine.json")
    known = {field.name for field in dataclasses.fields(Faults)}
    return Faults(**{name: value for name, value in given.items() if name in known})


def _read(path: Path) -> dict[str, t.Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    return content if isinstance(content, dict) else {}


def count_gpus(program: Path = NVIDIA_SMI) -> int:
    """Return the number of visible GPUs: 0 without a driver, else those that nvidia-smi lists."""
    try:
        answer = subprocess.run([str(program), "-L"], capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return 0
    if answer.returncode != 0:
        return 0
    return max(1, sum(line.startswith("GPU ") for line in answer.stdout.splitlines()))


def occupy(size: float) -> subprocess.Popen[bytes]:
    """Hold GPU memory as the twin's nvidia-smi sees it: start a process with the size among its arguments.

    It reads from a pipe of this process, so it ends with this process in any case.
    """
    marks = ("STANDIN_GPU_NAME=python3", f"STANDIN_GPU_BYTES={int(size)}")
    return _hold(*marks)


def follow(curve: str) -> subprocess.Popen[bytes]:
    """Hold memory over time, by a curve of seconds and bytes."""
    return _hold("STANDIN_GPU_NAME=python3", f"STANDIN_GPU_CURVE={curve}")


def _hold(*marks: str) -> subprocess.Popen[bytes]:
    quiet = subprocess.DEVNULL
    return subprocess.Popen(["/bin/sh", "-c", "read _", *marks], stdin=subprocess.PIPE, stdout=quiet, stderr=quiet)


class _Formatter(logging.Formatter):
    def __init__(self, rank: int | None) -> None:
        super().__init__()
        self._rank = "" if rank is None else f" [RANK {rank}]"

    _LETTER: t.ClassVar[dict[int, str]] = {
        logging.DEBUG: "D",
        logging.INFO: "I",
        logging.WARNING: "W",
        logging.ERROR: "E",
    }

    def format(self, record: logging.LogRecord) -> str:
        when = self.formatTime(record, "%m/%d/%Y-%H:%M:%S")
        return f"[{when}] [TRT-LLM]{self._rank} [{self._LETTER.get(record.levelno, 'I')}] {record.getMessage()}"


def start_log(level: str, rank: int | None = None) -> None:
    """Log in the real format to standard output: time, name, rank, and a letter for the level."""
    names = {"verbose": "DEBUG", "trace": "DEBUG", "debug": "DEBUG", "internal_error": "CRITICAL"}
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(_Formatter(rank))
    log.handlers[:] = [handler]
    log.propagate = False
    log.setLevel(names.get(level, level.upper()))


def progress(title: str, done: int, total: int) -> None:
    """Print a progress bar like tqdm's, redrawn with carriage returns on standard error."""
    bar = ("█" * (10 * done // max(total, 1))).ljust(10)
    end = "\n" if done == total else ""
    print(f"\r{title}: {100 * done // max(total, 1):3d}%|{bar}| {done}/{total}", end=end, file=sys.stderr, flush=True)

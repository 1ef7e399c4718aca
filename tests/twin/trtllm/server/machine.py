# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the twin tells the stand-in about its simulated machine, and the log of the stand-in."""

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

    memory_bytes: float = 119.6 * 2**30  # free for the GPU, in the units of the real thing
    weight_scale: float = 1.0  # real bytes for one byte of the target model on disk
    draft_weight_scale: float | None = None  # the same for the draft model; weight_scale if absent
    seconds_per_gb: float = 0.0  # load time
    pass_ms: float = 12.0  # one pass of the target model
    draft_ms: float = 1.5  # one drafted token
    prefill_us: float = 100.0  # one token of the prompt


@dataclasses.dataclass(frozen=True)
class Faults:
    """What is broken on purpose."""

    die_while_loading: str | None = None
    nonsense: bool = False
    repeat: bool = False
    error_in_stream: bool = False
    hang_after_requests: int | None = None


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
    """How many GPUs are visible: none without a driver, else what nvidia-smi lists."""
    try:
        answer = subprocess.run([str(program), "-L"], capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return 0
    if answer.returncode != 0:
        return 0
    return max(1, sum(line.startswith("GPU ") for line in answer.stdout.splitlines()))


class _Formatter(logging.Formatter):
    _LETTER: t.ClassVar[dict[int, str]] = {
        logging.DEBUG: "D",
        logging.INFO: "I",
        logging.WARNING: "W",
        logging.ERROR: "E",
    }

    def format(self, record: logging.LogRecord) -> str:
        when = self.formatTime(record, "%m/%d/%Y-%H:%M:%S")
        return f"[{when}] [TRT-LLM] [{self._LETTER.get(record.levelno, 'I')}] {record.getMessage()}"


def start_log(level: str) -> None:
    """Log as the real one does: time, name, a letter for the level; all of it on standard output."""
    names = {"verbose": "DEBUG", "trace": "DEBUG", "debug": "DEBUG", "internal_error": "CRITICAL"}
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(_Formatter())
    log.handlers[:] = [handler]
    log.propagate = False
    log.setLevel(names.get(level, level.upper()))


def progress(title: str, done: int, total: int) -> None:
    """A progress bar of tqdm's form: redrawn with carriage returns on standard error."""
    bar = ("█" * (10 * done // max(total, 1))).ljust(10)
    end = "\n" if done == total else ""
    print(f"\r{title}: {100 * done // max(total, 1):3d}%|{bar}| {done}/{total}", end=end, file=sys.stderr, flush=True)

# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the engine itself saw of each finished request, a line of JSON each: the truth for measurements."""

from __future__ import annotations

import contextlib
import json
import os
import time
import typing as t
from pathlib import Path

DIARY = Path("/tmp/standin-requests.jsonl")
# What holds for each request of this process: its options as it has read them, and what its load took.
_OWN: dict[str, t.Any] = {"pid": os.getpid()}


def age() -> float:
    """Return for how many seconds this process has been there."""
    fields = Path("/proc/self/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return time.clock_gettime(time.CLOCK_BOOTTIME) - int(fields[19]) / os.sysconf("SC_CLK_TCK")


def remember(**figures: t.Any) -> None:
    """Add these to each line that follows."""
    _OWN.update(figures)


def write(**figures: t.Any) -> None:
    # Without room for it the engine goes on.
    with contextlib.suppress(OSError), DIARY.open("a", encoding="utf-8") as file:
        file.write(json.dumps({**_OWN, "at": time.time(), **figures}) + "\n")

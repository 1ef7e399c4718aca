# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Record each finished request as the engine sees it, a line of JSON each, to verify measurements."""

from __future__ import annotations

import contextlib
import json
import os
import time
import typing as t
from pathlib import Path

DIARY = Path("/tmp/standin-requests.jsonl")
# Values for all requests of this process: its options, and its loading time.
_OWN: dict[str, t.Any] = {"pid": os.getpid()}


def age() -> float:
    """Return the age of this process in seconds."""
    fields = Path("/proc/self/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return time.clock_gettime(time.CLOCK_BOOTTIME) - int(fields[19]) / os.sysconf("SC_CLK_TCK")


def remember(**figures: t.Any) -> None:
    """Add these values to all later lines."""
    _OWN.update(figures)


def write(**figures: t.Any) -> None:
    # The engine also works on a full disk.
    with contextlib.suppress(OSError), DIARY.open("a", encoding="utf-8") as file:
        file.write(json.dumps({**_OWN, "at": time.time(), **figures}) + "\n")

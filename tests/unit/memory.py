# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A memory that a test fills, and what the memory guard of a container has seen of it."""

from __future__ import annotations

import json
import os
import typing as t
from pathlib import Path

from server.guard import GIB

from tests.unit.waiting import until

# A fall is measured over a shorter time, and what was seen is written down at once.
FALL_S = 0.5
QUICK = {"guard__FALL_S": FALL_S, "guard__LASTS_S": 0.3, "sampler__WRITE_EVERY_S": 0.1, "sampler__CALM_S": 0.1}


class Memory:
    """A file as /proc/meminfo is one."""

    def __init__(self, path: Path, level: float) -> None:
        self.path = path
        self.path.write_bytes(b"")
        self.set(level)

    def set(self, level: float, swap: float = 8) -> None:
        """In place and in one go, since whoever reads it has it open."""
        names = (("MemTotal", 120.0), ("MemFree", level), ("MemAvailable", level), ("SwapFree", swap))
        text = "".join(f"{name + ':':15} {int(size * GIB / 1024):12d} kB\n" for name, size in names)
        with self.path.open("r+b") as file:
            os.pwrite(file.fileno(), text.encode(), 0)


class Seen:
    """What is in memory.log."""

    def __init__(self, state: Path) -> None:
        self.state = state

    def lines(self, name: str = "memory.log") -> list[dict[str, t.Any]]:
        path = self.state / name
        # The last line may be one that is just being written.
        text = path.read_text(encoding="utf-8").rpartition("\n")[0] if path.exists() else ""
        return [json.loads(line) for line in text.splitlines()]

    def events(self) -> list[str]:
        return [line["event"] for line in self.lines() if "event" in line]

    def level(self, level: float) -> None:
        """Wait until it has seen a level for so long that what was before is no fall any more."""
        until(lambda: self._for_long(int(level * GIB / 1024) * 1024), self.lines)

    def _for_long(self, level: int) -> bool:
        lasting: list[float] = []
        for line in self.lines():
            if "available" in line and "event" not in line:
                lasting = [*lasting, line["at"]] if line["available"] == level else []
        return bool(lasting) and lasting[-1] - lasting[0] > FALL_S

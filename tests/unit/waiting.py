# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How a test waits: for an event, however slow the machine is."""

from __future__ import annotations

import os
import time
import typing as t

# Only what never comes takes so long. tools/mutants.py waits less, because a seeded defect may be just that.
WITHIN_S = float(os.environ.get("TESTS_WAIT_S", "600"))

T = t.TypeVar("T")


def until(condition: t.Callable[[], T], say: t.Callable[[], object] = str) -> T:
    """The first true value of a condition; `say` tells what is there instead if none comes."""
    deadline = time.monotonic() + WITHIN_S
    while not (found := condition()):
        assert time.monotonic() < deadline, f"it never came: {say()}"
        time.sleep(0.02)
    return found


class Clock:
    """Stands in for the module `time` of a program: it moves when the program sleeps, and when the test says so.

    Where a program waits for something else, it moves by a step with each look at it.
    """

    def __init__(self, step: float = 0.0) -> None:
        self._began, self._passed, self._step = time.time(), 0.0, step
        self.looks = 0
        self.slept: list[float] = []
        self._due: list[tuple[float, t.Callable[[], object]]] = []

    def __getattr__(self, name: str) -> t.Any:
        return getattr(time, name)

    def monotonic(self) -> float:
        self.looks += 1
        self._passed += self._step
        return self._passed

    def time(self) -> float:
        return self._began + self._passed

    def at(self, moment: float, do: t.Callable[[], object]) -> None:
        """Have something happen when so many seconds have passed."""
        self._due = sorted([*self._due, (moment, do)], key=lambda one: one[0])

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        until = self._passed + max(0.0, seconds)
        while self._due and self._due[0][0] <= until:
            self._passed, do = self._due.pop(0)
            do()
        self._passed = until

# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Cut the power at moments that a seed selects, and note what the guest says."""

from __future__ import annotations

import json
import pathlib
import random
import time
import typing as t

from tests.power.machine import Machine, MachineError, Message

# Without hardware support, on a machine with other work.
BOOT_S, WRITE_S = 1200.0, 600.0
# In most boots the disk is repaired by then.
BOOT_MOMENT_S = 40.0
# One cut in so many comes before the repair of the cut before it has ended.
AGAIN_IN = 4
# The places that are finished after a cut.
CUT_AGAIN = 3
# The disk is full, or cannot be written to, in one start of so many each.
DISK_IN = 8
NAMES = ("record", "generation", "keys", "unit", "netplan", "model", "download", "job", "benchmark")


class History:
    """One JSON object a line."""

    def __init__(self, path: pathlib.Path) -> None:
        self._path = path
        self.lines: list[Message] = []
        if path.exists():
            self.lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]

    def add(self, *lines: Message) -> None:
        self.lines += lines
        with self._path.open("a", encoding="utf-8") as file:
            file.writelines(json.dumps(line) + "\n" for line in lines)


class Start(t.NamedTuple):
    """What is done with the machine once it is started."""

    place: str
    disk: str
    # Cut before the repair has ended, after so many messages of the guest.
    early: int | None
    # Otherwise after so many versions, and after that part of the next one.
    versions: int
    part: float


def starts(seed: int) -> t.Iterator[Start]:
    """Yield what a seed selects. Each place has its turn before one comes again."""
    dice = random.Random(seed)
    while True:
        for place in dice.sample(NAMES, len(NAMES)):
            kind = dice.randrange(DISK_IN)
            disk = {0: "full", 1: "read-only"}.get(kind, "writable")
            early = dice.randrange(2 * CUT_AGAIN) if dice.randrange(AGAIN_IN) == 0 else None
            yield Start(place, disk, early, dice.randint(1, 4), dice.uniform(0, 1.2))


def cut_last(lines: t.Sequence[Message]) -> list[str]:
    """Return the places whose writing the last cuts have interrupted: the repair of one may have been cut, too."""
    return list(dict.fromkeys(line["place"] for line in reversed(lines) if "cut" in line))[:CUT_AGAIN]


def is_writing(message: Message) -> bool:
    return "begun" in message and not message.get("repair")


def seconds_of_a_version(said: t.Sequence[float]) -> float:
    """Return how long the last version took, by the times of the messages."""
    return min(max(said[-1] - said[-2], 0.0), 30.0) if len(said) > 1 else 0.0


class Power:
    """The runs of a seed in its directory."""

    def __init__(self, directory: pathlib.Path, seed: int, settings: t.Mapping[str, str]) -> None:
        self.history = History(directory / "history.jsonl")
        self.machine = Machine(directory)
        self._starts = starts(seed)
        self._settings = settings
        if not self.machine.disk.exists():
            self.machine.renew()
        for _line in (line for line in self.history.lines if "cut" in line):
            next(self._starts)

    def go_on(self, minutes: float) -> None:
        """Cut until the time is over."""
        end = time.monotonic() + 60 * minutes
        while time.monotonic() < end:
            self.once(next(self._starts))

    def once(self, start: Start) -> None:
        """Start the machine, cut its power, and note what it said until then."""
        began = time.monotonic()
        repair = ",".join(cut_last(self.history.lines))
        self.machine.start(place=start.place, disk=start.disk, repair=repair, **self._settings)
        problem = None
        try:
            if start.early is None:
                self.during_a_write(start)
            else:
                self.before_the_repair_ends(start, start.early)
        except MachineError as error:
            problem = str(error)
        finally:
            self.machine.cut()
        said = self.machine.said()
        self.history.add(*said, *([{"dead": problem}] if problem else []))
        what = "writing" if start.early is None else "repair"
        what = what if start.disk == "writable" or start.early is not None else f"writing, {start.disk} disk"
        self.history.add({"cut": what, "place": start.place, "seconds": round(time.monotonic() - began, 1)})
        print(f"{start.place}: {what}, {time.monotonic() - began:.0f} s{f': {problem}' if problem else ''}", flush=True)

    def before_the_repair_ends(self, start: Start, messages: int) -> None:
        """Wait for a moment after so many messages, or for one during the boot."""
        self.machine.wait(lambda said: len(said) >= messages, BOOT_S)
        time.sleep(start.part * (0.2 if messages else BOOT_MOMENT_S))

    def during_a_write(self, start: Start) -> None:
        """Wait for the moment within a write."""
        self.machine.wait(lambda said: any(map(is_writing, said)), BOOT_S)
        times = [time.monotonic()]
        for count in range(2, start.versions + 2):
            self.machine.wait(lambda said, count=count: sum(map(is_writing, said)) >= count, WRITE_S)  # type: ignore[misc]
            times.append(time.monotonic())
        time.sleep(start.part * seconds_of_a_version(times))

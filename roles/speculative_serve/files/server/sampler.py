# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Looks at the memory from before a server loads until it has ended, and ends it before it freezes the Spark.

It takes no GPU and opens no file when it matters. What it saw is on disk before it acts, and so there after a freeze,
too: memory.log, with a line of JSON for each sample and for what happened.
"""

from __future__ import annotations

import collections
import contextlib
import ctypes
import json
import math
import os
import queue
import re
import signal
import threading
import time
import typing as t
from pathlib import Path

from server.guard import MARGIN, QUICKLY_S, SLOWLY_S, Limits, Sample, Verdict, decide, next_look, watch_level
from server.state import give_to_owner

MEMINFO = Path("/proc/meminfo")
FIGURES = re.compile(rb"^(MemAvailable|MemFree|SwapFree): +([0-9]+) kB$", re.MULTILINE)
# Two minutes of samples, 20 a second: kept in memory, and at least as many in each of two files.
SAMPLES = 2400
LOG_BYTES = 400_000
# After so long without a sample nothing is guarded any more.
BLIND_S = 5.0
# Seconds until samples are written, in quiet times and otherwise, and the longest delay of a verdict by a slow disk.
CALM_S, WRITE_EVERY_S = 10.0, 2.0
WRITTEN_WITHIN_S = 0.25
# Of two engines that it ends within that time, the second one is the last.
ONCE_WITHIN_S = 3600.0
# Seconds until the memory of an engine that the guard has ended must be free, and that of any other one. The next one
# may find too little free memory otherwise, and end again; what another program has taken since is not returned.
BACK_WITHIN_S, SETTLED_WITHIN_S = 300.0, 60.0
# An engine that was asked to end is killed after that.
GRACE_S = 5.0
# Present and future pages, from their first use.
LOCK_ALL = 1 | 2 | 4


def limits_from(environment: t.Mapping[str, str]) -> Limits | None:
    """Return the limits that the playbook passed: 'floor=BYTES seconds=SECONDS', or 'off'."""
    given = environment["DGX_SPARK_GUARD"]
    if given == "off":
        return None
    words = dict(word.split("=") for word in given.split())
    return Limits(int(words["floor"]), float(words["seconds"]))


def lock_pages() -> bool:
    """Lock this process in memory, so that it needs no disk if memory is short; return whether that is allowed."""
    return ctypes.CDLL(None).mlockall(LOCK_ALL) == 0


class Meminfo:
    """/proc/meminfo by one open file: opening another takes memory."""

    def __init__(self) -> None:
        self.file = os.open(MEMINFO, os.O_RDONLY | os.O_CLOEXEC)

    def sample(self) -> Sample:
        result = {name.decode(): int(value) * 1024 for name, value in FIGURES.findall(os.pread(self.file, 4096, 0))}
        return Sample(time.monotonic(), result["MemAvailable"], result["MemFree"], result["SwapFree"])


class MemoryLog(threading.Thread):
    """Writes memory.log, in a thread of its own: a disk may take longer than there is time."""

    def __init__(self, directory: Path) -> None:
        super().__init__(name="memory.log", daemon=True)
        self.path = directory / "memory.log"
        self.lines: queue.SimpleQueue[tuple[bytes, threading.Event | None]] = queue.SimpleQueue()
        self.file = -1
        self.size = 0

    def add(self, lines: str) -> threading.Event:
        """Queue lines for writing. The event is set when they are on disk."""
        written = threading.Event()
        self.lines.put((lines.encode(), written))
        return written

    def run(self) -> None:
        with contextlib.suppress(OSError):
            self.put_aside()
        while True:
            data, written = self.lines.get()
            # A full disk costs the evidence, and not the server.
            with contextlib.suppress(OSError):
                if self.file < 0 or self.size > LOG_BYTES:
                    self.begin()
                os.write(self.file, data)
                os.fsync(self.file)
                self.size += len(data)
            if written is not None:
                written.set()

    def put_aside(self) -> None:
        """Rotate the log of an earlier container. Keep it if that container did not end in order, as after a freeze."""
        kept = self.path.with_name("memory-before.log")
        self.path.with_suffix(".log.1").unlink(missing_ok=True)
        if b'"stopped"' in self.path.read_bytes()[-200:]:
            kept.unlink(missing_ok=True)
            self.path.unlink()
        else:
            self.path.replace(kept)

    def begin(self) -> None:
        """Begin a new file; the one before is kept."""
        if self.file >= 0:
            # Once closed, the number may be another file's, whatever comes of the rest.
            closed, self.file = self.file, -1
            os.close(closed)
            with contextlib.suppress(FileNotFoundError):
                self.path.replace(self.path.with_suffix(".log.1"))
        self.file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        self.size = os.fstat(self.file).st_size
        give_to_owner(self.path)


class Sampler(threading.Thread):
    """The memory guard: it samples the memory all the time, and ends the engine if necessary."""

    def __init__(self, directory: Path, environment: t.Mapping[str, str], end: t.Callable[[int], None]) -> None:
        """`end` sends a signal to all of the engine, and to nothing else."""
        super().__init__(name="memory guard", daemon=True)
        self.limits = limits_from(environment)
        takes = environment.get("DGX_SPARK_TAKES_BYTES", "")
        self.takes = int(takes) if takes.isdecimal() else None
        # Of what is left then, the KV cache takes this share where it is not planned.
        self.share = float(environment.get("DGX_SPARK_TAKES_SHARE", 0))
        self.end = end
        self.meminfo: Meminfo | None = None
        self.diary = MemoryLog(directory)
        self.samples: collections.deque[Sample] = collections.deque(maxlen=SAMPLES)
        self.pen = threading.Lock()
        self.unwritten: list[str] = []
        self.written_at = 0.0
        self.locked = False
        self.off: str | None = None if self.limits else "off by speculative_serve_memory_guard"
        # Of the engine that runs or ran last: what was available before it, where it lands, below what a fall counts.
        self.engine = threading.Lock()
        self.runs = False
        self.over_at = -math.inf
        self.before = 0
        self.landing: int | None = None
        self.watch = 0
        self.ready = False
        self.lowest: Sample | None = None
        self.verdict: Verdict | None = None
        self.kill_at = 0.0
        self.counted_at = -math.inf
        # Since when there is no sample, and why.
        self.blind: tuple[float, str] | None = None
        self.unwanted = threading.Event()

    def begin(self) -> None:
        """Start to look; where that is not possible, say so and do without."""
        if self.off:
            return
        try:
            meminfo = Meminfo()
            self.samples.append(meminfo.sample())
        except (OSError, KeyError) as error:
            self.off = f"{MEMINFO} cannot be read ({error})"
            return
        self.meminfo = meminfo
        self.diary.start()
        # Once all of what is needed later has run, its pages are here to be locked.
        self.consider(self.samples[-1])
        self.locked = lock_pages()
        self.start()

    def loads(self) -> None:
        """Record that an engine is about to load."""
        if self.meminfo is None or self.limits is None:
            return
        sample = self.samples[-1]
        with self.engine:
            self.before = sample.available
            self.landing = None if self.takes is None else int((self.before - self.takes) * (1 - self.share))
            self.watch = watch_level(self.limits, self.landing, ready=False)
            self.ready, self.verdict, self.kill_at, self.lowest = False, None, 0.0, sample
            self.runs = True
        plan = {"landing": self.landing, "takes": self.takes, "floor": self.limits.floor, "watch": self.watch}
        self.tell("loading", available=sample.available, **plan)

    def is_ready(self) -> None:
        """Record that the engine answers."""
        if self.meminfo is None or self.limits is None:
            return
        # The fall before this level does not count.
        self.samples = collections.deque([self.samples[-1]], SAMPLES)
        self.watch, self.ready = watch_level(self.limits, self.landing, ready=True), True
        self.tell("ready")

    def is_over(self) -> None:
        """Record that the engine has ended for any reason."""
        if self.meminfo is not None and self.runs:
            with self.engine:
                self.runs, self.over_at = False, time.monotonic()
            self.tell("ended")

    def stop(self) -> None:
        """Record that the container stops; with this last line the end does not look like a freeze."""
        self.unwanted.set()
        if self.meminfo is not None:
            self.is_over()
            self.tell("stopped").wait(2)

    def tell(self, event: str, **values: t.Any) -> threading.Event:
        """Have an event written, after what came before it."""
        self.write_down(event=event, **values)
        return self.flush()

    def write_down(self, **values: t.Any) -> None:
        with self.pen:
            self.unwritten.append(json.dumps({"at": round(time.time(), 3), **values}) + "\n")

    def flush(self) -> threading.Event:
        with self.pen:
            lines, self.unwritten = self.unwritten, []
            self.written_at = time.monotonic()
            return self.diary.add("".join(lines))

    def run(self) -> None:
        assert self.meminfo is not None
        while not self.unwanted.wait(self.pause()):
            try:
                sample = self.meminfo.sample()
            except (OSError, KeyError) as error:
                # For once the next look will do.
                self.blind = self.blind or (time.monotonic(), f"{MEMINFO} cannot be read ({error})")
                continue
            self.blind = None
            with contextlib.suppress(OSError):
                self.look(sample)

    def pause(self) -> float:
        assert self.limits is not None
        return next_look(self.samples, self.limits, self.watch) if self.runs else SLOWLY_S

    def look(self, sample: Sample) -> None:
        """Note a sample, and do what it calls for."""
        self.samples.append(sample)
        if not self.runs:
            # Without an engine nothing is worth a disk's waking up.
            return
        self.write_down(available=sample.available, free=sample.free, swap=sample.swap)
        if self.lowest is None or sample.available < self.lowest.available:
            self.lowest = sample
        self.act(self.consider(sample), sample.at)
        calm = self.ready and self.pause() > QUICKLY_S
        if sample.at - self.written_at >= (CALM_S if calm else WRITE_EVERY_S):
            self.flush()

    def consider(self, sample: Sample) -> Verdict | None:
        """Return the verdict on the samples. Kill an engine that did not end after its signal."""
        assert self.limits is not None
        result = decide(self.samples, self.limits, self.watch)
        if self.verdict is not None and self.kill_at and sample.at > self.kill_at:
            result = Verdict(signal.SIGKILL, self.verdict.reason)
        return result

    def act(self, verdict: Verdict | None, now: float) -> None:
        """Send a signal, once each, when it is on disk or the disk has had its time."""
        if verdict is None or (self.verdict is not None and verdict.signal in (self.verdict.signal, signal.SIGTERM)):
            return
        self.tell(signal.Signals(verdict.signal).name, reason=verdict.reason).wait(WRITTEN_WITHIN_S)
        with self.engine:
            if self.runs:
                # The reason is what it was at first.
                self.verdict = Verdict(verdict.signal, self.verdict.reason if self.verdict else verdict.reason)
                self.kill_at = now + GRACE_S if verdict.signal == signal.SIGTERM else 0.0
                self.end(verdict.signal)

    def count(self) -> bool:
        """Return whether the memory guard has ended two engines within an hour."""
        before, self.counted_at = self.counted_at, time.monotonic()
        return self.counted_at - before < ONCE_WITHIN_S

    def is_back(self) -> bool:
        """Return whether nearly all of the engine's memory is available again."""
        return self.meminfo is None or self.samples[-1].available >= self.before - MARGIN

    def is_settled(self) -> bool:
        """Return whether the next engine may start: the memory of the last one is back, or has had its time."""
        within = SETTLED_WITHIN_S if self.verdict is None else BACK_WITHIN_S
        return self.is_back() or time.monotonic() - self.over_at >= within

    def summary(self) -> dict[str, t.Any]:
        """For state.json."""
        if self.off or self.limits is None:
            return {"on": False, "why": self.off}
        if self.blind is not None and time.monotonic() - self.blind[0] >= BLIND_S:
            return {"on": False, "why": self.blind[1]}
        lowest = self.lowest.available if self.lowest else None
        return {"on": True, "floor": self.limits.floor, "lowest": lowest, "locked": self.locked}

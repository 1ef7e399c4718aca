# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this plugin util is internal to the collection; its interface may change at any time.

"""Print the messages of a job, one JSON object a line, with amounts and times in words."""

from __future__ import annotations

import collections
import contextlib
import json
import sys
import threading
import typing as t

from ...module_utils._data.text import amount, duration

Message = dict[str, t.Any]
AnyReports = t.TypeVar("AnyReports", bound="Reports")


def emit(message: Message) -> None:
    """Print a message for the watched job: progress, a result or an error."""
    print(json.dumps(message), flush=True)


def log(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def share(done: float, total: float) -> str:
    """Both in the unit of the whole, such as 8.1 of 65.2 GB."""
    return f"{done / (1e9 if total >= 1e9 else 1e6):.1f} of {amount(total)}"


def pace(rate: float, left: float | None) -> str:
    """Bytes per second in words, with what is left of them if that is known: `, 112 MB/s, 8 min left`."""
    if rate <= 0 or (left is not None and left <= 0):
        return ""
    text = f", {rate / 1e6:.{0 if rate >= 1e7 else 1}f} MB/s"
    return text if left is None else f"{text}, {duration(left / rate)} left"


class Rate:
    """The recent growth of a number of bytes, in bytes per second."""

    def __init__(self, window_s: float) -> None:
        self._window_s = window_s
        self._seen: collections.deque[tuple[float, int]] = collections.deque()

    def at(self, now: float, count: int) -> float:
        if self._seen and count < self._seen[-1][1]:
            # A part was started again.
            self._seen.clear()
        self._seen.append((now, count))
        while now - self._seen[0][0] > self._window_s:
            self._seen.popleft()
        then, before = self._seen[0]
        # Less than a second gives no useful rate.
        return (count - before) / (now - then) if now - then >= 1 else 0.0


class Reports:
    """Report progress while it is open, and once more at its end; never the same twice."""

    def __init__(self, state: t.Callable[[], Message | None], every_s: float) -> None:
        self._state = state
        self._every_s = every_s
        self._last: Message | None = None
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self: AnyReports) -> AnyReports:
        self._thread.start()
        return self

    def __exit__(self, *_exception: object) -> None:
        self._stopped.set()
        self._thread.join()
        self.tell()

    def _run(self) -> None:
        while True:
            self.tell()
            if self._stopped.wait(self._every_s):
                return

    def tell(self) -> None:
        # A file that is renamed under the measurement is counted the next time.
        with contextlib.suppress(OSError):
            state = self._state()
            if state is not None and state != self._last:
                emit({"progress": state})
                self._last = state

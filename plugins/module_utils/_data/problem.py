# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this module util is internal to the collection; its interface may change at any time.

"""A known problem: what the rows of the catalogue and of each engine are made of."""

from __future__ import annotations

import dataclasses
import re

# Places of evidence. LOG is the server's log, in which the texts around a match differ between releases.
LOG = "log"
KERNEL = "kernel"
DOCKER = "docker"
JOB = "job"
MACHINE = "machine"
RECORD = "record"
MEMORY_LOG = "memory.log"

# The reason why the server does not work.
CAUSE = "cause"
# Something failed, and the reason is elsewhere in the log.
WRAPPER = "wrapper"
# It is the cause only if no other row is.
HINT = "hint"
# It does not stop a server, but users should know about it.
WARNING = "warning"
# It is harmless and often taken for an error.
INFORMATION = "information"

LESS_MEMORY = (
    "Stop other users of the memory, lower speculative_serve_context or speculative_serve_concurrency, or raise"
    " speculative_serve_reserve_gib, so that the plan keeps more memory free."
)
KEEP_AWAKE = (
    "Disable sleep with 'sudo systemctl mask sleep.target suspend.target hibernate.target hybrid-sleep.target'."
)


@dataclasses.dataclass(frozen=True)
class KnownProblem:
    """A row of the catalogue."""

    id: str
    where: str
    cause: str
    fix: str
    source: str
    severity: str = CAUSE
    # Parts of a line, or a pattern if no part is constant.
    substrings: tuple[str, ...] = ()
    pattern: str = ""
    # Rows that are only consequences if this one is found.
    explains: tuple[str, ...] = ()
    # Something is broken, but the row does not show why.
    consequence: bool = False
    # Too common to be the cause by itself: it is the cause only if it explains another row.
    context: bool = False
    # In a server's log, pydantic names the option in the line before, and a later line with `after` has details.
    before: bool = False
    after: str = ""
    # It counts only while its counter is 0, or, without a counter, while no line follows it.
    standing: bool = False

    def knows(self, text: str) -> bool:
        """Return whether a text shows this problem."""
        # Each line of a log is tested with each row: a generator would take twice as long.
        for part in self.substrings:
            if part in text:
                return True
        return bool(self.pattern and re.search(self.pattern, text))

# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this module util is internal to the collection; its interface may change at any time.

"""Write and read moments in UTC, as in 2026-01-31T12:00:00Z."""

from __future__ import annotations

import calendar
import time

FORMAT = "%Y-%m-%dT%H:%M:%S"


def moment_text(seconds: float) -> str:
    """Return a Unix time as text."""
    return f"{time.strftime(FORMAT, time.gmtime(seconds))}Z"


def unix_time(moment: str) -> int:
    """Return the Unix time of a moment, which may have nanoseconds, as Docker gives it. Raise ValueError for others."""
    return calendar.timegm(time.strptime(moment[:19], FORMAT))

# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this module util is internal to the collection; its interface may change at any time.

"""Wait for a lock that does not answer, for a limited time."""

from __future__ import annotations

import os
import signal

from . import lock


class Patience:
    """End a lock that has not answered for so long that every lease has expired."""

    def __init__(self) -> None:
        self._since: float | None = None

    def answered(self) -> None:
        self._since = None

    def silent(self, silence: lock.Silence) -> None:
        """Kill the lock after the limit. Raise the error if it cannot be killed."""
        now = lock.since_boot()
        # The request itself has waited, too.
        self._since = now - lock.ANSWER_S if self._since is None else self._since
        try:
            # Only root and its own user can kill it. PID 0 means another namespace.
            if silence.pid:
                os.kill(silence.pid, signal.SIGKILL if now - self._since >= lock.TTL_S else 0)
                return
        except OSError:
            pass
        raise silence

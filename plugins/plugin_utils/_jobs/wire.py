# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this plugin util is internal to the collection; its interface may change at any time.

"""Define the constants and helpers of both ends of a copy between Sparks."""

from __future__ import annotations

import contextlib
import fcntl

GREETING = "dgx-spark-copy 1"
CHUNK = 1024 * 1024
# For ssh and sshd, whose buffers grow and shrink by megabytes all the time: what glibc once got for them it keeps, or
# the kernel zeroes and maps the same pages again and again. What sshd starts does not see it.
TUNABLES = "glibc.malloc.mmap_threshold=33554432:glibc.malloc.trim_threshold=67108864:glibc.malloc.top_pad=8388608"
# A larger pipe wakes its ends less often.
PIPE_BYTES = 1024 * 1024
F_SETPIPE_SZ = 1031


def widen(pipe: int) -> None:
    """Let a pipe hold more. It may be none, and an unprivileged process may have less."""
    with contextlib.suppress(OSError):
        fcntl.fcntl(pipe, F_SETPIPE_SZ, PIPE_BYTES)

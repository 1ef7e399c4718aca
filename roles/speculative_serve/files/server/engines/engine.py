# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The interface of an engine in its container: what its processes, figures and log lines are called."""

from __future__ import annotations

import typing as t

# The ways to start the ranks of several Sparks (server/launchers): Open MPI, or a process on each Spark.
MPI, OWN_PROCESS = "mpi", "own_process"


class CacheLines(t.Protocol):
    """Read the lines of a loading server about its KV cache."""

    def hear(self, line: bytes) -> None:
        """Take in one line of the log."""

    @property
    def tokens(self) -> int | None:
        """Return the tokens of the KV cache so far; None if no line has said."""


class Engine(t.NamedTuple):
    """An engine's program. Its functions are pure."""

    name: str
    # How it starts on several Sparks.
    launcher: str
    # Variables of a rank that are compared, or how their names begin, and those that differ by Spark; the versions of
    # its libraries.
    variables: tuple[str, ...]
    per_spark: tuple[str, ...]
    versions: t.Callable[[], dict[str, str | None]]
    # The process that has the API.
    front: str
    # The route of its figures, the beginning of their names, and the figure for the requests that it serves.
    metrics: str
    figures: str
    running: str
    # Parts of the lines after which it reads nothing more from the models' files.
    all_read: tuple[bytes, ...]
    # Patterns of what a server says that ends by itself because its engine did, the best first: it says more after it.
    last_words: tuple[str, ...]
    # The tokens of the KV cache that the text of its options plans, and a new reader of those that it makes.
    cache_planned: t.Callable[[str], int | None]
    cache_lines: t.Callable[[], CacheLines]

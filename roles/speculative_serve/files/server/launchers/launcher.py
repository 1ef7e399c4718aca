# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The interface of a launcher: how a head reaches its workers, and how the ranks are started."""

from __future__ import annotations

import dataclasses
import sys
import typing as t
from pathlib import Path

from server.cluster import Cluster

# The command that runs server/ranks.py.
ITSELF = (sys.executable, str(Path(__file__).resolve().parents[2] / "entrypoint.py"), "ranks")


def show_command(paths: t.Iterable[str], variables: t.Iterable[str] = ()) -> list[str]:
    """Return the command that prints the facts of a rank, as in rank.py."""
    options = [("--path", path) for path in paths] + [("--variable", name) for name in variables]
    return [*ITSELF, "show", *(word for option in options for word in option)]


class Problem(Exception):
    """The ranks cannot be started. The text has the reason and the fix."""


@dataclasses.dataclass(frozen=True)
class Plan:
    """The nodes by their fabric addresses, and their connection."""

    head: str
    workers: tuple[str, ...]
    port: int
    subnets: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    passed: tuple[str, ...] = ()
    link: tuple[str, ...] = ()


Facts = list[dict[str, t.Any]]


class Start(t.Protocol):
    """The ranks before they are started. Both functions raise Problem."""

    def ask(self) -> Facts:
        """Return the facts of all ranks, by rank."""

    def run(self, command: t.Sequence[str]) -> int:
        """Start the command on all ranks and stay with it; returns its exit status, if at all."""


class Worker(t.Protocol):
    """The main process of a worker's container."""

    def run(self) -> int:
        """Run ranks for the head until the container stops; returns the exit status."""


class Launcher(t.NamedTuple):
    """A way to start the ranks."""

    # The first bytes that a worker's container sends.
    greeting: bytes
    # Whether a worker confirms that it knows of a ready server.
    tell_ready: t.Callable[[Cluster, str], bool]
    worker: t.Callable[[Path, Cluster], Worker]
    # Prepare a start; raises Problem.
    prepare: t.Callable[[Plan], Start]
    # The variable with the number of a rank, and the versions of this launcher's own programs.
    rank: str
    versions: t.Callable[[], dict[str, str | None]]

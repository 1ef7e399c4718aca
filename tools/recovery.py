# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Generate the classes of faults of docs/recovery.md, each with the longest promised time of its faults."""

from __future__ import annotations

import typing as t

from tests.soak.promises import NO_ACTION, PROMISES, SAME, Inputs, Promise
from tools.troubleshooting import item

CLASSES: t.Final[dict[str, tuple[str, ...]]] = {
    "A process ends": (
        "engine killed",
        "supervisor killed",
        "container restarted",
        "docker restarted",
        "launcher killed",
        "worker's rank killed",
    ),
    "The server hangs": ("engine stopped", "engine hangs"),
    "A Spark loses power": ("power cut", "worker's power cut", "both powers cut"),
    "The worker or the cable fails": (
        "worker's supervisor killed",
        "worker's container restarted",
        "worker's sshd killed",
        "worker's container paused",
        "cable out",
        "one rail out",
    ),
    "A short interruption": ("container paused", "cable loses packets", "cable slow"),
    "The container stops": ("stopped and started", "docker killed"),
    "The container is removed": ("container removed",),
    "A switchover is interrupted": (
        "controller killed",
        "controller killed early",
        "lock killed",
        "renewal killed",
        "work killed",
        "two controllers",
    ),
    "Files are edited or deleted": ("files edited", "files deleted", "weights deleted"),
    "Other faults": ("containerd killed", "memory taken", "disk full", "internet fails", "clock stepped"),
}
# Typical times on a Spark, only to compare promises. The result does not depend on the exact values.
ROUGHLY = Inputs(load_s=600, boot_s=60, patience_s=60)


def longest(faults: t.Iterable[str], sparks: int) -> str:
    """Return the longest promised time until the server works again, on this number of Sparks."""
    possible = [PROMISES[name] for name in faults if sparks in PROMISES[name].sparks]
    return max(possible, key=lambda promise: promise.seconds(ROUGHLY)).told() if possible else "-"


def action(promises: t.Sequence[Promise]) -> str:
    """Return the action of a user after faults of one class."""
    needed = {promise.by for promise in promises} - {NO_ACTION}
    if any(promise.leaves for promise in promises) and not needed:
        return f"{SAME} to restore its files"
    return " or ".join(sorted(needed)) or NO_ACTION


def rows() -> t.Iterator[tuple[str, str, str, str]]:
    """Yield each class: its title, the time on one Spark and on two, and the action of a user."""
    for title, faults in CLASSES.items():
        yield title, longest(faults, 1), longest(faults, 2), action([PROMISES[name] for name in faults])


def faults() -> str:
    """Return the faults of each class as a list."""
    return "\n".join(item(title, _sentence(names)) for title, names in CLASSES.items())


def _sentence(names: t.Iterable[str]) -> str:
    promises = [PROMISES[name] for name in names]
    on_two = [promise.words for promise in promises if 1 not in promise.sparks]
    words = [promise.words for promise in promises if 1 in promise.sparks]
    words += [f"on two Sparks, {on_two[0]}", *on_two[1:]] if on_two else []
    return " ".join(f"{text[0].upper()}{text[1:]}." for text in words)

# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this plugin util is internal to the collection; its interface may change at any time.

"""Plan the installation and the removal of a systemd unit on the Sparks."""

from __future__ import annotations

import dataclasses
import typing as t

Steps = dict[str, t.Any]
File = dict[str, str]
LABELS = {
    "install": "{title}: to be installed",
    "remove": "{title}: to be removed",
    "move": "{move[0]}: to be moved to {move[1]}",
}


@dataclasses.dataclass(frozen=True)
class Unit:
    """A unit of this collection: its name in systemd, its title in messages, and the input that chooses it."""

    name: str
    title: str
    input: str


def unit_steps(
    unit: Unit,
    state: t.Mapping[str, t.Any],
    own: t.Mapping[str, str],
    files: t.Sequence[File],
    choice: bool | None,
    configure: bool,
) -> Steps:
    """Return the files to install and to remove on a Spark.

    `state` has the installed files with their digests and whether the unit is enabled, `own` the digests of this
    version. Without a choice, a unit is installed where the port is configured. `lacking` is whether it should be
    installed and is not.
    """
    present = state.get("files") or {}
    complete = present == own and bool(state.get("enabled"))
    wanted = configure if choice is None else choice
    return {
        **dataclasses.asdict(unit),
        "install": list(files) if wanted and not complete else [],
        "remove": list(present) if choice is False else [],
        "move": [],
        "lacking": not complete and not wanted and choice is None,
    }


def is_due(steps: Steps) -> bool:
    """Return whether a Spark has something to install, to remove or to move."""
    return any(steps[key] for key in LABELS)


def unit_lines(planned: t.Mapping[str, Steps]) -> list[str]:
    """Return the steps as text."""
    return [f"{name}: {LABELS[key].format(**steps)}" for name, steps in planned.items() for key in LABELS if steps[key]]

# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this module util is internal to the collection; its interface may change at any time.

"""Store and read the result of the bandwidth test of the link."""

from __future__ import annotations

import contextlib
import json
import typing as t
from pathlib import Path

from .._data.files import read_object
from .._spark.processes import boot_id, process_stat
from .._spark.whole import write_whole

# Below the collection's own directory.
NAME = "bandwidth.json"

Rails = list[dict[str, t.Any]]


def this_boot() -> str:
    """Return an id of this boot, or of this start of a simulated Spark."""
    first = process_stat(1)
    return f"{boot_id()} {first.start if first else ''}"


def write_bandwidth(directory: Path, rails: t.Sequence[dict[str, t.Any]]) -> None:
    """Write the measurement, so that it is not repeated before the next start."""
    with contextlib.suppress(OSError):
        text = json.dumps({"boot": this_boot(), "rails": list(rails)}) + "\n"
        write_whole(directory / NAME, text, 0o600)


def read_bandwidth(directory: Path) -> Rails:
    """Return what the cable has carried since this Spark was started, by interface; nothing if it was not measured."""
    data = read_object(directory / NAME) or {}
    rails = data.get("rails") if data.get("boot") == this_boot() else None
    return [rail for rail in rails if isinstance(rail, dict)] if isinstance(rails, list) else []

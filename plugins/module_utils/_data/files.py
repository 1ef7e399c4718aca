# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this module util is internal to the collection; its interface may change at any time.
"""Find and read files that may be missing or damaged."""

from __future__ import annotations

import json
import os
import typing as t
from pathlib import Path


def read_text(path: Path) -> str | None:
    """Return the text of a file; None if it cannot be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None


def read_value(path: Path) -> str | None:
    """Return a file of the kernel without its line break; None if there is none, or no value just now."""
    text = read_text(path)
    return None if text is None else text.strip()


def read_object(path: Path) -> dict[str, t.Any] | None:
    """Return the JSON object in a file; None if there is none."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    return data if isinstance(data, dict) else None


def nearest_existing(path: Path) -> Path:
    """Return the path, with its links followed, or its nearest parent that exists and can be seen."""
    path = Path(os.path.realpath(path))
    while not os.access(path, os.F_OK):
        path = path.parent
    return path

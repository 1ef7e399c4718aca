# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this module util is internal to the collection; its interface may change at any time.
"""Find, read and lock files and directories that others write, too."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import typing as t
from pathlib import Path

# The files are rotated at 20 MB; what a person reads stands at the end.
TAIL_BYTES = 512 * 1024


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


def read_end(path: Path, most: int) -> tuple[str, bool]:
    """Return the end of a file in whole lines, and whether its beginning was cut off."""
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - most))
        data = file.read()
    if size > most:
        data = data.partition(b"\n")[2]
    return data.decode("utf-8", "replace"), size > most


def read_tail(path: Path, most: int = TAIL_BYTES) -> str:
    """Return the end of a log in whole lines; empty if it cannot be read."""
    try:
        return read_end(path, most)[0]
    except OSError:
        return ""


def nearest_existing(path: Path) -> Path:
    """Return the path, with its links followed, or its nearest parent that exists and can be seen."""
    path = Path(os.path.realpath(path))
    while not os.access(path, os.F_OK):
        path = path.parent
    return path


@contextlib.contextmanager
def locked_directory(path: Path) -> t.Iterator[None]:
    """Hold the lock of a directory. Its files are replaced, and a lock file would stay behind and have one owner."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)

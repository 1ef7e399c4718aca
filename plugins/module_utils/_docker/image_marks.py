# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this module util is internal to the collection; its interface may change at any time.

"""Mark an image until it is on the disk.

The Docker Engine reports an image while its files are still in memory. A power cut then leaves an image whose files are
empty, or layers that the next pull, load or build uses again. The Engine takes them for whole. Jobs have this file too.
"""

from __future__ import annotations

import hashlib
import os
import typing as t
from pathlib import Path

from .._spark.processes import boot_id
from .._spark.whole import sync_directory, write_whole

T = t.TypeVar("T")


def mark_of(directory: Path, reference: str) -> Path:
    """Return the mark of an image, a file beside the job that brings it."""
    return directory / f"{hashlib.sha256(reference.encode()).hexdigest()}.unfinished"


def is_unfinished(directory: Path, reference: str) -> bool:
    """Return whether the Spark lost power, or was restarted, before the image was on the disk."""
    try:
        return mark_of(directory, reference).read_text(encoding="ascii", errors="replace") != boot_id()
    except FileNotFoundError:
        return False


def begin(directory: Path, reference: str) -> None:
    """Mark an image before the Engine gets it."""
    write_whole(mark_of(directory, reference), boot_id())


def end(directory: Path, reference: str) -> None:
    """Remove the mark of an image that is on the disk."""
    # All file systems, because the login user may not open the Engine's own directory.
    os.sync()
    mark_of(directory, reference).unlink(missing_ok=True)
    sync_directory(directory)


def to_disk(directory: Path, reference: str, bring: t.Callable[[], T], repair: t.Callable[[], T]) -> T:
    """Bring an image under its mark; or repair one that was not finished, whose mark stays until it is."""
    if is_unfinished(directory, reference):
        result = repair()
        end(directory, reference)
        return result
    begin(directory, reference)
    try:
        return bring()
    finally:
        # The Engine uses layers of a failure again, too.
        end(directory, reference)

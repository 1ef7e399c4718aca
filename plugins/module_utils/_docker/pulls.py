# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this module util is internal to the collection; its interface may change at any time.

"""Mark an image until it is on the disk.

The Docker Engine reports an image while its files are still in memory. A power cut then leaves an image, or layers that
the next pull uses again, whose files are empty. The Engine takes them for whole. Jobs have this file, too.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from ansible_collections.dgx_spark.speculative.plugins.module_utils._spark.watched_job import boot_id
from ansible_collections.dgx_spark.speculative.plugins.module_utils._spark.whole import sync_directory, write_whole


def mark_of(directory: Path, reference: str) -> Path:
    """Return the mark of an image, a file beside the job that pulls it."""
    return directory / f"{hashlib.sha256(reference.encode()).hexdigest()}.pulling"


def is_unfinished(directory: Path, reference: str) -> bool:
    """Return whether the Spark lost power, or was restarted, before a pull of the image was on the disk."""
    try:
        return mark_of(directory, reference).read_text(encoding="ascii", errors="replace") != boot_id()
    except FileNotFoundError:
        return False


def begin(directory: Path, reference: str) -> None:
    """Mark an image before it is pulled."""
    write_whole(mark_of(directory, reference), boot_id())


def flush() -> None:
    """Flush what the Engine has unpacked."""
    # All file systems, because the login user may not open the Engine's own directory.
    os.sync()


def end(directory: Path, reference: str) -> None:
    """Remove the mark of an image that is on the disk."""
    flush()
    mark_of(directory, reference).unlink(missing_ok=True)
    sync_directory(directory)

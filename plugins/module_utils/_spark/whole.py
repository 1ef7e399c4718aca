# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this module util is internal to the collection; its interface may change at any time.

"""Write files so that a power cut leaves the old content or the new one, and never a part of it.

All that writes on a Spark uses this file. It imports nothing else of the collection, because programs that run without
it have a copy.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path


def sync_directory(directory: Path) -> None:
    """Flush the names in a directory to the disk."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def put(draft: Path, path: Path) -> None:
    """Let a draft whose content is on the disk take the place of a path."""
    draft.replace(path)
    sync_directory(path.parent)


def write_synced(path: Path, content: bytes, mode: int) -> None:
    """Write a file to the disk, private until it is complete. It uses the blocks that the file already has.

    The file gets the owner of its directory, who may not be the user that writes it.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            # Only after the write, because another program may use the blocks that are freed.
            file.truncate()
            owner = path.parent.stat()
            with contextlib.suppress(PermissionError):
                os.chown(file.fileno(), owner.st_uid, owner.st_gid)
            os.fchmod(file.fileno(), mode)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        # An incomplete file would fill the disk further.
        with contextlib.suppress(OSError):
            path.unlink()
        # A write that fails does not say where.
        error.filename = error.filename or str(path.parent)
        raise


def write_whole(path: Path, content: str | bytes, mode: int = 0o644) -> None:
    """Replace a file in one step. A writer that is interrupted leaves a draft, which the next one replaces."""
    draft = path.with_name(f".{path.name}.new")
    # In a directory of all users it may be another user's.
    draft.unlink(missing_ok=True)
    write_synced(draft, content.encode() if isinstance(content, str) else content, mode)
    try:
        put(draft, path)
    except OSError:
        # A directory may be full, too.
        with contextlib.suppress(OSError):
            draft.unlink()
        raise

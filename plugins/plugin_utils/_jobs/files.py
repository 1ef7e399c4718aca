# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this plugin util is internal to the collection; its interface may change at any time.

"""Files that jobs write on a Spark."""

from __future__ import annotations

import contextlib
import os
import typing as t
from pathlib import Path


def size_of(path: Path) -> int | None:
    """How large a file is; None if it is not there."""
    try:
        return path.stat().st_size
    except (FileNotFoundError, NotADirectoryError):
        return None


def write_whole(path: Path, text: str) -> None:
    """Replace a file in one step, which a power cut does not undo by half."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f".{path.name}.{os.getpid()}.new")
    with new.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)


def give_back(descriptor: int) -> None:
    """Have the kernel drop a file's pages, which on a Spark count as used GPU memory; new ones it begins to write."""
    with contextlib.suppress(OSError):
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)


def model_folder(repository: str) -> str:
    """As huggingface_hub calls a model's directory."""
    return "models--" + repository.replace("/", "--")


def make_receipt(
    repository: str,
    commit: str,
    revisions: t.Iterable[str],
    chosen: t.Mapping[str, list[str]],
    files: t.Mapping[str, t.Any],
    checked: int,
) -> dict[str, t.Any]:
    """What is noted of a model whose checksums were right: all in the order in which it is read."""
    return {
        "id": repository,
        "revisions": sorted(revisions),
        "commit": commit,
        "include": chosen["include"],
        "exclude": chosen["exclude"],
        "checked": checked,
        "files": dict(sorted(files.items())),
    }

# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Find the versions of a container's libraries."""

from __future__ import annotations

import contextlib
import ctypes


def distribution(name: str) -> str | None:
    # Not at the start of each health check.
    import importlib.metadata

    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        return importlib.metadata.version(name)
    return None


def nccl_version() -> str | None:
    """Return the version of the library that would be loaded, which may differ from that of the package."""
    number = ctypes.c_int()
    try:
        if ctypes.CDLL("libnccl.so.2").ncclGetVersion(ctypes.byref(number)) != 0:
            return None
    except (OSError, AttributeError):
        return next(filter(None, map(distribution, ("nvidia-nccl-cu13", "nvidia-nccl-cu12"))), None)
    return f"{number.value // 10000}.{number.value // 100 % 100}.{number.value % 100}"

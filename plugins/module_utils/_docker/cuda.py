# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this module util is internal to the collection; its interface may change at any time.

"""Read the CUDA of an image, and that of a GPU driver.

Source: NVIDIA/nvbandwidth issue 61, where kernels of CUDA 13.2 fail on driver 580 (cudaErrorUnsupportedPtxVersion).
"""

from __future__ import annotations

import re
import typing as t

# By the branch of the driver (CUDA release notes, minimum required driver). Of a newer branch nothing is known here.
CUDA_OF_BRANCH = {"580": (13, 0), "590": (13, 1)}
# NVIDIA's own images bring driver libraries that are as new as their CUDA: the log in NVIDIA/TensorRT-LLM PR 19345.
COMPAT_VARIABLE = "_CUDA_COMPAT_PATH"


def cuda_of(environment: t.Iterable[str] | None) -> str | None:
    """Return the CUDA that an image needs of the driver, by its environment.

    It is None if the image has driver libraries of its own, or names no version.
    """
    values = dict(one.partition("=")[::2] for one in environment or ())
    return None if COMPAT_VARIABLE in values else values.get("CUDA_VERSION") or None


def too_new(cuda: str | None, driver: str) -> str:
    """Return the CUDA of a driver if an image needs a newer one; empty if not, or if one of them is unknown."""
    own, found = CUDA_OF_BRANCH.get(driver.partition(".")[0]), re.match(r"(\d+)\.(\d+)", cuda or "")
    if own is None or found is None or (int(found[1]), int(found[2])) <= own:
        return ""
    return f"{own[0]}.{own[1]}"

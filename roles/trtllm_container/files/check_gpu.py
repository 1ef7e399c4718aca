# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Start CUDA in a container: exit 0 if the GPU can be used there, else say why not.

nvidia-smi would ask NVML, which works in containers where CUDA does not (NVIDIA/nvidia-container-toolkit issue 1967).
"""

from __future__ import annotations

import ctypes
import os
import threading

DEADLINE_S = 60.0


def ask(said: list[str]) -> None:
    """Add what is wrong, or nothing but an empty text."""
    try:
        code = ctypes.CDLL("libcuda.so.1").cuInit(0)
    except (OSError, AttributeError) as error:
        said.append(f"CUDA cannot be loaded: {error}")
    else:
        said.append(f"cuInit(0) failed with CUDA error {code}" if code else "")


def main() -> None:
    said: list[str] = []
    asking = threading.Thread(target=ask, args=(said,), daemon=True)
    asking.start()
    asking.join(DEADLINE_S)
    problem = said[0] if said else f"cuInit(0) gave no answer within {DEADLINE_S:.0f} s"
    if problem:
        print(problem, flush=True)
    # A thread that hangs in the driver is not waited for.
    os._exit(1 if problem else 0)


if __name__ == "__main__":
    main()

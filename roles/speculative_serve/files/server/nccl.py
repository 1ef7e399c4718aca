# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Find the network that each rank's NCCL uses in its own log.

Without RDMA, NCCL continues with sockets, and only its log shows that.
"""

from __future__ import annotations

import contextlib
import typing as t
from pathlib import Path

# NCCL's start and its variables. NET also logs later events, and its log would grow without end.
SETTINGS = {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "INIT,ENV"}
# NCCL puts in the name of the host and the number of the process.
FILES, PATTERN = "nccl.%h.%p", "nccl.*"


def settings(state: Path, environment: t.Mapping[str, str]) -> dict[str, str]:
    """Return the variables that have NCCL write; none if the user has set one of them."""
    own = {**SETTINGS, "NCCL_DEBUG_FILE": str(state / FILES)}
    return {} if own.keys() & environment.keys() else own


def remove_files(state: Path) -> None:
    """Remove the files of an earlier start."""
    for path in state.glob(PATTERN):
        with contextlib.suppress(OSError):
            path.unlink()

# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Open MPI as a launcher."""

from __future__ import annotations

import contextlib
import subprocess

from server.cluster import HEARD, READY, RUN, Cluster
from server.launchers.launcher import Launcher
from server.launchers.mpi.mpirun import mpirun_version, prepare
from server.launchers.mpi.sshd import SshWorker

TOLD_WITHIN_S = 10.0


def tell_ready(_cluster: Cluster, address: str) -> bool:
    """Tell a worker through mpirun's SSH server that its rank is ready; return whether it confirms that."""
    command = ["ssh", "-F", str(RUN / "ssh_config"), address, READY]
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        told = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=TOLD_WITHIN_S, check=False
        )
        # Its exit code may be lost to who collects what has ended.
        return told.stdout.strip() == HEARD.encode()
    return False


def versions() -> dict[str, str | None]:
    return {"Open MPI": mpirun_version()}


LAUNCHER = Launcher(
    greeting=b"SSH-",
    tell_ready=tell_ready,
    worker=SshWorker,
    prepare=prepare,
    rank="OMPI_COMM_WORLD_RANK",
    versions=versions,
)

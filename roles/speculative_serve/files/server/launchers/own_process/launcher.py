# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Processes of their own as a launcher."""

from __future__ import annotations

import contextlib

from server.cluster import HEARD, LOOK_TIMEOUT_S, Cluster
from server.launchers.launcher import Launcher
from server.launchers.own_process.messages import GREETING, READY, connect
from server.launchers.own_process.start import OwnStart
from server.launchers.own_process.worker import ProcessWorker


def tell_ready(cluster: Cluster, address: str) -> bool:
    """Tell a worker that its rank is ready; return whether it confirms that."""
    with (
        contextlib.suppress(OSError),
        connect(address, cluster.port, cluster.own, {"ask": READY}) as connection,
    ):
        connection.settimeout(LOOK_TIMEOUT_S)
        return connection.recv(len(HEARD), 0) == HEARD.encode()
    return False


LAUNCHER = Launcher(
    greeting=GREETING,
    tell_ready=tell_ready,
    worker=ProcessWorker,
    prepare=OwnStart,
    rank="DGX_SPARK_RANK",
    versions=dict,
)

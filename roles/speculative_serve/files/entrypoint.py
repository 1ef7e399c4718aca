# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The programs of the container: its main process, and those that it or Docker starts.

Run as: entrypoint.py            start the server, restart it after a failure, and log both
        entrypoint.py worker     run a rank for a head
        entrypoint.py health     Docker's health check: exit 0 if the server answers, else 1
        entrypoint.py launch     forced command of a worker's sshd
        entrypoint.py ranks      start all ranks; serve.sh runs it on several Sparks

Environment: DGX_SPARK_ENGINE            the engine, by its name in the recipe
             DGX_SPARK_URL               URL of the server
             DGX_SPARK_PROBE_INTERVAL_S  seconds between two liveness probes of the watchdog (60; 0 turns it off)
             DGX_SPARK_STALL_S           seconds without a token after which an engine counts as hung (300)
             DGX_SPARK_TARGET            directory of the target model, and
             DGX_SPARK_DRAFT             of the draft model: their pages in the page cache are dropped
             DGX_SPARK_TAKES_BYTES       planned bytes of the server
             DGX_SPARK_TAKES_SHARE       fraction of the rest for the KV cache, if the engine decides its size
             DGX_SPARK_GUARD             limits of the memory guard: 'floor=BYTES seconds=SECONDS' or 'off'
             on several Sparks also the variables in server/cluster.py
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

DEPLOYMENT = Path("/deployment")


def serve(deployment: Path, url: str) -> int:
    """Serve alone, or as the head or a worker of several."""
    from server.cluster import Cluster
    from server.supervisor import Supervisor

    if "DGX_SPARK_RANK" not in os.environ:
        return Supervisor(deployment, url).run()
    try:
        cluster = Cluster.from_environment(os.environ)
    except ValueError as error:
        supervisor = Supervisor(deployment, url)
        supervisor.take_signals()
        return supervisor.refuse(f"{error}; run the playbook again")
    if cluster.rank:
        from server.engines.registry import engine_of
        from server.launchers.registry import launcher_of

        return launcher_of(engine_of(os.environ)).worker(deployment, cluster).run()
    from server.head import Head

    return Head(deployment, url, cluster).run()


def main(arguments: list[str], deployment: Path = DEPLOYMENT) -> int:
    """Each of them takes what it needs: the health check runs often."""
    url = os.environ.get("DGX_SPARK_URL", "http://127.0.0.1:8000")
    action, rest = (arguments[0], arguments[1:]) if arguments else ("serve", [])
    if action == "health":
        from server import health

        return health.main(deployment, url)
    if action == "launch":
        from server.launchers.mpi import login

        return login.main(rest)
    if action == "ranks":
        from server import ranks

        return ranks.main(rest)
    return serve(deployment, url)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

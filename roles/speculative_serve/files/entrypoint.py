# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The container's main process, and what else is run in it.

Run as: entrypoint.py            serve: start the server, keep it alive, and write down what happens to it
        entrypoint.py worker     serve as a worker of a head
        entrypoint.py health     Docker's health check: exit 0 if the server answers, 1 if not
        entrypoint.py launch     what a worker's sshd runs, whatever it was asked for
        entrypoint.py ranks      what serve.sh runs for several Sparks

Environment: DGX_SPARK_URL               where the server listens
             DGX_SPARK_PROBE_INTERVAL_S  seconds between two looks of the watchdog (60; 0 turns it off)
             DGX_SPARK_STALL_S           seconds without a token after which an engine hangs (300)
             DGX_SPARK_TARGET            the target model's directory, and
             DGX_SPARK_DRAFT             the draft model's: what their files hold of the memory is given back
             DGX_SPARK_TAKES_BYTES       what the server takes of this Spark's memory, as it is planned
             DGX_SPARK_TAKES_SHARE       where the engine decides, the share of the rest that its KV cache takes
             DGX_SPARK_GUARD             the memory guard's limits: 'floor=BYTES seconds=SECONDS' or 'off'
             of several Sparks also what server/cluster.py names
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
        from server.worker import Worker

        return Worker(deployment, cluster).run()
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
        from server import launch

        return launch.main(rest)
    if action == "ranks":
        from server import ranks

        return ranks.main(rest)
    return serve(deployment, url)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

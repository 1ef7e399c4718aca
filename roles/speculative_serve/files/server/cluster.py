# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Several Sparks that serve as one: who is who, and how they find each other.

Environment: DGX_SPARK_RANK              0 the head, then its workers
             DGX_SPARK_FABRIC_ADDRESSES  this Spark's addresses on the fabric, one a rail; the first is the head's way
             DGX_SPARK_PEER_ADDRESSES    those of all others: on the first rail in the order of ranks, then on the next
             DGX_SPARK_WORKER_PORT       where a worker's container listens for the head (2233)
             DGX_SPARK_PEER_LOST_S       seconds without a worker after which it is lost
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import socket
import stat
import typing as t
from pathlib import Path

# The playbook writes them for the login user; ssh and sshd need files of their own user.
KEYS = Path("/cluster")
RUN = Path("/run/dgx-spark-cluster")
# Seconds until a worker must have answered.
LOOK_TIMEOUT_S = 5.0
# Seconds between two checks for a missing worker.
RETRY_S = 2.0
# The head's message to its workers when its server answers, and their reply.
READY, HEARD = "ready", "heard"


@dataclasses.dataclass(frozen=True)
class Cluster:
    """The nodes of the cluster, from the container's environment."""

    rank: int
    own: str
    # The others' addresses on the first rail, by rank; the head's are its workers.
    peers: tuple[str, ...]
    port: int
    lost_s: float
    # The own addresses besides the first one, which NCCL takes, too.
    others: tuple[str, ...] = ()

    @classmethod
    def from_environment(cls, environment: t.Mapping[str, str]) -> Cluster:
        """Read the cluster from the environment. Raise ValueError if the environment is not that of a cluster."""
        try:
            own, peers = (
                environment[name].replace(",", " ").split()
                for name in ("DGX_SPARK_FABRIC_ADDRESSES", "DGX_SPARK_PEER_ADDRESSES")
            )
            first = peers[: len(peers) // len(own)]
            if not first:
                raise IndexError("fewer addresses of others than rails")
            return cls(
                int(environment["DGX_SPARK_RANK"]),
                own[0],
                tuple(first),
                int(environment.get("DGX_SPARK_WORKER_PORT", "2233")),
                float(environment["DGX_SPARK_PEER_LOST_S"]),
                tuple(own[1:]),
            )
        except (KeyError, IndexError, ValueError, ZeroDivisionError) as error:
            raise ValueError(f"the container's environment does not describe a cluster ({error!r})") from error

    def gone(self) -> str | None:
        """Return the first of its own addresses that this Spark does not have."""
        return next((one for one in (self.own, *self.others) if not is_here(one)), None)


def is_here(address: str) -> bool:
    """Return whether an address is one of this Spark's."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind((address, 0))
        except OSError:
            return False
    return True


def is_free(address: str, port: int) -> bool:
    """Return whether a server could listen there; connections that have just ended do not matter."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address, port))
            probe.listen(1)
        except OSError as error:
            return error.errno != errno.EADDRINUSE
    return True


def knock(address: str, port: int, source: str, timeout: float = LOOK_TIMEOUT_S, greeting: bytes = b"") -> str | None:
    """Return why a connection fails, else None; what listens must begin with `greeting`.

    An accepted connection only shows that the other kernel runs and the port was opened; its container may be paused. A
    Spark that loads weights can answer nothing more.
    """
    where = f"{address} port {port}"
    connected = False
    try:
        with socket.create_connection((address, port), timeout, (source, 0)) as connection:
            connected = True
            if connection.recv(len(greeting), socket.MSG_WAITALL) == greeting:
                return None
            return f"what listens at {where} is not the worker's container"
    except ConnectionRefusedError:
        return f"nothing listens at {where}: its container does not run or is still starting"
    except TimeoutError:
        if connected:
            return f"no greeting from {where} within {timeout:g} s: its container is paused, hangs or waits for memory"
        return f"no answer from {where} within {timeout:g} s: it is switched off, or a cable or a firewall blocks it"
    except OSError as error:
        if error.errno == errno.EADDRNOTAVAIL:
            return f"this Spark's own fabric address {source} is gone"
        return f"no way to {where}: {error.strerror or error}"


def no_address(address: str) -> str:
    return f"this Spark does not have its fabric address {address}: is the cable in, and does 'ip address' show it?"


def write_private(path: Path, text: str) -> None:
    """Write a file that only its owner can read, from its first byte on. Skip a file that is already correct."""
    with contextlib.suppress(OSError):
        if path.read_text(encoding="utf-8") == text and stat.S_IMODE(path.stat().st_mode) == 0o600:
            return
    path.unlink(missing_ok=True)
    path.touch(mode=0o600, exist_ok=False)
    path.write_text(text, encoding="utf-8")

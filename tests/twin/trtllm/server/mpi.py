# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Call the few MPI functions that the ranks need, from the real Open MPI library, so that mpirun's settings apply."""

from __future__ import annotations

import ctypes
import time
import typing as t

LIBRARY = "libmpi.so.40"
TAG = 7
SECONDS = 0.02


class _Status(ctypes.Structure):
    """MPI_Status of Open MPI 4 and 5."""

    _fields_: t.ClassVar = [
        ("source", ctypes.c_int),
        ("tag", ctypes.c_int),
        ("error", ctypes.c_int),
        ("cancelled", ctypes.c_int),
        ("count", ctypes.c_size_t),
    ]


class Mpi:
    """This process as a rank. An MPI failure ends it, which is MPI's default."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL(LIBRARY, mode=ctypes.RTLD_GLOBAL)
        self._library.MPI_Init(None, None)
        self._world = self._handle("ompi_mpi_comm_world")
        self._byte = self._handle("ompi_mpi_byte")
        rank, size = ctypes.c_int(), ctypes.c_int()
        self._library.MPI_Comm_rank(self._world, ctypes.byref(rank))
        self._library.MPI_Comm_size(self._world, ctypes.byref(size))
        self.rank, self.size = rank.value, size.value

    def _handle(self, name: str) -> ctypes.c_void_p:
        return ctypes.c_void_p(ctypes.addressof(ctypes.c_char.in_dll(self._library, name)))

    def send(self, rank: int, message: bytes) -> None:
        self._library.MPI_Send(message, len(message), self._byte, rank, TAG, self._world)

    def receive(self, rank: int) -> bytes:
        """Return the next message of a rank. It polls, because a waiting MPI_Recv would use a whole core."""
        there, status = ctypes.c_int(), _Status()
        while not there.value:
            arguments = (rank, TAG, self._world, ctypes.byref(there), ctypes.byref(status))
            self._library.MPI_Iprobe(*arguments)
            if not there.value:
                time.sleep(SECONDS)
        buffer = ctypes.create_string_buffer(max(1, status.count))
        self._library.MPI_Recv(buffer, status.count, self._byte, rank, TAG, self._world, None)
        return buffer.raw[: status.count]

    def finalize(self) -> None:
        self._library.MPI_Finalize()

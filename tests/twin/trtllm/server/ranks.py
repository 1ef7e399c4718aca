# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run the ranks of a tensor-parallel engine: the leader on the host of the front, and a worker on each other host.

MPI sends the task and the address of the leader. Then each rank joins the ring, loads its share of the model, and takes
part in every pass.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hmac
import json
import os
import signal
import socket
import sys
import traceback
import typing as t

from . import nccl
from .loading import Limits, OutOfMemoryError, Task, common, load
from .machine import Faults, log, read_faults, read_gpu, start_log
from .mpi import Mpi
from .proxy import KEY, Message, encode, endpoint
from .release import FAMILY

# Bytes of one all-reduce for one token: the activations of the largest model in BF16.
BYTES_PER_TOKEN = 8192


def lead() -> None:
    """Run rank 0 until the front sends a stop. If the front ends without one, wait, as the real rank does."""
    mpi = Mpi()
    leader = _Leader(mpi)
    with socket.create_server(endpoint(os.environ)) as listener:
        while True:
            connection, _ = listener.accept()
            with connection, contextlib.suppress(ConnectionError):
                if leader.serve(connection):
                    break
    mpi.finalize()


def work() -> None:
    """Run any other rank."""
    mpi = Mpi()
    message: Message = json.loads(mpi.receive(0))
    if not message:
        mpi.finalize()
        return
    task = Task(**message["task"])
    start_log(task.log_level, mpi.rank)
    with _ending_with_nccl():
        ring = nccl.Communicator(mpi.rank, mpi.size)
        host, port = message["leader"]
        ring.follow((host, port))
        mpi.send(0, json.dumps(_loaded(task)).encode())
        _take_part(ring)
    mpi.finalize()


class _Leader:
    def __init__(self, mpi: Mpi) -> None:
        self._mpi = mpi
        self._ring: nccl.Communicator | None = None

    def serve(self, connection: socket.socket) -> bool:
        """Handle the requests of one client. Return whether it was a stop."""
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        lines = connection.makefile("rb")
        first = json.loads(lines.readline() or b"{}")
        if not hmac.compare_digest(str(first.get("key")), os.environ[KEY]):
            log.error("A client without the right key is refused")
            return False
        for line in lines:
            message = json.loads(line)
            what = message.pop("do")
            if what == "stop":
                self._stop()
                return True
            answer = self._load(Task(**message)) if what == "load" else self._pass(message)
            connection.sendall(encode(answer))
        return False

    def _load(self, task: Task) -> Message:
        start_log(task.log_level, self._mpi.rank)
        with _ending_with_nccl():
            self._ring = nccl.Communicator(self._mpi.rank, self._mpi.size)
            plan = {"task": dataclasses.asdict(task), "leader": self._ring.identity}
            for rank in range(1, self._mpi.size):
                self._mpi.send(rank, json.dumps(plan).encode())
            self._ring.lead()
        answers = [_loaded(task), *(json.loads(self._mpi.receive(rank)) for rank in range(1, self._mpi.size))]
        failure = next((answer for answer in answers if "error" in answer), None)
        if failure is not None:
            return t.cast("Message", failure)
        return {"limits": dataclasses.asdict(common([Limits(**answer["limits"]) for answer in answers]))}

    def _pass(self, message: Message) -> Message:
        if self._ring is None:
            raise RuntimeError("Nothing is loaded.")
        with _ending_with_nccl():
            self._ring.exchange(nccl.REQUEST if message["new"] else nccl.PASS, BYTES_PER_TOKEN * message["tokens"])
        return {}

    def _stop(self) -> None:
        if self._ring is not None:
            self._ring.stop()
            return
        for rank in range(1, self._mpi.size):
            self._mpi.send(rank, b"{}")


def _loaded(task: Task) -> Message:
    """Load this rank's part. A failure is sent to the front, and the rank stays."""
    try:
        limits = load(task, read_gpu())
    except Exception as failure:
        text = traceback.format_exc()
        log.error("Failed to initialize executor on rank %s: %s\n%s", os.environ["OMPI_COMM_WORLD_RANK"], failure, text)
        return {"error": str(failure), "memory": isinstance(failure, OutOfMemoryError), "traceback": text}
    _reduce_first()
    return {"limits": dataclasses.asdict(limits)}


def _reduce_first(faults: t.Callable[[], Faults] = read_faults, family: str = FAMILY) -> None:
    """Simulate a fault of the first all-reduce by NCCL_SYMMETRIC, as only in 1.3 (NVIDIA/TensorRT-LLM issue 12715).

    Names of functions and finalMNNVL=0 are quoted from there. Other text is only of this double.
    """
    fault = faults().all_reduce if family == "1.3" else None
    if fault is None:
        return
    print("[TensorRT-LLM][INFO] TP group of both ranks: finalMNNVL=0", flush=True)
    if fault == "hangs":
        nccl.hang()
    for name in ("ncclGinGdakiQueryLastError", "ncclCommGetAsyncError", "torch_ext::AllreduceOp::run"):
        print(f'  File "<unknown>", line 0, in {name}', file=sys.stderr, flush=True)
    os.kill(os.getpid(), signal.SIGSEGV)


def _take_part(ring: nccl.Communicator, faults: t.Callable[[], Faults] = read_faults) -> None:
    """Take part in the leader's passes until it stops, or until this rank fails on purpose."""
    requests = 0
    while True:
        kind = ring.answer()
        if kind == nccl.STOP:
            return
        if kind == nccl.REQUEST:
            requests += 1
            broken = faults()
            if broken.exit_after_requests is not None and requests > broken.exit_after_requests:
                log.error("CppExecutorError: the rank ended on purpose")
                os._exit(1)
            if broken.hang_after_requests is not None and requests > broken.hang_after_requests:
                nccl.hang()


@contextlib.contextmanager
def _ending_with_nccl() -> t.Iterator[None]:
    """End this rank if its NCCL has failed, as the real engine does in any state."""
    try:
        yield
    except nccl.NcclError as failure:
        place = "/src/tensorrt_llm/cpp/tensorrt_llm/common/opUtils.cpp:150"
        print(f"Failed, NCCL error {place} '{failure}'", file=sys.stderr, flush=True)
        os._exit(1)

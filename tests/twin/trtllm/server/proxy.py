# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Connect the front with the ranks: trtllm-serve is no rank, and talks to the leader on the same host.

Requests and answers are JSON objects, one a line. The first line has the key that the launcher gave to both.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import socket
import typing as t
from urllib.parse import urlsplit

from .loading import Limits, OutOfMemoryError, Task
from .machine import log

Message = dict[str, t.Any]

# Environment variables of trtllm-llmapi-launch.
ADDRESS = "TLLM_SPAWN_PROXY_PROCESS_IPC_ADDR"
KEY = "TLLM_SPAWN_PROXY_PROCESS_IPC_HMAC_KEY"


class RankError(RuntimeError):
    """A failure of a rank."""


def endpoint(environment: t.Mapping[str, str]) -> tuple[str, int]:
    address = urlsplit(environment[ADDRESS])
    return address.hostname or "", address.port or 0


def encode(message: Message) -> bytes:
    return json.dumps(message).encode() + b"\n"


class Ranks:
    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._turn = asyncio.Lock()

    @classmethod
    def connect(cls, environment: t.Mapping[str, str]) -> Ranks:
        """Connect to the leader, which the launcher starts at the same time."""
        while True:
            try:
                connection = socket.create_connection(endpoint(environment), timeout=1)
                break
            except OSError:
                # The real one also waits for its peer without a limit.
                log.debug("waiting for the leader at %s", environment[ADDRESS])
        connection.settimeout(None)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.sendall(encode({"key": environment[KEY]}))
        return cls(connection)

    def load(self, task: Task) -> Limits:
        """Let all ranks load their parts, before anything else runs in this process."""
        self._connection.sendall(encode({"do": "load", **dataclasses.asdict(task)}))
        data = b""
        while not data.endswith(b"\n"):
            piece = self._connection.recv(65536)
            if not piece:
                raise RankError("Executor worker died during initialization")
            data += piece
        answer: Message = json.loads(data)
        self._connection.setblocking(False)
        if "error" in answer:
            log.error("Executor worker initialization error: %s", answer["traceback"])
            cause = (OutOfMemoryError if answer["memory"] else RankError)(answer["error"])
            raise RankError("Executor worker returned error") from cause
        return Limits(**answer["limits"])

    async def step(self, tokens: int, *, new: bool) -> None:
        """Let all ranks do one pass, and wait for them."""
        # If a client disconnects during a pass, the answer of the ranks must still be read.
        await asyncio.shield(asyncio.ensure_future(self._step({"do": "pass", "tokens": tokens, "new": new})))

    async def _step(self, message: Message) -> None:
        async with self._turn:
            loop = asyncio.get_running_loop()
            await loop.sock_sendall(self._connection, encode(message))
            data = b""
            while not data.endswith(b"\n"):
                piece = await loop.sock_recv(self._connection, 4096)
                if not piece:
                    log.error("The leader is gone, the engine hangs")
                    await asyncio.Event().wait()
                data += piece


def stop(environment: t.Mapping[str, str]) -> None:
    """Send the leader a stop when the front has ended, so that the ranks end, too."""
    with socket.create_connection(endpoint(environment), timeout=10) as connection:
        connection.sendall(encode({"key": environment[KEY]}) + encode({"do": "stop"}))

# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The main process of one of a pair's containers in a process of its own, and test doubles of what is around it."""

from __future__ import annotations

import contextlib
import os
import socket
import sys
import threading
import time
import typing as t
from pathlib import Path

from tests.unit import web
from tests.unit.entrypoint_container import Container
from tests.unit.replay_server import free_port

HEAD, WORKER, THIRD = "127.0.0.1", "127.0.0.2", "127.0.0.3"

# A test double of sshd: it listens where its configuration says, greets, and writes down what sshd would.
SSHD = f"""#!{sys.executable}
import pathlib, socket, sys
configuration = pathlib.Path(sys.argv[sys.argv.index("-f") + 1])
settings = dict(line.split(None, 1) for line in configuration.open() if line[0] != "#")
assert pathlib.Path(settings["HostKey"].strip()).read_text() == "host key"
listener = socket.create_server((settings["ListenAddress"].strip(), int(settings["Port"])))
print("this is a test double of sshd", flush=True)
while True:
    connection, peer = listener.accept()
    try:
        connection.sendall(b"SSH-2.0-double\\r\\n")
    except OSError:
        pass
    connection.close()
    print(f"Connection closed by {{peer[0]}} port {{peer[1]}} [preauth]", flush=True)
"""


class PairContainer(Container):
    """The head's or the worker's container, on loopback addresses."""

    def __init__(
        self,
        directory: Path,
        arguments: t.Sequence[str] = (),
        script: str = "sleep 60",
        url: str = "http://127.0.0.1:1",
        port: int = 1,
        own: str = HEAD,
        peer: str = WORKER,
        lost_s: float = 60,
        environment: t.Mapping[str, str] | None = None,
        **constants: t.Any,
    ) -> None:
        self.directory = directory
        for name in ("state", "cluster", "run", "bin"):
            (directory / name).mkdir(exist_ok=True, parents=True)
        (directory / "serve.sh").write_text(f"{script}\n", encoding="utf-8")
        settings = {
            "DGX_SPARK_RANK": "1" if arguments else "0",
            "DGX_SPARK_FABRIC_ADDRESSES": f"{own},127.0.1.1",
            "DGX_SPARK_PEER_ADDRESSES": f"{peer},127.0.1.2",
            "DGX_SPARK_WORKER_PORT": str(port),
            "DGX_SPARK_PEER_LOST_S": str(lost_s),
            "DGX_SPARK_PROBE_INTERVAL_S": "0",
            "PATH": f"{directory / 'bin'}:{os.environ['PATH']}",
        }
        self.start(list(arguments), url, {**settings, **(environment or {})}, constants)


def rdma_device(directory: Path, name: str, node: str = "uverbs0", number: str = "1:3") -> None:
    """Have the kernel know an RDMA device. Its node in the container, where one is added, is that of /dev/null."""
    entry = directory / "verbs" / node
    entry.mkdir(parents=True)
    (entry / "ibdev").write_text(f"{name}\n", encoding="ascii")
    (entry / "dev").write_text(f"{number}\n", encoding="ascii")


def rdma_node(directory: Path, node: str = "uverbs0") -> None:
    (directory / "nodes").mkdir(exist_ok=True)
    (directory / "nodes" / node).symlink_to("/dev/null")


class Listener:
    """A test double of the worker's sshd, as the head sees it; it can go and come back."""

    def __init__(self, greeting: bytes = b"SSH-2.0-double\r\n", address: str = WORKER, port: int | None = None) -> None:
        self.address = address
        self.port = port or free_port(address)
        self.greeting = greeting
        self.socket: socket.socket | None = None
        # The kernel takes connections for a container that is paused, too.
        self.paused = threading.Event()

    def open(self) -> None:
        self.socket = listener = socket.create_server((self.address, self.port))

        silent: list[socket.socket] = []

        def greet() -> None:
            with contextlib.suppress(OSError):
                while True:
                    connection = listener.accept()[0]
                    if self.paused.is_set():
                        silent.append(connection)
                        continue
                    with connection, contextlib.suppress(OSError):
                        connection.sendall(self.greeting)

        threading.Thread(target=greet, daemon=True).start()

    def close(self) -> None:
        if self.socket is not None:
            with contextlib.suppress(OSError):
                self.socket.shutdown(socket.SHUT_RDWR)
            self.socket.close()


class Handler(web.Handler):
    def do_GET(self) -> None:
        self.server.looked += self.path.startswith("/health")
        self.server.asked += self.path.startswith("/prometheus/metrics")
        moved = time.monotonic() if self.server.moving else 0
        self.reply(self.server.status, f"trtllm_num_requests_running 1.0\ntrtllm_iterations {moved}\n".encode())


class Server(web.Server):
    """Answers to looks at its health, and tells figures that move, or do not."""

    def __init__(self) -> None:
        self.moving = False
        self.status = 200
        # How often it was asked whether it is healthy.
        self.looked = 0
        # How often its figures were asked for.
        self.asked = 0
        super().__init__(Handler)

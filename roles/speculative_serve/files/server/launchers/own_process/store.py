# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The store where the ranks meet, on the head's fabric address only.

The first rank would make it, and listen on all addresses of the Spark, without a password. A launcher may make it
instead (TORCHELASTIC_USE_AGENT_STORE, torch/distributed/rendezvous.py).

Run as: store.py ADDRESS PORT   says READY, and ends with its standard input
"""

from __future__ import annotations

import socket
import sys

READY = "the store is ready"


def main(address: str, port: int) -> None:
    from torch.distributed import TCPStore

    listener = socket.create_server((address, port))
    # The name is kept: the store ends with its last reference.
    _store = TCPStore(address, port, is_master=True, wait_for_workers=False, master_listen_fd=listener.detach())
    print(READY, flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))

# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this plugin util is internal to the collection; its interface may change at any time.

"""Let the other Spark copy files to this one for the time of the copy. A program for the module watched_job.

It runs the host's own sshd as the login user, with the deployment's configuration and key. It ends by itself after some
time without a connection; afterwards no connection is accepted. The arguments: sshd, its configuration file, the
seconds, and a word that changes with configuration or keys, so that an older job is not taken for this one.

For each connection sshd runs the same program with the arguments `receive` and a JSON file, the input of receive.py.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

from ...module_utils._spark.processes import children, descendants
from . import receive
from .progress import emit
from .wire import TUNABLES

POLL_S = 0.5
# Less than the job's time after SIGTERM.
END_S = 4.0
PR_SET_CHILD_SUBREAPER = 36


def keep_orphans() -> None:
    """Become the parent of what loses its own: the SIGTERM that ends this ends sshd as well, and not its sessions."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def end_all() -> None:
    """End sshd and every connection: each is in a session of its own, where no signal to this one's group gets."""
    deadline = time.monotonic() + END_S
    # Again and again, since one of them may just be making another.
    while (left := descendants(os.getpid())) and time.monotonic() < deadline:
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.02)


class Service:
    """The sshd and its output."""

    def __init__(self, sshd: str, config: str) -> None:
        # -e: log to our output. The full path, because sshd executes itself for each connection.
        self.process = subprocess.Popen(
            [sshd, "-D", "-e", "-f", config],
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "GLIBC_TUNABLES": TUNABLES},
        )
        self.said: list[str] = []
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def _listen(self) -> None:
        for line in self.process.stderr or ():
            sys.stderr.write(line)
            sys.stderr.flush()
            if line.startswith("Server listening on "):
                emit({"progress": {"percent": None, "text": line.strip().rstrip(".")}})
            self.said = [*self.said[-20:], line.strip()]

    def reason(self) -> str:
        self._listener.join(2)
        words = [line for line in self.said if line and not line.startswith(("Server listening", "Received signal"))]
        return "; ".join(words[-3:]).rstrip(".") or f"exit code {self.process.returncode}"


def serve(sshd: str, config: str, idle_s: float) -> str:
    """Serve until no connection has come for some time; return the reason of the end."""
    stopped = threading.Event()
    # Before there is an sshd: one that is started just then must not outlive its service.
    signal.signal(signal.SIGTERM, lambda _number, _frame: stopped.set())
    keep_orphans()
    service = Service(sshd, config)
    last = time.monotonic()
    while True:
        if stopped.is_set() or service.process.poll() is not None:
            end_all()
            if stopped.is_set():
                sys.exit(143)
            return f"The copy service cannot run ({service.reason()}); run the same again."
        if children(service.process.pid):
            last = time.monotonic()
        elif time.monotonic() - last > idle_s:
            service.process.terminate()
            service.process.wait()
            return f"The copy service ended after {idle_s:g} s without a copy."
        stopped.wait(POLL_S)


def main() -> int:
    if sys.argv[1] == "receive":
        return receive.main(json.loads(Path(sys.argv[2]).read_text(encoding="utf-8")))
    sshd, config, idle, _word = sys.argv[1:5]
    # An ended service is no result: the next run starts it again.
    emit({"error": serve(sshd, config, float(idle))})
    return 1


if __name__ == "__main__":
    sys.exit(main())

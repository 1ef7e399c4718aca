# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Who has the lease of the twin's Sparks, seen past Ansible, and what happens to the controller that renews it."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
import typing as t
from pathlib import Path

from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._lease.held import CLIENT

from tests.playbook import Background
from tests.twin.control import Spark


def holder(spark: Spark) -> dict[str, t.Any] | None:
    """Who has it, what for and for how many seconds."""
    done = spark.exec(["python3", "-c", CLIENT, json.dumps({"do": "ask"})])
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    return found.get("holder") if found["state"] == "held" else None


def until(condition: t.Callable[[], object], seconds: float = 120) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.3)


def processes(run: Background) -> list[int]:
    """That of ansible-playbook with all its forks: they have its command line."""
    mine = Path(f"/proc/{run.process.pid}/cmdline").read_bytes()
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            found += [int(path.parent.name)] if path.read_bytes() == mine else []
    return found


@contextlib.contextmanager
def asleep(run: Background) -> t.Iterator[None]:
    """As a laptop whose lid is closed."""
    frozen = processes(run)
    for pid in frozen:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in frozen:
            os.kill(pid, signal.SIGCONT)

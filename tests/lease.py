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

from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._lease.renewer import Run
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._lease.run_state import CLIENT

from tests.playbook import ROOT, Background
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
    return like(Path(f"/proc/{run.process.pid}/cmdline").read_bytes())


def like(mine: bytes) -> list[int]:
    """All processes with a command line; the kernel's own have none."""
    found = list[int]()
    if not mine:
        return found
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            found += [int(path.parent.name)] if path.read_bytes() == mine else []
    return found


def parent_of(pid: int) -> int | None:
    """Nothing where there is no such process any more."""
    with contextlib.suppress(OSError):
        return int(Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[1])
    return None


@contextlib.contextmanager
def frozen(log: Path, tasks: t.Sequence[str], playbook: str, *arguments: str, **changes: str) -> t.Iterator[Background]:
    """A run that is suspended just before it sends the module of one of these tasks, until the end of the block.

    It is suspended again at each further one, and resumed at once. What renews its lease sleeps on: it would tell it.
    Keyword arguments go to its environment; FREEZE_ON is the address of the only Spark whose modules count.
    """
    place = log.with_suffix(".frozen")
    place.mkdir()
    run = Background(
        log,
        playbook,
        *arguments,
        ANSIBLE_CALLBACK_PLUGINS=str(ROOT / "tests" / "callback"),
        ANSIBLE_CALLBACKS_ENABLED="freeze_at",
        FREEZE_AT="\n".join(tasks),
        FROZEN=str(place),
        **changes,
    )
    main, mine = Run(run.process.pid), b""
    try:
        run.wait_for((place / "struck").exists, 900)
        mine = Path(f"/proc/{run.process.pid}/cmdline").read_bytes()
        until(lambda: all(Run(pid).is_stopped() for pid in like(mine)))
        yield run
        deadline = time.monotonic() + 900
        while run.process.poll() is None:
            assert time.monotonic() < deadline, log.read_text("utf-8")
            for pid in like(mine) if main.is_stopped() else []:
                if parent_of(pid) not in (None, 1):
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGCONT)
            time.sleep(0.1)
        assert run.process.returncode != 0
    finally:
        if run.process.poll() is None:
            run.kill()
        # What renews its lease is still suspended.
        for pid in like(mine):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


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

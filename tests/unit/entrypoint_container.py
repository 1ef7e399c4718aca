# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The container's main process in a process of its own, for its tests."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import typing as t
from pathlib import Path

from tests.unit.waiting import WITHIN_S, until

FILES = Path(__file__).parents[2] / "roles" / "speculative_serve" / "files"
GUARD = {"DGX_SPARK_GUARD": f"floor={4 * 2**30} seconds=3"}
# Orphans come to the entrypoint as they come to the first process of a container (PR_SET_CHILD_SUBREAPER is 36).
# What others take a constant from comes first, so that they take the test's.
RUN = """
import ctypes, importlib, json, pathlib, sys
ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)
sys.path.insert(0, sys.argv[1])
directory = pathlib.Path(sys.argv[2])
cluster, rdma = (importlib.import_module(f"server.{name}") for name in ("cluster", "rdma"))
cluster.KEYS, cluster.RUN = directory / "cluster", directory / "run"
rdma.CLASS, rdma.NODES = directory / "verbs", directory / "nodes"
for name, value in json.loads(sys.argv[3]).items():
    module, _, constant = name.rpartition(".")
    setattr(importlib.import_module(f"server.{module}"), constant, value)
import entrypoint
sys.exit(entrypoint.main(json.loads(sys.argv[4]), directory))
"""
SAYS_OPTIONS = "options: "
SAY_OPTIONS = f'echo "{SAYS_OPTIONS}$DGX_SPARK_OPTIONS"'
# Nobody waits for a test.
QUICK = {
    "cluster.RETRY_S": 0.1,
    "supervisor.HEALTH_EVERY_S": 0.1,
    "supervisor.RESTART_DELAY_S": 0.1,
    "supervisor.LOCK_EVERY_S": 0.1,
    "worker.STOP_RANKS_S": 1,
}


class Container:
    """The entrypoint in a process of its own, with a serve script of the test's."""

    def __init__(
        self,
        directory: Path,
        script: str,
        url: str = "http://127.0.0.1:1",
        script_name: str = "serve.sh",
        environment: t.Mapping[str, str] | None = None,
        **constants: float | str,
    ) -> None:
        self.directory = directory
        (directory / "state").mkdir(exist_ok=True)
        (directory / script_name).write_text(f"#!/bin/bash\n{script}\n", encoding="utf-8")
        self.start([], url, environment or {}, constants)

    def start(
        self, arguments: t.Sequence[str], url: str, environment: t.Mapping[str, str], constants: t.Mapping[str, object]
    ) -> None:
        """`constants` are called MODULE__NAME."""
        changed = {**QUICK, **{name.replace("__", "."): value for name, value in constants.items()}}
        self.process = subprocess.Popen(
            [sys.executable, "-c", RUN, str(FILES), str(self.directory), json.dumps(changed), json.dumps(arguments)],
            env={**os.environ, "DGX_SPARK_URL": url, **GUARD, **environment},
            stdout=subprocess.DEVNULL,
        )

    def state(self) -> dict[str, t.Any]:
        try:
            return dict(json.loads((self.directory / "state" / "state.json").read_text(encoding="utf-8")))
        except FileNotFoundError:
            return {"state": "absent"}

    def wait_for(self, state: str) -> dict[str, t.Any]:
        return self.wait_until(lambda found: found["state"] == state)

    def wait_until(self, true: t.Callable[[dict[str, t.Any]], object]) -> dict[str, t.Any]:
        def there() -> dict[str, t.Any] | None:
            state = self.state()
            return state if true(state) else None

        return until(there, lambda: f"{self.state()}\n{self.log()}") or {}

    def log(self) -> str:
        path = self.directory / "state" / "server.log"
        return path.read_text(encoding="utf-8") if path.exists() else ""

    def said(self) -> str:
        """What the first server has said."""
        return self.log().partition("[entrypoint] the server starts\n")[2]

    def options(self) -> list[str]:
        """The files with options that servers were started with which say so, one after the other."""
        said = [line for line in self.log().splitlines() if line.startswith(SAYS_OPTIONS)]
        return [str(Path(line[len(SAYS_OPTIONS) :]).relative_to(self.directory)) for line in said]

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=WITHIN_S)

    def end(self) -> None:
        """Leave nothing of it, whatever state a test has left it in."""
        server = self.state().get("pid")
        self.process.kill()
        self.process.wait()
        if server is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(server, signal.SIGKILL)


def lease_until(seconds: float) -> dict[str, t.Any]:
    """The end of a trial's lease: by the clock that counts from the start of the machine."""
    return {"until": time.clock_gettime(time.CLOCK_BOOTTIME) + seconds}


class Benchmark:
    """What a benchmark writes into a deployment's directory."""

    def __init__(self, deployment: Path) -> None:
        self.directory = deployment / "trial"

    def try_out(self, number: int, seconds: float = 60) -> dict[str, str]:
        """A trial as the entrypoint writes it down; its lease is as the benchmark writes it."""
        trial = {"id": f"draft-{number}", "title": f"draft length {number}"}
        self.write(json.dumps({**trial, **lease_until(seconds)}))
        return trial

    def write(self, lease: str) -> None:
        self.directory.mkdir(exist_ok=True)
        (self.directory / "options.yml").write_text("x: 1\n", encoding="utf-8")
        draft = self.directory / "lease.tmp"
        draft.write_text(lease, encoding="utf-8")
        draft.replace(self.directory / "lease.json")

    def take_back(self) -> None:
        (self.directory / "lease.json").unlink()
        (self.directory / "options.yml").unlink()
        self.directory.rmdir()

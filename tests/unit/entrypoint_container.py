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

ENTRYPOINT = Path(__file__).parents[2] / "roles" / "speculative_serve" / "files" / "entrypoint.py"
IMAGE = "registry.example.com/image:1"
# Orphans come to the entrypoint as they come to the first process of a container (PR_SET_CHILD_SUBREAPER is 36).
RUN = """
import ctypes, importlib.util, json, pathlib, sys
ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)
spec = importlib.util.spec_from_file_location("entrypoint", sys.argv[1])
entrypoint = importlib.util.module_from_spec(spec)
spec.loader.exec_module(entrypoint)
for name, value in json.loads(sys.argv[4]).items():
    setattr(entrypoint, name, value)
sys.exit(entrypoint.Supervisor(pathlib.Path(sys.argv[2]), sys.argv[3]).run())
"""
# Nobody waits for a test.
QUICK = {"RESTART_DELAY_S": 0.1}


class Container:
    """The entrypoint in a process of its own, with a serve script of the test's."""

    def __init__(
        self,
        directory: Path,
        script: str,
        url: str = "http://127.0.0.1:1",
        image: str = IMAGE,
        script_name: str = "serve.sh",
        environment: t.Mapping[str, str] | None = None,
        **constants: float,
    ) -> None:
        self.directory = directory
        (directory / "state").mkdir(exist_ok=True)
        (directory / script_name).write_text(f"#!/bin/bash\n# image: {IMAGE}\n{script}\n", encoding="utf-8")
        self.process = subprocess.Popen(
            [sys.executable, "-c", RUN, str(ENTRYPOINT), str(directory), url, json.dumps({**QUICK, **constants})],
            env={**os.environ, "DGX_SPARK_IMAGE": image, **(environment or {})},
            stdout=subprocess.DEVNULL,
        )

    def state(self) -> dict[str, t.Any]:
        try:
            return dict(json.loads((self.directory / "state" / "state.json").read_text(encoding="utf-8")))
        except FileNotFoundError:
            return {"state": "absent"}

    def wait_for(self, state: str) -> dict[str, t.Any]:
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            if self.state()["state"] == state:
                return self.state()
            time.sleep(0.05)
        raise AssertionError(f"no state {state}, but {self.state()}")

    def log(self) -> str:
        return (self.directory / "state" / "server.log").read_text(encoding="utf-8")

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=20)

    def end(self) -> None:
        """Leave nothing of it, whatever state a test has left it in."""
        server = self.state().get("pid")
        self.process.kill()
        self.process.wait()
        if server is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(server, signal.SIGKILL)

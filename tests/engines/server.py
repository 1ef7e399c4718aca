# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A real engine in a container of this machine, with a real model on the CPU."""

from __future__ import annotations

import contextlib
import json
import re
import subprocess
import typing as t
import urllib.request
from pathlib import Path

import yaml

from tests.unit.replay_server import free_port
from tests.unit.waiting import until

# The options of vllm serve, in its own spelling.
SERVE: dict[str, t.Any] = {
    "model": "/model",
    "served-model-name": "smollm2",
    "host": "0.0.0.0",
    "port": 8000,
    "max-model-len": 2048,
    "max-num-seqs": 2,
    "max-num-batched-tokens": 2048,
    "enforce-eager": True,
    "kv-cache-memory-bytes": 128 * 2**20,
    "enable-auto-tool-choice": True,
    "tool-call-parser": "hermes",
    # The arguments of a call follow the schema.
    "tool-strict-level": "parameter",
}
KILL = """
import os, pathlib, signal, sys
for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
    if path.read_text().startswith(sys.argv[1]):
        os.kill(int(path.parent.name), signal.SIGKILL)
"""
SAMPLE = re.compile(r"^(vllm:\w+)\{([^}]*)\} (\S+)$", re.MULTILINE)


def docker(*command: str) -> str:
    """Return the output of a Docker command, which has to succeed."""
    return subprocess.run(["docker", *command], check=True, capture_output=True, text=True).stdout.strip()


class Server:
    """vLLM, as it runs in its image."""

    def __init__(self, tag: str, model: Path, place: Path, **options: t.Any) -> None:
        self.url = f"http://127.0.0.1:{free_port()}"
        config = place / "serve.yaml"
        config.write_text(yaml.safe_dump({**SERVE, **options}), encoding="utf-8")
        config.chmod(0o644)
        port = self.url.rpartition(":")[2]
        self.id = docker(
            *("run", "--detach", "--shm-size", "1g", "--publish", f"127.0.0.1:{port}:8000"),
            *("--volume", f"{model.resolve()}:/model:ro", "--volume", f"{config}:/serve.yaml:ro"),
            *(tag, "--config", "/serve.yaml"),
        )

    def wait(self) -> None:
        """Wait until it answers."""
        until(self._answers, self.log)

    def _answers(self) -> bool:
        assert self.runs(), self.log()[-3000:]
        # It closes connections until its port is open.
        with contextlib.suppress(OSError), urllib.request.urlopen(f"{self.url}/health", timeout=10):
            return True
        return False

    def log(self) -> str:
        """Return what it has written."""
        process = subprocess.run(["docker", "logs", self.id], check=True, capture_output=True, text=True)
        return process.stdout + process.stderr

    def runs(self) -> bool:
        """Return whether its container runs."""
        return docker("inspect", "--format", "{{.State.Running}}", self.id) == "true"

    def kill(self, title: str) -> None:
        """Kill the processes with a title, inside the container: outside, only root may."""
        docker("exec", self.id, "python3", "-c", KILL, title)

    def exit_code(self) -> int:
        """Wait for its end, and return its exit code."""
        return int(docker("wait", self.id))

    def counters(self) -> dict[str, float]:
        """Return its counters of drafts, those of a position with the position behind the name."""
        with urllib.request.urlopen(f"{self.url}/metrics", timeout=10) as answer:
            text = answer.read().decode()
        found: dict[str, float] = {}
        for name, labels, value in SAMPLE.findall(text):
            position = re.search(r'position="(\d+)"', labels)
            found[name.removeprefix("vllm:") + (position[1] if position else "")] = float(value)
        return {name: value for name, value in found.items() if name.startswith("spec_decode")}

    def complete(self, body: dict[str, t.Any]) -> dict[str, t.Any]:
        """Return the answer to a request for a completion."""
        request = urllib.request.Request(
            f"{self.url}/v1/completions",
            data=json.dumps({"model": "smollm2", **body}).encode(),
            headers={"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=120) as answer:
            result: dict[str, t.Any] = json.load(answer)
        return result

    def close(self) -> None:
        """Remove the container."""
        with contextlib.suppress(subprocess.CalledProcessError):
            docker("rm", "--force", self.id)

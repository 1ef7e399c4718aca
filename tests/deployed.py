# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The deployment of single_eagle3, for the tests that look at it."""

from __future__ import annotations

import contextlib
import json
import re
import shlex
import socket
import subprocess
import time
import typing as t

import pytest
import yaml

from tests import playbook
from tests.twin.control import Spark

HOME = "/home/spark/.local/share/dgx-spark-speculative"
DEPLOYMENT = f"{HOME}/single_eagle3"
SLOT = "dgx-spark-speculative"


class Deployed:
    """What is deployed, read past Ansible."""

    def __init__(self, spark: Spark) -> None:
        self.spark = spark

    def inspect(self) -> dict[str, t.Any]:
        return dict(json.loads(self.spark.exec(["docker", "inspect", SLOT]).stdout)[0])

    def options(self) -> dict[str, t.Any]:
        return dict(yaml.safe_load(self.spark.read_file(f"{self.spark.mounted()}/options.yml")))

    def record(self) -> dict[str, t.Any]:
        return dict(json.loads(self.spark.read_file(f"{DEPLOYMENT}/record.json")))

    def state(self) -> dict[str, t.Any]:
        return dict(json.loads(self.spark.read_file(f"{DEPLOYMENT}/state/state.json")))

    def has_the_planned_pool(self) -> bool:
        """Whether the KV cache is as large as planned, by the stand-in's own words: those of a newer release are not
        known to the collection."""
        log = self.spark.exec(f"docker logs {SLOT} 2>&1").stdout
        planned = self.options()["kv_cache_config"]["max_gpu_total_bytes"] / 2**30
        return re.findall(r"Pool of ([0-9.]+) GiB", log)[-1] == f"{planned:.2f}"

    def answers(self) -> bool:
        return self.spark.exec(["curl", "-sf", "--max-time", "5", "http://127.0.0.1:8000/v1/models"]).returncode == 0

    def wait_until_it_answers(self, seconds: float = 300) -> None:
        deadline = time.monotonic() + seconds
        while not self.answers():
            assert time.monotonic() < deadline, self.spark.exec(["docker", "logs", "--tail", "20", SLOT]).stdout
            time.sleep(0.3)


@pytest.fixture(scope="session")
def deployed(spark: Spark) -> Deployed:
    return Deployed(spark)


@contextlib.contextmanager
def tunnel() -> t.Iterator[str]:
    """The API as a person reaches it: through SSH, since it listens on the Spark's loopback address only."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    group = yaml.safe_load(playbook.INVENTORY.read_text(encoding="utf-8"))["sparks"]
    host = {**group["vars"], **group["hosts"]["spark-1"]}
    ssh = subprocess.Popen(
        [
            "ssh",
            *shlex.split(host["ansible_ssh_common_args"]),
            *("-i", host["ansible_ssh_private_key_file"]),
            *("-o", "ExitOnForwardFailure=yes", "-N", "-L", f"{port}:127.0.0.1:8000"),
            f"{host['ansible_user']}@{host['ansible_host']}",
        ],
        cwd=playbook.ROOT,
    )
    try:
        deadline = time.monotonic() + 90
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=10):
                break
            time.sleep(0.1)
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        ssh.terminate()
        ssh.wait()


@pytest.fixture
def api() -> t.Iterator[str]:
    with tunnel() as url:
        yield url

# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A server that does not come up, or dies."""

from __future__ import annotations

import json
import time
import typing as t

import pytest

from tests import playbook
from tests.deployed import DEPLOYMENT, SLOT, Deployed
from tests.twin.control import Spark

pytest_plugins = ["tests.scenario"]

ENGINE_FAULTS = "/run/dgx-spark-twin/engine.json"


@pytest.fixture
def engine_fault(spark: Spark) -> t.Iterator[t.Callable[..., None]]:
    """Make servers that start from now on fail in some way."""

    def cause(**fault: t.Any) -> None:
        spark.write_file(ENGINE_FAULTS, json.dumps(fault))

    yield cause
    spark.exec(["rm", "-f", ENGINE_FAULTS])


def test_a_server_that_dies_while_loading_says_why_and_the_previous_one_comes_back(
    deployed: Deployed, spark: Spark
) -> None:
    # The harmony vocabularies are not where the server is told to look for them.
    playbook.succeed("single_eagle3")
    misled = {"speculative_serve_environment": {"TIKTOKEN_ENCODINGS_BASE": "/nowhere"}}
    outcome = playbook.fail("single_eagle3", variables={**misled, "speculative_serve_draft_length": 4})
    assert "vocab" in outcome.message
    assert f"{DEPLOYMENT}/failed.log" in outcome.message
    assert "The previous deployment serves again." in outcome.message
    assert "vocab" in spark.read_file(f"{DEPLOYMENT}/failed.log")
    assert deployed.options()["speculative_config"]["max_draft_len"] == 5
    assert deployed.answers()
    assert playbook.succeed("single_eagle3").changed == []


def test_out_of_memory_is_named_also_when_nothing_can_come_back(
    deployed: Deployed, engine_fault: t.Callable[..., None], spark: Spark
) -> None:
    engine_fault(die_while_loading="torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.")
    outcome = playbook.fail("single_eagle3", variables={"speculative_serve_draft_length": 4})
    assert "CUDA out of memory. Tried to allocate 2.00 GiB" in outcome.message
    assert "The previous deployment could not be started again either" in outcome.message
    assert "free_gpu_memory_fraction" in outcome.output
    spark.exec(["rm", "-f", ENGINE_FAULTS])
    playbook.succeed("single_eagle3")
    assert deployed.answers()


def test_a_port_that_another_container_has(spark: Spark, deployed: Deployed) -> None:
    image = deployed.record()["image"]["reference"]
    server = ["python3", "-m", "http.server", "8001", "--bind", "127.0.0.1"]
    spark.exec(["docker", "run", "--detach", "--rm", "--name", "vllm", "--network", "host", image, *server])
    spark.exec("until ss -ltn | grep -q :8001; do sleep 0.1; done")
    try:
        outcome = playbook.fail("single_eagle3", variables={"speculative_serve_port": 8001})
    finally:
        spark.exec(["docker", "rm", "--force", "vllm"])
    assert "port 8001 on 127.0.0.1 is in use by" in outcome.message
    assert "vllm" in outcome.message
    assert deployed.answers()


def test_a_killed_server_comes_back(deployed: Deployed, spark: Spark) -> None:
    pid = deployed.state()["pid"]
    spark.exec(["docker", "exec", SLOT, "bash", "-c", f"kill -9 {pid}"])
    deadline = time.monotonic() + 60
    while deployed.state().get("pid") in (pid, None):
        assert time.monotonic() < deadline
        time.sleep(0.2)
    deployed.wait_until_it_answers()
    assert deployed.state()["restarts"] == 1

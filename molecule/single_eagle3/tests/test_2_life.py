# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What happens to a deployment: changes, faults, reboots, the end."""

from __future__ import annotations

import json
import time
import typing as t

import pytest
from conftest import DEPLOYMENT, HOME, SLOT, Deployed

from tests import fingerprint, playbook
from tests.twin.control import Internet, Spark

pytest_plugins = ["tests.scenario"]

MODEL = "gpt-oss-120b"
ENGINE_FAULTS = "/run/dgx-spark-twin/engine.json"


@pytest.fixture
def engine_fault(spark: Spark) -> t.Iterator[t.Callable[..., None]]:
    """Make servers that start from now on fail in some way."""

    def cause(**fault: t.Any) -> None:
        spark.write_file(ENGINE_FAULTS, json.dumps(fault))

    yield cause
    spark.exec(["rm", "-f", ENGINE_FAULTS])


def test_a_second_run_changes_nothing_and_asks_nobody(internet: Internet) -> None:
    outcome = playbook.succeed("single_eagle3", "-e", "ansible_become_password=")
    assert outcome.changed == []
    assert internet.counters()["requests"] == []


def test_another_draft_length_changes_options_and_restarts_once(deployed: Deployed, internet: Internet) -> None:
    before = deployed.inspect()
    outcome = playbook.succeed("single_eagle3", "--diff", variables={"speculative_serve_draft_length": 3})
    assert outcome.changed == [
        "Write the engine options",
        "Run the container",
        "Keep that record for the way back",
        "Write the record",
    ]
    assert "-    max_draft_len: 5" in outcome.output or "-  max_draft_len: 5" in outcome.output
    assert deployed.options()["speculative_config"]["max_draft_len"] == 3
    assert deployed.inspect()["Id"] != before["Id"]
    assert deployed.inspect()["Image"] == before["Image"]
    assert deployed.state()["restarts"] == 0
    assert internet.counters()["requests"] == []


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


def test_a_restarted_spark_serves_again_without_ansible(deployed: Deployed, spark: Spark, internet: Internet) -> None:
    spark.restart()
    deployed.wait_until_it_answers()
    assert internet.counters()["requests"] == []


def test_stop_stays_stopped_and_start_needs_neither_internet_nor_sudo(
    deployed: Deployed, spark: Spark, internet: Internet
) -> None:
    outcome = playbook.succeed("stop")
    assert "Memory available:" in outcome.output
    assert not deployed.answers()
    assert playbook.succeed("stop").changed == []
    spark.restart()
    time.sleep(3)
    assert deployed.inspect()["State"]["Running"] is False

    internet.set_faults([{"host": "*", "path": "*", "action": "status", "status": 503}])
    playbook.succeed("start", "-e", "ansible_become_password=")
    assert deployed.answers()
    assert playbook.succeed("start").changed == []


def test_cleanup_leaves_the_models_and_nothing_else(spark: Spark) -> None:
    playbook.succeed("cleanup")
    assert spark.exec(["ls", HOME]).stdout == "models\n"
    assert spark.exec(["docker", "ps", "--all", "--quiet"]).stdout == ""
    assert spark.exec(["docker", "volume", "ls", "--quiet"]).stdout == ""
    assert spark.exec("ls .cache/huggingface/hub/models--openai--gpt-oss-120b/snapshots", user="spark").returncode == 0


def test_after_a_cleanup_the_models_are_used_again(internet: Internet) -> None:
    playbook.succeed("single_eagle3")
    assert internet.requests("huggingface.co") == []


def test_cleanup_removes_models_and_image_when_told(spark: Spark) -> None:
    playbook.succeed("cleanup", variables={"models": "all", "image": True})
    assert spark.exec(["test", "-e", HOME]).returncode != 0
    assert spark.exec("ls .cache/huggingface/hub | grep models--", user="spark").stdout == ""
    # What stays: membership of the group, and directories that other programs use, too.
    membership = ("docker:", "/etc/group", "/etc/gshadow")
    directories = (
        ".cache/huggingface",
        ".cache/huggingface/hub",
        ".cache/huggingface/hub/.locks",
        ".local",
        ".local/share",
    )
    expected = [*membership, *(f"/home/spark/{name} d " for name in directories)]
    remaining = fingerprint.difference(fingerprint.SAVED.read_text(encoding="utf-8"), fingerprint.take())
    assert [line for line in remaining if not line[1:].startswith(tuple(expected))] == []

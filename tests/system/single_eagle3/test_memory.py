# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Memory that files hold, which CUDA counts as used."""

from __future__ import annotations

import time
import typing as t

from tests import playbook
from tests.deployed import SLOT, Deployed
from tests.twin.control import Spark

pytest_plugins = ["tests.scenario"]

LOW = 8 * 2**30
ALL_READ = "Loading weights: 100%"


def wait_for(condition: t.Callable[[], bool], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.2)


def test_a_container_is_told_the_memory_of_the_spark(spark: Spark) -> None:
    inside = spark.exec(["docker", "exec", SLOT, "head", "-1", "/proc/meminfo"]).stdout
    assert inside == spark.exec(["head", "-1", "/proc/meminfo"]).stdout
    assert "125509400 kB" in inside


def test_pages_are_given_back_while_loading_where_memory_is_short(spark: Spark, deployed: Deployed) -> None:
    with spark.gpu(seconds_per_gb=0.3):
        since = spark.exec(["date", "+%s"]).stdout.strip()
        spark.exec(["docker", "restart", SLOT])
    # With room they stay.
    wait_for(lambda: spark.memory("Cached") > 25e9)
    time.sleep(2)
    assert spark.memory("Cached") > 25e9
    # Now somebody takes all but 20 GB, of which files hold the most.
    total = spark.memory("MemTotal")
    with spark.gpu(system_bytes=total - 20e9):
        wait_for(lambda: spark.memory("MemFree") > LOW, 10)
        assert deployed.state()["state"] == "loading"
        assert ALL_READ not in spark.exec(f"docker logs --since {since} {SLOT} 2>&1").stdout
    deployed.wait_until_it_answers()


def test_what_cuda_calls_free_is_told_before_anything_is_loaded(spark: Spark, deployed: Deployed) -> None:
    playbook.succeed("stop")
    # Somebody reads the models, as a checksum does.
    spark.exec("cat .cache/huggingface/hub/models--*/snapshots/*/*.safetensors >/dev/null", user="spark")
    available = spark.memory()
    assert spark.memory("MemFree") < 85e9 < available
    since = spark.exec(["date", "+%s"]).stdout.strip()
    outcome = playbook.succeed("single_eagle3")
    text = " ".join(outcome.output.split())
    assert f"by CUDA, {available / 1e9:.0f} GB available" in text
    assert "which is less than the 85.6 GB that are needed" in text
    assert "speculative_serve_drop_caches" in text
    created = (
        "docker events --since {} --until $(date +%s) --filter event=create --format '{{{{.Actor.Attributes.name}}}}'"
    )
    assert spark.exec(created.format(since)).stdout.split().count(f"{SLOT}-gpu-check") == 1
    # All of the KV cache is there nevertheless, since the models' pages were given back.
    assert deployed.state()["kv_cache"]["tokens"] == deployed.state()["kv_cache"]["planned"]
    since = spark.exec(["date", "+%s"]).stdout.strip()
    assert playbook.succeed("single_eagle3").changed == []
    assert spark.exec(created.format(since)).stdout == ""

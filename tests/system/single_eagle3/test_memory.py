# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Memory that files hold, which CUDA counts as used."""

from __future__ import annotations

import json
import time
import typing as t

from tests import playbook
from tests.deployed import DEPLOYMENT, SLOT, Deployed
from tests.twin.control import Spark

pytest_plugins = ["tests.scenario"]

LOW = 8 * 2**30
GIB = 2**30
# While it is there, the Spark's /proc/meminfo is written 20 times a second.
CURVE = "/run/dgx-spark-twin/curve"
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
    assert f"according to CUDA, {available / 1e9:.0f} GB available" in text
    assert "speculative_serve_drop_caches" in text
    created = (
        "docker events --since {} --until $(date +%s) --filter event=create --format '{{{{.Actor.Attributes.name}}}}'"
    )
    assert spark.exec(created.format(since)).stdout.split().count(f"{SLOT}-gpu-check") == 1
    # All of the KV cache is there nevertheless, since the models' pages were given back.
    assert deployed.has_the_planned_pool()
    since = spark.exec(["date", "+%s"]).stdout.strip()
    assert playbook.succeed("single_eagle3").changed == []
    assert spark.exec(created.format(since)).stdout == ""


def test_an_engine_that_takes_all_of_the_memory_is_ended_in_time(spark: Spark, deployed: Deployed) -> None:
    """From 29 to 2.5 GiB in 9 s while it loads, as in vllm-project/vllm issue 56824. It ends when it is asked to."""
    spark.exec(["docker", "stop", SLOT])
    wait_for(lambda: spark.memory() > 90 * GIB)
    all_of_it = spark.memory()
    levels = ((0, all_of_it), (15, 29 * GIB), (18, 29 * GIB), (27, 2.5 * GIB), (30, GIB))
    curve = ",".join(f"{second}:{all_of_it - level:.0f}" for second, level in levels)
    with spark.gpu(seconds_per_gb=1.0), spark.fault(memory_curve=curve):
        spark.exec(["touch", CURVE])
        spark.exec(["docker", "start", SLOT])
        wait_for(lambda: (deployed.state()["last_exit"] or {}).get("by") == "memory guard", 120)
        first = deployed.state()
        assert first["reason"].startswith("memory fell from 29.0 GiB to ")
        # It is started again once, when the memory is back, and then left alone.
        wait_for(lambda: deployed.state()["state"] == "failed", 180)
    spark.exec(["rm", "-f", CURVE])
    lines = [json.loads(line) for line in spark.read_file(f"{DEPLOYMENT}/state/memory.log").splitlines()]
    assert [line["event"] for line in lines if "event" in line][-6:] == ["loading", "SIGTERM", "ended"] * 2
    levels_seen = [line["available"] for line in lines if "available" in line]
    assert 2.5 * GIB < min(levels_seen) < 14 * GIB
    assert spark.memory() > 90 * GIB
    told = " ".join(playbook.run("diagnose").output.split())
    assert "memory fell from 29.0 GiB to" in told
    assert "the plan takes 80" in told
    assert "state failed" in " ".join(playbook.run("status").output.split())
    playbook.succeed("single_eagle3")
    assert "memory guard on" in " ".join(playbook.run("status").output.split())

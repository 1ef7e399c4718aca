# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The memory guard ends a real vLLM before another program has used up the Spark's memory, and says why."""

from __future__ import annotations

import json
import typing as t

import pytest

from tests import playbook
from tests.first_light import Rank, variables
from tests.pair import HOME

GIB = 2**30
# While it is there, the Spark's /proc/meminfo is written 20 times a second.
CURVE = "/run/dgx-spark-twin/curve"
# From 29 to 2.5 GiB in 9 s, as in vllm-project/vllm issue 56824.
LEVELS = ((5, 29 * GIB), (8, 29 * GIB), (17, 2.5 * GIB), (20, GIB))
UNIT = "another-program"


@pytest.fixture(scope="module", autouse=True)
def begin_here(alone: Rank) -> None:
    """With the real vLLM, whatever served before."""
    playbook.succeed("serve", variables=variables("first_light"))
    alone.wait_until_it_runs()


@pytest.fixture
def another_program(alone: Rank) -> t.Iterator[t.Callable[[], None]]:
    """Return a function that ends a program, which takes memory until none is left."""
    spark = alone.spark
    all_of_it = spark.memory()
    curve = ",".join(f"{second}:{all_of_it - level:.0f}" for second, level in ((0, all_of_it), *LEVELS))
    spark.exec(["touch", CURVE])
    started = spark.exec(
        ["systemd-run", "--unit", UNIT, "python3", "-c", "import time; time.sleep(600)", f"STANDIN_GPU_CURVE={curve}"]
    )
    assert started.returncode == 0, started.stderr

    def end() -> None:
        spark.exec(["systemctl", "stop", UNIT])

    yield end
    end()
    spark.exec(["rm", "-f", CURVE])


def test_the_engine_ends_in_time_and_comes_back_with_the_memory(
    alone: Rank, another_program: t.Callable[[], None]
) -> None:
    engine, restarts = set(alone.processes()), alone.state["restarts"]
    alone.wait_until(lambda: (alone.state["last_exit"] or {}).get("by") == "memory guard", 120)
    state = alone.state
    assert state["reason"].startswith("memory fell from 29.0 GiB to ")
    assert not engine & set(alone.processes())
    lines = [json.loads(line) for line in alone.spark.read_file(f"{HOME}/{alone.name}/state/memory.log").splitlines()]
    assert [line["event"] for line in lines if "event" in line][-3:] in (
        ["ready", "SIGTERM", "ended"],
        ["ready", "SIGKILL", "ended"],
    )
    # It waits for the memory, which the program still has.
    assert state["state"] == "restarting"
    told = " ".join(playbook.run("diagnose").output.split())
    assert "memory fell from 29.0 GiB to" in told
    assert alone.state["state"] == "restarting"
    another_program()
    alone.wait_until_it_runs()
    assert alone.state["restarts"] == restarts + 1

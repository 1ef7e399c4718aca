# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whatever is interrupted, and wherever: the next run ends where an undisturbed one does."""

from __future__ import annotations

import json
import re
import typing as t
from pathlib import Path

import pytest

from tests import playbook
from tests.twin.control import Internet, Spark

pytest_plugins = ["tests.scenario"]

CALLBACKS = playbook.ROOT / "tests" / "callback"
HOME = "/home/spark/.local/share/dgx-spark-speculative"
SLOT = "dgx-spark-speculative"
# What two deployments of the same may differ in.
OF_THE_MOMENT = ("deployed_at", "answer", "measurements", "memory_available", "free_for_gpu")
IMAGE_BLOBS = "nvcr.io/v2/nvidia/tensorrt-llm/release/blobs"


def state(spark: Spark) -> dict[str, t.Any]:
    """Everything a deployment consists of."""
    record = json.loads(spark.read_file(f"{HOME}/single_eagle3/record.json"))
    container = json.loads(spark.exec(["docker", "inspect", SLOT]).stdout)[0]
    files = spark.exec(
        f"cd {HOME} && find . -type f -not -path './jobs/*' -not -path '*/state/*' -not -name record.json"
        " -not -path './models/*' -exec sha256sum {} + | sort -k2;"
        " find . ~spark/.cache/huggingface/hub -printf '%p %y %m %u %g\\n' | grep -v '/jobs/\\|server.log' | sort"
    ).stdout
    return {
        "record": {name: value for name, value in record.items() if name not in OF_THE_MOMENT},
        "container": {key: container[key] for key in ("Image", "Mounts", "HostConfig")},
        "labels": container["Config"]["Labels"],
        "running": container["State"]["Running"],
        "containers": spark.exec(["docker", "ps", "--all", "--format", "{{.Names}}"]).stdout,
        "files": files,
        "parts": spark.exec("find ~spark/.cache/huggingface -name '*.incomplete'").stdout,
    }


def settled(facts: dict[str, t.Any]) -> dict[str, t.Any]:
    """The order in which Docker lists mounts means nothing."""
    return {**facts, "container": {**facts["container"], "Mounts": sorted(map(str, facts["container"]["Mounts"]))}}


@pytest.fixture(scope="module")
def after() -> dict[str, t.Any]:
    """What a Spark looks like in the end, by what happened to it."""
    return {}


def test_killed_at_every_task_that_may_change_the_spark(spark: Spark, after: dict[str, t.Any]) -> None:
    table = playbook.ROOT / ".cache" / "killed.txt"
    table.write_text("", encoding="utf-8")
    killed: list[str] = []
    while True:
        outcome = playbook.run(
            "single_eagle3",
            KILLED_AT=str(table),
            ANSIBLE_CALLBACK_PLUGINS=str(CALLBACKS),
            ANSIBLE_CALLBACKS_ENABLED="kill_at",
        )
        found = re.search(r"^KILLED AT (.*)$", outcome.output, re.MULTILINE)
        if not found:
            break
        assert outcome.code == -9, outcome.output
        assert found[1] not in killed
        killed.append(found[1])
        table.write_text("\n".join(killed), encoding="utf-8")
    assert outcome.code == 0, outcome.output
    assert len(killed) > 12
    after["kills"] = settled(state(spark))


def seen(spark: Spark, command: str) -> t.Callable[[], bool]:
    return lambda: spark.exec(command).returncode == 0


FETCHES = [
    ("nvcr.io", "*/blobs/*", f"grep -q pulling {HOME}/jobs/pull/job.json"),
    ("huggingface.co", "*/resolve/*", "find ~spark/.cache/huggingface -name '*.incomplete' -size +100k | grep -q ."),
]


def test_a_power_cut_while_image_and_models_are_fetched(
    spark: Spark, internet: Internet, tmp_path: Path, after: dict[str, t.Any]
) -> None:
    playbook.succeed("cleanup", variables={"models": "all", "image": True})
    for host, path, sign in FETCHES:
        internet.set_faults([{"host": host, "path": path, "action": "slow", "bytes_per_second": 700_000}])
        run = playbook.Background(tmp_path / host, "single_eagle3")
        run.wait_for(seen(spark, sign))
        spark.power_cut()
        run.kill()
    internet.clear_faults()
    playbook.succeed("single_eagle3")
    # Two histories that have nothing in common but their end.
    assert settled(state(spark)) == after["kills"]
    assert after["kills"]["running"]
    assert after["kills"]["parts"] == ""


def test_a_power_cut_while_the_model_loads(spark: Spark, tmp_path: Path) -> None:
    with spark.gpu(seconds_per_gb=0.2):
        run = playbook.Background(tmp_path / "log", "single_eagle3", "-e", "speculative_serve_draft_length=4")
        run.wait_for(seen(spark, f"grep -q 'Loading' {HOME}/single_eagle3/state/server.log"))
        spark.power_cut()
        run.kill()
    playbook.succeed("single_eagle3", variables={"speculative_serve_draft_length": 4})
    assert json.loads(spark.read_file(f"{HOME}/single_eagle3/record.json"))["draft_length"] == 4


def test_a_power_cut_while_it_serves_and_no_internet_after(spark: Spark, internet: Internet) -> None:
    internet.set_faults([{"host": "*", "path": "*", "action": "status", "status": 503}])
    spark.power_cut()
    alive = "until curl -sf --max-time 2 http://127.0.0.1:8000/v1/models; do sleep 0.3; done"
    assert spark.exec(f"timeout 90 sh -c '{alive}'").returncode == 0
    assert playbook.succeed("single_eagle3", variables={"speculative_serve_draft_length": 4}).changed == []
    assert internet.bytes_to(spark.address, IMAGE_BLOBS) == 0

# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Long jobs run on the Spark: a dead controller does not stop the bytes."""

from __future__ import annotations

import time
from pathlib import Path

from tests import playbook
from tests.twin.control import Internet, Spark

pytest_plugins = ["tests.scenario"]

TARGET = "huggingface.co/openai/gpt-oss-120b"
HEAD = "huggingface.co/nvidia/gpt-oss-120b-Eagle3-long-context"


def served_bytes(spark: Spark) -> int:
    """What the models of the recipe weigh in the cache."""
    blobs = spark.exec(r"find .cache/huggingface/hub -path '*/blobs/*' -type f -printf '%s\n'", user="spark").stdout
    return sum(int(size) for size in blobs.split())


def test_a_dead_controller_does_not_stop_the_download(spark: Spark, internet: Internet, tmp_path: Path) -> None:

    def fetched() -> int:
        return internet.bytes_to(spark.address, TARGET) + internet.bytes_to(spark.address, HEAD)

    # So slow that it is under way until the fault is taken back, however long the second run takes to get there.
    internet.set_faults(
        [{"host": "huggingface.co", "path": "*/resolve/*", "action": "slow", "bytes_per_second": 2_000}]
    )
    first = playbook.Background(tmp_path / "first.log", "single_eagle3")
    first.wait_for(lambda: fetched() > 50_000)
    first.kill()
    at_death = fetched()
    time.sleep(3)
    assert fetched() > at_death, "the download stopped with its controller"

    second = playbook.Background(tmp_path / "second.log", "single_eagle3")
    second.wait_for(lambda: "this was started before and has gone on; attached to it" in second.log.read_text("utf-8"))
    internet.set_faults([])
    assert second.process.wait(timeout=600) == 0, second.log.read_text("utf-8")

    whole = served_bytes(spark)
    assert whole <= fetched() <= 1.02 * whole
    assert internet.bytes_to(spark.address, f"{TARGET}/resolve/") < 1.02 * whole
    unused = [
        request
        for request in internet.requests("huggingface.co")
        if "/original/" in request["path"] or "/metal/" in request["path"]
    ]
    assert unused == []


def test_a_later_start_fetches_nothing(internet: Internet) -> None:
    playbook.succeed("stop")
    playbook.succeed("start")
    playbook.succeed("single_eagle3")
    assert internet.counters()["requests"] == []

# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A machine that keeps its answer for long, or has something in its store that looks like what was asked for."""

from __future__ import annotations

from tests import playbook
from tests.twin.control import Internet, Spark
from tests.twin.names import FOREIGN_TAG
from tests.twin.registry import FOREIGN_ARCHITECTURE

pytest_plugins = ["tests.scenario"]

FOREIGN = f"nvcr.io/nvidia/tensorrt-llm/release:{FOREIGN_TAG}"


def test_a_gpu_driver_that_hangs(spark: Spark) -> None:
    with spark.gpu(driver_fault="hang"):
        text = playbook.fail("single_eagle3").message
    assert text.startswith("spark-1: ")
    assert "nvidia-smi did not answer within 10 s" in text


def test_an_image_for_another_processor_that_is_here(spark: Spark, internet: Internet) -> None:
    pulled = spark.exec(["docker", "pull", "--quiet", FOREIGN])
    assert pulled.returncode == 0, pulled.stderr
    internet.reset_counters()
    try:
        text = playbook.fail("single_eagle3", variables={"engine_container_image": FOREIGN}).message
    finally:
        spark.exec(["docker", "image", "rm", FOREIGN])
    assert f"linux/{FOREIGN_ARCHITECTURE}" in text
    assert f"docker image rm {FOREIGN}" in text


def test_a_gpu_driver_that_does_not_answer_because_the_memory_is_full(spark: Spark) -> None:
    with spark.gpu(driver_fault="hang", system_bytes=spark.memory("MemTotal") - 5e8):
        text = playbook.fail("single_eagle3").message
    assert "nvidia-smi did not answer within 10 s" in text
    assert "stop.yml" in text

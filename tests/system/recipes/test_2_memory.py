# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What does not fit is refused with the plan, before anything is downloaded or stopped."""

from __future__ import annotations

import re

from tests import playbook
from tests.twin.control import Internet, Spark
from tests.twin.names import REGISTRY_HOST, RELEASE, RELEASE_REPOSITORY

pytest_plugins = ["tests.scenario"]

IMAGE = f"{REGISTRY_HOST}/{RELEASE_REPOSITORY}:{RELEASE}"


def test_a_spark_of_64_gb_is_refused_with_the_plan(spark: Spark, internet: Internet) -> None:
    with spark.gpu(memory_bytes=62e9):
        # The models are not there any more: what is known of them comes from the Hub's descriptions.
        spark.exec("rm -rf /home/spark/.cache/huggingface/hub/models--openai--gpt-oss-120b")
        outcome = playbook.fail("single_eagle3")
        small = playbook.succeed("preflight", variables={"recipe": "single_gpt_oss_20b"})
    for part in ("weights of openai/gpt-oss-120b", "65.2 GB", "KV cache for", "memory of this Spark", "62.0 GB"):
        assert part in outcome.output, part
    assert "Does not fit" in outcome.output
    assert "Choose a smaller model; it would" in outcome.message
    # Weights alone are more than there is: nothing is offered that would hang the machine for sure.
    assert "overcommit" not in outcome.message
    assert "Fits with" in small.output
    assert internet.bytes_to(spark.address, "huggingface.co/openai/gpt-oss-120b") < 20_000
    assert internet.requests("cdn-lfs.huggingface.co") == []


def test_a_context_that_is_too_large_is_refused_with_the_one_that_fits() -> None:
    pair = {"recipe": "single_draft_target", "speculative_serve_concurrency": 2}
    outcome = playbook.fail("preflight", variables={**pair, "speculative_serve_context": 131072})
    found = re.search(r"-e speculative_serve_context=(\d+)", outcome.message)
    assert found, outcome.message
    fitting = int(found[1])
    assert 32768 < fitting < 131072
    assert fitting % 1024 == 0
    assert "Fits only with a shorter context" in outcome.output
    # The number that was named is right. Unit tests have fewer conversations as the way out, and who insists.
    fits = playbook.succeed("preflight", variables={**pair, "speculative_serve_context": fitting})
    assert "Fits with" in fits.output


def test_a_wrong_wish() -> None:
    outcome = playbook.fail("preflight", variables={"speculative_serve_context": 200_000})
    assert "200,000" in outcome.message
    assert "131,072" in outcome.message


def test_the_seeds_own_way_takes_what_is_left(spark: Spark) -> None:
    outcome = playbook.succeed("single_eagle3", variables={"speculative_serve_kv_cache": "fraction"})
    assert "KV cache: 90% of what is left" in outcome.output
    text = spark.read_file(f"{spark.mounted()}/options.yml")
    assert "max_tokens" not in text
    assert "max_seq_len" not in text
    # As on a real Spark: little is left for anybody else.
    assert spark.memory() < 10e9


def test_who_holds_the_memory_is_named_and_our_own_deployment_is_not(spark: Spark) -> None:
    # Nearly all is ours at this moment, and counts as free.
    assert "Fits with" in playbook.succeed("preflight").output
    playbook.succeed("stop")
    with spark.stranger(IMAGE, 71_000_000_000):
        message = playbook.fail("single_eagle3").message
    assert "docker stop vllm" in message
    assert "71" in message

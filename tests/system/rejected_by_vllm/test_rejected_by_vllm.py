# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Options that do not fit the model are refused by the real vLLM before the weights are downloaded."""

from __future__ import annotations

import typing as t

from tests import playbook
from tests.twin.control import Internet, Spark

RECIPE = str(playbook.ROOT / "tests/twin/recipes/first_light.yml")
CACHE = "/home/spark/.cache/huggingface/hub/models--twin--SmolLM2-135M-Instruct-Q4"
# The model was made for half as many tokens.
TOO_LONG = {"max-model-len": 16384}


def refused(options: dict[str, t.Any]) -> playbook.Outcome:
    return playbook.fail("serve", variables={"recipe": RECIPE, "speculative_serve_options": options})


def test_code_of_a_model_without_a_commit(spark: Spark) -> None:
    assert "trust-remote-code" in refused({"trust-remote-code": True}).message
    assert spark.exec(["test", "-e", CACHE]).returncode != 0


def test_a_context_that_the_model_does_not_have(spark: Spark, internet: Internet) -> None:
    outcome = refused(TOO_LONG)
    assert "derived max_model_len" in outcome.message
    files = spark.exec(f"cd {CACHE}/snapshots/* && ls").stdout.split()
    assert {"config.json", "tokenizer.json"} <= {*files}
    assert [name for name in files if name.endswith(".safetensors")] == []
    assert [one for one in internet.requests("huggingface.co") if one["path"].endswith(".safetensors")] == []


def test_what_is_there_is_not_downloaded_again(internet: Internet) -> None:
    before = len(internet.requests("huggingface.co"))
    outcome = refused(TOO_LONG)
    assert "derived max_model_len" in outcome.message
    asked = [one["path"] for one in internet.requests("huggingface.co")[before:]]
    assert [path for path in asked if path.endswith(("config.json", "tokenizer.json"))] == []

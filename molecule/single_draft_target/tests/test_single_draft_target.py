# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What drafts from a whole model serve as, planned from a context."""

from __future__ import annotations

import json

import pytest
import yaml

from tests.playbook import ROOT
from tests.twin.control import Spark

DEPLOYMENT = "/home/spark/.local/share/dgx-spark-speculative/single_draft_target"
RECIPE = yaml.safe_load((ROOT / "playbooks/recipes/single_draft_target.yml").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def spark() -> Spark:
    return Spark()


def test_the_engine_has_what_was_planned(spark: Spark) -> None:
    engine = yaml.safe_load(spark.read_file(f"{spark.mounted()}/options.yml"))
    assert engine["max_batch_size"] == 1
    assert engine["max_seq_len"] == RECIPE["context"]
    # A block for the drafts at the conversation's end, one that it may have begun, and one for all.
    assert engine["kv_cache_config"]["max_tokens"] - RECIPE["context"] == 3 * 32
    assert engine["speculative_config"]["max_draft_len"] == RECIPE["draft_length"]
    assert engine["speculative_config"]["decoding_type"] == "Draft_Target"


def test_drafts_are_accepted_and_the_image_accepts_the_options(spark: Spark) -> None:
    record = json.loads(spark.read_file(f"{DEPLOYMENT}/record.json"))
    assert "the image itself accepts the engine options" in record["checks"]
    assert record["measurements"]["acceptance_length"] > 1.2


def test_the_plan_kept_its_word(spark: Spark) -> None:
    """What the server holds is in the plan, and the reserve is free."""
    assert spark.memory() > 12 * 2**30

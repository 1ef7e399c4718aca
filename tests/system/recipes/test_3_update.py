# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is newer is shown, and applied as a switch with the way back."""

from __future__ import annotations

import json

from tests import playbook
from tests.twin.control import Spark

pytest_plugins = ["tests.scenario"]

HOME = "/home/spark/.local/share/dgx-spark-speculative"


def image(spark: Spark, file: str) -> str:
    return str(json.loads(spark.read_file(f"{HOME}/{file}"))["image"]["reference"]).rpartition(":")[2]


def test_what_is_newer_is_shown_and_left_alone(spark: Spark) -> None:
    playbook.succeed("single_eagle3")
    outcome = playbook.succeed("update")
    assert "1.4.0rc1" in outcome.output
    assert "nvidia/gpt-oss-120b-Eagle3-v3" in outcome.output
    assert outcome.changed == []
    assert image(spark, "single_eagle3/record.json") == "1.3.0rc29"


def test_it_is_applied_as_a_switch_with_the_way_back(spark: Spark) -> None:
    outcome = playbook.succeed("update", variables={"apply": True})
    assert image(spark, "single_eagle3/record.json") == "1.4.0rc1"
    assert image(spark, "previous.json") == "1.3.0rc29"
    assert "previous=true" in outcome.output
    playbook.succeed("serve", variables={"previous": True})
    assert image(spark, "single_eagle3/record.json") == "1.3.0rc29"

# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Newer versions are shown, and deployed with rollback."""

from __future__ import annotations

import json

from tests import playbook
from tests.twin.control import Spark

pytest_plugins = ["tests.scenario"]

HOME = "/home/spark/.local/share/dgx-spark-speculative"
# Its image is older than the newest one of its line, and there is a line beyond.
RECIPE, OLD, NEW, BEYOND = "single_eagle3_page", "1.3.0rc12", "1.3.0rc29", "1.4.0rc1"


def image(spark: Spark, file: str) -> str:
    return str(json.loads(spark.read_file(f"{HOME}/{file}"))["image"]["reference"]).rpartition(":")[2]


def test_newer_versions_are_shown_and_nothing_is_changed(spark: Spark) -> None:
    playbook.succeed("serve", variables={"recipe": RECIPE})
    outcome = playbook.succeed("update")
    assert NEW in outcome.output
    assert BEYOND in outcome.output
    assert outcome.changed == []
    assert image(spark, f"{RECIPE}/record.json") == OLD


def test_they_are_deployed_and_rolled_back(spark: Spark) -> None:
    outcome = playbook.succeed("update", variables={"apply": True, "speculative_serve_expose": "docker"})
    assert image(spark, f"{RECIPE}/record.json") == NEW
    assert image(spark, "previous.json") == OLD
    assert "previous=true" in outcome.output
    assert "(containers on the Spark, with a key)" in outcome.output
    playbook.succeed("serve", variables={"previous": True})
    assert image(spark, f"{RECIPE}/record.json") == OLD

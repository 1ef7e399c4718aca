# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a field check writes of a Spark that serves, with and without a look at it while it loads."""

from __future__ import annotations

import json
import typing as t
from pathlib import Path

import jsonschema

from tests import playbook
from tests.deployed import Deployed

SCHEMA = json.loads((playbook.ROOT / "reports/schema.json").read_text())


def check(*arguments: str) -> dict[str, t.Any]:
    """Run the playbook, and read the rows of the one Spark; the files are not left in the checkout."""
    outcome = playbook.succeed("field_check", *arguments)
    page, document = (
        Path(line.partition(": ")[2]) for line in outcome.output.splitlines() if line.endswith((".html", ".json"))
    )
    report, text = json.loads(document.read_text()), page.read_text()
    page.unlink()
    document.unlink()
    jsonschema.Draft202012Validator(SCHEMA).validate(report)
    assert "<b>not measured</b>" in text
    (spark,) = report["sparks"]
    return {row["id"]: row for row in spark["rows"]}


def test_it_looks_and_changes_nothing(deployed: Deployed) -> None:
    before = deployed.inspect()["State"]["StartedAt"]
    rows = check()
    assert deployed.inspect()["State"]["StartedAt"] == before
    # Which is why no report of the twin can confirm a claim about hardware.
    assert rows["virtualisation"]["value"] == "docker"
    assert rows["deployment"]["value"] == "single_eagle3"
    planned = deployed.options()["kv_cache_config"]["max_tokens"]
    assert rows["kv_planned"]["value"] == planned
    # The default image is of a release whose log is not known (docs/hardware.md).
    assert "value" not in rows["kv_made"]
    assert "log" in rows["kv_made"]["not_measured"]
    assert [text.split()[0] for text in rows["import"]["value"]] == ["cold", "warm"]
    assert rows["memory_loading"]["not_measured"].endswith("-e restart=true")


def test_the_memory_is_watched_while_the_model_is_loaded_if_asked_for(deployed: Deployed) -> None:
    before = deployed.inspect()["State"]["StartedAt"]
    # What a watch that was broken off has left would end this one at once.
    deployed.spark.write_file("/home/spark/.dgx-spark-field-check", "", user="spark")
    samples = check("-e", "restart=true")["memory_loading"]["value"]
    assert deployed.inspect()["State"]["StartedAt"] != before
    assert samples[0][1] - samples[-1][1] > 60e9
    assert len(samples) > 3
    assert deployed.spark.exec(["test", "-e", "/home/spark/.dgx-spark-field-check"]).returncode

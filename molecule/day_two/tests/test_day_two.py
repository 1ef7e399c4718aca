# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What was told to people and to programs, and what serves, after a switch, the way back, a stop and a start."""

from __future__ import annotations

import json
import re
import tarfile
import typing as t

import pytest

from tests.twin.control import Internet, Spark
from tests.twin.names import STATE

HOME = "/home/spark/.local/share/dgx-spark-speculative"
SLOT = "dgx-spark-speculative"
TARGET = "openai/gpt-oss-120b"


@pytest.fixture(scope="module")
def spark() -> Spark:
    return Spark()


def told(play: str) -> str:
    """All that Ansible said in a play, the last time."""
    return (STATE / "day_two.log").read_text(encoding="utf-8").rpartition(f"PLAY [{play}]")[2].partition("PLAY [")[0]


def facts(name: str) -> dict[str, t.Any]:
    """What status or diagnose said to programs."""
    return dict(json.loads((STATE / f"{name}.json").read_text(encoding="utf-8"))["spark-1"])


def record(spark: Spark, name: str = "single_eagle3/record") -> dict[str, t.Any]:
    return dict(json.loads(spark.read_file(f"{HOME}/{name}.json")))


def test_what_served_before_the_switch_serves_again(spark: Spark) -> None:
    labels = spark.exec(["docker", "inspect", "--format", "{{json .Config.Labels}}", SLOT]).stdout
    assert json.loads(labels)["dgx_spark.speculative.deployment"] == "single_eagle3"
    assert record(spark)["draft_length"] == 5
    assert record(spark, "previous")["deployment"] == "plain"
    assert spark.exec("curl -sf http://127.0.0.1:8000/v1/models").returncode == 0


def test_nothing_was_fetched_again(spark: Spark) -> None:
    internet = Internet()
    assert internet.bytes_to(spark.address, "nvcr.io/v2/nvidia/tensorrt-llm/release/blobs") == 0
    assert [one["path"] for one in internet.requests("huggingface.co") if "/resolve/" in one["path"]] == []


def test_stop_tells_what_is_free() -> None:
    assert "Memory available:" in told("Stop the deployment")


def test_status_says_it_to_people_and_to_programs(spark: Spark) -> None:
    known = facts("status")
    assert known["state"] == "ready"
    assert known["deployment"] == "single_eagle3"
    assert known["acceptance_length"] > 1.2
    assert known["image"]["digests"][0].startswith("nvcr.io/nvidia/tensorrt-llm/release@sha256:")
    assert {model["id"]: model["commit"] for model in known["models"]} == {
        name: model["commit"] for name, model in record(spark)["models"].items()
    }
    assert known["memory_available"] < known["memory_total"]
    for word in ("single_eagle3", TARGET, "1.3.0rc29", "acceptance length", "memory", "disk"):
        assert word in told("Show the status")


@pytest.mark.parametrize("play", ["Show the status", "Diagnose", "Show the server log"])
def test_who_looks_changes_nothing(play: str) -> None:
    assert "ok: [spark-1]" in told(play)
    assert "changed: [spark-1]" not in told(play)


def test_diagnosis_of_what_works_is_healthy() -> None:
    known = facts("diagnosis")
    assert known["verdict"] == "healthy"
    assert [finding for finding in known["findings"] if finding["severity"] == "cause"] == []


def test_the_log_comes_without_progress_bars(spark: Spark) -> None:
    assert "%|" in spark.read_file(f"{HOME}/single_eagle3/state/server.log")
    log = told("Show the server log")
    assert "Application startup complete." in log
    assert "asked-by=watchdog" not in log
    assert "%|" not in log


def test_a_bundle_holds_the_evidence_and_no_names(spark: Spark) -> None:
    with tarfile.open(STATE / "bundle.tar.gz") as archive:
        members = {
            member.name.rpartition("/")[2]: archive.extractfile(member).read().decode("utf-8", "replace")  # type: ignore[union-attr]
            for member in archive.getmembers()
            if member.isfile()
        }
    assert {"server.log", "record.json", "options.yml", "diagnosis.json"} <= set(members)
    assert "Application startup complete." in members["server.log"]
    everything = "\n".join(members.values())
    hostname = spark.exec(["hostname"]).stdout.strip()
    assert not re.search(rf"/home/spark\b|{re.escape(spark.address)}|\b{re.escape(hostname)}\b", everything)
    assert spark.exec("ls -a ~spark | grep diagnosis").stdout == ""

# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a user does a month later: looks, reads the log, switches, goes back, makes room."""

from __future__ import annotations

import json
import time
import typing as t
from pathlib import Path

import pytest
import yaml

from tests import playbook
from tests.twin.control import Spark

pytest_plugins = ["tests.scenario"]

HOME = "/home/spark/.local/share/dgx-spark-speculative"
SLOT = "dgx-spark-speculative"
RECIPE = playbook.ROOT / "playbooks" / "recipes" / "single_eagle3.yml"
TARGET = "openai/gpt-oss-120b"
HEAD = "nvidia/gpt-oss-120b-Eagle3-long-context"


def facts(name: str, directory: Path) -> dict[str, t.Any]:
    """What status or diagnose says to programs."""
    path = directory / f"{name}.json"
    playbook.succeed(name, variables={"json": str(path)})
    return dict(json.loads(path.read_text(encoding="utf-8"))["spark-1"])


def record(spark: Spark, name: str = "single_eagle3/record") -> dict[str, t.Any]:
    return dict(json.loads(spark.read_file(f"{HOME}/{name}.json")))


def serving(spark: Spark) -> str:
    labels = spark.exec(["docker", "inspect", "--format", "{{json .Config.Labels}}", SLOT]).stdout
    return str(json.loads(labels)["dgx_spark.speculative.deployment"])


@pytest.fixture(scope="module")
def without_drafts(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A recipe of one's own: the same model, without speculation."""
    recipe = yaml.safe_load(RECIPE.read_text(encoding="utf-8"))
    for key in ("draft_model", "draft_length", "break_even"):
        del recipe[key]
    path = tmp_path_factory.mktemp("recipes") / "plain.yml"
    path.write_text(yaml.safe_dump({**recipe, "method": "none"}), encoding="utf-8")
    return str(path)


def test_before_anything_is_deployed_it_is_said_what_cannot_be_known(spark: Spark, tmp_path: Path) -> None:
    known = facts("status", tmp_path)
    assert known["state"] is None
    assert [finding["id"] for finding in facts("diagnose", tmp_path)["findings"]] == ["docker_denied"]
    assert spark.exec(["test", "-e", HOME]).returncode != 0


def test_there_is_nothing_to_go_back_to(spark: Spark) -> None:
    playbook.succeed("single_eagle3")
    message = playbook.fail("serve", variables={"previous": True}).message
    assert "no previous deployment" in message


def test_docker_ps_tells_the_truth(spark: Spark) -> None:
    health = ["docker", "exec", SLOT, "python3", "/deployment/entrypoint.py", "health"]
    assert spark.exec(health).returncode == 0
    before = last_exit(spark)
    with spark.fault(unhealthy_after_requests=0):
        assert spark.exec(health).returncode == 1
        # A newer server ends itself when it is asked, and uvicorn has the last word.
        deadline = time.monotonic() + 60
        while (ended := last_exit(spark)) in (None, before):
            assert time.monotonic() < deadline
            time.sleep(0.3)
    assert ended is not None
    assert ended["reason"] == (
        "Health check detected fatal engine error, initiating server shutdown: RuntimeError: the engine died on purpose"
    )
    assert ended["by"] is None
    assert "Finished server process" in spark.read_file(f"{HOME}/single_eagle3/state/server.log")
    # It is started again by itself.
    deadline = time.monotonic() + 120
    while spark.exec(health).returncode:
        assert time.monotonic() < deadline
        time.sleep(0.3)


def last_exit(spark: Spark) -> dict[str, t.Any] | None:
    """How the server ended last, as its supervisor has written it down."""
    state = json.loads(spark.read_file(f"{HOME}/single_eagle3/state/state.json"))
    return t.cast("dict[str, t.Any] | None", state["last_exit"])


def test_going_back_to_the_configuration_before(spark: Spark) -> None:
    playbook.succeed("single_eagle3", variables={"speculative_serve_draft_length": 2})
    outcome = playbook.succeed("serve", variables={"previous": True})
    assert "draft length 5" in outcome.output
    assert record(spark)["draft_length"] == 5
    assert record(spark, "previous")["draft_length"] == 2


def test_what_cannot_come_back_is_refused_and_nothing_stops(spark: Spark) -> None:
    snapshots = f"/home/spark/.cache/huggingface/hub/models--{HEAD.replace('/', '--')}/snapshots"
    spark.exec(["mv", snapshots, f"{snapshots}.away"])
    try:
        message = playbook.fail("serve", variables={"previous": True}).message
    finally:
        spark.exec(["mv", f"{snapshots}.away", snapshots])
    assert HEAD in message
    assert "Nothing was changed" in message
    assert spark.exec("curl -sf http://127.0.0.1:8000/v1/models").returncode == 0


def test_when_the_previous_one_does_not_get_ready_the_present_one_stays(spark: Spark) -> None:
    before, previous = record(spark), record(spark, "previous")
    broken = {**previous["files"], "serve.sh": "echo 'RuntimeError: unlucky'; exit 1\n"}
    spark.write_file(f"{HOME}/previous.json", json.dumps({**previous, "files": broken}), user="spark")
    outcome = playbook.fail("serve", variables={"previous": True})
    assert "unlucky" in outcome.message
    assert "The current deployment was restored." in outcome.message
    assert record(spark) == before
    assert spark.exec("curl -sf http://127.0.0.1:8000/v1/models").returncode == 0
    assert playbook.succeed("single_eagle3").changed == []


def test_making_room_takes_only_what_nothing_uses(spark: Spark, without_drafts: str) -> None:
    hub = "/home/spark/.cache/huggingface/hub"
    spark.exec(
        f"mkdir -p {hub}/models--somebody--elses/blobs && touch {hub}/models--somebody--elses/blobs/x", user="spark"
    )
    spark.exec(f"touch {hub}/models--openai--gpt-oss-120b/blobs/abc.1f2e.incomplete", user="spark")
    # Twice without speculation: neither what serves nor what is gone back to uses the head.
    playbook.succeed("serve", variables={"recipe": without_drafts})
    playbook.succeed("serve", variables={"recipe": without_drafts, "speculative_serve_port": 8001})
    rehearsal = playbook.succeed("cleanup", "--check", variables={"unused": True})
    assert HEAD in rehearsal.output
    assert spark.exec(["test", "-e", f"{hub}/models--{HEAD.replace('/', '--')}"]).returncode == 0

    outcome = playbook.succeed("cleanup", variables={"unused": True})
    assert HEAD in outcome.output
    there = spark.exec(["ls", hub]).stdout.split()
    assert there == ["models--openai--gpt-oss-120b", "models--somebody--elses"]
    assert spark.exec(f"find {hub} -name '*.incomplete'").stdout == ""
    assert playbook.succeed("cleanup", variables={"unused": True}).changed == []
    assert spark.exec("curl -sf http://127.0.0.1:8001/v1/models").returncode == 0


def test_the_page_cache_is_dropped_on_request_and_a_speculation_that_loses_is_told(spark: Spark) -> None:
    assert spark.read_file("/proc/sys/vm/drop_caches") == ""
    wishes = {"speculative_serve_drop_caches": True, "speculative_serve_break_even": {"draft_cost": 1.5}}
    outcome = playbook.succeed("single_eagle3", variables={**wishes, "speculative_serve_draft_length": 4})
    assert spark.read_file("/proc/sys/vm/drop_caches").strip() == "3"
    assert "Page cache dropped" in outcome.output
    assert "speculation costs more than it brings here" in " ".join(outcome.output.lower().split())

# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A Spark that an earlier state of the collection has deployed: it serves on, can be looked at, changed and left."""

from __future__ import annotations

import json
import typing as t
from pathlib import Path

import pytest

from tests import left, playbook
from tests.left import HOME, inspect, record
from tests.twin.control import Spark

pytest_plugins = ["tests.scenario"]

NAME = "single_eagle3_page"
KEPT = "goes on with the programs of the release that deployed it"


@pytest.fixture(scope="module", autouse=True)
def taken_over(new_sparks: t.Callable[..., None], spark: Spark) -> None:
    """Image and models come from a deployment of today."""
    new_sparks(1)
    serve()
    left.put(spark, NAME, NAME)
    left.wait_until_it_serves(spark, 8000)


def serve(**variables: t.Any) -> playbook.Outcome:
    return playbook.succeed("serve", variables={"recipe": NAME, **variables})


def facts(name: str, directory: Path) -> dict[str, t.Any]:
    path = directory / f"{name}.json"
    playbook.succeed(name, variables={"json": str(path)})
    return dict(json.loads(path.read_text(encoding="utf-8"))["spark-1"])


def test_it_is_taken_over_without_a_restart(spark: Spark) -> None:
    before, kept = inspect(spark), record(spark, f"{NAME}/record")
    outcome = serve()
    assert (outcome.changed, inspect(spark)["State"]["StartedAt"]) == ([], before["State"]["StartedAt"])
    assert KEPT in " ".join(outcome.output.split())
    assert inspect(spark)["Id"] == before["Id"]
    assert record(spark, f"{NAME}/record") == kept


def test_it_can_be_looked_at(spark: Spark, tmp_path: Path) -> None:
    status = facts("status", tmp_path)
    assert (status["state"], status["deployment"]) == ("ready", NAME)
    assert facts("diagnose", tmp_path)["verdict"] == "healthy"
    assert f"{HOME}/{NAME}/state/server.log" in playbook.succeed("logs").output


def test_another_wish_is_a_generation_and_what_served_is_left_alone(spark: Spark) -> None:
    before = record(spark, f"{NAME}/record")
    text = spark.read_file(f"{HOME}/{NAME}/options.yml")
    serve(speculative_serve_draft_length=2)
    assert spark.mounted().startswith(f"{HOME}/{NAME}/generations/")
    assert spark.read_file(f"{HOME}/{NAME}/options.yml") == text
    assert record(spark, "previous") == before
    assert record(spark, f"{NAME}/record")["draft_length"] == 2


def test_it_comes_back_and_is_taken_over_again(spark: Spark) -> None:
    generation = spark.mounted()
    outcome = playbook.succeed("serve", variables={"previous": True})
    assert "draft length 5" in outcome.output
    assert spark.mounted() == f"{HOME}/{NAME}"
    started = inspect(spark)["State"]["StartedAt"]
    outcome = serve()
    assert (outcome.changed, inspect(spark)["State"]["StartedAt"]) == ([], started)
    assert KEPT in " ".join(outcome.output.split())
    # What can be gone back to keeps its files.
    assert spark.exec(["ls", f"{HOME}/{NAME}/generations"]).stdout.split() == [generation.rpartition("/")[2]]


def test_all_of_it_can_be_removed(spark: Spark) -> None:
    playbook.succeed("cleanup", variables={"models": "all"})
    assert spark.exec(["test", "-e", HOME]).returncode == 1
    assert spark.exec("docker ps --all --quiet").stdout == ""

# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A run that was away changes nothing when it is back: each kind of module is suspended just before it is sent."""

from __future__ import annotations

import json
import re
import typing as t
from pathlib import Path

import pytest

from tests import playbook
from tests.deployed import SLOT, Deployed
from tests.lease import frozen, holder, until
from tests.slot import containers
from tests.twin.control import Spark

pytest_plugins = ["tests.scenario", "tests.deployed"]

HERE = Path(__file__).parent
HOLD, LATE = (str(HERE / name) for name in ("hold", "late"))
# The last ones ask by themselves on the controller; who learns from that what was lost sends nothing any more.
ALONE = ["standby", "files", "job", "network", "run", "finalize", "start"]
FILES = sorted(path.stem for path in (HERE / "late").glob("*.yml") if path.stem != "each")
KINDS = [name for name in FILES if name not in ALONE] + ALONE
ONE = ("--limit", "spark-1")
# Longer than a lease that nobody renews.
AWAY_S = 60
CONTAINER, START = "Run the container", "Start the container as it was created"
# In roles/, that which touches a container of the collection.
TASKS = (
    *("Change it", CONTAINER, START, "Stop the container", "Remove the container"),
    "Move the container to standby",
    "Finalize the switchover",
    "Run the proxy",
)
STATE = """
docker ps --all --no-trunc --format '{{.ID}} {{.Names}} {{.State}}' | grep late
docker volume ls -q; docker image ls --format '{{.Repository}}:{{.Tag}}' | sort; docker exec late-stop ls /late
find /tmp/late | sort; iptables -S INPUT; getent passwd late; systemctl is-active late.service
"""
SETUP = """set -e
image=$(docker inspect --format '{{.Config.Image}}' dgx-spark-speculative)
label="--label dgx_spark.speculative.configuration=1"
create() { docker create --network none --entrypoint sleep "$@"; }
create --name late-start $image 7777; create --name late-absent-gpu-check $image 7777
create --name late-finalize $label --restart always $image 7777
for name in stop standby; do create --name late-$name $label $image 7777; docker start late-$name; done
docker volume create late-volume; docker tag $image late/image:1
printf '[Service]\\nExecStart=/bin/sleep 7777\\n' >/run/systemd/system/late.service
systemctl daemon-reload; mkdir -p /tmp/late; chown spark: /tmp/late; echo IMAGE=$image
"""


def wish(draft_length: int) -> tuple[str, ...]:
    return (*ONE, "-e", f"speculative_serve_draft_length={draft_length}")


@pytest.fixture(scope="module", name="image", autouse=True)
def fixture_image(begin: None, spark: Spark) -> t.Iterator[str]:
    """The image of one that serves with three drafts, and something to change of each kind."""
    playbook.succeed("single_eagle3", *wish(3))
    done = spark.exec(SETUP)
    assert done.returncode == 0, done.stderr
    yield done.stdout.rpartition("IMAGE=")[2].strip()
    spark.exec("docker rm --force $(docker ps --all --quiet --filter name=late-); docker volume rm late-volume")


def second(spark: Spark, how: str) -> None:
    if how == "hold":
        until(lambda: holder(spark) is None, AWAY_S)
        playbook.succeed(HOLD, *ONE, variables={"seconds": 0})
    else:
        playbook.succeed("stop", *ONE)
    until(lambda: holder(spark) is None, 5)


@pytest.mark.parametrize("how", ["hold", "stop"])
def test_a_module_of_any_kind(spark: Spark, image: str, tmp_path: Path, how: str) -> None:
    wanted = ("-e", json.dumps({"late_kinds": KINDS, "late_image": image}))
    with frozen(tmp_path / "log", TASKS, LATE, *ONE, *wanted) as run:
        second(spark, how)
        before = spark.exec(STATE).stdout
    assert spark.exec(STATE).stdout == before
    output = " ".join(run.log.read_text("utf-8").split())
    for name in KINDS:
        # As the Spark says it, and the controller once it knows.
        assert re.search(f"REFUSED {name}: [^.]*spark-1: this run lost its lease", output), (name, output)


def is_proven(deployed: Deployed, draft_length: int) -> None:
    """What answers is what is recorded."""
    deployed.wait_until_it_answers(180)
    assert deployed.record()["draft_length"] == draft_length
    assert deployed.options()["speculative_config"]["max_draft_len"] == draft_length
    assert deployed.record()["container"]["labels"].items() <= deployed.inspect()["Config"]["Labels"].items()
    assert containers(deployed.spark)[SLOT] == (True, "unless-stopped")


def test_it_does_not_replace_what_another_one_has_proven(spark: Spark, deployed: Deployed, tmp_path: Path) -> None:
    with frozen(tmp_path / "log", [CONTAINER], "single_eagle3", *wish(2)) as run:
        until(lambda: holder(spark) is None, AWAY_S)
        playbook.succeed("single_eagle3", *wish(1))
        before = deployed.inspect()["Id"]
    assert "changes nothing more and does not roll back" in " ".join(run.log.read_text("utf-8").split())
    assert deployed.inspect()["Id"] == before
    is_proven(deployed, 1)


@pytest.mark.parametrize(("name", "task"), [("single_eagle3", CONTAINER), ("start", START)])
def test_it_does_not_start_what_another_one_has_stopped(
    spark: Spark, deployed: Deployed, tmp_path: Path, name: str, task: str
) -> None:
    proven = deployed.record()["draft_length"]
    wanted = wish(proven + 1)
    if name == "start":
        playbook.succeed("stop", *ONE)
        wanted = ONE
    with frozen(tmp_path / "log", [task], name, *wanted):
        second(spark, "stop")
    assert containers(spark) == {SLOT: (False, "no")}
    playbook.succeed("start", *ONE)
    is_proven(deployed, proven)

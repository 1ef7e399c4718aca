# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Recipes serve as planned; models may lie in directories, and the container on Docker's bridge."""

from __future__ import annotations

import json
import re
import typing as t
from pathlib import Path

import pytest
import yaml

from tests import playbook
from tests.twin.control import Internet, Spark

pytest_plugins = ["tests.scenario"]

HOME = "/home/spark/.local/share/dgx-spark-speculative"
SLOT = "dgx-spark-speculative"
HUB = "/home/spark/.cache/huggingface/hub"
TARGET, DRAFT = "nvidia/Llama-3.3-70B-Instruct-FP4", "nvidia/Llama-3.1-8B-Instruct-FP4"
MODELS = "/home/spark/models"
PAIR = "single_draft_target"


def record(spark: Spark, name: str) -> dict[str, t.Any]:
    return dict(json.loads(spark.read_file(f"{HOME}/{name}/record.json")))


def options(spark: Spark) -> dict[str, t.Any]:
    return dict(yaml.safe_load(spark.read_file(f"{spark.mounted()}/options.yml")))


def inspect(spark: Spark) -> dict[str, t.Any]:
    return dict(json.loads(spark.exec(["docker", "inspect", SLOT]).stdout)[0])


def answers(spark: Spark, address: str = "127.0.0.1") -> bool:
    return spark.exec(["curl", "-sf", "--max-time", "5", f"http://{address}:8000/v1/models"]).returncode == 0


def words(outcome: playbook.Outcome) -> str:
    return " ".join(outcome.output.split())


def test_the_playbook_of_the_pair_can_leave_the_drafts_out(spark: Spark, internet: Internet) -> None:
    playbook.succeed("single_draft_target", "-e", "speculation=off")
    assert internet.requests("huggingface.co") == [], "all of it was there"
    assert "speculative_config" not in options(spark)
    facts = record(spark, "single_draft_target")
    assert facts["method"] == "none"
    assert DRAFT not in json.dumps(facts["models"])


@pytest.fixture(scope="module")
def directories(spark: Spark) -> None:
    """Both models as a person keeps them who got them by other means."""
    for model in (TARGET, DRAFT):
        cached = f"{HUB}/models--{model.replace('/', '--')}/snapshots/*"
        place = f"{MODELS}/{model.rpartition('/')[2]}"
        done = spark.exec(f"mkdir -p {MODELS} && cp -rL {cached} {place}", user="spark")
        assert done.returncode == 0, done.stderr


def own_recipe(path: Path, target: dict[str, str], draft: dict[str, str]) -> Path:
    shipped = playbook.ROOT / "playbooks" / "recipes" / "single_draft_target.yml"
    recipe = yaml.safe_load(shipped.read_text(encoding="utf-8"))
    recipe.update(title="Models of my own", target_model=target, draft_model=draft)
    path.write_text(yaml.safe_dump(recipe), encoding="utf-8")
    return path


@pytest.mark.usefixtures("directories")
def test_a_model_in_a_directory_with_a_draft_from_the_hub(spark: Spark, internet: Internet, tmp_path: Path) -> None:
    target = f"{MODELS}/Llama-3.3-70B-Instruct-FP4"
    mine = own_recipe(tmp_path / "mine.yml", {"directory": target}, {"id": DRAFT})
    playbook.succeed("serve", variables={"recipe": str(mine)})
    assert internet.requests("huggingface.co") == []
    mounts = {mount["Source"]: mount["RW"] for mount in inspect(spark)["Mounts"]}
    assert mounts[target] is False
    assert mounts[HUB] is False
    assert record(spark, "mine")["measurements"]["acceptance_length"] > 1.2
    assert playbook.succeed("serve", variables={"recipe": str(mine)}).changed == []


@pytest.mark.usefixtures("directories")
def test_all_that_is_wrong_with_a_directory_is_said_at_once(spark: Spark, tmp_path: Path) -> None:
    broken = f"{MODELS}/broken"
    spark.exec(f"cp -r {MODELS}/Llama-3.3-70B-Instruct-FP4 {broken}", user="spark")
    spark.exec(
        f"rm {broken}/model-00003-of-00009.safetensors; truncate -s -5 {broken}/model-00005-of-00009.safetensors"
    )
    pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n"
    spark.write_file(f"{broken}/model-00007-of-00009.safetensors", pointer, user="spark")
    mine = own_recipe(tmp_path / "mine.yml", {"directory": broken}, {"directory": f"{MODELS}/nothing"})
    before = inspect(spark)["Id"]
    message = playbook.fail("serve", variables={"recipe": str(mine)}).message
    for part in (
        "model-00003-of-00009.safetensors",
        "model-00005-of-00009.safetensors",
        "model-00007-of-00009.safetensors",
        "git-lfs",
        f"{MODELS}/nothing",
    ):
        assert part in message, part
    # A directory of the cache has only links to elsewhere; the Hub id is the way to it.
    cached = spark.exec(f"ls -d {HUB}/models--{TARGET.replace('/', '--')}/snapshots/*").stdout.strip()
    linked = own_recipe(tmp_path / "linked.yml", {"directory": cached}, {"id": DRAFT})
    message = playbook.fail("serve", variables={"recipe": str(linked)}).message
    assert TARGET in message or "cp -rL" in message
    assert inspect(spark)["Id"] == before


RULES = "iptables -S INPUT; iptables -S DOCKER-USER"


def open_ports(spark: Spark) -> list[str]:
    """What the rules of ours let containers reach."""
    return sorted(re.findall(r"--dport (\d+) .*dgx-spark-speculative", spark.exec(RULES).stdout))


def test_the_bridge_and_its_two_rules_come_and_go(spark: Spark, tmp_path: Path) -> None:
    before = spark.exec(RULES).stdout
    bridge = {"engine_container_network": "bridge"}
    playbook.succeed("single_eagle3", variables=bridge)
    facts = inspect(spark)
    assert facts["HostConfig"]["NetworkMode"] in ("bridge", "default")
    assert facts["HostConfig"]["PortBindings"] == {"8000/tcp": [{"HostIp": "127.0.0.1", "HostPort": "8000"}]}
    assert answers(spark)
    assert not answers(spark, spark.address)
    rules = [line for line in spark.exec(RULES).stdout.splitlines() if "dgx-spark-speculative" in line]
    assert len(rules) == 2
    assert any("INPUT" in rule and "docker0" in rule and "8000" in rule for rule in rules)
    assert any("DOCKER-USER" in rule and "docker0" in rule for rule in rules)
    assert playbook.succeed("single_eagle3", variables=bridge).changed == []
    # What anybody could reach must be wanted, and an address must be one of this host's.
    wide = {**bridge, "speculative_serve_host": "0.0.0.0"}
    assert "allow_unauthenticated" in playbook.fail("single_eagle3", variables=wide).message
    assert inspect(spark)["Id"] == facts["Id"]
    # What was put aside finds its rule if it comes back; the port of what has proven itself is all that is open then.
    moved = {**bridge, "speculative_serve_port": 8001}
    with spark.gpu(seconds_per_gb=0.2):
        arguments = [word for name, value in moved.items() for word in ("-e", f"{name}={value}")]
        run = playbook.Background(tmp_path / "moved", "single_eagle3", *arguments)
        run.wait_for(lambda: open_ports(spark) == ["8000", "8001"])
    assert run.process.wait() == 0
    assert open_ports(spark) == ["8001"]
    # Nothing is stopped for what would lack its rules, and so the way back to it.
    playbook.succeed("single_eagle3")
    since = inspect(spark)["State"]["StartedAt"]
    nobody = {"previous": True, "ansible_become_password": "wrong"}
    assert "Run again with -K" in playbook.fail("serve", variables=nobody).message
    assert inspect(spark)["State"]["StartedAt"] == since
    assert open_ports(spark) == []
    playbook.succeed("serve", variables={"previous": True})
    assert open_ports(spark) == ["8001"]
    playbook.succeed("cleanup")
    assert spark.exec(RULES).stdout == before

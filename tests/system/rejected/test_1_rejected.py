# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Each bad input gets one clear message before anything is changed or downloaded."""

from __future__ import annotations

import re
import typing as t
from pathlib import Path

import pytest
import yaml

from tests import playbook
from tests.twin.control import Internet, Spark
from tests.twin.names import FOREIGN_TAG, RELEASE
from tests.twin.registry import ARCHITECTURE, FOREIGN_ARCHITECTURE

pytest_plugins = ["tests.scenario"]

FOREIGN = f"nvcr.io/nvidia/tensorrt-llm/release:{FOREIGN_TAG}"
HEAD = "nvidia/gpt-oss-120b-Eagle3-long-context"


def message(**variables: t.Any) -> str:
    """Of the recipe whose release somebody has read: of a newer one the image has the last word."""
    return playbook.fail("serve", variables={"recipe": "single_eagle3_page", **variables}).message


def test_a_misspelt_engine_option() -> None:
    text = message(
        speculative_serve_options={"kv_cache_config": {"free_gpu_memory_fracton": 0.8}, "enable_autotunr": 1}
    )
    assert "kv_cache_config.free_gpu_memory_fracton" in text
    assert "free_gpu_memory_fraction" in text
    assert "enable_autotuner" in text


def test_an_image_tag_that_does_not_exist() -> None:
    text = message(engine_container_image="nvcr.io/nvidia/tensorrt-llm/release:1.3.0rc21")
    assert "1.3.0rc21" in text
    assert "1.3.0rc12" in text


def test_all_that_stands_in_the_way_is_told_at_once() -> None:
    text = message(
        engine_container_image="nvcr.io/nvidia/tensorrt-llm/release:1.3.0rc21",
        speculative_serve_concurrency=1000,
    )
    assert text.startswith("2 problems; ")
    assert "the registry has no image nvcr.io/nvidia/tensorrt-llm/release:1.3.0rc21" in text
    assert "-e speculative_serve_concurrency=" in text


def test_an_image_for_another_processor() -> None:
    text = message(engine_container_image=FOREIGN)
    for name in (FOREIGN, f"linux/{FOREIGN_ARCHITECTURE}", f"linux/{ARCHITECTURE}"):
        assert name in text


def commands(text: str) -> list[str]:
    """Each once: Ansible's own output shows a failure several times."""
    return list(dict.fromkeys(re.findall(r"^ *(ansible-playbook playbooks/.*)$", text, re.MULTILINE)))


INSTEAD = "ansible-playbook playbooks/serve.yml -e recipe=single_eagle3_page"


@pytest.mark.parametrize("name", ["single_eagle3", "preflight"])
def test_a_release_that_the_registry_lacks_is_told_with_what_to_run_instead(internet: Internet, name: str) -> None:
    internet.set_faults([{"host": "nvcr.io", "path": f"*/manifests/{RELEASE}", "action": "missing"}])
    outcome = playbook.fail(name)
    assert f"the registry has no image nvcr.io/nvidia/tensorrt-llm/release:{RELEASE}" in outcome.message
    assert commands(outcome.output) == [f"{INSTEAD} -e speculation=off", INSTEAD]


def test_a_release_that_is_for_another_processor_is_told_with_what_to_run_instead(tmp_path: Path) -> None:
    shipped = yaml.safe_load((playbook.ROOT / "playbooks/recipes/single_eagle3.yml").read_text(encoding="utf-8"))
    path = tmp_path / "foreign.yml"
    path.write_text(yaml.safe_dump({**shipped, "image": FOREIGN, "family": "1.3"}), encoding="utf-8")
    outcome = playbook.fail("preflight", variables={"recipe": str(path)})
    assert f"linux/{FOREIGN_ARCHITECTURE}" in outcome.message
    assert commands(outcome.output) == [f"{INSTEAD} -e speculation=off", INSTEAD]


def test_a_gated_model_without_a_token(internet: Internet) -> None:
    internet.set_faults([{"host": "huggingface.co", "action": "gate", "repository": HEAD}])
    text = message()
    assert f"https://huggingface.co/{HEAD}" in text
    assert "token" in text


def test_a_licence_that_was_not_accepted(internet: Internet) -> None:
    internet.set_faults([{"host": "huggingface.co", "action": "gate", "repository": HEAD}])
    outcome = playbook.fail("single_eagle3", HF_TOKEN="hf_twin_unaccepted")
    assert f"https://huggingface.co/{HEAD}" in outcome.message
    assert "hf_twin_unaccepted" not in outcome.output


def test_a_disk_too_small_for_the_models(spark: Spark) -> None:
    spark.exec("mkdir -p .cache/huggingface", user="spark")
    spark.exec("mount -t tmpfs -o size=2m,uid=1000,gid=1000,mode=755 tmpfs /home/spark/.cache/huggingface")
    try:
        text = message()
    finally:
        spark.exec("umount /home/spark/.cache/huggingface && rmdir /home/spark/.cache/huggingface")
    assert "/home/spark/.cache/huggingface" in text
    assert "free" in text
    assert text.count("GB") + text.count("MB") >= 2


def test_a_disk_too_small_for_the_image() -> None:
    text = message(engine_container_unpack_factor=100_000)
    assert "/var/lib/containerd" in text
    assert "needs" in text
    assert text.count("GB") + text.count("TB") >= 2


@pytest.fixture
def process_on_the_port(spark: Spark) -> t.Iterator[None]:
    with spark.listener(8000, "127.0.0.1"):
        yield


@pytest.mark.usefixtures("process_on_the_port")
@pytest.mark.parametrize("network", ["host", "bridge"])
def test_a_port_that_a_process_has(network: str) -> None:
    text = message(engine_container_network=network)
    assert "8000" in text
    assert "python3" in text
    assert "speculative_serve_port" in text


def test_not_a_spark(spark: Spark) -> None:
    # Nor is the GPU on the bus.
    gpu = "/sys/bus/pci/devices/000f:01:00.0"
    spark.exec(f"chmod 000 /usr/bin/nvidia-smi; mount -t tmpfs tmpfs {gpu}")
    try:
        text = message()
    finally:
        spark.exec(f"chmod 755 /usr/bin/nvidia-smi; umount {gpu}")
    assert text.startswith("spark-1 ")
    assert "nvidia-smi" in text


def test_a_gpu_driver_that_does_not_answer(spark: Spark) -> None:
    with spark.gpu(driver_fault="mismatch"):
        text = message()
    assert text.startswith("spark-1: ")
    assert "'Failed to initialize NVML: Driver/library version mismatch NVML library version: " in text


def test_under_sudo() -> None:
    outcome = playbook.fail("single_eagle3", SUDO_USER="somebody")
    assert "started with sudo" in outcome.message


def test_a_recipe_for_more_sparks_than_there_are(tmp_path: Path) -> None:
    recipe = yaml.safe_load((playbook.ROOT / "playbooks/recipes/single_eagle3.yml").read_text(encoding="utf-8"))
    mine = tmp_path / "mine.yml"
    mine.write_text(yaml.safe_dump({**recipe, "sparks": 2}), encoding="utf-8")
    text = playbook.fail("serve", variables={"recipe": str(mine)}).message
    assert "'mine'" in text
    assert "needs 2 host(s) in the inventory's group 'sparks'" in text


def test_no_host_in_the_group(tmp_path: Path) -> None:
    inventory = tmp_path / "hosts.yml"
    inventory.write_text("sparks:\n  hosts: {}\n", encoding="utf-8")
    outcome = playbook.fail("single_eagle3", "-i", str(inventory))
    assert "needs 1 host(s) in the inventory's group 'sparks'" in outcome.message
    for name in ("stop", "start", "cleanup"):
        assert "group 'sparks' has no hosts" in playbook.fail(name, "-i", str(inventory)).message


@pytest.mark.parametrize("recipe", ["single_eagel3", ""])
def test_a_recipe_that_does_not_exist(recipe: str) -> None:
    assert "single_eagle3" in playbook.fail("serve", variables={"recipe": recipe}).message


def test_misspelt_inputs() -> None:
    text = message(speculative_serve_draft_lenght=4)
    assert "speculative_serve_draft_lenght" in text
    assert "'speculative_serve_draft_length'" in text
    assert "'unused'" in playbook.fail("cleanup", "-e", "unusd=true").message


def test_a_named_playbook_serves_its_own_recipe() -> None:
    text = playbook.fail("single_eagle3", variables={"recipe": "single_draft_target"}).message
    assert "-e recipe=" in text


def test_what_an_unreleased_state_has_deployed(spark: Spark) -> None:
    image = "tar -c --files-from /dev/null | docker import - nothing"
    label = "dgx_spark.speculative.deployment=single_eagle3"
    made = spark.exec(f"{image} && docker create --name dgx-spark-speculative --label {label} nothing true")
    assert made.returncode == 0, made.stderr
    refused = {name: playbook.fail(name).message for name in ("single_eagle3", "status", "diagnose")}
    assert all("single_eagle3" in said and "cleanup.yml" in said for said in refused.values()), refused
    playbook.succeed("cleanup")
    assert spark.exec("docker ps --all --quiet").stdout == ""
    assert spark.exec("docker rmi nothing").returncode == 0


def test_a_password_that_is_missing(spark: Spark) -> None:
    # Not in the group, and no open connection that still is.
    spark.exec("gpasswd --delete spark docker; pkill -u spark sshd")
    outcome = playbook.fail("single_eagle3", "-e", "ansible_become_password=")
    assert "to group docker needs sudo" in outcome.message
    assert "-K" in outcome.message

# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The same recipe on every image that NVIDIA's page ever named: each gets the spelling that its release knows."""

from __future__ import annotations

import json
import re
import shlex
import typing as t
from pathlib import Path

import pytest
import yaml

from tests import playbook
from tests.twin.control import Internet, Spark
from tests.twin.names import REGISTRY_HOST, RELEASE_REPOSITORY

pytest_plugins = ["tests.scenario"]

HOME = "/home/spark/.local/share/dgx-spark-speculative"
RECIPE = playbook.ROOT / "playbooks" / "recipes" / "single_eagle3.yml"
OLD = {"decoding_type": "Eagle", "key": "speculative_model_dir"}
ASKED = "Validate the options (minutes on a cold disk)"
NEW = {"decoding_type": "Eagle3", "key": "speculative_model"}


def image(tag: str) -> str:
    return f"{REGISTRY_HOST}/{RELEASE_REPOSITORY}:{tag}"


def record(spark: Spark, name: str = "single_eagle3") -> dict[str, t.Any]:
    return dict(json.loads(spark.read_file(f"{HOME}/{name}/record.json")))


def test_what_an_image_refuses_is_told_before_the_models_with_what_serves_instead(
    spark: Spark, internet: Internet
) -> None:
    # Known here of 1.3, and gone from this release.
    gone = {"kv_cache_config": {"onboard_blocks": True}}
    outcome = playbook.fail("single_eagle3", variables={"speculative_serve_options": gone})
    assert "rejects the engine options" in outcome.message
    assert "onboard_blocks" in outcome.message
    assert internet.requests("cdn-lfs.huggingface.co") == []
    printed = dict.fromkeys(re.findall(r"^ *ansible-playbook (playbooks/.*)$", outcome.output, re.MULTILINE))
    assert len(printed) == 2
    for line, method in zip(printed, ("none", "eagle3")):
        path, *arguments = shlex.split(line)
        playbook.succeed(Path(path).stem, *arguments)
        assert record(spark, "single_eagle3_page")["method"] == method


@pytest.mark.parametrize(
    ("tag", "spelling", "warning"),
    [
        ("1.2.0rc1", OLD, "https://github.com/NVIDIA/TensorRT-LLM/"),
        ("1.2.0rc6", OLD, ""),
        ("1.3.0rc12", NEW, "15739"),
        ("1.3.0rc13", NEW, "16377"),
        ("1.3.0rc29", NEW, ""),
    ],
)
def test_each_release_gets_its_spelling(spark: Spark, tag: str, spelling: dict[str, str], warning: str) -> None:
    outcome = playbook.succeed("single_eagle3", variables={"engine_container_image": image(tag)})
    section = yaml.safe_load(spark.read_file(f"{spark.mounted()}/options.yml"))["speculative_config"]
    assert section["decoding_type"] == spelling["decoding_type"]
    assert section["max_draft_len"] == 5
    assert section[spelling["key"]].startswith("/cache/huggingface/hub/")
    assert warning in " ".join(outcome.output.split())
    facts = record(spark)
    assert facts["image"]["reference"] == image(tag)
    assert "the image itself accepts the engine options" in facts["checks"]
    assert facts["measurements"]["acceptance_length"] > 1.2


def test_drafts_of_a_whole_model_on_the_oldest_image(spark: Spark) -> None:
    outcome = playbook.succeed("serve", variables={"recipe": "single_draft_target_2025"})
    assert "moves" in " ".join(outcome.output.split())
    facts = record(spark, "single_draft_target_2025")
    assert facts["image"]["reference"] == image("spark-single-gpu-dev")
    assert facts["options"]["speculative_config"]["decoding_type"] == "DraftTarget"
    assert "models--nvidia--Llama-3.1-8B" in facts["options"]["speculative_config"]["speculative_model_dir"]
    assert facts["measurements"]["acceptance_length"] > 1.2


def test_the_image_is_asked_once_for_the_same_options(spark: Spark) -> None:
    changed = {"engine_container_image": image("1.3.0rc13"), "speculative_serve_port": 8001}
    first = playbook.succeed("single_eagle3", variables={**changed, "speculative_serve_draft_length": 2})
    assert ASKED in first.tasks("ok")
    again = playbook.succeed(
        "single_eagle3", variables={**changed, "speculative_serve_draft_length": 2, "speculative_serve_port": 8000}
    )
    assert ASKED not in again.tasks("ok")


def test_an_image_that_cannot_be_asked_is_told(spark: Spark) -> None:
    # What no clock can wait for ends the import.
    with spark.gpu(import_seconds=-1):
        outcome = playbook.succeed("single_eagle3", variables={"speculative_serve_draft_length": 3})
    said = " ".join(outcome.output.split())
    assert "(importing TensorRT-LLM failed: ValueError:" in said


def test_when_the_image_disagrees_nothing_is_touched(spark: Spark, internet: Internet) -> None:
    before = record(spark)
    # Told to be 1.3, which that image is not.
    wrong = {"engine_container_image": image("spark-single-gpu-dev"), "speculative_serve_family": "1.3"}
    message = playbook.fail("single_eagle3", variables=wrong).message
    assert "rejects the engine options" in message
    assert "Invalid decoding type" in message
    assert "open an issue about the difference" in message
    assert record(spark) == before
    assert spark.exec("curl -sf http://127.0.0.1:8000/v1/models").returncode == 0


# Unit tests hold every rule against the module; here are one of the tag and one of the options.
@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({"engine_container_image": image("1.1.0")}, ["1.1.0", "family"]),
        (
            {"engine_container_image": image("1.2.0rc6"), "speculative_serve_options": {"enable_energy_metrics": True}},
            ["enable_energy_metrics"],
        ),
    ],
    ids=["older than any family", "other release"],
)
def test_options_that_this_release_refuses(spark: Spark, variables: dict[str, t.Any], words: list[str]) -> None:
    before = record(spark)
    message = playbook.fail("single_eagle3", variables=variables).message
    for word in words:
        assert word in message
    assert record(spark) == before


def test_a_speculative_config_of_ones_own(spark: Spark, tmp_path: Path) -> None:
    recipe = yaml.safe_load(RECIPE.read_text(encoding="utf-8"))
    for key in ("method", "draft_length", "break_even"):
        del recipe[key]
    recipe["options"]["speculative_config"] = {"decoding_type": "Eagle3", "max_draft_len": 2}
    path = tmp_path / "raw.yml"
    path.write_text(yaml.safe_dump(recipe), encoding="utf-8")
    playbook.succeed("serve", variables={"recipe": str(path)})
    section = yaml.safe_load(spark.read_file(f"{spark.mounted()}/options.yml"))["speculative_config"]
    assert section["max_draft_len"] == 2
    assert section["speculative_model"].startswith("/cache/huggingface/hub/")
    assert record(spark, "raw")["measurements"]["acceptance_length"] > 1.2

# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What refuses to clean up does so before anything is removed, the models among it."""

from __future__ import annotations

import json
import typing as t
from pathlib import Path

import pytest
import yaml

from tests.unit import plays
from tests.unit.playbooks.conftest import FORMAT, NAME, OWN, Said

ROOT = Path(__file__).parents[3]
INCLUDE = "ansible.builtin.include_role"


def test_it_is_looked_before_anything_is_removed() -> None:
    *_others, play = yaml.safe_load((ROOT / "playbooks/cleanup.yml").read_text(encoding="utf-8"))
    included = [
        (role, said.get("check_only") or task[INCLUDE].get("apply", {}).get("check_mode", False))
        for task in play["tasks"]
        if (role := task.get(INCLUDE, {}).get("name", "").rpartition(".")[2])
        for said in [task.get("vars", {}).get(f"{role}_handover", {})]
    ]
    models, access, container, network, unused, *removing = included
    # Of the models not even Docker is needed, nor is another run ended for it.
    assert (models, access[0]) == (("huggingface_cache", True), "docker_permissions")
    assert container == ("speculative_serve", True)
    assert network == ("spark_network", True)
    assert unused == ("speculative_serve", True)
    assert ("huggingface_cache", False) in removing
    assert play["tasks"][1]["ansible.builtin.include_role"]["apply"] == {"any_errors_fatal": True}


def check_only(directory: Path, words: str | None, role: str, handover: dict[str, t.Any], **inputs: t.Any) -> None:
    """Have a role look whether it can remove, which it refuses with these words, or does not; it changes nothing."""
    include = {"name": f"dgx_spark.speculative.{role}", "tasks_from": "absent"}
    look = {"name": "Look", INCLUDE: include, "vars": {**inputs, f"{role}_handover": {**handover, "check_only": True}}}
    done = plays.run(directory, {"name": "Play", "hosts": "all", "gather_subset": ["min"], "tasks": [look]})
    assert (done.returncode == 0) == (words is None), done.stdout
    assert words is None or words in " ".join(done.stdout.split())
    assert "changed=0" in done.stdout


@pytest.mark.parametrize(
    ("name", "words"), [("mine", "its name must contain 'dgx-spark-speculative'"), ("dgx-spark-speculative", None)]
)
def test_who_only_looks_refuses_and_removes_nothing(tmp_path: Path, name: str, words: str | None) -> None:
    kept = tmp_path / name / "deployments/mine/serve.sh"
    kept.parent.mkdir(parents=True)
    kept.touch()
    check_only(tmp_path, words, "speculative_serve", {}, speculative_serve_state_directory=str(tmp_path / name))
    assert kept.exists()


@pytest.mark.parametrize(
    ("models", "words"),
    [
        ("all", None),
        (["lab/one"], None),
        (["lab/one", "lab/other"], "lab/other cannot be removed, since it was not fetched by this collection"),
        ([5], "5 cannot be removed"),
        ("", "cannot be removed, since it was not fetched by this collection. Those that were: lab/one."),
    ],
)
def test_models_that_were_not_fetched_are_refused_and_the_others_stay(
    tmp_path: Path, models: t.Any, words: str | None
) -> None:
    cached = tmp_path / "hub/models--lab--one/snapshots" / ("1" * 40)
    cached.mkdir(parents=True)
    receipt = tmp_path / "state/models/models--lab--one.json"
    receipt.parent.mkdir(parents=True)
    receipt.write_text(json.dumps({"commit": "1" * 40, "revisions": [], "include": [], "exclude": [], "files": {}}))
    directories = {
        "huggingface_cache_directory": str(tmp_path / "hub"),
        "deployment_settings": {"state_directory": f"{tmp_path}/state"},
    }
    check_only(tmp_path, words, "huggingface_cache", {"remove": models}, **directories)
    assert cached.is_dir()
    assert receipt.exists()


@pytest.mark.parametrize(
    ("slot", "former", "words"),
    [
        (NAME, [], ["release:1 is not here, so there is nothing to remove."]),
        ("gone", ["release:here", "release:2"], ["release:here (20.4 GB) was removed."]),
        ("gone", ["release:used"], ["release:used stays: conflict: container 12 is using its referenced image 34."]),
        # With an earlier cleanup the record is gone, too.
        ("gone", [], ["No image was removed, since no record names the image of the deployment."]),
    ],
)
def test_what_becomes_of_the_image_is_said(
    check: t.Callable[..., Said], slot: str, former: list[str], words: list[str]
) -> None:
    inputs = {"engine_container_remove_image": True, "engine_container_handover": {"previous_images": former}}
    said = check("engine_container", "absent", slot, inputs=inputs)
    assert said.code == 0, said.text
    assert [word for word in words if word not in said.text] == [], said.text


def test_a_cluster_image_is_named_and_what_was_never_there_is_not(tmp_path: Path, check: t.Callable[..., Said]) -> None:
    double = tmp_path / "collections/ansible_collections/community/docker/plugins/modules/docker_host_info.py"
    tags = [f"{NAME}/release:here", "<none>:<none>"]
    double.write_text(double.read_text(encoding="utf-8").replace("images=[]", f"images=[{{'RepoTags': {tags}}}]"))
    said = check("engine_container", "absent", inputs={"engine_container_remove_image": True})
    assert f"{NAME}/release:here (20.4 GB) was removed." in said.text
    assert "is not here" not in said.text


@pytest.mark.parametrize("entry", ["rollback", "start"])
def test_another_format_is_refused(check: t.Callable[..., Said], entry: str) -> None:
    said = check("speculative_serve", entry, labels={FORMAT: ""})
    assert "mine was deployed by an unreleased state of this collection." in said.text
    assert "changed=0" in said.text
    assert said.code != 0


def test_another_format_does_not_keep_unused_images(check: t.Callable[..., Said]) -> None:
    said = check("speculative_serve", "unused", labels={FORMAT: ""})
    assert said.code == 0, said.text


def test_somebody_elses_container_keeps_unused_models_and_images(check: t.Callable[..., Said]) -> None:
    inputs = {"speculative_serve_handover": {"check_only": True}}
    said = check("speculative_serve", "unused", labels={OWN: None}, inputs=inputs)
    assert f"the container {NAME} (image release:1) was not made by this collection and is left alone" in said.text
    assert (said.code != 0, "changed=0" in said.text) == (True, True)


def test_another_format_is_removed(tmp_path: Path, check: t.Callable[..., Said]) -> None:
    record = tmp_path / NAME / "mine/record.json"
    record.parent.mkdir(parents=True)
    record.write_text('{"deployment": "mine"}', encoding="utf-8")
    said = check("speculative_serve", "absent", labels={FORMAT: ""})
    assert said.code == 0, said.text
    assert not record.exists()


def test_a_cleanup_that_breaks_off_leaves_a_mark_and_one_that_ends_leaves_none(
    tmp_path: Path, check: t.Callable[..., Said]
) -> None:
    double = tmp_path / "collections/ansible_collections/community/docker/plugins/modules/docker_volume.py"
    works = double.read_text(encoding="utf-8")
    double.write_text("#!/usr/bin/python\nraise SystemExit('Docker is gone.')\n", encoding="utf-8")
    assert check("speculative_serve", "absent").code != 0
    assert (tmp_path / NAME / "cleanup-began").exists()
    double.write_text(works, encoding="utf-8")
    said = check("speculative_serve", "absent")
    assert said.code == 0, said.text
    assert not (tmp_path / NAME).exists()


def test_whom_sudo_refuses_keeps_everything(tmp_path: Path, check: t.Callable[..., Said]) -> None:
    kept = tmp_path / NAME / "mine/record.json"
    kept.parent.mkdir(parents=True)
    kept.touch()
    sudo = tmp_path / "sudo"
    sudo.write_text("#!/bin/sh\necho sudo: a password is required >&2\nexit 1\n", encoding="utf-8")
    sudo.chmod(0o755)
    # The firewall has a rule of a container that is on Docker's bridge.
    inputs = {
        "engine_container_previous_ports": ["127.0.0.1:8000:8000"],
        "ansible_become_exe": str(sudo),
        # As root, Ansible asks no sudo for root.
        "ansible_become_user": "nobody",
    }
    said = check("speculative_serve", "absent", inputs=inputs)
    assert said.code != 0
    assert "Run again with -K" in said.text
    assert "changed=0" in said.text
    assert kept.exists()

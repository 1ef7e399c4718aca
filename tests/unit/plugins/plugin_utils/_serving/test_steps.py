# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._serving.steps import completed_steps

LOOK: dict[str, t.Any] = {"image": {"id": "sha256:1"}, "slot": {"state": "running"}}
VIEW: dict[str, t.Any] = {
    "verified": True,
    "downloads": [],
    "files_missing": [],
    "configuration": [],
    "models": {"/models/own": {"commit": None, "bytes": 7}},
}
PLAN: dict[str, t.Any] = {"options_served": True}
PAIR: dict[str, t.Any] = {
    "image_made": True,
    "cluster_image": "dgx-spark-speculative/release:1",
    "images": {"base": {"fingerprint": "b"}, "cluster": {"fingerprint": "p", "base": "b", "bytes": 5}},
}
LINKS = ["link", "ssh_keys"]
HEAD = ("image", "configuration", "options", "models")
ALL = ("link", "ssh_keys", *HEAD, "cluster_image", "image_copies", "model_copies")


def left(links: t.Sequence[list[str]] = (LINKS, LINKS), **seen: list[dict[str, t.Any]]) -> list[str]:
    """What has something to do, by what differs on the first Sparks from where nothing has."""
    usual = {"docker_facts": LOOK, "snapshots": VIEW, "plans": PLAN, "cluster_facts": PAIR}
    found = {
        name: {f"spark-{rank}": {**value, **change} for rank, change in enumerate([*seen.get(name, []), {}, {}][:2], 1)}
        for name, value in usual.items()
    }
    joined = {f"spark-{rank}": link for rank, link in enumerate(links, 1)}
    return [step for step in ALL if step not in completed_steps(**found, link_steps=joined)]


@pytest.mark.parametrize(
    ("look", "view", "plan", "steps"),
    [
        ({}, {}, {}, []),
        # What was stopped or removed, and what was lost.
        ({"slot": {"state": "exited"}}, {}, {}, ["image", "options"]),
        ({"slot": None}, {}, {}, ["image", "options"]),
        ({"image": None}, {}, {}, ["image", "options"]),
        ({}, {"verified": False}, {}, ["ssh_keys", "models", "model_copies"]),
        ({}, {"downloads": [{"path": "/tiktoken_encodings/o200k"}]}, {}, ["ssh_keys", "models", "model_copies"]),
        ({}, {}, {"options_served": False}, ["options"]),
        # Of an engine that judges models in advance.
        ({}, {"configuration": [{"id": "a/b"}]}, {"engine": "vllm"}, ["configuration"]),
        ({}, {"configuration": []}, {"engine": "vllm"}, []),
        ({}, {"configuration": [{"id": "a/b"}]}, {"engine": "tensorrt_llm"}, []),
    ],
)
def test_what_has_something_to_do_is_not_left_out(
    look: dict[str, t.Any], view: dict[str, t.Any], plan: dict[str, t.Any], steps: list[str]
) -> None:
    assert left(docker_facts=[look], snapshots=[view], plans=[plan]) == steps


def test_what_another_spark_lacks_is_brought_there() -> None:
    # By way of the keys, whoever has them already.
    images, models = ["ssh_keys", "image_copies"], ["ssh_keys", "model_copies"]
    assert left(cluster_facts=[{}, {"images": {"base": None, "cluster": None}}]) == images
    assert left(cluster_facts=[{}, {"images": {"base": None, "cluster": {"fingerprint": "other"}}}]) == images
    assert left(cluster_facts=[{"image_made": False}]) == ["ssh_keys", "cluster_image", "image_copies"]
    assert left(snapshots=[{}, {"verified": False}]) == models
    assert left(snapshots=[{}, {"files_missing": ["o200k"]}]) == models
    # Which is refused there.
    assert left(snapshots=[{}, {"models": {"/models/own": {"commit": None, "bytes": 6}}}]) == models


@pytest.mark.parametrize("step", LINKS)
def test_the_link_of_each_and_its_keys_count(step: str) -> None:
    assert left([LINKS, [other for other in LINKS if other != step]]) == [step]
    assert left([[], LINKS]) == LINKS


def test_one_spark_is_no_pair() -> None:
    found = completed_steps({"spark-1": LOOK}, {"spark-1": VIEW}, {"spark-1": PLAN}, {"spark-1": {}}, {"spark-1": {}})
    assert [step for step in HEAD if step in found] == list(HEAD)
    assert not {"link", "ssh_keys", "cluster_image", "image_copies"} & set(found)


def test_what_was_not_looked_at_is_not_left_out() -> None:
    assert completed_steps({}, {}, {}, {}, {}) == []
    both: dict[str, t.Any] = {"spark-1": {}, "spark-2": {}}
    assert completed_steps(both, both, both, both, both) == []

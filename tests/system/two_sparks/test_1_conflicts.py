# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Who else wants the two Sparks while they serve, and what somebody else has left there."""

from __future__ import annotations

import typing as t

import pytest

from tests import fingerprint, playbook
from tests.pair import HOME, NAME, SLOT, Node
from tests.twin.control import Internet

pytest_plugins = ["tests.scenario"]

# The roles that a row needs, one after the other.
ROLES = "../tests/system/two_sparks_faults/roles"
BASE = "nvcr.io/nvidia/tensorrt-llm/release:1.2.0rc6"
IMAGE = "dgx-spark-speculative/release:1.2.0rc6"


def image_id(node: Node) -> str:
    """The digest of the configuration; both have the same Docker, so that it can be compared."""
    return node.spark.exec(["docker", "image", "inspect", "--format", "{{.Id}}", IMAGE]).stdout.strip()


def deployments(node: Node) -> dict[str, str]:
    """What Docker has here that is this collection's, running or not: the deployment of each container."""
    shown = '{{.Names}} {{.State}} {{.Label "dgx_spark.speculative.deployment"}}'
    lines = node.spark.exec(["docker", "ps", "--all", "--format", shown]).stdout.splitlines()
    return {f"{name} {state}": deployment for name, state, deployment in (line.split() for line in lines)}


def untouched(node: Node) -> list[object]:
    """Which container runs since when, and all that lies on the Spark but what the server itself writes."""
    container = node.inspect()
    lines = fingerprint.take(int(node.spark.container[-1])).splitlines()
    return [container["Id"], container["State"]["StartedAt"], [line for line in lines if f"/{NAME}/state" not in line]]


def recorded(node: Node, path: str) -> dict[str, t.Any]:
    return node.json(f"../{path}")


def test_another_user_is_told_whose_the_pair_is(head: Node, worker: Node, internet: Internet) -> None:
    before = [untouched(node) for node in (head, worker)]
    outcome = playbook.fail("two_sparks", variables={"ansible_user": "member", "ansible_become_password": ""})
    for name in ("spark-1", "spark-2"):
        assert (
            f"the serving slot of {name} holds the deployment {NAME} of another user (its files: {HOME}/{NAME}): "
            f"let that user stop it with stop.yml, or stop it with 'docker stop {SLOT}'."
        ) in outcome.output
    assert outcome.changed == []
    assert [untouched(node) for node in (head, worker)] == before
    # What else may stand in the way was asked about, and nothing was fetched; the worker asks nobody.
    assert internet.requests("cdn-lfs.huggingface.co") == []
    assert internet.bytes_to(head.spark.address, "nvcr.io/v2/nvidia/tensorrt-llm/release/blobs") < 100_000
    assert internet.counters()["bytes"].get(worker.spark.address, {}) == {}
    assert head.answers()


@pytest.fixture
def other_image(worker: Node) -> str:
    """The worker has another image of the same name; the container goes on with the one it has."""
    # Not built from that one, which would be loaded as its own parent then: Docker 26.1.5 hangs when that is to go.
    made = f"one=$(docker create {IMAGE} true) && docker export $one | docker import - {IMAGE} && docker rm $one"
    assert worker.spark.exec(made).returncode == 0
    return image_id(worker)


def test_another_image_of_the_same_name_on_the_worker_is_replaced_by_the_heads(
    head: Node, worker: Node, internet: Internet, other_image: str
) -> None:
    before = image_id(head)
    assert other_image != before
    steps = [f"spark_network/{step}" for step in ("preflight", "compare", "ssh_keys")]
    wishes = {
        "steps": ["docker_permissions/gather", *steps, "trtllm_container/cluster_image", "engine_container/copy"],
        "deployment_settings": {"image": BASE},
        "engine_container_image": BASE,
    }
    outcome = playbook.succeed(ROLES, variables=wishes)
    assert "Load the image" in outcome.changed
    assert [image_id(node) for node in (head, worker)] == [before, before]
    # The worker's container was made from it, and went on.
    assert worker.inspect()["Image"] == before
    assert internet.counters()["requests"] == []


def test_a_byte_that_the_workers_disk_has_spoilt_is_found_on_request_and_copied_again(
    head: Node, worker: Node, internet: Internet
) -> None:
    file = (
        "$(readlink -f $(ls ~spark/.cache/huggingface/hub/models--nvidia--Qwen3*/snapshots/*/*.safetensors | head -1))"
    )
    # A disk does not tell: neither size nor time is another one.
    spoilt = f"printf '???' | dd of={file} bs=1 seek=99 conv=notrunc"
    assert worker.spark.exec(f"cp -p {file} /tmp/whole && {spoilt} && touch -r /tmp/whole {file}").returncode == 0
    internet.reset_counters()
    outcome = playbook.succeed("two_sparks", variables={"verify": True})
    told = " ".join(outcome.output.split())
    assert "had another checksum" in told
    assert worker.spark.exec(f"cmp {file} /tmp/whole && rm /tmp/whole").returncode == 0
    assert internet.requests("cdn-lfs.huggingface.co") == []
    assert head.answers()
    assert playbook.succeed("two_sparks").changed == []


def test_another_deployment_takes_the_place_on_both_and_the_one_before_comes_back(head: Node, worker: Node) -> None:
    before = [node.inspect()["Id"] for node in (head, worker)]
    playbook.succeed("two_sparks", variables={"speculative_serve_deployment": "other", "speculation": False})
    for node in (head, worker):
        # One slot: nothing of the old one is left, running or not.
        assert deployments(node) == {f"{SLOT} running": "other"}
        assert recorded(node, "other/record.json")["deployment"] == "other"
        assert recorded(node, "previous.json")["deployment"] == NAME
    assert not {node.inspect()["Id"] for node in (head, worker)} & set(before)
    assert head.answers()

    playbook.succeed("serve", variables={"previous": True})
    for node in (head, worker):
        assert deployments(node) == {f"{SLOT} running": NAME}
        assert recorded(node, "previous.json")["deployment"] == "other"
        assert node.json("record.json")["draft_length"] == 3
    assert head.answers()

# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._serving.placement import (
    Placement,
    problems,
    visible_ports,
)

IMAGE = "nvcr.io/nvidia/release:1"
FREE: dict[str, t.Any] = {
    "in_use": False,
    "address": "127.0.0.1",
    "port": 8000,
    "address_here": True,
    "container": None,
    "process": None,
    "user": None,
    "holder": None,
    "description": None,
}
# Seen through Docker's group, which hides whose process it is.
TAKEN = {**FREE, "in_use": True, "holder": "a process that only root may name"}
# A port that is set by another input.
ANOTHER = {"address": "127.0.0.1", "port": 8443, "input": "another_port"}
STORE = {"path": "/var/lib/docker", "free_bytes": 40e9, "unpack_factor": 3.0, "way_out": "Docker's data-root"}
LOOK: dict[str, t.Any] = {
    "state": "usable",
    "slot": None,
    "addresses": ["127.0.0.1", "192.168.1.20"],
    "architecture": "arm64",
    "image": None,
    "image_store": STORE,
    "port": FREE,
    "published_ports": [],
    "ports_in_use": [],
}
THERE: dict[str, t.Any] = {
    "exists": True,
    "platform": "linux/arm64",
    "platforms": ["linux/arm64"],
    "platform_digest": "sha256:1",
    "compressed_bytes": 10_000_000_000,
    "tags": [],
}
INPUTS = {"name": "its_name", "image": "its_image", "port": "its_port", "address": "its_address"}


def told(look: t.Mapping[str, t.Any] = LOOK, **other: t.Any) -> list[str]:
    given: dict[str, t.Any] = {
        "registry": {},
        "unpack_factor": 0.0,
        "listens": [],
        "publish": None,
        "labels": {"made.by": "us"},
        **other,
    }
    return problems(
        Placement(**{"name": "server", "image": IMAGE, "inputs": INPUTS, "look": {**LOOK, **look}, **given})
    )


@pytest.mark.parametrize("registry", [{}, {"skipped": True, "changed": False}, THERE])
def test_a_place_for_it(registry: dict[str, t.Any]) -> None:
    assert told(registry=registry) == []
    assert told({"slot": {"image": "x", "labels": {"made.by": "us", "other": "label"}}}) == []
    assert told({"slot": {"image": "x", "labels": {}}}, labels={}) == []


def test_a_docker_that_does_not_answer_is_all_that_is_told() -> None:
    said = "Docker is installed and does not answer."
    assert told({"state": "not_running", "detail": said, "ports_in_use": [TAKEN]}) == [
        f"{said} Start it with 'sudo systemctl start docker'."
    ]


def test_a_container_of_somebody_elses() -> None:
    assert told({"slot": {"image": "nginx", "labels": {"made.by": "them"}}}) == [
        "the container server (image nginx) was not created by this collection, so it is left alone. Rename it with "
        "'docker rename server NAME', or set its_name to another name."
    ]


def test_an_address_of_another_host() -> None:
    assert told({"published_ports": [FREE], "port": {**FREE, "address": "10.0.0.9", "address_here": False}}) == [
        "this host does not have the address 10.0.0.9. Set its_address to one of its addresses: 127.0.0.1, "
        "192.168.1.20."
    ]


def test_each_address_and_each_port_is_told() -> None:
    away = [{**FREE, "address": address, "address_here": False} for address in ("10.0.0.9", "10.0.0.8", "10.0.0.9")]
    said = told({"published_ports": away, "ports_in_use": [TAKEN, {**TAKEN, "port": 8443}]}, listens=[ANOTHER])
    assert [line.partition(" is in use")[0].partition(". Set ")[0] for line in said] == [
        "this host does not have the address 10.0.0.9",
        "this host does not have the address 10.0.0.8",
        "port 8000 on 127.0.0.1",
        "port 8443 on 127.0.0.1",
    ]
    assert said[3].endswith("hoose another port with another_port, or stop it.")


def port(use: dict[str, t.Any], *seen: dict[str, t.Any]) -> str:
    (said,) = told({"ports_in_use": [visible_ports(use, {"published_ports": seen, "port": None})]}, listens=[ANOTHER])
    return said


def test_a_port_that_somebody_has() -> None:
    start = "port 8000 on 127.0.0.1 is in use by"
    end = "hoose another port with its_port"
    assert port(TAKEN) == f"{start} a process that only root may name. C{end}, or stop it."
    # The login user sees whose process it is.
    own = {**TAKEN, "process": "python3 (4711)", "holder": "process python3 (4711) of user spark"}
    assert port(TAKEN, own) == f"{start} process python3 (4711) of user spark. C{end}, or stop it."
    assert port(TAKEN, {**own, "port": 8001}) == port(TAKEN)
    assert port(TAKEN, {**own, "process": None}) == port(TAKEN)
    # What Docker knows of its containers is better.
    theirs = {**TAKEN, "container": "vllm", "holder": "container 'vllm'", "description": "vllm holds it; stop it"}
    assert port(theirs, own) == f"{start} container 'vllm'. vllm holds it; stop it. Or c{end}."
    assert port({**TAKEN, "port": 8443}).endswith("hoose another port with another_port, or stop it.")
    # Without the login user's look.
    assert visible_ports(TAKEN, {}) == TAKEN


def test_an_image_for_another_processor() -> None:
    here = {"image": {"architecture": "amd64"}}
    assert told(here) == [
        f"the local image {IMAGE} was built for linux/amd64, but this machine is linux/arm64. "
        f"Remove it with 'docker image rm {IMAGE}' and run again, or correct its_image."
    ]
    # It comes from elsewhere.
    assert told(here, image="") == []
    assert told({"image": {"architecture": None}}) == []


def test_what_the_registry_does_not_have() -> None:
    absent = {**THERE, "exists": False, "platform_digest": None}
    assert told(registry=absent) == [f"the registry has no image {IMAGE}. Correct its_image."]
    assert told(registry=absent, alternative="Or:\nrun that")[0].endswith("Correct its_image. Or:\nrun that")
    assert told(registry={**absent, "tags": ["2", "3"]}) == [
        f"the registry has no image {IMAGE}; the nearest tags are 2, 3. Correct its_image."
    ]
    assert told(registry={**THERE, "platforms": ["linux/amd64"], "platform_digest": None}) == [
        f"the image {IMAGE} exists for linux/amd64, but this machine is linux/arm64. Correct its_image."
    ]


@pytest.mark.parametrize(
    ("cuda", "driver", "own"),
    [
        ("13.2.0", "580.95.05", "13.0"),
        ("13.2.0", "590.44.01", "13.1"),
        ("13.0.2", "580.95.05", ""),
        ("12.9.1", "580.95.05", ""),
        # Of one of them nothing is known.
        ("13.2.0", "600.1", ""),
        ("13.2.0", "", ""),
        (None, "580.95.05", ""),
    ],
)
def test_an_image_whose_cuda_is_newer_than_the_drivers(cuda: str | None, driver: str, own: str) -> None:
    expected = [
        f"the image {IMAGE} is made for CUDA {cuda}, but the GPU driver {driver} has CUDA {own}, where its kernels "
        f"may fail (cudaErrorUnsupportedPtxVersion). Use an image for CUDA {own} (its_image), or update DGX OS."
    ]
    gpus = [{"driver": driver}] if driver else []
    assert told(registry={**THERE, "cuda": cuda}, gpus=gpus) == (expected if own else [])
    env = [f"CUDA_VERSION={cuda}"] if cuda else []
    here = {"image": {"architecture": "arm64", "env": env}}
    assert told(here, gpus=gpus) == (expected if own else [])
    served = {**here, "slot": {"image": IMAGE, "labels": {"made.by": "us"}}}
    assert told(served, gpus=gpus) == []
    # NVIDIA's own images bring what they need.
    brings = {"image": {"architecture": "arm64", "env": [*env, "_CUDA_COMPAT_PATH=/usr/local/cuda/compat"]}}
    assert told(brings, gpus=gpus) == []


def test_a_disk_too_small() -> None:
    (said,) = told({"image_store": {**STORE, "free_bytes": 29_999_999_999}}, registry=THERE)
    assert said == (
        f"the image {IMAGE} needs 30.0 GB (10.0 GB of it compressed, until it is unpacked), but the file system of "
        "/var/lib/docker, where Docker stores images, has only 30.0 GB free. Free space there, for "
        "instance with 'cleanup.yml -e unused=true', or move Docker's data-root."
    )
    # The image of another engine stays for a rollback, so it makes no room for this one.
    other = {"image": "lab/other-engine:1", "labels": {"made.by": "us"}}
    assert told({"slot": other, "image_store": {**STORE, "free_bytes": 29_999_999_999}}, registry=THERE) == [said]
    (said,) = told(registry=THERE, unpack_factor=4.1)
    assert said.startswith(f"the image {IMAGE} needs 41.0 GB (10.0 GB of it compressed")
    assert told({"image_store": None}, registry=THERE) == []
    assert told(registry={**THERE, "compressed_bytes": None}) == []


def test_all_of_it_at_once() -> None:
    absent = {**THERE, "exists": False, "platform_digest": None}
    said = told({"slot": {"image": "nginx", "labels": {}}, "ports_in_use": [TAKEN]}, registry=absent)
    assert [line.split()[1] for line in said] == ["container", "8000", "registry"]


BRIDGE = {
    "network": "bridge",
    "ports": ["127.0.0.1:8000:8000"],
    "server": 8000,
    "allow_unauthenticated": False,
}
PUBLISHED = {**FREE, "container_port": 8000, "text": "127.0.0.1:8000:8000/tcp"}


def bridged(*published: dict[str, t.Any], **asked: t.Any) -> list[str]:
    look = {"port": None, "published_ports": published, "slot": {"image": "nginx", "labels": {"made.by": "them"}}}
    return told(look, publish={**BRIDGE, **asked}, labels={})


def test_a_bridge_that_leads_somewhere() -> None:
    for address in ("127.0.0.1", "127.0.0.2", "::1"):
        assert bridged({**PUBLISHED, "address": address}) == []
    assert bridged(PUBLISHED, server=0) == []
    assert bridged({**PUBLISHED, "address": "0.0.0.0"}, allow_unauthenticated=True) == []
    # In the host's network nothing is published, whatever is asked for.
    assert bridged(network="host") == []


def test_a_bridge_that_leads_nowhere_is_all_that_is_told() -> None:
    start = "engine_container_network is bridge, and engine_container_published_ports "
    end = ", so no client could reach the server's port 8000. Publish it, as in ['127.0.0.1:8000:8000']."
    assert bridged(ports=[]) == [f"{start}is empty{end}"]
    other = {**PUBLISHED, "container_port": 9000, "in_use": True}
    assert bridged(other, ports=["8000:9000", "1:2/udp"]) == [f"{start}(8000:9000, 1:2/udp) has none for it{end}"]


def test_a_bridge_that_leads_everybody_in() -> None:
    wide = {**PUBLISHED, "address": "192.168.1.20", "text": "192.168.1.20:8000:8000/tcp"}
    assert bridged(PUBLISHED, wide) == [
        "192.168.1.20:8000:8000/tcp in engine_container_published_ports publishes a server without authentication "
        "to every machine that can reach this host; ufw does not stop that. Publish on 127.0.0.1, or set "
        "engine_container_allow_unauthenticated: true."
    ]

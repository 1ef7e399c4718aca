# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import subprocess
import typing as t
from pathlib import Path

import pytest
from ansible_collections.dgx_spark.speculative.plugins.module_utils._report.comparison import (
    authorized,
    authorized_keys,
    compared,
    fingerprint,
    image_facts,
    known_hosts,
    pair_image,
    public_key,
    room_needed,
    sshd_config,
    whole_key,
)

NAMES = ("spark-1", "spark-2")
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIE0f2b0c1d2e3f4a5b6c7d8e9f0a1b2c3d4e5f6a7b8c9d0"
STATE = "/home/me/.local/share/dgx-spark-speculative"


def node(number: int, **changes: t.Any) -> dict[str, t.Any]:
    """What spark_info tells of a Spark that goes with any other."""
    return {
        "hostname": f"spark-{number}",
        "mac_addresses": [f"3c:6d:66:00:00:0{number}"],
        "architecture": "aarch64",
        "memory_total": 128_521_625_600,
        "drivers": ["580.95.05"],
        "clock_offset": 0.3,
        "sshd": "/usr/sbin/sshd",
        "docker": {
            "state": "usable",
            "detail": "",
            "version": "28.3.3",
            "store": "classic",
            "images": "/var/lib/docker",
            "way_out": "Docker's data-root",
            "filesystem": "/",
            "free": 1_000_000_000_000,
        },
        "images": {"base": None, "pair": None},
        "slot": None,
        "ports": [],
        "state": {"path": STATE, "filesystem": "/", "free": 1_000_000_000_000},
        "state_directory": STATE,
        "client_key": None,
        "authorized": None,
        "spooled_bytes": 0,
        **changes,
    }


def problems(head: dict[str, t.Any], worker: dict[str, t.Any], **more: t.Any) -> list[str]:
    return compared(NAMES, [head, worker], 60, **more)["problems"]


def slot(**changes: t.Any) -> dict[str, t.Any]:
    labels = {"dgx_spark.speculative.deployment": "single_eagle3", "dgx_spark.speculative.directory": f"{STATE}/x"}
    return {"name": "dgx-spark-speculative", "state": "running", "labels": labels, **changes}


def test_two_sparks_of_a_kind_go_together() -> None:
    found = compared(NAMES, [node(1), node(2)], 60)
    assert (found["problems"], found["findings"]) == ([], [])


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"hostname": "spark-1"}, "both call themselves spark-1"),
        ({"architecture": "x86_64"}, "spark-1 is a machine of type aarch64 and spark-2 of type x86_64"),
        ({"drivers": ["570.1"]}, "the GPU's driver is 580.95.05 on spark-1 and 570.1 on spark-2"),
        ({"drivers": []}, "and missing on spark-2"),
        ({"memory_total": 68_000_000_000}, "spark-1 has 119.7 GiB of memory and spark-2 has 63.3 GiB"),
        ({"clock_offset": -300.0}, "the clock of spark-2 is 5 min behind that of spark-1"),
        ({"clock_offset": 86400 * 3}, "the clock of spark-2 is 3 days ahead of that of spark-1"),
        ({"sshd": None}, "spark-2 has no sshd"),
        ({"mac_addresses": ["3c:6d:66:00:00:01"]}, "lead to the same machine"),
    ],
)
def test_what_keeps_two_sparks_apart_is_named_with_what_to_do(change: dict[str, t.Any], expected: str) -> None:
    found = problems(node(1), node(2, **change))
    assert len(found) == 1
    assert expected in found[0]
    assert ":" in found[0]


def test_everything_is_told_at_once() -> None:
    other = node(2, drivers=["570.1"], memory_total=1, clock_offset=1000.0, sshd=None)
    assert len(problems(node(1), other)) == 4


def test_whose_clock_is_wrong_is_told_by_the_clock_here() -> None:
    assert "by the clock here it is spark-1's" in problems(node(1, clock_offset=-900.0), node(2))[0]


@pytest.mark.parametrize(
    ("what", "change"),
    [("driver", {"drivers": ["1"]}), ("memory", {"memory_total": 1}), ("clock", {"clock_offset": 1e6})],
)
def test_a_difference_can_be_tolerated(what: str, change: dict[str, t.Any]) -> None:
    assert f"spark_network_tolerate: [{what}]" in problems(node(1), node(2, **change))[0]
    found = compared(NAMES, [node(1), node(2, **change)], 60, [what])
    assert (found["problems"], len(found["findings"])) == ([], 1)


def test_a_little_less_memory_and_a_slow_answer_are_no_difference() -> None:
    assert problems(node(1), node(2, memory_total=127_000_000_000, clock_offset=9.0)) == []


def test_another_docker_is_only_said() -> None:
    other = node(2, docker={**node(2)["docker"], "version": "27.5.1"})
    found = compared(NAMES, [node(1), other], 60)
    assert (found["problems"], len(found["findings"])) == ([], 1)
    denied = node(2, docker={**node(2)["docker"], "state": "unusable", "detail": "no socket"})
    assert problems(node(1), denied) == ["Docker on spark-2 cannot be used: no socket"]


def test_a_port_that_somebody_has() -> None:
    port = {
        "address": "192.168.100.11",
        "port": 2233,
        "input": "spark_network_ssh_port",
        "in_use": True,
        "ours": False,
        "holder": "process sshd (4711) of user root",
        "description": None,
    }
    assert problems(node(1), node(2, ports=[port])) == [
        "port 2233 on 192.168.100.11 of spark-2 is in use by process sshd (4711) of user root. Stop it, or choose "
        "another port with spark_network_ssh_port."
    ]
    assert problems(node(1), node(2, ports=[{**port, "ours": True}])) == []


def test_another_users_deployment_is_not_replaced_while_it_serves() -> None:
    other = slot(labels={**slot()["labels"], "dgx_spark.speculative.directory": "/home/you/x/single_eagle3"})
    assert "holds the deployment single_eagle3 of another user" in problems(node(1, slot=other), node(2))[0]
    stopped = compared(NAMES, [node(1), node(2, slot={**other, "state": "exited"})], 60)
    assert (stopped["problems"], len(stopped["findings"])) == ([], 1)
    assert problems(node(1, slot=slot()), node(2, slot=slot())) == []


def test_the_worker_of_another_head_is_not_taken_away() -> None:
    serving = slot(labels={**slot()["labels"], "dgx_spark.speculative.rank": "1"})
    worker = node(2, slot=serving, authorized={"from": ["192.168.100.10"], "key": KEY})
    assert "serves as the worker of another head" in problems(node(1, client_key=KEY[:-1] + "1"), worker)[0]
    assert problems(node(1, client_key=KEY), worker) == []
    # A head that was installed anew takes its own worker back.
    assert problems(node(1), worker) == []


# Keys.


def test_the_lines_of_the_keys() -> None:
    assert known_hosts(["10.0.0.2", "10.0.1.2"], [2233, 2234], f"{KEY} comment") == (
        f"[10.0.0.2]:2233 {KEY}\n[10.0.0.2]:2234 {KEY}\n[10.0.1.2]:2233 {KEY}\n[10.0.1.2]:2234 {KEY}\n"
    )
    line = authorized_keys(["10.0.0.1", "10.0.1.1"], "/usr/bin/python3 /x", KEY)
    assert line == f'restrict,from="10.0.0.1,10.0.1.1",command="/usr/bin/python3 /x" {KEY}\n'
    assert authorized(line) == {"from": ["10.0.0.1", "10.0.1.1"], "key": KEY}
    assert authorized("") is None


@pytest.mark.parametrize("text", ["", "ssh-rsa AAAA", "-----BEGIN OPENSSH PRIVATE KEY-----", f"x {KEY}"])
def test_only_a_public_key_gets_into_a_line(text: str) -> None:
    with pytest.raises(ValueError, match="public half"):
        public_key(text)


def test_a_key_is_never_valid_from_everywhere_or_for_everything() -> None:
    with pytest.raises(ValueError, match="valid from somewhere"):
        authorized_keys([], "/x", KEY)
    with pytest.raises(ValueError, match="quotation marks"):
        authorized_keys(["10.0.0.1"], 'x" y', KEY)


def test_the_copy_service_listens_on_the_link_only() -> None:
    lines = sshd_config("/s/pair", ["10.0.0.2", "fd00::2"], 2234, "me").splitlines()
    assert [line for line in lines if line.startswith("ListenAddress")] == [
        "ListenAddress 10.0.0.2:2234",
        "ListenAddress [fd00::2]:2234",
    ]
    assert {"PasswordAuthentication no", "DisableForwarding yes", "AllowUsers me", "UsePAM no"} <= set(lines)
    assert not any(line.startswith("Port ") for line in lines)


# Images.


BASE = {"fingerprint": "f", "base": None, "bytes": 7}
MADE = {"fingerprint": "g", "base": "f", "bytes": 8}
OLD = {"fingerprint": "h", "base": "e", "bytes": 8}


@pytest.mark.parametrize(
    ("head", "worker", "made", "copied"),
    [
        ({"base": None, "pair": None}, {"base": None, "pair": None}, False, False),
        ({"base": BASE, "pair": None}, {"base": BASE, "pair": None}, False, False),
        # Of an image that has been pulled anew since, and the same on the worker.
        ({"base": BASE, "pair": OLD}, {"base": None, "pair": OLD}, False, False),
        ({"base": BASE, "pair": MADE}, {"base": None, "pair": None}, True, False),
        ({"base": BASE, "pair": MADE}, {"base": BASE, "pair": OLD}, True, False),
        ({"base": BASE, "pair": MADE}, {"base": None, "pair": MADE}, True, True),
    ],
)
def test_how_far_the_image_of_a_pair_has_come(
    head: dict[str, t.Any], worker: dict[str, t.Any], made: bool, copied: bool
) -> None:
    found = compared(NAMES, [node(1, images=head), node(2, images=worker)], 60)
    assert (found["image_made"], found["image_copied"]) == (made, copied)


@pytest.mark.parametrize(
    ("base", "name"),
    [
        ("nvcr.io/nvidia/tensorrt-llm/release:1.3.0rc12", "dgx-spark-speculative/release:1.3.0rc12"),
        ("localhost:5000/release", "dgx-spark-speculative/release:latest"),
        ("a/release:1@sha256:0123456789abcdef", "dgx-spark-speculative/release:1"),
        ("a/release@sha256:0123456789abcdef", "dgx-spark-speculative/release:sha256-0123456789ab"),
    ],
)
def test_the_pairs_image_keeps_the_tag(base: str, name: str) -> None:
    assert pair_image(base) == name


INSPECTED: dict[str, t.Any] = {
    "Id": "sha256:1",
    "Os": "linux",
    "Architecture": "arm64",
    "Size": 7,
    "RootFS": {"Type": "layers", "Layers": ["sha256:a", "sha256:b"]},
    "Config": {"Env": ["A=1"], "Cmd": ["bash"], "Labels": {"dgx_spark.speculative.base": "f"}, "Volumes": None},
}


def test_the_same_image_in_another_docker_is_the_same() -> None:
    other = {**INSPECTED, "Id": "sha256:2", "Size": 9, "Created": "now", "RepoTags": ["x"], "Variant": ""}
    other["Config"] = {**INSPECTED["Config"], "Hostname": "", "Image": "sha256:3", "Volumes": {}, "User": ""}
    assert fingerprint(other) == fingerprint(INSPECTED)
    assert image_facts(INSPECTED) == {"id": "sha256:1", "fingerprint": fingerprint(other), "bytes": 7, "base": "f"}
    assert image_facts(None) is None


@pytest.mark.parametrize(
    "change",
    [
        {"Architecture": "amd64"},
        {"RootFS": {"Layers": ["sha256:a", "sha256:c"]}},
        {"RootFS": {"Layers": ["sha256:b", "sha256:a"]}},
        {"Config": {**INSPECTED["Config"], "Env": ["A=2"]}},
        {"Config": {**INSPECTED["Config"], "Entrypoint": ["x"]}},
    ],
)
def test_another_image_is_another_one(change: dict[str, t.Any]) -> None:
    assert fingerprint({**INSPECTED, **change}) != fingerprint(INSPECTED)


# Room.

GB = 1_000_000_000
BASE = {"id": "1", "fingerprint": "b", "bytes": 40 * GB, "base": None}
MADE = {"id": "2", "fingerprint": "p", "bytes": 40 * GB, "base": "b"}


def models(missing: int = 130 * GB, **changes: t.Any) -> dict[str, t.Any]:
    place = {"cache": "/home/me/hub", "cache_filesystem": "/", "cache_free_bytes": 1000 * GB}
    return {"bytes_missing": missing, **place, **changes}


def with_room(free: int, number: int, **changes: t.Any) -> dict[str, t.Any]:
    plain = node(number, **changes)
    return {**plain, "docker": {**plain["docker"], "free": free}, "state": {**plain["state"], "free": free}}


def room(head: dict[str, t.Any], worker: dict[str, t.Any], view: dict[str, t.Any], packed: int = 0) -> list[str]:
    return room_needed(NAMES, [head, worker], view, packed, 20 * GB)


def test_everything_together_has_to_fit() -> None:
    head = node(1, images={"base": BASE, "pair": MADE})
    needed = 130 * GB + 2 * 40 * GB + 20 * GB
    assert room(head, with_room(needed, 2), models(cache_free_bytes=needed)) == []
    (text,) = room(head, with_room(needed - 1, 2), models(cache_free_bytes=needed - 1))
    assert text.startswith(
        "spark-2: 230 GB are needed (models 130 GB, image 40.0 GB, image on its way 40.0 GB, reserve 20.0 GB), but the "
        "file system / of /home/me/hub and /var/lib/docker and "
    )


def test_each_file_system_for_itself() -> None:
    head = node(1, images={"base": BASE, "pair": MADE})
    worker = with_room(90 * GB, 2)
    assert room(head, worker, models(cache_filesystem="/data", cache_free_bytes=160 * GB)) == []
    (text,) = room(head, worker, models(cache_filesystem="/data", cache_free_bytes=140 * GB))
    assert "file system /data of /home/me/hub has only 140 GB free" in text


def test_what_is_there_needs_no_room() -> None:
    images = {"base": BASE, "pair": MADE}
    full = with_room(0, 2, images={"base": None, "pair": MADE})
    assert room(with_room(0, 1, images=images), full, models(0, cache_free_bytes=0)) == []


def test_what_has_come_of_an_image_needs_no_room_again() -> None:
    head = node(1, images={"base": BASE, "pair": MADE})
    worker = with_room(75 * GB, 2, spooled_bytes=30 * GB)
    assert room(head, worker, models(0)) == []
    assert room(head, {**worker, "spooled_bytes": 0}, models(0)) != []


def test_the_head_packs_the_image_too() -> None:
    head = with_room(30 * GB, 1, images={"base": BASE, "pair": None})
    (text,) = room(head, node(2), models(0))
    assert text.startswith("spark-1: 40.3 GB are needed (image, packed for the other Spark 40.3 GB)")
    # What is still to be pulled is there then, too.
    (text,) = room({**head, "images": {"base": None, "pair": None}}, node(2), models(0), packed=20 * GB)
    assert text.startswith(
        "spark-1: 92.6 GB are needed (image 46.3 GB, image, packed for the other Spark 46.3 GB), but the file system"
    )
    assert "or move Docker's data-root or the Hugging Face cache" in text


def stored(facts: dict[str, t.Any], store: str, **changes: t.Any) -> dict[str, t.Any]:
    place = {"images": "/var/lib/containerd", "way_out": "containerd's root"} if store == "containerd" else {}
    return {**facts, "docker": {**facts["docker"], "store": store, **place, **changes}}


@pytest.mark.parametrize(
    ("head", "worker", "size", "needed"),
    [
        # Unpacked and on its way: what the Engine calls the size is unpacked with one store and packed with the other.
        ("classic", "classic", 46, 2 * 46),
        ("classic", "containerd", 46, 2 * 46),
        ("containerd", "classic", 20, 20 + 46),
        ("containerd", "containerd", 20, 20 + 46),
    ],
)
def test_what_the_worker_needs_depends_on_the_stores(head: str, worker: str, size: int, needed: int) -> None:
    images = {"base": BASE, "pair": {**MADE, "bytes": size * GB}}
    first = stored(node(1, images=images), head)
    room_for = (needed + 20) * GB
    assert room(first, stored(with_room(room_for, 2), worker), models(0, cache_free_bytes=room_for)) == []
    second = stored(with_room(room_for - 1, 2), worker)
    (text,) = room(first, second, models(0, cache_free_bytes=room_for - 1))
    assert text.startswith("spark-2: ")
    assert f"move {second['docker']['way_out']} or" in text


def test_what_docker_is_handed_lies_with_its_images() -> None:
    head = stored(node(1, images={"base": BASE, "pair": {**MADE, "bytes": 20 * GB}}), "containerd")
    worker = stored(with_room(1000 * GB, 2), "containerd", filesystem="/data", free=65 * GB)
    (text,) = room(head, worker, models(0))
    assert text.startswith(
        "spark-2: 66.0 GB are needed (image 66.0 GB), but the file system /data of /var/lib/containerd"
    )
    assert room(head, stored(worker, "containerd", filesystem="/data", free=66 * GB), models(0)) == []


def test_containerd_hands_out_what_it_has() -> None:
    head = stored(with_room(0, 1, images={"base": BASE, "pair": MADE}), "containerd")
    assert room(head, node(2), models(0)) == []
    # What is pulled is kept packed and unpacked.
    head = stored(with_room(0, 1, images={"base": None, "pair": None}), "containerd")
    (text,) = room(head, node(2), models(0), packed=20 * GB)
    assert text.startswith("spark-1: 66.3 GB are needed (image 66.3 GB)")


@pytest.fixture(name="key_pair")
def fixture_key_pair(tmp_path: Path) -> t.Callable[..., tuple[str, str]]:
    """What ssh-keygen itself makes."""

    def make(name: str, *, kind: str = "ed25519", passphrase: str = "") -> tuple[str, str]:
        file = tmp_path / name
        subprocess.run(
            ["ssh-keygen", "-q", "-t", kind, "-N", passphrase, "-C", "some body", "-f", str(file)], check=True
        )
        return file.read_text(encoding="ascii"), file.with_suffix(".pub").read_text(encoding="ascii")

    return make


def test_a_whole_key_pair_is_known_by_its_public_half(key_pair: t.Callable[..., tuple[str, str]]) -> None:
    private, public = key_pair("one")
    assert whole_key(private, public) == " ".join(public.split()[:2])


def test_a_key_pair_that_cannot_be_used_is_none(key_pair: t.Callable[..., tuple[str, str]]) -> None:
    private, public = key_pair("one")
    lines = private.splitlines(keepends=True)
    # Cut off anywhere, as by a power cut.
    cut = [private[:end] for end in range(0, len(private) - 1, 7)]
    short = ["".join([*lines[:2], *lines[3:]])]
    for damaged in (*cut, *short, private.replace("BEGIN OPENSSH", "BEGIN RSA")):
        assert whole_key(damaged, public) is None
    assert whole_key(private, "") is None
    assert whole_key(private, key_pair("other")[1]) is None
    assert whole_key(*key_pair("locked", passphrase="some thing")) is None
    assert whole_key(*key_pair("ecdsa", kind="ecdsa")) is None

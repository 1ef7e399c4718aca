# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import os
import time
import typing as t
from pathlib import Path

import pytest
from ansible_collections.dgx_spark.speculative.plugins.module_utils._deployment.cluster_view import Link, Rail
from ansible_collections.dgx_spark.speculative.plugins.module_utils._docker.access import Machine
from ansible_collections.dgx_spark.speculative.plugins.module_utils._models.cache import CachedModel, Piece
from ansible_collections.dgx_spark.speculative.plugins.module_utils._report.status import (
    Disk,
    Status,
    UnusedImage,
    UsedCache,
)
from ansible_collections.dgx_spark.speculative.plugins.module_utils._report.status_facts import (
    StatusInspector,
    count_models,
    other_mtus,
    role_of,
)

from tests.unit.docker_server import DockerServer

BESIDE = "/containers/json?all=1"
LABELS = {"dgx_spark.speculative.deployment": "mine", "dgx_spark.speculative.format": "1"}


class Spark:
    """A Spark on which nothing was ever deployed, with a Docker Engine."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.state = place / "state"
        (place / "root/proc").mkdir(parents=True)
        (place / "root/proc/meminfo").write_text("MemTotal: 2 kB\nMemAvailable: 1 kB\n", encoding="ascii")
        pages: dict[str, t.Any] = {"/info": {"DockerRootDir": str(place)}, "/version": {}, BESIDE: []}
        self.docker = DockerServer(place / "docker.sock", pages)

    def gather(self) -> Status:
        params = {
            "container": "slot",
            "state_directory": str(self.state),
            "cache_directory": str(self.place / "hub"),
            "receipts_directory": None,
            "socket": str(self.docker.path),
            "probe": False,
            "answer_timeout": 1,
        }
        return StatusInspector(params, Machine(self.place / "root", os.getuid(), self.place, "")).gather()

    def write(self, name: str, text: str) -> None:
        path = self.state / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def serve(self, started: float) -> None:
        """Have a container of this collection that has run since a moment."""
        moment = time.strftime("%Y-%m-%dT%H:%M:%S.1Z", time.gmtime(started))
        self.docker.pages["/containers/slot/json"] = {
            "Id": "c1",
            "Name": "/slot",
            "Image": "sha256:1",
            "Config": {"Image": "release:1", "Labels": LABELS},
            "State": {"Status": "running", "StartedAt": moment},
        }


@pytest.fixture(name="spark")
def fixture_spark(tmp_path: Path) -> t.Iterator[Spark]:
    spark = Spark(tmp_path)
    yield spark
    spark.docker.server_close()


def test_an_engine_that_fails_once_is_not_asked_again(spark: Spark) -> None:
    spark.serve(time.time())
    spark.docker.pages["/images/sha256:1/json"] = {"Id": "sha256:1", "Size": 7}
    assert spark.gather().disk.image_bytes == 7
    spark.docker.pages[BESIDE] = (500, {"message": "a broken database"})
    status = spark.gather()
    assert (status.disk.image_bytes, status.disk.unused_images, status.disk.caches) == (None, None, None)
    (reason,) = status.not_checked
    assert "a broken database" in reason
    # The container was found before.
    assert status.container is not None


def test_an_uptime_is_not_negative_after_the_clock_was_set_back(spark: Spark) -> None:
    spark.serve(time.time() + 3600)
    container = spark.gather().container
    assert container is not None
    assert container["uptime_s"] == 0


@pytest.mark.parametrize(
    ("ports", "url"),
    [
        ([{"IP": "0.0.0.0", "PublicPort": 3000}], "http://127.0.0.1:3000"),
        ([{"IP": "::", "PublicPort": 3000}], "http://[::1]:3000"),
        ([{"IP": "10.1.2.3", "PublicPort": 3000}], "http://10.1.2.3:3000"),
        # A port of the image that is not published.
        ([{"PrivatePort": 8080}, {"IP": "127.0.0.1", "PublicPort": 3001}], "http://127.0.0.1:3001"),
        (None, None),
    ],
)
def test_the_address_of_open_webui_on_the_spark(spark: Spark, ports: t.Any, url: str | None) -> None:
    labels = {"dgx_spark.speculative.role": "open_webui"}
    page = {"Labels": labels, "State": "running", "Ports": ports}
    spark.docker.pages[BESIDE] = [{"Labels": None, "State": "running"}, page]
    status = spark.gather()
    assert (status.companions, status.chat_url) == ({"Open WebUI": "running"}, url)


@pytest.mark.parametrize(("recorded", "offered"), [({"format": 1}, True), ({"format": 2}, False), ({}, False)])
def test_a_rollback_is_offered_to_a_record_of_this_format(
    spark: Spark, recorded: dict[str, t.Any], offered: bool
) -> None:
    spark.write("previous.json", json.dumps({"deployment": "before", "container": {"labels": {}}, **recorded}))
    assert (spark.gather().previous is not None) is offered


def test_all_logs_count(spark: Spark) -> None:
    for name in ("a/state/server.log", "a/state/memory.log.1", "b/state/nccl.host.7", "b/failed.log", "jobs/pull/log"):
        spark.write(name, "12")
    for name in ("a/state/state.json", "a/record.json", "jobs/pull/state.json"):
        spark.write(name, "{}")
    assert spark.gather().disk.logs_bytes == 5 * 2


def rail(interface: str, mtu: int | None) -> Rail:
    return Rail(interface, "10.0.0.1", "10.0.0.2", mtu=mtu)


@pytest.mark.parametrize(
    ("proven", "link", "differs"),
    [
        (9000, Link(up=True, mtu=1500), True),
        (1500, Link(up=True, mtu=9000), True),
        (9000, Link(up=None, mtu=1500), True),
        (9000, Link(up=True, mtu=9000), False),
        # A port without a cable loses its MTU with its address.
        (9000, Link(up=False, mtu=1500), False),
        (9000, Link(up=True, mtu=None), False),
        (None, Link(up=True, mtu=1500), False),
    ],
)
def test_an_mtu_that_is_not_the_proven_one(proven: int | None, link: Link, differs: bool) -> None:
    same = rail("rail1", 9000), Link(up=True, mtu=9000)
    findings = other_mtus([same[0], rail("rail0", proven)], [same[1], link])
    assert [finding["id"] for finding in findings] == ["other_mtu"] * differs
    assert all(f"'sudo ip link set rail0 mtu {proven}'" in finding["message"] for finding in findings)


@pytest.mark.parametrize(("model", "role"), [("a/target", "target"), ("a/draft", "draft"), ("a/other", "other")])
def test_the_role_of_a_model(model: str, role: str) -> None:
    assert role_of(model, {"target_model": "a/target", "draft_model": "a/draft"}) == role


def cached(name: str, size: int, fetched_here: bool, in_use: bool, unused: int = 0, part: int = 0) -> CachedModel:
    files, parts = ((Piece("p", number),) if number else () for number in (unused, part))
    return CachedModel(name, f"/hub/{name}", size, fetched_here, in_use, files, parts)


MODELS = [
    cached("served", 100, True, True, unused=30, part=7),
    cached("served of the user's", 1000, False, True),
    cached("unused", 20, True, False, unused=5),
    # Nothing of this collection uses it, and it is not its to remove.
    cached("the user's", 5000, False, False),
]


def test_each_byte_of_the_cache_is_of_one_kind() -> None:
    disk = Disk()
    count_models(disk, MODELS)
    assert disk.models_used_bytes == 100 - 30 - 7 + 1000
    assert [(model.id, model.bytes) for model in disk.unused_models or []] == [("unused", 20)]
    # What a model that is removed as a whole has unused is no kind of its own.
    assert [(piece.model, piece.bytes) for piece in disk.unused_files or []] == [("served", 30)]
    assert [(piece.model, piece.bytes) for piece in disk.incomplete_downloads or []] == [("served", 7)]
    assert disk.reclaimable_bytes == 20 + 30 + 7


def test_images_and_kernels_that_nothing_uses_can_be_freed_too() -> None:
    disk = Disk(unused_images=[UnusedImage("release:1", 400)])
    disk.caches = [UsedCache("a", "1", 50, False), UsedCache("b", "2", 60, True), UsedCache("c", None, None, False)]
    count_models(disk, [])
    assert (disk.models_used_bytes, disk.reclaimable_bytes) == (0, 400 + 50)

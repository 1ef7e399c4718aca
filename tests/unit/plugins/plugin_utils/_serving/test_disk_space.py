# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._serving.disk_space import (
    needed,
    too_small,
    unusable_models,
)

from tests.unit.looks import node

GB = 1_000_000_000
BASE = {"id": "1", "fingerprint": "b", "bytes": 40 * GB, "base": None}
MADE = {"id": "2", "fingerprint": "p", "bytes": 40 * GB, "base": "b"}


def models(missing: int = 130 * GB, **changes: t.Any) -> dict[str, t.Any]:
    place = {"cache": {"directory": "/home/me/hub"}, "cache_filesystem": "/", "cache_free_bytes": 1000 * GB}
    return {"bytes_missing": missing, **place, **changes}


def with_room(free: int, number: int, **changes: t.Any) -> dict[str, t.Any]:
    plain = node(number, **changes)
    return {**plain, "docker": {**plain["docker"], "free": free}, "state": {**plain["state"], "free": free}}


def room(head: dict[str, t.Any], worker: dict[str, t.Any], view: dict[str, t.Any], packed: int = 0) -> list[str]:
    return needed({"spark-1": head, "spark-2": worker}, "spark-2", view, packed, 20 * GB)


def test_everything_together_has_to_fit() -> None:
    head = node(1, images={"base": BASE, "cluster": MADE})
    needed = 130 * GB + 2 * 40 * GB + 20 * GB
    assert room(head, with_room(needed, 2), models(cache_free_bytes=needed)) == []
    (text,) = room(head, with_room(needed - 1, 2), models(cache_free_bytes=needed - 1))
    assert text.startswith(
        "spark-2: 230 GB are needed (models 130 GB, image 40.0 GB, image in transit 40.0 GB, reserve 20.0 GB), but the "
        "file system / of /home/me/hub and /var/lib/docker and "
    )


def test_each_file_system_for_itself() -> None:
    head = node(1, images={"base": BASE, "cluster": MADE})
    worker = with_room(90 * GB, 2)
    assert room(head, worker, models(cache_filesystem="/data", cache_free_bytes=160 * GB)) == []
    (text,) = room(head, worker, models(cache_filesystem="/data", cache_free_bytes=140 * GB))
    assert "file system /data of /home/me/hub has only 140 GB free" in text


def test_what_is_there_needs_no_room() -> None:
    images = {"base": BASE, "cluster": MADE}
    full = with_room(0, 2, images={"base": None, "cluster": MADE})
    assert room(with_room(0, 1, images=images), full, models(0, cache_free_bytes=0)) == []


def test_what_has_come_of_an_image_needs_no_room_again() -> None:
    head = node(1, images={"base": BASE, "cluster": MADE})
    worker = with_room(75 * GB, 2, spooled_bytes=30 * GB)
    assert room(head, worker, models(0)) == []
    assert room(head, {**worker, "spooled_bytes": 0}, models(0)) != []


def test_the_head_packs_the_image_too() -> None:
    head = with_room(30 * GB, 1, images={"base": BASE, "cluster": None})
    (text,) = room(head, node(2), models(0))
    assert text.startswith("spark-1: 40.3 GB are needed (image, compressed for the next Spark 40.3 GB)")
    # What is still to be pulled is there then, too.
    (text,) = room({**head, "images": {"base": None, "cluster": None}}, node(2), models(0), packed=20 * GB)
    assert text.startswith(
        "spark-1: 92.6 GB are needed (image 46.3 GB, image, compressed for the next Spark 46.3 GB), but the file system"
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
    images = {"base": BASE, "cluster": {**MADE, "bytes": size * GB}}
    first = stored(node(1, images=images), head)
    room_for = (needed + 20) * GB
    assert room(first, stored(with_room(room_for, 2), worker), models(0, cache_free_bytes=room_for)) == []
    second = stored(with_room(room_for - 1, 2), worker)
    (text,) = room(first, second, models(0, cache_free_bytes=room_for - 1))
    assert text.startswith("spark-2: ")
    assert f"move {second['docker']['way_out']} or" in text


def test_what_docker_is_handed_lies_with_its_images() -> None:
    head = stored(node(1, images={"base": BASE, "cluster": {**MADE, "bytes": 20 * GB}}), "containerd")
    worker = stored(with_room(1000 * GB, 2), "containerd", filesystem="/data", free=65 * GB)
    (text,) = room(head, worker, models(0))
    assert text.startswith(
        "spark-2: 66.0 GB are needed (image 66.0 GB), but the file system /data of /var/lib/containerd"
    )
    assert room(head, stored(worker, "containerd", filesystem="/data", free=66 * GB), models(0)) == []


def test_containerd_hands_out_what_it_has() -> None:
    head = stored(with_room(0, 1, images={"base": BASE, "cluster": MADE}), "containerd")
    assert room(head, node(2), models(0)) == []
    # What is pulled is kept packed and unpacked.
    head = stored(with_room(0, 1, images={"base": None, "cluster": None}), "containerd")
    (text,) = room(head, node(2), models(0), packed=20 * GB)
    assert text.startswith("spark-1: 66.3 GB are needed (image 66.3 GB)")


def test_each_of_a_chain_takes_what_the_head_has_made_and_packs_it_for_the_next() -> None:
    images = {"base": BASE, "cluster": MADE}
    looks = {"spark-1": node(1, images=images), "spark-2": with_room(179 * GB, 2), "spark-3": with_room(139 * GB, 3)}
    (text,) = needed(looks, "spark-2", models(40 * GB, cache_free_bytes=179 * GB), 0, 20 * GB)
    assert text.startswith(
        "spark-2: 180 GB are needed (models 40.0 GB, image 40.0 GB, image in transit 40.0 GB, reserve 20.0 GB, "
        "image, compressed for the next Spark 40.0 GB)"
    )
    (text,) = needed(looks, "spark-3", models(40 * GB, cache_free_bytes=139 * GB), 0, 20 * GB)
    assert text.startswith("spark-3: 140 GB are needed")
    # The last one has it already.
    looks["spark-3"] = node(3, images={"base": None, "cluster": MADE})
    assert needed(looks, "spark-2", models(39 * GB, cache_free_bytes=179 * GB), 0, 20 * GB) == []


def test_what_the_head_lacks_is_said_by_the_first_that_takes_it() -> None:
    head = with_room(30 * GB, 1, images={"base": BASE, "cluster": None})
    looks = {"spark-1": head, "spark-2": node(2), "spark-3": node(3)}
    assert [len(needed(looks, name, models(0), 0, 20 * GB)) for name in ("spark-2", "spark-3")] == [1, 0]


def test_a_download_fits_or_the_disk_is_named() -> None:
    models = {
        "bytes_missing": 60_000_000_000,
        "incomplete_bytes": 5_000_000_000,
        "cache_free_bytes": 90_000_000_000,
        "cache_filesystem": "/",
        "cache": {"directory": "/home/me/hub"},
    }
    assert too_small("spark-1", models, 10_000_000_000, 25_000_000_000) == ""
    assert too_small("spark-1", {**models, "bytes_missing": 0}, 10**12, 10**12) == ""
    assert too_small("spark-1", models, 10_000_000_000, 26_000_000_000) == (
        "spark-1: 96.0 GB are needed (models 60.0 GB, image 10.0 GB, reserve 26.0 GB), but the file system / of the "
        "cache /home/me/hub has only 95.0 GB free. Free space there, for instance with 'cleanup.yml -e unused=true', "
        "or set huggingface_cache_directory to a directory on a larger disk."
    )


def test_a_draft_that_does_not_belong_to_its_target_is_told_before_the_disk() -> None:
    models = {
        "model_pair_problems": ["No.", "No, either."],
        "bytes_missing": 0,
        "incomplete_bytes": 0,
        "cache_free_bytes": 0,
    }
    assert unusable_models("spark-1", models, 0, 0) == "spark-1: No. No, either."
    assert unusable_models("spark-1", {**models, "model_pair_problems": []}, 0, 0) == ""

# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this plugin util is internal to the collection; its interface may change at any time.

"""Check, before anything is copied, that image and models fit on the disks of all Sparks."""

from __future__ import annotations

import typing as t

from ...module_utils._data.text import amount
from ...module_utils._docker.image_store import CONTAINERD, UNPACKED, sizes
from .._cluster.image_copies import is_copied

# An upper limit for openssh-server with its dependencies.
ADDED_BYTES = 300_000_000

Facts = t.Mapping[str, t.Any]


class Demand(t.NamedTuple):
    """Something that needs disk space."""

    what: str
    bytes: int
    path: str
    filesystem: str | None
    free: int | None


def insufficient_space(name: str, demands: t.Iterable[Demand], way_out: str) -> list[str]:
    """Return a problem for each file system of a node that is too small. `way_out` tells how to move the images."""
    result = []
    together: dict[str | None, list[Demand]] = {}
    for demand in demands:
        if demand.bytes > 0 and demand.free is not None:
            together.setdefault(demand.filesystem, []).append(demand)
    for filesystem, group in together.items():
        needed, free = sum(demand.bytes for demand in group), min(t.cast(int, demand.free) for demand in group)
        if needed > free:
            parts = ", ".join(f"{demand.what} {amount(demand.bytes)}" for demand in group)
            paths = " and ".join(dict.fromkeys(demand.path for demand in group))
            result.append(
                f"{name}: {amount(needed)} are needed ({parts}), but the file system {filesystem} of {paths} has only "
                f"{amount(free)} free. Free space there, or move {way_out} or the Hugging Face cache "
                "(huggingface_cache_directory) to a larger disk."
            )
    return result


def image_sizes(head: Facts, packed: int) -> tuple[int, int]:
    """Return the unpacked and the transferred bytes of the image; before the pull, estimated from the registry."""
    made, base, store = head["images"]["cluster"], head["images"]["base"], head["docker"]["store"]
    if head["image_made"]:
        return sizes(int(made["bytes"]), store)
    if base:
        return sizes(int(base["bytes"]) + ADDED_BYTES, store)
    unpacked = round(UNPACKED * packed) + ADDED_BYTES
    return unpacked, packed + ADDED_BYTES if store == CONTAINERD else unpacked


def head_bytes(head: Facts, unpacked: int, sent: int, packed: int) -> list[Demand]:
    """Return the bytes that the head still needs for the image."""
    docker = head["docker"]
    kept = packed if docker["store"] == CONTAINERD else 0
    needed = 0 if head["images"]["base"] or not unpacked else unpacked + kept
    return [Demand("image", needed, *_images(head)), *transfer_bytes(head, sent)]


def transfer_bytes(node: Facts, sent: int) -> list[Demand]:
    """Return the bytes needed to send the image to the next Spark. containerd's store sends its files as they are."""
    packs = 0 if node["docker"]["store"] == CONTAINERD else sent
    return [Demand("image, compressed for the next Spark", packs, *_images(node))]


def _images(node: Facts) -> tuple[str, str | None, int | None]:
    docker = node["docker"]
    return docker["images"], docker["filesystem"], docker["free"]


def worker_bytes(node: Facts, models: Facts, unpacked: int, sent: int, reserve: int) -> list[Demand]:
    """Return the bytes that a Spark needs to receive image and models."""
    docker, state = node["docker"], node["state"]
    # On one file system, Docker's copy grows as the spool shrinks.
    copy = sent if docker["filesystem"] != state["filesystem"] else 0
    missing = models["bytes_missing"]
    cache = (models["cache"]["directory"], models["cache_filesystem"], models["cache_free_bytes"])
    demands = [
        Demand("models", missing, *cache),
        Demand("image", unpacked + copy, *_images(node)),
        Demand(
            "image in transit", max(0, sent - node["spooled_bytes"]), state["path"], state["filesystem"], state["free"]
        ),
    ]
    return [*demands, Demand("reserve", reserve, *cache)] if missing or unpacked else demands


def needed(looks: t.Mapping[str, Facts], host: str, models: Facts, packed: int, reserve: int) -> list[str]:
    """Return what does not fit on a receiving Spark, and on the head, which the first worker checks.

    The looks are in the order of the ranks; models is what huggingface_snapshot returned on the host. The classic store
    packs an image into a file before it exports it; containerd's store exports its files directly. Both write an
    imported image to disk before they unpack it. Imported bytes are deleted from the spool at once.
    """
    names = list(looks)
    rank, head, node = names.index(host), looks[names[0]], looks[host]
    lacking = [not is_copied(head, looks[name]) for name in names[1:]]
    unpacked, sent = image_sizes(head, packed)
    result: list[str] = []
    if rank == 1:
        own = head_bytes(head, unpacked, sent, packed) if lacking[0] else []
        result += insufficient_space(names[0], own, head["docker"]["way_out"])
    takes = (unpacked, sent) if lacking[rank - 1] else (0, 0)
    own = worker_bytes(node, models, *takes, reserve)
    if any(lacking[rank:][:1]):
        own += transfer_bytes(node, sent)
    return result + insufficient_space(host, own, node["docker"]["way_out"])


def unusable_models(host: str, models: Facts, image: int, reserve: int) -> str:
    """Return why the models cannot be used on this Spark: they do not match, or the disk is too small. May be empty."""
    text = " ".join(models["model_pair_problems"])
    return f"{host}: {text}" if text else too_small(host, models, image, reserve)


def too_small(host: str, models: Facts, image: int, reserve: int) -> str:
    """Return why a download does not fit on the disk of a Spark beside an image and the reserve, in bytes.

    Models is what huggingface_snapshot returned. Left-over parts are deleted before the download begins.
    """
    missing = models["bytes_missing"]
    needed, free = missing + image + reserve, models["cache_free_bytes"] + models["incomplete_bytes"]
    if not missing or needed <= free:
        return ""
    return (
        f"{host}: {amount(needed)} are needed (models {amount(missing)}, image {amount(image)}, reserve "
        f"{amount(reserve)}), but the file system {models['cache_filesystem']} of the cache "
        f"{models['cache']['directory']} has only {amount(free)} free. Free space there, for instance with "
        "'cleanup.yml -e unused=true', or set huggingface_cache_directory to a directory on a larger disk."
    )

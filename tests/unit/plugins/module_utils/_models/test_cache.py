# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import fcntl
import json
import os
from pathlib import Path

import pytest
from ansible_collections.dgx_spark.speculative.plugins.module_utils._models.cache import (
    CachedModel,
    Piece,
    Prune,
    Removal,
    cached_models,
    removals,
)
from ansible_collections.dgx_spark.speculative.plugins.module_utils._models.disk import ModelSpec, folder_name

COMMIT, OTHER = "1" * 40, "2" * 40


class Cache:
    """A Hugging Face cache with receipts beside it."""

    def __init__(self, top: Path) -> None:
        self.hub, self.receipts = top / "hub", top / "models"
        self.hub.mkdir()
        self.receipts.mkdir()

    def directory(self, name: str) -> Path:
        return self.hub / folder_name(name)

    def store(self, name: str, path: str, blob: str, size: int, commit: str = COMMIT) -> Path:
        """A file of a snapshot, as huggingface_hub stores it; its blob."""
        target = self.directory(name) / "blobs" / blob
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(b"x" * size)
        pointer = self.directory(name) / "snapshots" / commit / path
        pointer.parent.mkdir(parents=True, exist_ok=True)
        pointer.symlink_to(os.path.relpath(target, pointer.parent))
        return target

    def receipt(self, name: str, exclude: tuple[str, ...] = (), commit: str = COMMIT) -> Path:
        path = self.receipts / f"{folder_name(name)}.json"
        data = {"commit": commit, "revisions": ["main"], "include": [], "exclude": list(exclude), "files": {}}
        path.write_text(json.dumps(data))
        return path

    def models(self, in_use: tuple[str, ...] = (), wanted: tuple[ModelSpec, ...] = ()) -> list[CachedModel]:
        return cached_models(self.hub, self.receipts, in_use, wanted)

    def prune(self, in_use: tuple[str, ...] = ()) -> list[Removal]:
        prune = Prune(self.hub, self.receipts)
        found = [removal for removal in removals(self.models(in_use)) if prune.is_free(removal)]
        for removal in found:
            prune.remove(removal)
        return found


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    return Cache(tmp_path)


@pytest.fixture
def pasted(cache: Cache) -> Cache:
    """All of a repository, with two copies of the weights that are not served, and one blob in both halves."""
    cache.store("lab/big", "config.json", "c" * 40, 10)
    cache.store("lab/big", "model.safetensors", "a" * 64, 1000)
    cache.store("lab/big", "original/model.bin", "b" * 64, 900)
    cache.store("lab/big", "original/config.json", "c" * 40, 10)
    cache.store("lab/big", "metal/deep/model.bin", "d" * 64, 800)
    return cache


EXCLUDE = ("original/*", "metal/*")
UNSERVED = (Piece("metal/", 800), Piece("original/", 900))


def test_a_cache_that_is_not_there(tmp_path: Path) -> None:
    assert cached_models(tmp_path / "none", tmp_path, ()) == []


def test_patterns_are_the_receipts_else_those_that_are_given(pasted: Cache) -> None:
    (model,) = pasted.models()
    assert (model.id, model.bytes_on_disk, model.fetched_here) == ("lab/big", 2710, False)
    assert model.unused_files == ()
    (model,) = pasted.models(wanted=(ModelSpec("lab/big", exclude=EXCLUDE),))
    assert model.unused_files == UNSERVED
    pasted.receipt("lab/big", EXCLUDE)
    (model,) = pasted.models(in_use=("lab/big",), wanted=(ModelSpec("lab/big"),))
    assert (model.fetched_here, model.in_use, model.unused_files) == (True, True, UNSERVED)


def test_a_blob_of_two_commits_counts_once(pasted: Cache) -> None:
    pasted.store("lab/big", "original/model.bin", "b" * 64, 900, commit=OTHER)
    pasted.receipt("lab/big", EXCLUDE)
    assert pasted.models()[0].unused_files == UNSERVED


def test_a_receipt_of_another_cache_says_nothing(pasted: Cache) -> None:
    pasted.receipt("lab/big", EXCLUDE, commit=OTHER)
    assert not pasted.models()[0].fetched_here
    assert pasted.prune() == []


def test_a_model_without_receipt_is_never_touched(pasted: Cache) -> None:
    (pasted.directory("lab/big") / "blobs" / f"{'e' * 64}.incomplete").write_bytes(b"x")
    before = sorted(pasted.hub.rglob("*"))
    assert pasted.prune() == []
    assert sorted(pasted.hub.rglob("*")) == before


def test_unserved_files_go_with_their_blobs_and_served_ones_stay(pasted: Cache) -> None:
    pasted.receipt("lab/big", EXCLUDE)
    removed = pasted.prune(in_use=("lab/big",))
    assert [(item.kind, item.path, item.bytes) for item in removed] == [
        ("unserved", "metal/", 800),
        ("unserved", "original/", 900),
    ]
    assert removed[0].line() == "metal/ of lab/big, which is not served (800 bytes)"
    snapshot = pasted.directory("lab/big") / "snapshots" / COMMIT
    assert sorted(path.name for path in snapshot.iterdir()) == ["config.json", "model.safetensors"]
    assert (snapshot / "config.json").read_bytes() == b"x" * 10
    assert sorted(path.name for path in (pasted.directory("lab/big") / "blobs").iterdir()) == ["a" * 64, "c" * 40]
    assert pasted.prune(in_use=("lab/big",)) == []


def test_two_files_with_the_same_beginning_are_two(cache: Cache) -> None:
    cache.store("lab/big", "model.bin", "a" * 64, 5)
    cache.store("lab/big", "model.bin.index", "b" * 64, 6)
    cache.store("lab/big", "config.json", "c" * 40, 1)
    cache.receipt("lab/big", ("*.bin", "*.index"))
    prune = Prune(cache.hub, cache.receipts)
    prune.remove(Removal("unserved", "lab/big", "model.bin", 5))
    assert cache.models()[0].unused_files == (Piece("model.bin.index", 6),)


def test_an_unused_model_goes_with_its_locks_and_its_receipt(cache: Cache) -> None:
    for name in ("lab/old", "lab/used"):
        cache.store(name, "model.safetensors", "a" * 64, 100)
        cache.receipt(name)
    locks = cache.hub / ".locks" / folder_name("lab/old")
    locks.mkdir(parents=True)
    (removed,) = cache.prune(in_use=("lab/used",))
    assert (removed.kind, removed.id, removed.bytes) == ("model", "lab/old", 100)
    assert not cache.directory("lab/old").exists()
    assert not locks.exists()
    assert [path.name for path in cache.receipts.iterdir()] == ["models--lab--used.json"]
    assert cache.directory("lab/used").exists()


def test_parts_go_but_not_one_that_is_being_written(cache: Cache) -> None:
    blobs = cache.store("lab/big", "model.safetensors", "a" * 64, 100).parent
    cache.receipt("lab/big")
    idle, busy = "b" * 64, "c" * 64
    for blob in (idle, busy):
        (blobs / f"{blob}.incomplete").write_bytes(b"x" * 30)
    assert [piece.bytes for piece in cache.models()[0].incomplete_downloads] == [30, 30]
    locks = cache.hub / ".locks" / folder_name("lab/big")
    locks.mkdir(parents=True)
    with (locks / f"{busy}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        (removed,) = cache.prune(in_use=("lab/big",))
    assert removed.path.endswith(f"{idle}.incomplete")
    assert [path.name for path in blobs.glob("*.incomplete")] == [f"{busy}.incomplete"]


class TestLinksToElsewhere:
    """Whatever a link leads to stays."""

    @pytest.fixture
    def elsewhere(self, tmp_path: Path) -> Path:
        precious = tmp_path / "elsewhere" / "precious"
        precious.parent.mkdir()
        precious.write_bytes(b"x" * 50)
        return precious

    def test_a_linked_model(self, cache: Cache, elsewhere: Path) -> None:
        cache.directory("lab/big").symlink_to(elsewhere.parent)
        cache.receipt("lab/big")
        assert cache.models() == []
        assert cache.prune() == []
        assert elsewhere.exists()

    def test_a_linked_directory_in_a_snapshot(self, pasted: Cache, elsewhere: Path) -> None:
        pasted.receipt("lab/big", EXCLUDE)
        metal = pasted.directory("lab/big") / "snapshots" / COMMIT / "metal"
        (metal / "deep" / "model.bin").unlink()
        (metal / "deep").rmdir()
        (metal / "deep").symlink_to(elsewhere.parent)
        pasted.prune(in_use=("lab/big",))
        assert elsewhere.exists()

    def test_a_pointer_that_leads_out(self, pasted: Cache, elsewhere: Path) -> None:
        pasted.receipt("lab/big", EXCLUDE)
        pointer = pasted.directory("lab/big") / "snapshots" / COMMIT / "original" / "extra.bin"
        pointer.symlink_to(elsewhere)
        assert pasted.models()[0].unused_files == UNSERVED
        pasted.prune(in_use=("lab/big",))
        assert not pointer.is_symlink()
        assert elsewhere.exists()

    def test_an_unused_model_with_a_link_in_it(self, pasted: Cache, elsewhere: Path) -> None:
        pasted.receipt("lab/big")
        (pasted.directory("lab/big") / "snapshots" / "extra").symlink_to(elsewhere.parent)
        assert [removal.kind for removal in pasted.prune()] == ["model"]
        assert elsewhere.exists()

    def test_linked_blobs(self, cache: Cache, elsewhere: Path) -> None:
        part = elsewhere.parent / f"{'a' * 64}.incomplete"
        part.write_bytes(b"x")
        pointer = cache.directory("lab/big") / "snapshots" / COMMIT / "original" / "model.bin"
        pointer.parent.mkdir(parents=True)
        (cache.directory("lab/big") / "blobs").symlink_to(elsewhere.parent)
        pointer.symlink_to("../../../blobs/precious")
        cache.receipt("lab/big", EXCLUDE)
        cache.prune(in_use=("lab/big",))
        assert elsewhere.exists()
        assert part.exists()

# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this module util is internal to the collection; its interface may change at any time.

"""The models in a Hugging Face cache: how large they are, who fetched them, and which of their files are in no use."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import shutil
import typing as t
from pathlib import Path

from .._data.text import amount
from .disk import CachedRepository, ModelSpec, folder_name, is_wanted, lock_if_free, own_size, read_receipt

PREFIX = "models--"


class PruneError(Exception):
    """A removal failed. The text is one sentence with the fix."""


@dataclasses.dataclass(frozen=True)
class Piece:
    """Something in a model's directory, and what removing it gives back."""

    # Unserved: a directory such as original/ or a file, within the snapshots. A part: where it is.
    path: str
    bytes: int


@dataclasses.dataclass(frozen=True)
class CachedModel:
    """A model's directory in the cache."""

    id: str
    directory: str
    bytes_on_disk: int
    # It has a receipt, whose commit is in this cache.
    fetched_here: bool
    in_use: bool
    unused_files: tuple[Piece, ...]
    incomplete_downloads: tuple[Piece, ...]


@dataclasses.dataclass(frozen=True)
class Pointer:
    """A file in a snapshot. Its bytes lie in the blob that it links to; without one it is the file itself."""

    # Within its snapshot, as the Hub names it.
    name: str
    path: Path
    blob: Path | None
    bytes: int


def repository_name(folder: str) -> str:
    """Return the model whose directory in the cache has this name."""
    return folder[len(PREFIX) :].replace("--", "/", 1)


def model_directories(cache: Path) -> list[Path]:
    """Return the models' own directories; a link to elsewhere is not one."""
    try:
        entries = sorted(cache.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []
    return [path for path in entries if path.name.startswith(PREFIX) and path.is_dir() and not path.is_symlink()]


def pointers(directory: Path) -> list[Pointer]:
    """Return the files of all snapshots of a model. No linked directory is entered."""
    snapshots, blobs = directory / "snapshots", directory / "blobs"
    result: list[Pointer] = []
    if snapshots.is_symlink():
        return result
    for parent, _directories, names in os.walk(snapshots):
        within = Path(parent).relative_to(snapshots).parts
        # The first part is the commit.
        result += [_pointer(Path(parent) / name, "/".join((*within[1:], name)), blobs) for name in names if within]
    return result


def _pointer(path: Path, name: str, blobs: Path) -> Pointer:
    if not path.is_symlink():
        return Pointer(name, path, None, own_size(path))
    blob = Path(os.path.realpath(path))
    if blob.parent != Path(os.path.realpath(blobs)) or blobs.is_symlink() or not blob.is_file():
        return Pointer(name, path, None, 0)
    return Pointer(name, path, blob, own_size(blob))


def group_of(name: str) -> str:
    """Return the first part of a file's name: a directory such as original/, or the file itself."""
    first, slash, _rest = name.partition("/")
    return first + slash


@dataclasses.dataclass(frozen=True)
class UnusedFiles:
    """Files of a model that its patterns leave out."""

    pointers: tuple[Pointer, ...]
    # Only those that no served file needs, too.
    blobs: tuple[Path, ...]
    pieces: tuple[Piece, ...]


def unused_files(directory: Path, wanted: ModelSpec) -> UnusedFiles:
    """Return the files that the patterns exclude from all snapshots of a model."""
    everything = pointers(directory)
    surplus = [pointer for pointer in everything if not is_wanted(pointer.name, wanted)]
    served = {pointer.blob for pointer in everything if is_wanted(pointer.name, wanted)}
    groups: dict[str, int] = {}
    blobs: dict[Path, None] = {}
    for pointer in surplus:
        group = group_of(pointer.name)
        shared = pointer.blob is not None and (pointer.blob in served or pointer.blob in blobs)
        groups[group] = groups.get(group, 0) + (0 if shared else pointer.bytes)
        if pointer.blob is not None and not shared:
            blobs[pointer.blob] = None
    pieces = tuple(Piece(path, size) for path, size in sorted(groups.items()))
    return UnusedFiles(tuple(surplus), tuple(blobs), pieces)


def patterns_of(receipt: t.Mapping[str, t.Any] | None, name: str, wanted: t.Iterable[ModelSpec]) -> ModelSpec | None:
    """Return the served files of a model: by its receipt, else by the present request; None if unknown."""
    if receipt:
        include, exclude = receipt.get("include") or [], receipt.get("exclude") or []
        return ModelSpec(name, str(receipt["commit"]), tuple(include), tuple(exclude))
    return next((item for item in wanted if item.id == name), None)


def receipt_here(cache: Path, receipts: Path, name: str) -> dict[str, t.Any] | None:
    """Return a model's receipt if it speaks of this cache: receipts of another one must not decide what goes here."""
    receipt = read_receipt(receipts, name)
    return receipt if receipt and CachedRepository(cache, name).snapshot(receipt["commit"]).is_dir() else None


def parts(directory: Path) -> tuple[Piece, ...]:
    """Return the incomplete downloads of a model."""
    blobs = directory / "blobs"
    if blobs.is_symlink():
        return ()
    files = (path for path in sorted(blobs.glob("*.incomplete")) if path.is_file() and not path.is_symlink())
    return tuple(Piece(str(path), own_size(path)) for path in files)


def cached_models(
    cache: Path, receipts: Path, in_use: t.Collection[str], wanted: t.Iterable[ModelSpec] = ()
) -> list[CachedModel]:
    """Return all models of a cache. The presently requested files decide for a model without a receipt."""
    wanted = list(wanted)
    result = []
    for directory in model_directories(cache):
        name = repository_name(directory.name)
        receipt = receipt_here(cache, receipts, name)
        patterns = patterns_of(receipt, name, wanted)
        result.append(
            CachedModel(
                id=name,
                directory=str(directory),
                bytes_on_disk=CachedRepository(cache, name).bytes_on_disk(),
                fetched_here=receipt is not None,
                in_use=name in in_use,
                unused_files=unused_files(directory, patterns).pieces if patterns else (),
                incomplete_downloads=parts(directory),
            )
        )
    return result


@dataclasses.dataclass(frozen=True)
class Removal:
    """One thing to remove, and why."""

    # model, unserved or part; named if a user named it.
    kind: str
    id: str
    # The directory or part; of what is unserved, the path within the model.
    path: str
    bytes: int

    def line(self) -> str:
        words = {
            "model": f"{self.id}, which no deployment uses",
            "unserved": f"{self.path} of {self.id}, which is not served",
            "part": f"{Path(self.path).name} of {self.id}, an incomplete download",
        }
        # A model that the user named needs no reason.
        size = amount(self.bytes)
        return f"{self.id}, {size}" if self.kind == "named" else f"{words[self.kind]} ({size})"


def removals(models: t.Iterable[CachedModel]) -> list[Removal]:
    """Return what is unused of the models that were fetched here."""
    result = []
    for model in models:
        if not model.fetched_here:
            continue
        if not model.in_use:
            result.append(Removal("model", model.id, model.directory, model.bytes_on_disk))
            continue
        result += [Removal("unserved", model.id, piece.path, piece.bytes) for piece in model.unused_files]
        result += [Removal("part", model.id, piece.path, piece.bytes) for piece in model.incomplete_downloads]
    return result


class Prune:
    """Removes what is of no use. Never leaves a model's own directory."""

    def __init__(self, cache: Path, receipts: Path) -> None:
        self.cache = cache
        self.receipts = receipts

    def is_free(self, removal: Removal) -> bool:
        """Return whether a file is not being written. Only parts can be."""
        if removal.kind != "part":
            return True
        blob = Path(removal.path).name.partition(".")[0]
        with lock_if_free(CachedRepository(self.cache, removal.id).lock(blob)) as free:
            return free

    def remove(self, removal: Removal) -> None:
        try:
            kinds = {"model": self._model, "named": self._named, "unserved": self._unserved, "part": self._part}
            kinds[removal.kind](removal)
        except OSError as e:
            raise PruneError(
                f"{e.filename or removal.path} of the Hugging Face cache {self.cache} could not be removed "
                f"({e.strerror}): give the cache back to the login user with 'sudo chown -R', then run again"
            ) from e

    def _model(self, removal: Removal) -> None:
        folder = folder_name(removal.id)
        # The receipt goes last, so that a removal that was cut off is finished by the next one.
        for directory in (self.cache / folder, self.cache / ".locks" / folder):
            if directory.is_dir() and not directory.is_symlink():
                shutil.rmtree(directory)
        with contextlib.suppress(FileNotFoundError):
            (self.receipts / f"{folder}.json").unlink()

    def _named(self, removal: Removal) -> None:
        """Remove a model, which may be a link to another place."""
        folder = folder_name(removal.id)
        for path in (self.cache / folder, self.cache / ".locks" / folder):
            if path.is_symlink():
                path.unlink()
        self._model(removal)

    def holds(self, name: str) -> bool:
        """Return whether the cache has anything of a model."""
        folder = folder_name(name)
        places = (self.cache / folder, self.cache / ".locks" / folder, self.receipts / f"{folder}.json")
        return any(path.exists() or path.is_symlink() for path in places)

    def known(self) -> list[str]:
        """Return the models that have a receipt, whether anything else is there of them or not."""
        return sorted(repository_name(path.stem) for path in self.receipts.glob("models--*.json"))

    def named(self, name: str) -> Removal:
        model = CachedRepository(self.cache, name)
        return Removal("named", name, str(model.directory), model.bytes_on_disk())

    def _unserved(self, removal: Removal) -> None:
        directory = self.cache / folder_name(removal.id)
        patterns = patterns_of(receipt_here(self.cache, self.receipts, removal.id), removal.id, ())
        if patterns is None:
            return
        result = unused_files(directory, patterns)
        mine = [item for item in result.pointers if group_of(item.name) == removal.path]
        others = {item.blob for item in result.pointers if item not in mine}
        for pointer in mine:
            pointer.path.unlink()
            if pointer.blob in result.blobs and pointer.blob not in others:
                with contextlib.suppress(FileNotFoundError):
                    pointer.blob.unlink()
        for pointer in mine:
            remove_empty(pointer.path.parent, directory / "snapshots")

    def _part(self, removal: Removal) -> None:
        with contextlib.suppress(FileNotFoundError):
            Path(removal.path).unlink()


def remove_empty(directory: Path, top: Path) -> None:
    """Remove a directory and those above it, below the snapshot's own, as long as nothing is in them."""
    while directory.parent not in (top, directory) and top in directory.parents:
        try:
            directory.rmdir()
        except FileNotFoundError:
            pass
        except OSError:
            return
        directory = directory.parent

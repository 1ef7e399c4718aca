# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this module util is internal to the collection; its interface may change at any time.

"""Models in directories of their own: whether all that a server needs is there, and what identifies it."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import re
import stat
import typing as t
from pathlib import Path

from .._data.numbers import natural_int
from .._data.text import amount
from .._spark.lock import user_name
from .cache import model_directories, repository_name
from .config import CONFIG, INDEX, MOST_BYTES, ModelFiles, eagle_head, weight_files

POINTER = b"version https://git-lfs.github.com/spec/"
POINTER_BYTES = 1024
# More is refused by the format's own reader.
MOST_HEADER_BYTES = 100_000_000
SHARD = re.compile(r"(?P<stem>.+)-(?P<number>\d{5})-of-(?P<count>\d{5})(?P<ending>\.\w+)")
SNAPSHOT = re.compile(r"/models--(?P<folder>[^/]+)(/(blobs|refs|snapshots(/[^/]+)?))?/?$")
INDEXES = {".safetensors": INDEX, ".bin": "pytorch_model.bin.index.json"}
TOKENIZERS = frozenset(
    {"tokenizer.json", "tokenizer.model", "tekken.json", "spiece.model", "vocab.json", "vocab.txt", "vocabulary.json"}
)


class DirectoryError(Exception):
    """The path is no model. The text is one sentence with the fix."""


@dataclasses.dataclass(frozen=True)
class Link:
    """A symbolic link that leads nowhere where only its directory is seen."""

    path: str
    target: str
    dangling: bool


@dataclasses.dataclass(frozen=True)
class Contents:
    """All files of a directory by their relative paths, without hidden ones, such as those of git."""

    files: dict[str, os.stat_result]
    links: list[Link]

    def sizes(self) -> dict[str, int]:
        return {path: status.st_size for path, status in self.files.items()}

    def size(self) -> int:
        return sum(self.sizes().values())

    def fingerprint(self) -> str:
        """Another one whenever a file came, went or was written."""
        lines = (f"{path}\0{self.files[path].st_size}\0{self.files[path].st_mtime_ns}\n" for path in sorted(self.files))
        return hashlib.sha256("".join(lines).encode(errors="surrogateescape")).hexdigest()


def shown(names: t.Sequence[str], most: int = 3) -> str:
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")


def contents(directory: Path) -> Contents:
    """Return the contents of a directory as a server sees them."""
    result = Contents({}, [])
    # Anything may have been given, a whole disk too.
    is_model = (directory / CONFIG).is_file()
    for parent, directories, names in os.walk(directory):
        directories[:] = sorted(name for name in directories if not name.startswith("."))
        for name in sorted(name for name in (*directories, *names) if not name.startswith(".")):
            path = Path(parent, name)
            relative = str(path.relative_to(directory))
            try:
                status: os.stat_result | None = path.stat()
            except OSError:
                status = None
            if path.is_symlink() and (status is None or leads_outside(path, directory)):
                result.links.append(Link(relative, str(path.readlink()), status is None))
            if status and stat.S_ISREG(status.st_mode):
                result.files[relative] = status
        if Path(parent) != directory and not is_model:
            directories.clear()
    return result


def leads_outside(link: Path, directory: Path) -> bool:
    """Return whether a link breaks if its directory has another path, as in a container."""
    target = link.readlink()
    named = Path(os.path.normpath(link.parent.relative_to(directory) / target))
    reached, real = Path(os.path.realpath(link)), Path(os.path.realpath(directory))
    return target.is_absolute() or named.parts[:1] == ("..",) or real not in (reached, *reached.parents)


def look_into(path: Path) -> Contents:
    """Return the contents of a directory; raise DirectoryError if it is none or cannot be read."""
    if not path.is_absolute():
        raise DirectoryError(
            f"{path} is no absolute path: give the model's directory as it is called on the Spark, beginning with /"
        )
    try:
        mode = path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError) as error:
        raise DirectoryError(
            f"There is no directory {path} on this Spark: copy the model there, or correct the directory in the recipe"
        ) from error
    except PermissionError as error:
        raise _closed(path) from error
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise DirectoryError(
            f"The directory {str(path)[:200]!r} cannot be looked at ({reason}): correct it in the recipe, or repair it"
        ) from error
    if not stat.S_ISDIR(mode):
        raise DirectoryError(f"{path} is a file: give the directory of the whole model, such as {path.parent}")
    if not os.access(path, os.R_OK | os.X_OK, effective_ids=True):
        raise _closed(path)
    return contents(path)


def _closed(path: Path) -> DirectoryError:
    return DirectoryError(
        f"{user_name(os.geteuid())} may not look into {path}: allow it with 'sudo chmod -R a+rX {path}', and to "
        "enter each directory above it, then run again"
    )


class ModelDirectory:
    """One directory, and all that is wrong with it as a model."""

    def __init__(self, path: Path, is_draft: bool = False) -> None:
        self.path = path
        self.is_draft = is_draft
        self.contents = look_into(path)
        self.sizes = self.contents.sizes()
        self.top = [name for name in self.sizes if "/" not in name]
        self.files = ModelFiles(path)
        self.unreadable = [name for name in self.top if not os.access(path / name, os.R_OK, effective_ids=True)]
        self.pointers = [name for name in self.top if name not in self.unreadable and self._is_pointer(name)]

    def problems(self) -> list[str]:
        """Return a sentence each."""
        instead = self._cache() or self._above()
        if instead:
            return [instead]
        result = [self._permissions(), self._git_lfs(), self._config(), self._tokenizer(), *self._weights()]
        return [problem for problem in (*self._links(), *result) if problem]

    def _is_pointer(self, name: str) -> bool:
        if self.sizes[name] > POINTER_BYTES:
            return False
        return (self.path / name).read_bytes().startswith(POINTER)

    def _legible(self, name: str) -> bool:
        """Return whether a file's content can be checked; the reason is reported elsewhere."""
        return name in self.sizes and name not in self.unreadable and name not in self.pointers

    def _cache(self) -> str:
        """Return the path to give instead of a Hugging Face cache, or of one model's part of it."""
        if CONFIG in self.sizes:
            return ""
        part = SNAPSHOT.search(str(self.path))
        if part:
            cache = Path(str(self.path)[: part.start()])
            model = cache / f"models--{part['folder']}"
            return (
                f"{self.path} is a part of the Hugging Face cache and not a model's directory: give the model as id "
                f"{repository_name(model.name)} with huggingface_cache_directory {cache}, or "
                f"{_copy_of(_snapshot(model))}"
            )
        for root in (self.path, self.path / "hub"):
            models = model_directories(root)
            if models:
                names = shown([repository_name(model.name) for model in models])
                return (
                    f"{self.path} is a Hugging Face cache and not a model's directory: give a model in it as id "
                    f"({names}) with huggingface_cache_directory {root}, or {_copy_of(_snapshot(models[0]))}"
                )
        return ""

    def _above(self) -> str:
        """Return the fix for a directory that is no model's, perhaps one above it."""
        below = sorted(path.split("/")[0] for path in self.sizes if re.fullmatch(rf"[^/]+/{CONFIG}", path))
        if CONFIG in self.sizes or weight_files(self.sizes):
            return ""
        instead = f"give {shown([str(self.path / name) for name in below])}" if below else "copy the whole model there"
        return f"{self.path} has neither {CONFIG} nor weights and so is not a model's directory: {instead}"

    def _links(self) -> list[str]:
        outside = [f"{link.path} -> {link.target}" for link in self.contents.links if not link.dangling]
        dangling = [f"{link.path} -> {link.target}" for link in self.contents.links if link.dangling]
        result = []
        if outside:
            part = SNAPSHOT.search(str(self.path))
            instead = f"give the model as id {repository_name('models--' + part['folder'])}, or " if part else ""
            result.append(
                f"In {self.path}, {shown(outside, 2)} would lead nowhere, since a server is given only this directory: "
                f"{instead}{_copy_of(self.path)}"
            )
        if dangling:
            result.append(
                f"In {self.path}, {shown(dangling, 2)} could not be followed: copy the files themselves there, as "
                "'cp -rL' does where they are"
            )
        return result

    def _permissions(self) -> str:
        if not self.unreadable:
            return ""
        return (
            f"{user_name(os.geteuid())} may not read {shown(self.unreadable)} in {self.path}: allow it with "
            f"'sudo chmod -R a+rX {self.path}', then run again"
        )

    def _git_lfs(self) -> str:
        if not self.pointers:
            return ""
        stand = "are git-lfs pointers" if len(self.pointers) > 1 else "is a git-lfs pointer"
        return (
            f"{shown(self.pointers)} in {self.path} {stand} and not what git-lfs keeps for them: fetch that with "
            f"'git -C {self.path} lfs pull' where the repository was cloned, then run again"
        )

    def _config(self) -> str:
        if CONFIG not in self.sizes:
            return f"{self.path} has no {CONFIG} and so is not a model's directory: copy the whole model there"
        if not self._legible(CONFIG):
            return ""
        if not self.files.json(CONFIG):
            return f"{self.path / CONFIG} is not a model's configuration in JSON: copy or download it again"
        return ""

    def _tokenizer(self) -> str:
        # A draft works on the tokens of its target.
        if self.is_draft or eagle_head(self.files.json(CONFIG) or {}):
            return ""
        if any(name in TOKENIZERS or name.endswith(".tiktoken") for name in self.top):
            return ""
        return f"{self.path} has no tokenizer (tokenizer.json or tokenizer.model): copy the whole model there"

    def _weights(self) -> list[str]:
        weights = weight_files(self.sizes)
        kind = Path(next(iter(weights), "model.safetensors")).suffix
        index = INDEXES.get(kind, "")
        if index in self.sizes:
            problems = [self._indexed(index)]
        elif weights:
            problems = [self._numbered(weights)]
        else:
            problems = [f"{self.path} has no weights (*.safetensors or *.bin): copy the whole model there"]
        if kind == ".safetensors":
            problems += self._cut_off(name for name in weights if self._legible(name))
        return problems

    def _indexed(self, index: str) -> str:
        if not self._legible(index) or self.sizes[index] > MOST_BYTES:
            return ""
        shards = (self.files.json(index) or {}).get("weight_map")
        if not isinstance(shards, dict) or not shards or not all(isinstance(name, str) for name in shards.values()):
            return f"{self.path / index} is not an index of weights: copy or download it again"
        missing = sorted(set(shards.values()) - set(self.sizes))
        return self._missing(missing, f"{self.path / index} names") if missing else ""

    def _numbered(self, weights: t.Iterable[str]) -> str:
        """Return the shards that the names of the others imply."""
        there: dict[tuple[str, str, str], set[int]] = {}
        for name in weights:
            match = SHARD.fullmatch(name)
            if match:
                there.setdefault((match["stem"], match["count"], match["ending"]), set()).add(int(match["number"]))
        missing = []
        for (stem, count, ending), numbers in there.items():
            first = 0 if 0 in numbers and int(count) not in numbers else 1
            lacking = sorted(set(range(first, first + int(count))) - numbers)
            missing += [f"{stem}-{number:05}-of-{count}{ending}" for number in lacking]
        return self._missing(missing, f"The names of the weights in {self.path} tell of") if missing else ""

    @staticmethod
    def _missing(missing: t.Sequence[str], subject: str) -> str:
        absent = f"{len(missing)} files that are" if len(missing) > 1 else "a file that is"
        them = "them" if len(missing) > 1 else "it"
        return f"{subject} {absent} not there: {shown(missing)}. Copy or download {them}, then run again"

    def _cut_off(self, names: t.Iterable[str]) -> list[str]:
        result = [(name, header_problem(self.path / name)) for name in names]
        wrong = [f"{name} {problem}" for name, problem in result if problem]
        if not wrong:
            return []
        again = "them" if len(wrong) > 1 else "it"
        return [f"Weights in {self.path} are not whole: {shown(wrong)}. Copy or download {again} again"]


def _snapshot(model: Path) -> Path:
    """Return a snapshot in a model's part of the cache; a path of the usual form if there is none."""
    return next((path for path in sorted((model / "snapshots").glob("*")) if path.is_dir()), model / "snapshots/COMMIT")


def _copy_of(directory: Path) -> str:
    return f"copy it with 'cp -rL {directory} NEW' and give the directory NEW"


def header_problem(path: Path) -> str:
    """Return the problem with the length of a safetensors file: 8 bytes, a header of that length, the tensors."""
    size = path.stat().st_size
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        start = file.read(1)
        if size < 9 or (start == b"{" and length <= MOST_HEADER_BYTES and 8 + length > size):
            return "ends within its header"
        if not 2 <= length <= MOST_HEADER_BYTES or start != b"{":
            return "is not a file of safetensors"
        try:
            header = json.loads(start + file.read(length - 1))
            ends = [entry["data_offsets"][1] for name, entry in header.items() if name != "__metadata__"]
            if None in map(natural_int, ends):
                raise ValueError(ends)
            promised = 8 + length + max(ends, default=0)
        except (ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError):
            return "has a header that cannot be read"
    if size < promised:
        return f"lacks {amount(promised - size)}"
    return f"is {amount(size - promised)} too long" if size > promised else ""


def look_at(directories: t.Iterable[str], draft: str) -> tuple[dict[str, ModelDirectory], list[str]]:
    """Return the directories by their names, and all problems with them.

    Each problem is a sentence.
    """
    models: dict[str, ModelDirectory] = {}
    errors = []
    for name in dict.fromkeys(directories):
        try:
            models[name] = ModelDirectory(Path(name), is_draft=name == draft)
            errors += models[name].problems()
        except DirectoryError as error:
            errors.append(str(error))
        except OSError as error:
            failed = f"{error.filename or name} cannot be read ({error.strerror})"
            errors.append(f"{failed}: repair it or copy it again, then run again")
    return models, errors

# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this module util is internal to the collection; its interface may change at any time.

"""Gather facts around a Hugging Face cache: foreign owners, token files, settings of the login shell."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import pwd
import shlex
import signal
import subprocess
import sys
import tempfile
import typing as t
from pathlib import Path

from .._data.files import nearest_existing
from .._data.text import amount, join_words
from .._spark.lock import user_name
from .cache import CachedModel
from .disk import CachedRepository, ModelSpec, folder_name, is_unchanged, read_receipt, receipt_covers

VARIABLES = ("HF_HOME", "HF_HUB_CACHE")
TOKEN_FILES = ("token", "stored_tokens")
MARK = "dgx-spark-speculative-environment:"
# No quotation mark of a shell in it, and no exclamation mark.
ASK = f'import json, os; print("\\n{MARK}" + json.dumps({{n: os.environ.get(n) for n in {json.dumps(VARIABLES)}}}))'


class EnvironmentValueError(Exception):
    """A variable of the login shell cannot be used. The text is one sentence with the fix."""


@dataclasses.dataclass(frozen=True)
class ForeignPath:
    """A path that a run must write and another user has closed to the login user."""

    path: str
    owner: str
    # Its content must change its owner as well.
    recursive: bool

    def command(self, user: str) -> str:
        """Return the command for an administrator."""
        path = shlex.quote(self.path)
        if not Path(self.path).exists():
            return f"sudo install -d -o {user} {path}"
        return f"sudo chown {'-R ' if self.recursive else ''}{user}: {path}"


def is_verified(wanted: ModelSpec, cache: Path, receipts: Path) -> bool:
    """Return whether the receipt covers all requested files, so that a run writes nothing."""
    receipt = read_receipt(receipts, wanted.id)
    if receipt is None or not receipt_covers(receipt, wanted):
        return False
    with contextlib.suppress(PermissionError):
        return is_unchanged(receipt, CachedRepository(cache, wanted.id).snapshot(receipt["commit"]))
    return False


def foreign_paths(cache: Path, repositories: t.Iterable[str], user: int) -> list[ForeignPath]:
    """Return the paths in the cache that a download of these models must write and another user owns."""
    cache = Path(os.path.realpath(cache))
    if not cache.exists():
        top = nearest_existing(cache)
        return [] if os.access(top, os.W_OK | os.X_OK, effective_ids=True) else [_foreign(cache, top, False)]
    result = [_foreign(path, path, False) for path in (cache, cache / ".locks") if _is_foreign(path, user)]
    for repository in repositories:
        folder = folder_name(repository)
        for path in (cache / ".locks" / folder, cache / folder):
            stranger = first_foreign(path, user)
            if stranger:
                result.append(_foreign(path, stranger, True))
    return result


def _foreign(path: Path, owned: Path, recursive: bool) -> ForeignPath:
    return ForeignPath(str(path), user_name(owned.lstat().st_uid), recursive)


def _is_foreign(path: Path, user: int) -> bool:
    """Return whether a directory belongs to another user and is closed to this one. A shared cache stays as it is.

    A link is never foreign: its target is the decision of its owner, and nothing behind it changes its owner.
    """
    try:
        return path.is_dir() and not path.is_symlink() and _is_closed(path, user)
    except PermissionError:
        return False


def _is_closed(path: Path, user: int) -> bool:
    needed = os.W_OK | (os.X_OK if path.is_dir() else 0)
    return path.lstat().st_uid != user and not os.access(path, needed, effective_ids=True)


def first_foreign(top: Path, user: int) -> Path | None:
    """Return the directory itself or the first thing in it that a download must write and cannot."""
    if top.is_symlink() or not top.is_dir():
        return None
    for parent, _directories, names in os.walk(top):
        # Finished files are only read.
        written = (Path(parent) / name for name in names if name.endswith((".incomplete", ".lock")))
        for path in (Path(parent), *written):
            with contextlib.suppress(FileNotFoundError):
                if not path.is_symlink() and _is_closed(path, user):
                    return path
    return None


def token_files(cache: Path) -> list[str]:
    """Return the files with tokens that lie beside a cache. They are not opened."""
    return [str(cache.parent / name) for name in TOKEN_FILES if (cache.parent / name).is_file()]


def login_environment(user: int, limit: float = 5.0) -> dict[str, str | None]:
    """Return the user's values of VARIABLES from a login shell, or from this process if the shell has none."""
    account = pwd.getpwuid(user)
    here = {name: os.environ.get(name) for name in VARIABLES}
    answer = ask_shell(account.pw_shell or "/bin/sh", account.pw_dir, account.pw_name, limit)
    for line in reversed(answer.splitlines()):
        if line.startswith(MARK):
            with contextlib.suppress(ValueError, AttributeError, RecursionError):
                told = json.loads(line[len(MARK) :])
                return {name: value if isinstance(value := told.get(name) or None, str) else None for name in VARIABLES}
    return here


def ask_shell(shell: str, home: str, user: str, limit: float) -> str:
    """Return the output of an interactive login shell, with what its start-up files print; it is not kept."""
    environment = {**os.environ, "HOME": home, "USER": user, "LOGNAME": user, "SHELL": shell, "TERM": "dumb"}
    command = f"{shlex.quote(sys.executable)} -c '{ASK}'"
    # A file and not a pipe: a daemon that a start-up file leaves behind would keep a pipe open.
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as answer:
        try:
            process = subprocess.Popen(
                [shell, "-ilc", command],
                stdin=subprocess.DEVNULL,
                stdout=answer,
                stderr=subprocess.DEVNULL,
                cwd=home if Path(home).is_dir() else "/",
                env=environment,
                # Without a terminal nothing can be asked, and nothing waits for an answer.
                start_new_session=True,
            )
        except OSError:
            return ""
        try:
            process.wait(limit)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            return ""
        answer.seek(0)
        return answer.read()


def environment_directory(environment: t.Mapping[str, str | None], home: str) -> tuple[Path, str] | None:
    """Return the Hub cache that a variable sets for the user's own programs, and that variable."""
    for name, below in (("HF_HUB_CACHE", ""), ("HF_HOME", "hub")):
        value = environment.get(name)
        if value:
            text = home + value[1:] if value == "~" or value.startswith("~/") else value
            if not text.startswith("/"):
                raise EnvironmentValueError(
                    f"{name} of the login shell is '{value}', which is not an absolute path: correct it where the "
                    "shell sets it, or set huggingface_cache_from_environment to false"
                )
            return Path(text) / below, name
    return None


@dataclasses.dataclass(frozen=True)
class CacheFacts:
    """Everything that a statement is made of."""

    wanted: tuple[ModelSpec, ...]
    verified: frozenset[str]
    models: tuple[CachedModel, ...]
    foreign: tuple[ForeignPath, ...]
    neighbours: tuple[str, ...]
    directory: str
    # A different directory from a variable of the login shell, and its name.
    elsewhere: tuple[str, str] | None
    user: str
    take_over: bool


def statement(facts: CacheFacts) -> list[str]:
    """Return sentences on what is already present; empty if there is nothing to say."""
    lines = [*_unserved(facts), *_elsewhere(facts)]
    # A run that changes nothing need not repeat what it uses.
    if len(facts.verified) < len(facts.wanted):
        lines = [*_there(facts), *_owners(facts), *lines, *_tokens(facts)]
    return lines


def _there(facts: CacheFacts) -> list[str]:
    ids = [item.id for item in facts.wanted]
    there = {model.id: model for model in facts.models if model.id in ids}
    complete = [
        f"{name} ({amount(there[name].bytes_on_disk)})" for name in ids if name in facts.verified & there.keys()
    ]
    started = [f"{name} ({amount(there[name].bytes_on_disk)})" for name in ids if name in there.keys() - facts.verified]
    lines = [f"Complete already: {join_words(complete)}."] if complete else []
    if started:
        lines.append(
            f"Already in {facts.directory}: {join_words(started)}. What is complete is used and not fetched again."
        )
    return lines


def _owners(facts: CacheFacts) -> list[str]:
    owners: dict[str, list[str]] = {}
    for item in facts.foreign:
        owners.setdefault(item.owner, []).append(item.path + (" with all that is in it" if item.recursive else ""))
    if not facts.take_over:
        return [f"{owner} owns {join_words(paths)}." for owner, paths in owners.items()]
    return [
        f"{owner} owns {join_words(paths)}: before the download {'they are' if len(paths) > 1 else 'it is'} given to "
        f"{facts.user} (huggingface_cache_fix_ownership)."
        for owner, paths in owners.items()
    ]


def _unserved(facts: CacheFacts) -> list[str]:
    ids = {item.id for item in facts.wanted}
    lines = []
    for model in facts.models:
        size = sum(piece.bytes for piece in model.unused_files)
        if model.id in ids and size > 0:
            names = [piece.path for piece in model.unused_files if piece.bytes > 0]
            shown = join_words(names) if len(names) <= 4 else f"{len(names)} files and directories"
            later = "" if model.fetched_here else " once this run has ended"
            lines.append(
                f"{model.id} holds {shown}, {amount(size)} that are not served; remove them{later} with "
                "'cleanup.yml -e unused=true'."
            )
    return lines


def _elsewhere(facts: CacheFacts) -> list[str]:
    if not facts.elsewhere:
        return []
    path, variable = facts.elsewhere
    return [
        f"{variable} of the login shell leads to {path}, but {facts.directory} is used; set "
        "huggingface_cache_from_environment to true to use the former."
    ]


def _tokens(facts: CacheFacts) -> list[str]:
    if not facts.neighbours:
        return []
    lie, are = ("lie", "are") if len(facts.neighbours) > 1 else ("lies", "is")
    return [f"{join_words(facts.neighbours)} {lie} beside the cache and {are} not mounted into any container."]

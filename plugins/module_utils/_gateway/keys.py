# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this module util is internal to the collection; its interface may change at any time.

"""Keys for the proxy: one file a key, below a directory that only the login user may enter.

The name of a file is the name of its key. Next to them lie who asked for which, and what Caddy reads. Nothing here
hands out a key.
"""

from __future__ import annotations

import contextlib
import json
import re
import secrets
import stat
import typing as t
from pathlib import Path

from .._data.files import locked_directory
from .._spark.whole import write_whole

# Hidden names are free: a key's name does not begin with a dot.
OWNERS = ".owners.json"
ACCEPTED = ".accepted.caddy"

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
# Nothing that would mean something in a Caddyfile or in a header.
_KEY = re.compile(r"[A-Za-z0-9_-]{20,200}")
# The beginning by which people, and programs that look for leaked keys, know one.
_PREFIX = "sk-spark-"


class KeysError(Exception):
    """The keys cannot be set as requested. The text is one sentence for the user."""


class Change(t.NamedTuple):
    """The changes that were or would be made."""

    created: list[str]
    revoked: list[str]
    tightened: list[str]
    # Another file changes: the origins, the accepted keys, or the mode of the directory.
    rest: bool

    @property
    def any(self) -> bool:
        """Return whether there is a change."""
        return bool(self.created or self.revoked or self.tightened or self.rest)


def name_problem(name: str) -> str | None:
    """Return why this is no name of a key; None if it is one."""
    if _NAME.fullmatch(name):
        return None
    return (
        f"'{name}' is no name for a key: use 1 to 63 letters, digits, dots, dashes and underscores, and begin with a "
        "letter or a digit."
    )


def accepted_text(keys: t.Mapping[str, str]) -> str:
    """Return what Caddy imports: for each key, the requests that bring it, and a text by which they are counted."""
    lines = ["# Written by Ansible: the keys."]
    for name in sorted(keys):
        lines += [
            f'@key-{name} header Authorization "Bearer {keys[name]}"',
            f"handle @key-{name} {{",
            # A variable that is empty, because nothing sets it.
            f"\timport server {{http.vars.key-{name}}}",
            "}",
        ]
    return "\n".join([*lines, ""])


def owners_text(marks: t.Mapping[str, str]) -> str:
    """Return the stored names of the keys with their origins."""
    return json.dumps(dict(sorted(marks.items())), indent=2) + "\n"


class Keys:
    """The keys in one directory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def path(self, name: str) -> Path:
        """Return the path of a key."""
        return self._directory / name

    def owners(self) -> dict[str, str]:
        """Return the names of the keys with their origins."""
        path = self._directory / OWNERS
        data: t.Any = None
        try:
            data = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            data = {}
        except OSError as e:
            raise self._unreadable(path, e) from e
        except (ValueError, RecursionError):
            pass
        if not isinstance(data, dict):
            raise KeysError(f"{path} is no list of the keys' owners any more; remove it and run again.")
        return {name: str(data.get(name, "")) for name in self._found()}

    def ensure(self, names: t.Sequence[str], owner: str, dry: bool = False) -> Change:
        """Have the owner's keys be these and no others; keys of other owners stay."""
        change = self._ensure(names, owner, dry=True)
        if dry:
            return change
        with self._alone():
            return self._ensure(names, owner, dry=False)

    @contextlib.contextmanager
    def _alone(self) -> t.Iterator[None]:
        """Keep other runs out, which would write down what is accepted without this one's keys."""
        with contextlib.ExitStack() as stack:
            try:
                self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
                stack.enter_context(locked_directory(self._directory))
            except OSError as e:
                raise self._unwritable(e) from e
            yield

    def _ensure(self, names: t.Sequence[str], owner: str, dry: bool) -> Change:
        problems = [problem for problem in map(name_problem, names) if problem]
        owners = self.owners()
        problems += [
            f"There is a key '{name}' already, made for {owners[name]}; choose another name."
            for name in names
            if owners.get(name) not in (None, "", owner)
        ]
        if problems:
            raise KeysError(" ".join(problems))
        keys, loose = self._read(owners)
        created = [name for name in dict.fromkeys(names) if name not in owners]
        # A key without an origin was created by hand: it stays until a user names it.
        revoked = [name for name, whose in owners.items() if whose == owner and name not in names]
        kept = {name: key for name, key in keys.items() if name not in revoked}
        marks = {name: whose for name, whose in owners.items() if name not in revoked}
        kept.update({name: _PREFIX + secrets.token_urlsafe(32) for name in created})
        marks.update(dict.fromkeys(names, owner))
        stale = self._text(ACCEPTED) != accepted_text(kept) or self._text(OWNERS) != owners_text(marks)
        rest = stale or self._is_open()
        if not dry:
            self._apply(kept, marks, created, revoked, loose)
        return Change(created, revoked, loose, rest)

    def _is_open(self) -> bool:
        """Return whether other users may enter the directory."""
        return self._directory.is_dir() and stat.S_IMODE(self._directory.stat().st_mode) != 0o700

    def _apply(
        self,
        keys: t.Mapping[str, str],
        marks: t.Mapping[str, str],
        created: t.Sequence[str],
        revoked: t.Sequence[str],
        loose: t.Sequence[str],
    ) -> None:
        try:
            if self._is_open():
                self._directory.chmod(0o700)
            # The mark first: a key whose mark is missing would survive its revocation.
            self._write(OWNERS, owners_text(marks))
            for name in created:
                self._write(name, keys[name] + "\n")
            for name in loose:
                self.path(name).chmod(0o600)
            for name in revoked:
                self.path(name).unlink()
            self._write(ACCEPTED, accepted_text(keys))
        except OSError as e:
            raise self._unwritable(e) from e

    def _found(self) -> list[str]:
        try:
            return sorted(path.name for path in self._directory.iterdir() if not path.name.startswith("."))
        except FileNotFoundError:
            return []
        except OSError as e:
            raise self._unreadable(self._directory, e) from e

    def _read(self, owners: t.Iterable[str]) -> tuple[dict[str, str], list[str]]:
        """Return the keys, and the names of those that others may read, too."""
        keys: dict[str, str] = {}
        loose: list[str] = []
        problems: list[str] = []
        for name in owners:
            path = self.path(name)
            problem = name_problem(name)
            try:
                status = path.lstat()
                if problem or not stat.S_ISREG(status.st_mode):
                    problems.append(f"{path} is no key of this collection; take it out of the directory.")
                    continue
                key = path.read_text(encoding="ascii").strip()
            except UnicodeDecodeError:
                key = ""
            except OSError as e:
                problems.append(str(self._unreadable(path, e)))
                continue
            if not _KEY.fullmatch(key):
                problems.append(
                    f"{path} holds no key: it must be one line of 20 to 200 letters, digits, dashes and underscores. "
                    "Remove the file to get a new one."
                )
            elif key in keys.values():
                problems.append(f"{path} holds the same key as another file; remove one of them.")
            elif stat.S_IMODE(status.st_mode) & 0o077:
                loose.append(name)
            keys[name] = key
        if problems:
            raise KeysError(" ".join(problems))
        return keys, loose

    def _text(self, name: str) -> str:
        try:
            return (self._directory / name).read_text(encoding="utf-8")
        except (OSError, ValueError):
            return ""

    def _write(self, name: str, text: str) -> None:
        if self._text(name) == text:
            return
        write_whole(self._directory / name, text, 0o600)

    def _unwritable(self, error: OSError) -> KeysError:
        return KeysError(
            f"The keys in {self._directory} cannot be written ({error.strerror or error}); make the directory yours "
            f"with 'sudo chown -R $USER {self._directory}'."
        )

    @staticmethod
    def _unreadable(path: Path, error: OSError) -> KeysError:
        return KeysError(
            f"{path} cannot be read by the login user ({error.strerror or error}); give it back with "
            f"'sudo chown -R $USER {path.parent}' and 'chmod -R u=rwX,go= {path.parent}'."
        )

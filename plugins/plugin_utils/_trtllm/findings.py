# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this plugin util is internal to the collection; its interface may change at any time.

"""Collect the findings of the validation of engine options, and write their words."""

from __future__ import annotations

import dataclasses
import difflib
import json
import re
import typing as t


@dataclasses.dataclass(frozen=True)
class Finding:
    """One error or warning, and the dotted path of its option."""

    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}"


@dataclasses.dataclass
class Report:
    """The findings so far."""

    errors: list[Finding] = dataclasses.field(default_factory=list)
    warnings: list[Finding] = dataclasses.field(default_factory=list)

    def error(self, path: str, message: str) -> None:
        self.errors.append(Finding(path, message))

    def warn(self, path: str, message: str) -> None:
        self.warnings.append(Finding(path, message))


def shown(value: t.Any) -> str:
    """Return a value as it is written in YAML."""
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    if isinstance(value, (int, float)):
        return str(value)
    if isinstance(value, str):
        return f"'{value}'"
    return "a list" if isinstance(value, (list, tuple)) else "a mapping"


def seen(value: t.Any) -> str:
    return f"the text {shown(value)}" if isinstance(value, str) else shown(value)


def _folded(word: str) -> str:
    return re.sub(r"[\W_]+", "", word).lower()


def same_word(word: str, known: t.Iterable[str]) -> str | None:
    """Return the known word that differs only in case, dashes, blanks or underscores."""
    return next((other for other in known if _folded(other) == _folded(word)), None)


def is_misspelt(word: str, known: t.Iterable[str]) -> bool:
    """Return whether a word is so near a known one that it is a misspelling and no name of its own."""
    known = list(known)
    return same_word(word, known) is not None or bool(difflib.get_close_matches(word, known, n=1, cutoff=0.8))


def nearest(word: str, known: t.Iterable[str]) -> str | None:
    """Return the known word a writer most likely meant."""
    known = list(known)
    close = difflib.get_close_matches(word, known, n=1, cutoff=0.6)
    return same_word(word, known) or (close[0] if close else None)


def did_you_mean(word: str, known: t.Iterable[str]) -> str:
    close = nearest(word, known)
    return f"; did you mean '{close}'?" if close else ""

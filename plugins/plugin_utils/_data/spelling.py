# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this plugin util is internal to the collection; its interface may change at any time.

"""Find the known word that a misspelt one most likely means."""

from __future__ import annotations

import difflib
import re
import typing as t


def _folded(word: str) -> str:
    return re.sub(r"[\W_]+", "", word).lower()


def same_word(word: str, known: t.Iterable[str]) -> str | None:
    """Return the known word that differs only in case, dashes, blanks or underscores."""
    return next((other for other in known if _folded(other) == _folded(word)), None)


def is_misspelt(word: str, known: t.Iterable[str], likeness: float = 0.8) -> bool:
    """Return whether a word is so near a known one that it is a misspelling and no name of its own."""
    known = list(known)
    return same_word(word, known) is not None or bool(difflib.get_close_matches(word, known, n=1, cutoff=likeness))


def nearest(word: str, known: t.Iterable[str]) -> str | None:
    """Return the known word a writer most likely meant."""
    known = list(known)
    close = difflib.get_close_matches(word, known, n=1, cutoff=0.6)
    return same_word(word, known) or (close[0] if close else None)


def did_you_mean(word: str, known: t.Iterable[str]) -> str:
    close = nearest(word, known)
    return f"; did you mean '{close}'?" if close else ""

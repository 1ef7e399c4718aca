# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this module util is internal to the collection; its interface may change at any time.

"""How lines for people are laid out."""

from __future__ import annotations

import textwrap
import typing as t

WIDTH = 100


def wrapped(text: str, first: str = "", later: str = "", width: int = WIDTH) -> list[str]:
    """A text on as many lines as it needs. A word is kept whole: a path that was broken cannot be copied."""
    return textwrap.wrap(
        " ".join(text.split()),
        width,
        initial_indent=first,
        subsequent_indent=later,
        break_long_words=False,
        break_on_hyphens=False,
    )


def section(title: str, sentences: t.Iterable[str]) -> list[str]:
    """Sentences as a list under a title; nothing without sentences."""
    lines = [line for sentence in sentences for line in wrapped(sentence, "    - ", "      ")]
    return ["", f"  {title}:", *lines] if lines else []

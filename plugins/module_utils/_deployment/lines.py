# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this module util is internal to the collection; its interface may change at any time.

"""Lay out lines as wide as the terminal, but at most 100 columns."""

from __future__ import annotations

import re
import shlex
import textwrap
import typing as t

# The longest line that is easy to read, and the default if the width is unknown.
WIDTH = 100
LEAST = 40
# A label of a table with two columns: at most three words, and two spaces or more.
_ROW_LABEL = re.compile(r" *\S+(?: \S+){0,2} {2,}(?=\S)")


class Page:
    """Hold the layout of this process's lines.

    Only a callback knows the terminal: tasks run in forks of its process, which have none.
    """

    columns = WIDTH


def fit(columns: int) -> None:
    """Lay lines out for a terminal of so many columns."""
    Page.columns = max(LEAST, min(WIDTH, columns))


def width() -> int:
    """Return the maximum width of a line."""
    return Page.columns


def printable(text: str) -> str:
    """Return a text without characters that move the cursor, clear the screen or reverse the writing."""
    return "".join(character if character.isprintable() else " " for character in text)


def wrap_text(text: str, first: str = "", later: str = "", columns: int | None = None) -> list[str]:
    """Wrap a text. Words are never split, because a broken path cannot be copied."""
    return textwrap.wrap(
        " ".join(text.split()),
        columns or width(),
        initial_indent=first,
        subsequent_indent=later,
        break_long_words=False,
        break_on_hyphens=False,
    )


def fit_lines(lines: t.Iterable[str]) -> list[str]:
    """Return the lines, each too long one wrapped: below its text if a label and two spaces precede it."""
    result = []
    for line in lines:
        if len(line) <= width():
            result.append(line)
        elif label := _ROW_LABEL.match(line):
            result += wrap_text(line[label.end() :], label[0], " " * label.end())
        else:
            own = line[: len(line) - len(line.lstrip())]
            result += wrap_text(line, own, f"{own}  ")
    return result


def section(title: str, sentences: t.Iterable[str]) -> list[str]:
    """Sentences as a list under a title; nothing without sentences."""
    lines = [line for sentence in sentences for line in wrap_text(sentence, "    - ", "      ")]
    return ["", f"  {title}:", *lines] if lines else []


def command(words: t.Iterable[str], indent: str = "    ") -> list[str]:
    """Return a command as lines that can be copied: each but the last ends with a backslash."""
    lines: list[str] = []
    for word in words:
        if lines and len(lines[-1]) + 1 + len(word) <= width() - 2:
            lines[-1] += f" {word}"
        else:
            lines.append(f"{indent}  {word}" if lines else f"{indent}{word}")
    return [f"{line} \\" for line in lines[:-1]] + lines[-1:]


def quote_words(words: t.Iterable[str]) -> list[str]:
    """Words as a shell takes them; an option stays beside its value."""
    result: list[str] = []
    for word in words:
        # A home directory is the shell's to find.
        home, path = ("~/", word[2:]) if word.startswith("~/") else ("", word)
        word = home + shlex.quote(path)
        if result and result[-1].startswith("-") and " " not in result[-1] and not word.startswith("-"):
            result[-1] += f" {word}"
        else:
            result.append(word)
    return result

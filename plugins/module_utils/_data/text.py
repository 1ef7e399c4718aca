# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this module util is internal to the collection; its interface may change at any time.

"""Write lists, lines, hosts, bytes and seconds as text."""

from __future__ import annotations

import typing as t


def join_words(words: t.Iterable[str]) -> str:
    """Return words as in a sentence: a, b and c."""
    items = list(words)
    return " and ".join([", ".join(items[:-1]), items[-1]] if len(items) > 1 else items)


def shorten(text: str, longest: int) -> str:
    """Return a text of so many characters at most, which ends with dots if it was longer."""
    return text if len(text) <= longest else text[: longest - 3] + "..."


def one_line(text: str, longest: int = 300) -> str:
    """Text for a message: no line breaks, not endless."""
    return shorten(" ".join(text.split()), longest)


def clause(text: str) -> str:
    """Return a text of another program as part of a sentence: on one line, without its full stop."""
    return " ".join(text.split()).rstrip(".")


def count_noun(number: int, noun: str) -> str:
    """Return a number with its noun: 1 file, 2 files."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def in_brackets(host: str) -> str:
    """Return a host as it stands before a port and in a URL: an IPv6 address is in brackets."""
    return f"[{host}]" if ":" in host else host


def amount(size: float) -> str:
    """Return a number of bytes in words: 130 GB, 65.2 GB, 431 MB, 12 kB."""
    for divisor, unit in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if size >= divisor:
            value = size / divisor
            return f"{value:.0f} {unit}" if value >= 100 or divisor < 1e6 else f"{value:.1f} {unit}"
    return f"{size:.0f} bytes"


def duration(seconds: float) -> str:
    """Return about how long something takes, in one or two units: 24 s, 8 min, 5 h 10 min, 3 days 4 h."""
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    minutes = round(seconds / 60)
    if minutes < 90:
        return f"{minutes} min"
    days, hours, minutes = minutes // 1440, minutes // 60 % 24, minutes % 60
    if days:
        return count_noun(days, "day") + (f" {hours} h" if hours else "")
    return f"{hours} h" + (f" {minutes} min" if minutes else "")


def elapsed(seconds: float) -> str:
    """Return for how long something has run, as a counter of whole seconds: 59 s, 2 min 10 s, 1 h 5 min."""
    minutes, rest = divmod(int(seconds), 60)
    if not minutes:
        return f"{rest} s"
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def clock(seconds: float) -> str:
    """Return a measured time for a column of times: 11.9 s, 31:07 min, 1:02 h."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}:{rest:02} min" if minutes < 60 else f"{minutes // 60}:{minutes % 60:02} h"

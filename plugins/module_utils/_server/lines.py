# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this module util is internal to the collection; its interface may change at any time.

"""Read the end of a server's log, which may begin in the older file beside it."""

from __future__ import annotations

from pathlib import Path

from .._data.files import read_end
from .._engines.registry import START_MARKERS
from .log import strip_noise
from .marks import BEGIN_MARKER, END_MARKER, ENTRYPOINT_MARK

LEAST_BYTES = 4 * 1024 * 1024
BYTES_A_LINE = 1000


def last_run(lines: list[str]) -> list[str]:
    """Return the lines since the last start of the server, even if it has ended since."""
    begin = 0
    for index, line in enumerate(lines):
        if line.startswith(BEGIN_MARKER):
            begin = index
        elif line.startswith(END_MARKER) and any(
            rest.strip() and not rest.startswith(ENTRYPOINT_MARK) for rest in lines[index + 1 :]
        ):
            begin = index + 1
    return lines[begin:]


def _is_whole(lines: list[str]) -> bool:
    """Return whether a file contains the start of its last run."""
    marks = (BEGIN_MARKER, END_MARKER)
    return any(line.startswith(marks) or any(mark in line for mark in START_MARKERS) for line in lines)


def _prepared(text: str, raw: bool) -> list[str]:
    lines = (text if raw else strip_noise(text)).split("\n")
    return lines[:-1] if lines and not lines[-1] else lines


def last_lines(path: Path, count: int, raw: bool = False, all_runs: bool = False) -> tuple[list[str], bool]:
    """Return the last lines, and whether there are more. Raise OSError if no log can be read."""
    most = max(LEAST_BYTES, count * BYTES_A_LINE)
    text, cut = read_end(path, most)
    lines = _prepared(text, raw)
    older = path.with_name(path.name + ".1")
    if len(lines) < count and not cut and (all_runs or not _is_whole(lines)) and older.is_file():
        text, cut = read_end(older, most)
        lines = _prepared(text, raw) + lines
    chosen = lines if all_runs else last_run(lines)
    return chosen[-count:], len(chosen) > count or (cut and len(chosen) == len(lines))

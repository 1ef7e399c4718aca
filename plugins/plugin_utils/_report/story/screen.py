# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this plugin util is internal to the collection; its interface may change at any time.

"""Print lines and, on a terminal, redraw a status line below them."""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
import threading
import typing as t
import unicodedata

from ....module_utils._deployment.lines import WIDTH, fit, printable

WARNINGS = ("[WARNING]: ", "[DEPRECATION WARNING]: ")
COMMAND = "ansible-playbook "
# Without a terminal, the interval between lines about a long step.
NOTE_EVERY_S = 10
NO_TERMINAL = (WIDTH, 24)


class Progress(str):
    """The progress of long work. Only the last one counts."""


class Report(str):
    """A task's report, with a short form for a run that has changed nothing. Other callbacks show the whole report."""

    short: str | None

    def __new__(cls, text: str, short: str | None = None) -> Report:
        made = super().__new__(cls, text)
        made.short = short
        return made


def terminal() -> int:
    """Return the width of the terminal."""
    return max(20, shutil.get_terminal_size(NO_TERMINAL).columns)


def width() -> int:
    """Return the width of lines: that of the terminal, but at most that of a report."""
    return min(WIDTH, terminal())


def folded(text: str) -> str:
    return " ".join(text.split()).rstrip(". ")


def cells(text: str) -> int:
    """Return the cells of a terminal that a text needs. Some characters need two."""
    return sum(2 if unicodedata.east_asian_width(character) in "WF" else 1 for character in text)


def cut(texts: t.Sequence[str], room: int) -> str:
    """Return the first text that fits into this many cells; if none does, both ends of the last one."""
    *_others, text = shown = [printable(text) for text in texts]
    for candidate in shown:
        if cells(candidate) <= room:
            return candidate
    middle = len(text) // 2
    head, tail = text[:middle], text[middle:]
    while head and cells(f"{head}...{tail}") > room:
        # The end often has the time that is left.
        head, tail = (head[:-1], tail) if cells(head) >= cells(tail) else (head, tail[1:])
    return f"{head}...{tail}"


def wrap(text: str, first: str = "", further: str = "", columns: int | None = None) -> list[str]:
    """Wrap each line of a text and keep its indentation. Names, links and commands are not split."""
    lines: list[str] = []
    for line in text.splitlines() or [""]:
        own = line[: len(line) - len(line.lstrip())]
        # Continuation lines of an item are aligned with its text.
        head, rest = (first if not lines else further) + own, further + own + "  " * line.lstrip().startswith("- ")
        words = printable(line).strip()
        if words.startswith(COMMAND):
            # On two lines, a command could not be copied.
            lines.append(head + words)
            continue
        wrapped = textwrap.wrap(
            words,
            columns or width(),
            initial_indent=head,
            subsequent_indent=rest,
            break_long_words=False,
            break_on_hyphens=False,
        )
        lines += wrapped or [head.rstrip()]
    return lines


class Screen:
    """Filter of everything that Ansible displays, so that nothing is printed into the status line."""

    def __init__(self, display: t.Any, clock: t.Callable[[], float]) -> None:
        self._display = display
        self._clock = clock
        self._print = display.display
        self._process = os.getpid()
        self._lock = threading.RLock()
        self._drawn = False
        self._warnings: list[tuple[t.Any, ...]] = []
        self._noted: dict[str, float] = {}
        self.draws = sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb"
        # Texts from other sources than this story, such as a report.
        self._shown: list[str] = []
        self.on_progress: t.Callable[[str], None] = self.show
        # True if reports are shown in their short form, because nothing was changed.
        self.in_short: t.Callable[[], bool] = lambda: False
        self.fit()
        display.display = self._displayed

    @staticmethod
    def fit() -> None:
        """Set the current width of the terminal for the lines of tasks."""
        fit(terminal())

    def release(self) -> None:
        """Give the display back to Ansible and show the collected warnings."""
        self.erase()
        vars(self._display).pop("display", None)
        self.warn()

    def warn(self) -> None:
        """Show the collected warnings."""
        self.erase()
        read = folded("\n".join(self._shown))
        for message, arguments, options in self._warnings:
            # A report may already contain the warning.
            if folded(str(message).partition("]: ")[2]) not in read:
                self._print("\n".join(wrap(str(message), "", "  ")), *arguments, **options)
        self._warnings.clear()

    @property
    def others(self) -> int:
        """Return how many texts from other sources were displayed."""
        return len(self._shown)

    def _displayed(self, msg: str, *arguments: t.Any, **options: t.Any) -> None:
        # A worker sends its text to the main process, which calls this again.
        if os.getpid() != self._process:
            self._print(msg, *arguments, **options)
        elif isinstance(msg, Progress):
            self.on_progress(msg)
        elif options.get("stderr") and str(msg).startswith(WARNINGS):
            self._warnings.append((msg, arguments, options))
        else:
            with self._lock:
                # A secret is for the screen only. Even with a short report, its full text counts as shown.
                self._shown.append("" if options.get("screen_only") else str(msg))
                if isinstance(msg, Report) and msg.short is not None and self.in_short():
                    msg = msg.short
                if msg:
                    self.erase()
                    self._print(msg, *arguments, **options)

    def show(self, text: str, color: str | None = None, stderr: bool = False) -> None:
        """Print a text permanently."""
        with self._lock:
            self.erase()
            self._print(text, color=color, stderr=stderr)
            # If output is a pipe, its reader needs the text now.
            sys.stdout.flush()

    def erase(self) -> None:
        with self._lock:
            if self._drawn:
                sys.stdout.write("\r\033[2K")
                sys.stdout.flush()
                self._drawn = False

    def draw(self, texts: t.Sequence[str]) -> None:
        """Draw the first of the texts that fits as the status line, if there is a terminal."""
        if self.draws:
            with self._lock:
                # The last cell stays empty: with it, some terminals begin a new line.
                sys.stdout.write("\r\033[2K" + cut(texts, terminal() - 1))
                sys.stdout.flush()
                self._drawn = True

    def note(self, about: str, texts: t.Sequence[str], since: float) -> None:
        """Draw the status line. Without a terminal, print the first text every NOTE_EVERY_S seconds."""
        now = self._clock()
        if self.draws:
            self.draw(texts)
        elif now - self._noted.get(about, since) >= NOTE_EVERY_S:
            self._noted[about] = now
            self.show(texts[0])

# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this module util is internal to the collection; its interface may change at any time.

"""Read the log of a server: why it died, how far it has loaded."""

from __future__ import annotations

import re
import typing as t

from .._data.problem import CAUSE, HINT, INFORMATION, LOG, WARNING, WRAPPER, KnownProblem
from .._data.text import shorten
from .._engines.registry import LOGS, STAGES, START_MARKERS
from .._problems.catalogue import CATALOGUE
from .marks import BEGIN_MARKER, END_MARKER, ENTRYPOINT_MARK

ROWS = tuple(row for row in CATALOGUE if row.where == LOG)
_ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
# What the launcher of ranks writes before each of their lines.
_TAG = re.compile("|".join(f"^{log.tag}" for log in LOGS.values() if log.tag), re.MULTILINE)
# What engines write before a message, and uvicorn after that.
_PREFIX = re.compile(
    rf"^(?:(?:{'|'.join(prefix for log in LOGS.values() for prefix in log.prefixes)})\s*)*"
    r"(?:(?:ERROR|WARNING|INFO):\s+)?"
)
_ERROR_LEVEL = re.compile(r"\[(?:E|ERROR)\]|^(?:ERROR|Error|error|fatal|FATAL)\b|Segfault|Segmentation fault")
# Some bars have a word instead of blocks.
_BAR = re.compile(r"\d%(?:\|[^|]{0,300}| Completed )\|\s{0,20}(?P<done>\d{1,20})/(?P<total>\d{1,20})\b")
_EXCEPTION = re.compile(r"^(?:\w+\.)*(?:[A-Z]\w*(?:Error|Exception|Exit|Interrupt|Failure)|Exception)(?::\s.*|:?)$")
_TYPE_TAIL = re.compile(r"\s*\[type=.*$")
# The access lines of looks at the server are noise, too: the watchdog's, the probe's and those of other monitoring.
_NOISE = re.compile(
    r"^[\s\-=*_+^~]*$|^\s*For further information visit |\?asked-by=watchdog HTTP"
    rf'|"GET /(?:health|version|v1/models|{"|".join(log.metrics for log in LOGS.values())})\S* HTTP/[\d.]+" 200'
)
_LONGEST = 300
# The server has generated text, for a client or for the watchdog; a stream is logged when it begins.
_ANSWERED = re.compile(r'"POST /v1/(?:chat/)?completions\S* HTTP/[\d.]+" 200')
# No useful line is longer, and an endless one would occupy these expressions for hours.
_LONGEST_LINE = 20_000


class Reason(t.NamedTuple):
    """The reason of a server's end: a line of its log, and the catalogue row that recognises it, if any."""

    line: str
    problem: KnownProblem | None


class Progress(t.NamedTuple):
    """The loading progress of a server. `percent` is within the step that `text` names."""

    percent: float | None
    text: str


def _collapse(text: str) -> list[str]:
    """Return the text as a terminal shows it: without overwritten lines, colours and the launcher's tags."""
    lines = []
    for line in _TAG.sub("", _ANSI.sub("", text)).split("\n"):
        states = [state for state in line.split("\r") if state.strip()]
        lines.append(states[-1][:_LONGEST_LINE].rstrip() if states else "")
    return lines


def strip_noise(text: str) -> str:
    """Return the log without progress bars, overwritten lines, colours and lines without information."""
    return "\n".join(line for line in _collapse(text) if not _is_noise(line))


def _is_noise(line: str) -> bool:
    return bool(_NOISE.search(line) or _BAR.search(line))


def clean_line(line: str) -> str:
    """One line without the time, level and rank before its message."""
    return _PREFIX.sub("", line.strip()).strip()


def problem_for(line: str) -> KnownProblem | None:
    """Return the first row of the catalogue that knows the line."""
    return next((row for row in ROWS if row.knows(line)), None)


def _by_catalogue(lines: list[str], severity: str) -> Reason | None:
    for row in ROWS:
        if row.severity != severity:
            continue
        result = [index for index, line in enumerate(lines) if row.knows(line)]
        for index in reversed(result):
            if row.after and row.after in "".join(lines[index + 1 : index + 2]):
                return Reason(f"{clean_line(lines[index])} {clean_line(lines[index + 1])}", row)
        if result:
            line = _with_option(lines, result[-1]) if row.before else clean_line(lines[result[-1]])
            return Reason(line, row)
    return None


def _with_option(lines: list[str], index: int) -> str:
    line = _TYPE_TAIL.sub("", clean_line(lines[index]))
    option = clean_line(lines[index - 1]) if index else ""
    # Only an indented message has a place, such as speculative_config.Eagle3.key.
    if lines[index][:1].isspace() and re.fullmatch(r"[\w.\[\]()-]+", option):
        return f"{option}: {line}"
    return line


def _last_exception(lines: list[str], of_requests: bool = False) -> str | None:
    in_traceback = False
    result = None
    for before, raw in zip(["", *lines], lines):
        line = clean_line(raw)
        if line.startswith("Traceback (most recent call last):"):
            row = problem_for(before)
            in_traceback = of_requests or row is None or row.severity != INFORMATION
        elif in_traceback and _EXCEPTION.match(line):
            in_traceback = False
            row = problem_for(line)
            if row is None or row.severity != WRAPPER:
                result = line
    return result


def _after_wrapper(lines: list[str]) -> str | None:
    """Return the text after the colon of a generic line, or the line that follows it."""
    for index in range(len(lines) - 1, -1, -1):
        row = problem_for(lines[index])
        if row is None or row.severity != WRAPPER:
            continue
        line = clean_line(lines[index])
        part = next(part for part in row.substrings if part in line)
        rest = line.split(part, 1)[1]
        has_reason = part.endswith(":") or rest.startswith(":")
        if has_reason and (rest := rest.strip(" :.")):
            return rest
        follower = clean_line(lines[index + 1]) if index + 1 < len(lines) else ""
        if row.id == "arguments_refused" and follower and not follower.startswith("Traceback"):
            return follower
    return None


def _outside_tracebacks(lines: list[str]) -> t.Iterator[str]:
    """Yield the lines without those of tracebacks before their exceptions: some engines give each one a level."""
    ends = [index for index, line in enumerate(lines) if _EXCEPTION.match(clean_line(line))]
    begin = 0
    for index, line in enumerate(lines):
        if index >= begin and clean_line(line).startswith("Traceback (most recent call last):"):
            begin = next((end for end in ends if end > index), index + 1)
        if index >= begin:
            yield line


def _last_error(lines: list[str]) -> str | None:
    for raw in reversed(list(_outside_tracebacks(lines))):
        row = problem_for(raw)
        if (_ERROR_LEVEL.search(raw) or _ERROR_LEVEL.search(clean_line(raw))) and not (
            # Harmless lines are often taken for an error.
            row and row.severity in (WRAPPER, INFORMATION)
        ):
            return clean_line(raw)
    return None


def _last_start(lines: list[str]) -> list[str]:
    for index in range(len(lines) - 1, -1, -1):
        if any(marker in lines[index] for marker in START_MARKERS):
            return lines[index:]
    return lines


def _since_last_answer(lines: list[str]) -> list[str]:
    for index in range(len(lines) - 1, -1, -1):
        if _ANSWERED.search(lines[index]):
            return lines[index + 1 :]
    return []


def _cause_in(lines: list[str]) -> Reason | None:
    known = _by_catalogue(lines, CAUSE)
    if known:
        return known
    exception = _last_exception(lines)
    if exception:
        return Reason(exception, problem_for(exception))
    hint = _by_catalogue(lines, HINT)
    if hint:
        return hint
    line = _after_wrapper(lines) or _last_error(lines)
    return Reason(line, problem_for(line)) if line else None


def reason(text: str) -> Reason | None:
    """Return why the server died; None if the log does not show it.

    Looks at the last run that ended. An error after which the server has answered is older than the reason, so the
    part after the last answer is searched first. With mpirun, one process may die before another one writes its start
    marker, so the part after the last marker is searched next, and then the whole run. A known problem counts more
    than an unknown error, and a generic line only when there is nothing else.
    """
    run = _last_ended_run([line for line in _collapse(text) if _ANSWERED.search(line) or not _is_noise(line)])
    unknown = None
    for lines in (_since_last_answer(run), _last_start(run), run):
        result = _cause_in(lines)
        if result and result.problem:
            return Reason(shorten(result.line, _LONGEST), result.problem)
        unknown = unknown or result
    result = unknown or _by_catalogue(run, WRAPPER)
    line = result.line if result else _last_exception(run, of_requests=True)
    return Reason(shorten(line, _LONGEST), result.problem if result else None) if line else None


def cause_line(text: str) -> str | None:
    """Return the line with the reason of the server's end; None without one."""
    cause = reason(text)
    return cause.line if cause else None


def remarks(text: str) -> list[Reason]:
    """Return the lines of the last run that match a row which does not stop a server, each row once."""
    lines = _last_start([line for line in _collapse(text) if not line.startswith(ENTRYPOINT_MARK)])
    result = []
    for row in ROWS:
        if row.severity in (WARNING, INFORMATION):
            matching = [line for line in lines if row.knows(line)]
            if matching and (not row.standing or _stands(matching[-1], lines)):
                result.append(Reason(shorten(clean_line(matching[-1]), _LONGEST), row))
    return result


def _stands(line: str, lines: list[str]) -> bool:
    """Return whether a line has had no effect yet: its counter is 0, or it is the last line with information."""
    count = _count(line)
    last = next((line for line in reversed(lines) if not _NOISE.search(line)), None)
    return count[0] == 0 if count else line == last


def last_lines(text: str, count: int) -> list[str]:
    """Return the end of a log without noise."""
    lines = [line for line in strip_noise(text).split("\n") if line.strip()]
    return [shorten(line.rstrip(), _LONGEST) for line in lines[-count:]]


def after_last_end(text: str) -> str:
    """Return the log since a server ended or was started last."""
    begin = max(text.rfind(BEGIN_MARKER), text.rfind(END_MARKER))
    return text[begin:].partition("\n")[2] if begin >= 0 else text


def _last_ended_run(lines: list[str]) -> list[str]:
    ends = [index for index, line in enumerate(lines) if line.startswith(END_MARKER)]
    return _running(lines[: ends[-1]] if ends else lines)


def _running(lines: list[str]) -> list[str]:
    """Return the log of the run that has not ended."""
    marks = [index for index, line in enumerate(lines) if line.startswith((BEGIN_MARKER, END_MARKER))]
    begin = marks[-1] + 1 if marks else 0
    return [line for line in lines[begin:] if not line.startswith(ENTRYPOINT_MARK)]


def _count(line: str) -> tuple[int, int] | None:
    match = _BAR.search(line)
    return (int(match.group("done")), int(match.group("total"))) if match else None


def loading_progress(text: str) -> Progress | None:
    """Return the last step in the log of a starting server; None if there is nothing to read."""
    meaningful = None
    for raw in reversed(_last_start(_running(_collapse(text)))):
        line = clean_line(raw)
        for stage in STAGES:
            if any(part in line for part in stage.substrings):
                count = _count(line)
                if count and count[1]:
                    done, total = count
                    return Progress(round(100.0 * done / total, 1), f"{stage.text} {done} of {total}")
                return Progress(None, stage.text)
        if meaningful is None and line and not _NOISE.search(raw) and not _BAR.search(raw):
            meaningful = line
    if meaningful is None:
        return None
    return Progress(None, f"waiting: {meaningful[:120]}")

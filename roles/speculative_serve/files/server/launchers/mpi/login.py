# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The forced command of a worker's sshd: it starts Open MPI's daemon or informs the memory guard, and nothing else.

The daemon gets the environment of the worker's container, which a login lacks, with the worker's own interface names.
Before that, all processes of an earlier rank are ended, in any session.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import signal
import sys
import time
import typing as t
from pathlib import Path

from server import nccl
from server.cluster import HEARD, READY, RUN
from server.processes import KILL_WITHIN_S, Process, descendants, processes

DAEMONS = ("orted", "prted")
# Variables that mpirun sets for its daemon.
SETTABLE = ("PATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "OPAL_PREFIX", "PRTE_PREFIX", "PMIX_PREFIX")
VARIABLE = re.compile(r"\$(?:\{(?P<braced>\w+)(?::[-+](?P<colon>:?))?\}|(?P<plain>\w+))")


class Refused(Exception):
    """A command that is not one of mpirun's."""


def daemon_command(line: str, environment: t.Mapping[str, str]) -> tuple[list[str], dict[str, str]]:
    """Return the command line of mpirun's daemon, and the environment with the variables that mpirun sets.

    No shell sees the line. It is 'NAME=value; export NAME; ... /path/orted -mca ...', where a value may hold on to
    the variable's old one; anything else is refused.
    """
    lexer = shlex.shlex(line, posix=True, punctuation_chars=";&|<>()`\n")
    lexer.whitespace = " \t"
    lexer.whitespace_split = True
    lexer.commenters = ""
    result = dict(environment)
    try:
        words = list(lexer)
    except ValueError as error:
        raise Refused(str(error)) from error
    statements: list[list[str]] = [[]]
    for word in words:
        if word == ";":
            statements.append([])
        else:
            statements[-1].append(word)
    *settings, command = [statement for statement in statements if statement] or [[]]
    for setting in settings:
        name, equals, value = setting[0].partition("=")
        if len(setting) == 1 and equals and name in SETTABLE:
            result[name] = expand(value, result)
        elif len(setting) != 2 or setting[0] != "export" or setting[1] not in SETTABLE:
            raise Refused(f"'{' '.join(setting)[:80]}' is nothing that mpirun asks for")
    if not command or os.path.basename(command[0]) not in DAEMONS:  # noqa: PTH119 (a command)
        raise Refused(f"'{' '.join(command)[:80]}' is not mpirun's daemon")
    for word in command:
        if set(word) & set("`$\n") or word[:1] in tuple("&|<>()"):
            raise Refused(f"'{word[:80]}' is nothing that mpirun passes to its daemon")
    return command, result


def expand(value: str, environment: t.Mapping[str, str]) -> str:
    """$NAME, ${NAME}, ${NAME:-} and ${NAME:+:}, which is all that mpirun writes."""

    def replace(match: re.Match[str]) -> str:
        known = environment.get(match["braced"] or match["plain"], "")
        return match["colon"] if match["colon"] and known else known

    if set(VARIABLE.sub("", value)) & set("$`"):
        raise Refused(f"'{value[:80]}' is no value that mpirun sets")
    return VARIABLE.sub(replace, value)


def with_own_interfaces(command: list[str], environment: t.Mapping[str, str]) -> list[str]:
    """Return the daemon's command with this Spark's interface names: mpirun only knows the head's."""
    own = environment.get("NCCL_SOCKET_IFNAME", "").lstrip("=")
    result = list(command)
    for index in range(1, len(result)):
        if own and result[index - 1] == "prte_if_include":
            result[index] = own
    return result


def main(arguments: t.Sequence[str]) -> int:
    """Become the daemon. Return after a refusal or a message."""
    try:
        worker = json.loads(Path(arguments[0] if arguments else RUN / "worker.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        return refuse(None, f"the worker's main process is not ready ({error})")
    asked = os.environ.get("SSH_ORIGINAL_COMMAND", "")
    if asked == READY:
        os.kill(worker["pid"], signal.SIGUSR1)
        print(HEARD)
        return 0
    try:
        command, environment = daemon_command(asked, worker["environment"])
    except Refused as error:
        return refuse(worker["log"], f"only mpirun may log in here: {error}")
    left = end_ranks(worker)
    if left:
        numbers = " ".join(map(str, sorted(left)))
        return refuse(worker["log"], f"an earlier rank on the worker cannot be ended (processes {numbers}); reboot it")
    nccl.remove_files(Path(worker["log"]).parent)
    # The memory guard starts again with the new rank.
    os.kill(worker["pid"], signal.SIGUSR2)
    command = with_own_interfaces(command, environment)
    try:
        os.execvpe(command[0], command, environment)
    except OSError as error:
        return refuse(
            worker["log"], f"{command[0]} cannot be run on the worker ({error.strerror}): is it another image?"
        )


def end_ranks(worker: dict[str, t.Any]) -> set[int]:
    """End what is left of earlier ranks, whatever session it is in; returns what cannot be ended."""
    until = time.monotonic() + KILL_WITHIN_S
    told = False
    while True:
        known = processes()
        spared = {os.getpid()}
        # sshd listens for the next one, and the login that this is belongs to it.
        pid = os.getpid()
        while pid in known and pid != worker["pid"]:
            spared.add(pid)
            pid = known[pid].parent
        family = descendants(worker["pid"], known)
        left = {pid for pid in set(family) - spared if not is_listener(family[pid], worker["pid"])}
        old = {pid for pid in left if not family[pid].name.startswith("sshd")}
        if old and not told:
            told = True
            names = ", ".join(f"{family[pid].name} ({pid})" for pid in sorted(old))
            note(worker["log"], f"ending what is left of an earlier rank: {names}")
        if not left or time.monotonic() > until:
            return left
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.05)


def is_listener(process: Process, worker: int) -> bool:
    return process.parent == worker and process.name == "sshd"


def refuse(log: str | None, reason: str) -> int:
    """Say why both here and, through ssh, in the head's log."""
    print(f"[launch] {reason}", file=sys.stderr, flush=True)
    if log is not None:
        note(log, f"launch: {reason}")
    return 126


def note(log: str, text: str) -> None:
    """Write a line to the worker's log, which the main process keeps."""
    with contextlib.suppress(OSError), Path(log).open("a", encoding="utf-8") as file:
        file.write(f"[entrypoint] {text}\n")

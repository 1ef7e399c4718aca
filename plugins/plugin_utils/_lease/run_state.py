# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this plugin util is internal to the collection; its interface may change at any time.

"""Store the leases of a run for its processes, and ask a Spark for a lease.

Each task and each lease renewer is a process of its own. They share a directory of the run.
"""

from __future__ import annotations

import ast
import contextlib
import getpass
import json
import os
import platform
import shlex
import signal
import time
import typing as t
from pathlib import Path

from ansible import constants
from ansible.errors import AnsibleError
from ansible.plugins.action import ActionBase

from ...module_utils._spark import lock
from ...module_utils._spark.lease import describe_holder


def without_words(program: str) -> str:
    """Return a program without its comments and docstrings."""
    tree = ast.parse(program)
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and ast.get_docstring(node):
            # A class may have nothing else.
            node.body = node.body[1:] or [ast.Pass()]
    return ast.unparse(tree)


# Run on the Spark with the question as its argument; nothing is copied there for it. It is before each command of a
# guarded task, and sudo writes the whole command into the journal.
CLIENT = "# dgx_spark.speculative, module_utils/_spark/lock.py: does this run still have the lease?\n" + without_words(
    Path(lock.__file__).read_text(encoding="utf-8")
)

# Neither state tells the holder of the lease.
UNKNOWN = ("silent", "denied")

Said = dict[str, t.Any]


def now() -> float:
    """Return seconds since boot, including sleep."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


def directory() -> Path:
    """Return the directory of the run, which is removed with it."""
    return Path(constants.DEFAULT_LOCAL_TMP) / "lease"  # type: ignore[attr-defined]


def run_name() -> str:
    """Return the unique name of this run."""
    return f"{platform.node()}/{directory().parent.name}"


def user() -> str:
    """Return the user of the run. In a container it may have no name, but only an ID."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())


def ask(action: ActionBase, python: str, do: str) -> Said | None:
    """Return the answer of the lock on the Spark; None if it cannot be asked."""
    answer = reply(action, python, do)
    return None if answer is None or answer.get("state") in UNKNOWN else answer


def reply(action: ActionBase, python: str, do: str, **more: t.Any) -> Said | None:
    """Return the answer of the lock, or its reason in `words` if it gives none; None if the Spark does not answer."""
    question = json.dumps({"do": do, "run": run_name(), **more})
    command = f"{shlex.quote(python)} -c {shlex.quote(CLIENT)} {shlex.quote(question)}"
    try:
        # As the login user, also for a task with become.
        done = action._low_level_execute_command(command, sudoable=False)
        answer = json.loads(done["stdout"].strip().splitlines()[-1]) if done["rc"] == 0 else None
    except (AnsibleError, OSError, ValueError, IndexError):
        return None
    return answer if isinstance(answer, dict) else None


class Lease:
    """The lease of one host, as recorded by this run."""

    def __init__(self, host: str) -> None:
        self.host = host
        self._file = directory() / f"{host}.json"
        self._refused = directory() / f"{host}.refused"

    def read(self) -> Said | None:
        """Return the time of the last confirmation, the renewer and the Spark's Python; None without a lease."""
        return _read(self._file)

    def record_renewal(self, sent: float, **more: t.Any) -> None:
        """Record that the lease was confirmed at the time of the request."""
        whole = {**(self.read() or {}), **more, "sent": sent}
        _write(self._file, json.dumps(whole))

    def begin(self) -> None:
        directory().mkdir(exist_ok=True)
        self._refused.unlink(missing_ok=True)

    def clear(self) -> None:
        """Remove the lease and end its renewer."""
        renewer = (self.read() or {}).get("renewer")
        if renewer:
            with contextlib.suppress(OSError):
                os.kill(renewer, signal.SIGKILL)
        self._file.unlink(missing_ok=True)

    def refuse(self, why: str, python: str) -> None:
        _write(self._refused, json.dumps({"why": why, "python": python}))

    def refused(self) -> Said | None:
        """Return why the lease was refused, and the Python that asks for it."""
        return _read(self._refused)

    def record_loss(self, answer: Said) -> str:
        """Record for all hosts of the run that the lease is lost, and return why."""
        holder = answer.get("holder")
        why = loss_message(self.host, describe_holder(holder) if holder else "")
        with contextlib.suppress(OSError):
            _write(directory() / f"{self.host}.lost", why)
        return why


def _write(path: Path, text: str) -> None:
    """Write a file in one step, because other processes read it meanwhile."""
    draft = path.with_name(f"{os.getpid()}.draft")
    draft.write_text(text, encoding="utf-8")
    draft.replace(path)


def _read(path: Path) -> Said | None:
    try:
        return dict(json.loads(path.read_text(encoding="utf-8")))
    except OSError:
        return None


def refusals() -> list[str]:
    """Return why the run lacks the lease of some of its Sparks."""
    result = [_read(path) for path in sorted(directory().glob("*.refused"))]
    return [one["why"] for one in result if one]


def losses() -> list[str]:
    """Return why the run must not change anything any more."""
    return [path.read_text(encoding="utf-8") for path in sorted(directory().glob("*.lost"))]


def deadline(seconds: float) -> float:
    """Return the end of the wait, which is the same for all hosts of the run."""
    path = directory() / "until"
    if not path.exists():
        _write(path, str(now() + seconds))
    return float(path.read_text(encoding="utf-8"))


def loss_message(host: str, words: str) -> str:
    """Return why a run that has lost its lease stops; the words describe the run that holds it now."""
    if words:
        return (
            f"{host}: another run took over ({words}). This run stops: it changes nothing more and does not roll "
            "back. status.yml shows what is deployed now."
        )
    return (
        f"{host}: this run lost its lease: it could not renew it in time, and the Spark restarted or another run used "
        "it. This run changes nothing more and does not roll back. Run again."
    )

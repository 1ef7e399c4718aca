# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this plugin util is internal to the collection; its interface may change at any time.

"""Renew a lease while ansible-playbook runs, and release it at the end.

The renewer is a fork of the action that acquired the lease. It uses the connection of that action, and ends with
ansible-playbook.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import time
import typing as t

from ansible.utils.display import Display

from ...module_utils._spark.processes import process_stat
from .run_state import Lease, Said, now

display = Display()

RENEW_S = 10.0
AGAIN_S = 3.0
# An answer that takes longer has got lost with the network.
ANSWER_S = 20
LOOK_S = 0.1

Ask = t.Callable[[str], t.Union[Said, None]]


def is_at_work(pid: int) -> bool:
    """Return whether the process exists and has not ended."""
    result = process_stat(pid)
    if result is not None:
        return result.runs
    with contextlib.suppress(OSError):
        os.kill(pid, 0)
        return True
    return False


class Run:
    """The process of ansible-playbook."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._stat = process_stat(pid)

    def is_alive(self) -> bool:
        result = process_stat(self.pid)
        # Another one may have its number by now.
        return is_at_work(self.pid) and (result is None or self._stat is None or result.start == self._stat.start)

    def is_stopped(self) -> bool:
        result = process_stat(self.pid)
        return result is not None and result.state in "Tt"


class Renewer:
    """Renews the lease of one host."""

    def __init__(self, run: Run, lease: Lease, ask: Ask) -> None:
        self._run, self._lease, self._ask = run, lease, ask

    def renew(self) -> None:
        self._nap(RENEW_S)
        while self._run.is_alive():
            sent = now()
            # A stopped run changes nothing, so no other run has to wait for it.
            answer = None if self._run.is_stopped() else self._ask("renew")
            if answer and answer["state"] == "held":
                # The directory of the run may be removed already.
                with contextlib.suppress(OSError):
                    self._lease.record_renewal(sent, kept=True)
            elif answer:
                self._lease.record_loss(answer)
                return
            self._nap(RENEW_S if answer else AGAIN_S)
        self._ask("release")

    def _nap(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end and self._run.is_alive():
            time.sleep(LOOK_S)


class Silence:
    """Replace the queue to the screen, which has ended with the task."""

    def send_display(self, *_arguments: t.Any, **_more: t.Any) -> None:
        """Say nothing."""


class Late(BaseException):
    """No answer in time. As a BaseException it passes all handlers of errors."""


def _limited(ask: Ask) -> Ask:
    """Return the same question with a time limit."""

    def give_up(*_signal: t.Any) -> t.NoReturn:
        raise Late

    def asked(do: str) -> Said | None:
        signal.signal(signal.SIGALRM, give_up)
        signal.alarm(ANSWER_S)
        try:
            return ask(do)
        except Late:
            # End the connection: beside this process it is all that the process group has.
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            os.killpg(0, signal.SIGTERM)
            # The next connection would inherit the ignored signal.
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            return None
        finally:
            signal.alarm(0)

    return asked


def start(lease: Lease, ask: Ask) -> int:
    """Renew the lease from now on, in a process that outlives the task, and return its number. For an action."""
    # A task outlives a killed ansible-playbook, and then has another parent.
    parent = multiprocessing.parent_process()
    run = Run(parent.pid if parent and parent.pid else os.getppid())
    told, telling = os.pipe()
    child = os.fork()
    if child:
        os.close(telling)
        with os.fdopen(told) as file:
            renewer = int(file.read())
        os.waitpid(child, 0)
        return renewer
    try:
        os.setsid()
        renewer = os.fork()
        if renewer:
            os.write(telling, str(renewer).encode())
        else:
            os.close(telling)
            os.setpgid(0, 0)
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, signal.SIG_DFL)
            display.set_queue(t.cast("t.Any", Silence()))
            Renewer(run, lease, _limited(ask)).renew()
    finally:
        # Never back into the task, and past what Ansible does when a program of it ends.
        os._exit(0)

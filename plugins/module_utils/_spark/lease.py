# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this module util is internal to the collection; its interface may change at any time.

"""Who may change a Spark: one run at a time, whoever's it is.

The lock is a process that has bound a name among the abstract sockets, of which a Spark has one set for all users. So
it is gone with its process or a reboot, and nothing is left to be freed by hand or belongs to somebody. Who asks for
it, and how long nobody has, is told over that socket, a JSON object a line each way. Times are seconds since the boot
of the Spark, its sleep included, which no change of the clock alters.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import json
import os
import socket
import struct
import time
import typing as t

from ansible_collections.dgx_spark.speculative.plugins.module_utils._spark.detached import OK, start_detached

NAME = "dgx-spark-speculative"
# A run that was not heard of for so long has the Spark for itself no more.
TTL_S = 45.0
# For so long it takes for granted what it was told last.
ACTS_S = 15.0
# Who was taken over from may have begun something that has to end first.
PATIENCE_S = 240.0
# For so long who was cut off can learn that nobody else came meanwhile.
LINGER_S = 3600.0
POLL_S = 0.5
LONGEST = 4096

Said = dict[str, t.Any]


class LeaseError(Exception):
    """The lease can neither be had nor asked for; the text is one sentence for the user."""


def since_boot() -> float:
    """Seconds, sleep included."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def in_words(holder: t.Mapping[str, t.Any]) -> str:
    """Who has it, what for and for how long."""
    seconds = int(holder["for_s"])
    how_long = f"{seconds // 60} min" if seconds >= 60 else f"{seconds} s"
    return f"{holder['who']} has been running {holder['doing']} for {how_long}"


@dataclasses.dataclass
class Holder:
    """A run that has the lease, or had it last."""

    run: str
    who: str
    doing: str
    ttl: float
    since: float
    heard: float

    def has_it(self, now: float) -> bool:
        return now - self.heard <= self.ttl

    def facts(self, now: float) -> Said:
        return {"who": self.who, "doing": self.doing, "for_s": round(now - self.since)}


class Lease:
    """Who has it, and what is answered to whom."""

    def __init__(self, request: Said, now: float) -> None:
        self._holder = self._new(request, now)
        # When those were last heard of who were taken over from and may still be at something.
        self._formers: dict[str, float] = {}
        self._released = False

    @staticmethod
    def _new(request: Said, now: float) -> Holder:
        who, doing = (str(request.get(name, "somebody")) for name in ("who", "doing"))
        return Holder(str(request["run"]), who, doing, float(request.get("ttl", TTL_S)), now, now)

    def is_over(self, now: float) -> bool:
        return self._released or now - self._holder.heard > max(LINGER_S, self._holder.ttl)

    def answer(self, request: Said, now: float) -> Said | None:
        """What is answered; nothing yet where somebody has to let go first."""
        do, run = request.get("do"), str(request.get("run", ""))
        if do == "ask":
            if self._holder.has_it(now):
                return self._told("held", now)
            # Who acts on that must not meet the run again that has not been heard of for so long.
            self._released = bool(request.get("ends"))
            return {"state": "free"}
        if do == "take":
            self._take(request, now)
        if run != self._holder.run:
            self._hear(run, now, gone=do == "gone")
            return self._told("refused" if do == "take" else "lost", now)
        self._released = do == "release"
        self._holder.heard, self._holder.ttl = now, float(request.get("ttl", TTL_S))
        if do == "take" and any(now - heard <= ACTS_S for heard in self._formers.values()):
            return None
        return {"state": "held"}

    def _hear(self, run: str, now: float, gone: bool) -> None:
        """Whether one that was taken over from is still at something."""
        if gone:
            self._formers.pop(run, None)
        elif run in self._formers:
            self._formers[run] = now

    def _told(self, state: str, now: float) -> Said:
        return {"state": state, "holder": self._holder.facts(now)}

    def _take(self, request: Said, now: float) -> None:
        """Give it to who asks, if it is free or taken over; the same run may ask twice."""
        holder, run = self._holder, str(request["run"])
        if run == holder.run or run in self._formers:
            return
        if holder.has_it(now):
            if not request.get("take_over"):
                return
            self._formers[holder.run] = holder.heard
        self._holder = self._new(request, now)


def _answered(connection: socket.socket, answer: Said | None) -> bool:
    if answer is None:
        return False
    with contextlib.suppress(OSError), connection:
        connection.sendall(json.dumps(answer).encode() + b"\n")
    return True


def _is_question(request: t.Any) -> bool:
    if not isinstance(request, dict) or not isinstance(request.get("ttl", TTL_S), (int, float)):
        return False
    return request.get("do") == "ask" or isinstance(request.get("run"), str)


def _asked(listener: socket.socket) -> tuple[socket.socket, Said] | None:
    """The next question, if there is one soon; what is none is not answered."""
    try:
        connection, _address = listener.accept()
    except OSError:
        return None
    try:
        # One that asks nothing must not keep the others waiting.
        connection.settimeout(POLL_S)
        with connection.makefile("rb") as file:
            request = json.loads(file.readline(LONGEST))
        if _is_question(request):
            return connection, request
    except (OSError, ValueError, RecursionError):
        pass
    connection.close()
    return None


def serve(listener: socket.socket, lease: Lease, clock: t.Callable[[], float] = since_boot) -> None:
    """Answer until nobody has it, nor had it lately."""
    listener.settimeout(POLL_S)
    waiting: list[tuple[socket.socket, Said]] = []
    while not lease.is_over(clock()):
        asked = _asked(listener)
        waiting += [asked] if asked else []
        waiting = [one for one in waiting if not _answered(one[0], lease.answer(one[1], clock()))]


def _hold(request: Said, ready: int) -> None:
    """Be the lock, with the lease given to who started it."""
    with socket.socket(socket.AF_UNIX) as listener:
        try:
            listener.bind(f"\0{NAME}")
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                # Somebody else was quicker, and is asked next.
                os.write(ready, OK)
                return
            raise
        listener.listen(64)
        lease = Lease(request, since_boot())
        os.write(ready, OK)
        os.close(ready)
        serve(listener, lease)


def ask(request: Said, timeout: float = 5.0) -> Said:
    """What the lock says; that it is free, where there is none."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(timeout)
        try:
            connection.connect(f"\0{NAME}")
            connection.sendall(json.dumps(request).encode() + b"\n")
            with connection.makefile("rb") as file:
                text = file.readline(LONGEST)
            answer = json.loads(text) if text else {"state": "none"}
            if isinstance(answer, dict) and "state" in answer:
                return answer
        except (ConnectionRefusedError, ConnectionResetError, BrokenPipeError):
            return {"state": "none"}
        except (OSError, ValueError, RecursionError):
            pass
        pid = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0]
    who = f"The process {pid}" if pid else "A process in a container with the host's network"
    raise LeaseError(
        f"{who} has the socket @{NAME} and does not answer as this collection does; end it, then run again"
    )


def take(request: Said) -> Said:
    """Have the lease, or know who has it. Whoever is taken over from is waited for."""
    for _attempt in range(5):
        answer = ask({**request, "do": "take"}, PATIENCE_S)
        if answer["state"] != "none":
            return answer
        stuck = start_detached(lambda ready: _hold(request, ready))
        if stuck:
            raise LeaseError(f"The process that holds the lease cannot be started: {stuck}")
    raise LeaseError("The process that holds the lease ends as soon as it is started")

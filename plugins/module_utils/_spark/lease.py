# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this module util is internal to the collection; its interface may change at any time.

"""Hold the lease of a Spark: one run at a time may change it, no matter which user's.

The lock is a process that is bound to an abstract socket, whose name is the same for all users of a Spark. It ends with
its process or a reboot, so there is no lock file to remove or to own. Requests and answers are JSON objects on this
socket, one a line. Times are seconds since boot, including sleep, so that setting the clock does not change them.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import json
import os
import selectors
import socket
import time
import typing as t

from .._data.text import duration
from . import lock
from .detached import OK, start_detached
from .lock import LONGEST, TTL_S, LockError, Said, ask, since_boot
from .patience import Patience

# The longest lease. A run has it if nothing renews the lease while its tasks run.
TTL_OF_TASKS_S = 900.0
# The longest wait until the current change of another run has ended.
PATIENCE_S = 240.0
# The longest time of a module that still runs after its run lost the lease. Docker may need two minutes for a stop.
TASK_S = 180.0
# During this time an interrupted run can learn that no other run used the Spark.
LINGER_S = 3600.0
POLL_S = 0.5
# A connection without a request is closed after SILENT_S. There can be MOST such connections.
SILENT_S = 5.0
MOST = 200


def describe_holder(holder: t.Mapping[str, t.Any]) -> str:
    """Return owner, activity and duration of a run as text."""
    return f"{holder['owner']} has been running {holder['activity']} for {duration(holder['for_s'])}"


@dataclasses.dataclass
class Holder:
    """A run that has the lease, or had it last."""

    run: str
    owner: str
    activity: str
    ttl: float
    since: float
    heard: float

    def is_current(self, now: float) -> bool:
        return now - self.heard <= self.ttl

    def facts(self, now: float) -> Said:
        return {"owner": self.owner, "activity": self.activity, "for_s": round(now - self.since)}


class Lease:
    """The state of the lease, which answers requests."""

    def __init__(self, request: Said, now: float) -> None:
        self._holder = self._new(request, now)
        # Runs that another run has taken over from. They do not get the lease again.
        self._formers: set[str] = set()
        # The current changes of the Spark, each with its run and start time.
        self._changes: dict[t.Hashable, tuple[str, float]] = {}
        self._released = False

    @staticmethod
    def _new(request: Said, now: float) -> Holder:
        owner, activity = str(request.get("owner", "a user")), str(request.get("activity", "a playbook"))
        return Holder(str(request["run"]), owner, activity, _ttl(request), now, now)

    def is_over(self, now: float) -> bool:
        over = self._released or now - self._holder.heard > max(LINGER_S, self._holder.ttl)
        return over and not self._is_changed(now)

    def begin(self, change: t.Hashable, run: str, now: float) -> None:
        """Record that the run is changing the Spark, so that no other run gets the lease."""
        self._changes[change] = (run, now)

    def end(self, change: t.Hashable) -> None:
        self._changes.pop(change, None)

    def _is_changed(self, now: float, but_by: str = "") -> bool:
        return any(run != but_by and now - since <= TASK_S for run, since in self._changes.values())

    def _is_had(self, now: float) -> bool:
        return self._holder.is_current(now) and not self._released

    def answer(self, request: Said, now: float) -> Said:
        """Return the answer to a request. `wait` means to ask again: another run is still changing the Spark."""
        do, run = request.get("do"), str(request.get("run", ""))
        if do == "ask":
            if self._is_had(now) or self._is_changed(now):
                return self._told("held", now)
            # With `ends`, the caller acts on this answer, so the old run must not get the lease again.
            self._released = self._released or bool(request.get("ends"))
            return {"state": "free"}
        if do == "take":
            self._take(request, now)
        if run != self._holder.run:
            return self._told("refused" if do == "take" else "lost", now)
        self._released = do == "release"
        self._holder.heard = now
        if do != "change":
            self._holder.ttl = _ttl(request)
        if do == "take" and self._is_changed(now, run):
            return {"state": "wait"}
        return {"state": "held"}

    def _told(self, state: str, now: float) -> Said:
        holder = self._holder.facts(now)
        return {"state": state, "holder": holder, "words": describe_holder(holder)}

    def _take(self, request: Said, now: float) -> None:
        """Give the lease to the requesting run if it is free or taken over. The same run may ask twice."""
        holder, run = self._holder, str(request["run"])
        if run == holder.run or run in self._formers:
            return
        if self._is_had(now):
            if not request.get("take_over"):
                return
            self._formers.add(holder.run)
        self._holder = self._new(request, now)
        self._released = False


def _ttl(request: Said) -> float:
    return float(min(request.get("ttl", TTL_S), TTL_OF_TASKS_S))


def _is_question(request: t.Any) -> bool:
    if not isinstance(request, dict) or not isinstance(request.get("do"), str):
        return False
    ttl = request.get("ttl", TTL_S)
    # A comparison with NaN is always false.
    if not isinstance(ttl, (int, float)) or not ttl > 0:
        return False
    return request["do"] == "ask" or isinstance(request.get("run"), str)


class Lock:
    """Server that answers requests for the lease, several at once."""

    def __init__(self, listener: socket.socket, lease: Lease, clock: t.Callable[[], float] = since_boot) -> None:
        self._listener, self._lease, self._clock = listener, lease, clock
        # Connections without a complete request: the text so far, and the time of the connection.
        self._asking: dict[socket.socket, tuple[bytes, float]] = {}
        self._selector = selectors.DefaultSelector()

    def serve(self) -> None:
        """Answer requests until the lease is over."""
        self._listener.setblocking(False)
        self._selector.register(self._listener, selectors.EVENT_READ)
        with self._selector:
            while not self._lease.is_over(self._clock()):
                for key, _events in self._selector.select(POLL_S):
                    # A lease that is over must not be renewed by a late request.
                    if self._lease.is_over(self._clock()):
                        break
                    if key.fileobj is self._listener:
                        self._accept()
                    else:
                        self._read(t.cast("socket.socket", key.fileobj))
                for connection, (_text, since) in list(self._asking.items()):
                    if self._clock() - since > SILENT_S:
                        self._close(connection)

    def _accept(self) -> None:
        try:
            connection, _address = self._listener.accept()
        except OSError:
            return
        connection.setblocking(False)
        self._asking[connection] = (b"", self._clock())
        self._selector.register(connection, selectors.EVENT_READ)
        if len(self._asking) > MOST:
            # Users without rights must not block users with rights.
            foreign = (peer for peer in self._asking if not lock.has_rights(lock.peer(peer)[1]))
            self._close(next(foreign, connection))

    def _close(self, connection: socket.socket) -> None:
        self._asking.pop(connection, None)
        self._lease.end(connection)
        self._selector.unregister(connection)
        connection.close()

    def _read(self, connection: socket.socket) -> None:
        try:
            more = connection.recv(LONGEST)
        except OSError:
            more = b""
        text, since = self._asking.get(connection, (b"", 0.0))
        # A change ends when its connection is closed.
        if not more or len(text + more) > LONGEST:
            self._close(connection)
        elif connection in self._asking and b"\n" in more:
            self._answer(connection, text + more)
        elif connection in self._asking:
            self._asking[connection] = (text + more, since)

    def _answer(self, connection: socket.socket, text: bytes) -> None:
        try:
            request = json.loads(text)
        except (ValueError, RecursionError):
            request = None
        if not _is_question(request):
            self._close(connection)
            return
        uid, now = lock.peer(connection)[1], self._clock()
        if (request["do"] != "ask" or request.get("ends")) and not lock.has_rights(uid):
            *groups, last = sorted(lock.GROUPS)
            words = (
                f"user {lock.user_name(uid)} is not root, has not taken the lease, and is in none of the groups "
                f"{', '.join(groups)} and {last}"
            )
            answer: Said = {"state": "denied", "words": words}
        else:
            answer = self._lease.answer(request, now)
        with contextlib.suppress(OSError):
            connection.sendall(json.dumps(answer).encode() + b"\n")
            if request["do"] == "change" and answer["state"] == "held":
                self._lease.begin(connection, str(request["run"]), now)
                del self._asking[connection]
                return
        self._close(connection)


def _hold(request: Said, ready: int) -> None:
    """Run the lock, and give the lease to the run that started it."""
    with socket.socket(socket.AF_UNIX) as listener:
        try:
            listener.bind(f"\0{lock.NAME}")
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                # Another run was faster; its lock is asked next.
                os.write(ready, OK)
                return
            raise
        listener.listen(socket.SOMAXCONN)
        lease = Lease(request, since_boot())
        os.write(ready, OK)
        os.close(ready)
        Lock(listener, lease).serve()


def take(request: Said) -> Said:
    """Acquire the lease, or return its holder. Wait until changes of another run have ended."""
    patience, end, starts = Patience(), since_boot() + PATIENCE_S, 5
    while starts:
        try:
            answer = ask({**request, "do": "take"})
        except lock.Silence as silence:
            patience.silent(silence)
            continue
        patience.answered()
        if answer["state"] == "denied":
            raise LockError(f"The lease of this Spark is refused, since {answer['words']}")
        if answer["state"] == "wait":
            if since_boot() > end:
                raise LockError(
                    f"What another run has begun on this Spark has not ended within {duration(PATIENCE_S)}. Run again"
                )
            time.sleep(POLL_S)
        elif answer["state"] != "none":
            return answer
        else:
            starts -= 1
            stuck = start_detached(lambda ready: _hold(request, ready))
            if stuck:
                raise LockError(f"The process that holds the lease cannot be started: {stuck}")
    raise LockError("The process that holds the lease ends as soon as it is started")

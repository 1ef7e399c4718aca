# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this plugin util is internal to the collection; its interface may change at any time.
"""Move the serving container to standby, and finalize the switchover. A program for the module watched_job.

standby NAME ASKED    Stop the container and rename it. After a power cut Docker starts it, by the policy `always`. If
                      no run has the lease any more, a watcher process starts it.
finalize NAME ASKED   End the switchover: keep the new container if its record exists, else restore the old one.

The environment names the run. It acts only while it holds the lease, which no other run can acquire meanwhile. ASKED
distinguishes calls. Names, policies and records alone define the next step, and each of them is written in one step. So
an interrupted switchover can be finalized at any point.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import sys
import time
import typing as t
from pathlib import Path

from ...module_utils._data.files import locked_directory
from ...module_utils._deployment.names import LABEL, PREVIOUS, RECORD, STANDBY
from ...module_utils._spark.detached import OK, start_detached
from ...module_utils._spark.lock import RUN, LockError, NoRights, Silence, ask, connect
from ...module_utils._spark.patience import Patience
from .engine import Engine, EngineError, message_of
from .progress import Message, emit

LOOK_S = 1.0
# A task that has begun continues without its run and its lock. A module that creates a container first stops the one of
# that name, so the name must not go back to the old container before that.
BEGUN_S = 15.0
# Attempts to restore a container, each a second later than the last: half an hour in all.
TRIES = 60
# Stopping takes as long as the container allows, two minutes by default.
WORK_S = 900.0


class EngineRefusal(EngineError):
    """The Docker Engine refuses a request."""


def has_lease(patience: Patience, ends: bool = False) -> bool:
    """Return whether a run holds the lease or still changes the Spark; with `ends`, a free lease cannot be renewed.

    A silent lock counts as held until it is ended for its silence.
    """
    try:
        answer = ask({"do": "ask", "ends": ends})
    except Silence as silence:
        with contextlib.suppress(LockError):
            patience.silent(silence)
        return True
    except NoRights:
        return False
    except LockError:
        return True
    patience.answered()
    return answer["state"] not in ("free", "none")


@contextlib.contextmanager
def leased(run: str) -> t.Iterator[None]:
    """Raise EngineError if the run has lost the lease; no other run can acquire it until the end of the block."""
    if not run:
        yield
        return
    try:
        connection, answer = connect({"do": "change", "run": run})
    except LockError as error:
        raise EngineError(f"it is not known whether this run still has the lease: {error}") from None
    with connection:
        if answer["state"] != "held":
            other = f": another run took over ({answer['words']})" if answer.get("words") else ""
            raise EngineError(f"the lease of this run is gone{other}. So it changes nothing more; run it again")
        yield


def configuration(labels: t.Mapping[str, str]) -> str | None:
    return labels.get(f"{LABEL}configuration")


def recorded_configuration(path: Path) -> str:
    """Return the configuration of which a record is; nothing if it cannot be read."""
    try:
        return str(configuration(json.loads(path.read_text(encoding="utf-8"))["container"]["labels"]))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return ""


def is_kept(new: t.Mapping[str, str], old: t.Mapping[str, str] | None) -> bool:
    """Return whether the new container, by its labels, is verified as the replacement of the old one.

    Its record alone may be older, but the previous record is that of the old one only since the replacement. A
    container that was recreated without a change has no other record.
    """
    directory, own = Path(new.get(f"{LABEL}directory") or "/nowhere"), configuration(new)
    others = {own, recorded_configuration(directory.parent / PREVIOUS)}
    return recorded_configuration(directory / RECORD) == own and (old is None or configuration(old) in others)


def remove_stale_previous(serving: t.Mapping[str, str]) -> None:
    """Remove a previous record that equals the current one: an unfinished run left it, and it proves nothing."""
    way_back = Path(serving.get(f"{LABEL}directory") or "/nowhere").parent / PREVIOUS
    if recorded_configuration(way_back) == configuration(serving):
        way_back.unlink(missing_ok=True)


def is_left_alone(container: Message) -> bool:
    """Return whether the container needs no change: stopped by a user, or running with a restart policy.

    A container on standby needs one until it is started.
    """
    policy = container["HostConfig"]["RestartPolicy"]["Name"]
    return policy == "unless-stopped" or (policy != "always" and not container["State"]["Running"])


class Switchover:
    """The switchover from one container to another of the same name."""

    def __init__(self, name: str, engine: Engine, directory: Path) -> None:
        self.name = name
        self._engine = engine
        self._directory = directory

    def to_standby(self, run: str) -> str:
        """Move the container to standby. For a run without a lease it only stops: its end could not be noticed.

        A run that has lost its lease stops nothing, because it could not restore it.
        """
        with locked_directory(self._directory), leased(run):
            old = self._engine.own_container(self.name)
            if old is None:
                return ""
            if run:
                self._refuse_foreign(f"{self.name}{STANDBY}")
                remove_stale_previous(old["Config"]["Labels"])
                spawn_watcher(self.watch)
                self._policy(old, "always")
                self._do("POST", f"/containers/{old['Id']}/rename?name={self.name}{STANDBY}")
            self._do("POST", f"/containers/{old['Id']}/stop")
        return "standby"

    def watch(self) -> None:
        """Wait until the switchover is finalized, and finalize it if no run does. Docker may refuse a first attempt."""
        tried, again_at, free_since, patience = 0, 0.0, float("inf"), Patience()
        while tried < TRIES:
            time.sleep(LOOK_S)
            # The Engine may be restarting.
            with contextlib.suppress(EngineError), locked_directory(self._directory):
                new, old = self._engine.own_container(self.name), self._engine.standby(self.name)
                if old is None and (new is None or is_left_alone(new)):
                    return
                now = time.monotonic()
                free_since = float("inf") if has_lease(patience) else min(free_since, now)
                if now >= max(free_since + BEGUN_S, again_at) and not has_lease(patience, ends=True):
                    tried += 1
                    again_at = now + tried * LOOK_S
                    self._finish()

    def finalize(self, run: str) -> str:
        with locked_directory(self._directory), leased(run):
            return self._finish()

    def _finish(self) -> str:
        new, old = self._engine.own_container(self.name), self._engine.standby(self.name)
        if old is None and (new is None or is_left_alone(new)):
            return ""
        if new and is_kept(new["Config"]["Labels"], old and old["Config"]["Labels"]):
            if old is None:
                self._up(new)
            else:
                # If Docker starts both after a power cut, one of them waits for the engine lock: better than neither.
                self._policy(new, "unless-stopped")
                self._remove(old)
                self._start(new)
            return "kept"
        if old is None:
            if new is None or new["HostConfig"]["RestartPolicy"]["Name"] != "always":
                return ""
            # It has its name again, but its record was deleted meanwhile.
            self._up(new)
            return "back"
        if new:
            self._remove(new)
        self._do("POST", f"/containers/{old['Id']}/rename?name={self.name}")
        self._up(old)
        return "back"

    def _refuse_foreign(self, name: str) -> None:
        if self._engine.container(name) and not self._engine.own_container(name):
            raise EngineError(
                f"the container {name} was not made by this collection. Nothing was changed. Rename or remove that "
                "container, then run again"
            )

    def _up(self, container: Message) -> None:
        # In this order: if the start fails, the policy `always` shows that it is not finished.
        if self._start(container):
            self._policy(container, "unless-stopped")

    def _start(self, container: Message) -> bool:
        # A container that cannot be started can still be stopped and removed; the next start reports the reason.
        try:
            self._do("POST", f"/containers/{container['Id']}/start")
        except EngineRefusal:
            return False
        return True

    def _policy(self, container: Message, policy: str) -> None:
        self._do("POST", f"/containers/{container['Id']}/update", {"RestartPolicy": {"Name": policy}})

    def _remove(self, container: Message) -> None:
        self._do("DELETE", f"/containers/{container['Id']}?force=1")

    def _do(self, method: str, path: str, body: Message | None = None) -> None:
        """Send a request to the Engine. An action that is done already succeeds."""
        try:
            response = self._engine.request(method, path, WORK_S, body)
            text = response.read().decode("utf-8", "replace")
        except (OSError, http.client.HTTPException) as error:
            raise EngineError("the Docker Engine went away") from error
        if response.status >= 400:
            raise EngineRefusal(f"the Docker Engine refuses {method} {path} ({message_of(text) or response.status})")


def spawn_watcher(main: t.Callable[[], None]) -> None:
    """Run it in a process of its own session, which outlives the job and the run."""

    def run(ready: int) -> None:
        os.write(ready, OK)
        os.close(ready)
        main()

    if stuck := start_detached(run):
        raise EngineError(f"what brings it back did not start ({stuck})")


def main(arguments: t.Sequence[str]) -> Message:
    act, name, _asked = arguments
    switch, run = Switchover(name, Engine(), Path.cwd().parent), os.environ.get(RUN, "")
    return {"did": switch.to_standby(run) if act == "standby" else switch.finalize(run)}


if __name__ == "__main__":
    try:
        emit({"result": main(sys.argv[1:])})
    except EngineError as error:
        emit({"error": f"Switching from one container to the other failed: {str(error).rstrip('.')}."})
        sys.exit(1)

# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this module util is internal to the collection; its interface may change at any time.

"""Sensors of a field check. Each returns a value, or the reason why it has none."""

from __future__ import annotations

import typing as t
from pathlib import Path

from .._deployment.cluster_view import RANK_LABEL
from .._deployment.names import LABEL
from .._deployment.records import Record
from .._docker.access import Machine
from .._docker.engine import Engine, EngineError
from .._fabric.ports import run
from .._server.deployment_facts import DOCKER, DeploymentFacts, Gatherer

Program = t.Callable[..., tuple[int, str, str]]
NO_ENGINE = "the Docker Engine cannot be asked"


class NotMeasured(Exception):
    """The reason why a sensor has no value, as the end of a sentence."""


class NotInstalled(NotMeasured):
    """The program that would measure it is not there."""


class World(Gatherer):
    """The machine of the sensors, and its deployment. Tests use another root, other programs and another Engine."""

    def __init__(self, root: Path, state_directory: Path, container: str, socket: str, run: Program = run) -> None:
        params = {"container": container, "state_directory": state_directory}
        super().__init__(DeploymentFacts(), params, Machine(root), Engine(socket))
        self.root, self.state_directory, self.container, self.socket = root, state_directory, container, socket
        self.run = run

    def read_text(self, name: str) -> str:
        try:
            return super().read_text(name).strip("\0 \n")
        except FileNotFoundError:
            raise NotMeasured(f"there is no {name}") from None
        except OSError as error:
            raise NotMeasured(f"{name} cannot be read ({error.strerror or error})") from None

    def output(self, *command: str, deadline: float = 15.0) -> str:
        """Return the output of a program."""
        code, said, complaint = self.run(command, deadline=deadline)
        words = " ".join((complaint or said).split())[-200:]
        if code == 127:
            raise NotInstalled(words)
        if code:
            raise NotMeasured(f"'{command[0]}' ended with {code}: {words or 'it said nothing'}")
        return said.strip()

    def ask(self, path: str) -> t.Any:
        """Return the answer of the Docker Engine; None for what it does not know."""
        try:
            return self._engine.find(path)
        except (OSError, EngineError) as error:
            reason = getattr(error, "strerror", None) or str(error).rstrip(".")
            raise NotMeasured(f"{NO_ENGINE} ({reason})") from None

    def _gathered(self, name: str, step: t.Callable[[], str | None], failure: str) -> DeploymentFacts:
        """Return the facts after a step, which is taken once. Raise NotMeasured if its source could not be read."""
        if name not in (source.name for source in self.facts.sources):
            self._look(name, step)
        reason = self.facts.unread(name)
        if reason is not None:
            raise NotMeasured(f"{failure} ({reason.rstrip('.')})")
        return self.facts

    def _slot(self) -> None:
        self.facts.slot = self.find_slot()

    def slot(self) -> dict[str, t.Any]:
        """Return the container that serves, or has served, as Docker describes it."""
        result = self._gathered(DOCKER, self._slot, NO_ENGINE).slot
        if result is None:
            raise NotMeasured("nothing is deployed here; deploy something, and check again")
        return result

    def labels(self) -> dict[str, str]:
        self.slot()
        return self.facts.labels

    def require_head(self) -> None:
        """Raise NotMeasured on a worker."""
        if self.labels().get(RANK_LABEL, "0") != "0":
            raise NotMeasured("a worker has no API; the head is asked")

    def record(self) -> Record:
        """Return the record of the verified deployment."""
        name = self.labels().get(f"{LABEL}deployment", self.container)
        result = self._gathered("record.json", self._record, "record.json cannot be read").record
        if result is None:
            raise NotMeasured(f"{name} is not verified in its present configuration")
        return result

    def directory(self) -> Path:
        """Return the directory of the deployment's files."""
        self.slot()
        result = self._gathered("record.json", self._record, "record.json cannot be read").directory
        if result is None:
            raise NotMeasured(f"the container {self.container} is none of this collection's")
        return result

    def state(self) -> dict[str, t.Any]:
        """Return the server's state, as the container's main process wrote it."""
        self.directory()
        return self._gathered("state.json", self._state, "state.json cannot be read").state or {}


class Sensor(t.NamedTuple):
    """One row: what it is in words, the function that reads it, and by what."""

    id: str
    section: str
    what: str
    read: t.Callable[[World], t.Any]
    how: str
    unit: str = ""


def measured(sensor: Sensor, world: World) -> dict[str, t.Any]:
    """One row of the report: its value, or why there is none. A sensor that stumbles must not hide the others."""
    row = {"id": sensor.id, "section": sensor.section, "what": sensor.what, "how": sensor.how}
    try:
        value = sensor.read(world)
    except NotMeasured as reason:
        return {**row, "not_measured": str(reason)}
    except (OSError, ValueError, TypeError, KeyError, IndexError, AttributeError) as error:
        return {**row, "not_measured": f"what was found cannot be read ({type(error).__name__}: {error})"}
    return {**row, "value": value, **({"unit": sensor.unit} if sensor.unit else {})}

# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this module util is internal to the collection; its interface may change at any time.

"""Sensors of a field check. Each returns a value, or the reason why it has none."""

from __future__ import annotations

import dataclasses
import json
import typing as t
from pathlib import Path

from .._deployment.cluster_view import RANK_LABEL
from .._deployment.names import LABEL
from .._deployment.records import Record, current
from .._deployment.records import deployment_directory as directory_of
from .._docker.engine import Engine, EngineError
from .._fabric.ports import run


class NotMeasured(Exception):
    """The reason why a sensor has no value, as the end of a sentence."""


class NotInstalled(NotMeasured):
    """The program that would measure it is not there."""


@dataclasses.dataclass
class World:
    """The machine of the sensors. Tests use another root, other programs and another Engine."""

    root: Path
    state_directory: Path
    container: str
    socket: str
    run: t.Callable[..., tuple[int, str, str]] = run

    def path(self, name: str) -> Path:
        return self.root / name.lstrip("/")

    def read(self, name: str) -> str:
        """Return a file's text."""
        try:
            return self.path(name).read_text(encoding="utf-8", errors="replace").strip("\0 \n")
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
        return self._asked(lambda engine: engine.find(path))

    def _asked(self, question: t.Callable[[Engine], t.Any]) -> t.Any:
        try:
            return question(Engine(self.socket))
        except (OSError, EngineError) as error:
            reason = getattr(error, "strerror", None) or str(error).rstrip(".")
            raise NotMeasured(f"the Docker Engine cannot be asked ({reason})") from None

    def slot(self) -> dict[str, t.Any]:
        """Return the container that serves, or has served, as Docker describes it."""
        result: dict[str, t.Any] | None = self._asked(lambda engine: engine.slot(self.container))
        if result is None:
            raise NotMeasured("nothing is deployed here; deploy something, and check again")
        return result

    def labels(self) -> dict[str, str]:
        return (self.slot().get("Config") or {}).get("Labels") or {}

    def require_head(self) -> None:
        """Raise NotMeasured on a worker."""
        if self.labels().get(RANK_LABEL, "0") != "0":
            raise NotMeasured("a worker has no API; the head is asked")

    def record(self) -> Record:
        """Return the record of the verified deployment."""
        labels = self.labels()
        result = current(self.state_directory, labels)
        if result is None:
            name = labels.get(f"{LABEL}deployment", self.container)
            raise NotMeasured(f"{name} is not verified in its present configuration")
        return result

    def directory(self) -> Path:
        """Return the directory of the deployment's files."""
        result = directory_of(self.state_directory, self.labels())
        if result is None:
            raise NotMeasured(f"the container {self.container} is none of this collection's")
        return result

    def state(self) -> dict[str, t.Any]:
        """Return the server's state, as the container's main process wrote it."""
        path = self.directory() / "state" / "state.json"
        try:
            data = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            raise NotMeasured(f"{path.name} cannot be read") from None
        return data if isinstance(data, dict) else {}


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

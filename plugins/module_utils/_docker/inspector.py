# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this module util is internal to the collection; its interface may change at any time.

"""The base of all classes that gather facts of a Spark. A fact that several of them need is read here."""

from __future__ import annotations

import typing as t
from pathlib import Path

from .._spark.machine import parse_meminfo
from .access import Machine, brief_container
from .engine import Answer, Engine
from .image_marks import is_unfinished


class Inspector:
    """Read the files of a machine, and ask its Docker Engine."""

    def __init__(self, params: t.Mapping[str, t.Any], machine: Machine, engine: Engine | None = None) -> None:
        self._params = params
        self._machine = machine
        self._engine = engine or Engine(params["socket"])

    def path(self, name: str) -> Path:
        """Return a file of the machine, whose root is another directory in tests."""
        return self._machine.root / name.lstrip("/")

    def read_text(self, name: str) -> str:
        return self.path(name).read_text(encoding="utf-8", errors="replace")

    def read_memory(self) -> dict[str, int]:
        """Return the values of /proc/meminfo in bytes."""
        return parse_meminfo(self.read_text("/proc/meminfo"))

    def find_slot(self) -> Answer | None:
        """Return the serving container, or the standby container if that runs again."""
        return self._engine.slot(self._params["container"]) if self._params["container"] else None

    def find_image(self, jobs: Path, name: str) -> Answer | None:
        """Return an image; None if it is missing, or if a power cut left it unfinished, by the marks of the jobs."""
        return None if is_unfinished(jobs, name) else self._engine.image(name)

    def list_running(self) -> list[dict[str, t.Any]]:
        """Return the main facts of the running containers."""
        return [brief_container(row, self._engine.container(row["Id"])) for row in self._engine.get("/containers/json")]

# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Judge a history of cuts, without any code of the collection.

After each cut a place has the last version whose writing had ended, or one whose writing had begun since.
"""

from __future__ import annotations

import collections
import dataclasses
import typing as t

Line = t.Mapping[str, t.Any]


@dataclasses.dataclass
class Bounds:
    """The versions of a place that may be there."""

    ended: int = 0
    begun: int = 0


class Judge:
    """Reads a history line by line."""

    def __init__(self) -> None:
        self.findings: list[str] = []
        self.cut = 0
        self._places: dict[str, Bounds] = collections.defaultdict(Bounds)

    def find(self, text: str) -> None:
        self.findings.append(f"after cut {self.cut}: {text}")

    def read(self, line: Line) -> None:
        """Judge one line."""
        if "cut" in line:
            self.cut += 1
        if "dead" in line or "failed" in line:
            self.find(f"the machine does not work: {line.get('dead') or line.get('failed')}")
        if "begun" in line:
            place = self._places[line["place"]]
            place.begun = max(place.begun, line["begun"])
        if "done" in line:
            self._places[line["place"]].ended = line["done"]
        if "repaired" in line:
            if line["refused"]:
                self.find(f"{line['repaired']}: the same run does not finish: {line['refused']}")
            else:
                self._places[line["repaired"]].ended = line["version"]
        if line.get("disk") == "read-only" and not line["refused"]:
            self.find("a read-only disk was written to, or that was not noticed")
        if "looked_then" in line and "half" in line["looked_then"]:
            self.find(f"on a disk that is {line['disk']}: {line['looked_then']['half']}")
        for name, seen in line.get("looked", {}).items():
            self._look(name, seen)

    def _look(self, name: str, seen: Line) -> None:
        place = self._places[name]
        if "half" in seen:
            self.find(f"{name}: {seen['half']}")
        else:
            version = seen["version"] or 0
            if not place.ended <= version <= place.begun:
                self.find(f"{name}: version {version} is there, and {place.ended} was written ({place.begun} begun)")
            # What is there once stays there.
            place.ended = place.begun = version
        for path in seen["open"]:
            self.find(f"{name}: other users can read {path}")


def judge(history: t.Iterable[Line]) -> list[str]:
    """Return what is wrong, one sentence each."""
    reader = Judge()
    for line in history:
        reader.read(line)
    return reader.findings


def table(history: t.Iterable[Line]) -> dict[tuple[str, str], int]:
    """Return the number of cuts by place and by what was under way."""
    cuts = [line for line in history if "cut" in line]
    return dict(sorted(collections.Counter((line["place"], line["cut"]) for line in cuts).items()))

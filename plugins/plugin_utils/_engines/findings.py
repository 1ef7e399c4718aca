# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this plugin util is internal to the collection; its interface may change at any time.

"""Collect the findings of the validation of engine options, and write their words."""

from __future__ import annotations

import dataclasses
import json
import typing as t


@dataclasses.dataclass(frozen=True)
class Finding:
    """One error or warning, and the dotted path of its option."""

    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}"


@dataclasses.dataclass
class Report:
    """The findings so far."""

    errors: list[Finding] = dataclasses.field(default_factory=list)
    warnings: list[Finding] = dataclasses.field(default_factory=list)

    def error(self, path: str, message: str) -> None:
        self.errors.append(Finding(path, message))

    def warn(self, path: str, message: str) -> None:
        self.warnings.append(Finding(path, message))


def shown(value: t.Any) -> str:
    """Return a value as it is written in YAML."""
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    if isinstance(value, (int, float)):
        return str(value)
    if isinstance(value, str):
        return f"'{value}'"
    return "a list" if isinstance(value, (list, tuple)) else "a mapping"


def seen(value: t.Any) -> str:
    return f"the text {shown(value)}" if isinstance(value, str) else shown(value)

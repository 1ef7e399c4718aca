# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this plugin util is internal to the collection; its interface may change at any time.

"""A JSON file with one entry a host, which several processes fill at once."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
import typing as t
from pathlib import Path

from ...module_utils._data.files import locked_directory


class ReportError(Exception):
    """The file cannot be written; the text is one sentence for the user."""


class Document:
    """The file; each host has an entry in it."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def merge(self, entries: t.Mapping[str, t.Mapping[str, t.Any]]) -> None:
        """Put in some hosts' entries and keep the others."""
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with locked_directory(self._path.parent):
                self._write({**self._read(), **entries})
        except OSError as e:
            raise ReportError(
                f"The report {self._path} cannot be written ({e.strerror or e}); choose another path."
            ) from e

    def _read(self) -> dict[str, t.Any]:
        try:
            content = self._path.read_bytes()
        except FileNotFoundError:
            return {}
        try:
            data = json.loads(content) if content.strip() else {}
        except (ValueError, RecursionError):
            data = None
        if not isinstance(data, dict):
            raise ReportError(f"{self._path} is no report of this collection and is left alone; choose another path.")
        return data

    def _write(self, data: t.Mapping[str, t.Any]) -> None:
        # mkstemp makes it with mode 0600.
        descriptor, name = tempfile.mkstemp(dir=self._path.parent, prefix=f".{self._path.name}.")
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                json.dump(data, file, indent=2, sort_keys=True, default=str)
                file.write("\n")
            Path(name).replace(self._path)
        except BaseException:
            with contextlib.suppress(OSError):
                Path(name).unlink()
            raise

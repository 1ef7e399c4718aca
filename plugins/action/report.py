# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import tempfile
import textwrap
import typing as t
from pathlib import Path

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display

display = Display()

WIDTH = 110


class ReportError(Exception):
    """The file cannot be written; the text is one sentence for the user."""


class Document:
    """A JSON file with one entry a host, which several processes fill at once."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def merge(self, entries: t.Mapping[str, t.Mapping[str, t.Any]]) -> None:
        """Put in some hosts' entries and keep the others."""
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._locked():
                self._write({**self._read(), **entries})
        except OSError as e:
            raise ReportError(
                f"The report {self._path} cannot be written ({e.strerror or e}); choose another path."
            ) from e

    @contextlib.contextmanager
    def _locked(self) -> t.Iterator[None]:
        # The directory is locked: the file itself is replaced, and a lock file would stay behind.
        descriptor = os.open(self._path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

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


def section(title: str, items: t.Sequence[str]) -> list[str]:
    """Sentences as a list under a title, wrapped; nothing without sentences."""
    lines = [
        line
        for item in items
        for line in textwrap.wrap(
            " ".join(item.split()), WIDTH, initial_indent="    - ", subsequent_indent="      ", break_on_hyphens=False
        )
    ]
    return ["", f"  {title}:", *lines] if lines else []


class ActionModule(ActionBase):
    """Print the lines as plain text, and keep the document."""

    _requires_connection = False
    _supports_check_mode = True

    def run(self, tmp: str | None = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        super().run(tmp, task_vars)
        host = str((task_vars or {}).get("inventory_hostname", "localhost"))
        _result, arguments = self.validate_argument_spec(
            argument_spec={
                "lines": {"type": "list", "elements": "str", "required": True},
                "title": {"type": "str", "default": "Besides"},
                "items": {"type": "list", "elements": "str", "default": []},
                "document": {"type": "dict"},
                "json_path": {"type": "path"},
                "unreachable": {"type": "list", "elements": "str", "default": []},
            },
        )
        lines: list[str] = arguments["lines"] + section(arguments["title"], arguments["items"])
        if lines:
            # One call, so that the lines of hosts that report at once are not mixed.
            display.display("\n" + "\n".join(lines) + "\n")
        if arguments["json_path"] and arguments["document"] is not None:
            try:
                # What an earlier run found there is no longer known to be true.
                lost = {name: {"unreachable": True} for name in arguments["unreachable"] if name != host}
                Document(Path.cwd() / arguments["json_path"]).merge({**lost, host: arguments["document"]})
            except ReportError as error:
                raise AnsibleActionFail(str(error)) from None
        return {"changed": False, "lines": lines}

# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this module util is internal to the collection; its interface may change at any time.

"""Find the latest log of the serving container."""

from __future__ import annotations

import typing as t
from pathlib import Path

from .._deployment.records import deployment_directory
from .._docker.engine import Engine, EngineError
from .lines import last_lines

LOG = Path("state/server.log")


def newest_log(state_directory: Path) -> Path | None:
    """Return the log that was written to last."""
    logs = list(state_directory.glob(f"*/{LOG}"))
    return max(logs, key=lambda path: path.stat().st_mtime) if logs else None


def find_log(state_directory: Path, socket: str, container: str) -> tuple[Path | None, str | None]:
    """Return the log of the serving container, and a note if it is not the expected one."""
    try:
        slot = Engine(socket).slot(container)
    except (OSError, EngineError) as e:
        reason = str(getattr(e, "strerror", None) or e).rstrip(".")
        path = newest_log(state_directory)
        if path is None:
            return None, f"No server has left a log below {state_directory}."
        return path, f"Docker cannot be asked what is deployed ({reason}); this is the log that was written to last."
    labels = ((slot or {}).get("Config") or {}).get("Labels") or {}
    directory = deployment_directory(state_directory, labels)
    if directory is not None:
        return directory / LOG, None
    path = newest_log(state_directory)
    if path is None:
        return None, f"Nothing is deployed, and no server has left a log below {state_directory}."
    return path, "Nothing is deployed now; this is the log that was written to last."


def last_log_lines(
    state_directory: Path, socket: str, container: str, most: int, raw: bool, all_runs: bool
) -> dict[str, t.Any]:
    """Return the last lines; if there are none, the reason as a sentence."""
    path, detail = find_log(state_directory, socket, container)
    lines: list[str] = []
    truncated = False
    if path is not None:
        try:
            lines, truncated = last_lines(path, most, raw, all_runs)
            detail = detail if lines else f"The log {path} is empty; the server has not said anything yet."
        except FileNotFoundError:
            detail = f"There is no log {path}; the server was never started, or the log was removed."
        except OSError as e:
            detail = f"The log {path} cannot be read: {e.strerror or e}."
    return {"lines": lines, "path": None if path is None else str(path), "truncated": truncated, "detail": detail}

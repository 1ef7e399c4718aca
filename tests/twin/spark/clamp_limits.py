# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Lower the resource limits in a container's configuration to what this machine may set at all."""

from __future__ import annotations

import json
import pathlib
import resource
import sys
import typing as t


def option(arguments: list[str], *names: str) -> str | None:
    """The value of the first of these options, written either way."""
    for position, argument in enumerate(arguments):
        for name in names:
            if argument == name and position + 1 < len(arguments):
                return arguments[position + 1]
            if argument.startswith(f"{name}="):
                return argument[len(name) + 1 :]
    return None


def configuration(arguments: list[str]) -> pathlib.Path | None:
    """The file that holds the process which this call of runc is about to start."""
    if "exec" in arguments:
        process = option(arguments, "--process", "-p")
        return pathlib.Path(process) if process else None
    if "create" in arguments or "run" in arguments:
        return pathlib.Path(option(arguments, "--bundle", "-b") or ".") / "config.json"
    return None


def clamp(process: dict[str, t.Any], hard_limit: t.Callable[[str], int]) -> bool:
    """Lower each limit of the process to the hard limit; say whether any was too high."""
    lowered = False
    for limit in process.get("rlimits") or []:
        allowed = hard_limit(limit["type"])
        for bound in ("soft", "hard"):
            if limit[bound] > allowed:
                limit[bound] = allowed
                lowered = True
    return lowered


def own_hard_limit(kind: str) -> int:
    """This process's hard limit, as large as a limit can be when there is none."""
    hard = resource.getrlimit(getattr(resource, kind))[1]
    return 2**64 - 1 if hard == resource.RLIM_INFINITY else hard


def main() -> None:
    path = configuration(sys.argv[1:])
    if path is None or not path.is_file():
        return
    document = json.loads(path.read_text())
    # `exec` names the process itself, a bundle has it under a key.
    if clamp(document.get("process", document), own_hard_limit):
        path.write_text(json.dumps(document))


if __name__ == "__main__":
    main()

# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t
from pathlib import PurePosixPath

from ansible.plugins.action import ActionBase

from ..module_utils._deployment.records import GENERATIONS, file_identity
from ..plugin_utils._lease.fence import require_lease

# As the module has them, where nothing is said.
OWN = "0700"
READ = "0644"


def desired_files(inputs: t.Mapping[str, t.Any]) -> dict[str, str]:
    """Return the desired files, in the form in which the module reports them. Modes must have the same notation."""
    place = PurePosixPath(GENERATIONS, inputs["generation"]) if inputs.get("generation") else PurePosixPath()
    files = inputs.get("files") or []
    below = {(place / file["name"]).parent.as_posix() for file in files} - {place.as_posix()}
    directories = {*inputs.get("subdirectories", []), *below, *[GENERATIONS] * bool(place.parts)}
    return {
        ".": file_identity(str(inputs.get("mode", OWN))),
        **dict.fromkeys(directories, file_identity("0755")),
        **{
            (place / file["name"]).as_posix(): file_identity(str(file.get("mode", READ)), str(file["content"]).encode())
            for file in files
        },
    }


class ActionModule(ActionBase):
    """Write nothing to a Spark that another run has taken over, or that has it all."""

    TRANSFERS_FILES = False
    _supports_check_mode = True

    def run(self, tmp: str | None = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        super().run(tmp, task_vars)
        variables = task_vars or {}
        require_lease(self, str(variables.get("inventory_hostname", "")))
        known, prunes = (self._task.args.get(name) for name in ("existing", "prune"))
        # The known files do not show reserved disk space.
        whole = not prunes and all("content" in file for file in self._task.args.get("files") or [])
        if known and whole and desired_files(self._task.args).items() <= known.items():
            return {"changed": False, "diff": []}
        return dict(self._execute_module(task_vars=variables))

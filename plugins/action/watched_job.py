# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import typing as t

from ..plugin_utils._report.following import Following


class ActionModule(Following):
    """Watch a job until it has ended."""

    BY_DEFAULT = True

    def run(self, tmp: str | None = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        arguments = self._task.args.get("arguments")
        if isinstance(arguments, list):
            told = [json.dumps(argument) if isinstance(argument, t.Mapping) else argument for argument in arguments]
            self._task.args = {**self._task.args, "arguments": told}
        return super().run(tmp, task_vars)

# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Modules, run in the process of the test."""

from __future__ import annotations

import contextlib
import io
import json
import types
import typing as t

import pytest
from ansible.module_utils.testing import patch_module_args


def run(module: types.ModuleType, arguments: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """Run a module with these arguments, and return what it answers."""
    said = io.StringIO()
    with patch_module_args(dict(arguments)), contextlib.redirect_stdout(said), pytest.raises(SystemExit):
        module.main()
    result: dict[str, t.Any] = json.loads(said.getvalue())
    result.pop("invocation", None)
    return result

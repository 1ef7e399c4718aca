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


def wrong_documentation(documented: t.Mapping[str, t.Any], result: t.Mapping[str, t.Any]) -> list[str]:
    """Return the names of a result that are not documented, and documented keys of its dictionaries that it lacks."""
    wrong = sorted(result.keys() - documented.keys() - {"changed"})
    for name in sorted(result.keys() & documented.keys()):
        # One may be empty, or unknown.
        if returned := keys_of({"sample": result[name]}):
            wrong += [f"{name}.{key}" for key in sorted(keys_of(documented[name]) - returned)]
    return wrong


def keys_of(documented: t.Mapping[str, t.Any]) -> set[str]:
    """Return the keys of a documented dictionary, or of the first one in a list."""
    sample = documented.get("contains") or documented.get("sample")
    first = sample[0] if isinstance(sample, list) and sample else sample
    return set(first) if isinstance(first, dict) else set()

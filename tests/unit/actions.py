# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Actions whose host is played by the test."""

from __future__ import annotations

import types
import typing as t

Answer = t.Callable[..., t.Any]


def made(action: t.Any, arguments: t.Mapping[str, t.Any], answer: Answer = lambda *_: {}) -> t.Any:
    """An action of a task with these arguments; a module that it calls answers so, and is noted in its `calls`."""
    one = action.ActionModule.__new__(action.ActionModule)
    one._task = types.SimpleNamespace(args=arguments, action="it", check_mode=False, _uuid="1")
    one._templar = types.SimpleNamespace(template=lambda value: value)
    one._play_context = types.SimpleNamespace(remote_addr="192.0.2.1")
    one._connection = types.SimpleNamespace(become=None)
    one.calls = []

    def execute(module_name: t.Any = None, module_args: t.Any = None, *_: t.Any, **__: t.Any) -> t.Any:
        one.calls.append((module_name, module_args))
        return answer(module_name, module_args)

    one._execute_module = execute
    return one

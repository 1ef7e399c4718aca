# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a Spark's Python 3.9 does not know, and no linter tells."""

from __future__ import annotations

import ast
from pathlib import Path

PLUGINS = Path(__file__).parents[3] / "plugins"


def test_a_silence_is_known_by_its_name_of_python_3_9() -> None:
    """There a socket raises `socket.timeout`, which is no TimeoutError before 3.10."""
    here = [*PLUGINS.glob("module*/**/*.py"), *PLUGINS.glob("plugin_utils/_jobs/*.py")]
    handlers = [
        (path.name, node.lineno)
        for path in here
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ExceptHandler) and node.type and "TimeoutError" in ast.dump(node.type)
    ]
    assert handlers == []

# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Who may import whom: what travels to a Spark knows nothing of the controller, and packages have floors."""

from __future__ import annotations

import ast
import typing as t
from pathlib import Path

import pytest

PLUGINS = Path(__file__).parents[3] / "plugins"
COLLECTION = "ansible_collections.dgx_spark.speculative.plugins."
ALLOWED = {
    "action": {"module_utils", "plugin_utils"},
    "callback": {"module_utils", "plugin_utils"},
    "become": set[str](),
    "doc_fragments": set[str](),
    "filter": {"module_utils", "plugin_utils"},
    "lookup": {"module_utils", "plugin_utils"},
    "module_utils": {"module_utils"},
    "modules": {"module_utils"},
    "plugin_utils": {"module_utils", "plugin_utils"},
    "shell": {"plugin_utils"},
}


def imported(path: Path) -> t.Iterator[tuple[str, str]]:
    """Kind and package, or file, of what a file takes from the collection."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(COLLECTION):
            kind, *rest = (node.module or "").removeprefix(COLLECTION).split(".")
            for room in rest[:1] or [alias.name for alias in node.names]:
                yield kind, room


@pytest.mark.parametrize("kind", sorted(path.name for path in PLUGINS.iterdir() if path.is_dir()))
def test_plugins_import_what_their_kind_may(kind: str) -> None:
    files = sorted((PLUGINS / kind).rglob("*.py"))
    breaches = [
        (path.name, other, room) for path in files for other, room in imported(path) if other not in ALLOWED[kind]
    ]
    assert breaches == []


def test_packages_do_not_need_each_other_in_a_circle() -> None:
    below: dict[str, set[str]] = {}
    for kind in ("module_utils", "plugin_utils"):
        for path in sorted((PLUGINS / kind).rglob("*.py")):
            room = f"{kind}/{path.relative_to(PLUGINS / kind).with_suffix('').parts[0]}"
            below.setdefault(room, set()).update(f"{other}/{name}" for other, name in imported(path))
            below[room].discard(room)
    # A package leaves when all that it needs has left; what stays stands in a circle, or upon one.
    while floor := {room for room, needs in below.items() if not needs & below.keys()}:
        below = {room: needs for room, needs in below.items() if room not in floor}
    assert below == {}


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

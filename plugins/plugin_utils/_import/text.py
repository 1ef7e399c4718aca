# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this plugin util is internal to the collection; its interface may change at any time.

"""Write an imported recipe: its file, and what the user reads about it."""

from __future__ import annotations

import json
import re
import shlex
import typing as t

import yaml

from ...module_utils._data.text import shorten
from ...module_utils._deployment.lines import printable, section
from .formats import FORMATS, RecipeImportError
from .imported import Imported
from .source import Source

PLAYBOOK = "playbooks/import_recipe.yml"
# The widest label of a table.
WIDEST = 36
# The longest reason; the rest would be a value of the file.
LONGEST = 400
# A value that needs no quotes in -e.
PLAIN = re.compile(r"[\w.,:/@%+~-]+")


def file_text(source: Source, imported: Imported) -> str:
    """Return the file of a recipe. The same source and choices always give the same text."""
    heading = [
        f"Made by import_recipe.yml from {source.name}, a recipe of {FORMATS.formats[source.format]}.",
        f"SHA-256 of that file: {source.digest}",
        *(f"Left out: {name}: {reason}." for name, reason in imported.dropped),
    ]
    body = yaml.safe_dump(imported.recipe, sort_keys=False, allow_unicode=True, width=4096)
    # A comment ends with its line.
    return "---\n" + "".join(f"# {printable(' '.join(line.split()))}\n" for line in heading) + body


def refusal(error: RecipeImportError, given: t.Mapping[str, t.Any]) -> str:
    """Return all reasons against a file, and the one command that imports it if the user allows that."""
    bullets = [f"- {printable(shorten(str(reason), LONGEST))}" for reason in error.args]
    if not error.inputs:
        return "\n".join(bullets)
    inputs = {
        name: [*given[name], *error.inputs.get(name, ())] if isinstance(value, list) else error.inputs.get(name, value)
        for name, value in given.items()
    }
    options = [word for name, value in inputs.items() if value for word in ("-e", written(name, value))]
    lead = "If you accept that, run:" if error.is_enough else "Some of that cannot be allowed. This allows the rest:"
    instead = "To leave options out instead, replace allow_options by without_mods=true."
    # The screen keeps a command on one line, so that it can be copied.
    command = f"    {shlex.join(['ansible-playbook', PLAYBOOK, *options])}"
    return "\n".join([*bullets, lead, command, *([instead] if "allow_options" in error.inputs else [])])


def written(name: str, value: t.Any) -> str:
    """Return an input as -e takes it."""
    text = ",".join(dict.fromkeys(value)) if isinstance(value, (list, tuple)) else str(value)
    text = text.lower() if value is True else text
    return f"{name}={text}" if PLAIN.fullmatch(text) else json.dumps({name: text})


def shown(value: t.Any) -> str:
    """Return a value on one line: a mapping as names with values."""
    if isinstance(value, dict):
        return ", ".join(f"{name} {shown(part)}" for name, part in value.items())
    return json.dumps(value) if isinstance(value, (bool, list)) else str(value)


def rows(pairs: t.Sequence[tuple[str, str]]) -> list[str]:
    """Return a table of two columns; a label too wide for it has its text behind a colon."""
    wide = max([len(name) for name, _text in pairs if len(name) <= WIDEST], default=0)
    return [f"    {name:<{wide}}  {text}" if len(name) <= wide else f"    {name}: {text}" for name, text in pairs]


def lines(source: Source, imported: Imported, path: str, did: str) -> list[str]:
    """Return what was taken, left out and noted, and the next command."""
    recipe = imported.recipe
    title = f"{source.name}, a recipe of {FORMATS.formats[source.format]}, becomes one of this collection"
    taken = [(key, shown(value)) for key, value in recipe.items() if key not in ("source", "note")]
    return [
        title,
        "",
        "  Taken:",
        *rows(taken),
        *(["", "  Left out:", *rows(imported.dropped)] if imported.dropped else []),
        *section("Notes", imported.notes),
        "",
        f"  {did}: {path}",
        f"  Next: ansible-playbook playbooks/preflight.yml -e recipe={path}",
    ]

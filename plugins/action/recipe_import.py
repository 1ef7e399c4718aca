# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import dataclasses
import re
import typing as t
from pathlib import Path

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase

from ..plugin_utils._import.convert import convert
from ..plugin_utils._import.formats import RecipeImportError
from ..plugin_utils._import.imported import Choices
from ..plugin_utils._import.source import read
from ..plugin_utils._import.text import file_text, lines, refusal
from ..plugin_utils._recipe.recipe import RECIPES, RecipeError, check_name, shipped

NOTHING = "Nothing was written."


def target_of(name: str, source: Path, directory: Path) -> Path:
    """Return the file to write; raises RecipeImportError for a name that a deployment cannot have."""
    path = directory / f"{name or re.sub('[^a-z0-9]+', '_', source.stem.lower())}.yml"
    try:
        if "/" in name:
            raise RecipeImportError(f"to is '{name}', but must be a name, which becomes that of the deployment.")
        check_name(path)
    except RecipeError as error:
        raise RecipeImportError(f"{error}. Give another name with -e to=NAME.") from None
    if path.stem in shipped(RECIPES):
        raise RecipeImportError(f"A shipped recipe has the name {path.stem}. Give another one with -e to=NAME.")
    return path


def earlier_text(path: Path) -> str:
    """Return the text of the file that is there already; empty if there is none."""
    if not path.exists():
        return ""
    # Whatever no text editor wrote differs from what is to be written.
    return path.read_text(encoding="utf-8", errors="replace")


class ActionModule(ActionBase):
    """Import a recipe on the controller, where the files are."""

    _requires_connection = False
    _supports_check_mode = True

    def run(self, tmp: str | None = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        super().run(tmp, task_vars)
        _result, arguments = self.validate_argument_spec(
            argument_spec={
                "source": {"type": "path", "default": ""},
                "name": {"type": "str", "default": ""},
                "directory": {"type": "path", "default": "recipes"},
                "replace": {"type": "bool", "default": False},
                "without_mods": {"type": "bool", "default": False},
                "allow_code_of": {"type": "list", "elements": "str", "default": []},
                "allow_options": {"type": "list", "elements": "str", "default": []},
                "revision": {"type": "str"},
                "context": {"type": "int"},
                "concurrency": {"type": "int"},
                "sparks": {"type": "int"},
            },
        )
        choices = Choices(**{field.name: arguments[field.name] for field in dataclasses.fields(Choices)})
        if not arguments["source"]:
            raise AnsibleActionFail(f"No file was given. Say which one to import with -e from=FILE. {NOTHING}")
        path = Path.cwd() / arguments["source"]
        try:
            return self._import(path, Path(arguments["directory"]), arguments["name"], arguments["replace"], choices)
        except RecipeImportError as error:
            given = {"from": arguments["source"], "to": arguments["name"], **dataclasses.asdict(choices)}
            text = refusal(error, {**given, "replace": arguments["replace"]})
            raise AnsibleActionFail(f"{path} cannot be imported. {NOTHING}\n{text}") from None
        except OSError as error:
            raise AnsibleActionFail(f"The recipe cannot be written: {error}. Correct the directory.") from None

    def _import(self, path: Path, directory: Path, name: str, replace: bool, choices: Choices) -> dict[str, t.Any]:
        source = read(path)
        target = target_of(name, path, directory)
        imported = convert(source, choices)
        text = file_text(source, imported)
        place = Path.cwd() / target
        before = earlier_text(place)
        if before not in ("", text) and not replace:
            raise RecipeImportError(
                f"{target} is there already and differs. Give another name with -e to=NAME, or add -e replace=true."
            )
        changed, is_check = before != text, bool(self._task.check_mode)
        if changed and not is_check:
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text, encoding="utf-8")
        did = "Unchanged" if not changed else "Would be written" if is_check else "Written"
        return {
            "changed": changed,
            "path": str(target),
            "recipe": imported.recipe,
            "dropped": [{"name": name, "reason": reason} for name, reason in imported.dropped],
            "notes": imported.notes,
            "lines": lines(source, imported, str(target), did),
            "diff": {"before": before, "after": text, "before_header": str(target), "after_header": str(target)},
        }

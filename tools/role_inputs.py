# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""List the inputs of each role, from its argument specs."""

from __future__ import annotations

import json
import re
import typing as t
from pathlib import Path

import yaml
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._recipe.inputs import HANDED_OVER

ROOT = Path(__file__).resolve().parent.parent
SPECIFICATIONS = {path.parts[-3]: path for path in sorted(ROOT.glob("roles/*/meta/argument_specs.yml"))}
# Markup such as O(entry#name=value), V(value) and M(namespace.collection.name).
MARKED = re.compile(r"\b(?:[CEOV]|RV)\((?:\w+#)?([^()]*)\)|\bM\((?:\w+[.])*(\w+)\)")

Options = dict[str, t.Any]


def options(role: str) -> Options:
    """Return the inputs by name, each with the description in the first entry point that has it."""
    found: Options = {}
    for specification in yaml.safe_load(SPECIFICATIONS[role].read_text(encoding="utf-8"))["argument_specs"].values():
        for name, option in (specification.get("options") or {}).items():
            found.setdefault(name, option)
    return {
        name: option
        for name, option in found.items()
        if name.startswith(f"{role}_") and not HANDED_OVER.fullmatch(name)
    }


def in_markdown(text: str) -> str:
    """Convert the markup of Ansible's documentation to Markdown."""
    return MARKED.sub(lambda found: f"`{(found[1] or found[2]).replace('=', ': ', 1)}`", text).replace("|", "\\|")


def default(option: Options) -> str:
    """Return the default of an input; empty if only its description has it."""
    value = option.get("default")
    if value is None:
        return "required" if option.get("required") else ""
    return f"`{value}`" if isinstance(value, str) and value else f"`{json.dumps(value)}`"


def meaning(option: Options) -> str:
    """Return the description of an input with its choices."""
    choices = [f"`{choice}`" for choice in option.get("choices", [])]
    said = f" Choices: {', '.join(choices)}." if choices else ""
    return in_markdown(" ".join(option["description"])) + said


def inputs(role: str) -> list[tuple[str, str, str]]:
    """Return name, default and meaning of each input."""
    return [(f"`{name}`", default(option), meaning(option)) for name, option in options(role).items()]

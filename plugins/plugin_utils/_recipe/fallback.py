# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this plugin util is internal to the collection; its interface may change at any time.

"""Return the alternative if a recipe's image is missing or refuses its options: the recipe in its key fallback."""

from __future__ import annotations

import typing as t

from .._engines.engine import of_recipe
from .._engines.registry import engine_of
from .recipe import RECIPES, load, without_drafts
from .table import image as tag_of

COMMAND = "ansible-playbook playbooks/serve.yml -e recipe="
WITHOUT = " -e speculation=off"


def faults_of_drafts(recipe: t.Mapping[str, t.Any]) -> list[str]:
    """Return where the faults are reported that a recipe has with speculation only."""
    with_drafts, without = (
        {issue.id: issue.url for issue in engine_of(one).build(of_recipe(one)).known_issues}
        for one in (recipe, without_drafts(recipe))
    )
    return [url for name, url in with_drafts.items() if name not in without]


def differences(recipe: t.Mapping[str, t.Any], other: t.Mapping[str, t.Any]) -> str:
    """Return in a sentence what another recipe serves otherwise, without its full stop; empty if it is the same."""
    told = []
    if other["concurrency"] != recipe.get("concurrency", other["concurrency"]):
        requests = "request" if other["concurrency"] == 1 else "requests"
        told.append(f"{other['concurrency']} {requests} at a time instead of {recipe['concurrency']}")
    heads = [(one.get("draft_model") or {}).get("id") for one in (recipe, other)]
    if all(heads) and heads[0] != heads[1]:
        told.append(f"with the draft model {heads[1]} instead of {heads[0]}")
    return f"It serves {', '.join(told)}" if told else ""


def advice(recipe: t.Mapping[str, t.Any], image: str, limit: str = "") -> str:
    """Return the commands to run instead, each on its own line, with the option limit at their end.

    They are empty if the recipe names nothing, or if another image than its own fails.
    """
    name = recipe.get("fallback")
    if not name or image != recipe["image"]:
        return ""
    other = load(RECIPES / f"{name}.yml")
    start = ". ".join(filter(None, (f"Recipe {name} has the image {tag_of(other)}", differences(recipe, other))))
    faults = faults_of_drafts(other)
    if not faults:
        return f"{start}:\n{COMMAND}{name}{limit}"
    return (
        f"{start}. Its known issues do not matter without speculation:\n{COMMAND}{name}{WITHOUT}{limit}\n"
        f"With speculation, if you accept these issues ({', '.join(faults)}):\n{COMMAND}{name}{limit}"
    )

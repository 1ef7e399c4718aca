# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this plugin util is internal to the collection; its interface may change at any time.

"""The table of the recipes for a Spark: which fits now, what is there already, and what a run would download.

Neither the registry nor the Hub is asked. What only they know is named as not known.
"""

from __future__ import annotations

import dataclasses
import typing as t

from ...module_utils._data.text import amount
from ...module_utils._deployment.lines import section, width, wrap_text
from ...module_utils._deployment.names import LABEL
from .._engines.methods import NONE
from .._engines.registry import engine_of
from .._recipe import table as recipe_table
from . import memory, serving, sizes

Mapping = t.Mapping[str, t.Any]
COLUMNS = ("recipe", "Sparks", "fits now", "there", "to download")
VERDICTS = {
    memory.FITS: "yes",
    memory.LESS_CONTEXT: "less context",
    memory.DOES_NOT_FIT: "no",
    memory.UNKNOWN: "not known yet",
}
# What fits comes first; what needs more Sparks comes last.
ORDER = tuple(VERDICTS[verdict] for verdict in (memory.FITS, memory.LESS_CONTEXT, memory.UNKNOWN, memory.DOES_NOT_FIT))
NOTHING = "nothing"
INDENT = " " * 6
HUB = ("id", "revision", "include", "exclude")
NOTES = (
    "'fits now' counts with the recipe's values and the memory that is available now. The size of a model that is not "
    "there is known when you plan.",
    "A download without a size is asked of the registry or the Hub when you plan.",
    "To plan one of them: ansible-playbook playbooks/preflight.yml -e recipe=RECIPE",
)


@dataclasses.dataclass(frozen=True)
class Found:
    """The recipes by the value of -e recipe=, errors of others, and the facts of the Spark and its inventory."""

    named: t.Mapping[str, Mapping]
    problems: t.Sequence[str]
    docker: Mapping
    snapshot: Mapping
    sparks: int
    reserve_gib: t.Any

    def models(self, recipe: Mapping) -> list[Mapping]:
        """Return what the cache has of each model of a recipe from the Hub."""
        views = self.snapshot.get("repositories") or []
        return [
            next((view for view in views if all(view.get(key) == model[key] for key in HUB)), model)
            for model in recipe["repositories"]
        ]

    def has_image(self, recipe: Mapping) -> bool | None:
        """Return whether the image is there; None if Docker cannot tell."""
        images = self.docker.get("images")
        return None if images is None else recipe["image"] in images


def fits(found: Found, recipe: Mapping) -> str:
    """Return whether a recipe fits, by the memory plan that a run makes."""
    if recipe["sparks"] > found.sparks:
        return f"needs {recipe['sparks']} Sparks"
    args = {
        "recipe": recipe,
        "options": {},
        "reserve_gib": found.reserve_gib,
        "memory": found.docker.get("memory") or {},
        "facts": {"": found.snapshot.get("model_facts") or {}},
    }
    try:
        return VERDICTS[memory.plan(sizes.read(serving.memory_request(args, recipe)))["verdict"]]
    except sizes.PlanError:
        return "no"


def there(found: Found, recipe: Mapping) -> str:
    """Return what of image and models is there."""
    models = found.models(recipe)
    verified = [model for model in models if model.get("verified")]
    parts = ["image"] if found.has_image(recipe) else []
    if recipe["directories"]:
        parts.append("directories, not checked")
    if models and len(verified) == len(models):
        parts.append("models")
    elif some := sum(model.get("bytes_on_disk") or 0 for model in models):
        parts.append(f"{amount(some)} of models")
    return ", ".join(parts) or "-"


def to_download(found: Found, recipe: Mapping) -> str:
    """Return what is missing, with its size if that is known."""
    missing = [model for model in found.models(recipe) if not model.get("verified")]
    image = {None: ["image not known"], False: ["image"], True: []}[found.has_image(recipe)]
    known = [model.get("bytes_missing") for model in missing]
    size = "" if None in known else f" ({amount(sum(filter(None, known)))})"
    return ", ".join([*image, *([f"models{size}"] if missing else [])]) or NOTHING


def facts(found: Found) -> dict[str, t.Any]:
    """Return the table as data, for programs."""
    rows = {
        name: {
            **{key: recipe[key] for key in ("title", "engine", "image", "sparks", "method", "draft_length", "figures")},
            "target_model": recipe["target"],
            "draft_model": recipe["draft"],
            "fits": fits(found, recipe),
            "image_present": found.has_image(recipe),
            "models": [
                {key: model.get(key) for key in ("id", "verified", "bytes_on_disk", "bytes_missing")}
                for model in found.models(recipe)
            ],
        }
        for name, recipe in found.named.items()
    }
    return {"recipes": rows, "problems": list(found.problems)}


def about(recipe: Mapping) -> str:
    """Return models, method and engine of a recipe in a line."""
    draft = f" with {recipe['draft']}" if recipe["draft"] else ""
    engine = f"{engine_of(recipe).words} {recipe_table.image(recipe)}"
    method = "no speculation" if recipe["method"] == NONE else recipe_table.method(recipe)
    return f"{recipe['target']}{draft}; {method}; {engine}"


def deployed(found: Found, recipe: Mapping) -> bool:
    """Return whether the serving container runs this recipe."""
    slot = found.docker.get("slot") or {}
    return slot.get("state") == "running" and (slot["labels"] or {}).get(f"{LABEL}deployment") == recipe["name"]


def in_order(found: Found) -> list[tuple[str, ...]]:
    """Return the cells of each recipe: what is deployed first, then what fits, and of that what is there."""
    rows = []
    for name, recipe in found.named.items():
        verdict, missing = fits(found, recipe), to_download(found, recipe)
        place = ORDER.index(verdict) if verdict in ORDER else len(ORDER)
        rank = (not deployed(found, recipe), place, missing != NOTHING, found.has_image(recipe) is not True)
        rows.append((rank, (name, str(recipe["sparks"]), verdict, there(found, recipe), missing)))
    return [cells for _rank, cells in sorted(rows, key=lambda row: row[0])]


def table(cells: t.Sequence[tuple[str, ...]]) -> list[list[str]]:
    """Return the lines of each recipe and of the heading, which are a table if the page is wide enough."""
    widths = [max(len(row[column]) for row in (COLUMNS, *cells)) for column in range(len(COLUMNS))]
    rows = ["  " + "  ".join(text.ljust(wide) for text, wide in zip(row, widths)).rstrip() for row in (COLUMNS, *cells)]
    if max(map(len, rows)) <= width():
        return [[row] for row in rows]
    sentences = ("; ".join(f"{name}: {text}" for name, text in zip(COLUMNS[1:], row[1:])) for row in cells)
    return [[], *([f"  {row[0]}", *wrap_text(text, INDENT, INDENT)] for row, text in zip(cells, sentences))]


def render(host: str, found: Found) -> list[str]:
    """Return the table: a row a recipe, and below it what it serves."""
    cells = in_order(found)
    heading, *rows = table(cells)
    here = "".join(f", {name} is deployed" for name, recipe in found.named.items() if deployed(found, recipe))
    lines = [f"{host}: {len(found.named)} recipes{here}", "", *heading]
    for row, (name, *_cells) in zip(rows, cells):
        lines += [*row, *wrap_text(about(found.named[name]), INDENT, INDENT)]
    problems = [f"    {line}" for problem in found.problems for line in problem.splitlines()]
    return [*lines, *section("Notes", NOTES), *(["", "  Cannot be used:", *problems] if problems else [])]

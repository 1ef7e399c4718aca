# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this plugin util is internal to the collection; its interface may change at any time.

"""The report of what is newer than a deployment, and the recipe that deploys it."""

from __future__ import annotations

import typing as t

from ...module_utils._data.text import amount
from ...module_utils._deployment.lines import wrap_text
from ...module_utils._updates.updates import BRANCH, LOCAL, NEWER, UNKNOWN, Row, short
from .._recipe.recipe import with_models

MODELS = ("target_model", "draft_model")
Mapping = t.Mapping[str, t.Any]


def is_recipe_of(record: Mapping, recipe: Mapping) -> bool:
    """Return whether a recipe has the models of a deployment."""
    return [recipe["target"], recipe["draft"]] == [record.get(key) or "" for key in MODELS]


def deployed_models(record: Mapping, recipe: Mapping) -> list[dict[str, t.Any]]:
    """Return each model with its deployed commit and, from the recipe if it is known, its revision and files."""
    commits = {name: (model or {}).get("commit") for name, model in (record.get("models") or {}).items()}
    rows = [(record[key], recipe.get(key) or {}) for key in MODELS if record.get(key)]
    return [
        {
            "id": name,
            "commit": commits.get(name),
            "revision": model.get("revision") or BRANCH,
            **{key: list(model.get(key) or ()) for key in ("include", "exclude")},
        }
        for name, model in rows
    ]


def overrides(record: Mapping, recipe: Mapping, rows: t.Iterable[Row]) -> dict[str, t.Any]:
    """Return the recipe with the newer image and commits; the deployed image stays if there is no newer one."""
    proposed = {row.name if row.kind == "model" else row.kind: row.proposed for row in rows if row.proposed}
    models = {
        key: {**recipe[key], "revision": proposed.get(recipe[key]["id"]) or recipe[key]["revision"]}
        for key in MODELS
        if recipe[key]
    }
    image = proposed.get("image") or record["image"]["reference"]
    # The recipe's note is about its own image.
    note = recipe["note"] if image == recipe["image"] else ""
    return with_models({**recipe, **models, "image": image, "note": note})


def table(rows: t.Iterable[Row]) -> list[str]:
    cells = [("", "now", "newest", "")]
    for row in rows:
        size = f", {amount(row.bytes)} to fetch at most" if row.bytes and row.verdict == NEWER else ""
        newest = short(row.newest) if row.verdict != LOCAL else "-"
        cells.append((row.name, short(row.current), newest, row.verdict + size))
    widths = [max(len(cell[column]) for cell in cells) for column in range(3)]
    return [
        "  " + "  ".join([*(text.ljust(width) for text, width in zip(cell, widths)), cell[3]]).rstrip()
        for cell in cells
    ]


def next_steps(recipe: Mapping, rows: t.Sequence[Row]) -> list[str]:
    """Return what a user can do next, for a run that changed nothing."""
    if not any(row.proposed for row in rows):
        unknown = " and ".join(row.name for row in rows if row.verdict == UNKNOWN)
        return [f"Nothing newer to deploy{unknown and f', but what is newest is unknown for {unknown}'}."]
    if not recipe:
        return [
            "Nothing was changed. The recipe of this deployment is none of the shipped ones: give it with",
            "-e recipe=PATH to see its pinned revisions, and to deploy the newer versions.",
        ]
    return [
        "Nothing was changed. To deploy it: update.yml -e apply=true; to roll back: serve.yml -e previous=true.",
        "Inputs that were given with -e when it was deployed have to be given again.",
    ]


def untried(rows: t.Iterable[Row]) -> list[str]:
    """Return a note on a newer image that is not proposed, with the input that tries it."""
    return [
        f"{row.beyond} is the newest release. It is not proposed, because it may need other engine options; to try it: "
        f"-e engine_container_image={row.name}:{row.beyond}."
        for row in rows
        if row.beyond
    ]


def persist_lines(rows: t.Iterable[Row]) -> list[str]:
    """Return what a user can do once the newer versions are deployed."""
    images = [row.proposed for row in rows if row.kind == "image" and row.proposed]
    return [
        *(f"To keep this image, set engine_container_image: {image} in the inventory." for image in images),
        "To roll back: serve.yml -e previous=true",
    ]


def report(host: str, record: Mapping, recipe: Mapping, rows: t.Sequence[Row]) -> dict[str, t.Any]:
    """Return the results of the action update_info."""
    newer = any(row.proposed for row in rows)
    heading = f"{host}: what is newer than '{record['deployment']}', deployed {record.get('deployed_at') or 'once'}"
    told = [*(note for row in rows for note in row.notes), *untried(rows)]
    notes = [line for note in told for line in wrap_text(note, "  - ", "    ")]
    return {
        "newer": newer,
        "overrides": overrides(record, recipe, rows) if recipe and newer else {},
        "lines": [heading, *table(rows), *notes],
        "next_steps": next_steps(recipe, rows),
        "persist_lines": persist_lines(rows),
    }


def nothing(host: str) -> dict[str, t.Any]:
    """Return the results if nothing is deployed."""
    lines = [
        f"{host}: nothing is deployed here that could be newer.",
        "Run a playbook such as single_eagle3.yml.",
    ]
    empty = {"rows": [], "next_steps": [], "persist_lines": [], "overrides": {}, "path": ""}
    return {"changed": False, "newer": False, "lines": lines, **empty}

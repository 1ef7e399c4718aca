# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this plugin util is internal to the collection; its interface may change at any time.

"""What comes of what is newer than a deployment: what is known of it, what a switch would take, and the words."""

from __future__ import annotations

import copy
import dataclasses
import typing as t

from ansible_collections.dgx_spark.speculative.plugins.module_utils._deployment.lines import wrapped
from ansible_collections.dgx_spark.speculative.plugins.module_utils._docker.release import version_of
from ansible_collections.dgx_spark.speculative.plugins.module_utils._models.cache import amount
from ansible_collections.dgx_spark.speculative.plugins.module_utils._report.updates import (
    LOCAL,
    NEWER,
    SUPERSEDED,
    UNKNOWN,
    Deployment,
    Row,
    deployment_of,
    short,
    subject_of,
)
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._trtllm.known_issues import Case, known_issues


def new_issues(deployment: Deployment, now: str, tag: str) -> list[str]:
    """What is reported of a release for just these models and options, and not of the present one."""

    def issues(release: str) -> dict[str, str]:
        case = Case(version_of(release), deployment.method, deployment.options, deployment.target, deployment.sparks)
        return {issue.id: str(issue) for issue in known_issues(case)}

    known = issues(now)
    return [f"Known of {tag}: {text}." for id_, text in issues(tag).items() if id_ not in known]


class Shipped(t.NamedTuple):
    """What matters of a shipped recipe for those who draft with another model."""

    name: str
    target: str
    draft: str
    # The drafts whose place its own takes, and where that is said.
    supersedes: t.Sequence[str]
    source: str


def draft_row(deployment: Deployment, recipes: t.Iterable[Shipped]) -> Row | None:
    """The draft that replaces the present one, and how it is come by: it is another model, so another recipe."""
    better = [recipe for recipe in recipes if deployment.draft in recipe.supersedes]
    if not better:
        return None
    best = next((recipe for recipe in better if recipe.target == deployment.target), better[0])
    row = Row("draft", deployment.draft, current=deployment.draft, newest=best.draft, verdict=SUPERSEDED)
    how = (
        f"serve.yml -e recipe={best.name} serves it"
        if best.target == deployment.target
        else "to serve it, set draft_model.id in a copy of the recipe"
    )
    row.notes.append(f"{best.draft} is recommended in place of the draft {deployment.draft} ({best.source}); {how}.")
    return row


def overrides(recipe: t.Mapping[str, t.Any], deployment: Deployment, rows: t.Iterable[Row]) -> dict[str, t.Any]:
    """What a recipe says when the proposals are taken. The image that serves stays if none is proposed."""
    rows = list(rows)
    proposed = {row.name: row.proposed for row in rows if row.kind == "model" and row.proposed}
    changed = copy.deepcopy(dict(recipe))
    models = [changed.get("target_model"), changed.get("draft_model"), *(changed.get("repositories") or ())]
    for model in models:
        if model and model.get("id") in proposed:
            model["revision"] = proposed[model["id"]]
    image = next((row.proposed for row in rows if row.kind == "image"), None) or deployment.image
    # What a recipe says of its image is of no other one.
    return {**changed, "image": image, **({"note": ""} if image != recipe.get("image") else {})}


def keep_lines(deployment: Deployment, rows: t.Iterable[Row]) -> list[str]:
    """What to write down so that the next plain run serves the same."""
    proposed = [row for row in rows if row.proposed]
    images = [row.proposed for row in proposed if row.kind == "image"]
    # What the recipe itself pins needs no writing down.
    models = {model.name: model for model in deployment.models}
    revisions = [
        f"    {models[row.name].key}: {{revision: {row.proposed}}}"
        for row in proposed
        if row.kind == "model" and models[row.name].revision != row.proposed
    ]
    lines = []
    if images or revisions:
        lines = ["The next plain run follows recipe and inventory again. To keep what was switched to, write down"]
    if images:
        lines += ["  in the inventory, among the variables of 'sparks':", f"    trtllm_container_image: {images[0]}"]
    if revisions:
        lines += ["  in the recipe, or a copy of it with the same file name:", *revisions]
    return [*lines, "To go back: serve.yml -e previous=true"] if proposed else []


def table(rows: t.Iterable[Row]) -> list[str]:
    cells = [("", "now", "newest", "")]
    superseded = {row.name for row in rows if row.kind == "draft"}
    for row in rows:
        if row.kind == "draft":
            continue
        verdict = row.verdict
        if row.bytes and row.verdict == NEWER:
            verdict += f", {amount(row.bytes)} to fetch at most"
        if row.name in superseded:
            verdict += ", has a successor"
        newest = short(row.newest) if row.verdict != LOCAL else "-"
        cells.append((row.name, short(row.current), newest, verdict))
    widths = [max(len(cell[column]) for cell in cells) for column in range(3)]
    return [
        "  " + "  ".join([*(text.ljust(width) for text, width in zip(cell, widths)), cell[3]]).rstrip()
        for cell in cells
    ]


def note_lines(rows: t.Iterable[Row]) -> list[str]:
    """Every sentence once, wrapped; a command or an address is not torn apart."""
    notes = list(dict.fromkeys(note for row in rows for note in row.notes))
    return [line for note in notes for line in wrapped(note, "  - ", "    ")]


def heading(host: str, record: t.Mapping[str, t.Any], recipe: t.Mapping[str, t.Any]) -> str:
    if record:
        return f"{host}: what is newer than '{record['deployment']}', deployed {record.get('deployed_at') or 'once'}"
    return f"{host}: what is newer than recipe '{recipe.get('name')}', which does not serve here"


def closing(record: t.Mapping[str, t.Any], recipe: t.Mapping[str, t.Any], rows: t.Iterable[Row]) -> list[str]:
    """What can be done about it, for a run that changed nothing."""
    rows = list(rows)
    if not any(row.proposed for row in rows):
        unknown = any(row.verdict == UNKNOWN for row in rows)
        return [f"Nothing newer to switch to{', as far as could be asked' if unknown else ''}."]
    if record and not recipe:
        return [
            "Nothing was changed. The recipe of what serves is none of the shipped ones: give it with",
            "-e recipe=PATH to see what it pins, and to switch.",
        ]
    if not record:
        return [f"Nothing was changed. To switch later, serve it first: serve.yml -e recipe={recipe.get('name')}"]
    return [
        "Nothing was changed. To switch: update.yml -e apply=true; the way back: serve.yml -e previous=true.",
        "Inputs that were given with -e when it was deployed have to be given again.",
    ]


def told(arguments: t.Mapping[str, t.Any], asked: t.Sequence[t.Mapping[str, t.Any]], host: str) -> dict[str, t.Any]:
    """The whole answer of the action update_info, from its arguments and the rows that its module has asked for."""
    record, recipe, fits, notes = subject_of(
        arguments.get("record") or {}, arguments.get("recipe") or {}, arguments.get("subject") or "record"
    )
    deployment = deployment_of(record, recipe)
    image, *models = (Row(**row) for row in asked)
    image.notes = notes + image.notes
    if image.proposed:
        image.notes += new_issues(deployment, str(image.current), str(image.newest))
    draft = draft_row(deployment, [Shipped(*one) for one in arguments.get("recipes") or ()])
    rows = [image, *models, *([draft] if draft else [])]
    return {
        "rows": [dataclasses.asdict(row) for row in rows],
        "newer": any(row.proposed for row in rows),
        "recipe_fits": fits,
        "overrides": overrides(recipe, deployment, rows),
        "lines": [heading(host, record, recipe), *table(rows), *note_lines(rows)],
        "closing": closing(record, recipe, rows),
        "keep": keep_lines(deployment, rows),
    }


def nothing(host: str) -> dict[str, t.Any]:
    """The answer where nothing is deployed and no recipe was asked about."""
    lines = [
        f"{host}: nothing is deployed here that could be newer.",
        "Run a playbook such as single_eagle3.yml, or ask about a recipe with -e recipe=NAME.",
    ]
    empty: dict[str, t.Any] = {"rows": [], "closing": [], "keep": [], "overrides": {}, "path": ""}
    return {"changed": False, "newer": False, "recipe_fits": False, "lines": lines, **empty}

# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this plugin util is internal to the collection; its interface may change at any time.

"""Store the draft length that a benchmark chose. It applies only to the measured recipe, image and models."""

from __future__ import annotations

import hashlib
import json
import typing as t

from ...module_utils._deployment.names import LABEL
from .point import drafts

# Keys of a recipe that do not change the deployment, since they name or describe it, or follow from its engine.
DESCRIPTIONS = (
    *("title", "source", "fallback", "note", "evidence", "figures", "variant", "variants", "container_role"),
)


def recipe_hash(recipe: t.Mapping[str, t.Any]) -> str:
    """Return the hash of a recipe's values, by which a stored choice is found."""
    said = {key: value for key, value in recipe.items() if key not in DESCRIPTIONS}
    return hashlib.sha256(json.dumps(said, sort_keys=True, default=str).encode()).hexdigest()


def commits(models: t.Mapping[str, t.Mapping[str, t.Any]]) -> dict[str, str]:
    """Return the identity of a model's files: the commit, or the fingerprint of a directory."""
    return {name: str(model.get("commit") or model.get("fingerprint") or "") for name, model in models.items()}


def choice_record(
    report: t.Mapping[str, t.Any],
    record: t.Mapping[str, t.Any],
    recipe: t.Mapping[str, t.Any],
    speculative_config: t.Mapping[str, t.Any],
) -> dict[str, t.Any]:
    """Return the record of a benchmark that came to a verdict; empty if it did not."""
    verdict = report["verdict"]
    if verdict["kind"] not in ("use", "off"):
        return {}
    drafted = drafts(verdict)
    return {
        "draft_length": drafted,
        "method": recipe["method"] if drafted else "none",
        "date": report["date"],
        "sentence": verdict["sentence"],
        "recipe": recipe_hash(recipe),
        "variant": recipe.get("variant", ""),
        "image": record["image"]["reference"],
        "models": commits(record["models"]),
        "speculative_config": speculative_config,
    }


def verdict(report: t.Mapping[str, t.Any], record: t.Mapping[str, t.Any]) -> dict[str, str]:
    """Return the verdict of a benchmark about its deployment; empty if it is undecided."""
    if report["verdict"]["kind"] == "undecided":
        return {}
    configuration = record["container"]["labels"].get(f"{LABEL}configuration", "")
    return {"date": report["date"], "sentence": report["verdict"]["sentence"], "configuration": configuration}


def applicable_choice(
    choice: t.Mapping[str, t.Any] | None,
    recipe: t.Mapping[str, t.Any],
    image: str,
    models: t.Mapping[str, t.Mapping[str, t.Any]],
) -> dict[str, t.Any]:
    """Return the choice if it was made for just this; empty if not. Models that are not known yet do not count."""
    if not choice or choice.get("recipe") != recipe_hash(recipe) or choice.get("image") != image:
        return {}
    now = commits(models)
    measured = choice.get("models") or {}
    if any(now[name] != commit for name, commit in measured.items() if now.get(name)):
        return {}
    return {key: choice[key] for key in ("draft_length", "method", "date", "sentence")}

# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The engine options of each shipped recipe and variant of vLLM, as a release gets them with the options of a plan."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import typing as t
from pathlib import Path

from ansible.utils.vars import merge_hash
from ansible_collections.dgx_spark.speculative.plugins.module_utils._docker.release import release_of, version_of
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._engines.engine import Planned, of_recipe
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._engines.registry import ENGINES, build
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._recipe.recipe import load

from tests.verdicts.environments import RELEASES, ROOT

RECIPES = ROOT / "playbooks/recipes"
VLLM = ENGINES["vllm"]
# All recipes are asked of this one, too.
LAST = RELEASES[-1]
# The memory plan's own figures would change the options with each change of its formulas.
TOKENS, CACHE_BYTES, SHARE = 8192, 2**30, 0.5

FILE = Path(__file__).with_name("verdicts.yml")

Recipe = dict[str, t.Any]
# By the name of a recipe and a release: hash, parser and configuration.
Verdicts = t.Mapping[str, t.Mapping[str, t.Mapping[str, str]]]


def recipes(directory: Path = RECIPES) -> dict[str, Recipe]:
    """Return the recipes of vLLM with their variants, by name."""
    result: dict[str, Recipe] = {}
    for path in sorted(directory.glob("*.yml")):
        recipe = load(path)
        if recipe["engine"] == VLLM.name:
            variants = {f"{path.stem}/{variant}": load(path, variant) for variant in recipe["variants"]}
            result |= {path.stem: recipe, **variants}
    return result


def own_release(recipe: Recipe) -> str | None:
    """Return the release of a recipe's image, if it is one that is asked."""
    version = version_of(release_of(recipe["image"]))
    same = [one for one in RELEASES if version is not None and version[:3] == (version_of(one) or ())[:3]]
    return same[0] if same else None


def releases(recipe: Recipe) -> list[str]:
    """Return the releases of which a recipe is asked."""
    own = own_release(recipe)
    return list(dict.fromkeys([*([own] if own else []), LAST]))


def options(recipe: Recipe, release: str) -> dict[str, t.Any]:
    """Return the engine options of a recipe for a release, with those that a plan adds."""
    planned = Planned(
        int(recipe["concurrency"] or 1), recipe["context"] or None, TOKENS, False, cache_bytes=CACHE_BYTES, share=SHARE
    )
    request = of_recipe({**recipe, "image": f"vllm/vllm-openai:v{release}"})
    filled = merge_hash(VLLM.fill(recipe["options"], planned), recipe["options"])
    built = build(VLLM, dataclasses.replace(request, options=filled))
    if built.errors:
        raise ValueError(f"{recipe['name']} for vLLM {release}: {'; '.join(map(str, built.errors))}")
    return built.options


def digest(given: t.Mapping[str, t.Any]) -> str:
    """Return the hash of engine options, whatever their order."""
    return hashlib.sha256(json.dumps(given, sort_keys=True).encode()).hexdigest()[:16]


def digests(recipe: Recipe) -> dict[str, str]:
    """Return the hash of a recipe's options for each release of which it is asked."""
    return {release: digest(options(recipe, release)) for release in releases(recipe)}


def not_asked(found: t.Mapping[str, Recipe], verdicts: Verdicts) -> list[str]:
    """Return the recipes that a release was not asked about as they are rendered now, and the verdicts on others."""
    wanted = {(name, release, one) for name, recipe in found.items() for release, one in digests(recipe).items()}
    known = {(name, release, row["hash"]) for name, rows in verdicts.items() for release, row in rows.items()}
    return sorted({f"{name}, vLLM {release}" for name, release, _hash in wanted ^ known})


def refused(verdicts: Verdicts) -> list[str]:
    """Return the recipes that a release refuses, with what it says."""
    return [
        f"{name}, vLLM {release}: {row['parser']}"
        for name, rows in verdicts.items()
        for release, row in rows.items()
        if row["parser"] != "accepted"
    ]

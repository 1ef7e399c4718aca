# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import dataclasses
import typing as t
from pathlib import Path

import pytest
import yaml
from ansible_collections.dgx_spark.speculative.plugins.module_utils._deployment.lines import Page
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._recipe.recipe import RECIPES, complete, load
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._serving.recipes import Found, render

ROOT = Path(__file__).parents[5]
GB = 10**9
NAME = "single_first_light"
RECIPE = load(RECIPES / f"{NAME}.yml")
(MODEL,) = RECIPE["repositories"]
FACTS = {"weights_bytes": GB, "layers": 30, "kv_heads": 3, "head_dim": 64, "max_context": 8192}
MEMORY = {"total": 128 * GB, "available": 110 * GB, "slot": 0, "usage": []}


def row(
    recipe: dict[str, t.Any] | None = None,
    images: list[str] | None = None,
    memory: dict[str, t.Any] | None = None,
    facts: dict[str, t.Any] | None = None,
    sparks: int = 1,
    reserve: t.Any = 12,
    **view: t.Any,
) -> list[str]:
    """Return the cells of the row of one recipe."""
    recipe = recipe or RECIPE
    snapshot = {
        "repositories": [
            {**model, "verified": False, "bytes_missing": None, **view} for model in recipe["repositories"]
        ],
        "model_facts": {model["id"]: facts or {} for model in recipe["repositories"]},
    }
    docker = {"images": images, "memory": memory or MEMORY}
    lines = render("spark-1", Found({NAME: recipe}, [], docker, snapshot, sparks, reserve))
    (found,) = [line for line in lines if line.startswith(f"  {NAME}")]
    return [cell.strip() for cell in found.split("  ") if cell.strip()]


def test_what_is_there_fits_and_needs_nothing() -> None:
    cells = row(images=[RECIPE["image"]], facts=FACTS, verified=True, bytes_missing=0)
    assert cells == [NAME, "1", "yes", "image, models", "nothing"]


@pytest.mark.parametrize(
    ("changes", "fits"),
    [
        ({"facts": FACTS}, "yes"),
        ({"facts": None}, "not known yet"),
        ({"facts": {**FACTS, "layers": None}}, "not known yet"),
        ({"facts": {**FACTS, "weights_bytes": 200 * GB}}, "no"),
        ({"facts": FACTS, "memory": {**MEMORY, "available": 8_600_000_000}}, "less context"),
        # What the current deployment takes would be free.
        ({"facts": FACTS, "memory": {**MEMORY, "available": GB, "slot": 100 * GB}}, "yes"),
        ({"facts": FACTS, "memory": {"total": None, "available": None}}, "not known yet"),
        ({"facts": {**FACTS, "max_context": 4096}}, "no"),
        ({"facts": FACTS, "recipe": load(RECIPES / "qwen3_235b_a22b_eagle3.yml")}, "needs 2 Sparks"),
        ({"facts": FACTS, "reserve": 119}, "no"),
    ],
)
def test_whether_it_fits(changes: dict[str, t.Any], fits: str) -> None:
    assert row(**changes)[2] == fits


SMALL, LARGE = {**RECIPE, "name": "small"}, load(RECIPES / "single_eagle3.yml")
BOTH = Found(
    {"a_large": LARGE, "small": SMALL},
    [],
    {"images": [RECIPE["image"]], "memory": MEMORY},
    {"repositories": [{**MODEL, "verified": True}], "model_facts": {MODEL["id"]: FACTS}},
    1,
    12,
)


def names(found: Found) -> list[str]:
    return [line.split()[0] for line in render("spark-1", found) if line.startswith(("  a_large", "  small"))]


def test_what_is_deployed_comes_first_and_then_what_fits() -> None:
    assert names(BOTH) == ["small", "a_large"]
    slot = {"state": "running", "labels": {"dgx_spark.speculative.deployment": "single_eagle3"}}
    with_slot = dataclasses.replace(BOTH, docker={**BOTH.docker, "slot": slot})
    assert names(with_slot) == ["a_large", "small"]
    assert render("spark-1", with_slot)[0] == "spark-1: 2 recipes, a_large is deployed"
    stopped = dataclasses.replace(BOTH, docker={**BOTH.docker, "slot": {**slot, "state": "exited"}})
    assert names(stopped) == ["small", "a_large"]


@pytest.mark.parametrize("columns", [60, 80, 100])
def test_the_list_is_as_wide_as_the_page(monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    monkeypatch.setattr(Page, "columns", columns)
    found = dataclasses.replace(BOTH, named={"single_nemotron_3_super_mtp_trtllm": LARGE})
    assert max(map(len, render("spark-1", found))) <= columns


def test_two_sparks_suffice_for_what_needs_two() -> None:
    recipe = load(RECIPES / "qwen3_235b_a22b_eagle3.yml")
    assert row(recipe=recipe, facts={**FACTS, "attention_heads": 64}, sparks=2)[2] in ("yes", "less context", "no")


@pytest.mark.parametrize(
    ("changes", "there", "download"),
    [
        ({"images": None}, "-", "image not known, models"),
        ({"images": []}, "-", "image, models"),
        ({"images": [RECIPE["image"]]}, "image", "models"),
        ({"images": [], "verified": True}, "models", "image"),
        ({"images": [], "bytes_on_disk": 2 * GB}, "2.0 GB of models", "image, models"),
        ({"images": [], "bytes_missing": 3 * GB}, "-", "image, models (3.0 GB)"),
    ],
)
def test_what_is_there_and_what_is_not(changes: dict[str, t.Any], there: str, download: str) -> None:
    assert row(**changes)[3:] == [there, download]


def test_a_model_of_another_revision_is_another_one() -> None:
    views = [{**MODEL, "revision": "main", "verified": True}]
    snapshot = {"repositories": views, "model_facts": {}}
    lines = render("spark-1", Found({NAME: RECIPE}, [], {"images": [], "memory": MEMORY}, snapshot, 1, 12))
    assert any(line.endswith("image, models") for line in lines)


def test_one_of_two_models_is_not_all_of_them() -> None:
    recipe = load(RECIPES / "single_eagle3.yml")
    target, draft = recipe["repositories"]
    views = [{**target, "verified": False, "bytes_on_disk": GB}, {**draft, "verified": True, "bytes_on_disk": GB}]
    snapshot = {"repositories": views, "model_facts": {}}
    lines = render("spark-1", Found({NAME: recipe}, [], {"images": [], "memory": MEMORY}, snapshot, 1, 12))
    assert any(line.endswith("2.0 GB of models  image, models") for line in lines)


def test_models_in_directories_are_not_checked() -> None:
    data = {"title": "A", "source": "a", "sparks": 1, "image": "nvcr.io/nvidia/tensorrt-llm/release:1.3.0rc12"}
    recipe = complete(NAME, {**data, "method": "none", "target_model": {"directory": "/models/a"}})
    assert row(recipe=recipe, images=[])[2:] == ["not known yet", "directories, not checked", "image"]


def test_what_cannot_be_used_is_named() -> None:
    found = Found({}, ["The recipe recipes/a.yml cannot be used:\n- title is missing"], {}, {}, 1, 12)
    assert render("spark-1", found)[-3:] == [
        "  Cannot be used:",
        "    The recipe recipes/a.yml cannot be used:",
        "    - title is missing",
    ]


def test_the_playbook_keeps_back_as_much_as_the_role() -> None:
    (show,) = [
        task["dgx_spark.speculative.report"]["recipes"]
        for play in yaml.safe_load((ROOT / "playbooks/recipes.yml").read_text(encoding="utf-8"))
        for task in play.get("tasks") or []
        if "dgx_spark.speculative.report" in task
    ]
    defaults = yaml.safe_load((ROOT / "roles/speculative_serve/defaults/main.yml").read_text(encoding="utf-8"))
    reserve = defaults["speculative_serve_reserve_gib"]
    assert show["reserve_gib"] == f"{{{{ speculative_serve_reserve_gib | default({reserve}) }}}}"

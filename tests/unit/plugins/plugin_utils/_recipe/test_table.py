# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest
from ansible_collections.dgx_spark.speculative.plugins.module_utils._deployment.lines import Page
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._recipe.recipe import load
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._recipe.table import lines, table

ROOT = Path(__file__).parents[5]
SHIPPED = [load(path) for path in sorted((ROOT / "playbooks" / "recipes").glob("*.yml"))]


def recipe(**changes: t.Any) -> dict[str, t.Any]:
    base: dict[str, t.Any] = {
        "name": "mine",
        "source": "https://example.com",
        "target": "example/target",
        "method": "none",
        "draft_length": 0,
        "image": "registry.example.com:5000/image:1.3.0rc12",
        "sparks": 2,
        "variants": {},
    }
    return {**base, **changes}


def test_a_row_says_what_a_recipe_takes() -> None:
    row = next(row for row in table(SHIPPED) if row["recipe"] == "single_draft_target_2025")
    assert row == {
        "recipe": "single_draft_target_2025",
        "target model": "nvidia/Llama-3.3-70B-Instruct-FP4",
        "method": "Draft-Target, draft length 4",
        "image": "spark-single-gpu-dev",
        "Sparks": "1",
        "variants": "",
    }


@pytest.mark.parametrize(
    ("changes", "column", "expected"),
    [
        ({}, "method", "none"),
        ({"method": ""}, "method", "speculative_config"),
        ({}, "Sparks", "2"),
        ({"image": "example.com/image:1.2.0rc6@sha256:0123"}, "image", "1.2.0rc6"),
    ],
)
def test_cells(changes: dict[str, t.Any], column: str, expected: str) -> None:
    assert table([recipe(**changes)])[0][column] == expected


@pytest.mark.parametrize("columns", [80, 100])
def test_lines_fit_a_screen_and_names_stay_whole(monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    monkeypatch.setattr(Page, "columns", columns)
    shown = lines(SHIPPED)
    # The text of an error is indented.
    assert max(map(len, shown)) <= columns - 4
    assert [line.split()[0] for line in shown if not line.startswith(" ")] == [recipe["name"] for recipe in SHIPPED]
    assert all(f"{recipe['target']}," in " ".join(shown) for recipe in SHIPPED)


def test_variants_are_named() -> None:
    assert lines([recipe(variants={"one": {}, "two": {}})])[0].endswith("2 Sparks, variants one, two")


def test_what_is_too_wide_goes_on_below_itself() -> None:
    target = f"example/A-Model-With-{'-'.join(['A'] * 30)}-Long-Name"
    assert lines([recipe(target=target)]) == [
        "mine",
        f"    {target},",
        "    none; 1.3.0rc12, 2 Sparks",
    ]

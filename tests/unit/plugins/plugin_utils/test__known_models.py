# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._known_models import (
    download_bytes,
    figures,
    known_models,
)
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._recipe import HUB_ID, load

RECIPES = Path(__file__).parents[4] / "playbooks" / "recipes"
FIGURES = {
    "weights_bytes",
    "layers",
    "hidden_size",
    "kv_heads",
    "head_dim",
    "experts",
    "active_experts",
    "vocab_size",
    "max_context",
}


def test_every_entry_has_a_source_and_known_keys() -> None:
    for model, entry in known_models().items():
        assert HUB_ID.fullmatch(model)
        assert entry["source"].startswith(f"https://huggingface.co/{model.split('/')[0]}/")
        texts = {"source", "superseded_by", "superseded_source"}
        assert set(entry) <= FIGURES | texts
        assert all(isinstance(value, int) and value > 0 for key, value in entry.items() if key in FIGURES)
        assert ("superseded_by" in entry) == ("superseded_source" in entry)


def test_the_models_of_the_shipped_recipes_are_known() -> None:
    wanted = {model["id"] for path in RECIPES.glob("*.yml") for model in load(path)["repositories"]}
    assert wanted <= set(known_models())


def test_no_shipped_recipe_wants_more_context_than_its_model_has() -> None:
    for path in RECIPES.glob("*.yml"):
        recipe = load(path)
        assert recipe["context"] <= figures(recipe["target"])["max_context"]


@pytest.mark.parametrize(
    ("model", "kv_bytes"),
    [
        ("openai/gpt-oss-120b", 73_728),
        ("openai/gpt-oss-20b", 49_152),
        ("nvidia/gpt-oss-120b-Eagle3-long-context", 2_048),
        ("nvidia/Llama-3.3-70B-Instruct-FP4", 327_680),
        ("nvidia/Llama-3.1-8B-Instruct-FP4", 131_072),
        ("nvidia/Qwen3-30B-A3B-FP4", 98_304),
        ("nvidia/Qwen3-235B-A22B-FP4", 192_512),
        ("nvidia/Qwen3-235B-A22B-Eagle3", 2_048),
    ],
)
def test_a_tokens_share_of_the_kv_cache(model: str, kv_bytes: int) -> None:
    entry = figures(model)
    # Keys and values, in BF16.
    assert 2 * entry["layers"] * entry["kv_heads"] * entry["head_dim"] * 2 == kv_bytes


@pytest.mark.parametrize("model", ["openai/gpt-oss-120b", "openai/gpt-oss-20b"])
def test_the_bytes_of_gpt_oss_follow_from_its_configuration(model: str) -> None:
    entry = figures(model)
    layers, hidden, experts = entry["layers"], entry["hidden_size"], entry["experts"]
    # 64 query heads; the experts are as wide as the model, and their first matrix is two.
    queries, keys = 64 * entry["head_dim"], entry["kv_heads"] * entry["head_dim"]
    quantised = experts * 3 * hidden * hidden
    plain = experts * 3 * hidden + experts * (hidden + 1)
    plain += queries * (hidden + 1) + 2 * keys * (hidden + 1) + hidden * (queries + 1) + 64 + 2 * hidden
    total = layers * (quantised * 17 // 32 + 2 * plain) + 2 * (2 * entry["vocab_size"] * hidden + hidden)
    assert total == entry["weights_bytes"]


@pytest.mark.parametrize(
    ("model", "linear", "tolerance"),
    [
        # Query and output, key and value, and three matrices of the feed-forward layer or of each expert.
        ("nvidia/Llama-3.3-70B-Instruct-FP4", 2 * 8192 * 8192 + 2 * 8192 * 1024 + 3 * 8192 * 28672, 0.01),
        ("nvidia/Llama-3.1-8B-Instruct-FP4", 2 * 4096 * 4096 + 2 * 4096 * 1024 + 3 * 4096 * 14336, 0.01),
        ("nvidia/Qwen3-30B-A3B-FP4", 2 * 2048 * 4096 + 2 * 2048 * 512 + 128 * 3 * 2048 * 768, 0.01),
        ("nvidia/Qwen3-235B-A22B-FP4", 2 * 4096 * 8192 + 2 * 4096 * 512 + 128 * 3 * 4096 * 1536, 0.01),
    ],
)
def test_the_bytes_of_fp4_models_follow_from_their_configuration(model: str, linear: int, tolerance: float) -> None:
    entry = figures(model)
    total = entry["layers"] * linear * 0.5625 + 2 * 2 * entry["vocab_size"] * entry["hidden_size"]
    assert total == pytest.approx(entry["weights_bytes"], rel=tolerance)


def test_downloads_add_up() -> None:
    pair = ["openai/gpt-oss-120b", "nvidia/gpt-oss-120b-Eagle3-long-context"]
    assert download_bytes(pair) == (65_248_815_744 + 430_943_640, True)
    assert download_bytes([pair[0], "nvidia/gpt-oss-120b-Eagle3-v3"]) == (65_248_815_744, False)
    assert download_bytes(["somebody/else"]) == (0, False)


def test_what_takes_a_drafts_place() -> None:
    drafts = {model for model in known_models() if "gpt-oss-120b-Eagle3" in model}
    newest = "nvidia/gpt-oss-120b-Eagle3-v3"
    assert {figures(draft).get("superseded_by") for draft in drafts - {newest}} == {newest}
    assert "superseded_by" not in figures(newest)


def test_what_the_recipe_for_two_sparks_takes_a_draft_to_cost() -> None:
    recipe = load(RECIPES / "qwen3_235b_a22b_eagle3.yml")
    target, draft = figures(recipe["target"]), figures(recipe["draft"])
    hidden, given = target["hidden_size"], recipe["break_even"]
    attention = target["layers"] * (2 * hidden * 8192 + 2 * hidden * 512) * 0.5625
    experts = target["layers"] * target["active_experts"] * 3 * hidden * 1536 * 0.5625
    # Output layer and routers are not quantised.
    rest = 2 * hidden * (target["vocab_size"] + target["layers"] * target["experts"])
    read = attention + experts + rest
    assert given["expert_share"] == pytest.approx(experts / read, abs=0.005)
    # Each Spark reads half of the target, and all of the head.
    assert given["draft_cost"] == pytest.approx(draft["weights_bytes"] / (read / recipe["sparks"]), abs=0.0005)
    assert (given["experts"], given["active_experts"]) == (target["experts"], target["active_experts"])

# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The memory of every shipped recipe, by hand.

Bytes of a token = 2 (keys and values) x layers x KV heads x head dimension x bytes of a value: 2 in BF16, 1 in FP8,
which NVIDIA's FP4 checkpoints ask for in hf_quant_config.json. Tokens = for each conversation context + 3 x draft
length, up to whole blocks of 32, and a block; and a block for all. Shapes are those of the published configurations.
"""

from __future__ import annotations

import json
import typing as t
from pathlib import Path

import pytest
from ansible_collections.dgx_spark.speculative.plugins.module_utils._models.config import model_facts, total_size
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._recipe.recipe import load
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._serving.memory import plan
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._serving.sizes import read

RECIPES = Path(__file__).parents[3] / "playbooks" / "recipes"
GPT_OSS, HEAD = 65_248_815_744, 430_943_640
# Recipe: tokens, bytes of a token on each Spark, weights on each Spark.
BY_HAND = {
    # 131,072 + 15 = 131,087 -> 131,104, + 32 + 32; 36 layers and the head's one, 8 heads of 64, BF16.
    "single_eagle3": (131_168, 2 * (36 + 1) * 8 * 64 * 2, GPT_OSS + HEAD),
    # 65,536 + 9 = 65,545 -> 65,568, + 32 = 65,600 for each of four, + 32.
    "single_eagle3_page": (131_168, 2 * (36 + 1) * 8 * 64 * 2, GPT_OSS + HEAD),
    "single_eagle3_chat": (4 * 65_600 + 32, 2 * (36 + 1) * 8 * 64 * 2, GPT_OSS + HEAD),
    # 131,072 + 9 = 131,081 -> 131,104, + 32 + 32.
    "single_eagle3_cutlass": (131_168, 2 * (36 + 1) * 8 * 64 * 2, GPT_OSS + HEAD),
    "single_eagle3_v3": (131_168, 2 * (36 + 1) * 8 * 64 * 2, GPT_OSS + HEAD),
    # A speculative_config of its own: as single_eagle3.
    "single_eagle3_two_models": (131_168, 2 * (36 + 1) * 8 * 64 * 2, GPT_OSS + HEAD),
    # No drafts: 131,072 + 32 + 32.
    "single_low_latency": (131_136, 2 * 36 * 8 * 64 * 2, GPT_OSS),
    "single_gpt_oss_20b": (131_136, 2 * 24 * 8 * 64 * 2, 13_761_264_768),
    # 32,768 + 12 = 32,780 -> 32,800, + 32 + 32; 80 and 32 layers, 8 heads of 128, FP8.
    "single_draft_target": (32_864, 2 * (80 + 32) * 8 * 128, 42_700_000_000 + 6_000_000_000),
    "single_draft_target_2025": (32_864, 2 * (80 + 32) * 8 * 128, 42_700_000_000 + 6_000_000_000),
    # 40,960 + 32 + 32; 48 layers, 4 heads of 128, FP8.
    "single_qwen3_30b": (41_024, 2 * 48 * 4 * 128, 18_100_000_000),
    # 40,960 + 9 = 40,969 -> 40,992, + 32 + 32; 94 layers and the head's one, 4 heads of 128, FP8, half on each Spark.
    # The head has its target's type, and its weights are counted in full.
    "qwen3_235b_a22b_eagle3": (41_056, 2 * (94 + 1) * 4 * 128 // 2, 67_000_000_000 + 600_000_000),
    "qwen3_235b_a22b_eagle3_1_3": (41_056, 2 * (94 + 1) * 4 * 128 // 2, 67_000_000_000 + 600_000_000),
}
# Figures that the recipes' comments state, in GB of KV cache.
STATED = {
    "single_eagle3_chat": ("20 GB of KV cache together", 20),
    "single_draft_target": ("7.5 GB here", 7.5),
    "single_draft_target_2025": ("7.5 GB here", 7.5),
    "qwen3_235b_a22b_eagle3": ("2 GB of KV cache on each Spark", 2),
    "qwen3_235b_a22b_eagle3_1_3": ("2 GB of KV cache on each Spark", 2),
}


def facts(directory: Path) -> dict[str, t.Any]:
    def content(name: str) -> dict[str, t.Any]:
        path = directory / name
        return t.cast("dict[str, t.Any]", json.loads(path.read_text(encoding="utf-8"))) if path.exists() else {}

    size = total_size(content("model.safetensors.index.json"))
    return model_facts(content("config.json"), content("hf_quant_config.json"), size)


def planned(name: str, hub: Path, **changes: t.Any) -> dict[str, t.Any]:
    recipe = load(RECIPES / f"{name}.yml")
    given = {
        key: {"name": recipe[key], "facts": facts(hub / recipe[key])} for key in ("target", "draft") if recipe[key]
    }
    same = {
        key: recipe[key]
        for key in ("method", "draft_length", "context", "concurrency", "kv_cache", "sparks", "options")
    }
    memory = {"total": 130_700_000_000, "available": 124_000_000_000, "slot": 0, "usage": []}
    return plan(read({"draft": {}, **given, **same, "reserve_gib": 12, "memory": memory, **changes}))


@pytest.mark.parametrize("name", sorted(path.stem for path in RECIPES.glob("*.yml")))
def test_every_recipe_fits(hub: Path, name: str) -> None:
    recipe = load(RECIPES / f"{name}.yml")
    if not all((hub / recipe[key]).exists() for key in ("target", "draft") if recipe[key]):
        pytest.skip("the twin's Hub does not have its models")
    assert planned(name, hub)["verdict"] == "fits"


@pytest.mark.parametrize("name", BY_HAND)
def test_the_plan_of_a_recipe(hub: Path, name: str) -> None:
    tokens, each, weights = BY_HAND[name]
    result = planned(name, hub)
    assert result["options"]["kv_cache_config"]["max_tokens"] == tokens
    assert result["rows"][-2]["bytes"] == tokens * each
    assert result["needed"] == weights + tokens * each + 10_000_000_000
    assert result["verdict"] == "fits"


# The shapes of hybrid models, and the bytes of their weights: those of the repository, and what vLLM loaded.
HYBRIDS: dict[str, dict[str, t.Any]] = {
    "single_qwen3_6_35b_mtp": {
        "weights_bytes": 23_500_000_000,
        **{"layers": 40, "kv_heads": 2, "head_dim": 256, "max_context": 262_144, "prediction_layers": 1},
        **{"attention_layers": 10, "state_layers": 30, "state_values": 32 * 128 * 128},
        **{"convolution_values": 8192, "convolution_width": 4},
    },
    "single_nemotron_3_super_mtp": {
        "weights_bytes": 80_563_000_000,
        **{"layers": 88, "kv_heads": 2, "head_dim": 128, "max_context": 262_144, "prediction_layers": 1},
        **{"attention_layers": 8, "state_layers": 40, "state_values": 128 * 64 * 128},
        **{"convolution_values": 10_240, "convolution_width": 4},
    },
    # The weights of Inferact's checkpoint; nvidia's may be smaller.
    "single_qwen3_8_27b_dflash2": {
        "weights_bytes": 26_381_249_312,
        **{"layers": 64, "kv_heads": 4, "head_dim": 256, "max_context": 262_144, "prediction_layers": 1},
        **{"attention_layers": 16, "state_layers": 48, "state_values": 48 * 128 * 128},
        **{"convolution_values": 10_240, "convolution_width": 4},
    },
}


HYBRIDS["single_nemotron_3_super_mtp_trtllm"] = HYBRIDS["single_nemotron_3_super_mtp"]
HYBRIDS["qwen3_8_27b_dflash2"] = HYBRIDS["single_qwen3_8_27b_dflash2"]
# The weights of incoai's copy. How many heads each of its five layers has is not known; eight are assumed.
DFLASH2 = {"weights_bytes": 3_848_817_896, "layers": 5, "kv_heads": 8, "head_dim": 128, "max_context": 262_144}


# What the models of the other recipes for vLLM know: `context_length` and the commands for a Spark in vLLM's recipes.
KNOWN_CONTEXT = {
    "nvidia/Gemma-4-26B-A4B-NVFP4": 262_144,
    "nvidia/NVIDIA-Nemotron-3.5-Lightning-30B-A3B-NVFP4": 262_144,
    "nvidia/Qwen3.6-27B-NVFP4": 262_144,
}


def test_no_recipe_asks_for_more_than_its_model_knows() -> None:
    recipes = [load(path, name) for path in RECIPES.glob("*.yml") for name in ("", *load(path)["variants"])]
    own = [recipe for recipe in recipes if recipe["target"] in KNOWN_CONTEXT]
    assert {recipe["target"] for recipe in own} == set(KNOWN_CONTEXT)
    assert [one["name"] for one in own if one["context"] > KNOWN_CONTEXT[one["target"]]] == []


def planned_hybrid(name: str) -> dict[str, t.Any]:
    recipe = load(RECIPES / f"{name}.yml")
    keys = ("engine", "method", "draft_length", "context", "concurrency", "kv_cache", "sparks", "options")
    memory = {"total": 130_700_000_000, "available": 124_000_000_000, "slot": 0, "usage": []}
    models = {"target": {"name": recipe["target"], "facts": HYBRIDS[name]}}
    if recipe["draft"]:
        models["draft"] = {"name": recipe["draft"], "facts": DFLASH2}
    own = {key: recipe[key] for key in keys}
    return plan(read({**own, **models, "reserve_gib": 12, "memory": memory}))


@pytest.mark.parametrize("name", HYBRIDS)
def test_a_hybrid_model_fits_with_the_concurrency_of_its_recipe(name: str) -> None:
    recipe, result = load(RECIPES / f"{name}.yml"), planned_hybrid(name)
    assert result["verdict"] == "fits"
    # In a pass there is room for a block.
    options = {**result["options"], **recipe["options"]}
    assert (options.get("max-num-batched-tokens") or options["max_num_tokens"]) >= 8192


@pytest.mark.parametrize("path", sorted(RECIPES.glob("*.yml")), ids=lambda path: path.stem)
def test_the_memory_that_a_recipe_states_is_the_plans(hub: Path, path: Path) -> None:
    """A figure that no plan confirms is left out, and the Hub is asked."""
    known = load(path)["figures"]["memory_gb"]
    if known is None:
        pytest.skip("its models are not known here")
    result = planned_hybrid(path.stem) if path.stem in HYBRIDS else planned(path.stem, hub)
    assert round(result["needed"] / 1e9) == known["value"]


def test_the_download_that_a_recipe_states_is_that_of_its_models() -> None:
    stated = load(RECIPES / "single_eagle3.yml")["figures"]["download_gb"]["value"]
    assert stated == pytest.approx((GPT_OSS + HEAD) / 1e9, abs=0.05)
    assert load(RECIPES / "single_low_latency.yml")["figures"]["download_gb"]["value"] == pytest.approx(
        GPT_OSS / 1e9, abs=0.05
    )


@pytest.mark.parametrize("name", STATED)
def test_what_a_recipes_comment_states(name: str) -> None:
    words, stated = STATED[name]
    tokens, each, _weights = BY_HAND[name]
    assert words in (RECIPES / f"{name}.yml").read_text(encoding="utf-8")
    assert tokens * each / 1e9 == pytest.approx(stated, rel=0.01)


def test_the_llama_pair_fits_with_all_that_it_knows(hub: Path) -> None:
    # 131,072 + 12 -> 131,104, + 32 + 32: 30 GB, as the recipe says, and 88.8 GB of 117.8 in all.
    result = planned("single_draft_target", hub, context=131_072)
    assert result["rows"][-2]["bytes"] == 131_168 * 229_376 == 30_086_791_168
    assert (result["needed"], result["verdict"]) == (88_786_791_168, "fits")

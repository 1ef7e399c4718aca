# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import typing as t
from pathlib import Path

import pytest
from ansible_collections.dgx_spark.speculative.plugins.module_utils._models.config import (
    ModelFiles,
    facts_of,
    kv_cache_dtype,
    model_facts,
    pair_problems,
    total_size,
    weight_files,
)

GPT_OSS = {"vocab_size": 201088, "hidden_size": 2880}
LLAMA_70B = {"vocab_size": 128256, "hidden_size": 8192}
LLAMA_8B = {"vocab_size": 128256, "hidden_size": 4096}


@pytest.mark.parametrize(
    ("target", "draft", "method", "expected"),
    [
        # The pairs of the shipped procedures.
        (GPT_OSS, {"vocab_size": 201088, "draft_vocab_size": 201088, "hidden_size": 2880}, "eagle3", []),
        (LLAMA_70B, LLAMA_8B, "draft_target", []),
        # A head that is narrower than its target, and drafts from a part of its vocabulary.
        (
            LLAMA_70B,
            {"vocab_size": 128256, "draft_vocab_size": 32000, "hidden_size": 4096, "target_hidden_size": 8192},
            "eagle3",
            [],
        ),
        (
            LLAMA_8B,
            {"vocab_size": 128256, "hidden_size": 2880},
            "eagle3",
            ["it was made for a hidden size of 2880 and the target's is 4096"],
        ),
        (
            LLAMA_70B,
            GPT_OSS,
            "eagle3",
            [
                "its vocabulary has 201088 tokens and the target's has 128256",
                "it was made for a hidden size of 2880 and the target's is 8192",
            ],
        ),
        (
            LLAMA_8B,
            {"hidden_size": 4096, "draft_vocab_size": 200000},
            "eagle3",
            ["it drafts from 200000 tokens and the target's vocabulary has 128256"],
        ),
        (
            GPT_OSS,
            LLAMA_8B,
            "draft_target",
            ["its vocabulary has 128256 tokens and the target's has 201088"],
        ),
        (GPT_OSS, LLAMA_8B, "none", []),
        ({"text_config": LLAMA_8B}, {"vocab_size": 128256, "hidden_size": 4096}, "eagle3", []),
        ({}, GPT_OSS, "eagle3", []),
        (
            {"vocab_size": 151936, "hidden_size": 5120},
            {"vocab_size": 248320, "hidden_size": 4096},
            "dflash",
            [
                "its vocabulary has 248320 tokens and the target's has 151936",
                "it was made for a hidden size of 4096 and the target's is 5120",
            ],
        ),
        (
            {"vocab_size": 9, "hidden_size": 8},
            {"vocab_size": 9, "hidden_size": 4, "target_hidden_size": 8},
            "dspark",
            [],
        ),
        ({"vocab_size": "many", "hidden_size": True}, GPT_OSS, "eagle3", []),
    ],
)
def test_pair_problems(target: dict[str, object], draft: dict[str, object], method: str, expected: list[str]) -> None:
    assert pair_problems(target, draft, method) == expected


def test_the_same_tokenizer_excuses_another_padding_of_the_vocabulary() -> None:
    large, small = {"vocab_size": 152064}, {"vocab_size": 151936}
    assert pair_problems(large, small, "draft_target", same_tokenizer=True) == []
    assert len(pair_problems(large, small, "draft_target", same_tokenizer=False)) == 1


def test_an_eagle_head_cannot_draft_by_itself() -> None:
    head = {"architectures": ["LlamaForCausalLMEagle3"], "vocab_size": 201088}
    assert pair_problems({"vocab_size": 201088}, head, "draft_target") == [
        "it is an EAGLE head (LlamaForCausalLMEagle3), which takes method eagle3"
    ]


GPT_OSS_CONFIG = {
    "architectures": ["GptOssForCausalLM"],
    "model_type": "gpt_oss",
    "num_hidden_layers": 36,
    "hidden_size": 2880,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "head_dim": 64,
    "vocab_size": 201088,
    "max_position_embeddings": 131072,
    "num_local_experts": 128,
    "num_experts_per_tok": 4,
    "quantization_config": {"quant_method": "mxfp4"},
}
GPT_OSS_FACTS = {
    "weights_bytes": 65248815744,
    "architecture": "GptOssForCausalLM",
    "model_type": "gpt_oss",
    "layers": 36,
    "attention_heads": 64,
    "kv_heads": 8,
    "head_dim": 64,
    "hidden_size": 2880,
    "vocab_size": 201088,
    "max_context": 131072,
    "experts": 128,
    "active_experts": 4,
    "kv_cache_dtype": None,
    "attention_layers": None,
    "state_layers": None,
    "state_values": None,
    "convolution_values": None,
    "convolution_width": None,
    "prediction_layers": None,
}
# The layers of Qwen3.5 and later, and of Nemotron-H.
DELTA_NET = {
    **{"linear_num_value_heads": 32, "linear_num_key_heads": 16, "linear_conv_kernel_dim": 4},
    **{"linear_key_head_dim": 128, "linear_value_head_dim": 128, "num_hidden_layers": 8},
}
MAMBA = {"mamba_num_heads": 128, "mamba_head_dim": 64, "ssm_state_size": 128, "n_groups": 8, "conv_kernel": 4}


def test_facts_of_a_mixture_of_experts() -> None:
    assert model_facts(GPT_OSS_CONFIG, {}, 65248815744) == GPT_OSS_FACTS


def test_facts_of_a_dense_model_that_leaves_out_what_follows() -> None:
    config = {"num_attention_heads": 32, "hidden_size": 4096, "num_hidden_layers": 32}
    facts = model_facts(config, {}, None)
    assert (facts["kv_heads"], facts["head_dim"], facts["experts"]) == (32, 128, None)
    assert (facts["architecture"], facts["weights_bytes"]) == (None, None)


def test_facts_of_a_model_that_also_sees() -> None:
    config = {
        "architectures": ["SeesAndWrites"],
        "model_type": "sees",
        "hidden_size": 1,
        "text_config": {"model_type": "writes", "hidden_size": 4096, "num_experts": 8, "num_experts_per_tok": 2},
    }
    facts = model_facts(config, {}, 1)
    assert (facts["architecture"], facts["model_type"], facts["hidden_size"]) == ("SeesAndWrites", "sees", 4096)
    assert (facts["experts"], facts["active_experts"]) == (8, 2)


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({**DELTA_NET, "layer_types": [*["linear_attention"] * 3, "full_attention"] * 2}, (2, 6, 524_288, 8192, 4)),
        ({**DELTA_NET, "full_attention_interval": 4}, (2, 6, 524_288, 8192, 4)),
        ({"text_config": {**DELTA_NET, "full_attention_interval": 4}}, (2, 6, 524_288, 8192, 4)),
        ({**MAMBA, "hybrid_override_pattern": "MEM*-M"}, (1, 3, 1_048_576, 10_240, 4)),
        ({**MAMBA, "layers_block_type": ["mamba", "moe", "attention"]}, (1, 1, 1_048_576, 10_240, 4)),
        ({"layer_types": ["linear_attention", "full_attention"]}, (1, 1, None, None, None)),
        # Each of them keeps keys and values.
        ({"layer_types": ["sliding_attention", "full_attention"]}, (None,) * 5),
        ({"layer_types": 3, "hybrid_override_pattern": ""}, (None,) * 5),
    ],
)
def test_layers_of_a_hybrid_model(config: dict[str, t.Any], expected: tuple[int | None, ...]) -> None:
    facts = model_facts(config, {}, None)
    keys = ("attention_layers", "state_layers", "state_values", "convolution_values", "convolution_width")
    assert tuple(facts[key] for key in keys) == expected


@pytest.mark.parametrize("key", ["num_nextn_predict_layers", "mtp_num_hidden_layers"])
def test_layers_that_predict_further_tokens(key: str) -> None:
    assert model_facts({"text_config": {key: 1}}, {}, None)["prediction_layers"] == 1


def test_facts_of_a_head_in_the_format_of_speculators() -> None:
    layer = {"num_hidden_layers": 1, "num_key_value_heads": 8, "head_dim": 64, "hidden_size": 2880}
    facts = model_facts({"architectures": ["Eagle3Speculator"], "transformer_layer_config": layer}, {}, 1)
    assert (facts["architecture"], facts["layers"], facts["kv_heads"]) == ("Eagle3Speculator", 1, 8)


def test_latent_attention_has_no_heads_to_count() -> None:
    facts = model_facts({**GPT_OSS_CONFIG, "kv_lora_rank": 512}, {}, 1)
    assert (facts["kv_heads"], facts["head_dim"], facts["layers"]) == (None, None, 36)


@pytest.mark.parametrize(
    "config",
    [
        {},
        {"architectures": "x", "num_attention_heads": 0, "hidden_size": 8, "model_type": 3},
        {"num_attention_heads": -8, "num_hidden_layers": 10**400, "vocab_size": -1, "max_position_embeddings": -1},
        {"architectures": [None, 1], "num_hidden_layers": "36", "head_dim": True, "quantization_config": []},
    ],
)
def test_a_config_of_another_shape_says_nothing(config: dict[str, t.Any]) -> None:
    facts = model_facts(config, {"quantization": 3}, None)
    facts.pop("hidden_size")
    facts["kv_heads"] = facts["kv_heads"] or None
    assert set(facts.values()) == {None}


@pytest.mark.parametrize(
    ("quantization", "expected"),
    [
        ({"quantization": {"quant_algo": "NVFP4", "kv_cache_quant_algo": "FP8"}}, "fp8"),
        ({"quantization": {"kv_cache_quant_algo": "fp8"}}, "fp8"),
        ({"quantization": {"quant_algo": "NVFP4", "kv_cache_quant_algo": None}}, None),
        ({"quantization": {"kv_cache_quant_algo": "NVFP4"}}, None),
        ({"quantization": 3}, None),
        ({}, None),
    ],
)
def test_kv_cache_dtype(quantization: dict[str, t.Any], expected: str | None) -> None:
    assert kv_cache_dtype(quantization) == expected


def test_what_config_json_says_of_the_cache_is_not_followed_by_every_release() -> None:
    scheme = {"kv_cache_quant_algo": "FP8", "kv_cache_scheme": {"num_bits": 8, "type": "float"}}
    assert model_facts({"quantization_config": scheme}, {}, None)["kv_cache_dtype"] is None


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        ({"total_size": 5}, 5),
        ({"total_size": 5.0}, 5),
        ({"total_size": 5.5}, None),
        ({"total_size": True}, None),
        ({"total_size": "5"}, None),
        ({"total_size": 0}, None),
        ({"total_size": 10**400}, None),
        ([], None),
    ],
)
def test_total_size(metadata: t.Any, expected: int | None) -> None:
    assert total_size({"metadata": metadata}) == expected


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["model.safetensors", "pytorch_model.bin", "original/model.safetensors"], ["model.safetensors"]),
        (["pytorch_model.bin", "config.json"], ["pytorch_model.bin"]),
        (["model-1.safetensors", "consolidated.safetensors"], ["model-1.safetensors"]),
        (["consolidated.safetensors"], ["consolidated.safetensors"]),
        (["config.json"], []),
    ],
)
def test_weight_files(names: list[str], expected: list[str]) -> None:
    assert list(weight_files(dict.fromkeys(names, 1))) == expected


def test_facts_prefer_the_index_to_the_files(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(GPT_OSS_CONFIG))
    assert facts_of(ModelFiles(tmp_path), 7)["weights_bytes"] == 7
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(json.dumps({"metadata": {"total_size": 65248815744}, "weight_map": {}}))
    assert facts_of(ModelFiles(tmp_path), 7) == GPT_OSS_FACTS
    index.write_text("{")
    assert facts_of(ModelFiles(tmp_path), 7)["weights_bytes"] == 7


def test_a_file_that_is_not_small_is_not_read(tmp_path: Path) -> None:
    with (tmp_path / "config.json").open("wb") as file:
        file.truncate(32_000_001)
    assert ModelFiles(tmp_path).json("config.json") is None

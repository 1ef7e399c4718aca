# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write the content of the twin's Hub: repositories with the files of the real ones, a few MB instead of many GB.

The weights are seeded noise, which cannot be compressed, so that counts of bytes are valid.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import random
import struct
import typing as t
from pathlib import Path

TARGET = "openai/gpt-oss-120b"
DRAFT = "nvidia/gpt-oss-120b-Eagle3-long-context"
DRAFT_COMMIT = "633caf45f31288cbb70ee237f7c939db707ecc94"

# Other heads for the same target.
THROUGHPUT_DRAFT = "nvidia/gpt-oss-120b-Eagle3"
THIRD_DRAFT = "nvidia/gpt-oss-120b-Eagle3-v3"
SMALL_TARGET = "openai/gpt-oss-20b"
LLAMA_TARGET = "nvidia/Llama-3.3-70B-Instruct-FP4"
LLAMA_DRAFT = "nvidia/Llama-3.1-8B-Instruct-FP4"
QWEN = "nvidia/Qwen3-30B-A3B-FP4"
# Target and draft model that need two Sparks.
LARGE_TARGET = "nvidia/Qwen3-235B-A22B-FP4"
LARGE_DRAFT = "nvidia/Qwen3-235B-A22B-Eagle3"

# A head of another target, which a user could choose by mistake.
STRANGER = "yuhuili/EAGLE3-LLaMA3.1-Instruct-8B"

TARGET_REAL_BYTES = 65_248_815_744  # the shards of the real repository
DRAFT_REAL_BYTES = 430_943_640
# Computed from their configurations: 4 bits and a byte for each 16 of them, embeddings and head in 16 bits.
LLAMA_TARGET_REAL_BYTES = 42_700_000_000
LLAMA_DRAFT_REAL_BYTES = 6_000_000_000
QWEN_REAL_BYTES = 18_100_000_000
SMALL_TARGET_REAL_BYTES = 13_761_264_768
LARGE_TARGET_REAL_BYTES = 134_000_000_000
# 0.3 billion values of 16 bits.
LARGE_DRAFT_REAL_BYTES = 600_000_000

_VOCABULARY = 201_088
_SHARDS = 5
_SHARD_BYTES = 800_000
_COPY_BYTES = 8_000_000
_DRAFT_BYTES = 1_500_000
_SMALL_SHARD_BYTES = 50_000
# As many files as the real one, 65 MB together, so that tests can interrupt a copy between Sparks.
_LARGE_SHARDS = 27
_LARGE_SHARD_BYTES = 2_400_000


@dataclasses.dataclass(frozen=True)
class Tensor:
    name: str
    dtype: t.Literal["BF16", "U8", "I64"]
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        width = {"BF16": 2, "U8": 1, "I64": 8}[self.dtype]
        for extent in self.shape:
            width *= extent
        return width


@dataclasses.dataclass(frozen=True)
class Special:
    """The tokens with which a family of models marks the turns of a chat."""

    tokens: dict[str, int]
    begin: str
    end: str
    turn: str


def write_models(directory: Path) -> None:
    """Write every repository: DIR/<org>/<name>/<files>, and its description DIR/<org>/<name>.json."""
    _write(directory, TARGET, _target_files(), ["*.safetensors", "*.bin"], None)
    for draft, commit in ((DRAFT, DRAFT_COMMIT), (THROUGHPUT_DRAFT, None), (THIRD_DRAFT, None)):
        _write(directory, draft, _draft_files(draft), ["*.safetensors"], commit)
    for identifier, files in {
        SMALL_TARGET: _small_files(SMALL_TARGET, _SMALL_TARGET_CONFIG, SMALL_TARGET_REAL_BYTES, 3, _HARMONY),
        LLAMA_TARGET: _small_files(LLAMA_TARGET, _LLAMA_TARGET_CONFIG, LLAMA_TARGET_REAL_BYTES, 9, _LLAMA),
        LLAMA_DRAFT: _small_files(LLAMA_DRAFT, _LLAMA_DRAFT_CONFIG, LLAMA_DRAFT_REAL_BYTES, 2, _LLAMA),
        QWEN: _small_files(QWEN, _QWEN_CONFIG, QWEN_REAL_BYTES, 4, _CHATML),
        LARGE_TARGET: _small_files(
            LARGE_TARGET, _LARGE_CONFIG, LARGE_TARGET_REAL_BYTES, _LARGE_SHARDS, _CHATML, _LARGE_SHARD_BYTES
        ),
        LARGE_DRAFT: _large_draft_files(),
    }.items():
        _write(directory, identifier, files, ["*.safetensors"], None)
    stranger = {**_DRAFT_CONFIG, "vocab_size": 128_256, "draft_vocab_size": 32_000, "hidden_size": 4096}
    weights = safetensors([Tensor("fc.weight", "BF16", (8, 64))], STRANGER)
    _write(directory, STRANGER, {"config.json": _json(stranger), "model.safetensors": weights}, ["*.safetensors"], None)


def safetensors(tensors: t.Sequence[Tensor], seed: str) -> bytes:
    """Return a valid safetensors file of noise."""
    header: dict[str, t.Any] = {"__metadata__": {"format": "pt"}}
    offset = 0
    for tensor in tensors:
        end = offset + tensor.size
        header[tensor.name] = {"dtype": tensor.dtype, "shape": list(tensor.shape), "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + noise(seed, offset)


def noise(seed: str, size: int) -> bytes:
    return random.Random(seed).randbytes(size)


def _write(directory: Path, identifier: str, files: t.Mapping[str, bytes], lfs: list[str], commit: str | None) -> None:
    digest = hashlib.sha1(usedforsecurity=False)
    for name, content in sorted(files.items()):
        path = directory / identifier / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        digest.update(name.encode() + b"\0" + hashlib.sha256(content).digest())
    describe(directory, identifier, commit or digest.hexdigest(), lfs)


def describe(directory: Path, identifier: str, sha: str, lfs: list[str], **facts: str) -> None:
    """Write the description of a repository, which the Hub reads."""
    description = {"id": identifier, "sha": sha, "lfs": lfs, "refs": {"main": sha}, **facts}
    (directory / f"{identifier}.json").write_text(json.dumps(description, indent=2) + "\n", encoding="utf-8")


def _target_files() -> dict[str, bytes]:
    weight_map: dict[str, str] = {}
    files: dict[str, bytes] = {}
    for number in range(_SHARDS):
        name = f"model-{number:05d}-of-{_SHARDS - 1:05d}.safetensors"
        tensors = _shard_tensors(number)
        weight_map |= {tensor.name: name for tensor in tensors}
        files[name] = safetensors(tensors, f"{TARGET}/{name}")
    files["model.safetensors.index.json"] = _index(TARGET_REAL_BYTES, weight_map)
    copies = {
        "original/model--00001-of-00002.safetensors": _COPY_BYTES // 2,
        "original/model--00002-of-00002.safetensors": _COPY_BYTES // 2,
    }
    for name, size in copies.items():
        files[name] = safetensors([Tensor("embedding.weight", "U8", (size,))], f"{TARGET}/{name}")
    files["original/config.json"] = _json({"num_hidden_layers": 36, "num_experts": 128, "experts_per_token": 4})
    files["metal/model.bin"] = noise(f"{TARGET}/metal", _COPY_BYTES)
    files["config.json"] = _json(_TARGET_CONFIG)
    files["generation_config.json"] = _json(
        {
            "bos_token_id": 199998,
            "do_sample": True,
            "eos_token_id": [200002, 199999, 200012],
            "pad_token_id": 199999,
            "transformers_version": "4.55.0.dev0",
        }
    )
    files |= _tokenizer_files(_HARMONY)
    files["README.md"] = _readme(TARGET)
    files["LICENSE"] = b"Stand-in for the licence of the real repository. These files are noise and free to use.\n"
    return files


def _draft_files(identifier: str) -> dict[str, bytes]:
    tensors = _draft_tensors()
    return {
        "config.json": _json(_DRAFT_CONFIG),
        "model.safetensors": safetensors(tensors, f"{identifier}/model.safetensors"),
        # The real one has a single file and no index. Here the index has the size of that file.
        "model.safetensors.index.json": _index(
            DRAFT_REAL_BYTES, {tensor.name: "model.safetensors" for tensor in tensors}
        ),
        "README.md": _readme(identifier),
    }


def _index(real_bytes: int, weight_map: dict[str, str]) -> bytes:
    return _json({"metadata": {"total_size": real_bytes}, "weight_map": dict(sorted(weight_map.items()))})


def _small_files(
    identifier: str,
    config: dict[str, t.Any],
    real_bytes: int,
    shards: int,
    special: Special,
    shard_bytes: int = _SMALL_SHARD_BYTES,
) -> dict[str, bytes]:
    """Return the files of another model: its real configuration and index, with small shards."""
    files: dict[str, bytes] = {}
    weight_map: dict[str, str] = {}
    for number in range(shards):
        name = f"model-{number + 1:05d}-of-{shards:05d}.safetensors"
        tensor = Tensor(f"model.layers.{number}.mlp.down_proj.weight", "U8", (shard_bytes,))
        weight_map[tensor.name] = name
        files[name] = safetensors([tensor], f"{identifier}/{name}")
    files["model.safetensors.index.json"] = _index(real_bytes, weight_map)
    files["config.json"] = _json(config)
    files["generation_config.json"] = _json({"do_sample": True, "eos_token_id": config["eos_token_id"]})
    if config["model_type"] != "gpt_oss":
        files["hf_quant_config.json"] = _json(_NVFP4)
    return files | _tokenizer_files(special) | {"README.md": _readme(identifier)}


def _large_draft_files() -> dict[str, bytes]:
    tensors = [
        Tensor("d2t", "I64", (1024,)),
        Tensor("fc.weight", "BF16", (8, 12288)),
        Tensor("midlayer.hidden_norm.weight", "BF16", (4096,)),
        Tensor("norm.weight", "BF16", (4096,)),
    ]
    return {
        "config.json": _json(_LARGE_DRAFT_CONFIG),
        "model.safetensors": safetensors(tensors, f"{LARGE_DRAFT}/model.safetensors"),
        "model.safetensors.index.json": _index(
            LARGE_DRAFT_REAL_BYTES, {tensor.name: "model.safetensors" for tensor in tensors}
        ),
        "README.md": _readme(LARGE_DRAFT),
    }


def _shard_tensors(number: int) -> list[Tensor]:
    layers = range(number * 7, number * 7 + (8 if number == _SHARDS - 1 else 7))
    tensors = []
    for layer in layers:
        prefix = f"model.layers.{layer:d}"
        tensors.append(Tensor(f"{prefix}.input_layernorm.weight", "BF16", (2880,)))
        tensors.append(Tensor(f"{prefix}.mlp.experts.gate_up_proj_blocks", "U8", (64, 1024)))
        tensors.append(Tensor(f"{prefix}.self_attn.o_proj.bias", "BF16", (2880,)))
    if number == 0:
        tensors.append(Tensor("model.embed_tokens.weight", "BF16", (16, 2880)))
    rest = _SHARD_BYTES - sum(tensor.size for tensor in tensors)
    tensors.append(Tensor(f"model.layers.{layers[-1]}.mlp.experts.down_proj_blocks", "U8", (rest,)))
    return tensors


def _draft_tensors() -> list[Tensor]:
    tensors = [
        Tensor("d2t", "I64", (1024,)),
        Tensor("fc.weight", "BF16", (32, 8640)),
        Tensor("midlayer.hidden_norm.weight", "BF16", (2880,)),
        Tensor("midlayer.self_attn.o_proj.weight", "BF16", (64, 4096)),
        Tensor("norm.weight", "BF16", (2880,)),
    ]
    rest = _DRAFT_BYTES - sum(tensor.size for tensor in tensors)
    return [*tensors, Tensor("midlayer.mlp.down_proj.weight", "U8", (rest,))]


def _tokenizer_files(special: Special) -> dict[str, bytes]:
    added = [
        {"id": number, "content": token, "special": True, "normalized": False, "lstrip": False, "rstrip": False}
        | {"single_word": False}
        for token, number in special.tokens.items()
    ]
    letters = {chr(code): code - 33 for code in range(33, 127)}
    tokenizer: dict[str, t.Any] = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": added,
        "normalizer": None,
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
        "post_processor": None,
        "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
        "model": {"type": "BPE", "dropout": None, "unk_token": None, "vocab": letters, "merges": []},
    }
    configuration = {
        "added_tokens_decoder": {
            str(number): {"content": token, "special": True} for token, number in special.tokens.items()
        },
        "bos_token": special.begin,
        "eos_token": special.end,
        "pad_token": special.end,
        "model_max_length": 1000000000000000019884624838656,
        "tokenizer_class": "PreTrainedTokenizerFast",
    }
    template = f"{{%- for message in messages -%}}{special.turn}{{%- endfor -%}}\n"
    return {
        "tokenizer.json": _json(tokenizer),
        "tokenizer_config.json": _json(configuration),
        "special_tokens_map.json": _json({"bos_token": special.begin, "eos_token": special.end}),
        "chat_template.jinja": template.encode(),
    }


def _readme(identifier: str) -> bytes:
    return f"# {identifier}\n\nA stand-in for tests: the files of the real repository, filled with noise.\n".encode()


def _json(value: t.Any) -> bytes:
    return (json.dumps(value, indent=2) + "\n").encode()


_HARMONY = Special(
    {
        "<|startoftext|>": 199998,
        "<|endoftext|>": 199999,
        "<|return|>": 200002,
        "<|constrain|>": 200003,
        "<|channel|>": 200005,
        "<|start|>": 200006,
        "<|end|>": 200007,
        "<|message|>": 200008,
        "<|call|>": 200012,
    },
    begin="<|startoftext|>",
    end="<|return|>",
    turn="<|start|>{{ message.role }}<|message|>{{ message.content }}<|end|>",
)
_LLAMA = Special(
    {
        "<|begin_of_text|>": 128000,
        "<|end_of_text|>": 128001,
        "<|start_header_id|>": 128006,
        "<|end_header_id|>": 128007,
        "<|eot_id|>": 128009,
    },
    begin="<|begin_of_text|>",
    end="<|eot_id|>",
    turn="<|start_header_id|>{{ message.role }}<|end_header_id|>{{ message.content }}<|eot_id|>",
)
_CHATML = Special(
    {"<|endoftext|>": 151643, "<|im_start|>": 151644, "<|im_end|>": 151645},
    begin="<|endoftext|>",
    end="<|im_end|>",
    turn="<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>",
)

_NVFP4 = {
    "producer": {"name": "modelopt", "version": "0.23.0"},
    "quantization": {
        "quant_algo": "NVFP4",
        "kv_cache_quant_algo": "FP8",
        "group_size": 16,
        "exclude_modules": ["lm_head"],
    },
}

_TARGET_CONFIG: dict[str, t.Any] = {
    "architectures": ["GptOssForCausalLM"],
    "attention_bias": True,
    "attention_dropout": 0.0,
    "eos_token_id": 200002,
    "experts_per_token": 4,
    "head_dim": 64,
    "hidden_act": "silu",
    "hidden_size": 2880,
    "initial_context_length": 4096,
    "initializer_range": 0.02,
    "intermediate_size": 2880,
    "layer_types": ["sliding_attention", "full_attention"] * 18,
    "max_position_embeddings": 131072,
    "model_type": "gpt_oss",
    "num_attention_heads": 64,
    "num_experts_per_tok": 4,
    "num_hidden_layers": 36,
    "num_key_value_heads": 8,
    "num_local_experts": 128,
    "output_router_logits": False,
    "pad_token_id": 199999,
    "quantization_config": {
        "modules_to_not_convert": [
            "model.layers.*.self_attn",
            "model.layers.*.mlp.router",
            "model.embed_tokens",
            "lm_head",
        ],
        "quant_method": "mxfp4",
    },
    "rms_norm_eps": 1e-05,
    "rope_scaling": {
        "beta_fast": 32.0,
        "beta_slow": 1.0,
        "factor": 32.0,
        "original_max_position_embeddings": 4096,
        "rope_type": "yarn",
        "truncate": False,
    },
    "rope_theta": 150000,
    "router_aux_loss_coef": 0.9,
    "sliding_window": 128,
    "swiglu_limit": 7.0,
    "tie_word_embeddings": False,
    "transformers_version": "4.55.0.dev0",
    "use_cache": True,
    "vocab_size": _VOCABULARY,
}

_DRAFT_CONFIG: dict[str, t.Any] = {
    "architectures": ["LlamaForCausalLMEagle3"],
    "attention_bias": False,
    "attention_dropout": 0.0,
    "bos_token_id": 199998,
    "draft_vocab_size": _VOCABULARY,
    "eagle_config": {
        "eagle_aux_hidden_state_layer_ids": [1, 17, 32],
        "use_aux_hidden_state": True,
        "use_input_layernorm_in_first_layer": True,
        "use_last_layernorm": True,
        "use_mtp_layernorm": False,
    },
    "eos_token_id": 200002,
    "head_dim": 64,
    "hidden_act": "silu",
    "hidden_size": 2880,
    "initializer_range": 0.02,
    "intermediate_size": 17280,
    "max_position_embeddings": 131072,
    "mlp_bias": False,
    "model_type": "llama",
    "num_attention_heads": 64,
    "num_hidden_layers": 1,
    "num_key_value_heads": 8,
    "rms_norm_eps": 1e-05,
    "rope_scaling": {
        "factor": 8.0,
        "high_freq_factor": 4.0,
        "low_freq_factor": 1.0,
        "original_max_position_embeddings": 8192,
        "rope_type": "llama3",
    },
    "rope_theta": 500000.0,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
    "transformers_version": "4.55.0",
    "use_cache": True,
    "vocab_size": _VOCABULARY,
}

_SMALL_TARGET_CONFIG: dict[str, t.Any] = {
    **_TARGET_CONFIG,
    "layer_types": ["sliding_attention", "full_attention"] * 12,
    "num_hidden_layers": 24,
    "num_local_experts": 32,
}

_LLAMA_TARGET_CONFIG: dict[str, t.Any] = {
    "architectures": ["LlamaForCausalLM"],
    "attention_bias": False,
    "attention_dropout": 0.0,
    "bos_token_id": 128000,
    "eos_token_id": [128001, 128008, 128009],
    "head_dim": 128,
    "hidden_act": "silu",
    "hidden_size": 8192,
    "initializer_range": 0.02,
    "intermediate_size": 28672,
    "max_position_embeddings": 131072,
    "mlp_bias": False,
    "model_type": "llama",
    "num_attention_heads": 64,
    "num_hidden_layers": 80,
    "num_key_value_heads": 8,
    "pretraining_tp": 1,
    "rms_norm_eps": 1e-05,
    "rope_scaling": {
        "factor": 8.0,
        "high_freq_factor": 4.0,
        "low_freq_factor": 1.0,
        "original_max_position_embeddings": 8192,
        "rope_type": "llama3",
    },
    "rope_theta": 500000.0,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
    "transformers_version": "4.47.1",
    "use_cache": True,
    "vocab_size": 128_256,
}

_LLAMA_DRAFT_CONFIG: dict[str, t.Any] = {
    **_LLAMA_TARGET_CONFIG,
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_attention_heads": 32,
    "num_hidden_layers": 32,
}

_QWEN_CONFIG: dict[str, t.Any] = {
    "architectures": ["Qwen3MoeForCausalLM"],
    "attention_bias": False,
    "attention_dropout": 0.0,
    "bos_token_id": 151643,
    "decoder_sparse_step": 1,
    "eos_token_id": 151645,
    "head_dim": 128,
    "hidden_act": "silu",
    "hidden_size": 2048,
    "initializer_range": 0.02,
    "intermediate_size": 6144,
    "max_position_embeddings": 40960,
    "mlp_only_layers": [],
    "model_type": "qwen3_moe",
    "moe_intermediate_size": 768,
    "norm_topk_prob": True,
    "num_attention_heads": 32,
    "num_experts": 128,
    "num_experts_per_tok": 8,
    "num_hidden_layers": 48,
    "num_key_value_heads": 4,
    "rms_norm_eps": 1e-06,
    "rope_scaling": None,
    "rope_theta": 1000000.0,
    "router_aux_loss_coef": 0.001,
    "sliding_window": None,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
    "transformers_version": "4.51.0",
    "use_cache": True,
    "vocab_size": 151_936,
}

_LARGE_CONFIG: dict[str, t.Any] = {
    **_QWEN_CONFIG,
    "hidden_size": 4096,
    "intermediate_size": 12288,
    "max_window_layers": 94,
    "moe_intermediate_size": 1536,
    "num_attention_heads": 64,
    "num_hidden_layers": 94,
}

# Layers and heads as in the lmsys head for the same model.
_LARGE_DRAFT_CONFIG: dict[str, t.Any] = {
    "architectures": ["LlamaForCausalLMEagle3"],
    "attention_bias": False,
    "bos_token_id": 151643,
    "draft_vocab_size": 32_000,
    "eos_token_id": 151645,
    "head_dim": 128,
    "hidden_act": "silu",
    "hidden_size": 4096,
    "max_position_embeddings": 40960,
    "mlp_bias": False,
    "model_type": "llama",
    "num_attention_heads": 64,
    "num_hidden_layers": 1,
    "num_key_value_heads": 4,
    "rms_norm_eps": 1e-06,
    "rope_scaling": None,
    "rope_theta": 1000000.0,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
    "transformers_version": "4.51.0",
    "use_cache": True,
    "vocab_size": 151_936,
}

# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this module util is internal to the collection; its interface may change at any time.

"""Read a model's size and shape from its small files, and whether a draft model fits its target model."""

from __future__ import annotations

import hashlib
import typing as t
from pathlib import Path

from .._data.files import read_object
from .._data.numbers import natural_int, positive_int

Config = t.Mapping[str, t.Any]

CONFIG = "config.json"
QUANTIZATION = "hf_quant_config.json"
INDEX = "model.safetensors.index.json"
TOKENIZER = "tokenizer.json"
# The index of the largest models has a few MB.
MOST_BYTES = 32_000_000
# The kinds of its layers, under the names of several families: a list of words, or a text of one letter a layer.
LAYER_KINDS = ("layer_types", "layers_block_type", "hybrid_override_pattern")
STATE_KINDS = ("linear_attention", "mamba", "mamba2", "M")
ATTENTION_KINDS = ("attention", "full_attention", "sliding_attention", "*")
# The layers of a checkpoint that predict further tokens.
PREDICTION_LAYERS = ("num_nextn_predict_layers", "mtp_num_hidden_layers")
# Weight files. A model with the first kind is not loaded from the others.
WEIGHT_ENDINGS = (".safetensors", ".bin", ".pth", ".pt")
# Patterns of the files with weights, also of other programs: all others tell how a model is configured.
WEIGHTS = tuple(
    f"*{ending}" for ending in (*WEIGHT_ENDINGS, ".gguf", ".h5", ".msgpack", ".onnx", ".onnx_data", ".ckpt")
)

# Methods whose draft model reads the hidden states of its target: vllm/model_executor/models/qwen3_dflash.py.
HIDDEN_STATE_METHODS = ("eagle3", "dflash", "dspark")

PAIR_ARGUMENT: dict[str, t.Any] = {
    "type": "dict",
    "default": {},
    "options": {"target": {"type": "str"}, "draft": {"type": "str"}, "method": {"type": "str"}},
}


class ModelFiles:
    """The small files of a model in a directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def json(self, name: str) -> dict[str, t.Any] | None:
        """Return a file's object; None if there is none that can be read."""
        path = self.directory / name
        try:
            if path.stat().st_size > MOST_BYTES:
                return None
        except OSError:
            return None
        return read_object(path)

    def tokenizer(self) -> frozenset[str]:
        """Return the sums under which the Hub may know this tokenizer.json: as a large file's, and as git's."""
        try:
            data = (self.directory / TOKENIZER).read_bytes()
        except OSError:
            return frozenset()
        return frozenset({hashlib.sha256(data).hexdigest(), git_sum(data)})


def git_sum(data: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()


def weight_files(sizes: t.Mapping[str, int]) -> dict[str, int]:
    """Return the files with the weights that the server loads, of all files of a model."""
    for ending in WEIGHT_ENDINGS:
        result = {path: size for path, size in sizes.items() if "/" not in path and path.endswith(ending)}
        # A second copy, in the form of the model's maker.
        shards = {path: size for path, size in result.items() if not path.startswith("consolidated")}
        if result:
            return shards or result
    return {}


def weight_bytes(sizes: t.Mapping[str, int]) -> int | None:
    return sum(weight_files(sizes).values()) or None


def facts_of(files: ModelFiles, bytes_of_files: int | None) -> dict[str, t.Any]:
    """Return the facts of a model that a memory plan needs; None for what its files do not say."""
    config, quantization = files.json(CONFIG) or {}, files.json(QUANTIZATION) or {}
    return model_facts(config, quantization, total_size(files.json(INDEX) or {}) or bytes_of_files)


def total_size(index: Config) -> int | None:
    """Return the bytes of all tensors, by its index of safetensors."""
    metadata = index.get("metadata")
    size = metadata.get("total_size") if isinstance(metadata, dict) else None
    # Some tools write it as a fraction.
    if isinstance(size, float) and size.is_integer():
        size = int(size)
    return positive_int(size)


def model_facts(config: Config, quantization: Config, size: int | None) -> dict[str, t.Any]:
    text = text_config(config)
    heads, hidden = number(text, "num_attention_heads"), number(text, "hidden_size")
    kv_heads = number(text, "num_key_value_heads") or heads
    head_dim = number(text, "head_dim") or (hidden // heads if hidden and heads else None)
    # Latent attention keeps something else than keys and values of its heads.
    if number(text, "kv_lora_rank"):
        kv_heads = head_dim = None
    return {
        "weights_bytes": size,
        "architecture": next(iter(architectures(config) or architectures(text)), None),
        "model_type": next((one for one in (config.get("model_type"), text.get("model_type")) if _is_word(one)), None),
        "layers": number(text, "num_hidden_layers"),
        "attention_heads": heads or None,
        "kv_heads": kv_heads,
        "head_dim": head_dim,
        "hidden_size": hidden,
        "vocab_size": number(text, "vocab_size"),
        "max_context": number(text, "max_position_embeddings"),
        "experts": first_number(text, "num_local_experts", "num_experts", "n_routed_experts"),
        "active_experts": first_number(text, "num_experts_per_tok", "experts_per_token"),
        "kv_cache_dtype": kv_cache_dtype(quantization),
        **hybrid_facts(text),
        "prediction_layers": first_number(text, *PREDICTION_LAYERS),
    }


def layer_kinds(config: Config) -> list[str]:
    """Return the kind of each layer; empty if the config does not list them."""
    for key in LAYER_KINDS:
        kinds = config.get(key)
        if isinstance(kinds, (list, str)) and kinds and all(_is_word(kind) for kind in kinds):
            return list(kinds)
    return []


def hybrid_facts(config: Config) -> dict[str, int | None]:
    """Return the layers of a hybrid model by what they keep, and the size of a layer's state; None of any other model.

    A layer of attention keeps keys and values of each token, a state layer a state of fixed size for each request.
    """
    kinds, layers, interval = (
        layer_kinds(config),
        number(config, "num_hidden_layers"),
        number(config, "full_attention_interval"),
    )
    states = sum(kind in STATE_KINDS for kind in kinds)
    attention = sum(kind in ATTENTION_KINDS for kind in kinds)
    if not kinds and layers and interval:
        attention = layers // interval
        states = layers - attention
    if not states:
        return dict.fromkeys(
            ("attention_layers", "state_layers", "state_values", "convolution_values", "convolution_width")
        )
    values, channels, width = state_sizes(config)
    return {
        "attention_layers": attention,
        "state_layers": states,
        "state_values": values,
        "convolution_values": channels,
        "convolution_width": width,
    }


def state_sizes(config: Config) -> tuple[int | None, int | None, int | None]:
    """Return the values of a layer's state, its channels of convolution and their width.

    By vllm/model_executor/layers/mamba/mamba_utils.py: a gated delta net keeps a matrix for each head, Mamba-2 as well.
    """
    heads, key, value = (
        number(config, f"linear_{name}") for name in ("num_value_heads", "key_head_dim", "value_head_dim")
    )
    key_heads = number(config, "linear_num_key_heads")
    if heads and key and value and key_heads:
        return heads * key * value, 2 * key_heads * key + heads * value, number(config, "linear_conv_kernel_dim")
    heads, value, key = (number(config, name) for name in ("mamba_num_heads", "mamba_head_dim", "ssm_state_size"))
    groups = number(config, "n_groups")
    if heads and key and value and groups:
        return heads * key * value, heads * value + 2 * groups * key, number(config, "conv_kernel")
    return None, None, None


def kv_cache_dtype(quantization: Config) -> str | None:
    """C(fp8) if hf_quant_config.json asks for such a KV cache: all releases of TensorRT-LLM follow that file only."""
    section = quantization.get("quantization")
    fp8 = isinstance(section, dict) and str(section.get("kv_cache_quant_algo")).upper() == "FP8"
    return "fp8" if fp8 else None


def _is_word(value: t.Any) -> bool:
    return isinstance(value, str) and bool(value)


def architectures(config: Config) -> list[str]:
    names = config.get("architectures")
    return [name for name in names if _is_word(name)] if isinstance(names, list) else []


def first_number(config: Config, *keys: str) -> int | None:
    return next((found for found in (number(config, key) for key in keys) if found is not None), None)


def eagle_head(config: Config) -> str | None:
    """Return the architecture of an EAGLE head: it cannot serve or draft by itself."""
    return next((name for name in architectures(config) if "eagle" in name.lower()), None)


def judged_pair(pair: Config, models: t.Mapping[str, ModelFiles]) -> list[str]:
    """Return as sentences why the draft model does not fit its target; none if one of them is not among the models."""
    target, draft = models.get(pair.get("target") or ""), models.get(pair.get("draft") or "")
    if not target or not draft:
        return []
    theirs, ours = target.json(CONFIG), draft.json(CONFIG)
    if theirs is None or ours is None:
        return []
    method = pair.get("method") or ""
    problems = pair_problems(theirs, ours, method)
    if problems:
        problems = pair_problems(
            theirs, ours, method, same_tokenizer=not target.tokenizer().isdisjoint(draft.tokenizer())
        )
    return [
        f"The draft model {pair['draft']} does not belong to the target model {pair['target']}: {problem}. Give a "
        "draft that was made for this target."
        for problem in problems
    ]


def text_config(config: Config) -> Config:
    """Return the part about the language model.

    Models that also see or hear keep it in a section of its own, and so do heads in the format of speculators.
    """
    for key in ("text_config", "llm_config", "language_config", "transformer_layer_config"):
        section = config.get(key)
        if isinstance(section, dict):
            return section
    return config


def number(config: Config, key: str) -> int | None:
    return natural_int(config.get(key))


def pair_problems(
    target_config: Config, draft_config: Config, method: str, same_tokenizer: bool | None = None
) -> list[str]:
    """Return as clauses why the draft model cannot draft for the target. Missing facts are no problem.

    Sums of tokenizer.json can only excuse a difference, never make one: tools write the same tokenizer in several ways.
    """
    target, draft = text_config(target_config), text_config(draft_config)
    if method in HIDDEN_STATE_METHODS:
        return [*_vocabulary(target, draft), *_draft_vocabulary(target, draft), *_width(target, draft)]
    if method in ("draft_target", "pard"):
        # Of one family, models of different size may pad the vocabulary differently.
        return _needs_hidden_states(draft_config) or ([] if same_tokenizer else _vocabulary(target, draft))
    return []


def _needs_hidden_states(draft: Config) -> list[str]:
    """Return the problem of a head, which cannot draft by itself: it continues what the target has computed."""
    eagle = eagle_head(draft)
    return [f"it is an EAGLE head ({eagle}), which takes method eagle3"] if eagle else []


def _vocabulary(target: Config, draft: Config) -> list[str]:
    theirs, ours = number(target, "vocab_size"), number(draft, "vocab_size")
    if theirs is None or ours is None or theirs == ours:
        return []
    return [f"its vocabulary has {ours} tokens and the target's has {theirs}"]


def _draft_vocabulary(target: Config, draft: Config) -> list[str]:
    """Return the problem of a head that drafts from more than the target's vocabulary; a part of it is fine."""
    theirs, ours = number(target, "vocab_size"), number(draft, "draft_vocab_size")
    if theirs is None or ours is None or ours <= theirs:
        return []
    return [f"it drafts from {ours} tokens and the target's vocabulary has {theirs}"]


def _width(target: Config, draft: Config) -> list[str]:
    """Return the problem of a head for another width. It reads the target's hidden states, and may name their width."""
    theirs = number(target, "hidden_size")
    ours = number(draft, "target_hidden_size") or number(draft, "hidden_size")
    if theirs is None or ours is None or theirs == ours:
        return []
    return [f"it was made for a hidden size of {ours} and the target's is {theirs}"]

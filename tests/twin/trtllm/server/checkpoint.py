# mypy: disable-error-code="import-not-found"
# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read checkpoints: find them through the real huggingface_hub, and open and check every file."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import os
import struct
import typing as t
from pathlib import Path

VOCABULARIES = {
    "o200k_base.tiktoken": "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d",
    "cl100k_base.tiktoken": "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7",
}
_WIDTHS = {"BF16": 2, "F16": 2, "F32": 4, "F64": 8, "I8": 1, "U8": 1, "I16": 2, "I32": 4, "I64": 8, "BOOL": 1}
_WIDTHS |= {"F8_E4M3": 1, "F8_E5M2": 1, "F8_E8M0": 1, "U16": 2, "U32": 4, "U64": 8}


class SafetensorError(Exception):
    """An error with the name and text of the safetensors library."""


class HarmonyError(Exception):
    """An error with the text of openai_harmony."""


@dataclasses.dataclass(frozen=True)
class Checkpoint:
    directory: Path
    config: dict[str, t.Any]
    shards: list[Path]
    tensors: dict[str, Path]
    declared: int | None = None
    fp8_cache: bool = False

    @property
    def size(self) -> int:
        return sum(shard.stat().st_size for shard in self.shards)

    @property
    def real_size(self) -> int:
        """Return the size of the real model's weights from the index, or of the files without an index."""
        return self.size if self.declared is None else self.declared

    @property
    def architecture(self) -> str:
        return str((self.config.get("architectures") or [""])[0])


def resolve(model: str, revision: str | None) -> Path:
    """Return the directory of a model, which is a directory or the id of a repository on the Hub."""
    if Path(model).is_dir():
        return Path(model)
    # Import late, because the library reads its environment variables at import.
    from huggingface_hub import snapshot_download

    return Path(snapshot_download(model, revision=revision, ignore_patterns=["original/**/*"]))


def inspect(directory: Path) -> Checkpoint:
    """Read the configuration and find the shards, as a loader does before it reads any weight."""
    config = json.loads((directory / "config.json").read_text(encoding="utf-8"))
    fp8_cache = _asks_for_fp8_cache(directory / "hf_quant_config.json")
    index = directory / "model.safetensors.index.json"
    if index.exists():
        content = json.loads(index.read_text(encoding="utf-8"))
        tensors = {tensor: directory / name for tensor, name in content["weight_map"].items()}
        declared = (content.get("metadata") or {}).get("total_size")
        return Checkpoint(directory, config, sorted(set(tensors.values())), tensors, declared, fp8_cache)
    shards = sorted(directory.glob("*.safetensors"))
    if not shards:
        raise RuntimeError(f"No weight files found in {directory}.")
    return Checkpoint(directory, config, shards, {}, fp8_cache=fp8_cache)


def _asks_for_fp8_cache(quantization: Path) -> bool:
    if not quantization.exists():
        return False
    section = json.loads(quantization.read_text(encoding="utf-8"))["quantization"]
    return bool(section.get("kv_cache_quant_algo") == "FP8")


def check_tokenizer(directory: Path) -> None:
    for name in ("tokenizer.json", "tokenizer_config.json"):
        path = directory / name
        if not path.exists():
            raise OSError(f"Can't load tokenizer for '{directory}': {name} is missing.")
        json.loads(path.read_text(encoding="utf-8"))


def read_shard(checkpoint: Checkpoint, shard: Path) -> set[str]:
    """Read a shard, check its size against its header, and return the names of its tensors."""
    if not shard.exists():
        raise FileNotFoundError(2, "No such file or directory", str(shard))
    header = read_header(shard)
    missing = [name for name, path in checkpoint.tensors.items() if path == shard and name not in header]
    if missing:
        raise SafetensorError(f"File does not contain tensor {missing[0]}")
    with shard.open("rb") as stream:
        while stream.read(1 << 20):
            pass
    return set(header)


def read_header(shard: Path) -> dict[str, dict[str, t.Any]]:
    size = shard.stat().st_size
    with shard.open("rb") as stream:
        prefix = stream.read(8)
        if len(prefix) < 8:
            raise SafetensorError("Error while deserializing header: header too small")
        (length,) = struct.unpack("<Q", prefix)
        if length > 100_000_000:
            raise SafetensorError("Error while deserializing header: header too large")
        if 8 + length > size:
            raise SafetensorError("Error while deserializing header: invalid header length")
        try:
            header: dict[str, dict[str, t.Any]] = json.loads(stream.read(length))
        except ValueError as error:
            raise SafetensorError(f"Error while deserializing header: invalid JSON in header: {error}") from error
    header.pop("__metadata__", None)
    end = 0
    for name, tensor in header.items():
        first, last = tensor["data_offsets"]
        if last - first != math.prod(tensor["shape"]) * _WIDTHS[tensor["dtype"]]:
            raise SafetensorError(f"Error while deserializing header: invalid shape, data type, or offset for {name}")
        end = max(end, last)
    if 8 + length + end != size:
        raise SafetensorError("Error while deserializing header: incomplete metadata, file not fully covered")
    return header


def check_draft(target: Checkpoint, draft: Checkpoint, *, eagle: bool) -> None:
    """Reject a draft model that does not belong to the target."""
    if eagle and "eagle3" not in draft.architecture.lower():
        raise ValueError(
            f"The draft model {draft.directory} is no EAGLE-3 head: its architecture is {draft.architecture}."
        )
    keys = ["vocab_size", "hidden_size"] if eagle else ["vocab_size"]
    for key in keys:
        if draft.config.get(key) != target.config.get(key):
            raise ValueError(
                f"The {key} of the draft model ({draft.config.get(key)}) differs from that of the target model "
                f"({target.config.get(key)})."
            )
    smaller = draft.config.get("draft_vocab_size")
    if smaller is not None and smaller > draft.config["vocab_size"]:
        raise ValueError(f"draft_vocab_size ({smaller}) is larger than vocab_size ({draft.config['vocab_size']}).")


# Of modeling_speculative.py; the list of an older release may be shorter.
PREDICTING = ("glm4_moe", "deepseek_v3", "deepseek_v32", "glm_moe_dsa", "exaone_moe", "nemotron_h", "qwen3_next")


def check_prediction_layers(target: Checkpoint) -> None:
    """Reject MTP for a target model without prediction layers."""
    if (model_type := target.config.get("model_type")) not in PREDICTING:
        raise ValueError(f"Model type {model_type} not supported for MTP")


def check_vocabularies(environment: t.Mapping[str, str] = os.environ) -> None:
    """Check the two vocabularies, which openai_harmony needs unchanged for gpt-oss."""
    directory = environment.get("TIKTOKEN_ENCODINGS_BASE")
    for name, digest in VOCABULARIES.items():
        if not directory:
            raise HarmonyError(
                "error downloading or loading vocab file: failed to download or load vocab file: "
                f"TIKTOKEN_ENCODINGS_BASE is not set and {name} cannot be downloaded"
            )
        path = Path(directory) / name
        if not path.is_file():
            raise HarmonyError(
                "error downloading or loading vocab file: failed to download or load vocab file: "
                f"No such file or directory (os error 2): {path}"
            )
        found = hashlib.sha256(path.read_bytes()).hexdigest()
        if found != digest:
            raise HarmonyError(
                f"error downloading or loading vocab file: hash mismatch for {path}: expected {digest}, found {found}"
            )


def kv_bytes_per_token(config: dict[str, t.Any], value_bytes: float = 2) -> float:
    """Return the bytes of keys and values in all layers."""
    heads = config.get("num_key_value_heads") or config.get("num_attention_heads") or 1
    width = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
    return 2 * value_bytes * int(config["num_hidden_layers"]) * int(heads) * int(width)

# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Print the bytes that vLLM 0.28.0 needs for one request of a hybrid model. Run in its environment.

Its own functions count. The layers are those of Qwen3.6-27B with MTP and an FP8 cache. A block has as many tokens as a
state is large, and the pool keeps a block for itself (vllm/v1/core/block_pool.py).
"""

from __future__ import annotations

import sys
import types

import torch
from vllm.v1.core import kv_cache_utils
from vllm.v1.kv_cache_interface import FullAttentionSpec, MambaSpec

TOKENS = 1600
DRAFTED = 3


def main(context: int) -> None:
    attention = FullAttentionSpec(block_size=TOKENS, num_kv_heads=4, head_size=256, dtype=torch.uint8)
    state = MambaSpec(
        block_size=TOKENS,
        shapes=((48, 128, 128), (10_240, 3)),
        dtypes=(torch.float32, torch.bfloat16),
        page_size_padded=attention.page_size_bytes,
        mamba_cache_mode="align",
        num_speculative_blocks=DRAFTED,
    )
    layers = {f"layers.{number}": attention if number % 4 == 3 else state for number in range(64)}
    config = types.SimpleNamespace(
        model_config=types.SimpleNamespace(max_model_len=context),
        cache_config=types.SimpleNamespace(mamba_cache_mode="align"),
        parallel_config=types.SimpleNamespace(decode_context_parallel_size=1),
        scheduler_config=types.SimpleNamespace(disable_hybrid_kv_cache_manager=False),
    )
    groups = kv_cache_utils.get_kv_cache_groups(config, {**layers, "mtp.layers.0": attention})
    for_request = kv_cache_utils._max_memory_usage_bytes_from_groups(config, groups)
    print(for_request + max(len(group.layer_names) for group in groups) * attention.page_size_bytes)


if __name__ == "__main__":
    main(int(sys.argv[1]))

# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this plugin util is internal to the collection; its interface may change at any time.

"""Read the memory that engine options of TensorRT-LLM ask for, and add those of a memory plan."""

from __future__ import annotations

import typing as t

from ....module_utils._data.numbers import is_number, positive_int
from ..engine import Limits, OptionNames, Planned, is_set

# Its own defaults.
BLOCK = 32
FREE_FRACTION = 0.9
# Activations, CUDA graphs and libraries; a rule of thumb for one GB10.
WORKSPACE = 10_000_000_000
# py_executor_creator.py makes a sequence longer than max_seq_len by 1 + d with the overlap scheduler, d - 1 for drafts
# made in the same engine, and d for those that are verified.
PER_DRAFTED = 3
NAMES = OptionNames(
    context="max_seq_len",
    concurrency="max_batch_size",
    tokens="kv_cache_config.max_tokens",
    fraction="kv_cache_config.free_gpu_memory_fraction",
    cache_type="kv_cache_config.dtype",
    prompt="max_num_tokens",
    chunking="enable_chunked_prefill",
)

Options = t.Mapping[str, t.Any]


def limits(options: Options) -> Limits:
    """Return what the options say of memory. A max_tokens that is null switches the plan's own off."""
    section = options.get("kv_cache_config")
    cache = section if isinstance(section, dict) else {}
    fraction = cache.get("free_gpu_memory_fraction")
    is_share = is_number(fraction) and 0 < fraction <= 1
    return Limits(
        context=positive_int(options.get("max_seq_len")),
        concurrency=positive_int(options.get("max_batch_size")),
        tokens=positive_int(cache.get("max_tokens")),
        by_fraction="max_tokens" in cache and cache["max_tokens"] is None,
        fraction=t.cast(float, fraction) if is_share else FREE_FRACTION,
        cache_type=str(cache.get("dtype") or "auto").lower(),
        block=positive_int(cache.get("tokens_per_block")) or BLOCK,
        per_drafted=PER_DRAFTED,
        workspace=WORKSPACE,
    )


def fill(options: Options, planned: Planned) -> dict[str, t.Any]:
    """Return the options that the explicit ones leave open; they are merged over this."""
    made: dict[str, t.Any] = {}
    if not is_set(options, NAMES.concurrency):
        made["max_batch_size"] = planned.concurrency
    graphs = options.get("cuda_graph_config", {})
    # A list of sizes excludes the largest one, and null means no graphs.
    if isinstance(graphs, dict) and "max_batch_size" not in graphs and not graphs.get("batch_sizes"):
        made["cuda_graph_config"] = {"max_batch_size": planned.concurrency}
    if planned.context is not None and not is_set(options, NAMES.context):
        made["max_seq_len"] = planned.context
    if planned.tokens is not None and not is_set(options, NAMES.tokens):
        # TensorRT-LLM takes the smaller of the two, so the fraction stays as a cap.
        cap = {} if is_set(options, NAMES.fraction) else {"free_gpu_memory_fraction": FREE_FRACTION}
        made["kv_cache_config"] = {"max_tokens": planned.tokens, **cap}
    if planned.chunked:
        made["enable_chunked_prefill"] = True
    return made

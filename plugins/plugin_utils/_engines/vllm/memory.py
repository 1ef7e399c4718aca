# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this plugin util is internal to the collection; its interface may change at any time.

"""The memory that options of vLLM ask for, and the options that a plan adds.

vLLM takes its KV cache in bytes or as a fraction of the memory. On a Spark only bytes are reproducible: what else runs
on it changes what a fraction gives (vllm/v1/worker/gpu_worker.py).
"""

from __future__ import annotations

import typing as t

from ....module_utils._data.numbers import is_number, positive_int
from ..engine import Limits, OptionNames, Planned, is_set

# Its own default.
BLOCK = 16
# Besides weights and KV cache, 5.4 to 6.7 GiB were measured on a GB10 (llamastash issue 81).
WORKSPACE = 7 * 2**30
# Planned for a hybrid model on a GB10 (luisefigueroa/pulsar-gb10-vllm-stack, Nemotron-3-Super).
HYBRID_WORKSPACE = 12 * 2**30
# Each drafted token takes a slot of a request (vllm/config/vllm.py).
PER_DRAFTED = 1
# Tokens of a pass. The defaults differ between releases, and those before 0.33 take a Spark for a data centre's GPU.
BATCHED = 8192
BYTES, SHARE = "kv-cache-memory-bytes", "gpu-memory-utilization"
NAMES = OptionNames(
    context="max-model-len",
    concurrency="max-num-seqs",
    tokens=BYTES,
    fraction=SHARE,
    cache_type="kv-cache-dtype",
    prompt="max-num-batched-tokens",
    chunking="enable-chunked-prefill",
)
# Its names of types of which a value takes one byte.
FP8 = ("fp8_e4m3", "fp8_e5m2")

Options = t.Mapping[str, t.Any]


def limits(options: Options) -> Limits:
    """Return what the options say of memory."""
    share = options.get(SHARE)
    is_share = is_number(share) and 0 < share <= 1
    kind = str(options.get(NAMES.cache_type) or "auto").lower()
    return Limits(
        context=positive_int(options.get(NAMES.context)),
        concurrency=positive_int(options.get(NAMES.concurrency)),
        tokens=None,
        by_fraction=is_share and not is_set(options, BYTES),
        fraction=t.cast(float, share) if is_share else 1.0,
        cache_type="fp8" if kind in FP8 else kind,
        block=positive_int(options.get("block-size")) or BLOCK,
        per_drafted=PER_DRAFTED,
        workspace=WORKSPACE,
        cache_bytes=positive_int(options.get(BYTES)),
        state_value=2.0 if options.get("mamba-ssm-cache-dtype") in ("float16", "bfloat16") else 4.0,
        hybrid_workspace=HYBRID_WORKSPACE,
        # vllm/v1/core/kv_cache_utils.py makes the pages of all kinds of layers equally large.
        blocks_hold_states=True,
    )


def fill(options: Options, planned: Planned) -> dict[str, t.Any]:
    """Return the options that the explicit ones leave open; they are merged over this.

    A start needs the fraction to be free, also if the KV cache is given in bytes (vllm/v1/worker/utils.py).
    """
    made: dict[str, t.Any] = {"max-num-seqs": planned.concurrency, "max-num-batched-tokens": BATCHED}
    if planned.context is not None:
        made["max-model-len"] = planned.context
        # More than all conversations together is no use, and vLLM warns of it.
        made["max-num-batched-tokens"] = min(BATCHED, planned.concurrency * planned.context)
    if planned.cache_bytes is not None:
        made[BYTES] = planned.cache_bytes
    if planned.share is not None:
        made[SHARE] = planned.share
    return {key: value for key, value in made.items() if not is_set(options, key)}

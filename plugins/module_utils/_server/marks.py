# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this module util is internal to the collection; its interface may change at any time.

"""Marks in the log of a TensorRT-LLM server: its starts, its loading steps, its ends."""

from __future__ import annotations

import typing as t


class Stage(t.NamedTuple):
    """One step between the start of a server and its first answer."""

    id: str
    substrings: tuple[str, ...]
    text: str


# Each process of a server writes one of these at its start. A log has several starts.
START_MARKERS: tuple[str, ...] = ("TensorRT-LLM version:", "TensorRT LLM version:")

# The container's main process writes into the same log, and this when the server ended.
ENTRYPOINT_MARK = "[entrypoint]"
END_MARKER = "[entrypoint] the server ended with "

STAGES: tuple[Stage, ...] = (
    Stage("session", ("start MpiSession with",), "starting the workers"),
    Stage("prefetch", ("Prefetching ",), "reading the weights from disk"),
    Stage("weights", ("Loading safetensors weights in parallel", "Loading weights"), "loading weights"),
    Stage("model", ("Model init total --",), "weights loaded, preparing the engine"),
    Stage("sampler", ("Using Sampler:",), "weights loaded, preparing the engine"),
    Stage(
        "memory",
        (
            "[MemUsageChange] Allocated",
            "max_seq_len is not specified, using inferred value",
            "Both free_gpu_memory_fraction and max_tokens are set",
            "Attention window size",
        ),
        "allocating the KV cache",
    ),
    Stage("all_reduce", ("finalMNNVL=",), "the two Sparks reduce together for the first time"),
    Stage("warmup", ("CUDA graph warmup", "autotuner warmup"), "warming up"),
    Stage(
        "http",
        ("get signal from executor worker", "Started server process", "Application startup complete."),
        "engine up, starting HTTP",
    ),
    Stage("listening", ("Uvicorn running on http://", "Uvicorn running on socket"), "listening"),
)

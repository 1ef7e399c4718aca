# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""TensorRT-LLM in its container."""

from __future__ import annotations

import re

from server.engines.engine import MPI, Engine
from server.libraries import distribution

# The log lines of the KV cache: a small one for an estimate first, and the end of the estimate; then the real ones, of
# which target and draft model may have one each. The smallest of these counts.
ESTIMATED = b"Peak memory during memory usage profiling"
KV_CACHE = re.compile(rb"Allocated [0-9.]+ GiB for max tokens in paged KV cache \(([0-9]+)\)")
# The only line of releases with another cache manager.
KV_CACHE_BOUND = re.compile(rb"Attention window size [0-9]+ exceeds upper bound ([0-9]+) for available blocks")
# In the engine options, as the playbook writes them.
KV_CACHE_PLANNED = re.compile(r"^kv_cache_config:\n(?:[ ]+.*\n)*?[ ]+max_tokens: ([0-9]+)$", re.MULTILINE)


class CacheLines:
    """The KV cache by the log of a server."""

    def __init__(self) -> None:
        self.made: int | None = None
        self.estimated = False
        self.bound: int | None = None

    def hear(self, line: bytes) -> None:
        if ESTIMATED in line:
            self.made, self.estimated = None, True
        if match := KV_CACHE.search(line):
            tokens = int(match[1])
            # Without an end of the estimate, all but the last line belong to it.
            self.made = min(tokens, self.made or tokens) if self.estimated else tokens
        if match := KV_CACHE_BOUND.search(line):
            self.bound = int(match[1])

    @property
    def tokens(self) -> int | None:
        return self.bound if self.made is None else self.made


def cache_planned(options: str) -> int | None:
    planned = KV_CACHE_PLANNED.search(options)
    return int(planned[1]) if planned else None


def versions() -> dict[str, str | None]:
    return {"TensorRT-LLM": distribution("tensorrt_llm") or distribution("tensorrt-llm")}


TENSORRT_LLM = Engine(
    name="tensorrt_llm",
    launcher=MPI,
    variables=(
        *("UCX_", "TRITON_", "CPATH"),
        *(f"OMPI_MCA_{framework}" for framework in ("btl", "pml", "coll", "osc", "mtl")),
    ),
    per_spark=("UCX_NET_DEVICES",),
    versions=versions,
    front="trtllm-serve",
    metrics="/prometheus/metrics",
    figures="trtllm_",
    running="trtllm_num_requests_running",
    all_read=(b"Loading weights: 100%", b"Model init total"),
    last_words=("Health check detected fatal engine error.*",),
    cache_planned=cache_planned,
    cache_lines=CacheLines,
)

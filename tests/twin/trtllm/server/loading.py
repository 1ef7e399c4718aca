# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Load a rank's part of the model into its GPU: its weights, the draft model and the KV cache."""

from __future__ import annotations

import dataclasses
import sys
import time
from pathlib import Path

from . import checkpoint as checkpoints
from . import meminfo
from .checkpoint import Checkpoint
from .machine import Gpu, count_gpus, follow, log, occupy, progress, read_faults
from .release import FAMILY

GIB = 2**30
# From a log of a GB10 (NVIDIA's forum, topic 354807).
ESTIMATE_TOKENS = 4128


@dataclasses.dataclass(frozen=True)
class Task:
    """The front's instructions to the ranks for loading."""

    model: str
    revision: str | None
    draft: str | None
    eagle: bool
    world_size: int
    free_fraction: float
    max_tokens: int | None
    tokens_per_block: int
    max_seq_len: int | None
    max_batch_size: int
    max_num_tokens: int
    chunked_prefill: bool
    log_level: str
    kv_dtype: str = "auto"
    # Tokens that the engine adds to max_seq_len for drafts and the overlap scheduler.
    extra_tokens: int = 0
    # Limit in bytes of a cache that a newer release sizes by bytes; 0 for no limit.
    max_bytes: int = 0
    by_bytes: bool = False
    # Layers of the target model that draft, each with a KV cache.
    prediction_layers: int = 0


@dataclasses.dataclass(frozen=True)
class Limits:
    max_batch_size: int
    max_num_tokens: int
    max_seq_len: int
    chunked_prefill: bool
    kv_blocks: int
    tokens_per_block: int


class InsufficientMemory(RuntimeError):
    """The simulated GPU is too small for a component."""

    def __init__(self, component: str, wanted: float, free: float, total: float) -> None:
        self.component = component
        super().__init__(
            f"CUDA out of memory. Tried to allocate {wanted / GIB:.2f} GiB. GPU 0 has a total capacity of "
            f"{total / GIB:.2f} GiB of which {max(free, 0) / GIB:.2f} GiB is free."
        )


class OutOfMemoryError(RuntimeError):
    """An error with torch's name, as in a traceback."""

    __module__ = "torch"


def find_draft(task: Task, target: Checkpoint) -> Checkpoint | None:
    if task.draft is None:
        return None
    draft = checkpoints.inspect(_directory(task.draft, None))
    checkpoints.check_draft(target, draft, eagle=task.eagle)
    return draft


def _directory(model: str, revision: str | None) -> Path:
    """Return a rank's directory of a model. A path is used even if it does not exist on the rank's host."""
    return Path(model) if model.startswith("/") else checkpoints.resolve(model, revision)


def load(task: Task, gpu: Gpu) -> Limits:
    """Load one rank's part, hold its memory until this process ends, and return its limits."""
    if count_gpus() == 0:
        raise RuntimeError("No CUDA GPUs are available")
    started = time.monotonic()
    curve = read_faults().memory_curve
    # It holds memory as long as this process runs.
    held = follow(curve) if curve else None
    target = checkpoints.inspect(_directory(task.model, task.revision))
    draft = find_draft(task, target)
    room = free = gpu.memory_bytes - gpu.system_bytes
    models = [one for one in (target, draft) if one is not None]
    caches = _kv_bytes_per_token(task, target, draft)
    per_token = sum(caches)
    try:
        free -= _load_weights("model", target, gpu, free, task.world_size)
        if draft is not None:
            # Each rank loads the whole draft model, because it is small.
            free -= _load_weights("draft model", draft, gpu, free, 1)
        log.info("Model init total -- %.2fs", time.monotonic() - started)
        _estimate(task, gpu, caches)
        limits = _reserve(task, target, gpu, _free_beside(models, free), caches)
    except InsufficientMemory as failure:
        log.error("Executor creation failed due to insufficient GPU memory.")
        log.error("The following component could not be created: %s", failure.component)
        raise OutOfMemoryError(str(failure)) from failure
    if held is not None:
        held.kill()
    occupy(room - free + limits.kv_blocks * limits.tokens_per_block * per_token)
    return limits


def _kv_bytes_per_token(task: Task, target: Checkpoint, draft: Checkpoint | None) -> list[int]:
    """Return the bytes per token of each cache of a rank. With auto, the type is from the checkpoint.

    An EAGLE head has the type of its target. Newer releases have another cache for drafts, also in the same engine.
    """
    widths = {"fp8": 1.0, "nvfp4": 0.5625}
    log.info('Validating KV Cache config against kv_cache_dtype="%s"', task.kv_dtype)
    if task.kv_dtype == "auto":
        log.info('KV cache quantization set to "auto". Using checkpoint KV quantization.')
    sizes = []
    for one in (target, draft):
        if one is not None:
            says = "fp8" if (target if task.eagle else one).fp8_cache else ""
            dtype = says if task.kv_dtype == "auto" else task.kv_dtype
            sizes.append(checkpoints.kv_bytes_per_token(one.config, widths.get(dtype, 2.0)))
    sizes[0] *= 1 + task.prediction_layers / int(target.config["num_hidden_layers"])
    caches = sizes if FAMILY == "1.3" and not task.by_bytes else [sum(sizes)]
    return [int(size) // task.world_size for size in caches]


def common(limits: list[Limits]) -> Limits:
    """Return the common limits of all ranks. The smallest KV cache decides."""
    smallest = min(limits, key=lambda limit: limit.kv_blocks)
    return dataclasses.replace(smallest, max_seq_len=min(limit.max_seq_len for limit in limits))


def _load_weights(component: str, checkpoint: Checkpoint, gpu: Gpu, free: float, parts: int) -> float:
    """Read every shard at the speed of the simulated disk. Return the bytes of one part on the GPU."""
    complete = all(shard.exists() for shard in checkpoint.shards)
    total = checkpoint.real_size / parts if complete else 0.0
    scale = checkpoint.real_size / checkpoint.size if complete else 0.0
    if total > free:
        raise InsufficientMemory(component, total, free, gpu.memory_bytes)
    title = "Loading safetensors weights in parallel"
    count = len(checkpoint.shards)
    progress(title, 0, count)
    faults = read_faults()
    for number, shard in enumerate(checkpoint.shards, start=1):
        checkpoints.read_shard(checkpoint, shard)
        time.sleep(shard.stat().st_size * scale / 1e9 * gpu.seconds_per_gb)
        if faults.die_while_loading is not None and 2 * number >= count:
            print(f"\n{faults.die_while_loading}", file=sys.stderr, flush=True)
            sys.exit(1)
        progress(title, number, count)
    progress("Loading weights", count, count)
    log.info("%s weights of %s: %.2f GiB", component.capitalize(), checkpoint.architecture, total / GIB)
    return total


# Model type whose cache newer releases size by bytes only (pull request 16942).
SIZED_BY_BYTES = "gpt_oss"


def _estimate(task: Task, gpu: Gpu, caches: list[int]) -> None:
    """Estimate the KV cache. The real engine creates a small one first, and measures the memory of a pass."""
    log.info("Using Sampler: TorchSampler")
    tokens = min(ESTIMATE_TOKENS, task.max_tokens or ESTIMATE_TOKENS)
    for per_token in caches:
        _log_allocated(task, tokens, per_token)
    time.sleep(gpu.estimate_s)
    log.info("Peak memory during memory usage profiling (torch + non-torch): %.2f GiB", gpu.system_bytes / GIB)


def _log_allocated(task: Task, tokens: int, per_token: int) -> None:
    size = tokens * per_token / GIB
    if task.by_bytes:
        # The log line of the real one is unknown, so this text is only the stand-in's.
        log.info("[kv_cache_manager_v2] Pool of %.2f GiB", size)
        return
    log.info("[MemUsageChange] Allocated %.2f GiB for max tokens in paged KV cache (%d).", size, tokens)


def _free_beside(models: list[Checkpoint], free: float) -> float:
    """Return cudaMemGetInfo's free memory on a GB10. Page cache counts as used, and shrinks only at the watermark."""
    cached = sum(meminfo.cached_bytes(model.directory) for model in models)
    return max(free - cached, min(free, meminfo.WATERMARK))


def _reserve(task: Task, target: Checkpoint, gpu: Gpu, free: float, caches: list[int]) -> Limits:
    """Reserve the remaining memory for the KV cache, and return the limits."""
    per_token = sum(caches)
    natural = int(target.config.get("max_position_embeddings", 4096))
    length = task.max_seq_len
    if length is None:
        log.info("max_seq_len is not specified, using inferred value %d", natural)
        length = natural
    share = task.free_fraction
    tokens = int(free * share / per_token)
    if task.by_bytes:
        tokens = min(tokens, task.max_bytes // per_token) if task.max_bytes else tokens
    elif task.max_tokens is not None:
        log.info(
            "Both free_gpu_memory_fraction and max_tokens are set (to %s and %d, respectively). The smaller value "
            "will be used.",
            share,
            task.max_tokens,
        )
        tokens = min(tokens, task.max_tokens)
    blocks = tokens // task.tokens_per_block
    if blocks < 1:
        raise InsufficientMemory("KV cache", per_token * task.tokens_per_block, free * share, gpu.memory_bytes)
    capacity = blocks * task.tokens_per_block
    window = length + task.extra_tokens
    if window > capacity:
        if not task.by_bytes:
            log.warning(
                "Attention window size %d exceeds upper bound %d for available blocks. Reducing to %d",
                window,
                capacity,
                capacity,
            )
        length = min(length, capacity)
    _log_allocated(task, capacity, caches[0])
    planned = (task.max_tokens or 0) // task.tokens_per_block * task.tokens_per_block
    for drafts in caches[1:]:
        # This cache is so small that it fits even if the other one does not.
        _log_allocated(task, max(capacity, planned), drafts)
    log.info("Free GPU memory fraction %.2f of %.2f GiB", share, free / GIB)
    return Limits(
        max_batch_size=task.max_batch_size,
        max_num_tokens=task.max_num_tokens,
        max_seq_len=length,
        chunked_prefill=task.chunked_prefill,
        kv_blocks=blocks,
        tokens_per_block=task.tokens_per_block,
    )

# mypy: disable-error-code="import-not-found"
# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The command line of trtllm-serve, and everything up to an open port."""

from __future__ import annotations

import os
import signal
import socket
import sys
import time
import typing as t
from pathlib import Path

import click
import uvicorn
import yaml

from . import checkpoint as checkpoints
from . import engine
from .api import Server, create
from .checkpoint import Checkpoint
from .machine import Gpu, count_gpus, log, progress, read_faults, read_gpu, start_log
from .options import (
    DraftTargetDecodingConfig,
    Eagle3DecodingConfig,
    NGramDecodingConfig,
    TorchLlmArgs,
)
from .runtime import Limits, Runtime, Speculation

GIB = 2**30
LEVELS = ["internal_error", "error", "warning", "info", "verbose", "debug", "trace"]
SECTIONS = ("kv_cache_config", "speculative_config", "cuda_graph_config", "moe_config", "scheduler_config")


class InsufficientMemory(RuntimeError):
    """The simulated GPU is too small for a component."""

    def __init__(self, component: str, wanted: float, free: float, total: float) -> None:
        self.component = component
        super().__init__(
            f"CUDA out of memory. Tried to allocate {wanted / GIB:.2f} GiB. GPU 0 has a total capacity of "
            f"{total / GIB:.2f} GiB of which {max(free, 0) / GIB:.2f} GiB is free."
        )


class OutOfMemoryError(RuntimeError):
    """Named as torch names it in a traceback."""

    __module__ = "torch"


def _release() -> str:
    return os.environ.get("TRT_LLM_VERSION", "1.3.0rc12")


class _Serve(click.Command):
    """Accepts the sub-command name in front of the model, as the real one does."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(ctx, args[1:] if args[:1] == ["serve"] else args)


@click.command(cls=_Serve, context_settings={"help_option_names": ["--help"]})
@click.argument("model", type=str)
@click.option("--tokenizer", type=str, default=None)
@click.option("--custom_tokenizer", type=str, default=None)
@click.option("--host", type=str, default="localhost", help="Hostname of the server.")
@click.option("--port", type=int, default=8000, help="Port of the server.")
@click.option("--backend", type=click.Choice(["pytorch", "tensorrt", "_autodeploy"]), default="pytorch")
@click.option("--custom_module_dirs", type=click.Path(exists=True, file_okay=False), multiple=True)
@click.option("--log_level", type=click.Choice(LEVELS), default="info")
@click.option("--max_beam_width", type=int, default=1)
@click.option("--max_batch_size", type=int, default=2048)
@click.option("--max_num_tokens", type=int, default=8192)
@click.option("--max_seq_len", type=int, default=None)
@click.option("--tensor_parallel_size", "--tp_size", "tensor_parallel_size", type=int, default=1)
@click.option("--pipeline_parallel_size", "--pp_size", "pipeline_parallel_size", type=int, default=1)
@click.option("--context_parallel_size", "--cp_size", "context_parallel_size", type=int, default=1)
@click.option("--moe_expert_parallel_size", "--ep_size", "moe_expert_parallel_size", type=int, default=None)
@click.option("--moe_cluster_parallel_size", "--cluster_size", "moe_cluster_parallel_size", type=int, default=None)
@click.option("--gpus_per_node", type=int, default=None)
@click.option("--free_gpu_memory_fraction", "--kv_cache_free_gpu_memory_fraction", "fraction", type=float, default=0.9)
@click.option("--num_postprocess_workers", type=int, default=0)
@click.option("--trust_remote_code", is_flag=True, default=False)
@click.option("--revision", type=str, default=None)
@click.option("--config", "--extra_llm_api_options", "config", type=str, default=None)
@click.option("--reasoning_parser", type=str, default=None)
@click.option("--tool_parser", type=str, default=None)
@click.option("--metadata_server_config_file", type=str, default=None)
@click.option("--server_role", type=str, default=None)
@click.option("--fail_fast_on_attention_window_too_large", is_flag=True, default=False)
@click.option("--otlp_traces_endpoint", type=str, default=None)
@click.option("--disagg_cluster_uri", type=str, default=None)
@click.option("--enable_chunked_prefill", is_flag=True, default=False)
@click.option("--media_io_kwargs", type=str, default=None)
@click.option("--chat_template", type=str, default=None)
@click.option("--grpc", is_flag=True, default=False)
def serve(
    model: str, host: str, port: int, log_level: str, config: str | None, fraction: float, **given: t.Any
) -> None:
    """Running an OpenAI API compatible server

    MODEL: model name | HF checkpoint path | TensorRT engine path
    """
    start_log(log_level)
    log.info(
        "STAND-IN: this is a test double of trtllm-serve %s. It runs no TensorRT-LLM and no real model.", _release()
    )
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    if given.pop("grpc"):
        raise click.ClickException("The stand-in does not serve gRPC.")
    if given["backend"] != "pytorch":
        raise click.ClickException(f"The stand-in serves the pytorch backend only, not {given['backend']}.")
    listener = _bind(host, port)
    args = _parse(model, fraction, _read_options(config), given)
    server, architecture = _load(args)
    log.info("get signal from executor worker")
    log.info("Model architecture %s is ready, served as %s", architecture, server.name)
    app = create(server)
    uvicorn.Server(uvicorn.Config(app, log_level="info", timeout_keep_alive=5, timeout_graceful_shutdown=1)).run(
        sockets=[listener]
    )


def _bind(host: str, port: int) -> socket.socket:
    """Take the port before anything is loaded; nobody can connect before uvicorn listens on it."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as failure:
        raise RuntimeError(f"Failed to bind socket to {host}:{port}: {failure}") from failure
    return listener


def _read_options(path: str | None) -> dict[str, t.Any]:
    if path is None:
        return {}
    with open(path, encoding="utf-8") as stream:  # noqa: PTH123 - the error text of the real one
        content = yaml.safe_load(stream)
    return content or {}


def _parse(model: str, fraction: float, options: dict[str, t.Any], given: dict[str, t.Any]) -> TorchLlmArgs:
    """Command line first, then the file on top of it, then the strict classes."""
    for unused in (
        "custom_module_dirs",
        "tool_parser",
        "metadata_server_config_file",
        "server_role",
        "fail_fast_on_attention_window_too_large",
        "disagg_cluster_uri",
        "media_io_kwargs",
        "chat_template",
    ):
        given.pop(unused)
    values = {"model": model, **given, "kv_cache_config": {"free_gpu_memory_fraction": fraction}}
    for name in SECTIONS:
        if name in options:
            log.info("Overriding %s", name)
    cache = options.get("kv_cache_config")
    merged = {**values, **options}
    if isinstance(cache, dict):
        merged["kv_cache_config"] = {"free_gpu_memory_fraction": fraction, **cache}
    try:
        return TorchLlmArgs(**merged)
    except Exception as failure:
        log.error("Failed to parse the arguments for the LLM constructor: %s", failure)
        raise


def _load(args: TorchLlmArgs) -> tuple[Server, str]:
    gpu = read_gpu()
    _check_gpus(args)
    started = time.monotonic()
    log.info("start MpiSession with %d workers", args.world_size)
    target = checkpoints.inspect(checkpoints.resolve(args.model, args.revision))
    draft = _find_draft(args, target)
    _load_tokenizer(args, target)
    speculation = _speculation(args)
    free = gpu.memory_bytes
    try:
        free -= _load_weights("model", target, gpu, gpu.weight_scale, free, args.world_size)
        if draft is not None:
            scale = gpu.weight_scale if gpu.draft_weight_scale is None else gpu.draft_weight_scale
            free -= _load_weights("draft model", draft, gpu, scale, free, args.world_size)
        log.info("Model init total -- %.2fs", time.monotonic() - started)
        limits = _reserve(args, target, gpu, free)
    except InsufficientMemory as failure:
        log.error("Executor creation failed due to insufficient GPU memory.")
        log.error("The following component could not be created: %s", failure.component)
        raise OutOfMemoryError(str(failure)) from failure
    documents = engine.read_corpus(Path(__file__).with_name("corpus.txt"))
    runtime = Runtime(
        documents,
        gpu,
        limits,
        speculation,
        read_faults,
        max_stats=args.max_stats_len,
        max_requests=args.perf_metrics_max_requests,
    )
    name = Path(args.model).name if Path(args.model).is_dir() else args.model
    harmony = target.config.get("model_type") == "gpt_oss"
    return Server(runtime, args, name, _release(), harmony), target.architecture


def _check_gpus(args: TorchLlmArgs) -> None:
    gpus = count_gpus()
    if gpus == 0:
        raise RuntimeError("No GPU devices found on the node")
    ranks = int(os.environ.get("tllm_mpi_size", "1"))  # noqa: SIM112 - the real name
    if args.world_size > gpus * ranks:
        raise RuntimeError(f"Only {gpus * ranks} GPUs are available, but {args.world_size} are required.")


def _find_draft(args: TorchLlmArgs, target: Checkpoint) -> Checkpoint | None:
    config = args.speculative_config
    if config is None or config.speculative_model is None:
        return None
    draft = checkpoints.inspect(checkpoints.resolve(str(config.speculative_model), None))
    checkpoints.check_draft(target, draft, eagle=isinstance(config, Eagle3DecodingConfig))
    return draft


def _load_tokenizer(args: TorchLlmArgs, target: Checkpoint) -> None:
    if not Path(args.model).is_dir():  # as transformers 4.57.3 does, offline too
        from huggingface_hub import model_info

        model_info(args.model)
    checkpoints.check_tokenizer(Path(args.tokenizer) if args.tokenizer else target.directory)


def _speculation(args: TorchLlmArgs) -> Speculation | None:
    config = args.speculative_config
    if config is None:
        return None
    kind: t.Literal["model", "lookup"] = "model"
    longest = 2
    if isinstance(config, NGramDecodingConfig):
        kind, longest = "lookup", config.max_matching_ngram_size
        log.warning("Disable overlap scheduler for speculation mode NGRAM")
    elif not isinstance(config, (Eagle3DecodingConfig, DraftTargetDecodingConfig)):
        raise NotImplementedError(f"The stand-in does not simulate the speculation mode {config.decoding_type}.")
    greedy_only = kind == "model" and not config.allow_advanced_sampling
    if greedy_only:
        log.warning(
            "Falling back to greedy decoding for %s. If you want to use non-greedy sampling, please set "
            "allow_advanced_sampling=True.",
            config.decoding_type,
        )
    return Speculation(kind, config.length_for, greedy_only, longest)


def _load_weights(component: str, checkpoint: Checkpoint, gpu: Gpu, scale: float, free: float, ranks: int) -> float:
    """Open every shard at the pace of the simulated disk; the bytes that the weights take on the GPU."""
    total = checkpoint.size * scale / ranks if all(shard.exists() for shard in checkpoint.shards) else 0.0
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


def _reserve(args: TorchLlmArgs, target: Checkpoint, gpu: Gpu, free: float) -> Limits:
    """What is left of the memory goes to the KV cache."""
    cache = args.kv_cache_config
    natural = int(target.config.get("max_position_embeddings", 4096))
    length = args.max_seq_len
    if length is None:
        log.info("max_seq_len is not specified, using inferred value %d", natural)
        length = natural
    per_token = checkpoints.kv_bytes_per_token(target.config)
    share = 0.9 if cache.free_gpu_memory_fraction is None else cache.free_gpu_memory_fraction
    tokens = int(free * share / per_token)
    if cache.max_tokens is not None:
        log.info(
            "Both free_gpu_memory_fraction and max_tokens are set (to %s and %d, respectively). The smaller value "
            "will be used.",
            share,
            cache.max_tokens,
        )
        tokens = min(tokens, cache.max_tokens)
    blocks = tokens // cache.tokens_per_block
    if blocks < 1:
        raise InsufficientMemory("KV cache", per_token * cache.tokens_per_block, free * share, gpu.memory_bytes)
    used = blocks * cache.tokens_per_block * per_token
    log.info("Using Sampler: TorchSampler")
    log.info(
        "[MemUsageChange] Allocated %.2f GiB for max tokens in paged KV cache (%d).",
        used / GIB,
        blocks * cache.tokens_per_block,
    )
    log.info("Free GPU memory fraction %.2f of %.2f GiB", share, free / GIB)
    capacity = blocks * cache.tokens_per_block
    if length > capacity:
        log.warning(
            "Attention window size %d exceeds the KV cache of %d tokens, reducing max_seq_len", length, capacity
        )
        length = capacity
    return Limits(
        max_batch_size=args.max_batch_size or 1,
        max_num_tokens=args.max_num_tokens or 8192,
        max_seq_len=length,
        chunked_prefill=args.enable_chunked_prefill,
        kv_blocks=blocks,
        tokens_per_block=cache.tokens_per_block,
    )


def main() -> None:
    serve()


if __name__ == "__main__":
    main()

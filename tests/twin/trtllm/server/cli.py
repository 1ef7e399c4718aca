# mypy: disable-error-code="import-not-found"
# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Parse the command line of trtllm-serve, load the model and open the port."""

from __future__ import annotations

import hashlib
import os
import signal
import socket
import sys
import typing as t
from pathlib import Path

import click
import uvicorn
import yaml

from . import checkpoint as checkpoints
from . import diary, engine, loading
from .api import Server, create
from .checkpoint import Checkpoint
from .loading import Task, load
from .machine import count_gpus, log, read_faults, read_gpu, start_log
from .proxy import Ranks
from .release import EARLY, FAMILY, LOG_PROBS, RECENT, RELEASE
from .runtime import Runtime, Speculation

if t.TYPE_CHECKING or FAMILY == "1.3":
    from .options import DecodingBaseConfig, TorchLlmArgs
else:
    from .options_1_2 import DecodingBaseConfig, TorchLlmArgs

LEVELS = ["internal_error", "error", "warning", "info", "verbose", "debug", "trace"]
# Options and spellings that 1.2.0rc1 did not have yet.
LATER = {
    *("--custom_tokenizer", "--custom_module_dirs", "--cp_size", "--context_parallel_size", "--tensor_parallel_size"),
    *("--pipeline_parallel_size", "--moe_expert_parallel_size", "--moe_cluster_parallel_size", "--revision"),
    *("--free_gpu_memory_fraction", "--config", "--tool_parser", "--chat_template", "--otlp_traces_endpoint", "--grpc"),
}
# Options added between 1.3.0rc13 and 1.3.0rc29.
NEWER = {"--telemetry"}
SECTIONS = ("kv_cache_config", "speculative_config", "cuda_graph_config", "moe_config", "scheduler_config")


class _Serve(click.Command):
    """Command that accepts a sub-command name before the model, and only the options of its release."""

    def __init__(self, *arguments: t.Any, **keywords: t.Any) -> None:
        super().__init__(*arguments, **keywords)
        absent = (LATER if EARLY else set()) | (set() if RECENT else NEWER)
        for parameter in self.params:
            parameter.opts = [name for name in parameter.opts if name not in absent]
        self.params = [parameter for parameter in self.params if parameter.opts]

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
@click.option("--telemetry/--no-telemetry", default=True, help="Whether anonymous usage data are sent to NVIDIA.")
def serve(
    model: str, host: str, port: int, log_level: str, config: str | None, fraction: float, **given: t.Any
) -> None:
    """Running an OpenAI API compatible server

    MODEL: model name | HF checkpoint path | TensorRT engine path
    """
    start_log(log_level)
    log.info("STAND-IN: this is a test double of trtllm-serve %s. It runs no TensorRT-LLM and no real model.", RELEASE)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    if given.pop("grpc", False):
        raise click.ClickException("The stand-in does not serve gRPC.")
    if given["backend"] != "pytorch":
        raise click.ClickException(f"The stand-in serves the pytorch backend only, not {given['backend']}.")
    tool_parser = given.pop("tool_parser", None)
    _report_usage(given.pop("telemetry", False))
    listener = None if EARLY else _bind(host, port)
    args = _parse(model, fraction, _read_options(config), given)
    server, architecture = _load(args, tool_parser, log_level)
    diary.remember(load_s=round(diary.age(), 2))
    log.info("get signal from executor worker")
    log.info("Model architecture %s is ready, served as %s", architecture, server.name)
    app = create(server)
    uvicorn.Server(uvicorn.Config(app, log_level="info", timeout_keep_alive=5, timeout_graceful_shutdown=1)).run(
        sockets=[listener or _bind_late(host, port)]
    )


def _report_usage(wanted: bool) -> None:
    """Log that usage data would be sent, as newer releases do by default. Not all ways to disable it are supported."""
    if RECENT and wanted and os.environ.get("TRTLLM_NO_USAGE_STATS") != "1":
        log.info("STAND-IN: usage data would be sent to NVIDIA now")


def _bind(host: str, port: int) -> socket.socket:
    """Bind the port before the model is loaded. Clients can connect only when uvicorn listens on it."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as failure:
        raise RuntimeError(f"Failed to bind socket to {host}:{port}: {failure}") from failure
    return listener


def _bind_late(host: str, port: int) -> socket.socket:
    """Bind the port as uvicorn does when it opens the port itself."""
    try:
        return _bind(host, port)
    except RuntimeError:
        problem = f"error while attempting to bind on address ('{host}', {port}): address already in use"
        print(f"ERROR:    [Errno 98] {problem}", file=sys.stderr)
        sys.exit(1)


def _read_options(path: str | None) -> dict[str, t.Any]:
    if path is None:
        return {}
    with open(path, encoding="utf-8") as stream:  # noqa: PTH123 - the error text of the real one
        content = yaml.safe_load(stream)
        stream.seek(0)
        diary.remember(options=hashlib.sha256(stream.read().encode()).hexdigest())
    return content or {}


def _parse(model: str, fraction: float, options: dict[str, t.Any], given: dict[str, t.Any]) -> TorchLlmArgs:
    """Return the options: the command line, then the file over it, parsed by the strict classes."""
    for unused in (
        "custom_module_dirs",
        "metadata_server_config_file",
        "server_role",
        "fail_fast_on_attention_window_too_large",
        "disagg_cluster_uri",
        "media_io_kwargs",
        "chat_template",
    ):
        given.pop(unused, None)
    values = {"model": model, **given, "kv_cache_config": {"free_gpu_memory_fraction": fraction}}
    for name in SECTIONS:
        if name in options:
            log.info("Overriding %s", name)
    cache = options.get("kv_cache_config")
    merged = {**values, **options}
    if FAMILY == "1.3" and isinstance(cache, dict):
        merged["kv_cache_config"] = {"free_gpu_memory_fraction": fraction, **cache}
    if FAMILY == "1.2" and isinstance(options.get("speculative_config"), dict):
        # Here the section becomes an object while the file is merged, before the constructor is called.
        merged["speculative_config"] = DecodingBaseConfig.from_dict(options["speculative_config"])  # type: ignore[attr-defined]
    try:
        return TorchLlmArgs(**merged)
    except Exception as failure:
        log.error("Failed to parse the arguments for the LLM constructor: %s", failure)
        raise


def _load(args: TorchLlmArgs, tool_parser: str | None, log_level: str) -> tuple[Server, str]:
    gpu = read_gpu()
    _check_gpus(args)
    ranks = _ranks(args)
    log.info("start MpiSession with %d workers", args.world_size)
    target = checkpoints.inspect(checkpoints.resolve(args.model, args.revision))
    task = _task(args, log_level, target)
    loading.find_draft(task, target)
    if task.prediction_layers:
        checkpoints.check_prediction_layers(target)
    _load_tokenizer(args, target)
    speculation = _speculation(args)
    limits = load(task, gpu) if ranks is None else ranks.load(task)
    documents = engine.read_corpus(Path(__file__).with_name("corpus.txt"))
    runtime = Runtime(
        documents,
        gpu,
        limits,
        speculation,
        read_faults,
        max_stats=getattr(args, "max_stats_len", 1000),
        max_requests=args.perf_metrics_max_requests,
        ranks=ranks,
    )
    name = Path(args.model).name if Path(args.model).is_dir() else args.model
    harmony = target.config.get("model_type") == "gpt_oss"
    return Server(runtime, args, name, RELEASE, harmony, tool_parser), target.architecture


def _task(args: TorchLlmArgs, log_level: str, target: Checkpoint) -> Task:
    cache, speculative = args.kv_cache_config, args.speculative_config
    share = cache.free_gpu_memory_fraction
    return Task(
        model=args.model,
        revision=args.revision,
        draft=None if speculative is None else speculative.draft,
        eagle=speculative is not None and speculative.kind == "eagle3",
        prediction_layers=_prediction_layers(speculative),
        world_size=args.world_size,
        free_fraction=0.9 if share is None else share,
        max_tokens=cache.max_tokens,
        tokens_per_block=cache.tokens_per_block,
        max_seq_len=args.max_seq_len,
        max_batch_size=args.max_batch_size or 1,
        max_num_tokens=args.max_num_tokens or 8192,
        chunked_prefill=args.enable_chunked_prefill,
        log_level=log_level,
        kv_dtype=cache.dtype,
        extra_tokens=_extra_tokens(args),
        max_bytes=cache.max_gpu_total_bytes,
        by_bytes=_by_bytes(args, target),
    )


def _prediction_layers(config: t.Any) -> int:
    """Return the target's own layers that draft, each with a KV cache: one that repeats, or with `vanilla` all."""
    if config is None or config.kind != "mtp":
        return 0
    return config.max_draft_len if config.use_mtp_vanilla else 1


def _by_bytes(args: TorchLlmArgs, target: Checkpoint) -> bool:
    """Return whether the second cache manager is used. For some models it is a newer release's default."""
    wanted = args.kv_cache_config.use_kv_cache_manager_v2 if RECENT else False
    return target.config.get("model_type") == loading.SIZED_BY_BYTES if wanted == "auto" else bool(wanted)


def _extra_tokens(args: TorchLlmArgs) -> int:
    """Return the tokens that py_executor_creator.py adds to max_seq_len."""
    drafts = 0 if args.speculative_config is None else args.speculative_config.length_for(1)
    overlap = 0 if args.disable_overlap_scheduler else 1 + drafts
    return overlap + max(0, 2 * drafts - 1)


def _ranks(args: TorchLlmArgs) -> Ranks | None:
    """Return the connection to the ranks if trtllm-llmapi-launch has started several; else None."""
    count = int(os.environ.get("tllm_mpi_size", "1"))  # noqa: SIM112 - the real name
    if count == 1:
        return None
    if count != args.world_size:
        raise ValueError(
            f"n_workers must be equal to the number of processes launched by mpirun, got {args.world_size} vs {count}"
        )
    return Ranks.connect(os.environ)


def _check_gpus(args: TorchLlmArgs) -> None:
    gpus = count_gpus()
    if gpus == 0:
        raise RuntimeError("No GPU devices found on the node")
    ranks = int(os.environ.get("tllm_mpi_size", "1"))  # noqa: SIM112 - the real name
    if args.world_size > gpus * ranks:
        raise RuntimeError(f"Only {gpus * ranks} GPUs are available, but {args.world_size} are required.")


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
    if config.kind == "ngram":
        kind = "lookup"
        log.warning("Disable overlap scheduler for speculation mode NGRAM")
    elif not config.kind:
        raise NotImplementedError(f"The stand-in does not simulate the speculation mode {config.decoding_type}.")
    greedy_only = kind == "model" and not config.samples_freely
    if greedy_only:
        log.warning(
            "Falling back to greedy decoding for %s. If you want to use non-greedy sampling, please set "
            "allow_advanced_sampling=True.",
            config.decoding_type,
        )
    return Speculation(
        kind,
        config.length_for,
        greedy_only,
        getattr(config, "max_matching_ngram_size", 0),
        getattr(config, "is_use_oldest", True),
        config.counted,
        LOG_PROBS if config.one_model else "answered",
    )


def main() -> None:
    serve()


if __name__ == "__main__":
    main()

# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this module util is internal to the collection; its interface may change at any time.

"""The log of vLLM: its known problems, its starts, its loading steps, and the form of its lines."""

from __future__ import annotations

import re
import typing as t

from .._data.problem import HINT, INFORMATION, LOG, WARNING, WRAPPER, KnownProblem
from .engine import Log, Stage

ARGUMENTS = "vllm-project/vllm vllm/utils/argparse_utils.py"
ENGINE_ARGUMENTS = "vllm-project/vllm vllm/engine/arg_utils.py"
FRONT_END = "vllm-project/vllm vllm/entrypoints"
MODEL = "vllm-project/vllm vllm/config/model.py"
PARALLEL = "vllm-project/vllm vllm/config/parallel.py"
SPECULATIVE = "vllm-project/vllm vllm/config/speculative.py"
CONFIG = "vllm-project/vllm vllm/config/vllm.py"
MODELS = "vllm-project/vllm vllm/model_executor/models/registry.py"
LOADER = "vllm-project/vllm vllm/model_executor/model_loader"
EXPERTS = "vllm-project/vllm vllm/model_executor/layers/fused_moe/oracle"
CACHE = "vllm-project/vllm vllm/v1/core/kv_cache_utils.py"
WORKER = "vllm-project/vllm vllm/v1/worker/gpu_worker.py"
CORE = "vllm-project/vllm vllm/v1/engine/core.py"
CLIENT = "vllm-project/vllm vllm/v1/engine/core_client.py"
EXECUTOR = "vllm-project/vllm vllm/v1/executor/multiproc_executor.py"
TORCH = "pytorch/pytorch, source code"
KERNELS = "vllm-project/vllm, source code of the CUDA kernels"
NEWER_IMAGE = "Use a newer image that is known to serve this model on a Spark."

# Refused options, and memory: they come before the causes that any engine may have.
FIRST: tuple[KnownProblem, ...] = (
    KnownProblem(
        "option_unrecognized",
        LOG,
        "The engine options have a name that this release of vLLM does not know",
        "Remove or rename the option, or use the image that the recipe names.",
        ARGUMENTS,
        substrings=("error: unrecognized arguments:",),
    ),
    KnownProblem(
        "port_outside",
        LOG,
        "vLLM accepts only ports from 1024 to 65535",
        "Set speculative_serve_port to a port in this range.",
        ARGUMENTS,
        substrings=("Port must be between 1024 and 65535",),
    ),
    KnownProblem(
        "option_value",
        LOG,
        "An engine option has a value that vLLM cannot read",
        "Correct the value.",
        ARGUMENTS,
        substrings=("error: argument --",),
    ),
    KnownProblem(
        "speculative_key_unknown",
        LOG,
        "A mapping in the engine options, such as speculative-config, has a key that this release does not know",
        "Remove or rename the key.",
        SPECULATIVE,
        substrings=("Unexpected keyword argument",),
        before=True,
    ),
    KnownProblem(
        "draft_tensor_parallel",
        LOG,
        "speculative-config has the key tensor_parallel_size, which belongs to the target model",
        "Rename it to draft_tensor_parallel_size.",
        SPECULATIVE,
        substrings=("'tensor_parallel_size' is not a valid argument in the speculative_config",),
        before=True,
    ),
    KnownProblem(
        "draft_model_absent",
        LOG,
        "The target model has no draft head, and the engine options name no draft model",
        "Name a draft model in the recipe, or use -e speculation=off.",
        SPECULATIVE,
        substrings=("num_speculative_tokens was provided but without speculative model",),
        before=True,
    ),
    KnownProblem(
        "draft_length_absent",
        LOG,
        "The engine options give no draft length, and the draft model has no default",
        "Set speculative_serve_draft_length.",
        SPECULATIVE,
        substrings=("`num_speculative_tokens` was not provided", "num_speculative_tokens must be provided with"),
        before=True,
    ),
    KnownProblem(
        "draft_length_multiple",
        LOG,
        "The draft length is not a multiple of the tokens that the model's MTP layers predict",
        "Set speculative_serve_draft_length to a multiple of n_predict in the line.",
        SPECULATIVE,
        substrings=("must be divisible by n_predict",),
        before=True,
    ),
    KnownProblem(
        "mtp_absent",
        LOG,
        "The target model has no MTP head that this image knows",
        "Use another quantization of the model that still has the head, a newer image, or another method.",
        SPECULATIVE,
        substrings=("Unsupported speculative method:",),
        before=True,
    ),
    KnownProblem(
        "eagle3_unfit",
        LOG,
        "vLLM cannot run this target model with EAGLE-3 or DFlash",
        "Use another method, or serve without speculation.",
        "vllm-project/vllm vllm/v1/worker/gpu/spec_decode/eagle/eagle3_utils.py",
        substrings=("Model does not support EAGLE3 interface",),
    ),
    KnownProblem(
        "vocabularies_differ",
        LOG,
        "The vocabularies of the target model and the draft model differ",
        "Use a draft model of the same family.",
        SPECULATIVE,
        substrings=("Target and draft model should have the same vocabulary size",),
        before=True,
    ),
    KnownProblem(
        "suffix_package",
        LOG,
        "The image lacks the package that suffix decoding needs",
        "Use another method.",
        SPECULATIVE,
        substrings=("Arctic Inference is required for suffix decoding",),
        before=True,
    ),
    KnownProblem(
        "runner_v1",
        LOG,
        "The method needs the V2 model runner, but the engine uses V1",
        "Remove VLLM_USE_V2_MODEL_RUNNER from speculative_serve_environment. If that does not help, a line with 'does"
        " not yet support' names the option to remove.",
        CONFIG,
        # 0.27 and 0.28 refuse it in the runner itself.
        substrings=("Model Runner V1 does not support:", "Unknown speculative decoding method: dspark"),
        before=True,
    ),
    KnownProblem(
        "async_scheduling",
        LOG,
        "The option async-scheduling does not work with this method or release",
        "Remove it: vLLM switches it on where it works.",
        CONFIG,
        substrings=(
            "Async scheduling is not supported by the V1 model runner with",
            "async scheduling is only supported with",
        ),
        before=True,
    ),
    KnownProblem(
        "draft_slots",
        LOG,
        "max-num-batched-tokens is too small for the drafts of all requests",
        "Raise max-num-batched-tokens, or lower speculative_serve_concurrency or speculative_serve_draft_length.",
        CONFIG,
        # 0.24 to 0.27 have the second one alone.
        substrings=(
            "VllmConfig does not have enough slots to schedule a token",
            "which does not allow any tokens to be scheduled",
        ),
        before=True,
    ),
    KnownProblem(
        "context_too_long",
        LOG,
        "The context length exceeds what the model supports",
        "Lower speculative_serve_context to the length in the line.",
        MODEL,
        substrings=("To allow overriding this maximum, set the env var VLLM_ALLOW_LONG_MAX_MODEL_LEN",),
        before=True,
    ),
    KnownProblem(
        "architecture_unknown",
        LOG,
        "The image does not know the architecture of this model",
        f"{NEWER_IMAGE} If it is a draft model, check that the method is the draft model's.",
        MODELS,
        substrings=("are not supported for now. Supported architectures:", "does not recognize this architecture"),
        before=True,
    ),
    KnownProblem(
        "architecture_broken",
        LOG,
        "A library that the model's code needs is missing or broken in the image",
        "Read the lines above for the name of the library. Use another image.",
        MODELS,
        substrings=("failed to be inspected. Please check the logs for more details",),
        before=True,
    ),
    KnownProblem(
        "model_path",
        LOG,
        "The model's name or directory is wrong, or the directory has no config.json",
        "Correct the name in the recipe. Run the playbook again, which completes the download.",
        "vllm-project/vllm vllm/transformers_utils/config.py",
        substrings=("Invalid repository ID or local directory specified:",),
        before=True,
    ),
    KnownProblem(
        "weights_absent",
        LOG,
        "The directory of a model has no weight files",
        "Run the playbook again, which completes the download.",
        LOADER,
        substrings=("Cannot find any model weights with `",),
    ),
    KnownProblem(
        "load_format",
        LOG,
        "The image does not know the load-format",
        "Remove load-format from the engine options, or write safetensors.",
        LOADER,
        substrings=("Load format `",),
    ),
    KnownProblem(
        "quantization_unknown",
        LOG,
        "The option quantization has a value that this release does not know",
        "Remove it: vLLM reads the quantization from the model.",
        MODEL,
        substrings=("Unknown quantization method:",),
        before=True,
    ),
    KnownProblem(
        "quantization_differs",
        LOG,
        "The option quantization contradicts the model's own configuration",
        "Remove it: vLLM reads the quantization from the model.",
        MODEL,
        substrings=("Quantization method specified in the model config",),
        before=True,
    ),
    KnownProblem(
        "quantization_gpu",
        LOG,
        "The image has no kernels for this quantization on the GPU of a Spark",
        "Use another quantization of the model, or another image.",
        CONFIG,
        substrings=("is not supported for the current GPU",),
        before=True,
    ),
    KnownProblem(
        "moe_backend",
        LOG,
        "The MoE backend does not support this model on the GPU of a Spark",
        "Set moe-backend to marlin or triton. For the draft model, set moe_backend in speculative-config.",
        EXPERTS,
        substrings=(
            "MoE backend supports the deployment configuration",
            "is not supported for NvFp4 MoE",
            "does not support the deployment configuration since",
        ),
    ),
    KnownProblem(
        "deepseek_v4_kernels",
        LOG,
        "The image has no kernels for DeepSeek-V4 on the GPU of a Spark",
        f"{NEWER_IMAGE} For the attention backend, use FLASHINFER_MLA_SPARSE_DSV4.",
        "vllm-project/vllm pull request 41834; eugr/spark-vllm-docker pull request 304",
        substrings=(
            "hyperconnection.hpp",
            "Check failed: num_tokens > 64",
            "is not a DeepSeek V4 attention backend",
        ),
    ),
    KnownProblem(
        "b12x_absent",
        LOG,
        "The image lacks the package b12x, which an engine option selects",
        "Use an image that has b12x, or select another backend.",
        "vllm-project/vllm vllm/v1/attention/backends/b12x.py",
        substrings=("Install the b12x backend with",),
    ),
    KnownProblem(
        "nvfp4_kernels",
        LOG,
        "The image has no NVFP4 kernels for the GPU of a Spark",
        "Use an image for CUDA 13 whose kernels are built for sm_121.",
        KERNELS,
        substrings=("No compiled nvfp4 quantization kernel",),
    ),
    KnownProblem(
        "deep_gemm",
        LOG,
        "DeepGEMM does not support the FP8 format of this model on the GPU of a Spark",
        "Set VLLM_USE_DEEP_GEMM to 0 in speculative_serve_environment.",
        "vllm-project/recipes, Qwen3.8-27B",
        substrings=("Unknown recipe",),
    ),
    KnownProblem(
        "attention_backend",
        LOG,
        "The attention backend does not support this model or its KV cache on the GPU of a Spark",
        "Remove attention-backend from the engine options, or select the one that the recipe names.",
        "vllm-project/vllm vllm/platforms/cuda.py",
        substrings=("is not valid for this configuration. Reason", "No valid attention backend found for"),
    ),
    KnownProblem(
        "heads_indivisible",
        LOG,
        "The model cannot be divided among this number of Sparks",
        "Use a number of Sparks that divides the number of attention heads in the line.",
        MODEL,
        substrings=("must be divisible by tensor parallel size",),
        before=True,
    ),
    KnownProblem(
        "nodes_absent",
        LOG,
        "The engine is to use more GPUs than one Spark has, but was not told about the other Sparks",
        "Remove your own tensor-parallel-size and nnodes from the engine options. The number of Sparks gives both.",
        PARALLEL,
        substrings=("is larger than the number of available GPUs",),
        before=True,
    ),
    KnownProblem(
        "nodes_uneven",
        LOG,
        "The number of Sparks and tensor-parallel-size do not match",
        "Remove your own tensor-parallel-size and nnodes from the engine options. The number of Sparks gives both.",
        ENGINE_ARGUMENTS,
        substrings=("must evenly divide the total world size",),
    ),
    KnownProblem(
        "node_rank",
        LOG,
        "The rank of this Spark is outside the number of Sparks",
        "Remove your own node-rank and nnodes from the engine options. They follow from the number of Sparks.",
        PARALLEL,
        substrings=("`--node-rank` must be between",),
        before=True,
    ),
    KnownProblem(
        "tool_parser_absent",
        LOG,
        "enable-auto-tool-choice is set, but no tool-call-parser",
        "Set tool-call-parser to the parser of this model, or remove enable-auto-tool-choice.",
        FRONT_END,
        substrings=("--enable-auto-tool-choice requires",),
    ),
    KnownProblem(
        "tool_parser_unknown",
        LOG,
        "This release does not know the tool-call-parser",
        "Use one of the parsers in the line.",
        FRONT_END,
        substrings=("invalid tool call parser:",),
    ),
    KnownProblem(
        "reasoning_parser_unknown",
        LOG,
        "This release does not know the reasoning-parser",
        "Use one of the parsers in the line.",
        "vllm-project/vllm vllm/reasoning/abs_reasoning_parsers.py",
        substrings=("Available parsers:",),
    ),
    KnownProblem(
        "memory_share",
        LOG,
        "Less memory is available than gpu-memory-utilization asks for",
        "Stop other users of the memory. A stopped server may hold its memory for some minutes; wait, and start again."
        " Or lower gpu-memory-utilization.",
        "vllm-project/vllm issue 47266",
        substrings=("on startup is less than desired GPU memory utilization",),
    ),
    KnownProblem(
        "cache_no_memory",
        LOG,
        "The weights and one pass of the model leave no memory for the KV cache",
        "Raise gpu-memory-utilization, lower max-num-batched-tokens, or use a smaller model or two Sparks.",
        CACHE,
        substrings=("No available memory for the cache blocks",),
    ),
    KnownProblem(
        "cache_too_small",
        LOG,
        "The KV cache is too small for one request of the full context length",
        "Lower speculative_serve_context to the estimated length in the line, or raise kv-cache-memory-bytes or"
        " gpu-memory-utilization.",
        CACHE,
        substrings=("To serve at least one request with the model's max seq len",),
    ),
    KnownProblem(
        "memory_moved",
        LOG,
        "Another program released memory while vLLM measured it",
        "Start again when no other server starts or stops on this Spark.",
        WORKER,
        substrings=("Error in memory profiling.",),
    ),
)

# Everything else. An earlier row is nearer to the root of a failure.
ROWS: tuple[KnownProblem, ...] = (
    KnownProblem(
        "semaphores_removed",
        LOG,
        "systemd-logind removed semaphores of the server when a user logged out",
        "Set RemoveIPC=no in /etc/systemd/logind.conf, and run 'sudo systemctl restart systemd-logind'.",
        "eugr/spark-vllm-docker issue 352",
        substrings=("SemLock._rebuild",),
        explains=("file_missing",),
    ),
    KnownProblem(
        "follower_call",
        LOG,
        "A worker was started with a command that only the head may run",
        "Run the deployment's playbook again, which writes the command of each Spark.",
        "vllm-project/vllm issue 36875",
        substrings=("collective_rpc should not be called on follower node",),
    ),
    KnownProblem(
        "ready_timeout",
        LOG,
        "The engine did not load the model within the time that vLLM allows",
        "If its last lines tell of compiling or tuning, set speculative_serve_ready_timeout to more than 7200.",
        CLIENT,
        substrings=("Timed out waiting for engine core processes to start",),
    ),
    KnownProblem(
        "nccl_failed",
        LOG,
        "The GPUs or the two Sparks cannot communicate",
        "Run the deployment's playbook again, which verifies the link and compares the images. NCCL_DEBUG=INFO in"
        " speculative_serve_environment shows more.",
        "vllm-project/vllm vllm/distributed/device_communicators/pynccl_wrapper.py",
        substrings=("RuntimeError: NCCL error:",),
    ),
    KnownProblem(
        "rendezvous",
        LOG,
        "The ranks of the two Sparks did not find each other",
        "Check both Sparks with status.yml. On each Spark, allow the fabric addresses of the other one on all ports"
        " ('sudo ufw allow from ADDRESS'). An older rank may still run: use stop.yml, then start.yml.",
        TORCH,
        substrings=("Gloo connectFullMesh failed", "DistStoreError: Timed out after"),
    ),
    KnownProblem(
        "collective_timeout",
        LOG,
        "The other Spark did not take part in a collective operation, because its rank ended or hangs",
        "Check the other Spark with status.yml and diagnose.yml. stop.yml and start.yml restart all ranks.",
        "vllm-project/vllm issues 42354 and 41725",
        substrings=("Watchdog caught collective operation timeout",),
    ),
    KnownProblem(
        "chat_template_absent",
        LOG,
        "The model has no chat template, as base models do",
        "Use the instruction-tuned model, or set chat-template in the engine options.",
        "vllm-project/vllm vllm/entrypoints/openai/chat_completion/protocol.py",
        severity=HINT,
        substrings=("default chat template is no longer allowed",),
    ),
    KnownProblem(
        "engine_step_timeout",
        LOG,
        "The engine took too long for one step: it hangs, or the rank of another Spark ended",
        "Check all Sparks with status.yml. If it happens again on two Sparks, use an image with another NCCL.",
        "vllm-project/vllm issues 42354 and 52504",
        severity=HINT,
        substrings=("RPC call to sample_tokens timed out", "RPC call to execute_model timed out"),
    ),
    KnownProblem(
        "front_lost",
        LOG,
        "The process that answers requests ended or hangs, so the engine did not start",
        "Restart the server with stop.yml and start.yml.",
        CORE,
        severity=HINT,
        substrings=("Did not receive response from front-end process",),
    ),
    KnownProblem(
        "worker_died",
        LOG,
        "A worker process of the engine was killed or crashed; exit code -9 usually means that memory ran out",
        "Run diagnose.yml, which reads the kernel's log. Stop other users of the memory, or lower"
        " speculative_serve_context or speculative_serve_concurrency.",
        EXECUTOR,
        severity=HINT,
        substrings=("died unexpectedly (exit code: -",),
        explains=("engine_step_timeout", "collective_timeout"),
    ),
    KnownProblem(
        "core_killed",
        LOG,
        "The engine's process was killed or crashed without a message, usually because memory ran out",
        "Run diagnose.yml, which reads the kernel's log. Stop other users of the memory, or lower"
        " speculative_serve_context or speculative_serve_concurrency.",
        CLIENT,
        severity=HINT,
        # An engine that fails tells the front end, which then does not log this.
        substrings=("engine core exited unexpectedly; starting cleanup",),
    ),
    KnownProblem(
        "core_not_started",
        LOG,
        "The engine did not start",
        "Read the lines above. If they show no error, the engine was killed, usually because memory ran out:"
        " diagnose.yml reads the kernel's log.",
        CORE,
        severity=WRAPPER,
        substrings=("Engine core initialization failed.", "EngineCore failed to start."),
    ),
    KnownProblem(
        "worker_not_started",
        LOG,
        "A worker process of the engine did not start",
        "Read the lines above.",
        EXECUTOR,
        severity=WRAPPER,
        substrings=(
            "WorkerProc initialization failed due to an exception",
            "WorkerProc failed to start.",
            "died unexpectedly (",
            # 0.24 says no exit code.
            "died unexpectedly, shutting down executor",
        ),
    ),
    KnownProblem(
        "core_died",
        LOG,
        "The engine died while it served",
        "Read the lines above. The server restarts by itself.",
        CORE,
        severity=WRAPPER,
        substrings=(
            "EngineCore encountered an issue. See stack trace (above) for the root cause.",
            "EngineCore encountered a fatal error.",
            "AsyncLLM output_handler failed.",
            "Engine core process EngineCore died unexpectedly.",
            # In the engine, busy or idle, after one of its workers has ended.
            "RuntimeError: cancelled",
            "RuntimeError: Executor failed.",
        ),
    ),
    KnownProblem(
        "request_failed",
        LOG,
        "A single request failed, which does not end the server",
        "Nothing to do. If it happens again, read the lines around it with logs.yml.",
        FRONT_END,
        severity=INFORMATION,
        substrings=(
            "failed with an internal error during generation",
            "completion stream generator.",
            "Exception caught. Request id:",
            "Exception in ASGI application",
        ),
    ),
    KnownProblem(
        "broadcast_waits",
        LOG,
        "A process of the engine is late: it compiles kernels, or it hangs if this line repeats",
        "If the server does not answer, restart it with stop.yml and start.yml. If it happens again, use another image"
        " or set cudagraph_mode to PIECEWISE in compilation-config.",
        "vllm-project/vllm issue 41402",
        severity=WARNING,
        substrings=("No available shared memory broadcast block found",),
    ),
    KnownProblem(
        "variable_unknown",
        LOG,
        "An environment variable has no effect, because this release of vLLM does not know it",
        "Remove it from speculative_serve_environment. The engine options moe-backend, linear-backend and"
        " attention-backend replace older variables.",
        "vllm-project/vllm vllm/platforms/interface.py",
        severity=WARNING,
        substrings=("Unknown vLLM environment variable detected:",),
    ),
    KnownProblem(
        "drafts_rejected",
        LOG,
        "The target model rejects every draft token, so speculation only costs time",
        "Check that draft model and target model belong together. Some images reject all drafts: use another image, or"
        " set cudagraph_mode to PIECEWISE in compilation-config.",
        "vllm-project/vllm vllm/v1/spec_decode/metrics.py",
        severity=WARNING,
        substrings=("SpecDecoding metrics: Mean acceptance length: 1.00,",),
        standing=True,
    ),
    KnownProblem(
        "nccl_hangs",
        LOG,
        "NCCL 2.28.9 of this image is known to hang on two Sparks",
        "Use an image with NCCL 2.30.7 or newer. One pair of Sparks hung with 2.30.7 as well; the server then restarts"
        " by itself.",
        "vllm-project/vllm issues 42354 and 41725; NVIDIA/nccl issues 2167, 2213 and 2353;"
        " MiaAI-Lab/DeepSeek-v4-Flash-DSpark-2x-DGX-Spark issue 87",
        severity=WARNING,
        substrings=("vLLM is using nccl==2.28.9",),
        explains=("engine_step_timeout", "collective_timeout", "engine_hangs"),
    ),
    KnownProblem(
        "eager",
        LOG,
        "CUDA graphs are switched off, which makes the server slower",
        "Remove enforce-eager from the engine options.",
        CONFIG,
        severity=INFORMATION,
        substrings=("Enforce eager set",),
    ),
    KnownProblem(
        "context_reduced",
        LOG,
        "The context length was reduced to that of the draft model",
        "Use a draft model with a longer context, or set speculative_serve_context to the reduced length.",
        CONFIG,
        severity=WARNING,
        substrings=("The draft model's max_model_len",),
    ),
    KnownProblem(
        "concurrency_reduced",
        LOG,
        "Fewer requests run at once than planned, because the drafts use up max-num-batched-tokens",
        "Raise max-num-batched-tokens, or lower speculative_serve_draft_length.",
        CONFIG,
        severity=WARNING,
        substrings=("draft pass needs",),
    ),
    KnownProblem(
        "mtp_repeated",
        LOG,
        "The MTP layer drafts several tokens in turn, of which later ones are accepted less often",
        "Nothing to do. benchmark.yml finds the best draft length.",
        SPECULATIVE,
        severity=INFORMATION,
        substrings=("Enabling num_speculative_tokens > 1 will run",),
    ),
    KnownProblem(
        "engine_adjusted",
        LOG,
        "The engine adjusted an option to the speculation method",
        "Nothing to do.",
        CONFIG,
        severity=INFORMATION,
        substrings=(
            "using the V1 model runner instead",
            "Async scheduling not supported with",
            "Async scheduling is disabled because",
            "min_p and logit_bias parameters won't work with speculative decoding",
            "is deprecated and replaced with mtp",
            "based on the speculative decoding settings",
        ),
    ),
)

STAGES: tuple[Stage, ...] = (
    Stage("comparison", ("[ranks] comparison of the ranks:",), "comparing the ranks"),
    Stage("options", ("non-default args:", "headless multiproc executor"), "reading the options"),
    Stage("engine", ("LLM engine (v",), "starting the engine"),
    Stage("ranks", ("distributed_init_method=", "vLLM is using nccl=="), "starting the workers"),
    Stage("model_begun", ("Starting to load model ",), "reading the weights from disk"),
    Stage("shards", (" checkpoint shards:",), "loading weights"),
    Stage("draft", ("Loading drafter model",), "loading the draft model"),
    Stage("model_loaded", ("Model loading took",), "weights loaded, preparing the engine"),
    Stage(
        "compiling",
        ("Dynamo bytecode transform time", "Compiling a graph for", "torch.compile took", "torch.compile and initial"),
        "compiling the model",
    ),
    Stage(
        "cache",
        ("GiB memory for KV Cache", "GiB for KV cache on node", "Available KV cache memory:", "KV cache size:"),
        "allocating the KV cache",
    ),
    # The second one is of FlashInfer, whatever vLLM writes.
    Stage("autotune", ("FlashInfer autotune with", "[Autotuner]: Autotuning process starts"), "tuning kernels"),
    Stage("graphs", ("Capturing CUDA graphs", "Graph capturing finished"), "capturing CUDA graphs"),
    Stage(
        "initialized",
        ("init engine (profile, create kv cache, warmup model) took", "Starting vLLM server on", "Route: /"),
        "engine up, starting HTTP",
    ),
)

CACHE_TOKENS = re.compile(r"KV cache size: ([\d,]+) tokens")
# By its measurement, by the bytes in its options, and of a CPU.
CACHE_MEMORY = re.compile(
    r"(?:Available KV cache memory: |reserved )([\d.]+) GiB|Explicitly set \(([\d.]+)/[\d.]+\) GiB for KV cache"
)


def cache_planned(options: t.Mapping[str, t.Any]) -> int | None:
    """Return None: vLLM's options have the bytes of the KV cache, and its tokens depend on model and draft model."""
    return None


def cache_made(lines: t.Sequence[str]) -> str | None:
    """Return the KV cache that the engine made. All ranks log about the same."""
    tokens = [match[1] for line in lines if (match := CACHE_TOKENS.search(line))]
    if not tokens:
        return None
    memory = [match[1] or match[2] for line in lines if (match := CACHE_MEMORY.search(line))]
    return f"{tokens[-1]} tokens" + (f", {memory[-1]} GiB" if memory else "")


LOG_OF_VLLM = Log(
    engine="vllm",
    speculation="speculative-config",
    first=FIRST,
    rows=ROWS,
    # The first process of the head writes the first one, and that of a worker the second one.
    starts=("non-default args:", "headless multiproc executor"),
    stages=STAGES,
    prefixes=(
        r"(?:DEBUG|INFO|WARNING|ERROR|CRITICAL) \d\d-\d\d \d\d:\d\d:\d\d \[[^\]\s]+:\d+\]",
        # Of torch, in the form of glog, and before each line of a traceback.
        r"\[?[EWIF]\d{4} [\d:.]+ \d+ \S+:\d+\]",
        r"\[rank\d+\]:",
    ),
    tag=r"(?:\[rank \d+\] |\([\w.-]+ pid=\d+\) ?)+",
    cache_planned=cache_planned,
    cache_made=cache_made,
    # Prompts are read in pieces.
    longest_prompt=lambda _options, _context: None,
    metrics="metrics",
    # It has them always.
    metrics_option="",
    variables=("VLLM_", "GLOO_", "TP_SOCKET_", "OMP_", "B12X_", "CUTE_DSL_"),
)

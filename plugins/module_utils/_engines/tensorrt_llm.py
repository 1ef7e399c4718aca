# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this module util is internal to the collection; its interface may change at any time.

"""The log of TensorRT-LLM: its known problems, its starts, its loading steps, and the form of its lines."""

from __future__ import annotations

import re
import typing as t

from .._data.numbers import positive_int
from .._data.problem import HINT, INFORMATION, LOG, WARNING, WRAPPER, KnownProblem
from .._data.source import SERVE, SPARKS, SPECULATIVE, TENSORRT_LLM, TRT_LLM, USERS_OF_TWO
from .engine import Log, Stage

ARGUMENTS = "NVIDIA/TensorRT-LLM tensorrt_llm/llmapi/llm_args.py"
SERVER = "NVIDIA/TensorRT-LLM tensorrt_llm/serve/openai_server.py"
EXECUTOR = "NVIDIA/TensorRT-LLM tensorrt_llm/_torch/pyexecutor/py_executor_creator.py"
OPEN_MPI = "Open MPI documentation"
PRRTE = "openpmix/prrte, source code"
OPEN_SSH = "OpenSSH manual pages ssh(1) and sshd(8)"
ALL_REDUCE = "NVIDIA/TensorRT-LLM issue 12715, pull request 15559"
LOGPROBS = "NVIDIA/TensorRT-LLM pull request 12547 and NVIDIA/TensorRT-LLM pull request 18401"

# Refused options, and memory: they come before the causes that any engine may have.
FIRST: tuple[KnownProblem, ...] = (
    KnownProblem(
        "cli_option_unknown",
        LOG,
        "The command line has an option that this release of trtllm-serve does not know",
        "Move the setting to the engine options, or use the image that the recipe names.",
        SERVE,
        substrings=("No such option:",),
    ),
    KnownProblem(
        "engine_option_unknown",
        LOG,
        "The engine options have a key that this release does not know",
        "Remove or rename the key.",
        ARGUMENTS,
        substrings=("Extra inputs are not permitted",),
        before=True,
    ),
    KnownProblem(
        "eagle_option_unknown",
        LOG,
        "speculative_config has a key that this release does not accept for Eagle",
        "Remove or rename the key. Releases up to 1.2 call it speculative_model_dir, not speculative_model.",
        ARGUMENTS,
        substrings=("object has no field",),
    ),
    KnownProblem(
        "decoding_type_wrong_1_2",
        LOG,
        "This release (1.2 or older) does not know the decoding_type",
        "Write Eagle or DraftTarget, or use a 1.3 image.",
        ARGUMENTS,
        substrings=("Invalid decoding type:",),
    ),
    KnownProblem(
        "decoding_type_wrong_1_3",
        LOG,
        "The decoding_type is missing, or this release (1.3 or newer) does not know it",
        "Write Eagle3 or Draft_Target.",
        ARGUMENTS,
        substrings=("does not match any of the expected tags", "Unable to extract tag using discriminator"),
        before=True,
    ),
    KnownProblem(
        "draft_model_missing",
        LOG,
        "The engine options name no draft model",
        "Set speculative_model (releases up to 1.2: speculative_model_dir) in speculative_config.",
        ARGUMENTS,
        substrings=(
            "Path to EAGLE3 weights must be specified",
            "Draft model must be provided for EAGLE",
            "speculative_model must be specified for DraftTarget",
            "Path to draft model must be specified",
        ),
    ),
    KnownProblem(
        "backend_unsupported",
        LOG,
        "The pytorch backend does not support this speculation method",
        "Use EAGLE-3 or draft target.",
        ARGUMENTS,
        substrings=("does not support backend",),
    ),
    KnownProblem(
        "concurrency_and_schedule",
        LOG,
        "max_concurrency and draft_len_schedule are both set, or decoding_type is Eagle on 1.3",
        "Keep one of the two keys, and write Eagle3.",
        ARGUMENTS,
        substrings=("max_concurrency and draft_len_schedule are mutually exclusive",),
    ),
    KnownProblem(
        "cuda_graph_batch_sizes",
        LOG,
        "cuda_graph_config has both batch_sizes and max_batch_size",
        "Keep one of the two.",
        ARGUMENTS,
        substrings=("Please don't set both cuda_graph_config.batch_sizes",),
    ),
    KnownProblem(
        "memory_executor",
        LOG,
        "GPU memory is not sufficient",
        "KV cache: lower free_gpu_memory_fraction. Model or draft model: lower max_num_tokens or use two Sparks."
        " Drafter: lower max_seq_len or the draft length.",
        EXECUTOR,
        substrings=("Executor creation failed due to insufficient GPU memory.",),
        after="The following component could not be created:",
    ),
)

# Everything else. An earlier row is nearer to the root of a failure.
ROWS: tuple[KnownProblem, ...] = (
    KnownProblem(
        "gpus_too_few",
        LOG,
        "tp_size is higher than the number of GPUs, or mpirun did not start the server",
        "Check tp_size, the launcher and the hostfile.",
        TENSORRT_LLM,
        substrings=("GPUs are available, but",),
    ),
    KnownProblem(
        "all_reduce_crashed",
        LOG,
        "The all-reduce of this release crashes on two Sparks",
        "Use the image 1.2.0rc6, which is known to work on two Sparks, or 1.3.0rc22 or newer, which has pull request"
        " 15559.",
        ALL_REDUCE,
        substrings=("ncclGinGdakiQueryLastError", "ncclCommGroupRegisterSymmetric", "ncclCommWindowRegister"),
    ),
    KnownProblem(
        "ucx_refused",
        LOG,
        "The two ranks use different UCX transports, so one cannot connect to the other",
        "Remove OMPI_MCA_pml and UCX_TLS from speculative_serve_environment; MPI then starts over TCP.",
        USERS_OF_TWO,
        substrings=("connect(fd=",),
    ),
    KnownProblem(
        "nccl",
        LOG,
        "The GPUs or the two Sparks cannot communicate",
        "Check the interface names and the link, and that both Sparks run the same image. NCCL_DEBUG=INFO shows more.",
        EXECUTOR,
        substrings=(
            "Executor creation failed with NCCL error:",
            "Failed, NCCL error",
            "unhandled cuda error (run with NCCL_DEBUG=INFO",
        ),
    ),
    KnownProblem(
        "xqa_kernels",
        LOG,
        "The image has no attention kernel for speculative decoding on this GPU",
        "Use a newer image, or serve without speculation.",
        "NVIDIA/TensorRT-LLM pull request 12795",
        substrings=("No available XQA kernels are found for speculative decoding mode",),
    ),
    KnownProblem(
        "logprobs_asked",
        LOG,
        "A client asked for logprobs, which end the server of this release if it drafts in one model, as with EAGLE-3",
        "Ask clients to leave out logprobs, or use the image 1.3.0rc27 or newer, which only refuses such a request."
        " The API proxy refuses it as well.",
        LOGPROBS,
        substrings=(
            "return_log_probs not implemented for",
            "return_context_logits not implemented for",
            "return_generation_logits not implemented for",
        ),
    ),
    KnownProblem(
        "illegal_instruction",
        LOG,
        "A GPU kernel of the image is broken on this GPU",
        "Use another image and the MoE backend CUTLASS, and report it to NVIDIA.",
        "NVIDIA/TensorRT-LLM issue 11313",
        substrings=("an illegal instruction was encountered",),
    ),
    KnownProblem(
        "ptxas",
        LOG,
        "Triton compiles kernels while the server runs, but its assembler does not know this GPU",
        "Set TRITON_PTXAS_PATH to the ptxas of the image's CUDA, and pass it to the ranks with mpirun -x.",
        TRT_LLM,
        substrings=("ptxas fatal",),
    ),
    KnownProblem(
        "backend_tensorrt",
        LOG,
        "This image does not support the backend tensorrt",
        "Use --backend pytorch.",
        "NVIDIA/TensorRT-LLM issue 15941",
        substrings=(
            "tensorrt backend is not supported",
            "backend tensorrt is not supported",
            "Unsupported backend: tensorrt",
        ),
    ),
    KnownProblem(
        "package_broken",
        LOG,
        "Python in the container cannot import tensorrt_llm",
        "Restart Docker with 'sudo systemctl restart docker'. If that does not help, pull the image again.",
        TRT_LLM,
        substrings=("No module named 'tensorrt_llm", "cannot import name 'LLM' from 'tensorrt_llm"),
    ),
    KnownProblem(
        "interface_wrong",
        LOG,
        "The container's environment has a wrong name for a network interface of the fabric",
        "Compare the names with the output of 'ip link' on each Spark.",
        SPECULATIVE,
        substrings=("Socket operation on non-socket",),
    ),
    # mpirun reaches the worker through ssh: an error of ssh is the root cause of mpirun's error after it.
    KnownProblem(
        "ssh_host_key",
        LOG,
        "The host key of the worker has changed",
        "Run the deployment's playbook again, which creates and exchanges the keys. If you did not reinstall the other"
        " Spark, first check which machine is at the other end of the cable.",
        OPEN_SSH,
        substrings=("REMOTE HOST IDENTIFICATION HAS CHANGED", "Host key verification failed", "host key is known for"),
    ),
    KnownProblem(
        "ssh_key_unreadable",
        LOG,
        "ssh rejects a key of the deployment: another user owns it or can read it, or it is damaged",
        "Run the deployment's playbook again, which corrects owner and mode.",
        OPEN_SSH,
        substrings=("UNPROTECTED PRIVATE KEY FILE", 'Load key "/cluster/', "bad ownership or modes for"),
    ),
    KnownProblem(
        "ssh_publickey",
        LOG,
        "The worker's container rejects the SSH key of the head's container",
        "Run the deployment's playbook again, which gives both the keys of the same deployment.",
        SPECULATIVE,
        substrings=("Permission denied (publickey",),
    ),
    KnownProblem(
        "ssh_refused",
        LOG,
        "No SSH server listens in the worker's container",
        "Start both Sparks with start.yml. On the worker, status.yml and logs.yml show why its container does not run.",
        SPECULATIVE,
        substrings=("port 2233: Connection refused",),
    ),
    KnownProblem(
        "ssh_banner",
        LOG,
        "The other Spark accepts connections but does not answer; it may be out of memory",
        "Check its memory with status.yml. If it does not recover, switch it off and on.",
        USERS_OF_TWO,
        substrings=("timed out during banner exchange",),
    ),
    KnownProblem(
        "ssh_unreachable",
        LOG,
        "The other Spark does not answer at its fabric address",
        "Check that it is on and the cable is plugged in, then run the deployment's playbook, which verifies the link."
        " A firewall must allow the fabric addresses of the other Spark.",
        SPARKS,
        substrings=(
            "port 2233: No route to host",
            "port 2233: Connection timed out",
            "port 2233: Network is unreachable",
            "port 2233: Operation timed out",
        ),
    ),
    KnownProblem(
        "sshd_port_taken",
        LOG,
        "Another program listens on port 2233 of the worker's fabric address",
        "Find it on the worker with 'sudo ss -tlnp sport = :2233' and stop it. It may be a container started by hand.",
        TRT_LLM,
        substrings=("failed: Address already in use.",),
    ),
    KnownProblem(
        "sshd_no_address",
        LOG,
        "The worker does not have its fabric address (yet)",
        "Plug the cable in. 'ip -br addr' shows the address; the deployment's playbook sets it again.",
        SPARKS,
        substrings=("failed: Cannot assign requested address.",),
    ),
    KnownProblem(
        "mpi_interface",
        LOG,
        "Open MPI found no interface in the networks that it must use",
        "Remove your own OMPI_MCA_ settings and run the deployment's playbook again, which determines the addresses.",
        OPEN_MPI,
        substrings=(
            "An invalid value was given for btl_tcp_if_include",
            "An invalid value was given for oob_tcp_if_include",
            "networks specified to be included",
        ),
    ),
    KnownProblem(
        "mpi_absent",
        LOG,
        "The worker's container has no Open MPI at the same path, or a library of it is missing",
        "Run the deployment's playbook again, which copies the same image to both.",
        USERS_OF_TWO,
        substrings=(
            "orted: command not found",
            "prted: command not found",
            "orted: No such file or directory",
            "prted: No such file or directory",
            "orted: error while loading shared libraries",
            "prted: error while loading shared libraries",
            # This text is from our own worker.py.
            "cannot be run on the worker",
        ),
    ),
    KnownProblem(
        "rank_undying",
        LOG,
        "A process of an earlier rank on the worker cannot be killed and keeps its memory",
        "Reboot the worker. The server recovers by itself.",
        USERS_OF_TWO,
        substrings=("an earlier rank on the worker cannot be ended",),
    ),
    KnownProblem(
        "launch_refused",
        LOG,
        "The worker's SSH server starts only the Open MPI daemon, but received another command",
        "Run the image that the recipe names. Remove your own OMPI_MCA_plm_ and PRTE_MCA_plm_ settings.",
        OPEN_MPI,
        substrings=("only mpirun may log in here",),
    ),
    KnownProblem(
        "mpi_program_absent",
        LOG,
        "A program of the deployment is missing on one of the two Sparks",
        "Run the deployment's playbook again, which copies the same image and files to both.",
        OPEN_MPI,
        substrings=(
            "the specified application as it could not access",
            "unable to find the specified executable file",
            "could not find an executable",
        ),
    ),
    KnownProblem(
        "mpi_callback",
        LOG,
        "The mpirun daemon on the other Spark cannot connect back: an address is missing, or a firewall blocks it",
        "On each Spark, allow the fabric addresses of the other one on all ports ('sudo ufw allow from ADDRESS')."
        " Check with status.yml that both have their addresses.",
        PRRTE,
        substrings=(
            "unable to complete a TCP connection",
            "after launch and before",
            "failed to report back",
            "No OOB path",
        ),
    ),
    KnownProblem(
        "mpi_slots",
        LOG,
        "The hostfile has fewer slots than there are ranks",
        "Correct the hostfile or the number of ranks.",
        OPEN_MPI,
        substrings=("There are not enough slots available",),
    ),
    KnownProblem(
        "mpi_daemons",
        LOG,
        "mpirun could not start its daemon on the other Spark",
        "Check SSH between the containers, and that both Sparks run the same image.",
        OPEN_MPI,
        substrings=("was unable to reliably start one or more daemons",),
    ),
    KnownProblem(
        "rank_killed",
        LOG,
        "A rank was killed, usually because its Spark ran out of memory",
        "Run diagnose.yml for both Sparks: the kernel log of the Spark in the line shows the reason. Stop other users"
        " of the memory there, or lower free_gpu_memory_fraction.",
        TRT_LLM,
        substrings=("exited on signal 9", "signal 9 (Killed)"),
    ),
    KnownProblem(
        "rank_crashed",
        LOG,
        "A rank crashed in native code",
        "Run the same image and driver on both Sparks. If it happens again, use another image.",
        OPEN_MPI,
        substrings=("exited on signal 11", "exited on signal 6", "signal 11 (Segmentation fault", "signal 6 (Aborted"),
    ),
    KnownProblem(
        "mpi_lost",
        LOG,
        "mpirun lost its daemon on the other Spark",
        "Check the other Spark with status.yml and diagnose.yml: its container ended, the link went down, or image or"
        " files differ.",
        USERS_OF_TWO,
        substrings=("lost communication with a remote daemon",),
    ),
    KnownProblem(
        "fp4_gemm",
        LOG,
        "The NVFP4 matrix kernels of the image need more shared memory than a GB10 has",
        "Keep enable_autotuner on, which skips these kernels, or use a release with pull request 12141.",
        "NVIDIA/TensorRT-LLM issue 11368",
        severity=HINT,
        # In the autotuner's own lines it is a tactic that is skipped.
        substrings=("Failed to run cutlass FP4 gemm", "nvfp4_gemm"),
    ),
    KnownProblem(
        "arguments_refused",
        LOG,
        "The engine options or the command line were rejected",
        "Read the lines that follow.",
        SERVE,
        severity=WRAPPER,
        substrings=("Failed to parse the arguments for the LLM constructor",),
    ),
    KnownProblem(
        "executor_worker_died",
        LOG,
        "The process that drives the GPU crashed",
        "Read the traceback above.",
        TENSORRT_LLM,
        severity=WRAPPER,
        substrings=(
            "Executor worker died during initialization",
            "Executor worker initialization error:",
            "Executor worker returned error",
        ),
    ),
    KnownProblem(
        "engine_dead",
        LOG,
        "The engine has died, but its port is still open",
        "Restart the server and read the lines above.",
        SERVER,
        severity=WRAPPER,
        substrings=(
            # The longer one comes first, because the text after a match is taken for the reason.
            "Health check detected fatal engine error, initiating server shutdown",
            "Health check detected fatal engine error",
            "LLM is unavailable. Please check the server logs for more details.",
            "LLM is unavailable.",
        ),
    ),
    KnownProblem(
        "mpi_rank_died",
        LOG,
        "One of the ranks died",
        "Read the lines above.",
        OPEN_MPI,
        severity=WRAPPER,
        substrings=(
            # Open MPI 5 prints prterun.
            "detected that one or more processes exited with non-zero status",
            # The two spaces are Open MPI's.
            "Primary job  terminated normally, but 1 process returned",
        ),
    ),
    KnownProblem(
        "loading_stalled",
        LOG,
        "Some images stall at the first weight on this GPU, with the count at 0",
        "Use 1.3.0rc12 or 1.3.0rc13.",
        "NVIDIA/TensorRT-LLM issue 14500",
        severity=WARNING,
        substrings=("Loading weights concurrently:",),
        standing=True,
    ),
    KnownProblem(
        "all_reduce_stalled",
        LOG,
        "If this is the last line of the log, the all-reduce may hang, as it does in some releases on two Sparks",
        "Use the image 1.2.0rc6, which is known to work on two Sparks, or 1.3.0rc22 or newer, which has pull request"
        " 15559.",
        ALL_REDUCE,
        severity=WARNING,
        substrings=("finalMNNVL=0",),
        standing=True,
    ),
    KnownProblem(
        "eagle_renamed",
        LOG,
        "The decoding_type has its old spelling",
        "Write Eagle3.",
        ARGUMENTS,
        severity=WARNING,
        substrings=("'Eagle' is treated as 'Eagle3'",),
    ),
    KnownProblem(
        "ucx_device",
        LOG,
        "UCX_NET_DEVICES names a device that does not exist",
        "This is harmless as long as the server answers. If it does not, correct the name.",
        "NVIDIA/TensorRT-LLM issue 2594",
        severity=WARNING,
        substrings=("UCX  WARN  network device", "UCX WARN network device"),
    ),
    KnownProblem(
        "fp4_experts",
        LOG,
        "The autotuner skips NVFP4 expert kernels that do not fit a GB10",
        "Nothing to do. If the server ends here or is slow, use another image, such as 1.3.0rc17.",
        "NVIDIA/TensorRT-LLM pull request 12899 and issue 14575",
        severity=INFORMATION,
        substrings=("Failed to initialize cutlass TMA WS grouped gemm",),
    ),
    KnownProblem(
        "adjusted",
        LOG,
        "The server adjusted an option to the speculation method",
        "Nothing to do.",
        EXECUTOR,
        severity=INFORMATION,
        substrings=(
            "Disable overlap scheduler for speculation mode",
            "Falling back to greedy decoding for",
            "disable enable_block_reuse for SM",
        ),
    ),
    KnownProblem(
        "logprobs_left_out",
        LOG,
        "A client asked for logprobs, which this release does not give with these drafts; it may hang afterwards",
        "Ask clients to leave out logprobs, or use the image 1.3.0rc27 or newer. If the server does not answer, use"
        " stop.yml and start.yml.",
        LOGPROBS,
        severity=WARNING,
        substrings=(
            "return_log_probs not supported with speculative decoding",
            "return_context_logits not supported with speculative decoding",
            "return_generation_logits not supported with speculative decoding",
        ),
        explains=("engine_hangs",),
    ),
    KnownProblem(
        "loading_stalled_at_0",
        LOG,
        "The server stalls at the first weight, as some images do on this GPU",
        "Use 1.3.0rc12 or 1.3.0rc13.",
        "NVIDIA/TensorRT-LLM issue 14500",
    ),
    KnownProblem(
        "all_reduce_hangs",
        LOG,
        "The two Sparks hang in their first all-reduce, as they do with some images",
        "Use the image 1.2.0rc6, which is known to work on two Sparks, or 1.3.0rc22 or newer, which has pull request"
        " 15559.",
        ALL_REDUCE,
    ),
)

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

# The engine prints a smaller one first, of its estimation, and how that ended; then one for each cache that it has.
CACHE_ESTIMATED = "Peak memory during memory usage profiling"
CACHE_MADE = re.compile(r"Allocated ([\d.]+) GiB for max tokens in paged KV cache \((\d+)\)")
CACHE_REDUCED = re.compile(r"exceeds upper bound (\d+) for available blocks")


def cache_planned(options: t.Mapping[str, t.Any]) -> int | None:
    return (options.get("kv_cache_config") or {}).get("max_tokens")


def cache_made(lines: t.Sequence[str]) -> str | None:
    """Return the KV caches that the engine made, and whether it reduced them."""
    estimated = max((number for number, line in enumerate(lines) if CACHE_ESTIMATED in line), default=None)
    made = [match for line in lines[estimated or 0 :] if (match := CACHE_MADE.search(line))]
    if not made:
        return None
    reduced = [match.group(1) for line in lines if (match := CACHE_REDUCED.search(line))]
    note = f", reduced to {int(reduced[-1]):,}" if reduced else ""
    caches = made if estimated is not None else made[-1:]
    # All ranks log the same.
    told = dict.fromkeys(f"{int(cache.group(2)):,} tokens, {cache.group(1)} GiB" for cache in caches)
    return " and ".join(told) + note


# Tokens that a pass takes at once where the options do not say.
MAX_NUM_TOKENS = 8192


def longest_prompt(options: t.Mapping[str, t.Any], context: t.Any) -> int | None:
    """Return the most tokens of a prompt where the engine takes less than the context; None if it takes that.

    Without chunked prefill a prompt is read in one pass.
    """
    at_once = positive_int(options.get("max_num_tokens")) or MAX_NUM_TOKENS
    chunked = options.get("enable_chunked_prefill") is True
    return at_once if isinstance(context, int) and not chunked and at_once < context else None


LOG_OF_TENSORRT_LLM = Log(
    engine="tensorrt_llm",
    speculation="speculative_config",
    first=FIRST,
    rows=ROWS,
    # Each process of a server writes one of these at its start. A log has several starts.
    starts=("TensorRT-LLM version:", "TensorRT LLM version:"),
    stages=STAGES,
    prefixes=(
        r"\[\d\d/\d\d/\d{4}-\d\d:\d\d:\d\d\]",
        r"\[(?:TRT-LLM|TensorRT-LLM|RANK \d+|[EWIVD]|ERROR|WARNING|INFO)\]",
    ),
    tag=r"\[\d+,\d+\]<\w+>:",
    cache_planned=cache_planned,
    cache_made=cache_made,
    longest_prompt=longest_prompt,
    metrics="prometheus/metrics",
    metrics_option="return_perf_metrics: true",
    variables=("OMPI_", "OPAL_", "TLLM_", "TRTLLM_", "TRT_LLM_", "TRT_VERSION"),
)

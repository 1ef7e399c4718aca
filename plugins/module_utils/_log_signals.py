# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this module util is internal to the collection; its interface may change at any time.

"""What the lines of a TensorRT-LLM server's log mean, as data.

SIGNALS is in order of priority: the first row found in a log names the cause. Matching is by substring,
because the text around it differs from release to release.
"""

from __future__ import annotations

import typing as t

# The line itself says why the server died.
CAUSE = "cause"
# The line says that something failed and the reason stands elsewhere.
WRAPPER = "wrapper"
# The line is a cause only when the log holds nothing better.
HINT = "hint"
# The line does not stop a server, but a user may want to know it.
WARNING = "warning"
# The line is harmless and often taken for an error.
INFORMATION = "information"


class Signal(t.NamedTuple):
    """One thing that a server's log can say."""

    id: str
    substrings: tuple[str, ...]
    cause: str
    fix: str
    kind: str = CAUSE
    # pydantic names the option in the line before.
    before: bool = False
    # Part of a line after it that says more.
    after: str = ""


class Stage(t.NamedTuple):
    """One step between the start of a server and its first answer."""

    id: str
    substrings: tuple[str, ...]
    text: str


SIGNALS: tuple[Signal, ...] = (
    Signal(
        "cli_option_unknown",
        ("No such option:",),
        "The command line has an option that this release of trtllm-serve does not know",
        "Put the setting into the engine options, or use the image that the recipe names.",
    ),
    Signal(
        "engine_option_unknown",
        ("Extra inputs are not permitted",),
        "The engine options have a key that this release does not know",
        "Remove or rename the key.",
        before=True,
    ),
    Signal(
        "eagle_option_unknown",
        ("object has no field",),
        "The section speculative_config has a key that this release does not know under Eagle",
        "Remove or rename the key; releases up to 1.2 know speculative_model_dir, not speculative_model.",
    ),
    Signal(
        "decoding_type_wrong_1_2",
        ("Invalid decoding type:",),
        "This release (1.2 or older) does not know the decoding_type",
        "Write Eagle or DraftTarget, or use a 1.3 image.",
    ),
    Signal(
        "decoding_type_wrong_1_3",
        ("does not match any of the expected tags", "Unable to extract tag using discriminator"),
        "This release (1.3 or newer) does not know the decoding_type, or it is missing",
        "Write Eagle3 or Draft_Target.",
        before=True,
    ),
    Signal(
        "draft_model_missing",
        (
            "Path to EAGLE3 weights must be specified",
            "Draft model must be provided for EAGLE",
            "speculative_model must be specified for DraftTarget",
            "Path to draft model must be specified",
        ),
        "The engine options name no draft model",
        "Set speculative_model (releases up to 1.2: speculative_model_dir) in speculative_config.",
    ),
    Signal(
        "backend_unsupported",
        ("does not support backend",),
        "This kind of speculation does not work on the pytorch backend",
        "Use EAGLE-3 or draft target.",
    ),
    Signal(
        "concurrency_and_schedule",
        ("max_concurrency and draft_len_schedule are mutually exclusive",),
        "max_concurrency meets draft_len_schedule, or decoding_type Eagle on 1.3",
        "Keep one of them, and write Eagle3.",
    ),
    Signal(
        "cuda_graph_batch_sizes",
        ("Please don't set both cuda_graph_config.batch_sizes",),
        "cuda_graph_config has both batch_sizes and max_batch_size",
        "Keep one of them.",
    ),
    Signal(
        "engine_option_value",
        ("[type=",),
        "An engine option has a value of the wrong type or outside its range",
        "Correct the value.",
        before=True,
    ),
    Signal(
        "port_in_use",
        ("Failed to bind socket to", "address already in use"),
        "Something else listens on the server's port",
        "Stop it (an older container perhaps), or choose another port.",
    ),
    Signal(
        "memory_executor",
        ("Executor creation failed due to insufficient GPU memory.",),
        "The GPU's memory does not suffice",
        "KV cache: lower free_gpu_memory_fraction; model or draft: lower max_num_tokens or use two Sparks;"
        " drafter: lower max_seq_len or the draft length.",
        after="The following component could not be created:",
    ),
    Signal(
        "memory_cuda",
        ("CUDA out of memory", "torch.OutOfMemoryError"),
        "The GPU's memory does not suffice",
        "Drop the page cache, stop other users of the memory, or lower free_gpu_memory_fraction.",
    ),
    Signal(
        "gpus_too_few",
        ("GPUs are available, but",),
        "tp_size asks for more GPUs than there are, or the server was not started by mpirun",
        "Check tp_size, the launcher and the hostfile.",
    ),
    Signal(
        "gpu_absent",
        ("No GPU devices found on the node",),
        "The container has no GPU",
        "Check the container's GPU flag and the NVIDIA container toolkit.",
    ),
    Signal(
        "nccl",
        (
            "Executor creation failed with NCCL error:",
            "Failed, NCCL error",
            "unhandled cuda error (run with NCCL_DEBUG=INFO",
        ),
        "The GPUs or the two Sparks cannot communicate",
        "Check the interface names, the link and that both Sparks run the same image; NCCL_DEBUG=INFO shows more.",
    ),
    Signal(
        "xqa_kernels",
        ("No available XQA kernels are found for speculative decoding mode",),
        "The image has no attention kernel for speculative decoding on this GPU",
        "Use a newer image, eagle3_one_model: false, or no speculation.",
    ),
    Signal(
        "illegal_instruction",
        ("an illegal instruction was encountered",),
        "A GPU kernel of the image is broken on this GPU",
        "Use another image and the MoE backend CUTLASS, and report it to NVIDIA.",
    ),
    Signal(
        "illegal_memory_access",
        ("illegal memory access",),
        "A GPU kernel of the image is broken on this GPU",
        "Switch off the autotuner and the CUDA graphs, one at a time, to isolate it.",
    ),
    Signal(
        "hub_gated",
        ("Cannot access gated repo for url", "GatedRepoError", "403 Client Error"),
        "The model's licence is not accepted for the account of the Hugging Face token",
        "Accept it on the model's page on the Hub, and set the token.",
    ),
    Signal(
        "hub_token",
        ("Invalid username or password", "Repository Not Found", "401 Client Error"),
        "The Hugging Face token is missing or wrong, or the model's name is wrong",
        "Set a valid token and check the name.",
    ),
    Signal(
        "vocabularies_absent",
        (
            "error downloading or loading vocab file",
            "failed to download or load vocab file",
            "Error in harmony chat completion:",
        ),
        "The vocabulary files of gpt-oss are absent",
        "Put both tiktoken files where TIKTOKEN_ENCODINGS_BASE points, on every Spark.",
    ),
    Signal(
        "interface_wrong",
        ("Socket operation on non-socket",),
        "A network interface of the fabric has a wrong name in the container's environment",
        "Compare the names with those that 'ip link' shows on each Spark.",
    ),
    Signal(
        "ssh_between_containers",
        ("Permission denied (publickey", "port 2233: Connection refused"),
        "The head's container cannot log in to the worker's container",
        "Check the deployment's keys and that sshd runs in the worker's container.",
    ),
    Signal(
        "mpi_slots",
        ("There are not enough slots available",),
        "The hostfile has fewer slots than ranks are asked for",
        "Correct the hostfile or the number of ranks.",
    ),
    Signal(
        "mpi_daemons",
        ("ORTE was unable to reliably start one or more daemons",),
        "mpirun could not start its daemon on the other Spark",
        "Check ssh between the containers and that both Sparks run the same image.",
    ),
    Signal(
        "file_missing",
        ("No such file or directory",),
        "A file is missing in the container; with two Sparks perhaps on one of them only",
        "Copy it to every Spark.",
        kind=HINT,
    ),
    Signal(
        "arguments_refused",
        ("Failed to parse the arguments for the LLM constructor",),
        "The engine options or the command line were refused",
        "Read the lines that follow.",
        kind=WRAPPER,
    ),
    Signal(
        "executor_worker_died",
        (
            "Executor worker died during initialization",
            "Executor worker initialization error:",
            "Executor worker returned error",
        ),
        "The process that drives the GPU crashed",
        "Read the traceback above.",
        kind=WRAPPER,
    ),
    Signal(
        "engine_dead",
        ("Health check detected fatal engine error", "LLM is unavailable."),
        "The engine died behind a live port",
        "Restart the server and read the lines above.",
        kind=WRAPPER,
    ),
    Signal(
        "mpi_rank_died",
        (
            "mpirun detected that one or more processes exited with non-zero status",
            # The two spaces are Open MPI's.
            "Primary job  terminated normally, but 1 process returned",
        ),
        "One of the ranks died",
        "Read the lines above.",
        kind=WRAPPER,
    ),
    Signal(
        "loading_stalled",
        ("Loading weights concurrently:",),
        "Some images never get past the first weight on this GPU when the count stands at 0",
        "Use 1.3.0rc12 or 1.3.0rc13.",
        kind=WARNING,
    ),
    Signal(
        "eagle_renamed",
        ("'Eagle' is treated as 'Eagle3'",),
        "The decoding_type is in the old spelling",
        "Write Eagle3.",
        kind=WARNING,
    ),
    Signal(
        "ucx_device",
        ("UCX  WARN  network device", "UCX WARN network device"),
        "UCX_NET_DEVICES names a device that is not there",
        "Harmless as long as the server answers; else correct the name.",
        kind=WARNING,
    ),
    Signal(
        "adjusted",
        (
            "Disable overlap scheduler for speculation mode",
            "Falling back to greedy decoding for",
            "disable enable_block_reuse for SM",
        ),
        "The server adjusted an option to the kind of speculation",
        "Nothing to do.",
        kind=INFORMATION,
    ),
)

# Each process of a server writes one of these when it starts; a log holds several starts.
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
    Stage("warmup", ("CUDA graph warmup", "autotuner warmup"), "warming up"),
    Stage(
        "http",
        ("get signal from executor worker", "Started server process", "Application startup complete."),
        "engine up, starting HTTP",
    ),
    Stage("listening", ("Uvicorn running on http://",), "listening"),
)

# What an exit status says when the log is silent.
EXIT_HINTS: dict[int, str] = {
    1: "a Python error",
    2: "a wrong command line",
    137: "killed, usually because the memory ran out",
    139: "a crash in native code",
}

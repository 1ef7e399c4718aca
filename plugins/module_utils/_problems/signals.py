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

TENSORRT_LLM = "NVIDIA/TensorRT-LLM, source code"
ARGUMENTS = "NVIDIA/TensorRT-LLM tensorrt_llm/llmapi/llm_args.py"
SERVE = "NVIDIA/TensorRT-LLM tensorrt_llm/commands/serve.py"
SERVER = "NVIDIA/TensorRT-LLM tensorrt_llm/serve/openai_server.py"
EXECUTOR = "NVIDIA/TensorRT-LLM tensorrt_llm/_torch/pyexecutor/py_executor_creator.py"
OPEN_MPI = "Open MPI documentation"
PRRTE = "openpmix/prrte, source code"
OPEN_SSH = "OpenSSH manual pages ssh(1) and sshd(8)"
NCCL = "NVIDIA/nccl, source code"
NCCL_DOCS = "NVIDIA NCCL documentation, troubleshooting"
ALL_REDUCE = "NVIDIA/TensorRT-LLM issue 12715, pull request 15559"
SPARKS = "NVIDIA DGX Spark playbook 'Connect Two Sparks', troubleshooting"
USERS_OF_TWO = "reports of users of two DGX Sparks"
SPECULATIVE = "NVIDIA DGX Spark playbook 'Speculative Decoding', troubleshooting"
TRT_LLM = "NVIDIA DGX Spark playbook 'TRT LLM for Inference', troubleshooting"


class Signal(t.NamedTuple):
    """One thing that a server's log can say."""

    id: str
    substrings: tuple[str, ...]
    cause: str
    fix: str
    # The public page or thread that tells of it.
    source: str
    kind: str = CAUSE
    # pydantic names the option in the line before.
    before: bool = False
    # Part of a line after it that says more.
    after: str = ""
    # It means something only as long as its count stands at 0, or, without a count, nothing follows it.
    standing: bool = False


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
        SERVE,
    ),
    Signal(
        "engine_option_unknown",
        ("Extra inputs are not permitted",),
        "The engine options have a key that this release does not know",
        "Remove or rename the key.",
        ARGUMENTS,
        before=True,
    ),
    Signal(
        "eagle_option_unknown",
        ("object has no field",),
        "The section speculative_config has a key that this release does not know under Eagle",
        "Remove or rename the key; releases up to 1.2 know speculative_model_dir, not speculative_model.",
        ARGUMENTS,
    ),
    Signal(
        "decoding_type_wrong_1_2",
        ("Invalid decoding type:",),
        "This release (1.2 or older) does not know the decoding_type",
        "Write Eagle or DraftTarget, or use a 1.3 image.",
        ARGUMENTS,
    ),
    Signal(
        "decoding_type_wrong_1_3",
        ("does not match any of the expected tags", "Unable to extract tag using discriminator"),
        "This release (1.3 or newer) does not know the decoding_type, or it is missing",
        "Write Eagle3 or Draft_Target.",
        ARGUMENTS,
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
        ARGUMENTS,
    ),
    Signal(
        "backend_unsupported",
        ("does not support backend",),
        "This kind of speculation does not work on the pytorch backend",
        "Use EAGLE-3 or draft target.",
        ARGUMENTS,
    ),
    Signal(
        "concurrency_and_schedule",
        ("max_concurrency and draft_len_schedule are mutually exclusive",),
        "max_concurrency meets draft_len_schedule, or decoding_type Eagle on 1.3",
        "Keep one of them, and write Eagle3.",
        ARGUMENTS,
    ),
    Signal(
        "cuda_graph_batch_sizes",
        ("Please don't set both cuda_graph_config.batch_sizes",),
        "cuda_graph_config has both batch_sizes and max_batch_size",
        "Keep one of them.",
        ARGUMENTS,
    ),
    Signal(
        "engine_option_value",
        ("[type=",),
        "An engine option has a value of the wrong type or outside its range",
        "Correct the value.",
        ARGUMENTS,
        before=True,
    ),
    Signal(
        "port_in_use",
        ("Failed to bind socket to", "address already in use"),
        "Something else listens on the server's port",
        "Stop it (an older container perhaps), or choose another port.",
        SERVE,
    ),
    Signal(
        "memory_executor",
        ("Executor creation failed due to insufficient GPU memory.",),
        "The GPU's memory does not suffice",
        "KV cache: lower free_gpu_memory_fraction; model or draft: lower max_num_tokens or use two Sparks;"
        " drafter: lower max_seq_len or the draft length.",
        EXECUTOR,
        after="The following component could not be created:",
    ),
    Signal(
        "memory_cuda",
        ("CUDA out of memory", "torch.OutOfMemoryError"),
        "The GPU's memory does not suffice",
        "Drop the page cache (speculative_serve_drop_caches), stop other users of the memory, or lower"
        " free_gpu_memory_fraction.",
        SPECULATIVE,
    ),
    Signal(
        "gpus_too_few",
        ("GPUs are available, but",),
        "tp_size asks for more GPUs than there are, or the server was not started by mpirun",
        "Check tp_size, the launcher and the hostfile.",
        TENSORRT_LLM,
    ),
    Signal(
        "gpu_absent",
        ("No GPU devices found on the node",),
        "The container has no GPU",
        "Check the container's GPU flag and the NVIDIA container toolkit.",
        TENSORRT_LLM,
    ),
    Signal(
        "all_reduce_crashed",
        ("ncclGinGdakiQueryLastError", "ncclCommGroupRegisterSymmetric", "ncclCommWindowRegister"),
        "The all-reduce of this release crashes between two Sparks",
        "Use the image 1.2.0rc6, which was seen to work on two, or 1.3.0rc22 or newer, which have pull request 15559.",
        ALL_REDUCE,
    ),
    Signal(
        "nccl_collectives",
        ("ncclLocalOpAppend",),
        "NCCL crashed, as 2.28.9 does on two Sparks after about a million collective operations",
        "The server is started again by itself; an image with another NCCL may not do it.",
        "NVIDIA/nccl issue 2213",
    ),
    # Two Sparks: what the network card says is nearer to the root than what NCCL makes of it.
    Signal(
        "ibv_memory_lock",
        (
            "ibv_reg_mr failed",
            "ibv_reg_mr_iova2 failed",
            "ibv_create_cq failed with error Cannot allocate memory",
            "ibv_create_qp failed with error Cannot allocate memory",
        ),
        "The network card may not lock the memory that it is to send from",
        "Leave trtllm_container_ulimits at memlock -1; kernels whose CMA total is 0 cannot do it either.",
        "NVIDIA developer forum, DGX Spark, and NCCL documentation, troubleshooting",
    ),
    Signal(
        "ibv_no_answer",
        ("IBV_WC_RETRY_EXC_ERR", "with status=12 ", "with error 12,"),
        "What a network card sent through the cable was not acknowledged by the other Spark",
        "Ping both addresses of the other Spark once and start again; if it comes again, the other rank died, the link"
        " went down, or MTU or GID index differ: two_sparks.yml proves the link.",
        NCCL_DOCS,
    ),
    Signal(
        "ibv_request_refused",
        ("IBV_WC_REM_INV_REQ_ERR", "with status=9 ", "with error 9,"),
        "The other rank did not understand what this one sent, as with two builds of NCCL",
        "Run the same image on both Sparks (two_sparks.yml compares them), and set no other NCCL by LD_PRELOAD.",
        "eugr/spark-vllm-docker issue 150",
    ),
    Signal(
        "ibv_gid",
        ("ibv_modify_qp failed", "invalid GID", "Invalid GID"),
        "The two network cards cannot agree on a way: a wrong GID index, or twins in one network",
        "Take NCCL_IB_GID_INDEX out of speculative_serve_environment and run two_sparks.yml, which gives each twin a"
        " network of its own.",
        NCCL_DOCS,
    ),
    Signal(
        "nccl_interface",
        ("no socket interface found", "NET/Socket : no interface found"),
        "NCCL finds no interface of the name that NCCL_SOCKET_IFNAME says",
        "Run two_sparks.yml again, which looks up the names; take your own out of speculative_serve_environment.",
        NCCL_DOCS,
    ),
    Signal(
        "nccl_library",
        ("libnccl.so.2: cannot open shared object file",),
        "NCCL is missing in the container of one of the two Sparks",
        "Run two_sparks.yml again, which brings the same image to both.",
        "NVIDIA DGX Spark playbook 'NCCL for Two Sparks', troubleshooting",
    ),
    Signal(
        "ucx_refused",
        ("connect(fd=",),
        "The two ranks chose different UCX transports, so that one of them listens where the other one does not ask",
        "Leave OMPI_MCA_pml and UCX_TLS out of speculative_serve_environment: MPI starts over TCP.",
        USERS_OF_TWO,
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
        EXECUTOR,
    ),
    Signal(
        "xqa_kernels",
        ("No available XQA kernels are found for speculative decoding mode",),
        "The image has no attention kernel for speculative decoding on this GPU",
        "Use a newer image, or no speculation.",
        "NVIDIA/TensorRT-LLM pull request 12795",
    ),
    Signal(
        "illegal_instruction",
        ("an illegal instruction was encountered",),
        "A GPU kernel of the image is broken on this GPU",
        "Use another image and the MoE backend CUTLASS, and report it to NVIDIA.",
        "NVIDIA/TensorRT-LLM issue 11313",
    ),
    Signal(
        "illegal_memory_access",
        ("illegal memory access",),
        "A GPU kernel of the image is broken on this GPU",
        "Switch off the autotuner and the CUDA graphs, one at a time, to isolate it.",
        "NVIDIA/TensorRT-LLM issue 10679",
    ),
    Signal(
        "hub_gated",
        ("Cannot access gated repo for url", "GatedRepoError", "403 Client Error"),
        "The model's licence is not accepted for the account of the Hugging Face token",
        "Accept it on the model's page on the Hub, and set the token.",
        SPECULATIVE,
    ),
    Signal(
        "hub_token",
        ("Invalid username or password", "Repository Not Found", "401 Client Error"),
        "The Hugging Face token is missing or wrong, or the model's name is wrong",
        "Set a valid token and check the name.",
        SPECULATIVE,
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
        "NVIDIA/dgx-spark-playbooks issue 17",
    ),
    Signal(
        "ptxas",
        ("ptxas fatal",),
        "Triton compiles kernels while the server runs, and its assembler does not know this GPU",
        "Set TRITON_PTXAS_PATH to the ptxas of the image's CUDA, and pass it on with mpirun -x.",
        TRT_LLM,
    ),
    Signal(
        "jit_cache",
        ("Ninja build failed", "Error building extension"),
        "A kernel could not be compiled at the start",
        "Remove the volume with the compiled kernels and start again; with several ranks, give each its own cache.",
        "NVIDIA/TensorRT-LLM release notes of 1.3.0rc24",
    ),
    Signal(
        "backend_tensorrt",
        ("tensorrt backend is not supported", "backend tensorrt is not supported", "Unsupported backend: tensorrt"),
        "The backend tensorrt is not supported by this image",
        "Use --backend pytorch.",
        "NVIDIA/TensorRT-LLM issue 15941",
    ),
    Signal(
        "package_broken",
        ("No module named 'tensorrt_llm", "cannot import name 'LLM' from 'tensorrt_llm"),
        "Python in the container cannot import tensorrt_llm",
        "Restart Docker with 'sudo systemctl restart docker'; if that does not help, pull the image again.",
        TRT_LLM,
    ),
    Signal(
        "checkpoint_truncated",
        ("Error while deserializing header", "MetadataIncompleteBuffer", "incomplete metadata, file not fully covered"),
        "A file of a model's weights is cut off or damaged",
        "Run the playbook again, which checks every file and fetches the wrong ones once more.",
        "huggingface/safetensors, source code",
    ),
    Signal(
        "checkpoint_layout",
        (
            "size mismatch for ",
            "Missing key(s) in state_dict",
            "Unexpected key(s) in state_dict",
            "must match the size of tensor",
        ),
        "The image cannot read the model's weights: the two do not fit together",
        "Use the image and the models of one recipe.",
        "NVIDIA DGX Spark playbook 'Nemotron', troubleshooting",
    ),
    Signal(
        "cache_incomplete",
        (
            "LocalEntryNotFoundError",
            "OfflineModeIsEnabled",
            "outgoing traffic has been disabled",
            "couldn't find them in the cached files",
            "is not a local folder and is not a valid model identifier",
        ),
        "The server runs offline and does not find a model in the Hugging Face cache",
        "Run the playbook again, which completes the cache; a cache copied by hand lacks refs/ or snapshots/.",
        "Hugging Face Hub documentation, environment variable HF_HUB_OFFLINE",
    ),
    Signal(
        "interface_wrong",
        ("Socket operation on non-socket",),
        "A network interface of the fabric has a wrong name in the container's environment",
        "Compare the names with those that 'ip link' shows on each Spark.",
        SPECULATIVE,
    ),
    # mpirun reaches the worker through ssh; what ssh says is the root of what mpirun says after it.
    Signal(
        "ssh_host_key",
        ("REMOTE HOST IDENTIFICATION HAS CHANGED", "Host key verification failed", "host key is known for"),
        "The worker shows another host key than the one that was agreed on",
        "Run two_sparks.yml again, which makes and exchanges the keys. If the other Spark was not set up anew, make"
        " sure which machine is at the other end of the cable.",
        OPEN_SSH,
    ),
    Signal(
        "ssh_key_unreadable",
        ("UNPROTECTED PRIVATE KEY FILE", 'Load key "/pair/', "bad ownership or modes for"),
        "A key of the deployment belongs to somebody else, may be read by others, or is damaged, so ssh refuses it",
        "Run two_sparks.yml again, which puts owner and mode right.",
        OPEN_SSH,
    ),
    Signal(
        "ssh_publickey",
        ("Permission denied (publickey",),
        "The head's container may not log in to the worker's container",
        "Run two_sparks.yml again, which gives both the same deployment's keys; a worker of another deployment refuses"
        " them.",
        SPECULATIVE,
    ),
    Signal(
        "ssh_refused",
        ("port 2233: Connection refused",),
        "No SSH server listens in the worker's container",
        "Start both with start.yml; on the worker status.yml and logs.yml say why its container does not run.",
        SPECULATIVE,
    ),
    Signal(
        "ssh_banner",
        ("timed out during banner exchange",),
        "The other Spark takes connections and does not get on, as one does whose memory has run out",
        "Look at its memory with status.yml; if it does not recover, switch it off and on.",
        USERS_OF_TWO,
    ),
    Signal(
        "ssh_unreachable",
        (
            "port 2233: No route to host",
            "port 2233: Connection timed out",
            "port 2233: Network is unreachable",
            "port 2233: Operation timed out",
        ),
        "The other Spark does not answer at its fabric address",
        "See that it is on and the cable is in, then run two_sparks.yml, which proves the link; a firewall has to let"
        " the other Spark in on its fabric addresses.",
        SPARKS,
    ),
    Signal(
        "sshd_port_taken",
        ("failed: Address already in use.",),
        "Something else listens on port 2233 of the worker's fabric address",
        "Find it there with 'sudo ss -tlnp sport = :2233' and stop it; a container made by hand is a likely one.",
        TRT_LLM,
    ),
    Signal(
        "sshd_no_address",
        ("failed: Cannot assign requested address.",),
        "The worker's fabric address has gone, or has not come yet",
        "Put the cable in; 'ip -br addr' shows it, and two_sparks.yml gives it again.",
        SPARKS,
    ),
    Signal(
        "mpi_interface",
        (
            "An invalid value was given for btl_tcp_if_include",
            "An invalid value was given for oob_tcp_if_include",
            "networks specified to be included",
        ),
        "Open MPI finds no interface in the networks that it is told to use",
        "Run two_sparks.yml again, which looks up the addresses; take your own OMPI_MCA_ settings out.",
        OPEN_MPI,
    ),
    Signal(
        "mpi_absent",
        (
            "orted: command not found",
            "prted: command not found",
            "orted: No such file or directory",
            "prted: No such file or directory",
            "orted: error while loading shared libraries",
            "prted: error while loading shared libraries",
            # What the worker's login says by itself.
            "cannot be run on the worker",
        ),
        "The worker's container has no Open MPI in the same place, or lacks one of its libraries",
        "Run two_sparks.yml again, which brings the same image to both.",
        USERS_OF_TWO,
    ),
    Signal(
        "rank_undying",
        ("an earlier rank on the worker cannot be ended",),
        "What is left of an earlier rank on the worker cannot be ended, and holds its memory",
        "Reboot the worker; the pair comes back by itself.",
        USERS_OF_TWO,
    ),
    Signal(
        "launch_refused",
        ("only mpirun may log in here",),
        "The worker's login starts Open MPI's daemon and nothing else, and was asked for something else",
        "Run the image that the recipe names; take OMPI_MCA_plm_ and PRTE_MCA_plm_ settings of your own out.",
        OPEN_MPI,
    ),
    Signal(
        "mpi_program_absent",
        (
            "the specified application as it could not access",
            "unable to find the specified executable file",
            "could not find an executable",
        ),
        "A program of the deployment is missing on one of the two Sparks",
        "Run two_sparks.yml again, which brings the same image and files to both.",
        OPEN_MPI,
    ),
    Signal(
        "mpi_callback",
        (
            "unable to complete a TCP connection",
            "after launch and before",
            "failed to report back",
            "No OOB path",
        ),
        "mpirun's daemon on the other Spark cannot call back: an address is missing, or a firewall is in the way",
        "Let each Spark in on the other one's fabric addresses, on all ports ('sudo ufw allow from ADDRESS'), and see"
        " with status.yml that both have theirs.",
        PRRTE,
    ),
    Signal(
        "mpi_slots",
        ("There are not enough slots available",),
        "The hostfile has fewer slots than ranks are asked for",
        "Correct the hostfile or the number of ranks.",
        OPEN_MPI,
    ),
    Signal(
        "mpi_daemons",
        ("was unable to reliably start one or more daemons",),
        "mpirun could not start its daemon on the other Spark",
        "Check ssh between the containers and that both Sparks run the same image.",
        OPEN_MPI,
    ),
    Signal(
        "rank_killed",
        ("exited on signal 9", "signal 9 (Killed)"),
        "A rank was killed from outside, usually because the memory of its Spark ran out",
        "Run diagnose.yml for both: the kernel's log of the one that the line names tells. Stop other users of the"
        " memory there, or lower free_gpu_memory_fraction.",
        TRT_LLM,
    ),
    Signal(
        "rank_crashed",
        ("exited on signal 11", "exited on signal 6", "signal 11 (Segmentation fault", "signal 6 (Aborted"),
        "A rank crashed in native code",
        "Run the same image and driver on both Sparks; use another image if it comes again.",
        OPEN_MPI,
    ),
    Signal(
        "mpi_lost",
        ("lost communication with a remote daemon",),
        "mpirun lost its daemon on the other Spark",
        "Look there, with status.yml and diagnose.yml: its container ended, the link went down, or image and files are"
        " not the same.",
        USERS_OF_TWO,
    ),
    Signal(
        "rank_hung_up",
        ("Connection closed by remote peer", "socketProgress: Connection closed"),
        "The other rank has hung up",
        "Read why in the other Spark's log, with logs.yml or diagnose.yml.",
        NCCL,
        kind=HINT,
    ),
    Signal(
        "fp4_gemm",
        # In the autotuner's own lines it is a tactic that is left out.
        ("Failed to run cutlass FP4 gemm", "nvfp4_gemm"),
        "The image's kernels for matrices in NVFP4 need more shared memory than a GB10 has",
        "Leave enable_autotuner on, which passes them over, or use a release with pull request 12141.",
        "NVIDIA/TensorRT-LLM issue 11368",
        kind=HINT,
    ),
    Signal(
        "file_missing",
        ("No such file or directory",),
        "A file is missing in the container; with two Sparks perhaps on one of them only",
        "Copy it to every Spark.",
        TENSORRT_LLM,
        kind=HINT,
    ),
    Signal(
        "arguments_refused",
        ("Failed to parse the arguments for the LLM constructor",),
        "The engine options or the command line were refused",
        "Read the lines that follow.",
        SERVE,
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
        TENSORRT_LLM,
        kind=WRAPPER,
    ),
    Signal(
        "engine_dead",
        (
            # The longer one first: what follows a match is taken for the reason.
            "Health check detected fatal engine error, initiating server shutdown",
            "Health check detected fatal engine error",
            "LLM is unavailable. Please check the server logs for more details.",
            "LLM is unavailable.",
        ),
        "The engine died behind a live port",
        "Restart the server and read the lines above.",
        SERVER,
        kind=WRAPPER,
    ),
    Signal(
        "mpi_rank_died",
        (
            # Open MPI 5 says prterun.
            "detected that one or more processes exited with non-zero status",
            # The two spaces are Open MPI's.
            "Primary job  terminated normally, but 1 process returned",
        ),
        "One of the ranks died",
        "Read the lines above.",
        OPEN_MPI,
        kind=WRAPPER,
    ),
    Signal(
        "loading_stalled",
        ("Loading weights concurrently:",),
        "Some images never get past the first weight on this GPU when the count stands at 0",
        "Use 1.3.0rc12 or 1.3.0rc13.",
        "NVIDIA/TensorRT-LLM issue 14500",
        kind=WARNING,
        standing=True,
    ),
    Signal(
        "all_reduce_stalled",
        ("finalMNNVL=0",),
        "The all-reduce of some releases never ends between two Sparks when the log stands here",
        "Use the image 1.2.0rc6, which was seen to work on two, or 1.3.0rc22 or newer, which have pull request 15559.",
        ALL_REDUCE,
        kind=WARNING,
        standing=True,
    ),
    Signal(
        "eagle_renamed",
        ("'Eagle' is treated as 'Eagle3'",),
        "The decoding_type is in the old spelling",
        "Write Eagle3.",
        ARGUMENTS,
        kind=WARNING,
    ),
    Signal(
        "ucx_device",
        ("UCX  WARN  network device", "UCX WARN network device"),
        "UCX_NET_DEVICES names a device that is not there",
        "Harmless as long as the server answers; else correct the name.",
        "NVIDIA/TensorRT-LLM issue 2594",
        kind=WARNING,
    ),
    Signal(
        "nccl_over_socket",
        ("NET/IB : No device found", "Using network Socket", "via NET/Socket/"),
        "NCCL goes through the cable by TCP and not by RDMA, which costs most of its speed",
        "Run two_sparks.yml again, which gives the container /dev/infiniband and sets NCCL_IB_HCA to both devices.",
        NCCL_DOCS,
        kind=WARNING,
    ),
    Signal(
        "gpu_direct_rdma",
        ("GPU Direct RDMA Disabled",),
        "A Spark has no GPU Direct RDMA, since CPU and GPU share one memory",
        "Nothing to do.",
        "NVIDIA developer forum, thread 348787",
        kind=INFORMATION,
    ),
    Signal(
        "nvml_memory",
        ("NVMLError_NotSupported", "NVML_ERROR_NOT_SUPPORTED"),
        "NVML cannot tell the GPU's memory on a Spark, where CPU and GPU share one pool",
        "Nothing to do; MemAvailable in /proc/meminfo tells.",
        "NVIDIA/gpu-operator issue 1794",
        kind=INFORMATION,
    ),
    Signal(
        "fp4_experts",
        ("Failed to initialize cutlass TMA WS grouped gemm",),
        "The autotuner meets kernels for experts in NVFP4 that do not fit a GB10, and passes them over",
        "Nothing to do. If the server ends so, or is slow, use another image, such as 1.3.0rc17.",
        "NVIDIA/TensorRT-LLM pull request 12899 and issue 14575",
        kind=INFORMATION,
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
        EXECUTOR,
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
    Stage("all_reduce", ("finalMNNVL=",), "the two Sparks reduce together for the first time"),
    Stage("warmup", ("CUDA graph warmup", "autotuner warmup"), "warming up"),
    Stage(
        "http",
        ("get signal from executor worker", "Started server process", "Application startup complete."),
        "engine up, starting HTTP",
    ),
    Stage("listening", ("Uvicorn running on http://", "Uvicorn running on socket"), "listening"),
)

# What an exit status says when the log is silent.
EXIT_HINTS: dict[int, str] = {
    1: "a Python error",
    2: "a wrong command line",
    137: "killed, usually because the memory ran out",
    139: "a crash in native code",
}

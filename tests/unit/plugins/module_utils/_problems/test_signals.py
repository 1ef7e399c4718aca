# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.dgx_spark.speculative.plugins.module_utils._problems import signals
from ansible_collections.dgx_spark.speculative.plugins.module_utils._server.log import reason, remarks

STAMP = "[11/20/2025-16:31:05] [TRT-LLM] [E] "
START = "[TensorRT-LLM] TensorRT LLM version: 1.3.0rc12\n"
END = "\n[entrypoint] the server ended with exit code 1\n"
TRACEBACK = 'Traceback (most recent call last):\n  File "llm.py", line 9, in __init__\n'

# What mpirun and NCCL say after the cause.
LOST = (
    "\n--------------------------------------------------------------------------\n"
    "ORTE has lost communication with a remote daemon.\n\n  HNP daemon   : [[17757,0],0] on node a\n"
    "  Remote daemon: [[17757,0],1] on node 10.0.0.2\n"
)
NCCL_FAILED = "\nRuntimeError: Failed, NCCL error /src/ncclUtils.h:42 'unhandled system error'"

# A realistic log for every row: what it says, and the row that has to know it.
CAUSES = [
    ("Usage: trtllm-serve serve [OPTIONS] MODEL\nError: No such option: --config", "cli_option_unknown"),
    (
        f"{STAMP}Failed to parse the arguments for the LLM constructor: 1 validation error for TorchLlmArgs\n"
        "speculative_config.Eagle3.max_draft_length\n"
        "  Extra inputs are not permitted [type=extra_forbidden, input_value=5, input_type=int]",
        "engine_option_unknown",
    ),
    (
        TRACEBACK + 'ValueError: "EagleDecodingConfig" object has no field "speculative_model"',
        "eagle_option_unknown",
    ),
    (TRACEBACK + "ValueError: Invalid decoding type: Eagle3", "decoding_type_wrong_1_2"),
    (
        "speculative_config\n  Input tag 'Eagle4' found using 'decoding_type' does not match any of the expected tags: "
        "'Eagle3', 'Draft_Target' [type=union_tag_invalid, input_value={'decoding_type': 'Eagle4'}, input_type=dict]",
        "decoding_type_wrong_1_3",
    ),
    (TRACEBACK + "ValueError: Path to EAGLE3 weights must be specified.", "draft_model_missing"),
    (TRACEBACK + "ValueError: Draft model must be provided for EAGLE", "draft_model_missing"),
    (TRACEBACK + "ValueError: speculative_model must be specified for DraftTarget", "draft_model_missing"),
    (TRACEBACK + "ValueError: Path to draft model must be specified.", "draft_model_missing"),
    (TRACEBACK + "ValueError: Speculation type Medusa does not support backend pytorch", "backend_unsupported"),
    (
        TRACEBACK + "ValueError: max_concurrency and draft_len_schedule are mutually exclusive",
        "concurrency_and_schedule",
    ),
    (
        TRACEBACK
        + "ValueError: Please don't set both cuda_graph_config.batch_sizes and cuda_graph_config.max_batch_size.",
        "cuda_graph_batch_sizes",
    ),
    (
        "max_batch_size\n  Input should be a valid integer [type=int_type, input_value='x', input_type=str]",
        "engine_option_value",
    ),
    (TRACEBACK + "RuntimeError: Failed to bind socket to 127.0.0.1:8000", "port_in_use"),
    (
        "Executor creation failed due to insufficient GPU memory.\n\n"
        "The following component could not be created: KV cache\nOriginal error: CUDA out of memory.",
        "memory_executor",
    ),
    (TRACEBACK + "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 12.00 GiB.", "memory_cuda"),
    (f"{STAMP}Executor creation failed with NCCL error: unhandled system error", "nccl"),
    ("RuntimeError: Failed, NCCL error /src/ncclUtils.h:42 'unhandled cuda error'", "nccl"),
    ("ncclUnhandledCudaError: unhandled cuda error (run with NCCL_DEBUG=INFO for details)", "nccl"),
    (TRACEBACK + "RuntimeError: Only 1 GPUs are available, but 2 are required.", "gpus_too_few"),
    (TRACEBACK + "RuntimeError: No GPU devices found on the node", "gpu_absent"),
    (
        "[TensorRT-LLM][ERROR] No available XQA kernels are found for speculative decoding mode",
        "xqa_kernels",
    ),
    (TRACEBACK + "RuntimeError: CUDA error: an illegal instruction was encountered", "illegal_instruction"),
    (TRACEBACK + "RuntimeError: CUDA error: an illegal memory access was encountered", "illegal_memory_access"),
    (
        "huggingface_hub.errors.GatedRepoError: 403 Client Error.\n\nCannot access gated repo for url https://x",
        "hub_gated",
    ),
    ("Repository Not Found for url: https://x.\nInvalid username or password.", "hub_token"),
    ("requests.exceptions.HTTPError: 401 Client Error: Unauthorized for url: https://x", "hub_token"),
    (f"{STAMP}Error in harmony chat completion: HarmonyError", "vocabularies_absent"),
    (
        "openai_harmony.HarmonyError: error downloading or loading vocab file: failed to download or load vocab file",
        "vocabularies_absent",
    ),
    (
        TRACEBACK + "FileNotFoundError: [Errno 2] No such file or directory: '/deployment/options.yml'",
        "file_missing",
    ),
    ("NCCL WARN Call to connect failed: Socket operation on non-socket", "interface_wrong"),
    ("root@10.0.0.2: Permission denied (publickey,password).", "ssh_publickey"),
    (f"ssh: connect to host 10.0.0.2 port 2233: Connection refused{LOST}", "ssh_refused"),
    (f"ssh: connect to host 10.0.0.2 port 2233: No route to host{LOST}", "ssh_unreachable"),
    (f"ssh: connect to host 10.0.0.2 port 2233: Connection timed out{LOST}", "ssh_unreachable"),
    (f"Connection timed out during banner exchange{LOST}", "ssh_banner"),
    (
        "@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @\nHost key verification failed." + LOST,
        "ssh_host_key",
    ),
    (f"No ED25519 host key is known for [10.0.0.2]:2233 and you have requested strict checking.{LOST}", "ssh_host_key"),
    (
        'Load key "/pair/id_ed25519": bad permissions\nroot@10.0.0.2: Permission denied (publickey).' + LOST,
        "ssh_key_unreadable",
    ),
    ("Authentication refused: bad ownership or modes for directory /run/pair", "ssh_key_unreadable"),
    ("error: Bind to port 2233 on 10.0.0.2 failed: Address already in use.", "sshd_port_taken"),
    ("error: Bind to port 2233 on 10.0.0.2 failed: Cannot assign requested address.", "sshd_no_address"),
    ("There are not enough slots available in the system to satisfy the 2 slots", "mpi_slots"),
    ("ORTE was unable to reliably start one or more daemons.", "mpi_daemons"),
    ("PRTE was unable to reliably start one or more daemons.", "mpi_daemons"),
    (
        "WARNING: An invalid value was given for btl_tcp_if_include. This\nvalue will be ignored.\n\n  Local host: a\n"
        "  Value:      192.168.9.0/24\n  Message:    Did not find interface matching this subnet",
        "mpi_interface",
    ),
    (
        "None of the TCP networks specified to be included for out-of-band communications\ncould be found:",
        "mpi_interface",
    ),
    (f"bash: line 1: orted: command not found{LOST}", "mpi_absent"),
    (
        f"[launch] orted cannot be run on the worker (No such file or directory): is it another image?{LOST}",
        "mpi_absent",
    ),
    (
        f"[launch] an earlier rank on the worker cannot be ended (processes 71 90); reboot it{LOST}",
        "rank_undying",
    ),
    (f"[launch] only mpirun may log in here: 'id' is not mpirun's daemon{LOST}", "launch_refused"),
    ("prted: error while loading shared libraries: libprrte.so.3: cannot open shared object file", "mpi_absent"),
    (
        "mpirun was unable to launch the specified application as it could not access\nor execute an executable:\n\n"
        "Executable: trtllm-llmapi-launch\nNode: b",
        "mpi_program_absent",
    ),
    (
        "A process or daemon was unable to complete a TCP connection\nto another process:\n  Local host:    b",
        "mpi_callback",
    ),
    (
        "An ORTE daemon has unexpectedly failed after launch and before\ncommunicating back to mpirun. This could be",
        "mpi_callback",
    ),
    ("ORTE: a daemon on node 10.0.0.2 failed to report back", "mpi_callback"),
    ("prterun could not find an executable:\n\nExecutable: trtllm-llmapi-launch\nNode: b", "mpi_program_absent"),
    ("[[1234,0],1] to [[1234,0],0]: No OOB path to target", "mpi_callback"),
    (f"all was well{LOST}", "mpi_lost"),
    (LOST.replace("ORTE", "PRTE"), "mpi_lost"),
    ("mpirun noticed that process rank 1 with PID 0 on node b exited on signal 9 (Killed).", "rank_killed"),
    ("prterun noticed that process rank 1 with PID 71 on node b exited on\nsignal 9 (Killed).", "rank_killed"),
    (
        "mpirun noticed that process rank 0 with PID 7 on node a exited on signal 11 (Segmentation fault).",
        "rank_crashed",
    ),
    (
        "b:71:90 [0] NCCL WARN Call to ibv_reg_mr failed with error Cannot allocate memory" + NCCL_FAILED,
        "ibv_memory_lock",
    ),
    (
        "b:71:90 [0] NCCL WARN NET/IB: Got completion from peer 10.0.0.1<40554> with status=IBV_WC_RETRY_EXC_ERR(12) "
        "opcode=IBV_WC_SEND(0) vendor_err=129" + NCCL_FAILED,
        "ibv_no_answer",
    ),
    (
        "b:71:90 [0] net_ib.cc:1296 NCCL WARN NET/IB : Got completion from peer 10.0.0.1<33092> with error 12, "
        "opcode 0, len 0, vendor err 129 (Recv)" + NCCL_FAILED,
        "ibv_no_answer",
    ),
    (
        "a:71:90 [0] NCCL WARN NET/IB: Got completion from peer 10.0.0.2<1> with status=9 opcode=1 len=0 vendor err "
        "136 (Send)" + NCCL_FAILED,
        "ibv_request_refused",
    ),
    ("a:7:9 [0] NCCL WARN Call to ibv_modify_qp failed with error No such device" + NCCL_FAILED, "ibv_gid"),
    ("a:7:9 [0] NCCL WARN Bootstrap : no socket interface found" + NCCL_FAILED, "nccl_interface"),
    ("ImportError: libnccl.so.2: cannot open shared object file: No such file or directory", "nccl_library"),
    (
        "[1763657465.1] [a:71   :0]  sock.c:323  UCX  ERROR   connect(fd=46, dest_addr=10.0.0.2:34567) failed: "
        "Connection refused",
        "ucx_refused",
    ),
    ("b:71:90 [0] NCCL WARN socketProgress: Connection closed by remote peer a<40554>", "rank_hung_up"),
    ("triton: ptxas fatal   : Value 'sm_121a' is not defined for option 'gpu-name'", "ptxas"),
    (TRACEBACK + "RuntimeError: Ninja build failed. Ninja output:", "jit_cache"),
    ("ValueError: Unsupported backend: tensorrt", "backend_tensorrt"),
    (TRACEBACK + "ModuleNotFoundError: No module named 'tensorrt_llm'", "package_broken"),
    (
        "safetensors_rust.SafetensorError: Error while deserializing header: incomplete metadata",
        "checkpoint_truncated",
    ),
    ("PC: @     0xe1e2567f5014  (unknown)  ncclLocalOpAppend()", "nccl_collectives"),
    (
        TRACEBACK + "RuntimeError: [FP4 gemm Runner] Failed to run cutlass FP4 gemm on sm120. Error: Error Internal",
        "fp4_gemm",
    ),
    (
        '  File "<unknown>", line 0, in ncclGinGdakiQueryLastError\n'
        "mpirun noticed that process rank 1 with PID 0 on node 10.0.0.2 exited on signal 11 (Segmentation fault).",
        "all_reduce_crashed",
    ),
    (TRACEBACK + "RuntimeError: size mismatch for fc.weight: copying a param with shape", "checkpoint_layout"),
    (
        "huggingface_hub.errors.LocalEntryNotFoundError: Cannot find an appropriate cached snapshot folder and "
        "outgoing traffic has been disabled.",
        "cache_incomplete",
    ),
]
WRAPPERS = [
    (f"{STAMP}Failed to parse the arguments for the LLM constructor", "arguments_refused"),
    ("Executor worker died during initialization", "executor_worker_died"),
    ("RuntimeError: Executor worker returned error", "executor_worker_died"),
    (f"{STAMP}Executor worker initialization error:", "executor_worker_died"),
    (f"{STAMP}Health check detected fatal engine error", "engine_dead"),
    ("LLM is unavailable. Please check the server logs for more details.", "engine_dead"),
    ("mpirun detected that one or more processes exited with non-zero status", "mpi_rank_died"),
    ("Primary job  terminated normally, but 1 process returned", "mpi_rank_died"),
    ("prterun detected that one or more processes exited with non-zero status", "mpi_rank_died"),
]
REMARKS = [
    ("[W] 'Eagle' is treated as 'Eagle3'", "eagle_renamed"),
    ("Loading weights concurrently:   0%|          | 0/1288 [00:00<?, ?it/s]", "loading_stalled"),
    ("[1763657465.1] UCX  WARN  network device 'enp1s0f1np1' is not available", "ucx_device"),
    ("[TensorRT-LLM][INFO] TP group MNNVL: finalMNNVL=0", "all_reduce_stalled"),
    (
        "[Autotuner]: Skipping tactic <MoERunner> 14, due to failure:\n"
        "[TensorRT-LLM][ERROR] Assertion failed: Failed to initialize cutlass TMA WS grouped gemm. "
        "Error: Error Internal (cutlass_kernel_file_gemm_grouped_sm120_M128_BS_group2.generated.cu:60)",
        "fp4_experts",
    ),
    ("Disable overlap scheduler for speculation mode EAGLE3", "adjusted"),
    ("Falling back to greedy decoding for draft tokens", "adjusted"),
    ("disable enable_block_reuse for SM 121", "adjusted"),
    ("pynvml.NVMLError_NotSupported: Not Supported", "nvml_memory"),
    ("a:71:90 [0] NCCL INFO NET/IB : No device found.", "nccl_over_socket"),
    ("a:71:90 [0] NCCL INFO Using network Socket", "nccl_over_socket"),
    ("a:71:90 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[0] [send] via NET/Socket/0", "nccl_over_socket"),
    ("a:71:90 [0] NCCL INFO NET/IB : GPU Direct RDMA Disabled for HCA 0 'rocep1s0f1'", "gpu_direct_rdma"),
]


@pytest.mark.parametrize(("text", "row"), CAUSES + WRAPPERS)
def test_each_row_is_found(text: str, row: str) -> None:
    found = reason(START + text + END)
    assert found is not None
    assert found.signal is not None
    assert found.signal.id == row


@pytest.mark.parametrize(("text", "row"), CAUSES)
def test_a_wrapper_does_not_hide_the_cause(text: str, row: str) -> None:
    wrapped = (
        f"{START}{text}\n{TRACEBACK}RuntimeError: Executor worker returned error\nmpirun detected that one or more{END}"
    )
    found = reason(wrapped)
    assert found is not None
    assert found.signal is not None
    assert found.signal.id == row


@pytest.mark.parametrize(("text", "row"), REMARKS)
def test_each_remark_is_found(text: str, row: str) -> None:
    assert [found.signal.id for found in remarks(START + text) if found.signal] == [row]
    assert reason(START + text) is None or row == "nvml_memory"


def test_loading_that_goes_on_does_not_stall() -> None:
    bars = [
        "Loading weights concurrently:   0%|  | 0/10 [00:00<?]",
        "Loading weights concurrently:  10%|  | 1/10 [00:01<]",
    ]
    assert remarks(START + "\r".join(bars)) == []


def test_an_all_reduce_after_which_the_log_goes_on_does_not_stall() -> None:
    assert remarks(f"{START}finalMNNVL=0\nLoading weights:  10%|  | 1/10 [00:01<]\n") == []
    assert len(remarks(f"{START}finalMNNVL=0\n\n")) == 1


def test_every_row_is_provoked() -> None:
    provoked = {row for _text, row in CAUSES + WRAPPERS + REMARKS}
    assert provoked == {signal.id for signal in signals.SIGNALS}


def test_rows_are_complete() -> None:
    ids = [signal.id for signal in signals.SIGNALS]
    assert len(ids) == len(set(ids))
    for signal in signals.SIGNALS:
        assert signal.source
        assert ".md" not in signal.source


def test_an_unknown_error_has_no_row() -> None:
    found = reason(f"{START}{TRACEBACK}KeyError: 'midlayer.weight'{END}")
    assert found == ("KeyError: 'midlayer.weight'", None)


def test_no_gpu_direct_rdma_is_no_fault() -> None:
    line = "a:71:90 [0] NCCL INFO NET/IB : GPU Direct RDMA Disabled for HCA 0 'rocep1s0f1'"
    (remark,) = remarks(START + line)
    assert remark.signal
    assert remark.signal.kind == signals.INFORMATION
    assert reason(START + line + END) is None


def test_traffic_over_rdma_is_not_remarked() -> None:
    lines = ["NET/IB : Using [0]rocep1s0f1:1/RoCE [1]roceP2p1s0f1:1/RoCE", "Using network IB", "[send] via NET/IB/0"]
    assert remarks(START + "\n".join(f"a:71:90 [0] NCCL INFO {line}" for line in lines)) == []

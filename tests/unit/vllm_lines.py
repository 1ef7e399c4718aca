# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Lines of vLLM's log, each with the row of the catalogue that has to know it."""

from __future__ import annotations

API = "(APIServer pid=1) ERROR 11-28 04:24:52 [api_utils.py:286] "
CORE = "(EngineCore pid=38) ERROR 11-28 04:25:44 [core.py:1510] "
WORKER = "(Worker_TP0 pid=55) ERROR 11-28 04:25:44 [multiproc_executor.py:953] "
INFO = "(EngineCore pid=38) INFO 11-28 04:25:44 [core.py:133] "
TRACEBACK = 'Traceback (most recent call last):\n  File "/usr/local/bin/vllm", line 11, in <module>\n'
# As vLLM logs an exception: each line has the prefix.
LOGGED = f"{CORE}EngineCore failed to start.\n{CORE}Traceback (most recent call last):\n{CORE}  File x, line 1\n{CORE}"
FATAL = LOGGED.replace("EngineCore failed to start.", "EngineCore encountered a fatal error.")
REFUSED = f"{TRACEBACK}pydantic_core._pydantic_core.ValidationError: 1 validation error for "
# What it prints after a cause.
PARALLEL = REFUSED + "ParallelConfig\n  Value error, "
MODEL = REFUSED + "ModelConfig\n  Value error, "
WHOLE = REFUSED + "VllmConfig\n  Value error, "
SPECULATIVE = REFUSED + "SpeculativeConfig\n"
VALUE = " [type=value_error, input_value=ArgsKwargs((), {'model': ..., 'max': None}), input_type=ArgsKwargs]"

CAUSES = [
    # As 0.32.0 prints them.
    ("usage: vllm [-h] [-v]\nvllm: error: unrecognized arguments: --bogus-option", "option_unrecognized"),
    (
        "vllm serve: error: argument --max-num-batched-tokens: invalid human_readable_int value: 'abc'",
        "option_value",
    ),
    (
        f"{SPECULATIVE}bogus\n  Unexpected keyword argument [type=unexpected_keyword_argument, input_value=1]",
        "speculative_key_unknown",
    ),
    (
        f"{MODEL}User-specified max_model_len (900000) is greater than the derived max_model_len "
        "(max_position_embeddings=8192.0 or model_max_length=None in model's config.json). To allow overriding this "
        f"maximum, set the env var VLLM_ALLOW_LONG_MAX_MODEL_LEN=1.{VALUE}",
        "context_too_long",
    ),
    (f"{TRACEBACK}NotImplementedError: Unsupported speculative method: 'mtp'", "mtp_absent"),
    (f"{TRACEBACK}KeyError: 'invalid tool call parser: nope (chose from {{ apertus,xlam }})'", "tool_parser_unknown"),
    (f"{MODEL}Unknown quantization method: nvfp4. Must be one of ['awq', 'fp8'].{VALUE}", "quantization_unknown"),
    (
        f"{LOGGED}ValueError: To serve at least one request with the model's max seq len (2048), (0.06 GiB KV cache is "
        "needed, which is larger than the available KV cache memory (0.0 GiB).",
        "cache_too_small",
    ),
    # As its source has them.
    ("vllm serve: error: argument --port: Port must be between 1024 and 65535", "port_outside"),
    (
        f"{SPECULATIVE}  Value error, 'tensor_parallel_size' is not a valid argument in the speculative_config. Please "
        f"pass 'draft_tensor_parallel_size' instead.{VALUE}",
        "draft_tensor_parallel",
    ),
    (
        f"{SPECULATIVE}  Value error, num_speculative_tokens was provided but without speculative model.{VALUE}",
        "draft_model_absent",
    ),
    (
        f"{SPECULATIVE}  Value error, A speculative model was provided, but `num_speculative_tokens` was not provided"
        f"{VALUE}",
        "draft_length_absent",
    ),
    (
        f"{SPECULATIVE}  Value error, num_speculative_tokens must be provided with speculative model unless the draft "
        f"model config contains an n_predict parameter.{VALUE}",
        "draft_length_absent",
    ),
    (
        f"{SPECULATIVE}  Value error, num_speculative_tokens:3 must be divisible by n_predict=2{VALUE}",
        "draft_length_multiple",
    ),
    (f"{WORKER}RuntimeError: Model does not support EAGLE3 interface", "eagle3_unfit"),
    (
        f"{SPECULATIVE}  Value error, Target and draft model should have the same vocabulary size. Target model "
        f"vocab_size=151936.{VALUE}",
        "vocabularies_differ",
    ),
    (
        f"{SPECULATIVE}  Value error, Arctic Inference is required for suffix decoding. Install via `pip install "
        f"arctic-inference==0.1.1`.{VALUE}",
        "suffix_package",
    ),
    (f"{WHOLE}Model Runner V1 does not support: dspark speculative decoding{VALUE}", "runner_v1"),
    # 0.27 and 0.28.
    (f"{WORKER}ValueError: Unknown speculative decoding method: dspark", "runner_v1"),
    (f"{WHOLE}Async scheduling is not supported by the V1 model runner with ngram{VALUE}", "async_scheduling"),
    (
        f"{WHOLE}Currently, async scheduling is only supported with EAGLE/MTP/Draft Model/NGram GPU{VALUE}",
        "async_scheduling",
    ),
    (
        f"{WHOLE}VllmConfig does not have enough slots to schedule a token and support the speculative decoding "
        f"settings.{VALUE}",
        "draft_slots",
    ),
    # All that 0.24 to 0.27 say of it.
    (
        f"{WHOLE}max_num_scheduled_tokens is set to -8 based on the speculative decoding settings, which does not "
        "allow any tokens to be scheduled. Increase max_num_batched_tokens to accommodate the additional draft token "
        f"slots, or decrease num_speculative_tokens or max_num_seqs.{VALUE}",
        "draft_slots",
    ),
    (
        f"{MODEL}Model architectures ['DFlashX'] are not supported for now. Supported architectures: a, b{VALUE}",
        "architecture_unknown",
    ),
    (
        f"{MODEL}The checkpoint you are trying to load has model type `x` but Transformers does not recognize this "
        f"architecture.{VALUE}",
        "architecture_unknown",
    ),
    (
        f"{MODEL}Model architectures ['X'] failed to be inspected. Please check the logs for more details.{VALUE}",
        "architecture_broken",
    ),
    (f"{TRACEBACK}ValueError: Invalid repository ID or local directory specified: '/x'.", "model_path"),
    (f"{LOGGED}RuntimeError: Cannot find any model weights with `/model`", "weights_absent"),
    (f"{LOGGED}ValueError: Load format `instant` is not supported", "load_format"),
    (
        f"{MODEL}Quantization method specified in the model config (fp8) does not match the quantization method "
        f"specified in the `quantization` argument (awq).{VALUE}",
        "quantization_differs",
    ),
    (
        f"{WHOLE}The quantization method x is not supported for the current GPU. Minimum capability: 130. Current "
        f"capability: 121.{VALUE}",
        "quantization_gpu",
    ),
    (f"{LOGGED}ValueError: No NvFp4 MoE backend supports the deployment configuration.", "moe_backend"),
    (
        f"{LOGGED}ValueError: NvFp4 MoE backend 'FLASHINFER_TRTLLM' does not support the deployment configuration "
        "since kernel does not support current device cuda.",
        "moe_backend",
    ),
    (
        f"{LOGGED}RuntimeError: Assertion error (deepgemm-src/csrc/apis/hyperconnection.hpp:56): Unsupported "
        "architecture",
        "deepseek_v4_kernels",
    ),
    (f"{LOGGED}RuntimeError: Check failed: num_tokens > 64 (5 vs 64)", "deepseek_v4_kernels"),
    (f"{LOGGED}ImportError: Install the b12x backend with `pip install vllm[b12x]`", "b12x_absent"),
    (f"{LOGGED}RuntimeError: No compiled nvfp4 quantization kernel", "nvfp4_kernels"),
    (f"{LOGGED}RuntimeError: Assertion error (deepgemm.hpp:9): Unknown recipe", "deep_gemm"),
    (
        f"{LOGGED}ValueError: Selected backend AttentionBackendEnum.FLASHMLA is not valid for this configuration. "
        "Reason: ['compute capability not supported']",
        "attention_backend",
    ),
    (f"{LOGGED}ValueError: No valid attention backend found for NVIDIA GB10 with x.", "attention_backend"),
    (
        f"{MODEL}Total number of attention heads (64) must be divisible by tensor parallel size (3).{VALUE}",
        "heads_indivisible",
    ),
    (
        f"{PARALLEL}World size (2) is larger than the number of available GPUs (1) in this node.{VALUE}",
        "nodes_absent",
    ),
    (f"{TRACEBACK}ValueError: `--nnodes 2` must evenly divide the total world size (1).", "nodes_uneven"),
    (f"{PARALLEL}`--node-rank` must be between 0 and 1; got 2.{VALUE}", "node_rank"),
    (
        f"{TRACEBACK}TypeError: Error: --enable-auto-tool-choice requires --tool-call-parser",
        "tool_parser_absent",
    ),
    (
        f"{TRACEBACK}KeyError: \"Reasoning parser 'nope' not found. Available parsers: a, b\"",
        "reasoning_parser_unknown",
    ),
    (
        f"{LOGGED}ValueError: Free memory on device cuda:0 (109.53/121.69 GiB) on startup is less than desired GPU "
        "memory utilization (0.91, 110.74 GiB). Decrease GPU memory utilization or reduce GPU memory used by other "
        "processes.",
        "memory_share",
    ),
    (f"{LOGGED}ValueError: No available memory for the cache blocks. Try increasing it", "cache_no_memory"),
    (
        f"{LOGGED}AssertionError: Error in memory profiling. Initial free memory 90 GiB, current free memory 99 GiB.",
        "memory_moved",
    ),
    (
        f"{TRACEBACK}    self._semlock = _multiprocessing.SemLock._rebuild(*state)\n"
        "FileNotFoundError: [Errno 2] No such file or directory",
        "semaphores_removed",
    ),
    (f"{TRACEBACK}AssertionError: collective_rpc should not be called on follower node", "follower_call"),
    (
        f"{TRACEBACK}TimeoutError: Timed out waiting for engine core processes to start. This is often caused by slow "
        "weight loading for large models. Waited 600s (configured by VLLM_ENGINE_READY_TIMEOUT_S).",
        "ready_timeout",
    ),
    (f"{LOGGED}RuntimeError: NCCL error: unhandled system error", "nccl_failed"),
    (
        f"{LOGGED}RuntimeError: Gloo connectFullMesh failed with [../gloo/transport/tcp/pair.cc:144] no error",
        "rendezvous",
    ),
    (
        "[rank0]: torch.distributed.DistStoreError: Timed out after 601 seconds waiting for clients. 1/2 clients"
        " joined.",
        "rendezvous",
    ),
    (
        "[rank1]:[E1128 04:25:44.180000 55 ProcessGroupNCCL.cpp:683] [Rank 1] Watchdog caught collective operation "
        "timeout: WorkNCCL(SeqNum=7) ran for 600000 milliseconds before timing out.",
        "collective_timeout",
    ),
    (f"{CORE}RuntimeError: [../pair.cc:553] Connection closed by peer [10.0.0.2]:33092", "rank_hung_up"),
    (
        f"{API}ValueError: As of transformers v4.44, default chat template is no longer allowed, so you must provide a "
        "chat template",
        "chat_template_absent",
    ),
    (f"{CORE}TimeoutError: RPC call to sample_tokens timed out.", "engine_step_timeout"),
    (f"{CORE}TimeoutError: RPC call to execute_model timed out.", "engine_step_timeout"),
    (f"{CORE}RuntimeError: Did not receive response from front-end process within 5 minutes", "front_lost"),
    (
        f"{CORE}Worker proc VllmWorker-0 died unexpectedly (exit code: -9), shutting down executor.",
        "worker_died",
    ),
    # As 0.32.0 ends when its engine is killed.
    (
        "(APIServer pid=1) WARNING 11-28 04:20:47 [core_client.py:817] [shutdown] MPClient: engine core exited "
        "unexpectedly; starting cleanup\n"
        f"{API}AsyncLLM output_handler failed.\n{API}Traceback (most recent call last):\n"
        f'{API}  File "async_llm.py", line 849, in output_handler\n{API}    outputs = await get_output_async()\n'
        f"{API}              ^^^^^^^^^^^^^^^^^^\n"
        f"{API}vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue. See stack trace (above) for "
        "the root cause.\nINFO:     Finished server process [1]",
        "core_killed",
    ),
    # Of the rows that any engine may have.
    (f"{TRACEBACK}OSError: [Errno 98] Address already in use", "port_in_use"),
    (f"{TRACEBACK}RuntimeError: Could not find open port after 10 attempts", "port_in_use"),
    (f"{LOGGED}torch.AcceleratorError: CUDA error: out of memory", "memory_cuda"),
    (f"{TRACEBACK}RuntimeError: Failed to infer device type, please set the environment variable", "gpu_absent"),
    (f"{LOGGED}RuntimeError: CUDA driver error: cudaErrorUnsupportedPtxVersion", "cuda_newer"),
    (
        "RuntimeError: Unexpected error from cudaGetDeviceCount(). Error 803: system has unsupported display driver / "
        "cuda driver combination",
        "cuda_driver",
    ),
    (
        f"{LOGGED}torch.AcceleratorError: CUDA error: no kernel image is available for execution on the device",
        "cuda_architecture",
    ),
    (f"{LOGGED}torch.AcceleratorError: CUDA error: an illegal memory access was encountered", "illegal_memory_access"),
    (f"{MODEL}Input should be a valid integer [type=int_type, input_value='x', input_type=str]", "engine_option_value"),
]
WRAPPERS = [
    (
        f"{TRACEBACK}RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {{}}",
        "core_not_started",
    ),
    (
        f"{TRACEBACK}Exception: WorkerProc initialization failed due to an exception in a background process. See "
        "stack trace for root cause.",
        "worker_not_started",
    ),
    (f"{WORKER}WorkerProc failed to start.", "worker_not_started"),
    (
        f"{CORE}Worker proc VllmWorker-0 died unexpectedly (exit code: 0), shutting down executor.",
        "worker_not_started",
    ),
    # 0.24 says no exit code.
    (f"{CORE}Worker proc VllmWorker-0 died unexpectedly, shutting down executor.", "worker_not_started"),
    (f"{CORE}EngineCore encountered a fatal error.", "core_died"),
    # What 0.24 to 0.32 raise in the engine, busy or idle, after a worker has ended.
    (f"{FATAL}RuntimeError: cancelled", "core_died"),
    (f"{FATAL}RuntimeError: Executor failed.", "core_died"),
    # Of the supervisor of the front end in Rust, with VLLM_USE_RUST_FRONTEND=1.
    ("RuntimeError: Engine core process EngineCore died unexpectedly.", "core_died"),
]
REMARKS = [
    (f"{API}Request cmpl-9bd441-0 failed with an internal error during generation", "request_failed"),
    (f"{API}Error in chat completion stream generator.", "request_failed"),
    (f"{API}Error in completion stream generator.", "request_failed"),
    (f"{API}Exception caught. Request id: None", "request_failed"),
    ("ERROR:    Exception in ASGI application", "request_failed"),
    (f"{INFO}No available shared memory broadcast block found in 60 seconds.", "broadcast_waits"),
    (f"{INFO}Unknown vLLM environment variable detected: VLLM_USE_V1", "variable_unknown"),
    (
        f"{INFO}SpecDecoding metrics: Mean acceptance length: 1.00, Accepted throughput: 0.00 tokens/s, Drafted "
        "throughput: 9.00 tokens/s, Accepted: 0 tokens, Drafted: 90 tokens, Per-position acceptance rate: 0.000, 0.000",
        "drafts_rejected",
    ),
    (f"{INFO}vLLM is using nccl==2.28.9", "nccl_hangs"),
    (f"{INFO}Enforce eager set, disabling torch.compile, CUDAGraphs, and JIT kernel warmup.", "eager"),
    (
        f"{INFO}The draft model's max_model_len (2048) is smaller than the target model's, reducing max_model_len to "
        "2048.",
        "context_reduced",
    ),
    (
        f"{INFO}The dflash draft pass needs 8 query tokens per request within 2048 batched tokens",
        "concurrency_reduced",
    ),
    (
        f"{INFO}Enabling num_speculative_tokens > 1 will run multiple times of forward on same MTP layer,which may "
        "result in lower acceptance rate",
        "mtp_repeated",
    ),
    (
        f"{INFO}Model Runner V2 does not yet support suffix; using the V1 model runner instead.",
        "engine_adjusted",
    ),
    (f"{INFO}method `qwen3_5_mtp` is deprecated and replaced with mtp.", "engine_adjusted"),
]

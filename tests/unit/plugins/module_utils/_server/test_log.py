# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import time
from pathlib import Path

import pytest
from ansible_collections.dgx_spark.speculative.plugins.module_utils._engines.registry import START_MARKERS
from ansible_collections.dgx_spark.speculative.plugins.module_utils._server import log as server_log

FIXTURES = Path(__file__).parents[3] / "fixtures"


def fixture(name: str) -> str:
    with (FIXTURES / f"server_log_{name}.txt").open(encoding="utf-8", newline="") as file:
        return file.read()


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("unknown_option", "speculative_config.Eagle3.max_draft_length: Extra inputs are not permitted"),
        ("invalid_argument", "_TrtLLM got invalid argument: disable_overlap_scheduler"),
        (
            "memory",
            "Failed to initialize executor on rank 0: Executor creation failed due to insufficient GPU memory."
            " The following component could not be created: KV cache",
        ),
        ("traceback", "KeyError: 'midlayer.input_layernorm.weight'"),
        ("two_runs", "Error: No such option: --config"),
        (
            "vllm_memory",
            "ValueError: To serve at least one request with the model's max seq len (2048), (0.06 GiB KV cache is"
            " needed, which is larger than the available KV cache memory (0.0 GiB). Try increasing"
            " `gpu_memory_utilization` (which also controls CPU memory on the CPU backend) or decreasing"
            " `max_model_len` when...",
        ),
        (
            "vllm_worker_killed",
            "Worker proc VllmWorker-0 died unexpectedly (exit code: -9), shutting down executor.",
        ),
        ("ready", None),
        ("vllm_ready", None),
        ("loading", None),
    ],
)
def test_cause_line(name: str, line: str | None) -> None:
    assert server_log.cause_line(fixture(name)) == line


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", None),
        ("Executor worker died during initialization", "Executor worker died during initialization"),
        (
            "[TRT-LLM] [E] Failed to parse the arguments for the LLM constructor:\nmax_batch_size must be positive\n",
            "max_batch_size must be positive",
        ),
        ("serve.sh: line 9: x: No such file or directory\nbye", "serve.sh: line 9: x: No such file or directory"),
        ("INFO: fine\n[11/20/2025-16:31:05] [TRT-LLM] [E] the engine gave up\nbye", "the engine gave up"),
        (
            "ValidationError: 1 validation error for TorchLlmArgs\nmax_batch_size\n"
            "  Input should be a valid integer [type=int_type, input_value='x', input_type=str]",
            "max_batch_size: Input should be a valid integer",
        ),
        (
            "Failed to load weights: Executor creation failed due to insufficient GPU memory.\n\n"
            "The following component could not be created: KV cache\n",
            "Failed to load weights: Executor creation failed due to insufficient GPU memory."
            " The following component could not be created: KV cache",
        ),
        (
            "[TRT-LLM] [E] Health check detected fatal engine error, initiating server shutdown: the pool is gone\n"
            "INFO:     Finished server process [71]\nAborted!\n",
            "the pool is gone",
        ),
        ("a 403 here\n", None),
        # Each line of a logged traceback has the level of an error, and a wrapper's text is no reason.
        (
            "(EngineCore pid=38) ERROR 11-28 04:25:44 [core.py:1510] EngineCore failed to start.\n"
            "(EngineCore pid=38) ERROR 11-28 04:25:44 [core.py:1510] Traceback (most recent call last):\n"
            '(EngineCore pid=38) ERROR 11-28 04:25:44 [core.py:1510]   File "x.py", line 9, in start\n'
            "(EngineCore pid=38) ERROR 11-28 04:25:44 [core.py:1510] KeyError: 'lm_head.weight'\n"
            "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}\n",
            "KeyError: 'lm_head.weight'",
        ),
        (
            "(APIServer pid=1) ERROR 11-28 04:20:47 [async_llm.py:906] AsyncLLM output_handler failed.\n"
            "(APIServer pid=1) ERROR 11-28 04:20:47 [async_llm.py:906] Traceback (most recent call last):\n"
            '(APIServer pid=1) ERROR 11-28 04:20:47 [async_llm.py:906]   File "x.py", line 9, in output_handler\n'
            "(APIServer pid=1) ERROR 11-28 04:20:47 [async_llm.py:906]     raise self._format_exception(outputs)\n"
            "(APIServer pid=1) ERROR 11-28 04:20:47 [async_llm.py:906] vllm.v1.engine.exceptions.EngineDeadError:"
            " EngineCore encountered an issue. See stack trace (above) for the root cause.\n",
            "vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue. See stack trace (above) for"
            " the root cause.",
        ),
        ("[entrypoint] Error: no line of the server's\n", None),
        ("Error: " + "x" * 400, "Error: " + "x" * 290 + "..."),
    ],
)
def test_cause_line_of_small_logs(text: str, line: str | None) -> None:
    assert server_log.cause_line(text) == line


ANSWERED = 'INFO:     127.0.0.1:41 - "POST /v1/chat/completions HTTP/1.1" 200 OK\n'
PROBED = 'INFO:     127.0.0.1:41 - "POST /v1/completions?asked-by=watchdog HTTP/1.1" 200 OK\n'
API = "(APIServer pid=1) ERROR 11-28 04:20:47 [serving.py:203] "
ONE_REQUEST = f"{API}Request cmpl-1 failed with an internal error during generation\n"
ITS_TRACEBACK = (
    f"{API}Error in completion stream generator.\n{API}Traceback (most recent call last):\n"
    f"{API}  File x\n{API}KeyError: 'logprobs'\n"
)
KILLED = (
    "(APIServer pid=1) WARNING 11-28 04:20:47 [core_client.py:817] [shutdown] MPClient: engine core exited "
    "unexpectedly; starting cleanup\n"
)


@pytest.mark.parametrize("answered", ["", ANSWERED, PROBED])
@pytest.mark.parametrize("before", [ONE_REQUEST, ITS_TRACEBACK, f"{API}Request cmpl-1 failed strangely\n"])
def test_the_error_of_one_request_does_not_hide_the_end_of_the_engine(before: str, answered: str) -> None:
    cause = server_log.reason(f"{before}{answered}{KILLED}INFO:     Finished server process [1]\n")
    assert cause is not None
    assert getattr(cause.problem, "id", None) == "core_killed"


def test_an_error_after_which_the_server_has_answered_is_not_why_it_ended() -> None:
    """But what is known counts more than what is not."""
    known, strange = "CUDA error: an illegal memory access was encountered\n", f"{API}KeyError strange\n"
    gone = "[TRT-LLM] [E] the pool is gone\n"
    for before, after in ((known, KILLED), (strange, KILLED), (strange, gone)):
        assert server_log.cause_line(before + ANSWERED + after) == server_log.cause_line(after)
    assert server_log.cause_line(known + ANSWERED + gone) == server_log.cause_line(known)
    assert server_log.cause_line(ITS_TRACEBACK) == "KeyError: 'logprobs'"
    # A stream is logged when it begins.
    log = (
        f"{API}Traceback (most recent call last):\n{API}KeyError: 'x'\n{ANSWERED}{API}AsyncLLM output_handler failed.\n"
    )
    assert server_log.cause_line(log) == "KeyError: 'x'"


def test_each_part_of_a_line_is_known_by_its_own_row() -> None:
    for row in server_log.ROWS:
        for part in row.substrings:
            assert server_log.problem_for(part) is row


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("loading", server_log.Progress(60.0, "loading weights 3 of 5")),
        ("ready", server_log.Progress(None, "listening")),
        ("vllm_ready", server_log.Progress(None, "engine up, starting HTTP")),
        ("vllm_memory", server_log.Progress(None, "allocating the KV cache")),
        ("two_runs", server_log.Progress(None, "waiting: Compute capability: (12, 1)")),
    ],
)
def test_loading_progress(name: str, expected: server_log.Progress) -> None:
    assert server_log.loading_progress(fixture(name)) == expected


def loading_texts(name: str) -> list[str]:
    """Return what a log says of the loading, line by line."""
    lines = fixture(name).splitlines(keepends=True)
    texts: list[str] = []
    for count in range(1, len(lines) + 1):
        progress = server_log.loading_progress("".join(lines[:count]))
        if progress and progress.text not in texts:
            texts.append(progress.text)
    return texts


def test_loading_progress_follows_the_steps() -> None:
    assert loading_texts("ready") == [
        "waiting: TensorRT LLM version: 1.3.0rc12",
        "starting the workers",
        "loading weights 1190 of 1190",
        "weights loaded, preparing the engine",
        "allocating the KV cache",
        "engine up, starting HTTP",
        "listening",
    ]


@pytest.mark.parametrize(
    "line",
    [
        "INFO 11-28 04:25:44 [kernel_warmup.py:310] Running FlashInfer autotune with 8192 tokens and token buckets 1.",
        # 0.24 to 0.28 say nothing themselves.
        "2026-08-23 08:10:28,622 - INFO - autotuner.py - flashinfer.jit: [Autotuner]: Autotuning process starts ...",
    ],
)
def test_tuning_of_kernels_is_a_step_in_any_release(line: str) -> None:
    start = "(APIServer pid=1) INFO 11-28 04:20:47 [utils.py:1] non-default args: {}\n"
    found = server_log.loading_progress(f"{start}(EngineCore pid=79) {line}\n")
    assert (found and found.text) == "tuning kernels"


def test_loading_progress_of_vllm() -> None:
    assert [text for text in loading_texts("vllm_ready") if not text.startswith("waiting: ")] == [
        "reading the options",
        "starting the engine",
        "starting the workers",
        "reading the weights from disk",
        "loading weights 0 of 1",
        "loading weights 1 of 1",
        "loading weights",
        "loading the draft model",
        "allocating the KV cache",
        "engine up, starting HTTP",
    ]


def test_each_start_of_a_log_is_one_line() -> None:
    marks = [line for line in fixture("vllm_ready").splitlines() if any(mark in line for mark in START_MARKERS)]
    assert len(marks) == 1
    # What failed before it was started again is no matter of the new start.
    text = f"{fixture('vllm_memory')}\n{fixture('vllm_ready')}"
    assert server_log.remarks(text) == server_log.remarks(fixture("vllm_ready"))


def test_loading_progress_of_nothing() -> None:
    assert server_log.loading_progress("") is None
    assert server_log.loading_progress("\n-----\n[entrypoint] hello\n") is None


BEGIN = "[entrypoint] the server starts\n"


@pytest.mark.parametrize("name", ["ready", "vllm_ready", "vllm_memory"])
def test_a_start_has_nothing_of_the_life_before_it(name: str) -> None:
    """One that was stopped in order has not written that it ended."""
    before = fixture(name)
    assert server_log.loading_progress(before + BEGIN) is None
    warning = "W1128 04:15:58.780000 1 torch/_library/triton.py:53] Triton not available\n"
    found = server_log.loading_progress(before + BEGIN + warning)
    assert found == server_log.Progress(None, "waiting: Triton not available")
    assert server_log.after_last_end(before + BEGIN + warning) == warning
    # Nor has its end.
    end = "[entrypoint] the server ended with exit code 1\n"
    assert server_log.cause_line(f"{before}{BEGIN}Error: no room\n{end}") == "Error: no room"
    assert server_log.cause_line(f"{before}{BEGIN}{end}") is None


def test_strip_noise() -> None:
    text = "a\r\n\x1b[32mb\x1b[0m\nold\rnew\nLoading weights:  10%|█         | 1/10 [00:01<00:09]\n------\n\nc"
    assert server_log.strip_noise(text) == "a\nb\nnew\nc"
    shards = "\rLoading safetensors checkpoint shards:  50% Completed | 1/2 [00:00<00:00,  1.41it/s]\n"
    assert server_log.strip_noise(f"(Worker_TP0 pid=55) INFO x\n{shards}(EngineCore pid=8) b\n(c pid=) d") == (
        "INFO x\nb\n(c pid=) d"
    )


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("[11/20/2025-16:31:05] [TRT-LLM] [RANK 0] [I] Using Sampler: X", "Using Sampler: X"),
        ("INFO:     Application startup complete.", "Application startup complete."),
        ("[TensorRT-LLM][ERROR] broken", "broken"),
        ("INFO 11-28 04:18:49 [kv_cache_utils.py:2327] CPU KV cache size", "CPU KV cache size"),
        ("ERROR 11-28 04:18:49 [v1/.../core.py:23]   File x", "File x"),
        ("W1128 04:15:58.780000 1 torch/_library/triton.py:53] Triton not available", "Triton not available"),
        ("[rank1]:[E1128 04:25:44.180000 55 ProcessGroupNCCL.cpp:683] [Rank 1] Watchdog", "[Rank 1] Watchdog"),
        ("[rank0]: ValueError: x", "ValueError: x"),
        ("plain", "plain"),
    ],
)
def test_clean_line(line: str, message: str) -> None:
    assert server_log.clean_line(line) == message


def test_looks_at_the_server_are_noise_and_questions_are_not() -> None:
    log = "\n".join(
        [
            'INFO:     127.0.0.1:39366 - "GET /health HTTP/1.1" 200 OK',
            'INFO:     127.0.0.1:39366 - "GET /health HTTP/1.1" 503 Service Unavailable',
            'INFO:     127.0.0.1:39368 - "GET /v1/models HTTP/1.1" 200 OK',
            'INFO:     127.0.0.1:39368 - "GET /metrics HTTP/1.1" 200 OK',
            'INFO:     127.0.0.1:39370 - "POST /v1/completions?asked-by=watchdog HTTP/1.1" 200 OK',
            'INFO:     127.0.0.1:39372 - "POST /v1/chat/completions HTTP/1.1" 200 OK',
        ]
    )
    assert [line.split('"')[1] for line in server_log.strip_noise(log).splitlines()] == [
        "GET /health HTTP/1.1",
        "POST /v1/chat/completions HTTP/1.1",
    ]


@pytest.mark.parametrize("text", ["x", "Loading: ", " ", "\x1b[", "[1,1]<", "ERROR: ", "1%|", "A."])
def test_a_line_without_an_end_takes_no_time(text: str) -> None:
    log = text * (1_000_000 // len(text)) + "\nRuntimeError: CUDA out of memory\n"
    # Of this thread: what else the machine does takes time, too.
    begin = time.thread_time()
    server_log.strip_noise(log)
    server_log.loading_progress(log)
    assert "out of memory" in (server_log.cause_line(log) or "")
    assert time.thread_time() - begin < 10

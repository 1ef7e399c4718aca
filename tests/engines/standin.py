# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Serve the routes of the stand-in for trtllm-serve on a port of this machine, without GPU, image or checkpoint."""

from __future__ import annotations

import dataclasses
import threading
import typing as t
from pathlib import Path

import uvicorn

from tests.twin.trtllm.server import api, engine
from tests.twin.trtllm.server.loading import Limits
from tests.twin.trtllm.server.machine import Faults, Gpu
from tests.twin.trtllm.server.options import TorchLlmArgs
from tests.twin.trtllm.server.release import RELEASE
from tests.twin.trtllm.server.runtime import Job, Runtime
from tests.unit.replay_server import free_port
from tests.unit.waiting import until

CORPUS = Path(api.__file__).with_name("corpus.txt")
LIMITS = Limits(
    max_batch_size=8, max_num_tokens=4096, max_seq_len=4096, chunked_prefill=True, kv_blocks=512, tokens_per_block=32
)
MODEL = "stand-in"


class Greedy(api.Server):
    """A server whose answers do not change from run to run, whatever temperature a client chooses."""

    def chat_job(self, request: api.ChatCompletionRequest) -> Job:
        """Return the job of a chat without a random choice."""
        return dataclasses.replace(super().chat_job(request), sampling=engine.Sampling(temperature=0.0))


class StandIn:
    """A server of the stand-in in a thread: gpt-oss with its harmony adapter, or another model with parsers."""

    def __init__(self, *, harmony: bool) -> None:
        self.url = f"http://127.0.0.1:{free_port()}"
        gpu = Gpu(pass_ms=0.0, draft_ms=0.0, prefill_us=0.0)
        options: dict[str, t.Any] = {} if harmony else {"reasoning_parser": "deepseek-r1"}
        args = TorchLlmArgs(model=MODEL, **options)
        runtime = Runtime(engine.read_corpus(CORPUS), gpu, LIMITS, None, Faults)
        server = Greedy(runtime, args, MODEL, RELEASE, harmony, tool_parser=None if harmony else "qwen3")
        # The vocabularies of the adapter are files of an image.
        server.vocabularies_checked = True
        self.app = api.create(server)
        port = int(self.url.rpartition(":")[2])
        self._uvicorn = uvicorn.Server(uvicorn.Config(self.app, port=port, log_level="warning"))
        self._thread = threading.Thread(target=self._uvicorn.run)
        self._thread.start()
        until(lambda: self._uvicorn.started)

    def close(self) -> None:
        """End the server and its thread."""
        self._uvicorn.should_exit = True
        self._thread.join()

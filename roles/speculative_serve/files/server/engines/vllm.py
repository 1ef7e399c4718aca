# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""vLLM in its container."""

from __future__ import annotations

import re

from server.engines.engine import OWN_PROCESS, Engine
from server.libraries import distribution

KV_CACHE = re.compile(rb"KV cache size: ([0-9,]+) tokens")
# In the engine options, as the playbook writes them: tokens of a conversation, and conversations at once.
CONVERSATION = re.compile(r"^max-model-len: ([0-9]+)$", re.MULTILINE)
CONVERSATIONS = re.compile(r"^max-num-seqs: ([0-9]+)$", re.MULTILINE)


class CacheLines:
    """The KV cache by the log of a server."""

    def __init__(self) -> None:
        self.tokens: int | None = None

    def hear(self, line: bytes) -> None:
        if match := KV_CACHE.search(line):
            self.tokens = int(match[1].replace(b",", b""))


def cache_planned(options: str) -> int | None:
    """Return the tokens of all conversations together, since the options have the cache in bytes."""
    each, many = CONVERSATION.search(options), CONVERSATIONS.search(options)
    return int(each[1]) * int(many[1]) if each and many else None


def versions() -> dict[str, str | None]:
    return {"vLLM": distribution("vllm")}


VLLM = Engine(
    name="vllm",
    launcher=OWN_PROCESS,
    variables=("VLLM_HOST_IP", "GLOO_", "TP_SOCKET_IFNAME"),
    per_spark=("VLLM_HOST_IP", "GLOO_SOCKET_IFNAME", "TP_SOCKET_IFNAME"),
    versions=versions,
    front="vllm",
    metrics="/metrics",
    figures="vllm:",
    running="vllm:num_requests_running",
    all_read=(b"Model loading took",),
    # The first is the launcher's: an engine that has lost another Spark's rank dies of that.
    last_words=(
        r"^\[ranks\] the rank on the worker .*",
        r"Worker proc \S+ died unexpectedly.*",
        "engine core exited unexpectedly.*",
        "EngineDeadError: .*",
    ),
    cache_planned=cache_planned,
    cache_lines=CacheLines,
)

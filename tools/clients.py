# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""List the clients that `make engines` tries, and where vLLM differs from the vendors' specifications."""

from __future__ import annotations

import typing as t
from pathlib import Path

import yaml

from tests.engines.conversations import PARTS
from tests.twin.names import VLLM_TAG

HERE = Path(__file__).resolve().parent.parent / "tests/engines"
# The packages of the conversations, by the first word of their parts.
PACKAGES = {
    "openai": "openai",
    "langchain": "langchain-openai",
    "llm": "llm",
    "litellm": "litellm",
    "anthropic": "anthropic",
}
# What the parts of a conversation are called, in this order. vLLM or the proxy refuses the others.
WORDS = {
    "chat": "chat",
    "chat_stream": "stream",
    "stream": "stream",
    "tool": "tool call",
    "completion": "completion",
    "responses": "response",
    "count": "count of tokens",
}
ROUTES = {
    "openai-chat": "/v1/chat/completions",
    "open-responses": "/v1/responses",
    "anthropic": "/v1/messages",
}
VLLM = VLLM_TAG.removeprefix("v")


def versions() -> dict[str, str]:
    """Return the version of each package."""
    lines = (HERE / "requirements.txt").read_text(encoding="utf-8").splitlines()
    pairs = [line.partition("==") for line in lines if not line.startswith("#")]
    return {name: version for name, _, version in pairs}


def packages() -> t.Iterator[tuple[str, str, str]]:
    """Yield the rows of the clients: package, version, and what was tried."""
    found = versions()
    names = {part.__name__ for part in PARTS}
    for client, package in PACKAGES.items():
        tried = dict.fromkeys(word for part, word in WORDS.items() if f"{client}_{part}" in names)
        yield f"`{package}`", found[package], ", ".join(tried)


def deviations() -> t.Iterator[tuple[str, str]]:
    """Yield the rows of the differences: route, and a sentence."""
    known = yaml.safe_load((HERE / "llm_comply.yml").read_text(encoding="utf-8"))["vllm"]
    for format_, route in ROUTES.items():
        for deviation in known[format_]:
            if not deviation.get("setup"):
                yield f"`{route}`", deviation["why"]
    for deviation in yaml.safe_load((HERE / "openai_tests.yml").read_text(encoding="utf-8")):
        if "route" in deviation:
            yield f"`{deviation['route']}`", deviation["why"]

# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The real vLLM answers the modules of this collection. Its model is small and has little knowledge."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.dgx_spark.speculative.plugins.modules import completions_probe

from tests.engines.server import Server
from tests.twin.vllm import build
from tests.unit import modules

# Seconds of one wait, between which the container has to run, and their number.
WAIT_S, WAITS = 10, 90
NGRAM = {"method": "ngram", "num_speculative_tokens": 4, "prompt_lookup_max": 4, "prompt_lookup_min": 2}
# A text that the model goes on with on any processor, so that a draft finds a part of it in the prompt.
LIST = " ".join(["red, green, blue, yellow, orange, purple, black, white,"] * 5)


@pytest.fixture(name="start", scope="module")
def fixture_start(tmp_path_factory: pytest.TempPathFactory) -> t.Iterator[t.Callable[..., Server]]:
    """Start servers, which are removed again."""
    tag = build.build()
    model, servers = build.checkpoint(tag), []

    def start(**options: t.Any) -> Server:
        server = Server(tag, model, tmp_path_factory.mktemp("serve"), **options)
        servers.append(server)
        return server

    yield start
    for server in servers:
        server.close()


@pytest.fixture(name="plain", scope="module")
def fixture_plain(start: t.Callable[..., Server]) -> Server:
    return start()


@pytest.fixture(name="drafting", scope="module")
def fixture_drafting(start: t.Callable[..., Server]) -> Server:
    return start(**{"speculative-config": NGRAM})


def probe(server: Server, **arguments: t.Any) -> dict[str, t.Any]:
    """Return what completions_probe says of a server, once it has loaded."""
    for _wait in range(WAITS):
        result = modules.run(completions_probe, {"url": server.url, "wait": WAIT_S, **arguments})
        if result["state"] in ("ready", "ready_without_speculation"):
            return result
        assert server.runs(), server.log()[-3000:]
    pytest.fail(f"{result}\n{server.log()[-3000:]}")


def test_it_answers_and_is_measured(plain: Server) -> None:
    # A short answer may come in one chunk, which has no speed.
    result = probe(plain, prompt=LIST, kind="completion", max_tokens=64)
    assert (result["http"]["models"], result["http"]["version"]) == (["smollm2"], "0.32.0")
    # Such an answer may repeat itself.
    assert {finding["id"] for finding in result["findings"]} <= {"repetition"}
    measured = result["measurements"]
    assert measured["completion_tokens"] == 64
    assert 0 < measured["tokens_per_second"] < 1000


def test_it_calls_a_tool(plain: Server) -> None:
    result = probe(plain, prompt="What does a CPU do?", tools=True)
    assert result["tool_call"]["name"] == "get_weather"


def test_accepted_drafts_are_those_that_it_counts_itself(drafting: Server) -> None:
    probe(drafting, prompt="What does a CPU do?", max_tokens=32)
    before = drafting.counters()
    result = probe(drafting, prompt=LIST, kind="completion", max_tokens=96, speculation=True)
    after = drafting.counters()
    accepted = after["spec_decode_num_accepted_tokens_total"] - before["spec_decode_num_accepted_tokens_total"]
    measured = result["measurements"]
    assert measured["acceptance_source"] == "usage"
    # Each pass makes one token of its own. The engine also counts what it accepted beyond the end of the answer.
    later = measured["completion_tokens"] - measured["tokens_in_first_chunk"]
    passes = round(later / measured["acceptance_length"])
    assert 0 <= accepted - (later - passes) <= NGRAM["num_speculative_tokens"]
    assert accepted > 8


def test_with_a_temperature_a_second_token_is_accepted(drafting: Server) -> None:
    probe(drafting, kind="none")
    before = drafting.counters()
    drafting.complete({"prompt": LIST, "temperature": 0.2, "max_tokens": 96, "seed": 1})
    after = drafting.counters()
    name = "spec_decode_num_accepted_tokens_per_pos_total1"
    assert after[name] > before.get(name, 0)


def test_an_engine_that_is_killed_ends_the_server_with_status_0(start: t.Callable[..., Server]) -> None:
    server = start()
    probe(server, kind="none")
    server.kill("VLLM::EngineCore")
    assert server.exit_code() == 0
    assert "EngineCore" in server.log()


def test_an_unknown_option_is_refused_by_its_name(start: t.Callable[..., Server]) -> None:
    server = start(**{"kv-cache-bytes": 1})
    assert server.exit_code() == 2
    assert "unrecognized arguments: --kv-cache-bytes" in server.log()

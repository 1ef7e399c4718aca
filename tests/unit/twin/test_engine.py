# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The stand-in's language model: drafts change its speed and nothing else."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import sys
import typing as t
from pathlib import Path

import pytest

from tests.twin.trtllm.server import cli, engine
from tests.twin.trtllm.server.machine import Faults, Gpu
from tests.twin.trtllm.server.options import TorchLlmArgs
from tests.twin.trtllm.server.release import log_probs_of
from tests.twin.trtllm.server.runtime import EngineDead, Job, Limits, Piece, RequestError, Runtime, Speculation

DOCUMENTS = engine.read_corpus(Path(engine.__file__).with_name("corpus.txt"))
TARGET = engine.TargetModel(DOCUMENTS)
DRAFT = engine.DraftModel(DOCUMENTS)
LIMITS = Limits(
    max_batch_size=1, max_num_tokens=100, max_seq_len=500, chunked_prefill=False, kv_blocks=9, tokens_per_block=32
)
TRAIN = "A train travels 180 km in 3 hours, slows down by 20% for the next 2 hours. How far does it get?"


def generate(prompt: str, draft_length: int, *, chat: bool) -> list[engine.Token]:
    """The tokens up to the first end."""
    generation = engine.Generation(
        TARGET.condition(prompt, chat=chat),
        DRAFT.condition(engine.THINK if chat else engine.FINAL),
        engine.Sampling(),
    )
    generation.step(0)
    while engine.END not in generation.tokens and len(generation.tokens) < 3000:
        generation.step(draft_length)
    return generation.tokens[: generation.tokens.index(engine.END) + 1]


@pytest.mark.parametrize("draft_length", [1, 2, 3, 5, 8])
@pytest.mark.parametrize("chat", [False, True])
def test_greedy_output_does_not_depend_on_drafts(draft_length: int, chat: bool) -> None:
    for document in DOCUMENTS[::6]:
        plain = generate(document.question, 0, chat=chat)
        assert generate(document.question, draft_length, chat=chat) == plain


def runtime(**changes: t.Any) -> Runtime:
    speculation = Speculation("model", lambda running: 5, greedy_only=True, **changes)
    return Runtime(
        DOCUMENTS, Gpu(pass_ms=0.0, draft_ms=0.0, prefill_us=0.0), LIMITS, speculation, Faults, max_requests=10
    )


def job(prompt: str, **changes: t.Any) -> Job:
    plain = Job(prompt, len(engine.tokenize(prompt)), False, None, engine.Sampling())
    return dataclasses.replace(plain, **changes)


def pieces(engine_: Runtime, request: Job) -> list[Piece]:
    async def collect() -> list[Piece]:
        return [piece async for piece in engine_.run(request)]

    return asyncio.run(collect())


ASKING = job(TRAIN, max_tokens=8, log_probs=True)


def test_log_probabilities_end_the_engine(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(os, "_exit", sys.exit)
    with pytest.raises(SystemExit):
        pieces(runtime(log_probs="ends"), ASKING)
    assert "return_log_probs not implemented for" in caplog.text


def test_log_probabilities_hang_the_engine_for_good() -> None:
    async def both() -> list[bool]:
        server = runtime(log_probs="hangs")
        requests = [asyncio.ensure_future(server.run(one).__anext__()) for one in (ASKING, job(TRAIN, max_tokens=8))]
        await asyncio.wait(requests, timeout=0.2)
        done = [one.done() for one in requests]
        for one in requests:
            one.cancel()
        return done

    assert asyncio.run(both()) == [False, False]


def test_log_probabilities_are_refused_or_left_out() -> None:
    with pytest.raises(RequestError, match="logprobs"):
        runtime(log_probs="refused").budget(ASKING)
    assert pieces(runtime(), ASKING)[-1].completion_tokens == 8


@pytest.mark.parametrize(
    ("release", "expected"),
    [
        ("1.2.0rc1", "ends"),
        ("1.2.0", "ends"),
        ("1.3.0rc9", "ends"),
        ("1.3.0rc12", "hangs"),
        ("1.3.0rc29", "refused"),
        ("1.4.0rc1", "refused"),
    ],
)
def test_what_a_release_makes_of_log_probabilities(release: str, expected: str) -> None:
    assert log_probs_of(release) == expected


def test_counters_agree_with_the_answer() -> None:
    server = runtime()
    answer = pieces(server, job(TRAIN))
    passes = len(server.iterations)
    assert answer[-1].iterations == passes
    # The end may be an accepted draft, then nothing follows it in the last pass.
    assert passes + server.totals.accepted - answer[-1].completion_tokens in (0, 1)
    assert server.totals.drafted == 5 * (passes - 1)
    assert [item["request_id"] for item in server.requests] == [1]


def speculation(**section: t.Any) -> Speculation:
    """As the server makes it of its options."""
    made = cli._speculation(TorchLlmArgs.model_validate({"model": "m", "speculative_config": section}))
    assert made is not None
    return made


@pytest.mark.parametrize(
    ("section", "length"),
    [
        ({"decoding_type": "MTP", "num_nextn_predict_layers": 3}, 3),
        # The number of layers is the length, also if another one is given (1.3.0rc12).
        ({"decoding_type": "MTP", "num_nextn_predict_layers": 2, "max_draft_len": 7}, 2),
        ({"decoding_type": "MTP"}, 1),
        ({"decoding_type": "NGram", "max_draft_len": 4, "max_matching_ngram_size": 3}, 4),
        ({"decoding_type": "NGram", "max_draft_len": 4, "max_concurrency": 1}, 4),
    ],
)
def test_each_method_drafts_and_counts(section: dict[str, t.Any], length: int) -> None:
    made = speculation(**section)
    gpu = Gpu(pass_ms=0.0, draft_ms=0.0, prefill_us=0.0)
    server = Runtime(DOCUMENTS, gpu, LIMITS, made, Faults, max_requests=10)
    answer = pieces(server, job(TRAIN))
    passes = len(server.iterations)
    # The first pass reads the prompt.
    assert server.totals.drafted == length * (passes - 1)
    assert 0 < server.totals.accepted < server.totals.drafted
    counted = [item["specDecodingStats"] for item in server.iterations]
    assert sum(item["numAcceptedTokens"] for item in counted) == server.totals.accepted
    plain = Runtime(DOCUMENTS, gpu, LIMITS, None, Faults)
    assert "".join(item.text for item in answer) == "".join(item.text for item in pieces(plain, job(TRAIN)))
    # Above its concurrency it does not draft.
    assert made.length_for(2) == (0 if "max_concurrency" in section else length)


def test_prediction_layers_sample_as_their_option_says() -> None:
    section = {"decoding_type": "MTP", "num_nextn_predict_layers": 3}
    assert speculation(**section).greedy_only
    assert not speculation(**section, allow_advanced_sampling=True).greedy_only


@pytest.mark.parametrize(("oldest", "follows"), [(True, " b"), (False, " c")])
def test_n_grams_repeat_the_oldest_or_the_newest_match(oldest: bool, follows: str) -> None:
    section = {"decoding_type": "NGram", "max_draft_len": 1, "is_use_oldest": oldest}
    made = speculation(**section)
    state = engine.LookupState(engine.tokenize(" a b a c a"), made.lookup_longest, made.lookup_oldest)
    assert state.distribution([]) == {follows: 1.0}


@pytest.mark.parametrize("kind", ["PARD", "SA", "AUTO"])
def test_a_method_that_it_does_not_simulate_is_refused(kind: str) -> None:
    model = {"speculative_model": "/draft"} if kind == "PARD" else {}
    with pytest.raises(NotImplementedError, match=f"does not simulate the speculation mode {kind}"):
        speculation(decoding_type=kind, max_draft_len=3, **model)


def test_prompts_that_do_not_fit_are_refused() -> None:
    # The engine's own words, which the collection reads.
    with pytest.raises(RequestError) as failure:
        pieces(runtime(), job("word " * 200))
    assert str(failure.value) == (
        "The sum of prompt length (201.0) and query length (0) should not exceed max_num_tokens (100)"
    )


def test_an_engine_dies_after_so_many_requests_and_stays_dead() -> None:
    faults = [Faults(unhealthy_after_requests=1)]
    server = Runtime(DOCUMENTS, Gpu(pass_ms=0.0, prefill_us=0.0), LIMITS, None, lambda: faults[0])
    assert not server.dead
    assert pieces(server, job("Hello", max_tokens=2))
    assert server.dead
    faults[0] = Faults()
    with pytest.raises(EngineDead, match="LLM is unavailable"):
        pieces(server, job("Hello"))


def test_figures_of_the_passes_move_only_from_a_request_that_ends_until_a_pause(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server = runtime()
    assert server.collected.running == 0
    pieces(server, job("Hello", max_tokens=2))
    # The one that has just ended is still counted, and stays so.
    frozen = server.collected
    assert (frozen.running, server.running) == (1, 0)
    monkeypatch.setattr(server, "_collects_until", 0.0)

    async def long_answer() -> None:
        answer = server.run(job("Hello", max_tokens=5))
        async for _ in answer:
            if server.collected is not frozen:
                break
        assert sum(server.totals.finished.values()) == 2

    asyncio.run(long_answer())


@pytest.mark.parametrize(("counted", "stays"), [(True, True), (False, False)])
def test_statistics_about_drafts_only_where_the_engine_keeps_them(counted: bool, stays: bool) -> None:
    server = runtime(counted=counted)
    pieces(server, job("Hello", max_tokens=10))
    assert all(bool(item["specDecodingStats"]) is stays for item in server.iterations)

# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The stand-in's language model: drafts change its speed and nothing else."""

from __future__ import annotations

import asyncio
import collections
import dataclasses
import itertools
import re
import typing as t
from pathlib import Path

import pytest
from ansible_collections.dgx_spark.speculative.plugins.modules.completions_probe import QUESTIONS

from tests.twin.trtllm.server import engine
from tests.twin.trtllm.server.machine import Faults, Gpu
from tests.twin.trtllm.server.runtime import EngineDead, Job, Limits, Piece, RequestError, Runtime, Speculation

DOCUMENTS = engine.read_corpus(Path(engine.__file__).with_name("corpus.txt"))
TARGET = engine.TargetModel(DOCUMENTS)
DRAFT = engine.DraftModel(DOCUMENTS)
TRAIN = "A train travels 180 km in 3 hours, slows down by 20% for the next 2 hours. How far does it get?"


def generate(
    prompt: str, draft_length: int, *, sampling: engine.Sampling | None = None, chat: bool = False, least: int = 0
) -> tuple[list[engine.Token], int]:
    """The tokens up to the first end after `least` tokens, and the passes they took."""
    generation = engine.Generation(
        TARGET.condition(prompt, chat=chat),
        DRAFT.condition(engine.THINK if chat else engine.FINAL),
        sampling or engine.Sampling(),
    )
    passes = 0
    while len(generation.tokens) < 3000:
        generation.step(draft_length if passes else 0)
        passes += 1
        if engine.END in generation.tokens[least:]:
            return generation.tokens[: generation.tokens.index(engine.END, least) + 1], passes
    raise AssertionError("The engine does not come to an end.")


@pytest.mark.parametrize("kind", ["chat", "completion"])
@pytest.mark.parametrize("draft_length", [0, 5])
def test_the_questions_of_the_collection_are_answered(kind: str, draft_length: int) -> None:
    question, expected = QUESTIONS[kind]
    tokens, passes = generate(question, draft_length, chat=kind == "chat")
    assert all(re.search(one, engine.detokenize(tokens)) for one in expected)
    assert draft_length == 0 or len(tokens) / passes > 1.5


@pytest.mark.parametrize("text", ["", "  two  spaces\n\n    and 12 digits, 3.5% of it's", "Grüße aus München: 東京"])
def test_tokens_join_to_the_text(text: str) -> None:
    assert "".join(engine.tokenize(text)) == text


@pytest.mark.parametrize(
    ("prompt", "expected"),
    [
        (TRAIN, "276 km"),
        ("What is 17 + 25?", "42"),
        ("Please compute 12 times 12.", "144"),
        ("What is the capital of France?", "Paris"),
        ("Hello", "Hello!"),
    ],
)
@pytest.mark.parametrize("chat", [False, True])
def test_known_answers(prompt: str, expected: str, chat: bool) -> None:
    tokens, _ = generate(prompt, 0, chat=chat)
    answer = tokens[tokens.index(engine.FINAL) :] if chat else tokens
    assert expected in engine.detokenize(answer)


@pytest.mark.parametrize("draft_length", [1, 2, 3, 5, 8])
@pytest.mark.parametrize("chat", [False, True])
def test_greedy_output_does_not_depend_on_drafts(draft_length: int, chat: bool) -> None:
    for document in DOCUMENTS[::6]:
        plain, _ = generate(document.question, 0, chat=chat)
        drafted, _ = generate(document.question, draft_length, chat=chat)
        assert drafted == plain


def test_acceptance_grows_ever_more_slowly_with_the_draft_length() -> None:
    lengths = (0, 1, 3, 5, 8)
    acceptance = []
    for draft_length in lengths:
        tokens = passes = 0
        for document in DOCUMENTS[::3]:
            generated, taken = generate(document.question, draft_length, least=150)
            tokens, passes = tokens + len(generated), passes + taken
        acceptance.append(tokens / passes)
    assert acceptance[0] == 1.0
    assert 2.2 < acceptance[lengths.index(5)] < 3.2
    gains = [
        (after - before) / (later - earlier)
        for (earlier, before), (later, after) in itertools.pairwise(zip(lengths, acceptance, strict=True))
    ]
    assert gains == sorted(gains, reverse=True)
    assert gains[-1] > 0


def test_long_answers_do_not_repeat_themselves() -> None:
    tokens, _ = generate("Tell me about the tides", 5, least=1500)
    windows = collections.Counter(tuple(tokens[start : start + 30]) for start in range(len(tokens) - 30))
    assert max(windows.values()) == 1


def test_sampling_is_repeatable_with_a_seed() -> None:
    sampling = engine.Sampling(temperature=1.0, seed=7)
    assert generate(TRAIN, 3, sampling=sampling) == generate(TRAIN, 3, sampling=sampling)


@dataclasses.dataclass(frozen=True)
class Fixed:
    """A language model that always says the same."""

    shares: dict[str, float]

    def distribution(self, _: t.Sequence[engine.Token]) -> engine.Distribution:
        return self.shares


def test_rejection_sampling_keeps_the_distribution_of_the_target() -> None:
    target = Fixed({"a": 0.6, "b": 0.3, "c": 0.1})
    draft = Fixed({"a": 0.2, "b": 0.5, "d": 0.3})
    generation = engine.Generation(target, draft, engine.Sampling(temperature=1.0, seed=1))
    while len(generation.tokens) < 8000:
        generation.step(3)
    counts = collections.Counter(generation.tokens)
    shares = {token: count / len(generation.tokens) for token, count in counts.items()}
    assert shares == pytest.approx(target.shares, abs=0.02)


@pytest.mark.parametrize(
    ("sampling", "expected"),
    [
        (engine.Sampling(temperature=1.0), {"a": 0.5, "b": 0.25, "c": 0.25}),
        (engine.Sampling(temperature=0.5), {"a": 2 / 3, "b": 1 / 6, "c": 1 / 6}),
        (engine.Sampling(temperature=1.0, top_k=2), {"a": 2 / 3, "b": 1 / 3}),
        (engine.Sampling(temperature=1.0, top_p=0.4), {"a": 1.0}),
    ],
)
def test_shape(sampling: engine.Sampling, expected: dict[str, float]) -> None:
    assert engine.shape({"c": 0.25, "a": 0.5, "b": 0.25}, sampling) == pytest.approx(expected)


def runtime(faults: Faults | None = None, draft_length: int = 5) -> Runtime:
    limits = Limits(
        max_batch_size=1, max_num_tokens=100, max_seq_len=500, chunked_prefill=False, kv_blocks=9, tokens_per_block=32
    )
    speculation = Speculation("model", lambda running: draft_length, greedy_only=True)
    gpu = Gpu(pass_ms=0.0, draft_ms=0.0, prefill_us=0.0)
    return Runtime(DOCUMENTS, gpu, limits, speculation, lambda: faults or Faults(), max_requests=10)


def job(prompt: str, **changes: t.Any) -> Job:
    plain = Job(prompt, len(engine.tokenize(prompt)), False, None, engine.Sampling())
    return dataclasses.replace(plain, **changes)


def pieces(engine_: Runtime, request: Job) -> list[Piece]:
    async def collect() -> list[Piece]:
        return [piece async for piece in engine_.run(request)]

    return asyncio.run(collect())


@pytest.mark.parametrize(
    ("changes", "text", "reason"),
    [
        ({}, "17 + 25 = 42. So the final answer is 42.", "stop"),
        ({"max_tokens": 7}, "17 + 25", "length"),
        ({"stop": ("final answer",)}, "17 + 25 = 42. So the ", "stop"),
    ],
)
def test_answers_end_where_they_should(changes: dict[str, t.Any], text: str, reason: str) -> None:
    answer = pieces(runtime(), job("What is 17 + 25?", **changes))
    assert "".join(piece.text for piece in answer).startswith(text)
    assert answer[-1].finish_reason == reason
    if reason == "stop":
        assert "".join(piece.text for piece in answer) == text


def test_ignoring_the_end_gives_the_length_that_was_asked_for() -> None:
    answer = pieces(runtime(), job("Hello", max_tokens=300, ignore_end=True))
    assert answer[-1].completion_tokens == 300
    assert answer[-1].finish_reason == "length"


def test_counters_agree_with_the_answer() -> None:
    server = runtime()
    answer = pieces(server, job(TRAIN))
    passes = len(server.iterations)
    assert answer[-1].iterations == passes
    # The end may be an accepted draft, then nothing follows it in the last pass.
    assert passes + server.totals.accepted - answer[-1].completion_tokens in (0, 1)
    assert server.totals.drafted == 5 * (passes - 1)
    assert [item["request_id"] for item in server.requests] == [1]


@pytest.mark.parametrize(
    ("prompt", "message"),
    [
        ("word " * 200, "The sum of prompt length (201.0) and query length (0) should not exceed max_num_tokens (100)"),
    ],
)
def test_prompts_that_do_not_fit_are_refused(prompt: str, message: str) -> None:
    with pytest.raises(RequestError) as failure:
        pieces(runtime(), job(prompt))
    assert str(failure.value) == message


def test_broken_engines() -> None:
    nonsense = pieces(runtime(Faults(nonsense=True)), job(TRAIN, max_tokens=100))
    assert "276" not in "".join(piece.text for piece in nonsense)
    loop = pieces(runtime(Faults(repeat=True)), job(TRAIN, max_tokens=60))
    assert "".join(piece.text for piece in loop).count(" the total of") == 20


def test_one_request_runs_at_a_time() -> None:
    server = runtime()

    async def both() -> tuple[int, int]:
        first = server.run(job("Hello"))
        await first.__anext__()
        second = asyncio.ensure_future(server.run(job("Hello")).__anext__())
        await asyncio.sleep(0.01)
        state = server.running, server.waiting
        await first.aclose()  # type: ignore[attr-defined]
        await second
        return state

    assert asyncio.run(both()) == (1, 1)


def test_an_engine_dies_after_so_many_requests_and_stays_dead() -> None:
    faults = [Faults(unhealthy_after_requests=1)]
    limits = Limits(
        max_batch_size=1, max_num_tokens=100, max_seq_len=500, chunked_prefill=False, kv_blocks=9, tokens_per_block=32
    )
    server = Runtime(DOCUMENTS, Gpu(pass_ms=0.0, prefill_us=0.0), limits, None, lambda: faults[0])
    assert not server.dead
    assert pieces(server, job("Hello", max_tokens=2))
    assert server.dead
    faults[0] = Faults()
    with pytest.raises(EngineDead, match="LLM is unavailable"):
        pieces(server, job("Hello"))


def test_a_request_that_hangs_gives_back_its_slot_when_the_client_leaves() -> None:
    server = runtime(Faults(hang_after_requests=0))

    async def leave() -> int:
        waiting = asyncio.ensure_future(server.run(job("Hello")).__anext__())
        await asyncio.sleep(0.01)
        assert server.running == 1
        waiting.cancel()
        await asyncio.wait((waiting,))
        return server.running

    assert asyncio.run(leave()) == 0


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
    limits = Limits(
        max_batch_size=1, max_num_tokens=100, max_seq_len=500, chunked_prefill=False, kv_blocks=9, tokens_per_block=32
    )
    speculation = Speculation("model", lambda running: 3, greedy_only=True, counted=counted)
    gpu = Gpu(pass_ms=0.0, draft_ms=0.0, prefill_us=0.0)
    server = Runtime(DOCUMENTS, gpu, limits, speculation, Faults)
    pieces(server, job("Hello", max_tokens=10))
    assert all(bool(item["specDecodingStats"]) is stays for item in server.iterations)

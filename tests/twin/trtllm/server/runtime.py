# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run requests on the engine: slots, speed, stop conditions and statistics."""

from __future__ import annotations

import asyncio
import collections
import dataclasses
import itertools
import os
import time
import typing as t

from . import diary, engine
from .loading import Limits
from .machine import Faults, Gpu, log
from .release import LogProbs

if t.TYPE_CHECKING:
    from .proxy import Ranks


# Time that the real server waits for the statistics of another pass.
COLLECTS_S = 0.5


class RequestError(ValueError):
    """A request that the engine rejects."""


class NotSimulated(Exception):
    """A request that only the real server can answer."""


class EngineDead(RuntimeError):
    """The engine has failed and needs a new server."""

    def __init__(self) -> None:
        super().__init__("LLM is unavailable. Please check the server logs for more details.")


@dataclasses.dataclass(frozen=True)
class Speculation:
    """Settings of speculation: kind, draft length, and whether it supports sampling and has statistics."""

    kind: t.Literal["model", "lookup"]
    length_for: t.Callable[[int], int]
    greedy_only: bool
    lookup_longest: int = 2
    lookup_oldest: bool = True
    counted: bool = True
    log_probs: LogProbs = "answered"


@dataclasses.dataclass(frozen=True)
class Job:
    prompt: str
    prompt_tokens: int
    chat: bool
    max_tokens: int | None
    sampling: engine.Sampling
    ignore_end: bool = False
    min_tokens: int = 0
    stop: tuple[str, ...] = ()
    log_probs: bool = False


@dataclasses.dataclass(frozen=True)
class Piece:
    """The new text of one pass, and the state of the answer."""

    thinking: str
    text: str
    completion_tokens: int
    iterations: int
    finish_reason: str | None
    stop_reason: str | None = None

    @property
    def tokens_per_iteration(self) -> float:
        return self.completion_tokens / self.iterations


@dataclasses.dataclass
class Totals:
    """Counters since the start."""

    finished: dict[str, int] = dataclasses.field(default_factory=dict)
    drafted: int = 0
    accepted: int = 0
    draft_seconds: float = 0.0
    target_seconds: float = 0.0
    passes_with_drafts: int = 0
    end_to_end: list[float] = dataclasses.field(default_factory=list)
    first_token: list[float] = dataclasses.field(default_factory=list)
    per_token: list[float] = dataclasses.field(default_factory=list)
    queue: list[float] = dataclasses.field(default_factory=list)


@dataclasses.dataclass(frozen=True)
class Collected:
    """Statistics of the passes for the Prometheus route."""

    running: int = 0
    waiting: int = 0
    totals: Totals = dataclasses.field(default_factory=Totals)


class _Pace:
    """Timer that sleeps so that a pass has its simulated duration."""

    def __init__(self) -> None:
        self._next = time.monotonic()

    async def spend(self, seconds: float) -> None:
        now = time.monotonic()
        self._next = max(self._next, now - 0.05) + seconds
        await asyncio.sleep(max(0.0, self._next - now))


class Runtime:
    def __init__(
        self,
        documents: t.Sequence[engine.Document],
        gpu: Gpu,
        limits: Limits,
        speculation: Speculation | None,
        faults: t.Callable[[], Faults],
        max_stats: int = 1000,
        max_requests: int = 0,
        ranks: Ranks | None = None,
    ) -> None:
        self._ranks = ranks
        self._target = engine.TargetModel(documents)
        self._draft = engine.DraftModel(documents)
        self._vocabulary = [token for document in documents for token in document.tokens()]
        self._gpu = gpu
        self.limits = limits
        self._speculation = speculation
        self._faults = faults
        self._slots = asyncio.Semaphore(limits.max_batch_size)
        self._ids = itertools.count(1)
        self._iteration = 0
        self._accepted_requests = 0
        self._dead = False
        self._hangs = False
        self.running = 0
        self.waiting = 0
        self.totals = Totals()
        self.collected = Collected()
        self._collects_until = 0.0
        self.iterations: collections.deque[dict[str, t.Any]] = collections.deque(maxlen=max_stats)
        self.requests: collections.deque[dict[str, t.Any]] = collections.deque(maxlen=max_requests)

    @property
    def speculates(self) -> bool:
        return self._speculation is not None

    @property
    def reports_drafts(self) -> bool:
        return self._speculation is not None and self._speculation.counted

    @property
    def _log_probs(self) -> LogProbs:
        return self._speculation.log_probs if self._speculation is not None else "answered"

    @property
    def dead(self) -> bool:
        """Return whether the engine has failed. It never recovers."""
        limit = self._faults().unhealthy_after_requests
        if not self._dead and limit is not None and self._accepted_requests >= limit:
            log.error("Executor worker returned error: the engine died on purpose")
            self._dead = True
        return self._dead

    def budget(self, job: Job) -> int:
        """Return the number of tokens that the request may generate. Reject a request that does not fit."""
        limits = self.limits
        if job.log_probs and self._log_probs == "refused":
            raise RequestError(
                "The following output options are not supported with speculative decoding: logprobs. Drop these "
                "options from the request, or disable speculative decoding."
            )
        if not limits.chunked_prefill and job.prompt_tokens > limits.max_num_tokens:
            raise RequestError(
                f"The sum of prompt length ({float(job.prompt_tokens)}) and query length (0) should not exceed "
                f"max_num_tokens ({limits.max_num_tokens})"
            )
        room = limits.max_seq_len - job.prompt_tokens
        if room <= 0:
            raise RequestError(
                f"`default_max_tokens` ({room}) should be greater than 0, `default_max_tokens` ({room}) = max_seq_len "
                f"({limits.max_seq_len}) - `splited_prompt_len` ({job.prompt_tokens}) - `query_token_len` (0)"
            )
        return room if job.max_tokens is None else min(job.max_tokens, room)

    async def run(self, job: Job) -> t.AsyncIterator[Piece]:
        """Wait for a slot, then yield a piece for every pass."""
        budget = self.budget(job)
        faults = self._faults()
        if self.dead:
            raise EngineDead
        self._accepted_requests += 1
        if faults.exit_after_requests is not None and self._accepted_requests > faults.exit_after_requests:
            log.error("CppExecutorError: the engine ended on purpose")
            os._exit(1)
        arrival = time.monotonic()
        self.waiting += 1
        try:
            await self._slots.acquire()
        finally:
            self.waiting -= 1
        self.running += 1
        try:
            if job.log_probs and self._log_probs == "ends":
                log.error("AssertionError: return_log_probs not implemented for MTPSampler")
                os._exit(1)
            if job.log_probs and self._log_probs == "hangs":
                log.warning(
                    "return_log_probs not supported with speculative decoding, skipping for request %s",
                    self._accepted_requests,
                )
                self._hangs = True
            limit = faults.hang_after_requests
            if self._hangs or (limit is not None and self._accepted_requests > limit):
                await asyncio.Event().wait()
            async for piece in self._generate(job, budget, faults, arrival):
                yield piece
        finally:
            self.running -= 1
            self._slots.release()

    async def _generate(self, job: Job, budget: int, faults: Faults, arrival: float) -> t.AsyncIterator[Piece]:
        identifier = next(self._ids)
        scheduled = time.monotonic()
        generation = self._start(job, faults)
        answer = _Answer(job, budget)
        pace = _Pace()
        prompt_seconds = job.prompt_tokens * self._gpu.prefill_us / 1e6
        first_iteration = self._iteration
        first_token = 0.0
        iterations = 0
        made = 0
        finished = False
        while not finished:
            length = self._speculation.length_for(self.running) if self._speculation and iterations else 0
            step = generation.step(length)
            if self._ranks is not None:
                # All ranks take part in every pass, so a missing rank stops the generation.
                await self._ranks.step(len(step.tokens), new=iterations == 0)
            drafting = self._drafting_seconds(step.drafted)
            await pace.spend(prompt_seconds + self._gpu.pass_ms / 1e3 + drafting)
            prompt_seconds = 0.0
            iterations += 1
            first_token = first_token or time.monotonic()
            # An answer may end within its last pass.
            made += len(step.tokens) if iterations > 1 else 0
            before = answer.tokens
            piece = answer.add(step.tokens, iterations)
            self._count(step, piece.completion_tokens - before, drafting)
            finished = piece.finish_reason is not None
            self._collect(completed=finished)
            if finished:
                self._finish(job, identifier, piece, arrival, scheduled, first_token, first_iteration)
                self._note(job, piece, made, first_token)
            yield piece

    def _start(self, job: Job, faults: Faults) -> engine.Generation:
        target: engine.Conditioned = self._target.condition(job.prompt, chat=job.chat)
        if faults.nonsense:
            target = engine.Babble(self._vocabulary)
        elif faults.repeat:
            target = engine.Loop()
        draft: engine.Conditioned | None = None
        sampling = job.sampling
        if self._speculation is not None:
            if self._speculation.kind == "lookup":
                draft = engine.LookupState(
                    engine.tokenize(job.prompt), self._speculation.lookup_longest, self._speculation.lookup_oldest
                )
            else:
                draft = self._draft.condition(engine.THINK if job.chat else engine.FINAL)
            if self._speculation.greedy_only:
                sampling = engine.Sampling()
        return engine.Generation(target, draft, sampling, self._gpu.draft_errors)

    def _drafting_seconds(self, drafted: int) -> float:
        if self._speculation is None or self._speculation.kind == "lookup":
            return 0.0
        return drafted * self._gpu.draft_ms / 1e3

    def _count(self, step: engine.Step, kept: int, drafting: float) -> None:
        self._iteration += 1
        totals = self.totals
        accepted = min(step.accepted, kept)  # the end may come before the last accepted token
        totals.drafted += step.drafted
        totals.accepted += accepted
        totals.draft_seconds += drafting
        totals.target_seconds += self._gpu.pass_ms / 1e3
        totals.passes_with_drafts += 1 if step.drafted else 0
        blocks = self.limits.kv_blocks
        latency = self._gpu.pass_ms + drafting * 1e3
        drafts = 1 if step.drafted else 0
        self.iterations.append(
            {
                "timestamp": time.strftime("%m-%d-%Y %H:%M:%S"),
                "iter": self._iteration,
                "iterLatencyMS": latency,
                "numActiveRequests": self.running,
                "numQueuedRequests": self.waiting,
                "numCompletedRequests": sum(totals.finished.values()),
                "maxNumActiveRequests": self.limits.max_batch_size,
                "gpuMemUsage": int(self._gpu.memory_bytes),
                "kvCacheStats": {
                    "maxNumBlocks": blocks,
                    "freeNumBlocks": max(0, blocks - self.running),
                    "usedNumBlocks": min(blocks, self.running),
                    "tokensPerBlock": self.limits.tokens_per_block,
                    "allocTotalBlocks": 0,
                    "allocNewBlocks": 0,
                    "reusedBlocks": 0,
                    "missedBlocks": 0,
                    "cacheHitRate": 0.0,
                },
                "inflightBatchingStats": {
                    "numScheduledRequests": self.running,
                    "numContextRequests": 0 if drafts else 1,
                    "numGenRequests": drafts,
                    "numPausedRequests": 0,
                    "numCtxTokens": 0,
                    "microBatchId": 0,
                    "avgNumDecodedTokensPerIter": float(kept),
                },
                "specDecodingStats": {
                    "numDraftTokens": step.drafted,
                    "numAcceptedTokens": accepted,
                    "numRequestsWithDraftTokens": drafts,
                    "acceptanceLength": (accepted + drafts) / drafts if drafts else 0.0,
                    "iterLatencyMS": drafting * 1e3,
                    "draftOverhead": drafting * 1e3 / latency if latency else 0.0,
                }
                if self.reports_drafts
                else None,
            }
        )

    def _collect(self, *, completed: bool) -> None:
        """Collect statistics from the end of a request until there is no pass for half a second.

        The real server's _iteration_stats_collector_loop does the same. Otherwise the values stay unchanged, and a
        request that has just ended counts as running.
        """
        now = time.monotonic()
        if completed or now < self._collects_until:
            self._collects_until = now + COLLECTS_S
            self.collected = Collected(self.running, self.waiting, dataclasses.replace(self.totals))

    def _note(self, job: Job, piece: Piece, made: int, first_token: float) -> None:
        diary.write(
            draft_length=self._speculation.length_for(1) if self._speculation else 0,
            prompt_tokens=job.prompt_tokens,
            tokens=piece.completion_tokens,
            later_passes=piece.iterations - 1,
            made_by_later_passes=made,
            seconds_of_later_passes=time.monotonic() - first_token,
        )

    def _finish(
        self,
        job: Job,
        identifier: int,
        piece: Piece,
        arrival: float,
        scheduled: float,
        first_token: float,
        first_iteration: int,
    ) -> None:
        now = time.monotonic()
        totals = self.totals
        reason = piece.finish_reason or "stop"
        totals.finished[reason] = totals.finished.get(reason, 0) + 1
        totals.end_to_end.append(now - arrival)
        totals.first_token.append(first_token - arrival)
        totals.per_token.append((now - first_token) / max(1, piece.completion_tokens - 1))
        totals.queue.append(scheduled - arrival)
        self.requests.append(
            {
                "request_id": identifier,
                "perf_metrics": {
                    "first_iter": first_iteration,
                    "last_iter": self._iteration,
                    # The speculative counters of this family stay 0, so the real server omits them.
                    "timing_metrics": {
                        "server_arrival_time": arrival,
                        "arrival_time": arrival,
                        "first_scheduled_time": scheduled,
                        "first_token_time": first_token,
                        "server_first_token_time": first_token,
                        "last_token_time": now,
                    },
                    "kv_cache_metrics": {
                        "num_total_allocated_blocks": -(-job.prompt_tokens // self.limits.tokens_per_block),
                        "num_new_allocated_blocks": -(-job.prompt_tokens // self.limits.tokens_per_block),
                        "num_reused_blocks": 0,
                        "num_missed_blocks": 0,
                    },
                },
            }
        )


class _Answer:
    """Converter of tokens to text that detects stop conditions."""

    def __init__(self, job: Job, budget: int) -> None:
        self._job = job
        self._budget = budget
        self._tokens: list[engine.Token] = []
        self._sent = (0, 0)
        # A stop string may span two passes, so the last characters are held back.
        self._held = max((len(text) for text in job.stop), default=1) - 1

    @property
    def tokens(self) -> int:
        return len(self._tokens)

    def add(self, tokens: t.Sequence[engine.Token], iterations: int) -> Piece:
        reason: str | None = None
        for token in tokens:
            self._tokens.append(token)
            if token == engine.END and not self._job.ignore_end and len(self._tokens) >= self._job.min_tokens:
                reason = "stop"
            elif len(self._tokens) >= self._budget:
                reason = "length"
            if reason is not None:
                break
        thinking, text = self._split()
        stopped: str | None = None
        for wanted in self._job.stop:
            if wanted and wanted in text:
                text, stopped, reason = text[: text.index(wanted)], wanted, "stop"
        end = len(text) if reason is not None else max(self._sent[1], len(text) - self._held)
        new = thinking[self._sent[0] :], text[self._sent[1] : end]
        self._sent = len(thinking), max(end, self._sent[1])
        return Piece(*new, len(self._tokens), iterations, reason, stopped)

    def _split(self) -> tuple[str, str]:
        tokens = self._tokens
        if not self._job.chat:
            return "", _text(tokens)
        if engine.FINAL not in tokens:
            return _text(tokens), ""
        position = tokens.index(engine.FINAL)
        return _text(tokens[:position]), _text(tokens[position:])


def _text(tokens: t.Sequence[engine.Token]) -> str:
    """Return the text of tokens. An ignored end becomes a new paragraph."""
    return engine.detokenize("\n\n" if token == engine.END else token for token in _stripped(tokens))


def _stripped(tokens: t.Sequence[engine.Token]) -> t.Sequence[engine.Token]:
    return tokens[:-1] if tokens and tokens[-1] == engine.END else tokens

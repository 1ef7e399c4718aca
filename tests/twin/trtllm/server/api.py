# mypy: disable-error-code="import-not-found"
# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Implement the routes of trtllm-serve with their requests and responses."""

# No "from __future__ import annotations" here: FastAPI reads the annotations of the routes inside create().
import asyncio
import dataclasses
import json
import os
import signal
import time
import typing as t
import uuid

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from pydantic import AliasChoices, BaseModel, ConfigDict, Field

from . import engine, responses
from .calls import Call, choose
from .checkpoint import HarmonyError, check_vocabularies
from .machine import log, read_faults
from .release import EARLY, FAMILY
from .responses import ResponsesRequest
from .runtime import EngineDead, Job, NotSimulated, Piece, RequestError, Runtime

if t.TYPE_CHECKING:
    from .options import TorchLlmArgs

Json = dict[str, t.Any]


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", populate_by_name=True)


class StreamOptions(Strict):
    include_usage: t.Optional[bool] = True
    continuous_usage_stats: t.Optional[bool] = False


class Sampled(Strict):
    """Fields of both kinds of request."""

    model: str
    n: int = 1
    best_of: t.Optional[int] = None
    use_beam_search: bool = False
    frequency_penalty: t.Optional[float] = 0.0
    presence_penalty: t.Optional[float] = 0.0
    repetition_penalty: t.Optional[float] = 1.0
    length_penalty: t.Optional[float] = 1.0
    early_stopping: t.Optional[t.Any] = None
    logit_bias: t.Optional[dict[str, float]] = None
    temperature: t.Optional[float] = Field(default=1.0, ge=0)
    top_p: t.Optional[float] = Field(default=1.0, gt=0, le=1)
    top_p_min: t.Optional[float] = None
    min_p: t.Optional[float] = 0.0
    top_k: t.Optional[int] = Field(default=0, ge=0)
    seed: t.Optional[int] = None
    stop: t.Union[str, list[str], None] = None
    stop_token_ids: t.Optional[list[int]] = None
    include_stop_str_in_output: bool = False
    ignore_eos: bool = False
    min_tokens: int = 0
    skip_special_tokens: bool = True
    spaces_between_special_tokens: bool = True
    truncate_prompt_tokens: t.Optional[int] = None
    add_special_tokens: bool = False
    detokenize: bool = True
    prompt_ignore_length: t.Optional[int] = 0
    return_context_logits: bool = False
    lora_request: t.Optional[t.Any] = None
    disaggregated_params: t.Optional[t.Any] = None
    cache_salt: t.Optional[str] = None
    response_format: t.Optional[Json] = None
    stream: t.Optional[bool] = False
    stream_options: t.Optional[StreamOptions] = None
    user: t.Optional[str] = None

    def sampling(self) -> engine.Sampling:
        return engine.Sampling(
            temperature=1.0 if self.temperature is None else self.temperature,
            top_p=1.0 if self.top_p is None else self.top_p,
            top_k=self.top_k or 0,
            seed=self.seed,
        )

    def stops(self) -> tuple[str, ...]:
        return (self.stop,) if isinstance(self.stop, str) else tuple(self.stop or ())

    def usage_chunk(self) -> bool:
        return self.stream_options is not None and bool(self.stream_options.include_usage)

    def usage_everywhere(self) -> bool:
        return self.stream_options is not None and bool(self.stream_options.continuous_usage_stats)

    def check(self) -> None:
        if (self.response_format or {}).get("type", "text") != "text":
            # The real server answers in that format. Plain text would look like an error of the proxy.
            raise NotSimulated("The stand-in does not know response_format.")
        if self.n != 1 or self.use_beam_search:
            raise RequestError("The stand-in generates one sequence for a prompt: n must be 1, beam search is off.")
        if self.stream_options is not None and not self.stream:
            raise RequestError("Stream options can only be defined when stream is true.")


class CompletionRequest(Sampled):
    prompt: t.Union[list[int], list[list[int]], str, list[str]]
    max_tokens: t.Optional[int] = Field(default=None, ge=1)
    echo: bool = False
    logprobs: t.Optional[int] = None
    suffix: t.Optional[str] = None

    @property
    def log_probs(self) -> bool:
        if self.logprobs and FAMILY == "1.2":
            raise RequestError("logprobs is not supported")
        return bool(self.logprobs or self.return_context_logits)

    def prompts(self) -> list[str]:
        if isinstance(self.prompt, str):
            return [self.prompt]
        if not self.prompt:
            raise RequestError("The prompt is empty.")
        if isinstance(self.prompt[0], int):
            return [" ".join(f"token{number}" for number in self.prompt)]
        return [
            item if isinstance(item, str) else " ".join(f"token{number}" for number in item) for item in self.prompt
        ]


class Function(Strict):
    name: str
    description: t.Optional[str] = None
    parameters: t.Optional[Json] = None
    strict: t.Optional[bool] = None


class Tool(Strict):
    type: t.Literal["function"] = "function"
    function: Function


class FunctionName(Strict):
    name: str


class ToolChoice(Strict):
    type: t.Literal["function"] = "function"
    function: FunctionName


class ChatCompletionRequest(Sampled):
    messages: list[Json] = Field(min_length=1)
    max_completion_tokens: t.Optional[int] = Field(
        default=None, ge=1, validation_alias=AliasChoices("max_completion_tokens", "max_tokens")
    )
    logprobs: t.Optional[bool] = False
    top_logprobs: t.Optional[int] = 0
    tools: t.Optional[list[Tool]] = None
    tool_choice: t.Union[t.Literal["none", "auto", "required"], ToolChoice, None] = None
    parallel_tool_calls: t.Optional[bool] = None
    reasoning_effort: t.Optional[t.Literal["low", "medium", "high"]] = "low"
    echo: bool = False
    add_generation_prompt: bool = True
    documents: t.Optional[list[Json]] = None
    chat_template: t.Optional[str] = None
    chat_template_kwargs: t.Optional[Json] = None
    mm_processor_kwargs: t.Optional[Json] = None
    media_io_kwargs: t.Optional[Json] = None
    agent_hierarchy: t.Optional[t.Any] = None

    def call(self) -> t.Optional[Call]:
        """Return the function call that the last message needs; None if that is not from the user."""
        last = self.messages[-1]
        if not self.tools or last.get("role") != "user":
            return None
        choice = self.tool_choice.model_dump() if isinstance(self.tool_choice, ToolChoice) else self.tool_choice
        return choose([tool.model_dump() for tool in self.tools], choice, text_of(last))

    def prompt(self) -> str:
        parts = []
        for message in self.messages:
            if "role" not in message:
                raise RequestError("Every message needs a role.")
            if message["role"] != "system":
                parts.append(text_of(message))
        return "\n".join(parts)


def text_of(message: Json) -> str:
    content = message.get("content")
    if isinstance(content, list):
        if any(not isinstance(part, dict) or "text" not in part for part in content):
            # An answer without them would look like one about them.
            raise NotSimulated("The stand-in reads text only, no images and no sound.")
        content = "\n".join(str(part["text"]) for part in content)
    return str(content or "")


def error(message: str, kind: str = "BadRequestError", status: int = 400) -> JSONResponse:
    body = {"object": "error", "message": message, "type": kind, "param": None, "code": status}
    return JSONResponse(body, status_code=status)


def usage(prompt_tokens: int, completion_tokens: int) -> Json:
    return {
        "prompt_tokens": prompt_tokens,
        "total_tokens": prompt_tokens + completion_tokens,
        "completion_tokens": completion_tokens,
        "prompt_tokens_details": {"cached_tokens": 0},
    }


def event(body: Json) -> str:
    return f"data: {json.dumps(body)}\n\n"


async def _nothing() -> t.AsyncIterator[tuple[int, Piece]]:
    return
    yield


def without_nulls(value: t.Any) -> t.Any:
    if isinstance(value, dict):
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    return [without_nulls(item) for item in value] if isinstance(value, list) else value


@dataclasses.dataclass(frozen=True)
class ChatAnswer:
    """The answer of a chat with its parts."""

    thinking: str
    text: str
    piece: Piece
    call: t.Optional[Call] = None

    @property
    def tool_calls(self) -> list[Json]:
        if self.call is None:
            return []
        function = {"name": self.call.name, "arguments": self.call.arguments}
        return [{"id": f"chatcmpl-tool-{uuid.uuid4().hex}", "type": "function", "function": function}]


class Server:
    def __init__(
        self,
        runtime: Runtime,
        args: "TorchLlmArgs",
        name: str,
        version: str,
        harmony: bool,
        tool_parser: t.Optional[str] = None,
    ) -> None:
        self.runtime = runtime
        self.args = args
        self.name = name
        self.version = version
        self.harmony = harmony and os.environ.get("DISABLE_HARMONY_ADAPTER", "0") != "1"
        # Only the harmony adapter finds calls in the text without a parser.
        self.finds_calls = self.harmony or tool_parser is not None
        self.vocabularies_checked = False

    # Completions

    def completion_jobs(self, request: CompletionRequest) -> list[Job]:
        request.check()
        jobs = [
            Job(
                prompt=prompt,
                prompt_tokens=max(1, len(engine.tokenize(prompt))),
                chat=False,
                max_tokens=request.max_tokens,
                sampling=request.sampling(),
                ignore_end=request.ignore_eos,
                min_tokens=request.min_tokens,
                stop=request.stops(),
                log_probs=request.log_probs,
            )
            for prompt in request.prompts()
        ]
        for job in jobs:
            self.runtime.budget(job)
        return jobs

    async def complete(self, request: CompletionRequest) -> Response:
        jobs = self.completion_jobs(request)
        identifier = f"cmpl-{uuid.uuid4().hex}"
        if request.stream:
            return StreamingResponse(self._stream_completion(request, jobs, identifier), media_type="text/event-stream")
        answers = await asyncio.gather(*(self._collect(job) for job in jobs))
        choices = [
            self._completion_choice(index, (jobs[index].prompt if request.echo else "") + text, piece)
            for index, (_, text, piece) in enumerate(answers)
        ]
        prompt_tokens = sum(job.prompt_tokens for job in jobs)
        completion_tokens = sum(piece.completion_tokens for _, _, piece in answers)
        body = self._completion_body(identifier, choices) | {"usage": usage(prompt_tokens, completion_tokens)}
        return JSONResponse(body | {"prompt_token_ids": None})

    def _completion_body(self, identifier: str, choices: list[Json]) -> Json:
        return {
            "id": identifier,
            "object": "text_completion",
            "created": int(time.time()),
            "model": self.name,
            "choices": choices,
        }

    def _completion_choice(self, index: int, text: str, piece: Piece) -> Json:
        return {
            "index": index,
            "text": text,
            "token_ids": None,
            "logprobs": None,
            "context_logits": None,
            "finish_reason": piece.finish_reason,
            "stop_reason": piece.stop_reason,
            "disaggregated_params": None,
            "avg_decoded_tokens_per_iter": piece.tokens_per_iteration,
        }

    async def _stream_completion(
        self, request: CompletionRequest, jobs: list[Job], identifier: str
    ) -> t.AsyncIterator[str]:
        prompt_tokens = sum(job.prompt_tokens for job in jobs)
        total = 0
        for index, job in enumerate(jobs):
            last: t.Optional[Piece] = None
            async for number, piece in self._grouped(job):
                if number == 3 and read_faults().error_in_stream:
                    yield self._error_event()
                    return
                choice = self._completion_choice(index, piece.text, piece)
                for unused in ("context_logits", "disaggregated_params"):
                    choice.pop(unused)
                body = self._completion_body(identifier, [choice])
                everywhere = request.usage_everywhere()
                body["usage"] = usage(prompt_tokens, total + piece.completion_tokens) if everywhere else None
                yield event(body)
                last = piece
            total += last.completion_tokens if last else 0
        if request.usage_chunk():
            yield event(self._completion_body(identifier, []) | {"usage": usage(prompt_tokens, total)})
        yield "data: [DONE]\n\n"

    # Chat

    def chat_job(self, request: ChatCompletionRequest) -> Job:
        request.check()
        prompt = request.prompt()
        everything = json.dumps(request.messages)
        job = Job(
            prompt=prompt,
            # The chat format adds its own preamble to the messages.
            prompt_tokens=len(engine.tokenize(everything)) + (60 if self.harmony else 10),
            chat=True,
            max_tokens=request.max_completion_tokens,
            sampling=request.sampling(),
            ignore_end=request.ignore_eos,
            min_tokens=request.min_tokens,
            stop=request.stops(),
            log_probs=bool(request.logprobs),
        )
        self.runtime.budget(job)
        return job

    async def chat(self, request: ChatCompletionRequest) -> Response:
        try:
            if self.harmony and not self.vocabularies_checked:
                await asyncio.to_thread(check_vocabularies)
                self.vocabularies_checked = True
            job = self.chat_job(request)
            call = request.call()
        except (HarmonyError, RequestError) as failure:
            if not self.harmony:
                raise
            log.error("Error in harmony chat completion: %s", failure)
            return error(str(failure), "internal_error")
        identifier = f"chatcmpl-{uuid.uuid4().hex}"
        if request.stream:
            stream = self._stream_chat(request, job, identifier, call)
            return StreamingResponse(stream, media_type="text/event-stream")
        answer = await self._call(job, call) if call else ChatAnswer(*await self._collect(job))
        piece = answer.piece
        message: Json = {
            "role": "assistant",
            "content": answer.text,
            "reasoning_content": None,
            "reasoning": answer.thinking or None,
            "tool_calls": answer.tool_calls,
        }
        if not self.harmony:
            # Without the adapter, reasoning stays in the text unless a parser removes it.
            parsed = self.args.reasoning_parser is not None
            message |= {"reasoning": None, "reasoning_content": answer.thinking if parsed else None}
            message["content"] = answer.text if parsed else f"{answer.thinking}\n\n{answer.text}"
        choice = {
            "index": 0,
            "message": message,
            "logprobs": None,
            "finish_reason": piece.finish_reason,
            "stop_reason": piece.stop_reason,
            "mm_embedding_handle": None,
            "disaggregated_params": None,
            # The harmony adapter drops this value.
            "avg_decoded_tokens_per_iter": None if self.harmony else piece.tokens_per_iteration,
        }
        body = self._chat_body(identifier, "chat.completion", [choice])
        return JSONResponse(
            body | {"usage": usage(job.prompt_tokens, piece.completion_tokens), "prompt_token_ids": None}
        )

    def _chat_body(self, identifier: str, kind: str, choices: list[Json]) -> Json:
        return {
            "id": identifier,
            "object": kind,
            "created": int(time.time()),
            "model": self.name,
            "choices": choices,
        }

    async def _call(self, job: Job, call: Call) -> ChatAnswer:
        """Generate the tokens of a call and return it, unless it does not fit, stays text, or fails on purpose."""
        needed = len(engine.tokenize(call.text))
        fits = self.runtime.budget(job) >= needed
        tokens = needed if fits else self.runtime.budget(job)
        _, _, piece = await self._collect(dataclasses.replace(job, max_tokens=tokens, ignore_end=True, stop=()))
        thinking = f"The user wants what the function {call.name} knows. I call it."
        if not fits:
            return ChatAnswer(thinking, "", piece)
        if read_faults().no_tool_calls:
            return ChatAnswer("", "", dataclasses.replace(piece, finish_reason="stop"))
        if not self.finds_calls:
            text = f"<tool_call>\n{call.text}\n</tool_call>"
            return ChatAnswer(thinking, text, dataclasses.replace(piece, finish_reason="stop"))
        return ChatAnswer(thinking, "", dataclasses.replace(piece, finish_reason="tool_calls"), call)

    async def _stream_chat(
        self, request: ChatCompletionRequest, job: Job, identifier: str, call: t.Optional[Call]
    ) -> t.AsyncIterator[str]:
        kind = "chat.completion.chunk"
        parsed = self.args.reasoning_parser is not None

        def chunk(delta: Json, piece: t.Optional[Piece] = None) -> str:
            choice = {"index": 0, "delta": delta}
            if piece is not None:
                choice |= {"finish_reason": piece.finish_reason, "stop_reason": piece.stop_reason}
                choice["avg_decoded_tokens_per_iter"] = None if self.harmony else piece.tokens_per_iteration
            body = self._chat_body(identifier, kind, [choice])
            if piece is not None and request.usage_everywhere() and not self.harmony:
                body["usage"] = usage(job.prompt_tokens, piece.completion_tokens)
            return event(without_nulls(body))

        yield chunk({"role": "assistant"})
        completion_tokens = 0
        answer = await self._call(job, call) if call else None
        if answer is not None:
            completion_tokens = answer.piece.completion_tokens
            if answer.thinking:
                yield chunk({"reasoning" if self.harmony else "reasoning_content": answer.thinking})
            if answer.text:
                yield chunk({"content": answer.text})
            for number, made in enumerate(answer.tool_calls):
                yield chunk({"tool_calls": [{"index": number, **made}]})
            yield chunk({}, answer.piece)
        pieces = self._grouped(job) if answer is None else _nothing()
        async for number, piece in pieces:
            if number == 3 and read_faults().error_in_stream:
                yield self._error_event()
                return
            completion_tokens = piece.completion_tokens
            open_piece = Piece(piece.thinking, piece.text, completion_tokens, piece.iterations, None)
            if piece.thinking:
                if self.harmony:
                    yield chunk({"reasoning": piece.thinking, "tool_calls": []}, open_piece)
                else:
                    yield chunk({"reasoning_content" if parsed else "content": piece.thinking}, open_piece)
            if piece.text:
                yield chunk({"content": piece.text} | ({"tool_calls": []} if self.harmony else {}), open_piece)
            if piece.finish_reason is not None:
                yield chunk({}, piece)
        # The harmony adapter always sends the usage.
        if self.harmony or request.usage_chunk():
            body = self._chat_body(identifier, kind, []) | {"usage": usage(job.prompt_tokens, completion_tokens)}
            yield event(without_nulls(body))
        yield "data: [DONE]\n\n"

    async def respond(self, request: ResponsesRequest) -> Response:
        request.check()
        chat = ChatCompletionRequest(
            model=request.model,
            messages=request.messages(),
            temperature=request.temperature,
            top_p=request.top_p,
            max_completion_tokens=request.max_output_tokens,
        )
        job = self.chat_job(chat)
        return JSONResponse(responses.body(request, self.name, job.prompt_tokens, await self._collect(job)))

    # Shared parts

    async def _collect(self, job: Job) -> tuple[str, str, Piece]:
        thinking, text = [], []
        async for piece in self.runtime.run(job):
            thinking.append(piece.thinking)
            text.append(piece.text)
        return "".join(thinking), "".join(text), piece

    async def _grouped(self, job: Job) -> t.AsyncIterator[tuple[int, Piece]]:
        """Yield numbered pieces of at least stream_interval tokens."""
        thinking, text, sent, number = "", "", 0, 0
        async for piece in self.runtime.run(job):
            thinking += piece.thinking
            text += piece.text
            if piece.finish_reason is None and piece.completion_tokens - sent < self.args.stream_interval:
                continue
            sent = piece.completion_tokens
            number += 1
            yield (
                number,
                Piece(thinking, text, sent, piece.iterations, piece.finish_reason, piece.stop_reason),
            )
            thinking, text = "", ""

    def _error_event(self) -> str:
        log.error("Error in streaming response: the engine failed on purpose")
        body = {"object": "error", "message": "Internal server error", "type": "InternalServerError"}
        return event({"error": body | {"param": None, "code": 500}}) + "data: [DONE]\n\n"

    def prometheus(self) -> str:
        totals = self.runtime.totals
        labels = f'engine_type="trtllm",model_name="{self.name}"'
        lines = ["# HELP trtllm_request_success_total Count of successfully processed requests."]
        lines.append("# TYPE trtllm_request_success_total counter")
        for reason, count in sorted(totals.finished.items()):
            lines.append(f'trtllm_request_success_total{{{labels},finished_reason="{reason}"}} {float(count)}')
        histograms = {
            "trtllm_e2e_request_latency_seconds": (totals.end_to_end, (0.3, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0)),
            "trtllm_time_to_first_token_seconds": (totals.first_token, (0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 10.0)),
            "trtllm_time_per_output_token_seconds": (totals.per_token, (0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1.0)),
            "trtllm_request_queue_time_seconds": (totals.queue, (0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 30.0)),
        }
        for name, (values, limits) in histograms.items():
            lines.append(f"# TYPE {name} histogram")
            for limit in limits:
                count = sum(value <= limit for value in values)
                lines.append(f'{name}_bucket{{{labels},le="{limit}"}} {float(count)}')
            lines.append(f'{name}_bucket{{{labels},le="+Inf"}} {float(len(values))}')
            lines.append(f"{name}_count{{{labels}}} {float(len(values))}")
            lines.append(f"{name}_sum{{{labels}}} {sum(values)}")
        gauges: dict[str, tuple[str, float]] = {
            "trtllm_kv_cache_hit_rate": ("gauge", 0.0),
            "trtllm_kv_cache_utilization": ("gauge", 0.0),
        }
        if self.args.enable_iter_perf_stats and FAMILY == "1.3":
            collected = self.runtime.collected
            gauges["trtllm_num_requests_running"] = ("gauge", float(collected.running))
            gauges["trtllm_num_requests_waiting"] = ("gauge", float(collected.waiting))
            if self.runtime.reports_drafts:
                totals = collected.totals
                passes = totals.passes_with_drafts
                spent = totals.draft_seconds + totals.target_seconds
                prefix = "trtllm_spec_decode"
                gauges[f"{prefix}_num_draft_tokens_total"] = ("counter", float(totals.drafted))
                gauges[f"{prefix}_num_accepted_tokens_total"] = ("counter", float(totals.accepted))
                length = (totals.accepted + passes) / passes if passes else 0.0
                gauges[f"{prefix}_acceptance_length"] = ("gauge", length)
                gauges[f"{prefix}_draft_overhead"] = ("gauge", totals.draft_seconds / spent if spent else 0.0)
        for name, (kind, value) in gauges.items():
            lines += [f"# TYPE {name} {kind}", f"{name}{{{labels}}} {value}"]
        return "\n".join(lines) + "\n"


async def while_there(raw: Request, work: t.Coroutine[t.Any, t.Any, Response]) -> Response:
    """Return the answer. If the client disconnects, cancel the work, which frees its slot."""

    async def gone() -> None:
        while (await raw.receive())["type"] != "http.disconnect":
            pass

    answering, leaving = asyncio.ensure_future(work), asyncio.ensure_future(gone())
    await asyncio.wait((answering, leaving), return_when=asyncio.FIRST_COMPLETED)
    leaving.cancel()
    if not answering.done():
        answering.cancel()
        await asyncio.wait((answering,))
        log.info("The client left, its request is aborted")
        return Response(status_code=499)
    return answering.result()


def create(server: Server) -> FastAPI:
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    runtime = server.runtime
    ending: list[bool] = []

    # Also 400 in mid-2026: only a server of visual generation returns 422 here.
    @app.exception_handler(RequestValidationError)
    async def invalid(_: Request, failure: RequestValidationError) -> JSONResponse:
        return error(str(failure)) if EARLY else JSONResponse({"error": str(failure)}, status_code=400)

    @app.exception_handler(EngineDead)
    async def dead(_: Request, failure: EngineDead) -> JSONResponse:
        return error(str(failure), "InternalServerError", 500)

    @app.exception_handler(NotSimulated)
    async def not_simulated(_: Request, failure: NotSimulated) -> JSONResponse:
        return error(str(failure), "NotImplementedError", 501)

    @app.exception_handler(RequestError)
    async def refused(_: Request, failure: RequestError) -> JSONResponse:
        return error(str(failure))

    @app.get("/health")
    async def health() -> Response:
        if EARLY or not runtime.dead:
            return Response(status_code=200)
        if FAMILY == "1.2":
            log.error("Health check detected fatal engine error")
        elif not ending:
            # Since spring 2026 (tensorrt_llm/serve/openai_server.py), this happens once, then uvicorn shuts down.
            ending.append(True)
            text = "Health check detected fatal engine error, initiating server shutdown: %s"
            log.error(text, "RuntimeError: the engine died on purpose")
            signal.raise_signal(signal.SIGINT)
        return Response(str(EngineDead()), status_code=503)

    @app.get("/health_generate")
    async def health_generate(raw: Request) -> Response:
        request = ChatCompletionRequest(
            model=server.name,
            messages=[{"role": "user", "content": "hi"}],
            max_completion_tokens=1,
            temperature=0.0,
        )
        try:
            answer = await while_there(raw, server.chat(request))
        except EngineDead:
            answer = Response(status_code=500)
        if answer.status_code != 200:
            return Response("Health Generate Check Failed", status_code=500)
        return Response("Generation health check OK", status_code=200)

    @app.get("/version")
    async def version() -> JSONResponse:
        return JSONResponse({"version": server.version})

    @app.get("/v1/models")
    async def models() -> JSONResponse:
        card = {"id": server.name, "object": "model", "created": int(time.time()), "owned_by": "tensorrt_llm"}
        return JSONResponse({"object": "list", "data": [card]})

    if not EARLY:

        @app.get("/server_info")
        async def server_info() -> JSONResponse:
            return JSONResponse({"disaggregated_params": None})

    @app.get("/metrics")
    async def metrics() -> JSONResponse:
        items = list(runtime.iterations)
        runtime.iterations.clear()
        # With return_perf_metrics, a background collector has already emptied the queue.
        wanted = server.args.enable_iter_perf_stats and not server.args.return_perf_metrics
        return JSONResponse(items if wanted else [])

    @app.get("/perf_metrics")
    async def perf_metrics() -> JSONResponse:
        items = list(runtime.requests)
        runtime.requests.clear()
        return JSONResponse(items if server.args.return_perf_metrics else [])

    if server.args.return_perf_metrics:

        @app.get("/prometheus/metrics")
        async def prometheus() -> Response:
            return PlainTextResponse(server.prometheus(), media_type="text/plain; version=0.0.4; charset=utf-8")

    @app.post("/v1/completions")
    async def completions(request: CompletionRequest, raw: Request) -> Response:
        return await while_there(raw, server.complete(request))

    @app.post("/v1/chat/completions")
    async def chat_completions(request: ChatCompletionRequest, raw: Request) -> Response:
        return await while_there(raw, server.chat(request))

    if server.harmony or not EARLY:

        @app.post("/v1/responses")
        async def respond(request: ResponsesRequest, raw: Request) -> Response:
            return await while_there(raw, server.respond(request))

    return app

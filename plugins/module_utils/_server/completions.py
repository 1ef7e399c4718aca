# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this module util is internal to the collection; its interface may change at any time.

"""Ask an OpenAI-compatible server (trtllm-serve) one question, measure the answer and judge it.

Speeds come from the server's own token counts: with speculative decoding one chunk carries several tokens.
"""

from __future__ import annotations

import codecs
import collections
import dataclasses
import http.client
import json
import re
import time
import typing as t
import unicodedata

from .._data.numbers import is_number, natural_int
from .._data.text import one_line
from .client import MOST_BYTES, BadReply, Expired, HttpClient, ProbeError, Reply, read_json, read_reply
from .decoding import Decoding, rounded, tokens_per_pass

# Below this many tokens an acceptance length of 1 may be chance.
_TOKENS_TO_JUDGE = 32
_NO_DRAFT_ACCEPTED = 1.01
# The verdicts on a server that generates text.
GENERATES = ("ready", "ready_without_speculation")


class Finding(t.NamedTuple):
    """Something that is wrong with an answer."""

    id: str
    message: str


class Chunk(t.NamedTuple):
    """One event of a stream: seconds since the request, tokens so far by the server's count, whether it has text."""

    at: float
    tokens: int | None
    text: bool


@dataclasses.dataclass
class Question:
    """A request to the completions API."""

    kind: str
    model: str
    prompt: str
    max_tokens: int
    temperature: float = 0.0
    stream: bool = True

    @property
    def path(self) -> str:
        """The route."""
        return "/v1/chat/completions" if self.kind == "chat" else "/v1/completions"

    def body(self, stream_options: dict[str, bool] | None) -> dict[str, t.Any]:
        """Return the request. The server rejects fields that it does not know."""
        body: dict[str, t.Any] = {"model": self.model, "max_tokens": self.max_tokens, "temperature": self.temperature}
        if self.kind == "chat":
            body["messages"] = [{"role": "user", "content": self.prompt}]
        else:
            body["prompt"] = self.prompt
        if self.stream:
            body["stream"] = True
            if stream_options:
                body["stream_options"] = stream_options
        return body


@dataclasses.dataclass
class Answer:
    """An answer, complete or not."""

    status: int = 0
    streamed: bool = False
    text: str = ""
    reasoning: str = ""
    finish_reason: str | None = None
    model: str | None = None
    usage: dict[str, t.Any] = dataclasses.field(default_factory=dict)
    tokens_per_pass: float | None = None
    chunks: list[Chunk] = dataclasses.field(default_factory=list)
    total_s: float = 0.0
    complete: bool = False
    expired: bool = False
    error: str | None = None
    # The server's count of tokens, if it is more than were asked for: then nothing is measured with its counts.
    miscounted: int | None = None

    @property
    def tokens(self) -> int | None:
        """Tokens of the answer by the server's count."""
        return natural_int(self.usage.get("completion_tokens"))

    def distrust(self, most: int) -> None:
        """Ignore the server's counts if they exceed so many tokens."""
        said = max([self.tokens or 0, *(chunk.tokens or 0 for chunk in self.chunks)])
        if said > most:
            self.miscounted, self.usage, self.tokens_per_pass = said, {}, None
            self.chunks = [chunk._replace(tokens=None) for chunk in self.chunks]

    def steps(self) -> list[Chunk]:
        """Return the chunks with something new: text, or tokens without text."""
        steps: list[Chunk] = []
        tokens = 0
        for chunk in self.chunks:
            if chunk.text or (chunk.tokens or 0) > tokens:
                steps.append(chunk)
            tokens = max(tokens, chunk.tokens or 0)
        return steps

    def decoding(self) -> Decoding:
        """Return how a stream came. Its passes are known only if the server counts with every chunk."""
        steps = self.steps() if self.streamed else []
        counts = [step.tokens or 0 for step in steps]
        # What brings no token is no pass.
        growing = [step for step, count, before in zip(steps, counts, [0, *counts]) if count > before]
        counted = growing if all(step.tokens is not None for step in steps) else []
        chunks = counted or steps
        pairs = list(zip(chunks, chunks[1:]))
        return Decoding(
            tokens=self.tokens,
            ttft_s=rounded(chunks[0].at) if chunks else None,
            first_tokens=counted[0].tokens if counted else None,
            decode_s=rounded(chunks[-1].at - chunks[0].at) if pairs else None,
            pass_tokens=[(after.tokens or 0) - (before.tokens or 0) for before, after in pairs] if counted else None,
            pass_seconds=[rounded(after.at - before.at) for before, after in pairs] if counted else None,
            tokens_per_pass=self.tokens_per_pass,
        )


def _string(value: t.Any) -> str:
    return value if isinstance(value, str) else ""


def error_text(data: t.Any) -> str | None:
    """Return the message of an error body in any shape that the releases use; None if it is no error.

    An OpenAI object under "error" or at the top, a plain string under "error", and "detail" of a request that
    does not validate.
    """
    if not isinstance(data, dict):
        return None
    error = data.get("error")
    if isinstance(error, dict):
        return one_line(_string(error.get("message")) or json.dumps(error))
    if error:
        return one_line(str(error))
    detail = data.get("detail")
    if isinstance(detail, list):
        parts = []
        for item in detail:
            place = ".".join(str(part) for part in item.get("loc", [])) if isinstance(item, dict) else ""
            message = _string(item.get("msg")) if isinstance(item, dict) else str(item)
            parts.append(f"{place}: {message}" if place else message)
        return one_line("; ".join(parts))
    if detail:
        return one_line(str(detail))
    if data.get("object") == "error":
        return one_line(_string(data.get("message")) or json.dumps(data))
    return None


def pattern_problem(pattern: str) -> str | None:
    """Return why a regular expression is invalid; None if it is valid."""
    try:
        re.compile(pattern)
    except re.error as exc:
        return str(exc)
    return None


class SseParser:
    """Server-sent events, fed in pieces of any size."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._rest = ""
        self._data: list[str] = []

    def feed(self, piece: bytes, final: bool = False) -> list[str]:
        """Return the data of the events that are now complete. Set final in the last call to flush."""
        self._rest += self._decoder.decode(piece, final)
        lines = self._rest.split("\n")
        self._rest = lines.pop()
        if final:
            lines += [self._rest, ""]
            self._rest = ""
        events = []
        for line in lines:
            line = line.rstrip("\r")
            if line.startswith("data:"):
                self._data.append(line[5:].lstrip(" "))
            elif not line and self._data:
                events.append("\n".join(self._data))
                self._data = []
        return events


def _absorb(answer: Answer, event: t.Any, at: float) -> None:
    """Add one event of a stream, or a whole reply, to the answer."""
    error = error_text(event)
    if error is not None:
        answer.error = error
        return
    if not isinstance(event, dict):
        answer.error = f"the server sent something that is no completion: {one_line(json.dumps(event), 120)}"
        return
    answer.model = _string(event.get("model")) or answer.model
    if isinstance(event.get("usage"), dict):
        answer.usage = event["usage"]
    # In a stream, the last event has these figures, and no choices.
    answer.tokens_per_pass = _decoded_per_pass(event, answer.tokens) or answer.tokens_per_pass
    choices = event.get("choices")
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        return
    choice = choices[0]
    part = choice.get("delta") or choice.get("message") or {"content": choice.get("text")}
    if not isinstance(part, dict):
        part = {}
    content = _string(part.get("content"))
    reasoning = _string(part.get("reasoning_content")) or _string(part.get("reasoning"))
    answer.text += content
    answer.reasoning += reasoning
    answer.finish_reason = _string(choice.get("finish_reason")) or answer.finish_reason
    per_pass = choice.get("avg_decoded_tokens_per_iter")
    if is_number(per_pass) and per_pass > 0:
        answer.tokens_per_pass = float(per_pass)
    usage = event.get("usage")
    tokens = natural_int(usage.get("completion_tokens")) if isinstance(usage, dict) else None
    answer.chunks.append(Chunk(at, tokens, bool(content or reasoning)))


def _decoded_per_pass(event: dict[str, t.Any], tokens: int | None) -> float | None:
    """Return the tokens of a pass from vLLM's counts of drafts, which leave out passes without drafts.

    The prompt's own pass is one, too, as in the counts of other engines.
    """
    metrics = event.get("metrics")
    counts = metrics.get("speculative_decoding") if isinstance(metrics, dict) else None
    if not isinstance(counts, dict) or not tokens:
        return None
    drafts, accepted = natural_int(counts.get("num_spec_steps")), natural_int(counts.get("num_accepted_draft_tokens"))
    if drafts is None or accepted is None:
        return None
    # The prompt's own pass makes the first token, and each later pass one that is no draft. The end of an answer may
    # cut accepted drafts off.
    return tokens_per_pass(tokens, max(drafts, tokens - 1 - accepted))


class Client(HttpClient):
    """An OpenAI-compatible server at a URL."""

    def version(self) -> str | None:
        """Return the release of the server; None if it does not report one."""
        data = self.get("/version").json
        return (_string(data.get("version")) or None) if isinstance(data, dict) else None

    def models(self) -> list[str]:
        """Return the names of the served models."""
        data = self.get("/v1/models").json
        entries = data.get("data") if isinstance(data, dict) else None
        if not isinstance(entries, list):
            return []
        return [entry["id"] for entry in entries if isinstance(entry, dict) and isinstance(entry.get("id"), str)]

    def ask(self, question: Question, seconds: float) -> Answer:
        """Send a request. The answer has its own progress; an exception means that the server is unreachable.

        A release without per-chunk usage gets the request again without it.
        """
        end = time.monotonic() + seconds
        variants: list[dict[str, bool] | None] = [None]
        if question.stream:
            variants = [{"include_usage": True, "continuous_usage_stats": True}, {"include_usage": True}, None]
        answer = Answer()
        for options in variants:
            answer = self._ask_once(question, options, end - time.monotonic())
            if answer.status not in (400, 422) or not re.search(
                r"stream_options|continuous_usage|include_usage|extra", answer.error or "", re.IGNORECASE
            ):
                break
        return answer

    def _ask_once(self, question: Question, options: dict[str, bool] | None, seconds: float) -> Answer:
        answer = Answer()
        start = time.monotonic()
        try:
            with self.exchange("POST", question.path, question.body(options), seconds) as response:
                answer.status = response.status
                if response.status == 200 and "event-stream" in (response.getheader("Content-Type") or ""):
                    answer.streamed = True
                    _read_stream(response, answer, start)
                else:
                    _read_answer(read_reply(response), answer, start)
        except Expired:
            answer.expired = not answer.complete
            # The text of an interrupted answer is not judged.
            answer.error = None
        except BadReply as exc:
            if not answer.complete:
                answer.error = f"the connection broke in the middle: {exc}"
        answer.total_s = time.monotonic() - start
        answer.distrust(question.max_tokens)
        return answer


def _read_answer(reply: Reply, answer: Answer, start: float) -> None:
    data = reply.json
    if reply.status != 200:
        answer.error = error_text(data) or reply.text or "no reason given"
        return
    if data is None:
        answer.error = f"the server sent something that is no JSON: {one_line(reply.text, 120)}"
        return
    _absorb(answer, data, time.monotonic() - start)
    answer.complete = answer.error is None


def _read_stream(response: http.client.HTTPResponse, answer: Answer, start: float) -> None:
    parser = SseParser()
    size = 0
    while not answer.complete and answer.error is None:
        piece = response.read1(65536)
        at = time.monotonic() - start
        size += len(piece)
        if size > MOST_BYTES:
            raise BadReply("the stream is far too long")
        for event in parser.feed(piece, final=not piece):
            if event.strip() == "[DONE]":
                answer.complete = True
                break
            try:
                data = read_json(event)
            except ValueError:
                # The rest of an interrupted connection is no message of the server.
                if piece:
                    answer.error = f"the server sent something that is no JSON: {one_line(event, 120)}"
                break
            _absorb(answer, data, at)
            if answer.error is not None:
                break
        if not piece:
            # Some servers leave out the end mark; a finish reason is as good.
            answer.complete = answer.complete or (answer.finish_reason is not None and answer.error is None)
            break


def measure(answer: Answer) -> dict[str, t.Any]:
    """Speeds and counts of an answer; None is 'unknown'."""
    decoding = answer.decoding()
    speed, length, source = decoding.speed, decoding.tokens_per_pass, "server"
    if length is None:
        length, source = decoding.pass_length, "usage"
    return {
        "ttft_s": None if decoding.ttft_s is None else round(decoding.ttft_s, 4),
        "total_s": round(answer.total_s, 4),
        "prompt_tokens": natural_int(answer.usage.get("prompt_tokens")),
        "completion_tokens": decoding.tokens,
        "tokens_in_first_chunk": decoding.first_tokens,
        "tokens_per_second": round(speed, 2) if speed else None,
        "seconds_per_target_pass": round(length / speed, 5) if length and speed else None,
        "acceptance_length": round(length, 3) if length else None,
        "acceptance_source": source if length else None,
    }


def repetition(text: str) -> str | None:
    """Return the part of a text that repeats without end; None if there is none."""
    tail = text.rstrip()[-4000:]
    for period in range(1, min(400, len(tail) // 3) + 1):
        covered = period
        while covered < len(tail) and tail[-1 - covered] == tail[-1 - covered + period]:
            covered += 1
        unit = tail[-period:]
        enough = 40 if period <= 3 else max(4 * period, 80)
        # A ruled line is made of repeated signs.
        if not unit.strip(" -=_*#.~|\n"):
            enough = 400
        if covered >= enough and covered >= 3 * period:
            return one_line(unit, 60) or repr(unit)
    words = text.lower().split()
    size = 8
    grams = collections.Counter(tuple(words[i : i + size]) for i in range(len(words) - size + 1))
    if grams:
        gram, times = grams.most_common(1)[0]
        if times >= 4 and times * size >= 0.25 * len(words):
            return one_line(" ".join(gram), 60)
    return None


def garbage(text: str) -> str | None:
    """Characters that no answer has; None when there are none worth a word."""
    bad = [c for c in text if c == "\ufffd" or (unicodedata.category(c) in ("Cc", "Co", "Cs") and c not in "\n\r\t")]
    if len(bad) >= 3 or (bad and len(bad) > 0.02 * len(text)):
        names = ", ".join(sorted({f"U+{ord(c):04X}" for c in bad})[:5])
        return f"{len(bad)} of {len(text)} characters are not printable ({names})"
    return None


def missing_in(answer: Answer, expect: t.Sequence[str]) -> list[str]:
    """Return the expected parts that are missing, without their word boundaries."""
    missing = [p for p in expect if not re.search(p, answer.text or answer.reasoning, re.IGNORECASE)]
    return [p.replace(r"\b", "") for p in missing]


def check_text(answer: Answer, expect: t.Sequence[str]) -> list[Finding]:
    """Judge what was said; content and reasoning each on their own."""
    findings = []
    for name, text in (("answer", answer.text), ("reasoning", answer.reasoning)):
        looped = repetition(text)
        if looped is not None:
            findings.append(Finding("repetition", f"The {name} repeats itself: {looped}"))
        junk = garbage(text)
        if junk is not None:
            findings.append(Finding("garbage", f"The {name} is garbled: {junk}."))
    if not answer.text.strip():
        cut = answer.finish_reason == "length" or answer.expired
        if not cut or not (answer.reasoning or answer.tokens):
            findings.append(Finding("empty", "The answer is empty."))
            return findings
    missing = missing_in(answer, expect)
    if missing and not answer.text.strip():
        findings.append(
            Finding(
                "unfinished",
                "The reasoning used up all tokens before the answer began, so it cannot be judged; raise max_tokens.",
            )
        )
    elif missing:
        said = one_line(answer.text, 80)
        findings.append(Finding("wrong_answer", f"The answer does not contain {', '.join(missing)}; it is: {said}"))
    return findings


# The request to a model with one function, which it cannot answer without a call.
TOOL = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Tell the present weather in a city.",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string", "description": "The city's name, such as Oslo."}},
            "required": ["city"],
        },
    },
}
_TOOL_QUESTION = "What is the weather in Paris right now? Use the function get_weather."
# A reasoning model thinks before it calls.
_TOOL_TOKENS = 512


class ToolCall(t.NamedTuple):
    """A call of a function that a model asks for."""

    name: str
    arguments: dict[str, t.Any]


def tool_request(model: str) -> dict[str, t.Any]:
    """Return a request whose answer must be a tool call."""
    return {
        "model": model,
        "messages": [{"role": "user", "content": _TOOL_QUESTION}],
        "tools": [TOOL],
        "tool_choice": "auto",
        "temperature": 0,
        "max_tokens": _TOOL_TOKENS,
    }


def read_tool_call(reply: Reply) -> ToolCall:
    """Return the call in a reply. Raise ValueError with text for 'The model made no tool call: ' if there is none."""
    data = reply.json
    if reply.status != 200:
        said = error_text(data) or reply.text or "no reason given"
        raise ValueError(f"the server answered status {reply.status}: {said}")
    problem = error_text(data)
    if problem:
        raise ValueError(f"the server answered 200 and then failed: {problem}")
    try:
        message = data["choices"][0]["message"]
        calls = message.get("tool_calls") or []
    except (TypeError, KeyError, IndexError, AttributeError) as exc:
        raise ValueError(f"the server sent something that is no completion: {one_line(reply.text, 120)}") from exc
    if not calls and data["choices"][0].get("finish_reason") == "length":
        raise ValueError(f"it was not done after {_TOOL_TOKENS} tokens")
    if not calls:
        content = one_line(_string(message.get("content")), 80)
        raise ValueError(f"it said instead: {content}" if content else "its answer is empty")
    try:
        function = calls[0]["function"]
        name, arguments = function["name"], read_json(function["arguments"])
        city = arguments["city"]
    except (TypeError, KeyError, IndexError, ValueError) as exc:
        raise ValueError(f"the call is malformed: {one_line(json.dumps(calls), 120)}") from exc
    if name != "get_weather" or not _string(city).strip():
        raise ValueError(f"it called {name} with {one_line(json.dumps(arguments), 80)}, not get_weather with a city")
    return ToolCall(name, arguments)


def try_tool_call(client: Client, model: str, seconds: float) -> tuple[ToolCall | None, list[Finding]]:
    """Have the model call a function."""
    path = "/v1/chat/completions"
    try:
        reply = client.post(path, tool_request(model), seconds)
    except Expired:
        message = f"The reply to the question with a tool was not complete after {seconds:g} s; raise the deadline."
        return None, [Finding("slow", message)]
    except ProbeError as exc:
        return None, [Finding("connection_broken", f"The server took no question with a tool on {path}: {exc}.")]
    try:
        return read_tool_call(reply), []
    except ValueError as exc:
        return None, [Finding("no_tool_call", f"The model made no tool call: {str(exc).rstrip('.')}.")]


class Verdict(t.NamedTuple):
    """Findings about the server from one answer."""

    state: str
    findings: list[Finding]
    error: str | None


def judge(answer: Answer, question: Question, expect: t.Sequence[str], speculation: bool, deadline: float) -> Verdict:
    """Make a state and findings of an answer (or of its absence)."""
    where = question.path
    if answer.error is not None:
        return _failed(answer, where)
    steps = answer.steps()
    if answer.expired and not steps:
        message = (
            f"No token came from {where} within {deadline:g} s though the server is up: it is serving someone else's"
            " request, or it hangs; try again later or raise the deadline."
        )
        return Verdict("busy", [Finding("busy", message)], None)
    if answer.expired and _stalled(steps, answer.total_s, deadline):
        message = (
            f"The answer from {where} stopped after {steps[-1].at:.1f} s and nothing came for the rest of the"
            f" {deadline:g} s; the engine hangs, restart the server and read its log."
        )
        return Verdict("unhealthy", [Finding("stalled", message)], message)
    if not answer.text and not answer.reasoning and not answer.tokens:
        message = f"The server generated nothing on {where}; read its log."
        return Verdict("unhealthy", [Finding("empty", message)], message)
    findings = []
    if answer.expired:
        findings.append(
            Finding(
                "slow", f"The answer was not complete after {deadline:g} s; raise the deadline or lower max_tokens."
            )
        )
        if missing := missing_in(answer, expect):
            message = (
                f"What had come of the answer by then does not contain {', '.join(missing)}, so it cannot be judged."
            )
            findings.append(Finding("unfinished", message))
        expect = ()
    elif not answer.complete:
        message = f"The stream from {where} ended without a finish reason; the server dropped the answer, read its log."
        return Verdict("unhealthy", [Finding("error_in_stream", message)], message)
    findings += check_text(answer, expect)
    if answer.miscounted is not None:
        message = (
            f"The server counts {answer.miscounted:,} tokens in an answer of {question.max_tokens:,} at most, so its "
            "speed is unknown. Check what listens on this port, and which image the container has."
        )
        findings.append(Finding("wrong_count", message))
    length = measure(answer)["acceptance_length"]
    if speculation and length and length < _NO_DRAFT_ACCEPTED and (answer.tokens or 0) >= _TOKENS_TO_JUDGE:
        findings.append(
            Finding(
                "no_draft_accepted",
                "Drafts are configured, but none was accepted (acceptance length 1.0): speculation is off or useless.",
            )
        )
        return Verdict("ready_without_speculation", findings, None)
    return Verdict("ready", findings, None)


def _failed(answer: Answer, where: str) -> Verdict:
    if answer.status == 200:
        message = f"The server answered 200 on {where} and then failed: {answer.error}"
        name = "error_in_stream" if answer.streamed else "error_in_reply"
    elif answer.status == 0:
        message = f"The server took the question on {where}, but {answer.error}"
        name = "connection_broken"
    else:
        message = f"The server refused the question on {where} with status {answer.status}: {answer.error}"
        name = "refused" if answer.status < 500 else "failed"
    return Verdict("unhealthy", [Finding(name, message)], message)


def _stalled(steps: list[Chunk], total_s: float, deadline: float) -> bool:
    """Return whether the silence at the end is long compared with the pauses before it."""
    gaps = [after.at - before.at for before, after in zip(steps, steps[1:])]
    return total_s - steps[-1].at > max(5 * max(gaps, default=0.0), deadline / 4)


def as_result(answer: Answer) -> dict[str, t.Any]:
    """Return an answer as the result of a module."""
    return {
        "text": answer.text,
        "reasoning": answer.reasoning,
        "finish_reason": answer.finish_reason,
        "complete": answer.complete,
        "model": answer.model,
        "usage": answer.usage,
    }

# mypy: disable-error-code="import-not-found"
# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read requests of the route for responses, and lay out their answers with the fields of the real server."""

import time
import typing as t
import uuid

from pydantic import BaseModel, ConfigDict, Field

from .runtime import NotSimulated, Piece, RequestError

Json = dict[str, t.Any]


class ResponsesRequest(BaseModel):
    model_config = ConfigDict(extra="forbid", populate_by_name=True)

    model: str
    input: t.Union[str, list[Json]]
    background: t.Optional[bool] = False
    include: t.Optional[list[str]] = None
    instructions: t.Optional[str] = None
    max_output_tokens: t.Optional[int] = Field(default=None, ge=1)
    max_tool_calls: t.Optional[int] = None
    metadata: t.Optional[dict[str, str]] = None
    parallel_tool_calls: t.Optional[bool] = False
    previous_response_id: t.Optional[str] = None
    prompt: t.Optional[Json] = None
    reasoning: t.Optional[Json] = None
    service_tier: t.Literal["auto", "default", "flex", "scale", "priority"] = "auto"
    store: t.Optional[bool] = True
    stream: t.Optional[bool] = False
    temperature: t.Optional[float] = Field(default=None, ge=0)
    text: t.Optional[Json] = None
    tool_choice: t.Union[str, Json] = "auto"
    tools: list[Json] = Field(default_factory=list)
    top_logprobs: t.Optional[int] = 0
    top_p: t.Optional[float] = Field(default=None, gt=0, le=1)
    truncation: t.Optional[t.Literal["auto", "disabled"]] = "disabled"
    user: t.Optional[str] = None

    def check(self) -> None:
        """Refuse what only the real server has, instead of an answer without it."""
        if self.prompt is not None:
            raise RequestError("prompt template is not supported")
        kind = (self.text or {}).get("format")
        absent = {
            "stream responses": self.stream,
            "call tools in responses": self.tools,
            "keep responses": self.previous_response_id is not None or self.background,
            "know response_format": isinstance(kind, dict) and kind.get("type", "text") != "text",
        }
        for does, wanted in absent.items():
            if wanted:
                raise NotSimulated(f"The stand-in does not {does}.")

    def messages(self) -> list[Json]:
        """Return the input as messages of a chat. Clients send an earlier answer back with its reasoning."""
        if isinstance(self.input, str):
            return [{"role": "user", "content": self.input}]
        messages = [item for item in self.input if item.get("type") != "reasoning"]
        if not messages:
            raise RequestError("The input has no message.")
        return messages


def body(request: ResponsesRequest, model: str, prompt_tokens: int, answer: tuple[str, str, Piece]) -> Json:
    """Return the response to a request: the request's own settings, then what was generated."""
    thinking, text, piece = answer
    settings = request.model_dump(exclude={"model", "input", "include", "store", "stream"})
    for name in ("temperature", "top_p"):
        settings[name] = 1.0 if settings[name] is None else settings[name]
    content: Json = {"type": "output_text", "text": text, "annotations": [], "logprobs": None}
    return settings | {
        "id": f"resp_{uuid.uuid4().hex}",
        "object": "response",
        "created_at": int(time.time()),
        "model": model,
        "status": "completed" if piece.finish_reason == "stop" else "incomplete",
        "output": [
            {
                "id": f"rs_{uuid.uuid4().hex}",
                "type": "reasoning",
                "summary": [],
                "content": [{"type": "reasoning_text", "text": thinking}],
            },
            {
                "id": f"msg_{uuid.uuid4().hex}",
                "type": "message",
                "role": "assistant",
                "status": "completed",
                "content": [content],
            },
        ],
        "usage": {
            "input_tokens": prompt_tokens,
            "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
            "output_tokens": piece.completion_tokens,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": prompt_tokens + piece.completion_tokens,
        },
    }

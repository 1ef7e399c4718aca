# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The stand-in answers clients with the fields of the real server, and refuses what it cannot do."""

from __future__ import annotations

import json
import typing as t
import urllib.error
import urllib.request

import pytest

pytest.importorskip("uvicorn")
from tests.engines.standin import MODEL, StandIn

TOOL = {"type": "function", "function": {"name": "find_capital", "parameters": {"required": "country"}}}
QUESTION = "What is the capital of France?"
IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}


@pytest.fixture(name="server", scope="module", params=[True, False], ids=["harmony", "parsers"])
def fixture_server(request: pytest.FixtureRequest) -> t.Iterator[StandIn]:
    server = StandIn(harmony=request.param)
    yield server
    server.close()


def ask(server: StandIn, path: str, body: dict[str, t.Any]) -> tuple[int, dict[str, t.Any]]:
    """Return status and answer of a request."""
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(f"{server.url}{path}", json.dumps({"model": MODEL, **body}).encode(), headers)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as failure:
        return failure.code, json.load(failure)


def test_a_response_repeats_its_settings(server: StandIn) -> None:
    settings = {"instructions": "Be brief.", "metadata": {"a": "b"}, "parallel_tool_calls": True, "truncation": "auto"}
    status, answer = ask(server, "/v1/responses", {"input": QUESTION, **settings})
    assert status == 200
    assert {name: answer[name] for name in settings} == settings
    plain = ("temperature", "top_p", "tool_choice", "tools", "service_tier", "background", "top_logprobs")
    assert [answer[name] for name in plain] == [1.0, 1.0, "auto", [], "auto", False, 0]
    assert {"input_tokens_details", "output_tokens_details"} <= set(answer["usage"])


def test_a_response_continues_from_an_earlier_one(server: StandIn) -> None:
    _, first = ask(server, "/v1/responses", {"input": QUESTION})
    again = [{"role": "user", "content": QUESTION}, *first["output"], {"role": "user", "content": "And of Italy?"}]
    assert ask(server, "/v1/responses", {"input": again})[0] == 200


@pytest.mark.parametrize(
    "body",
    [
        {"stream": True},
        {"tools": [{"type": "function", "name": "find_capital", "parameters": {}}]},
        {"previous_response_id": "resp_1"},
        {"background": True},
        {"text": {"format": {"type": "json_object"}}},
        {"input": [{"role": "user", "content": [{"type": "input_image", "image_url": "data:"}]}]},
    ],
)
def test_a_response_that_it_cannot_make_is_refused(server: StandIn, body: dict[str, t.Any]) -> None:
    status, answer = ask(server, "/v1/responses", {"input": QUESTION, **body})
    assert (status, answer["type"]) == (501, "NotImplementedError")


@pytest.mark.parametrize("body", [{"top_p": -1}, {"temperature": -1}, {"max_output_tokens": 0}, {"input": []}])
def test_a_response_out_of_bounds_is_an_error_of_the_client(server: StandIn, body: dict[str, t.Any]) -> None:
    assert ask(server, "/v1/responses", {"input": QUESTION, **body})[0] == 400


@pytest.mark.parametrize("content", [[IMAGE], [{"type": "text", "text": QUESTION}, IMAGE], [None]])
def test_a_message_with_more_than_text_is_refused(server: StandIn, content: list[t.Any]) -> None:
    assert ask(server, "/v1/chat/completions", {"messages": [{"role": "user", "content": content}]})[0] == 501


@pytest.mark.parametrize(
    "body",
    [
        {"tools": [{"type": "function"}]},
        {"tools": [{"type": "function", "function": {"name": 1}}]},
        {"tools": [TOOL], "tool_choice": "always"},
        {"tools": [TOOL], "tool_choice": {"type": "function", "function": "find_capital"}},
    ],
)
def test_a_tool_out_of_shape_is_an_error_of_the_client(server: StandIn, body: dict[str, t.Any]) -> None:
    messages = [{"role": "user", "content": QUESTION}]
    assert ask(server, "/v1/chat/completions", {"messages": messages, **body})[0] == 400


def test_a_tool_without_a_usable_schema_is_called_without_arguments(server: StandIn) -> None:
    status, answer = ask(
        server, "/v1/chat/completions", {"messages": [{"role": "user", "content": QUESTION}], "tools": [TOOL]}
    )
    (call,) = answer["choices"][0]["message"]["tool_calls"]
    assert (status, call["function"]["arguments"]) == (200, "{}")

# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import typing as t

import pytest
from ansible.module_utils.testing import patch_module_args
from ansible_collections.dgx_spark.speculative.plugins.modules import greedy_answers

from tests.unit.replay_server import Handler, Server, free_port

Ask = t.Callable[..., dict[str, t.Any]]


def continues(handler: Handler) -> None:
    """A model that says what it was asked, in capitals."""
    prompt = handler.told.requests[-1]["prompt"]
    body = {"choices": [{"index": 0, "text": prompt.upper(), "finish_reason": "length"}], "model": "m"}
    handler.reply(200, json.dumps(body).encode())


@pytest.fixture(name="server")
def fixture_server() -> t.Iterator[Server]:
    server = Server()
    server.ask = continues
    yield server
    server.close()


@pytest.fixture(name="ask")
def fixture_ask(server: Server, capsys: pytest.CaptureFixture[str]) -> Ask:
    def ask(**args: t.Any) -> dict[str, t.Any]:
        with patch_module_args({"url": server.url, **args}), pytest.raises(SystemExit):
            greedy_answers.main()
        result: dict[str, t.Any] = json.loads(capsys.readouterr().out)
        return result

    return ask


def test_the_default_prompts_are_asked_greedily(server: Server, ask: Ask) -> None:
    result = ask()
    assert result["changed"] is False
    assert result["model"] == "openai/gpt-oss-120b"
    assert list(result["answers"]) == greedy_answers.PROMPTS
    assert (result["compared"], result["equal"], result["differences"], result["findings"]) == (0, 0, [], [])
    assert [request["temperature"] for request in server.requests] == [0.0] * 4
    assert server.requests[0]["max_tokens"] == 128
    assert "stream" not in server.requests[0]


def test_what_was_said_before_is_the_same(ask: Ask) -> None:
    result = ask(reference=ask()["answers"])
    assert (result["compared"], result["equal"], result["findings"]) == (4, 4, [])


def test_differences_are_located(ask: Ask) -> None:
    reference = {"one two": "ONE TOO", "three": "THREE", "four": "FOUR SIX", "not asked": "x"}
    result = ask(prompts=["one two", "three", "four", "five"], reference=reference)
    assert (result["compared"], result["equal"]) == (3, 1)
    assert result["differences"] == [
        {"prompt": "one two", "at_character": 5, "ours": "WO", "theirs": "OO"},
        {"prompt": "four", "at_character": 4, "ours": "", "theirs": " SIX"},
    ]
    assert [finding["id"] for finding in result["findings"]] == ["greedy_difference"]
    assert result["findings"][0]["message"].startswith("2 of 3 greedy answers differ from the reference, the earliest")


def test_an_answer_that_loops_is_a_finding(ask: Ask) -> None:
    result = ask(prompts=["again and " * 60])
    assert [finding["id"] for finding in result["findings"]] == ["repetition"]
    assert result["findings"][0]["message"].startswith("On 'again and again and")


def test_a_server_that_is_not_there(ask: Ask) -> None:
    port = free_port()
    message = ask(url=f"http://127.0.0.1:{port}")["msg"]
    url = f"http://127.0.0.1:{port}"
    assert message == f"The server at {url} cannot be asked: nothing listens on 127.0.0.1 port {port}."


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        ((500, b'{"message": "engine is dead", "object": "error"}'), "with status 500: engine is dead"),
        ((200, b'{"object": "error", "message": "out of memory"}'), "and then failed: out of memory"),
        ((200, b"nonsense"), "sent something that is no JSON: nonsense"),
    ],
)
def test_a_server_that_fails(server: Server, ask: Ask, reply: tuple[int, bytes], words: str) -> None:
    server.ask = lambda handler: handler.reply(*reply)
    assert words in ask()["msg"]


def test_an_answer_that_does_not_come(server: Server, ask: Ask) -> None:
    def hang(handler: Handler) -> None:
        handler.told.release.wait(20)

    server.ask = hang
    message = ask(prompts=["why"], deadline=0.3)["msg"]
    assert message.startswith("The answer to 'why' was not complete after 0.3 s: ")


def test_a_reference_of_another_shape(ask: Ask) -> None:
    assert "The reference for 'x' is no text" in ask(reference={"x": ["y"]})["msg"]


@pytest.mark.parametrize(("ours", "theirs", "at"), [("ab", "ab", None), ("ab", "ac", 1), ("a", "ab", 1), ("", "a", 0)])
def test_first_difference(ours: str, theirs: str, at: int | None) -> None:
    assert greedy_answers.first_difference(ours, theirs) == at

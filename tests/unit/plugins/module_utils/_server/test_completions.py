# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import time
import typing as t

import pytest
from ansible_collections.dgx_spark.speculative.plugins.module_utils._server import completions

from tests.unit.replay_server import FIXTURES, Handler, Server, events, replay


@pytest.fixture(name="server")
def fixture_server() -> t.Iterator[Server]:
    server = Server()
    yield server
    server.close()


def question(kind: str = "chat", **options: t.Any) -> completions.Question:
    return completions.Question(kind=kind, model="m", prompt="What is 17 times 23?", max_tokens=512, **options)


def ask(server: Server, kind: str = "chat", seconds: float = 5, **options: t.Any) -> completions.Answer:
    return completions.Client(server.url).ask(question(kind, **options), seconds)


def judge(
    answer: completions.Answer, expect: t.Sequence[str] = (), speculation: bool = False, deadline: float = 5
) -> completions.Verdict:
    return completions.judge(answer, question(), expect, speculation, deadline)


def test_small_routes(server: Server) -> None:
    client = completions.Client(server.url + "/v1/", api_key="secret")
    assert client.get("/health").status == 200
    assert client.version() == "1.3.0rc12"
    assert client.models() == ["openai/gpt-oss-120b"]
    assert {headers["Authorization"] for headers in server.headers} == {"Bearer secret"}


def test_speed_comes_from_tokens_not_chunks(server: Server) -> None:
    server.ask = replay("chat_stream_speculative", 0.02)
    answer = ask(server)
    assert answer.complete
    assert answer.text.startswith("17 times 23 is")
    assert answer.finish_reason == "stop"
    figures = completions.measure(answer)
    assert figures["completion_tokens"] == 40
    assert figures["prompt_tokens"] == 21
    assert figures["tokens_in_first_chunk"] == 1
    # 39 tokens in nine pauses of 20 ms is 217 a second; chunks would be 50.
    assert 100 < figures["tokens_per_second"] < 230
    assert (figures["acceptance_length"], figures["acceptance_source"]) == (4.3, "server")
    assert figures["seconds_per_target_pass"] == pytest.approx(4.3 / figures["tokens_per_second"], rel=0.01)
    assert figures["ttft_s"] < figures["total_s"]
    assert judge(answer, ["391"], speculation=True) == completions.Verdict("ready", [], None)


def test_a_count_that_cannot_be_is_a_finding_and_no_speed(server: Server) -> None:
    def lies(handler: Handler) -> None:
        def pieces() -> t.Iterator[bytes]:
            for event in events("chat_stream_speculative"):
                time.sleep(0.02)
                yield event.replace(b'"completion_tokens": 40', b'"completion_tokens": 100000')

        handler.stream(pieces())

    server.ask = lies
    answer = ask(server)
    assert answer.complete
    figures = completions.measure(answer)
    assert (figures["completion_tokens"], figures["tokens_per_second"]) == (None, None)
    verdict = judge(answer, ["391"], speculation=True)
    assert [finding.id for finding in verdict.findings] == ["wrong_count"]
    assert verdict.findings[0].message.startswith("The server counts 100,000 tokens in an answer of 512 at most")


def test_ttft_of_a_slow_first_token(server: Server) -> None:
    def slow(handler: Handler) -> None:
        def pieces() -> t.Iterator[bytes]:
            # The role comes at once and is no token.
            role, *tokens = events("chat_stream_speculative")
            yield role
            time.sleep(0.3)
            yield from tokens

        handler.stream(pieces())

    server.ask = slow
    answer = ask(server)
    assert 0.3 <= completions.measure(answer)["ttft_s"] <= answer.total_s


def test_acceptance_from_usage(server: Server) -> None:
    server.ask = replay("chat_stream_null_acceptance")
    figures = completions.measure(ask(server))
    # 39 tokens after the first chunk in nine passes.
    assert (figures["acceptance_length"], figures["acceptance_source"]) == (4.333, "usage")


@pytest.mark.parametrize(
    ("tokens", "drafts", "accepted", "length"),
    [
        # As vLLM 0.32 counted them: the end of the answer cut accepted drafts off.
        (24, 5, 20, 4.0),
        (24, 0, 0, 1.0),
        # Of 23 passes after the prompt's own, 3 had drafts.
        (30, 3, 6, 1.25),
        (1, 0, 0, None),
    ],
)
def test_acceptance_from_counts_of_drafts(
    server: Server, tokens: int, drafts: int, accepted: int, length: float | None
) -> None:
    counts = {"mean_acceptance_length": 1.0, "num_spec_steps": drafts, "num_accepted_draft_tokens": accepted}
    last = {"choices": [], "usage": {"completion_tokens": tokens}, "metrics": {"speculative_decoding": counts}}
    text = {"choices": [{"index": 0, "delta": {"content": "391"}, "finish_reason": "length"}]}
    lines = [f"data: {json.dumps(event)}\n\n".encode() for event in (text, last)]
    server.ask = lambda handler: handler.stream(iter([*lines, b"data: [DONE]\n\n"]))
    figures = completions.measure(ask(server))
    assert figures["acceptance_length"] == length
    assert figures["acceptance_source"] == ("server" if length else None)


@pytest.mark.parametrize("metrics", [None, [], {"speculative_decoding": None}, {"speculative_decoding": {"a": 1}}])
def test_figures_without_counts_of_drafts(server: Server, metrics: t.Any) -> None:
    event = {"choices": [{"message": {"content": "x"}}], "usage": {"completion_tokens": 9}, "metrics": metrics}
    server.ask = lambda handler: handler.reply(200, event)
    assert completions.measure(ask(server, stream=False))["acceptance_length"] is None


def test_acceptance_unknown(server: Server) -> None:
    server.ask = replay("chat_stream_no_counts", 0.005)
    answer = ask(server)
    figures = completions.measure(answer)
    assert figures["acceptance_length"] is None
    assert figures["acceptance_source"] is None
    assert figures["seconds_per_target_pass"] is None
    assert figures["tokens_in_first_chunk"] is None
    assert figures["completion_tokens"] == 40
    assert figures["tokens_per_second"] > 0
    assert judge(answer, speculation=True) == completions.Verdict("ready", [], None)


@pytest.mark.parametrize(("speculation", "state"), [(True, "ready_without_speculation"), (False, "ready")])
def test_no_draft_accepted(server: Server, speculation: bool, state: str) -> None:
    server.ask = replay("chat_stream_no_speculation")
    verdict = judge(ask(server), speculation=speculation)
    assert verdict.state == state
    assert [finding.id for finding in verdict.findings] == (["no_draft_accepted"] if speculation else [])


def test_few_tokens_do_not_judge_speculation() -> None:
    answer = completions.Answer(
        status=200, text="391", complete=True, usage={"completion_tokens": 16}, tokens_per_pass=1.0
    )
    assert judge(answer, speculation=True).state == "ready"


def test_reasoning_is_kept_apart(server: Server) -> None:
    server.ask = replay("chat_stream_reasoning")
    answer = ask(server)
    assert answer.reasoning == "We need 17*23. 17*23 = 391."
    assert answer.text == "The product is 391."
    assert completions.measure(answer)["tokens_in_first_chunk"] == 6
    assert judge(answer, ["391"]) == completions.Verdict("ready", [], None)


@pytest.mark.parametrize(("expect", "findings"), [([], []), (["multiply"], []), (["391"], ["unfinished"])])
def test_reasoning_that_used_up_the_tokens(server: Server, expect: list[str], findings: list[str]) -> None:
    server.ask = replay("chat_stream_reasoning_cut")
    answer = ask(server)
    assert (answer.text, answer.finish_reason) == ("", "length")
    verdict = judge(answer, expect)
    assert (verdict.state, [finding.id for finding in verdict.findings]) == ("ready", findings)


def test_completion(server: Server) -> None:
    server.ask = replay("completion_stream")
    answer = ask(server, "completion")
    assert answer.text == " 17, 19, 23, 29, 31, 37"
    assert server.requests == [
        {
            "model": "m",
            "prompt": "What is 17 times 23?",
            "max_tokens": 512,
            "temperature": 0.0,
            "stream": True,
            "stream_options": {"include_usage": True, "continuous_usage_stats": True},
        }
    ]


def test_without_stream(server: Server) -> None:
    body = (FIXTURES / "chat_reply.json").read_bytes()
    server.ask = lambda handler: handler.reply(200, body)
    answer = ask(server, stream=False)
    assert "stream" not in server.requests[0]
    assert (answer.text, answer.reasoning) == ("The product is 391.", "17*23 = 391")
    figures = completions.measure(answer)
    assert (figures["ttft_s"], figures["tokens_per_second"]) == (None, None)
    assert (figures["completion_tokens"], figures["acceptance_length"]) == (40, 2.35)
    assert judge(answer, ["391"]).state == "ready"


def test_stream_that_comes_as_one_reply(server: Server) -> None:
    body = (FIXTURES / "chat_reply.json").read_bytes()
    server.ask = lambda handler: handler.reply(200, body)
    answer = ask(server)
    assert (answer.complete, answer.streamed, answer.text) == (True, False, "The product is 391.")


def test_asks_again_without_options_that_the_release_does_not_know(server: Server) -> None:
    def strict(handler: Handler) -> None:
        if "continuous_usage_stats" in handler.told.requests[-1].get("stream_options", {}):
            handler.reply(400, b"{\"error\": \"[{'loc': ('body', 'stream_options')}] Extra inputs are not permitted\"}")
        else:
            replay("chat_stream_no_counts")(handler)

    server.ask = strict
    assert ask(server).complete
    assert [request.get("stream_options") for request in server.requests] == [
        {"include_usage": True, "continuous_usage_stats": True},
        {"include_usage": True},
    ]


def test_error_in_stream(server: Server) -> None:
    server.ask = replay("chat_stream_error")
    answer = ask(server)
    assert (answer.status, answer.complete) == (200, False)
    error = (
        "The server answered 200 on /v1/chat/completions and then failed: RequestError: CUDA error: an illegal"
        " instruction was encountered"
    )
    assert judge(answer) == completions.Verdict("unhealthy", [completions.Finding("error_in_stream", error)], error)


def test_dropped_stream(server: Server) -> None:
    server.ask = replay("chat_stream_dropped")
    verdict = judge(ask(server))
    assert verdict.state == "unhealthy"
    assert verdict.error == (
        "The stream from /v1/chat/completions ended without a finish reason; the server dropped the answer,"
        " read its log."
    )


def test_connection_that_breaks(server: Server) -> None:
    def cut(handler: Handler) -> None:
        handler.wfile.write(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\nff\r\n"
        )
        handler.close_connection = True

    server.ask = cut
    verdict = judge(ask(server))
    assert verdict.state == "unhealthy"
    assert verdict.findings[0].id == "error_in_stream"


@pytest.mark.parametrize(
    ("status", "body", "error", "name"),
    [
        (400, b'{"object": "error", "message": "too long", "type": "BadRequestError", "param": null, "code": 400}',
         "too long", "refused"),
        (400, b'{"error": "prompt is too long"}', "prompt is too long", "refused"),
        (422, b'{"object": "error", "message": "prompt: Field required", "type": "BadRequestError", "code": 422}',
         "prompt: Field required", "refused"),
        (404, b'{"error": {"message": "no such model", "type": "NotFound"}}', "no such model", "refused"),
        (422, b'{"detail": [{"loc": ["body", "prompt"], "msg": "Field required", "type": "missing"}]}',
         "body.prompt: Field required", "refused"),
        (404, b'{"detail": "Not Found"}', "Not Found", "refused"),
        (500, b"Internal Server Error", "Internal Server Error", "failed"),
        (503, b"", "no reason given", "failed"),
    ],
)  # fmt: skip
def test_error_shapes(server: Server, status: int, body: bytes, error: str, name: str) -> None:
    server.ask = lambda handler: handler.reply(status, body)
    verdict = judge(ask(server))
    assert verdict.state == "unhealthy"
    assert verdict.findings[0].id == name
    assert verdict.error == f"The server refused the question on /v1/chat/completions with status {status}: {error}"


@pytest.mark.parametrize(
    "body", [b"<html>hello</html>", b"[1, 2]", b'"text"', b'{"choices": "none"}', b"{}", b"[" * 100_000]
)
def test_nonsense_replies(server: Server, body: bytes) -> None:
    server.ask = lambda handler: handler.reply(200, body)
    assert judge(ask(server, stream=False)).state == "unhealthy"


def test_half_a_character_can_be_passed_on(server: Server) -> None:
    part = b'{"choices": [{"delta": {"content": "a \\ud800 b \\ud83d\\ude00"}, "finish_reason": "stop"}]}'
    server.ask = lambda handler: handler.stream([b"data: " + part + b"\n\n", b"data: [DONE]\n\n"])
    assert ask(server).text == "a \ufffd b \U0001f600"
    server.ask = lambda handler: handler.reply(200, part.replace(b"delta", b"message"))
    assert ask(server, stream=False).text == "a \ufffd b \U0001f600"


def test_brackets_without_end_in_stream(server: Server) -> None:
    server.ask = lambda handler: handler.stream([b"data: " + b"[" * 100_000 + b"\n\n", b"data: [DONE]\n\n"])
    assert str(ask(server).error).startswith("the server sent something that is no JSON: [[[")


def test_nonsense_in_stream(server: Server) -> None:
    server.ask = lambda handler: handler.stream([b"data: {nonsense\n\n", b"data: [DONE]\n\n"])
    answer = ask(server)
    assert answer.error == "the server sent something that is no JSON: {nonsense"


def hang(handler: Handler) -> None:
    handler.told.release.wait()


def drip(handler: Handler) -> None:
    """Headers, and then a byte now and again: a socket's own timeout never strikes."""
    handler.wfile.write(b"HTTP/1.0 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")
    try:
        while not handler.told.release.wait(0.05):
            handler.wfile.write(b":")
            handler.wfile.flush()
    except OSError:
        handler.close_connection = True


def drip_headers(handler: Handler) -> None:
    try:
        handler.wfile.write(b"HTTP/1.1 200 OK\r\nX-Slow: ")
        while not handler.told.release.wait(0.05):
            handler.wfile.write(b"x")
            handler.wfile.flush()
    except OSError:
        handler.close_connection = True


@pytest.mark.parametrize("behaviour", [hang, drip, drip_headers])
def test_the_deadline_holds(server: Server, behaviour: t.Callable[[Handler], None]) -> None:
    server.ask = behaviour
    start = time.monotonic()
    answer = ask(server, seconds=0.4)
    # Without the deadline it would be for ever.
    assert time.monotonic() - start > 0.3
    assert (answer.expired, answer.complete, answer.error) == (True, False, None)
    verdict = judge(answer, deadline=0.4)
    assert verdict == completions.Verdict(
        "busy",
        [
            completions.Finding(
                "busy",
                "No token came from /v1/chat/completions within 0.4 s though the server is up: it is serving someone"
                " else's request, or it hangs; try again later or raise the deadline.",
            )
        ],
        None,
    )


def test_slow_answer(server: Server) -> None:
    server.ask = replay("chat_stream_speculative", 0.1)
    answer = ask(server, seconds=0.6)
    verdict = judge(answer, ["391"], deadline=0.6)
    assert verdict.state == "ready"
    # What is expected may still come, and is not there: that is told, too.
    assert [finding.id for finding in verdict.findings] == ["slow", "unfinished"]
    assert "does not contain 391" in verdict.findings[1].message
    assert [finding.id for finding in judge(answer, ["."], deadline=0.6).findings] == ["slow"]
    assert completions.measure(answer)["tokens_per_second"] is not None


def test_stalled_answer(server: Server) -> None:
    def stall(handler: Handler) -> None:
        def pieces() -> t.Iterator[bytes]:
            yield from events("chat_stream_speculative")[:4]
            handler.told.release.wait()

        handler.stream(pieces())

    server.ask = stall
    verdict = judge(ask(server, seconds=0.5), deadline=0.5)
    assert verdict.state == "unhealthy"
    assert verdict.findings[0].id == "stalled"


def test_endless_loop(server: Server) -> None:
    server.ask = replay("chat_stream_loop")
    verdict = judge(ask(server))
    assert verdict.state == "ready"
    assert [finding.id for finding in verdict.findings] == ["repetition"]


def test_wrong_and_empty_answers() -> None:
    answer = completions.Answer(
        status=200, text="It is 401.", complete=True, finish_reason="stop", usage={"completion_tokens": 5}
    )
    assert judge(answer, [r"\b391\b", "IT IS"]).findings == [
        completions.Finding("wrong_answer", "The answer does not contain 391; it is: It is 401.")
    ]
    answer.text = ""
    assert judge(answer).findings == [completions.Finding("empty", "The answer is empty.")]
    answer.usage = {}
    assert judge(answer).state == "unhealthy"


@pytest.mark.parametrize(
    ("text", "looped"),
    [
        ("", None),
        ("The sky is blue since air scatters short waves more than long ones.", None),
        ("".join(f"7 x {i} = {7 * i}\n" for i in range(1, 30)), None),
        (", ".join(str(i) for i in range(1, 200)), None),
        ("| a | b |\n|" + "-" * 80 + "|\n| 1 | 2 |\n" + "=" * 80, None),
        ("!" * 60, "!"),
        ("Well, " + "I think that it is so. " * 8, "I think that it is so."),
        ("蓝天白云" * 30, "蓝天白云"),
    ],
)
def test_repetition(text: str, looped: str | None) -> None:
    found = completions.repetition(text)
    assert (found is None) == (looped is None)
    if looped:
        assert found is not None
        assert sorted(set(found.replace(" ", ""))) == sorted(set(looped.replace(" ", "")))


def test_repetition_of_word_groups() -> None:
    phrase = "and so the answer to this question is again"
    text = " ".join(f"{phrase} {word}." for word in ("one", "two", "three", "four", "five"))
    assert completions.repetition(text) is not None


@pytest.mark.parametrize(
    ("text", "junk"),
    [
        ("naïve café — 100 °C\n\t“ok” 🚀", None),
        ("a" * 200 + "\ufffd", None),
        ("ok\x00\x01\x02", "3 of 5 characters are not printable (U+0000, U+0001, U+0002)"),
        ("\ufffd\ufffd", "2 of 2 characters are not printable (U+FFFD)"),
    ],
)
def test_garbage(text: str, junk: str | None) -> None:
    assert completions.garbage(text) == junk


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_sse_in_pieces_of_any_size(size: int) -> None:
    raw = ': hello\r\ndata: {"a": "ü€"}\r\n\r\nevent: x\ndata: one\ndata: two\n\ndata: [DONE]'.encode()
    parser = completions.SseParser()
    found = [event for i in range(0, len(raw), size) for event in parser.feed(raw[i : i + size])]
    assert found == ['{"a": "ü€"}', "one\ntwo"]
    assert parser.feed(b"", final=True) == ["[DONE]"]


def test_error_text_of_what_is_no_error() -> None:
    assert completions.error_text({"choices": []}) is None
    assert completions.error_text([1]) is None
    assert completions.error_text(None) is None

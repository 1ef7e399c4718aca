# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import os
import shutil
import time
import typing as t
from pathlib import Path

import pytest
import yaml
from ansible_collections.dgx_spark.speculative.plugins.module_utils._server import completions, readiness
from ansible_collections.dgx_spark.speculative.plugins.modules import completions_probe

from tests.unit import modules
from tests.unit.replay_server import FIXTURES, Handler, Server, free_port, replay
from tests.unit.waiting import Clock

Probe = t.Callable[..., dict[str, t.Any]]


@pytest.fixture(name="server")
def fixture_server() -> t.Iterator[Server]:
    server = Server()
    server.ask = replay("chat_stream_speculative", 0.002)
    yield server
    server.close()


@pytest.fixture(name="clock", autouse=True)
def fixture_clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """By which it waits for the server."""
    clock = Clock()
    monkeypatch.setattr(readiness, "time", clock)
    return clock


@pytest.fixture(name="probe")
def fixture_probe() -> Probe:
    def probe(**args: t.Any) -> dict[str, t.Any]:
        result = modules.run(completions_probe, args)
        assert result.get("changed", False) is False
        return result

    return probe


class Container:
    """The files that a container's main process writes, and a port on which nothing listens."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.url = f"http://127.0.0.1:{free_port()}"

    def says(self, state: str, **values: t.Any) -> None:
        content = {"state": state, "since": time.time(), "pid": 9, "restarts": 0, "last_exit": None, **values}
        (self.directory / "state.json").write_text(json.dumps(content), encoding="utf-8")

    def logs(self, name: str) -> None:
        shutil.copy(FIXTURES / f"server_log_{name}.txt", self.directory / "server.log")

    @property
    def args(self) -> dict[str, t.Any]:
        return {
            "url": self.url,
            "state_file": str(self.directory / "state.json"),
            "log_file": str(self.directory / "server.log"),
        }


@pytest.fixture(name="container")
def fixture_container(tmp_path: Path) -> Container:
    return Container(tmp_path)


def exited(
    code: int | None = 1, signal: int | None = None, at: float | None = None, reason: str = "x"
) -> dict[str, t.Any]:
    return {"code": code, "signal": signal, "at": time.time() if at is None else at, "reason": reason}


def test_ready(server: Server, probe: Probe) -> None:
    result = probe(url=server.url, speculation=True)
    assert result["state"] == "ready"
    assert (result["finished"], result["healthy"], result["error"], result["findings"]) == (True, True, None, [])
    assert result["http"] == {
        "health": 200,
        "version": "1.3.0rc12",
        "models": ["openai/gpt-oss-120b"],
        "completion": 200,
    }
    assert result["answer"]["text"].startswith("17 times 23")
    assert result["answer"]["complete"] is True
    assert result["measurements"]["acceptance_length"] == 4.3
    assert set(result["measurements"]["request"]) == {"prompt", "max_tokens"}
    assert result["progress"]["text"] == "ready"
    assert result["progress"]["text"] == "ready"
    asked = server.requests[0]
    assert (asked["model"], asked["temperature"], asked["max_tokens"]) == ("openai/gpt-oss-120b", 0.0, 512)


def test_asks_in_check_mode(server: Server, probe: Probe) -> None:
    assert probe(url=server.url, _ansible_check_mode=True)["answer"]["finish_reason"] == "stop"


def test_asks_nothing(server: Server, probe: Probe) -> None:
    result = probe(url=server.url, kind="none")
    assert (result["state"], result["healthy"], result["answer"], result["measurements"]) == ("ready", True, None, None)
    assert server.requests == []


def test_completion_has_its_own_question(server: Server, probe: Probe) -> None:
    server.ask = replay("completion_stream")
    assert probe(url=server.url, kind="completion")["healthy"] is True
    assert server.requests[0]["prompt"].startswith("The first prime numbers")


def test_api_key_is_sent_and_hidden(server: Server, probe: Probe) -> None:
    result = probe(url=server.url, kind="none", api_key="very-secret")
    assert server.headers[0]["Authorization"] == "Bearer very-secret"
    assert "very-secret" not in json.dumps(result)


def test_findings_fail_only_when_told(server: Server, probe: Probe) -> None:
    args = {"url": server.url, "prompt": "What is 2 and 2?", "expect": [r"\b4\b"], "model": "other"}
    result = probe(**args)
    assert (result["state"], result["healthy"], result.get("failed", False)) == ("ready", False, False)
    assert [finding["id"] for finding in result["findings"]] == ["wrong_answer", "model_not_served"]
    assert probe(fail_on=["not_serving"], **args).get("failed", False) is False
    result = probe(fail_on=["findings"], **args)
    assert result["failed"] is True
    assert result["msg"].endswith("The model other was asked for, but the server serves openai/gpt-oss-120b.")


@pytest.mark.parametrize(
    ("kv_cache", "found"),
    [
        ({"tokens": 17_792, "planned": 131_168}, True),
        # Whole blocks of 256 tokens, if somebody has asked for such.
        ({"tokens": 131_072, "planned": 131_168}, False),
        ({"tokens": 131_040, "planned": 131_168}, True),
        ({"tokens": None, "planned": 131_168}, False),
        ({"tokens": 17_792, "planned": None}, False),
        (None, False),
        ("odd", False),
    ],
)
def test_a_kv_cache_that_is_smaller_than_planned(
    server: Server, probe: Probe, container: Container, kv_cache: t.Any, found: bool
) -> None:
    container.says("running", kv_cache=kv_cache)
    result = probe(**{**container.args, "url": server.url})
    assert (result["state"], result["healthy"]) == ("ready", not found)
    assert [finding["id"] for finding in result["findings"]] == ["smaller_context"] * found
    if found:
        message = result["findings"][0]["message"]
        assert message.startswith(f"The context is smaller than planned: {kv_cache['tokens']:,} of 131,168 tokens fit")
        assert "speculative_serve_drop_caches: true" in message


def test_no_draft_accepted(server: Server, probe: Probe) -> None:
    server.ask = replay("chat_stream_no_speculation")
    result = probe(url=server.url, speculation=True, fail_on=["not_serving"])
    assert (result["state"], result["healthy"]) == ("ready_without_speculation", False)
    assert result["progress"]["text"] == "ready without speculation"


def test_busy(server: Server, probe: Probe) -> None:
    def hang(handler: Handler) -> None:
        handler.told.release.wait()

    server.ask = hang
    result = probe(url=server.url, answer_timeout=0.3)
    assert (result["state"], result["finished"], result["healthy"], result["error"]) == ("busy", True, False, None)
    assert result["findings"][0]["id"] == "busy"
    assert probe(url=server.url, answer_timeout=0.3, fail_on=["not_serving"])["msg"] == result["findings"][0]["message"]


def test_error_in_stream(server: Server, probe: Probe) -> None:
    server.ask = replay("chat_stream_error")
    result = probe(url=server.url, fail_on=["not_serving"])
    assert result["state"] == "unhealthy"
    assert result["msg"] == result["error"]
    assert "illegal instruction" in result["error"]


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b'"LLM is unavailable. Please check the server logs for more details."',
         '"LLM is unavailable. Please check the server logs for more details."'),
        (b"", "no reason given"),
    ],
)  # fmt: skip
def test_unhealthy(server: Server, probe: Probe, body: bytes, said: str) -> None:
    server.health = (503, body)
    result = probe(url=server.url)
    assert (result["state"], result["finished"], result["http"]["health"]) == ("unhealthy", True, 503)
    assert result["error"] == f"/health at {server.url} answers 503: {said}."


def test_something_else_listens(server: Server, probe: Probe, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Handler, "do_GET", lambda handler: handler.reply(200, b"<html>", "text/html"))
    result = probe(url=server.url)
    assert result["state"] == "unhealthy"
    assert result["error"] == f"What listens at {server.url} lists no model on /v1/models; is it a model server?"


def test_absent(container: Container, probe: Probe) -> None:
    result = probe(url=container.url, fail_on=["not_serving"])
    assert (result["state"], result["failed"]) == ("absent", True)
    port = container.url.rpartition(":")[2]
    assert result["msg"] == (
        f"No server at {container.url}: nothing listens on 127.0.0.1 port {port}, and no server is being started."
    )


def test_stopped(container: Container, probe: Probe) -> None:
    container.says("stopped", last_exit=exited())
    result = probe(**container.args)
    assert (result["state"], result["error"]) == ("absent", f"The server at {container.url} is stopped. Run start.yml.")


def test_loading(container: Container, probe: Probe) -> None:
    container.says("loading")
    container.logs("loading")
    result = probe(fail_on=["not_serving"], **container.args)
    assert (result["state"], result["finished"], result["error"]) == ("loading", False, None)
    assert result["progress"] == {"percent": 60.0, "text": "loading weights 3 of 5"}
    assert result.get("failed", False) is False
    assert result["server"]["pid"] == 9


def test_loading_can_fail(container: Container, probe: Probe) -> None:
    container.says("loading")
    result = probe(fail_on=["loading"], wait=0.1, **container.args)
    assert result["msg"] == "The server still loads after 0.1 s: waiting for the first line of the log."


def test_loading_that_stands_still(container: Container, probe: Probe) -> None:
    container.says("loading")
    container.logs("loading")
    before = time.time() - 250
    os.utime(container.directory / "server.log", (before, before))
    text = probe(**container.args)["progress"]["text"]
    assert text == "loading weights 3 of 5 (nothing new in the log for 4 min)"


@pytest.mark.parametrize(
    ("state", "last_exit", "log", "error"),
    [
        (
            "restarting",
            exited(1),
            "unknown_option",
            "The server ended with exit code 1 (a Python error): speculative_config.Eagle3.max_draft_length: Extra"
            " inputs are not permitted. The engine options have a key that this release does not know. Remove or rename"
            " the key.",
        ),
        (
            "failed",
            exited(None, 9, reason="Loading weights"),
            None,
            "The server ended with signal 9 (killed, usually because the memory ran out): Loading weights.",
        ),
        (
            "failed",
            exited(None, None, reason="serve.sh cannot be read (no such file); run the playbook again"),
            "memory",
            "The container did not start the server: serve.sh cannot be read (no such file); run the playbook again.",
        ),
        (
            "loading",
            exited(2, reason=""),
            "two_runs",
            "The server ended with exit code 2 (a wrong command line): Error: No such option: --config. The command"
            " line has an option that this release of trtllm-serve does not know. Move the setting to the engine"
            " options, or use the image that the recipe names.",
        ),
        ("failed", exited(3, reason=""), None, "The server ended with exit code 3: its log does not say why."),
    ],
)
def test_dead(
    container: Container, probe: Probe, state: str, last_exit: dict[str, t.Any], log: str | None, error: str
) -> None:
    container.says(state, last_exit=last_exit)
    if log:
        container.logs(log)
    result = probe(fail_on=["not_serving"], **container.args)
    assert (result["state"], result["finished"], result["healthy"]) == ("dead", True, False)
    assert result["msg"] == result["error"] == result["progress"]["text"] == error


@pytest.mark.parametrize("state", ["peer lost", "waiting for the worker", "loading"])
def test_a_server_that_ended_without_its_worker_is_not_dead(container: Container, probe: Probe, state: str) -> None:
    excused = {**exited(None, 9, reason="peer lost: no way to 10.0.0.2"), "by": "watchdog", "excused": True}
    container.says(state, reason="no way to 10.0.0.2", last_exit=excused)
    result = probe(started_after=1, wait=5, worker_timeout=60, fail_on=["not_serving"], **container.args)
    # A head that waits says so whatever it noted of its server's end.
    assert (result["state"], result["finished"], result["error"]) == ("loading", False, None)
    container.says(state, reason="no way to 10.0.0.2", last_exit=exited())
    assert probe(started_after=1, **container.args)["state"] == ("dead" if state == "loading" else "loading")


def test_patience_with_the_worker_has_an_end(container: Container, probe: Probe, clock: Clock) -> None:
    container.says("waiting for the worker", reason="nothing listens at 10.0.0.2", since=clock.time() - 20)
    assert probe(**container.args)["state"] == "loading"
    assert probe(worker_timeout=60, **container.args)["state"] == "loading"
    result = probe(worker_timeout=10, fail_on=["not_serving"], **container.args)
    assert (result["state"], result["finished"]) == ("waiting", True)
    assert result["msg"] == result["error"]
    assert result["error"] == (
        "The worker has not come up: nothing listens at 10.0.0.2. The head keeps waiting and serves when its worker"
        " runs. Start the worker."
    )
    # Another start is another wait.
    assert probe(worker_timeout=10, started_after=clock.time() - 1, **container.args)["state"] == "loading"


def test_a_worker_that_is_up_and_lets_nobody_in_is_not_waited_for(
    container: Container, probe: Probe, clock: Clock
) -> None:
    reason = "nothing listens at 10.0.0.2 port 2233: its container does not run or is still starting"

    def waiting(seconds: float, reason: str) -> dict[str, t.Any]:
        peer = {"address": "10.0.0.2", "reachable": False, "since": clock.time() - seconds, "reason": reason}
        container.says("waiting for the worker", reason=reason, peers=[peer], since=clock.time() - 600)
        return probe(fail_on=["not_serving"], **container.args)

    # It may just have been started.
    assert waiting(30, reason)["state"] == "loading"
    # That it is away may take as long as it likes.
    assert waiting(300, "no answer from 10.0.0.2 port 2233 within 5 s")["state"] == "loading"
    result = waiting(100, reason)
    assert (result["state"], result["finished"]) == ("waiting", True)
    assert result["msg"] == (
        f"The worker has not come up: {reason}. That Spark has answered so for 100 s: its container ends again "
        "and again, or was never started; 'docker logs' and diagnose.yml on it say why."
    )


@pytest.mark.parametrize(
    ("state", "outcome"), [("loading", "loading"), ("restarting", "loading"), ("failed", "absent")]
)
def test_an_exit_before_since_is_ignored(container: Container, probe: Probe, state: str, outcome: str) -> None:
    container.says(state, last_exit=exited(at=1000.0))
    assert probe(started_after=1001, **container.args)["state"] == outcome
    assert probe(started_after=999, **container.args)["state"] == "dead"


@pytest.mark.parametrize(
    ("state", "reason", "text"),
    [
        ("waiting for the worker", "no way to 10.0.0.2", "waiting for the worker: no way to 10.0.0.2"),
        ("peer lost", None, "peer lost"),
    ],
)
def test_a_head_that_waits_for_its_worker_says_so(
    container: Container, probe: Probe, state: str, reason: str | None, text: str
) -> None:
    container.says(state, reason=reason)
    container.logs("loading")
    result = probe(fail_on=["not_serving"], **container.args)
    assert (result["state"], result["finished"], result["progress"]["text"]) == ("loading", False, text)


TRIAL = {"id": "draft-3", "title": "draft length 3"}


@pytest.mark.parametrize(
    ("state", "values", "text"),
    [
        ("loading", {"trial": TRIAL}, "a benchmark tries draft length 3: loading weights 3 of 5"),
        (
            "restarting",
            {"trial": TRIAL, "reason": "switching to a trial: draft length 3"},
            "switching to a trial: draft length 3",
        ),
        (
            "restarting",
            {"trial": None, "reason": "switching back to the deployment's own options"},
            "switching back to the deployment's own options",
        ),
        # It is the benchmark's to go on from there, and no reason to give up the deployment.
        (
            "trial failed",
            {"trial": TRIAL, "reason": "CUDA out of memory", "last_exit": exited()},
            "a benchmark tried draft length 3, which failed",
        ),
    ],
)
def test_a_trial_is_waited_for(
    container: Container, probe: Probe, state: str, values: dict[str, t.Any], text: str
) -> None:
    container.says(state, **values)
    container.logs("loading")
    result = probe(**container.args)
    assert (result["state"], result["finished"], result["error"]) == ("loading", False, None)
    assert result["progress"]["text"] == text


def test_killed_container(container: Container, probe: Probe) -> None:
    container.says("running")
    result = probe(**container.args)
    assert result["state"] == "dead"
    assert result["error"].startswith(
        "The state file says that the server runs, but nothing listens on 127.0.0.1 port "
    )


@pytest.mark.parametrize("content", ["{", "[]", "[" * 100_000])
def test_unreadable_state_file(container: Container, probe: Probe, content: str) -> None:
    (container.directory / "state.json").write_text(content, encoding="utf-8")
    assert probe(**container.args)["state"] == "absent"


def test_waits_until_it_is_ready(container: Container, server: Server, probe: Probe, clock: Clock) -> None:
    server.health = (503, b"")
    container.says("running")
    clock.at(3, lambda: setattr(server, "health", (200, b"")))
    result = probe(**{**container.args, "url": server.url}, wait=10, kind="none")
    assert result["state"] == "ready"
    assert clock.monotonic() == 3


@pytest.mark.parametrize(
    ("said", "state", "text"),
    [
        # The file is that of the time before it was stopped; the container's main process has not come to write it.
        ({"state": "running", "since": 1000}, "loading", "starting the container"),
        ({"state": "stopped", "since": 1000}, "loading", "starting the container"),
        ({"state": "starting"}, "loading", "starting"),
        (
            {"state": "failed", "last_exit": exited(reason="address already in use", at=9e9)},
            "dead",
            "address already in use",
        ),
        (None, "loading", "starting the container"),
        # Its clock was set back since it was started, which is long ago.
        ({"state": "running", "since": 1000, "started": 500}, "ready", "ready"),
        ({"state": "running"}, "ready", "ready"),
    ],
)
def test_who_answers_may_be_somebody_else(
    container: Container, server: Server, probe: Probe, said: dict[str, t.Any] | None, state: str, text: str
) -> None:
    started = time.time() - (said or {}).pop("started", 1)
    if said is not None:
        container.says(**said)
    result = probe(**{**container.args, "url": server.url}, started_after=str(started), kind="none")
    assert result["state"] == state
    assert text in (result["error"] or result["progress"]["text"])


def test_a_dead_container_may_just_be_replaced(container: Container, probe: Probe, clock: Clock) -> None:
    container.says("failed", last_exit=exited())
    clock.at(readiness.DEAD_FOR_S - 1, lambda: container.says("loading"))
    assert probe(wait=10, **container.args)["state"] == "loading"
    assert clock.monotonic() == 10
    container.says("failed", last_exit=exited())
    assert probe(wait=10, **container.args)["state"] == "dead"
    assert clock.monotonic() == 10 + readiness.DEAD_FOR_S


def test_server_that_dies_before_the_question(container: Container, probe: Probe, server: Server) -> None:
    def die(handler: Handler) -> None:
        handler.close_connection = True

    server.ask = die
    result = probe(url=server.url)
    assert result["state"] == "unhealthy"
    assert result["findings"][0]["id"] == "connection_broken"


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ({"url": "localhost:8000"}, "The URL 'localhost:8000' is not usable; write it like http://127.0.0.1:8000."),
        ({"expect": ["("]}, "The regular expression '(' in 'expect' is not valid: missing ), unterminated subpattern"
         " at position 0."),
    ],
)  # fmt: skip
def test_unusable_parameters(probe: Probe, args: dict[str, t.Any], message: str) -> None:
    assert probe(**args)["msg"] == message


def test_the_word_of_the_container_before_is_ignored(container: Container, probe: Probe) -> None:
    container.says("running", since=1000)
    result = probe(started_after=str(time.time()), **container.args)
    assert (result["state"], result["finished"]) == ("loading", False)
    assert result["progress"]["text"] == "starting the container"


def test_a_container_that_never_says_a_word_is_absent(container: Container, probe: Probe) -> None:
    container.says("running", since=1000)
    result = probe(started_after="2001-01-31T12:00:00.123456789Z", **container.args)
    assert result["state"] == "absent"
    assert "main process has not begun within 120 s" in result["error"]


@pytest.mark.parametrize(
    ("moment", "expected"), [("1763657465.5", 1763657465.5), ("2025-11-20T16:51:05.123456789Z", 1763657465)]
)
def test_moments(moment: str, expected: float) -> None:
    assert completions_probe.seconds_of(moment) == expected


def test_a_moment_that_is_none(probe: Probe) -> None:
    assert "started_after is 'yesterday', but must be" in probe(started_after="yesterday")["msg"]


def tool_reply(**message: t.Any) -> dict[str, t.Any]:
    return {"choices": [{"index": 0, "message": {"role": "assistant", **message}, "finish_reason": "tool_calls"}]}


def called(name: str = "get_weather", arguments: t.Any = '{"city": "Paris"}') -> dict[str, t.Any]:
    function = {"name": name, "arguments": arguments}
    return tool_reply(content=None, tool_calls=[{"id": "call-1", "type": "function", "function": function}])


def answers_tools(status: int, body: t.Any) -> t.Callable[[Handler], None]:
    """Answer what the probe asks first, and then the question with a tool."""

    def answer(handler: Handler) -> None:
        if "tools" in handler.told.requests[-1]:
            handler.reply(status, json.dumps(body).encode())
        else:
            replay("chat_stream_speculative")(handler)

    return answer


def test_a_tool_call(server: Server, probe: Probe) -> None:
    server.ask = answers_tools(200, called())
    result = probe(url=server.url, tools=True)
    assert result["tool_call"] == {"name": "get_weather", "arguments": {"city": "Paris"}}
    assert (result["healthy"], result["findings"]) == (True, [])
    asked = server.requests[1]
    assert (asked["tool_choice"], asked["temperature"]) == ("auto", 0)
    assert asked["tools"][0]["function"]["name"] == "get_weather"
    assert "stream" not in asked


def test_what_is_returned_is_documented(container: Container, server: Server, probe: Probe) -> None:
    server.ask = answers_tools(200, called())
    container.says("running")
    result = probe(**{**container.args, "url": server.url, "expect": ["no such answer"], "tools": True})
    assert (result["findings"][0]["id"], result["server"]["state"]) == ("wrong_answer", "running")
    assert modules.wrong_documentation(yaml.safe_load(completions_probe.RETURN), result) == []


@pytest.mark.parametrize(
    ("status", "body", "words"),
    [
        (200, tool_reply(content=""), "its answer is empty."),
        (200, tool_reply(content="It is sunny."), "it said instead: It is sunny."),
        (200, {"choices": [{"message": {"content": None}, "finish_reason": "length"}]}, "not done after 512 tokens"),
        (200, called(arguments="{"), "the call is malformed"),
        (200, called(arguments={"city": "Paris"}), "the call is malformed"),
        (200, called(arguments="{}"), "the call is malformed"),
        (200, called(name="get_time"), "it called get_time with"),
        (200, called(arguments='{"city": " "}'), "not get_weather with a city"),
        (200, {"choices": []}, "something that is no completion"),
        (200, {"object": "error", "message": "parser failed"}, "and then failed: parser failed"),
        (400, {"message": "no tool parser", "object": "error"}, "answered status 400: no tool parser."),
    ],
)
def test_no_tool_call(server: Server, probe: Probe, status: int, body: t.Any, words: str) -> None:
    server.ask = answers_tools(status, body)
    result = probe(url=server.url, tools=True)
    assert (result["state"], result["healthy"], result["tool_call"]) == ("ready", False, None)
    assert [finding["id"] for finding in result["findings"]] == ["no_tool_call"]
    assert words in result["findings"][0]["message"]


def test_a_tool_call_that_takes_too_long(server: Server, probe: Probe, monkeypatch: pytest.MonkeyPatch) -> None:
    # The question before it has all the time that it takes.
    call = completions.try_tool_call
    monkeypatch.setattr(completions, "try_tool_call", lambda client, model, _deadline: call(client, model, 0.3))

    def answer(handler: Handler) -> None:
        if "tools" in handler.told.requests[-1]:
            handler.told.release.wait()
        else:
            replay("chat_stream_speculative")(handler)

    server.ask = answer
    result = probe(url=server.url, tools=True)
    assert (result["state"], [finding["id"] for finding in result["findings"]]) == ("ready", ["slow"])


def test_tools_are_for_chat(server: Server, probe: Probe) -> None:
    message = probe(url=server.url, kind="completion", tools=True)["msg"]
    assert message == "tools is true, but kind is completion; tools need kind chat."


def test_a_server_that_does_not_work_is_not_asked_for_a_tool_call(server: Server, probe: Probe) -> None:
    server.ask = replay("chat_stream_error")
    assert probe(url=server.url, tools=True)["tool_call"] is None
    assert len(server.requests) == 1


def test_a_server_that_the_watchdog_ended(container: Container, probe: Probe) -> None:
    reason = "stalled: no token came for 300 s, although no other request was served"
    container.says("loading", last_exit={**exited(None, 9, reason=reason), "by": "watchdog"})
    result = probe(**container.args)
    assert result["state"] == "dead"
    assert result["error"] == f"The container's watchdog ended the server, {reason}."

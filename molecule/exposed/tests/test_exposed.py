# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What other machines and containers may do with an open endpoint, and what they may not."""

from __future__ import annotations

import json
import time
import typing as t
from pathlib import Path

import pytest

from tests.exposed import AUTHORITY, HOME, MODEL, PROXY, SLOT, URL, ask, from_a_container, key, openai_client
from tests.twin.control import Neighbour, Spark
from tests.twin.names import spark_address

QUESTION = [{"role": "user", "content": "Explain why the sky is blue."}]
CHAT = {"model": MODEL, "messages": QUESTION, "max_tokens": 8}


@pytest.mark.parametrize(
    ("method", "path", "bearer", "status"),
    [
        ("GET", "/health", None, 200),
        ("GET", "/v1/models", None, 401),
        ("GET", "/v1/models", "sk-spark-wrong", 401),
        ("GET", "/v1/models", "", 401),
        ("GET", "/v1/models", "agent", 200),
        ("GET", "/v1/models?api_key=x", "default", 200),
        ("POST", "/v1/chat/completions", None, 401),
        ("POST", "/v1/chat/completions", "default", 200),
        ("POST", "/v1/completions", "default", 200),
        ("POST", "/v1/responses", "default", 200),
        ("DELETE", "/v1/models", "default", 405),
        ("GET", "/v1/chat/completions", "default", 405),
        *(
            ("POST", path, bearer, 403)
            for bearer in (None, "default")
            for path in (
                "/update_weights",
                "/release_memory",
                "/v1/models/../../update_weights",
                "/v1/chat/completions/../../../update_weights",
                "/health/../update_weights",
                "/v1/models/..%2f..%2fupdate_weights",
                "/v1/%2e%2e/update_weights",
                "//update_weights",
            )
        ),
        *(
            ("GET", path, "default", 403)
            for path in (
                *("/", "/metrics", "/perf_metrics", "/server_info", "/v1", "/v1/", "/v1/models/", "/V1/models"),
                *("//v1/models", "/v1//models", "/v1%2fmodels", "/v1/models%20", "/./v1/models", "/v1/models;x"),
            )
        ),
    ],
)
def test_the_matrix(neighbour: Neighbour, method: str, path: str, bearer: str | None, status: int) -> None:
    bodies = {
        "/v1/chat/completions": CHAT,
        "/v1/completions": {"model": MODEL, "prompt": "The sky", "max_tokens": 8},
        "/v1/responses": {"model": MODEL, "input": "Why is the sky blue?", "max_output_tokens": 8},
    }
    body = json.dumps(bodies.get(path, {})) if method == "POST" else None
    known = key(bearer) if bearer in ("default", "agent") else bearer
    reply = ask(neighbour, path, "--request", method, bearer=known, body=body)
    assert reply.status == status, reply.body
    if status >= 400:
        assert set(reply.error()) == {"message", "type", "code"}
    assert "uvicorn" not in json.dumps(reply.headers).lower()


def test_what_was_refused_never_reached_the_server(spark: Spark, neighbour: Neighbour) -> None:
    ask(neighbour, "/update_weights", "--request", "POST", bearer=key(), body="{}")
    log = spark.exec(["docker", "logs", SLOT]).stdout
    assert "POST /v1/chat/completions" in log, "the log names no requests, so the test says nothing"
    for word in ("update_weights", "release_memory", "perf_metrics"):
        assert word not in log


def test_too_large_a_request(neighbour: Neighbour) -> None:
    large = json.dumps({**CHAT, "messages": [{"role": "user", "content": "x" * 17_000_000}]})
    reply = ask(neighbour, "/v1/chat/completions", bearer=key(), body=large)
    assert reply.status == 413
    assert "16" in reply.error()["message"]


def test_only_ssh_and_the_proxy_can_be_reached(spark: Spark, neighbour: Neighbour) -> None:
    assert neighbour.open_ports(spark.address) == {22, 8443}


def test_a_stranger_trusts_only_the_authority(neighbour: Neighbour) -> None:
    plain = neighbour.exec(["curl", "--silent", "--show-error", f"{URL}/health"])
    assert plain.returncode == 60, plain.stderr
    old = neighbour.exec(["curl", "--silent", "--tls-max", "1.1", "--cacert", AUTHORITY, f"{URL}/health"])
    assert old.returncode != 0
    # Under the Spark's name, too.
    named = ["--resolve", f"spark-1:8443:{spark_address(1)}"]
    assert ask(neighbour, "/health", *named, url="https://spark-1:8443").status == 200


def test_streams_arrive_piece_by_piece(authority: Path) -> None:
    with openai_client(authority) as client:
        arrivals: list[float] = []
        text = ""
        for chunk in client.completions.create(model=MODEL, prompt="The sky", max_tokens=200, stream=True):
            arrivals.append(time.monotonic())
            text += chunk.choices[0].text if chunk.choices else ""
    assert len(text) > 200
    assert len(arrivals) > 20
    gaps = [after - before for before, after in zip(arrivals, arrivals[1:], strict=False)]
    # A proxy that buffers has one gap and then everything, at once; a busy machine has some long ones among its gaps.
    assert len([gap for gap in gaps if gap > 0.002]) > 5


def test_two_turns_with_the_reasoning_echoed_and_a_tool_call(authority: Path) -> None:
    messages: list[t.Any] = [*QUESTION]
    with openai_client(authority, "agent") as client:
        first = client.chat.completions.create(model=MODEL, messages=messages, max_tokens=300)
        said = first.choices[0].message
        assert said.content
        assert getattr(said, "reasoning", None)
        messages += [said.model_dump(exclude_none=True), {"role": "user", "content": "Shorter, please."}]
        second = client.chat.completions.create(model=MODEL, messages=messages, max_tokens=300)
        assert second.choices[0].message.content
        parameters = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
        tool: t.Any = {"type": "function", "function": {"name": "get_weather", "parameters": parameters}}
        weather: t.Any = [{"role": "user", "content": "What is the weather in Paris?"}]
        called = client.chat.completions.create(
            model=MODEL, messages=weather, tools=[tool], tool_choice="auto", max_tokens=300
        )
    calls = called.choices[0].message.tool_calls
    assert calls
    function: t.Any = calls[0]
    assert function.function.name == "get_weather"
    assert "city" in json.loads(function.function.arguments)


def test_containers_reach_it_with_a_key(spark: Spark) -> None:
    assert from_a_container(spark, "/health") == "200"
    assert from_a_container(spark, "/v1/models") == "401"
    assert from_a_container(spark, "/v1/models", key()) == "200"
    assert from_a_container(spark, "/update_weights", key()) == "403"


def test_the_keys_are_in_their_files_and_nowhere_else(spark: Spark) -> None:
    secret = key()
    arguments = "for process in /proc/[0-9]*; do tr '\\0' '\\n' <$process/cmdline; done 2>/dev/null"
    live = spark.exec(f"{arguments}; docker ps --all --quiet | xargs docker inspect").stdout
    assert PROXY in live, "the proxy was not looked at, so the test says nothing"
    assert secret not in live
    lasting = f"""
    grep --recursive --files-with-matches --text {secret} /home /tmp /var/tmp /var/log /etc /run /root 2>/dev/null
    journalctl --no-pager | grep {secret}
    docker ps --all --quiet | xargs --max-args 1 docker logs 2>&1 | grep {secret}
    find /var/lib/docker/containers -type f | xargs grep --files-with-matches {secret}
    """
    found = set(spark.exec(lasting).stdout.splitlines())
    assert found, "not even the file was found, so the test says nothing"
    assert all(line.startswith(f"{HOME}/proxy/") for line in found), found
    modes = spark.exec(f"find {HOME}/proxy/keys -type f -printf '%m %u\\n'").stdout.split("\n")
    assert set(filter(None, modes)) == {"600 spark"}

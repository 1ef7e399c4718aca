# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What other machines and containers may do, and what they may not."""

from __future__ import annotations

import collections
import json
import threading
import time
import typing as t

import pytest

from tests import playbook
from tests.exposed import AUTHORITY, HOME, MODEL, PROXY, SLOT, URL, Exposed, ask, key
from tests.twin.control import Neighbour, Spark
from tests.twin.names import spark_address

pytest_plugins = ["tests.scenario"]

QUESTION = [{"role": "user", "content": "Explain why the sky is blue."}]
CHAT = {"model": MODEL, "messages": QUESTION, "max_tokens": 8}


def test_a_new_key_is_shown_once_and_nowhere_else(exposed: Exposed) -> None:
    for name in ("default", "agent"):
        assert exposed.outcome.output.count(key(name)) == 1
        assert key(name) not in exposed.log.read_text(encoding="utf-8")
    again = exposed.run("-vvv", "--diff")
    assert again.changed == []
    assert key() not in again.output
    assert exposed.authority.read_text(encoding="utf-8").startswith("-----BEGIN CERTIFICATE-----")
    for words in (URL, str(exposed.authority), f"{HOME}/proxy/keys"):
        assert words in again.output


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


def test_streams_arrive_piece_by_piece(exposed: Exposed) -> None:
    with exposed.client() as client:
        arrivals: list[float] = []
        text = ""
        for chunk in client.completions.create(model=MODEL, prompt="The sky", max_tokens=200, stream=True):
            arrivals.append(time.monotonic())
            text += chunk.choices[0].text if chunk.choices else ""
    assert len(text) > 200
    assert len(arrivals) > 20
    gaps = [after - before for before, after in zip(arrivals, arrivals[1:], strict=False)]
    # A proxy that buffers has one large gap and then everything.
    assert max(gaps) < (arrivals[-1] - arrivals[0]) / 4


def test_two_turns_with_the_reasoning_echoed_and_a_tool_call(exposed: Exposed) -> None:
    messages: list[t.Any] = [*QUESTION]
    with exposed.client("agent") as client:
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


# Every thread asks again and again; prints how often it got which status.
CROWD = """
import collections, http.client, json, ssl, sys, threading, time
host, key, clients, seconds = sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4])
trust = ssl.create_default_context(cafile="/tmp/authority.crt")
body = json.dumps({"model": "gpt-oss-120b", "prompt": "The sky", "max_tokens": 4})
headers = {"Authorization": "Bearer " + key, "Content-Type": "application/json"}
seen, lock, end = collections.Counter(), threading.Lock(), time.monotonic() + seconds
def one():
    connection = http.client.HTTPSConnection(host, 8443, context=trust, timeout=120)
    while time.monotonic() < end:
        try:
            connection.request("POST", "/v1/completions", body, headers)
            reply = connection.getresponse()
            reply.read()
            what = str(reply.status)
            if reply.status == 429:
                what += " retry" if reply.getheader("Retry-After") else " without Retry-After"
                time.sleep(0.2)
        except Exception as error:
            what = repr(error)
            connection.close()
        with lock:
            seen[what] += 1
threads = [threading.Thread(target=one) for _ in range(clients)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
print(json.dumps(seen))
"""


@pytest.mark.parametrize(("clients", "seconds", "refusals"), [(64, 20, False), (120, 5, True)])
def test_a_crowd_gets_answers_or_a_clear_no(
    spark: Spark, neighbour: Neighbour, clients: int, seconds: int, refusals: bool
) -> None:
    neighbour.write_file("/tmp/key", key())
    command = ["python3", "-c", CROWD, spark.address, key(), str(clients), str(seconds)]
    done = neighbour.exec(command, timeout=seconds + 150)
    assert done.returncode == 0, done.stderr
    seen = collections.Counter(json.loads(done.stdout))
    assert set(seen) <= {"200", "429 retry"}, seen
    assert seen["200"] > seconds
    if refusals:
        assert seen["429 retry"] > 0
    assert ask(neighbour, "/v1/models", bearer=key()).status == 200


def test_a_revoked_key_is_refused_and_no_stream_is_cut(exposed: Exposed, spark: Spark, neighbour: Neighbour) -> None:
    revoked = key("agent")
    started = spark.exec(["docker", "inspect", "--format", "{{.State.StartedAt}}", PROXY]).stdout
    arrivals: list[float] = []
    enough = threading.Event()

    def listen() -> None:
        wish: t.Any = {"model": MODEL, "prompt": "The sky", "max_tokens": 60_000, "stream": True}
        with exposed.client() as client, client.completions.create(**wish, extra_body={"ignore_eos": True}) as stream:
            for _ in stream:
                arrivals.append(time.monotonic())
                if enough.is_set():
                    break

    listener = threading.Thread(target=listen)
    listener.start()
    # With the name gone, so is the key. One conversation at a time: whatever asks waits for the stream.
    outcome = exposed.run(api_proxy_keys=["default"], api_proxy_check=False, speculative_serve_answer_timeout=5)
    over = time.monotonic()
    assert outcome.changed
    time.sleep(1)
    enough.set()
    listener.join(timeout=30)
    assert len([arrival for arrival in arrivals if arrival > over]) > 10, "the stream was cut"
    assert ask(neighbour, "/v1/models", bearer=revoked).status == 401
    assert ask(neighbour, "/v1/models", bearer=key()).status == 200
    assert spark.exec(["docker", "inspect", "--format", "{{.State.StartedAt}}", PROXY]).stdout == started


def test_a_server_that_is_stopped_is_named(exposed: Exposed, spark: Spark, neighbour: Neighbour) -> None:
    spark.exec(["docker", "stop", "--time", "1", SLOT])
    reply = ask(neighbour, "/v1/models", bearer=key())
    assert reply.status in (502, 503)
    assert "model server" in reply.error()["message"]
    spark.exec(["docker", "start", SLOT])
    deadline = time.monotonic() + 60
    while ask(neighbour, "/v1/models", bearer=key()).status != 200:
        assert time.monotonic() < deadline
        time.sleep(0.5)


def test_everything_is_there_again_after_a_power_cut(spark: Spark, neighbour: Neighbour) -> None:
    spark.power_cut()
    deadline = time.monotonic() + 90
    while True:
        done = neighbour.exec(["curl", "--silent", "--fail", "--cacert", AUTHORITY, f"{URL}/health"])
        if done.returncode == 0:
            break
        assert time.monotonic() < deadline, done
        time.sleep(0.5)
    assert ask(neighbour, "/v1/models", bearer=key()).status == 200


def from_a_container(spark: Spark, path: str, bearer: str = "") -> str:
    gateway = "$(ip -4 -json addr show docker0 | jq -r '.[0].addr_info[0].local')"
    image = spark.exec(["docker", "inspect", "--format", "{{.Image}}", SLOT]).stdout.strip()
    header = f"--header 'Authorization: Bearer {bearer}'" if bearer else ""
    ask = f"--silent --output /dev/null --write-out '%{{http_code}}' --max-time 10 {header}"
    # Whose own entrypoint greets first.
    return spark.exec(f"docker run --rm --entrypoint curl {image} {ask} http://{gateway}:8000{path}").stdout


def test_containers_reach_it_with_a_key(spark: Spark) -> None:
    assert from_a_container(spark, "/health") == "200"
    assert from_a_container(spark, "/v1/models") == "401"
    assert from_a_container(spark, "/v1/models", key()) == "200"
    assert from_a_container(spark, "/update_weights", key()) == "403"


def test_the_keys_are_in_their_files_and_nowhere_else(exposed: Exposed, spark: Spark) -> None:
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
    assert secret not in exposed.log.read_text(encoding="utf-8")
    for name in ("status", "diagnose"):
        assert secret not in playbook.succeed(name, "-vvv").output


def test_fewer_may_reach_it_and_then_nobody(exposed: Exposed, spark: Spark, neighbour: Neighbour) -> None:
    exposed.run(speculative_serve_expose="docker")
    assert neighbour.open_ports(spark.address) == {22}
    assert from_a_container(spark, "/v1/models", key()) == "200"
    kept = key()
    exposed.run(speculative_serve_expose="local")
    assert from_a_container(spark, "/v1/models", kept) == "000"
    assert spark.exec(["docker", "inspect", PROXY]).returncode != 0
    assert spark.exec(["curl", "-sf", "http://127.0.0.1:8000/v1/models"]).returncode == 0

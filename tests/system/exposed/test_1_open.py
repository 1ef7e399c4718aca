# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""An open door: keys that come and go, a crowd, a server that is down, a power cut, and fewer who may come in."""

from __future__ import annotations

import collections
import json
import threading
import time
import typing as t

import pytest

from tests import playbook
from tests.exposed import AUTHORITY, HOME, MODEL, PROXY, SLOT, URL, Exposed, ask, from_a_container, key, openai_client
from tests.twin.control import Neighbour, Spark

pytest_plugins = ["tests.scenario"]


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


def test_no_run_tells_a_key(exposed: Exposed) -> None:
    assert key() not in exposed.log.read_text(encoding="utf-8")
    for name in ("status", "diagnose"):
        assert key() not in playbook.succeed(name, "-vvv").output


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
        with (
            openai_client(exposed.authority) as user,
            user.completions.create(**wish, extra_body={"ignore_eos": True}) as stream,
        ):
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


def test_what_served_before_comes_back_with_the_addresses_of_others(exposed: Exposed) -> None:
    exposed.run(speculative_serve_draft_length=3)
    output = playbook.succeed("serve", variables={"previous": True}).output
    for words in (URL, str(exposed.authority), f"{HOME}/proxy/keys"):
        assert words in output


def test_fewer_may_reach_it_and_then_nobody(exposed: Exposed, spark: Spark, neighbour: Neighbour) -> None:
    exposed.run(speculative_serve_expose="docker")
    assert neighbour.open_ports(spark.address) == {22}
    assert from_a_container(spark, "/v1/models", key()) == "200"
    kept = key()
    exposed.run(speculative_serve_expose="local")
    assert from_a_container(spark, "/v1/models", kept) == "000"
    assert spark.exec(["docker", "inspect", PROXY]).returncode != 0
    assert spark.exec(["curl", "-sf", "http://127.0.0.1:8000/v1/models"]).returncode == 0

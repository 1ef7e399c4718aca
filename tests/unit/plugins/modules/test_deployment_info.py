# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import calendar
import dataclasses
import errno
import json
import os
import re
import shutil
import socket
import time
import typing as t
from pathlib import Path
from urllib.parse import quote

import pytest
import yaml
from ansible_collections.dgx_spark.speculative.plugins.module_utils._docker.access import Machine
from ansible_collections.dgx_spark.speculative.plugins.module_utils._docker.engine import Engine
from ansible_collections.dgx_spark.speculative.plugins.module_utils._report.status import Disk, Previous, Status
from ansible_collections.dgx_spark.speculative.plugins.module_utils._server import deployment_facts
from ansible_collections.dgx_spark.speculative.plugins.module_utils._spark import lease, lock
from ansible_collections.dgx_spark.speculative.plugins.module_utils._spark.processes import boot_id, process_stat
from ansible_collections.dgx_spark.speculative.plugins.modules import deployment_info
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._report.status import render, status_of

from tests.unit import modules
from tests.unit.docker_server import DockerServer
from tests.unit.replay_server import FIXTURES, Handler, Server, free_port, replay

Look = t.Callable[..., dict[str, t.Any]]
CONTAINER = "/containers/dgx-spark-speculative/json"
TARGET, DRAFT = "openai/gpt-oss-120b", "nvidia/gpt-oss-120b-Eagle3-long-context"
COMMIT = "b5c939de8f754692c1647ca79fbf85e8c1e70f8a"
IMAGE = {"Id": "sha256:1", "RepoDigests": ["r/release@sha256:2"], "Size": 35_000_000_000}


def docker_time(moment: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S.123456789Z", time.gmtime(moment))


class Spark:
    """A home with a deployment, a cache, a Docker Engine and a server's address."""

    def __init__(self, tmp_path: Path, docker: DockerServer, url: str) -> None:
        self.state = tmp_path / "dgx-spark-speculative"
        self.cache = tmp_path / "hub"
        self.carrier = tmp_path / "root/sys/class/net/fabric0/carrier"
        self.docker = docker
        self.url = url
        # Of two Sparks the other one, as long as this one is there.
        self.other: socket.socket | None = None
        self.labels = {
            "dgx_spark.speculative.format": "1",
            "dgx_spark.speculative.deployment": "mine",
            "dgx_spark.speculative.url": url,
            "dgx_spark.speculative.configuration": "abc",
        }
        self.record: dict[str, t.Any] = {
            "format": 1,
            "deployed_at": "2026-10-04T09:12:44Z",
            "deployment": "mine",
            "title": "A title",
            "source": "https://example.com/source",
            "url": url,
            "listens_on": "127.0.0.1",
            "image": {"reference": "r/release:1.3.0rc12", "id": "sha256:1", "digests": ["r/release@sha256:2"]},
            "models": {TARGET: {"commit": COMMIT}, DRAFT: {"commit": "0" * 40}},
            "target_model": TARGET,
            "served_model": "target",
            "draft_model": DRAFT,
            "method": "eagle3",
            "draft_length": 5,
            "findings": [{"id": "slow", "message": "Noted at deployment."}],
            "measurements": {"tokens_per_second": 40.0, "acceptance_length": 2.0},
            "container": {"labels": self.labels},
        }

    def deploy(self) -> None:
        (self.state / "mine/state").mkdir(parents=True)
        self.write("mine/record.json", self.record)
        self.slot("running")
        self.docker.pages["/images/sha256:1/json"] = IMAGE
        self.docker.pages["/info"] = {"DockerRootDir": str(self.state)}
        self.says("running")

    def write(self, name: str, content: t.Any) -> None:
        (self.state / name).write_text(json.dumps(content), encoding="utf-8")

    def slot(self, status: str, started: float | None = None, **state: t.Any) -> None:
        started = time.time() - 300 if started is None else started
        self.docker.pages[CONTAINER] = {
            "Id": "c1",
            "Name": "/dgx-spark-speculative",
            "Image": "sha256:1",
            "RestartCount": 0,
            "Config": {"Image": "r/release:1.3.0rc12", "Labels": self.labels},
            "State": {"Status": status, "StartedAt": docker_time(started), "ExitCode": 0, "OOMKilled": False, **state},
        }

    def says(self, state: str, **values: t.Any) -> None:
        content = {"state": state, "since": time.time(), "pid": 9, "restarts": 0, "last_exit": None, **values}
        self.write("mine/state/state.json", content)

    def logs(self, name: str) -> None:
        shutil.copy(FIXTURES / f"server_log_{name}.txt", self.state / "mine/state/server.log")

    def model(self, name: str, receipt: dict[str, t.Any] | None, **files: int) -> Path:
        """A model in the cache, with a blob of a size for each file."""
        folder = "models--" + name.replace("/", "--")
        directory = self.cache / folder
        (directory / "blobs").mkdir(parents=True)
        for path, size in files.items():
            blob = directory / "blobs" / path
            blob.write_bytes(b"x" * size)
            link = directory / "snapshots" / COMMIT / path.replace("_", "/")
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(blob)
        if receipt is not None:
            (self.state / "models").mkdir(parents=True, exist_ok=True)
            self.write(f"models/{folder}.json", {"commit": COMMIT, "revisions": ["main"], "files": {}, **receipt})
        return directory


@pytest.fixture(name="docker")
def fixture_docker(tmp_path: Path) -> t.Iterator[DockerServer]:
    pages = {"/info": {}, "/version": {"Components": [{"Name": "Engine"}]}}
    with DockerServer(tmp_path / "docker.sock", pages) as server:
        yield server
        server.shutdown()


@pytest.fixture(name="server")
def fixture_server() -> t.Iterator[Server]:
    server = Server()
    server.ask = replay("chat_stream_speculative", 0.002)
    yield server
    server.close()


@pytest.fixture(name="serving")
def fixture_serving(tmp_path: Path, docker: DockerServer, server: Server) -> Spark:
    spark = Spark(tmp_path, docker, server.url)
    spark.deploy()
    return spark


@pytest.fixture(name="silent")
def fixture_silent(tmp_path: Path, docker: DockerServer) -> Spark:
    """Deployed, but nothing listens."""
    spark = Spark(tmp_path, docker, f"http://127.0.0.1:{free_port()}")
    spark.deploy()
    return spark


@pytest.fixture(name="look")
def fixture_look(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Look:
    machine = Machine(root=tmp_path / "root", uid=os.getuid(), home=tmp_path, docker_host="")
    monkeypatch.setattr(deployment_info, "Machine", lambda: machine)
    memory = tmp_path / "root/proc/meminfo"
    memory.parent.mkdir(parents=True)
    memory.write_text("MemTotal: 125000000 kB\nMemAvailable: 40000000 kB\n", encoding="ascii")

    def look(fails: bool = False, **args: t.Any) -> dict[str, t.Any]:
        args = {
            "socket": str(tmp_path / "docker.sock"),
            "state_directory": str(tmp_path / "dgx-spark-speculative"),
            "cache_directory": str(tmp_path / "hub"),
            **args,
        }
        result = modules.run(deployment_info, args)
        assert (result.get("failed", False), result.get("changed", False)) == (fails, False), result
        # As the action does.
        return {**result, "lines": render("spark-1", status_of(result))} if "disk" in result else result

    return look


def test_one_that_serves(serving: Spark, look: Look, server: Server) -> None:
    serving.says("running", restarts=2, since=time.time() - 47)
    result = look()
    assert 47 <= result["serving_s"] < 57
    assert (result["state"], result["reason"], result["version"]) == ("ready", None, "1.3.0rc12")
    assert (result["deployment"], result["title"], result["method"], result["draft_length"]) == (
        "mine",
        "A title",
        "eagle3",
        5,
    )
    assert (result["acceptance_length"], result["measured"]) == (4.3, "now")
    assert result["tokens_per_second"] != 40.0
    assert result["restarts"] == 2
    assert 300 <= result["container"]["uptime_s"] < 310
    assert [(model["id"], model["role"]) for model in result["models"]] == [(TARGET, "target"), (DRAFT, "draft")]
    assert result["image"] == {
        "reference": "r/release:1.3.0rc12",
        "id": "sha256:1",
        "digests": ["r/release@sha256:2"],
    }
    assert result["disk"]["image_bytes"] == 35_000_000_000
    assert result["disk"]["docker_free_bytes"] > 0
    assert result["memory_total"] >= result["memory_available"] > 0
    assert [finding["id"] for finding in result["findings"]] == ["slow"]
    assert (result["not_checked"], result["previous"], result["jobs"]) == ([], None, [])
    assert result["lines"][0] == "spark-1 serves target with EAGLE-3, draft length 5"
    assert (server.requests[0]["max_tokens"], server.requests[0]["temperature"]) == (64, 0.0)


@pytest.fixture(name="closed")
def fixture_closed(monkeypatch: pytest.MonkeyPatch) -> t.Callable[[Path], None]:
    """Refuse what lies in a directory; root's tests cannot be refused otherwise."""

    def close(directory: Path) -> None:
        def refusing(ask: t.Callable[..., t.Any]) -> t.Callable[..., t.Any]:
            def asked(path: Path, *arguments: t.Any, **options: t.Any) -> t.Any:
                if directory in path.parents:
                    raise PermissionError(errno.EACCES, "Permission denied", str(path))
                return ask(path, *arguments, **options)

            return asked

        for name in ("stat", "open", "read_text"):
            monkeypatch.setattr(Path, name, refusing(getattr(Path, name)))

    return close


def test_what_another_user_has_deployed_is_asked_by_its_port(
    serving: Spark, look: Look, closed: t.Callable[[Path], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    home = serving.state / "home"
    serving.labels["dgx_spark.speculative.directory"] = str(home / "mine")
    serving.slot("running", started=time.time() - 26)
    (home / "mine").mkdir(parents=True)
    closed(home)
    monkeypatch.setattr(deployment_facts, "user_name", lambda _uid: "alice")
    result = look()
    assert (result["state"], result["reason"]) == ("ready", None)
    told = f"mine was deployed by alice, whose files in {home}/mine this user cannot read."
    assert [one["message"] for one in result["findings"]] == [f"{told} Run status.yml as alice to see all."]
    assert result["lines"][0] == "spark-1 serves mine"


def test_that_what_another_user_has_deployed_does_not_listen_is_all_that_is_known(
    silent: Spark, look: Look, closed: t.Callable[[Path], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    silent.slot("running", started=time.time() - 26)
    closed(silent.state / "mine")
    monkeypatch.setattr(deployment_facts, "user_name", lambda _uid: "alice")
    result = look()
    assert (result["state"], result["reason"]) == (None, f"Nothing listens at {silent.url}; only alice can see why.")


@pytest.mark.parametrize(
    ("kept", "told"),
    [
        (
            {"draft_length": {"from": "given", "says": "draft length 5, given with -e"}},
            ["draft length 5, given with -e"],
        ),
        ({}, []),
        # Lost, or not what it was.
        (None, []),
        ({"draft_length": 5}, []),
        (["odd"], []),
    ],
)
def test_what_is_not_the_recipes_is_told(serving: Spark, look: Look, kept: t.Any, told: list[str]) -> None:
    serving.record["origins"] = kept
    if kept is None:
        del serving.record["origins"]
    serving.write("mine/record.json", serving.record)
    result = look()
    assert result["origins"] == told
    assert [line for line in result["lines"] if "overrides" in line] == [f"  overrides          {one}" for one in told]


def test_it_is_measured_with_what_it_was_measured_with_when_deployed(
    serving: Spark, look: Look, server: Server
) -> None:
    serving.record["measurements"]["request"] = {"prompt": "A train travels", "max_tokens": 128}
    serving.write("mine/record.json", serving.record)
    assert look()["state"] == "ready"
    assert (server.requests[0]["prompt"], server.requests[0]["max_tokens"]) == ("A train travels", 128)


def test_what_runs_beside_it_is_told(serving: Spark, look: Look) -> None:
    serving.says("running")
    others = [
        {"Labels": {}, "State": "running"},
        {"Labels": {"dgx_spark.speculative.role": "open_webui"}, "State": "exited"},
        {"Labels": {"dgx_spark.speculative.role": "api_proxy"}, "State": "running"},
    ]
    serving.docker.pages["/containers/json?all=1"] = others[:1]
    assert look()["companions"] == {}
    serving.docker.pages["/containers/json?all=1"] = others
    result = look()
    assert result["companions"] == {"proxy": "running", "Open WebUI": "exited"}
    assert result["chat_url"] is None
    assert ["proxy", "running"] in [line.split() for line in result["lines"]]


@pytest.mark.parametrize(
    ("address", "url"),
    [("127.0.0.1", "http://127.0.0.1:3000"), ("0.0.0.0", "http://127.0.0.1:3000"), ("::1", "http://[::1]:3000")],
)
def test_a_chat_page_has_an_address_while_it_runs(serving: Spark, look: Look, address: str, url: str) -> None:
    serving.says("running")
    ports = [{"PrivatePort": 9000}, {"IP": address, "PrivatePort": 8080, "PublicPort": 3000}]
    page = {"Labels": {"dgx_spark.speculative.role": "open_webui"}, "State": "running", "Ports": ports}
    serving.docker.pages["/containers/json?all=1"] = [page]
    result = look()
    assert result["chat_url"] == url
    assert ["Open", "WebUI", "running,", url] in [line.split() for line in result["lines"]]


@pytest.mark.parametrize(("when", "began"), [("2026-10-04T09:12:45Z", True), ("2026-10-04T09:12:43Z", False)])
def test_a_cleanup_that_was_interrupted_is_shown_until_the_next_deployment(
    serving: Spark, look: Look, when: str, began: bool
) -> None:
    serving.says("running")
    assert look()["cleanup_began"] is None
    mark = serving.state / "cleanup-began"
    mark.touch()
    os.utime(mark, (calendar.timegm(time.strptime(when, "%Y-%m-%dT%H:%M:%SZ")),) * 2)
    result = look()
    assert result["cleanup_began"] == (when if began else None)
    assert any(line.startswith("  cleanup ") for line in result["lines"]) == began


def test_check_mode_is_the_same(serving: Spark, look: Look) -> None:
    assert look(_ansible_check_mode=True)["state"] == "ready"


def test_few_tokens_do_not_measure(serving: Spark, look: Look, server: Server) -> None:
    server.ask = replay("completion_stream")
    result = look()
    assert (result["state"], result["measured"]) == ("ready", "deployed")
    assert (result["tokens_per_second"], result["acceptance_length"]) == (40.0, 2.0)


def test_not_asked(serving: Spark, look: Look, server: Server) -> None:
    result = look(probe=False)
    assert (result["state"], result["measured"]) == ("ready", "deployed")
    assert server.requests == []


def test_no_draft_accepted(serving: Spark, look: Look, server: Server) -> None:
    server.ask = replay("chat_stream_no_speculation")
    result = look()
    assert result["state"] == "ready_without_speculation"
    assert [finding["id"] for finding in result["findings"]] == ["slow", "no_draft_accepted"]
    assert "diagnose.yml" in "\n".join(result["lines"])


@pytest.mark.parametrize("ask", [True, False])
def test_a_kv_cache_that_is_smaller_than_planned(serving: Spark, look: Look, ask: bool) -> None:
    serving.says("running", kv_cache={"tokens": 17_792, "planned": 131_168})
    result = look(probe=ask)
    assert [finding["id"] for finding in result["findings"]] == ["slow", "smaller_context"]
    text = " ".join(" ".join(result["lines"]).split())
    assert "The context is smaller than planned: 17,792 of 131,168 tokens fit into the KV cache" in text


def test_the_kv_cache_of_the_server_that_was_deployed_is_not_that_of_this_one(serving: Spark, look: Look) -> None:
    serving.record["findings"].append({"id": "smaller_context", "message": "Noted at deployment."})
    serving.write("mine/record.json", serving.record)
    serving.says("running", kv_cache={"tokens": 131_168, "planned": 131_168})
    assert [finding["id"] for finding in look()["findings"]] == ["slow"]


def test_a_model_that_goes_round_in_circles_is_no_finding(serving: Spark, look: Look, server: Server) -> None:
    server.ask = replay("chat_stream_loop")
    assert "repetition" not in [finding["id"] for finding in look()["findings"]]


def test_busy(serving: Spark, look: Look, server: Server) -> None:
    def hang(handler: Handler) -> None:
        handler.told.release.wait()

    server.ask = hang
    result = look(answer_timeout=0.3)
    assert (result["state"], result["measured"]) == ("busy", "deployed")
    assert result["reason"].startswith("No token came from /v1/completions within 0.3 s")


def test_unhealthy_with_the_word_of_the_watchdog(serving: Spark, look: Look, server: Server) -> None:
    serving.says("running", verdict="unhealthy", reason="three looks in a row failed")
    server.health = (503, b'"LLM is unavailable."')
    result = look()
    assert result["state"] == "unhealthy"
    assert result["reason"] == (
        f'The server at {serving.url} answers 503 on /health: "LLM is unavailable.". '
        "The watchdog says unhealthy: three looks in a row failed."
    )


def test_an_error_inside_a_stream(serving: Spark, look: Look, server: Server) -> None:
    server.ask = replay("chat_stream_error")
    result = look()
    assert result["state"] == "unhealthy"
    assert "illegal instruction" in result["reason"]


def test_something_else_listens(serving: Spark, look: Look, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Handler, "do_GET", lambda handler: handler.reply(200, b"<html>", "text/html"))
    result = look()
    assert (result["state"], "lists no model" in result["reason"]) == ("unhealthy", True)


def test_loading(silent: Spark, look: Look) -> None:
    silent.says("loading")
    silent.logs("loading")
    result = look()
    assert (result["state"], result["reason"]) == ("loading", "loading weights 3 of 5 (60 %)")
    assert result["lines"][0].startswith("spark-1 is loading ")


def test_loading_again_after_an_end(silent: Spark, look: Look) -> None:
    silent.says("loading", restarts=1, last_exit={"code": 1, "signal": None, "at": time.time(), "reason": "Oops."})
    result = look()
    assert (result["state"], result["restarts"]) == ("loading", 1)
    assert result["reason"].endswith(", after it ended with exit code 1 (a Python error): Oops")


def test_a_container_that_has_not_said_a_word(silent: Spark, look: Look) -> None:
    silent.slot("running", started=time.time())
    silent.says("running", since=1000)
    assert (look()["state"], look()["reason"]) == ("loading", "The container is being started.")
    silent.slot("running", started=time.time() - 500)
    result = look()
    assert (result["state"], "has not said a word within 120 s" in result["reason"]) == ("dead", True)


def test_killed(silent: Spark, look: Look) -> None:
    result = look()
    assert result["state"] == "dead"
    assert result["reason"] == f"The state file says that the server runs, but nothing listens at {silent.url}."


def test_restarting(silent: Spark, look: Look) -> None:
    silent.says("restarting", last_exit={"code": None, "signal": 9, "at": time.time(), "reason": "Loading"})
    result = look()
    assert (result["state"], result["reason"]) == (
        "dead",
        "The server ended with signal 9 (killed, usually because the memory ran out): Loading. "
        "It is being started again.",
    )


def test_ended_by_the_watchdog(silent: Spark, look: Look) -> None:
    last_exit = {"code": None, "signal": 9, "at": time.time(), "by": "watchdog", "reason": "stalled: no token came"}
    silent.says("restarting", last_exit=last_exit)
    why = look()["reason"]
    assert why == "The container's watchdog ended the server, stalled: no token came. It is being started again."


def test_ended_by_the_memory_guard(silent: Spark, look: Look) -> None:
    last_exit = {"code": None, "signal": 9, "at": time.time(), "by": "memory guard", "reason": "memory fell"}
    silent.says("restarting", last_exit=last_exit)
    why = look()["reason"]
    assert why == "The container's memory guard ended the server: memory fell. It is being started again."


def test_the_files_lie_where_the_container_says(silent: Spark, tmp_path: Path, look: Look) -> None:
    silent.says("restarting", last_exit={"code": 1, "signal": None, "at": time.time(), "reason": "x"})
    elsewhere = (silent.state / "mine").rename(tmp_path / "elsewhere")
    silent.labels["dgx_spark.speculative.directory"] = str(elsewhere)
    silent.slot("running")
    silent.model(TARGET, {}, weights=1000)
    result = look()
    assert (result["state"], result["title"]) == ("dead", "A title")
    assert [model["id"] for model in result["models"]] == [TARGET, DRAFT]
    assert result["disk"]["unused_models"] == []


def test_given_up(silent: Spark, look: Look) -> None:
    silent.says("failed", last_exit={"code": 1, "signal": None, "at": time.time(), "reason": "x"})
    silent.logs("unknown_option")
    result = look()
    assert result["state"] == "failed"
    assert "speculative_config.Eagle3.max_draft_length: Extra inputs are not permitted" in result["reason"]
    assert result["reason"].endswith("Remove or rename the key. It is not started again.")


TRIAL = {"id": "draft-3", "title": "draft length 3"}


def test_a_trial_is_neither_asked_nor_taken_for_the_deployment(serving: Spark, look: Look, server: Server) -> None:
    serving.says("running", trial=TRIAL)
    result = look()
    assert (result["state"], result["version"]) == ("trial", "1.3.0rc12")
    assert (
        result["reason"] == "A benchmark tries draft length 3; the deployment's own options apply again when it ends."
    )
    assert server.requests == []
    assert (result["tokens_per_second"], result["measured"]) == (40.0, "deployed")
    assert result["lines"][0] == ("spark-1 is running a benchmark of target with EAGLE-3, draft length 5")


def test_a_trial_that_loads(silent: Spark, look: Look) -> None:
    silent.logs("loading")
    silent.says("loading", trial=TRIAL)
    result = look()
    assert (result["state"], result["reason"]) == (
        "trial",
        "a benchmark tries draft length 3: loading weights 3 of 5 (60 %)",
    )
    silent.says("restarting", trial=TRIAL, reason="switching to a trial: draft length 3")
    assert (look()["state"], look()["reason"]) == ("trial", "switching to a trial: draft length 3")
    silent.says("restarting", trial=None, reason="switching back to the deployment's own options")
    assert (look()["state"], look()["reason"]) == ("loading", "switching back to the deployment's own options")


def test_who_waits_for_another_engine_says_so(silent: Spark, look: Look) -> None:
    # That of an earlier start.
    silent.logs("loading")
    silent.says("starting", reason="another container still runs an engine on this Spark")
    assert (look()["state"], look()["reason"]) == ("loading", "another container still runs an engine on this Spark")


def test_a_trial_that_failed(silent: Spark, look: Look) -> None:
    last_exit = {"code": 1, "signal": None, "at": time.time(), "reason": "too long"}
    silent.says("trial failed", trial=TRIAL, last_exit=last_exit, reason="too long")
    result = look()
    assert (result["state"], result["reason"]) == (
        "trial",
        "A benchmark tried draft length 3. The server ended with exit code 1 (a Python error): too long.",
    )


def test_refused_to_start(silent: Spark, look: Look) -> None:
    last_exit = {"code": None, "signal": None, "at": time.time(), "reason": "serve.sh cannot be read"}
    silent.says("failed", last_exit=last_exit)
    why = look()["reason"]
    assert why == "The container did not start the server: serve.sh cannot be read. It is not started again."


def test_who_answers_may_be_somebody_else(serving: Spark, look: Look) -> None:
    serving.says("loading")
    assert look()["state"] == "loading"
    # What is written down is from before a power cut.
    serving.says("running", since=1000)
    assert look()["state"] == "ready"
    serving.slot("running", started=time.time() - 3)
    assert (look()["state"], look()["reason"]) == ("loading", "The container is being started.")
    (serving.state / "mine/state/state.json").unlink()
    assert look()["state"] == "loading"


@pytest.mark.parametrize("content", ["{", "[]", '{"state": 5, "since": "x", "last_exit": 7}'])
def test_a_broken_state_file(silent: Spark, look: Look, content: str) -> None:
    (silent.state / "mine/state/state.json").write_text(content, encoding="utf-8")
    assert look()["state"] == "dead"


CARD_LATE = 'error gathering device information while adding custom device "/dev/infiniband": not a device node'


@pytest.mark.parametrize(
    ("status", "details", "said", "state", "why"),
    [
        ("exited", {}, "stopped", "stopped", "The container dgx-spark-speculative was stopped."),
        ("created", {}, "running", "stopped", "The container dgx-spark-speculative was created but never started."),
        ("paused", {}, "running", "stopped", "docker unpause dgx-spark-speculative"),
        ("restarting", {"ExitCode": 3}, "running", "dead", "ended with exit code 3; Docker starts it again."),
        ("exited", {"OOMKilled": True, "ExitCode": 137}, "running", "dead", "because the memory ran out."),
        ("exited", {"ExitCode": 139}, "running", "dead", "exit code 139 (a crash in native code)"),
        ("exited", {"ExitCode": 137}, "failed", "failed", "The server failed and is not started again."),
        ("exited", {"ExitCode": 128, "Error": CARD_LATE}, "running", "dead", "not a device node. The NIC was missing"),
        ("created", {"Error": "no such thing."}, "running", "dead", "dgx-spark-speculative: no such thing."),
    ],
)
def test_a_container_that_does_not_run(
    silent: Spark, look: Look, status: str, details: dict[str, t.Any], said: str, state: str, why: str
) -> None:
    silent.slot(status, **details)
    silent.says(said)
    result = look()
    assert (result["state"], why in result["reason"]) == (state, True), result["reason"]
    assert (result["container"]["uptime_s"], result["restarts"], result["serving_s"]) == (None, None, None)


def test_stopped_when_it_could_not_start(silent: Spark, look: Look) -> None:
    silent.slot("exited", ExitCode=128, Error=CARD_LATE)
    silent.docker.pages[CONTAINER]["HostConfig"] = {"RestartPolicy": {"Name": "no"}}
    silent.says("running")
    assert (look()["state"], look()["reason"]) == ("stopped", "The container dgx-spark-speculative was stopped.")


def test_stopped_by_another_hand(silent: Spark, look: Look) -> None:
    silent.slot("exited")
    silent.docker.pages[CONTAINER]["HostConfig"] = {"RestartPolicy": {"Name": "unless-stopped"}}
    silent.says("stopped")
    assert look()["state"] == "stopped"
    assert "but not by stop.yml: a user stopped it, or dockerd was killed. Run start.yml" in look()["reason"]


def test_what_was_put_aside_and_is_back(silent: Spark, look: Look) -> None:
    silent.slot("running", Running=True)
    silent.docker.pages[CONTAINER.replace("/json", "-standby/json")] = {
        **silent.docker.pages[CONTAINER],
        "Name": "/dgx-spark-speculative-standby",
    }
    silent.slot("exited")
    silent.says("loading")
    found = look()
    assert (found["state"], found["method"]) == ("loading", "eagle3")
    assert found["findings"][-1]["id"] == "put_aside"
    assert "start.yml" in found["findings"][-1]["message"]


def test_nothing_is_deployed(tmp_path: Path, docker: DockerServer, look: Look) -> None:
    result = look()
    assert (result["state"], result["container"], result["deployment"]) == ("absent", None, None)
    assert (result["models"], result["image"], result["not_checked"]) == ([], None, [])
    assert result["disk"]["models_used_bytes"] == 0
    assert result["lines"][0] == "spark-1: nothing is deployed"


def test_half_a_deployment(silent: Spark, look: Look) -> None:
    """The run was cut off after it had made the container."""
    silent.record["container"]["labels"] = {**silent.labels, "dgx_spark.speculative.configuration": "older"}
    silent.write("mine/record.json", silent.record)
    silent.says("loading")
    result = look()
    assert (result["state"], result["deployment"], result["method"]) == ("loading", "mine", None)
    assert [finding["id"] for finding in result["findings"]] == ["not_recorded"]
    assert result["image"]["reference"] == "r/release:1.3.0rc12"
    (silent.state / "mine/record.json").write_text("{", encoding="utf-8")
    assert look()["deployment"] == "mine"
    shutil.rmtree(silent.state)
    assert (look()["state"], look()["deployment"]) == ("dead", "mine")


def test_a_container_of_somebody_else(silent: Spark, look: Look) -> None:
    silent.labels.clear()
    silent.slot("running")
    result = look()
    assert (result["state"], result["deployment"]) == (None, None)
    assert result["reason"].endswith("has no label that says where it serves.")


def test_no_docker(tmp_path: Path, look: Look) -> None:
    result = look(socket=str(tmp_path / "none.sock"))
    assert (result["state"], result["container"]) == (None, None)
    assert result["not_checked"] == ["Docker cannot be asked: it is not installed."]
    assert result["memory_total"] > 0
    assert result["disk"]["cache_free_bytes"] > 0
    assert result["disk"]["docker_free_bytes"] is None


def test_without_docker_the_last_deployment_is_asked(silent: Spark, tmp_path: Path, look: Look) -> None:
    result = look(socket=str(tmp_path / "none.sock"))
    assert (result["state"], result["deployment"]) == (None, "mine")
    assert result["reason"] == f"Nothing listens at {silent.url}, and Docker cannot be asked why."
    assert result["lines"][0].startswith("spark-1: state unknown; last deployment: target")


def test_an_engine_that_fails(serving: Spark, look: Look) -> None:
    serving.docker.pages[CONTAINER] = (500, {"message": "out of order"})
    result = look()
    assert (result["state"], result["deployment"]) == ("ready", "mine")
    assert "out of order" in result["not_checked"][0]


def test_docker_refused(serving: Spark, tmp_path: Path, look: Look, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_self: t.Any, _name: str) -> None:
        raise PermissionError(13, "Permission denied")

    # Whoever runs the tests may be root, to whom no socket is closed.
    monkeypatch.setattr(Engine, "find", refuse)
    result = look()
    start = f"may not open {tmp_path}/docker.sock. Add the user with 'sudo usermod -aG docker <user>'"
    assert start in result["not_checked"][0]
    assert result["state"] == "ready"


def test_what_answers_in_dockers_place_is_told(serving: Spark, look: Look) -> None:
    serving.docker.pages["/version"] = {"Components": [{"Name": "Podman Engine"}]}
    result = look()
    assert "podman answers" in result["not_checked"][0]
    assert (result["container"], result["deployment"]) == (None, "mine")


def test_where_the_disk_went(serving: Spark, look: Look) -> None:
    target = serving.model(TARGET, {"exclude": ["original/*"]}, weights=100, original_w=40)
    (target / "blobs" / "aa.incomplete").write_bytes(b"x" * 7)
    serving.model("meta/unused", {}, weights=30)
    serving.model("somebody/elses", None, weights=50)
    serving.logs("ready")
    result = look()
    disk = result["disk"]
    assert result["models"][0]["bytes_on_disk"] == 147
    assert result["models"][1]["bytes_on_disk"] is None
    assert disk["models_used_bytes"] == 100
    assert disk["unused_models"] == [{"id": "meta/unused", "bytes": 30}]
    assert disk["unused_files"] == [{"model": TARGET, "path": "original/", "bytes": 40}]
    assert [(piece["model"], piece["bytes"]) for piece in disk["incomplete_downloads"]] == [(TARGET, 7)]
    assert disk["logs_bytes"] == (FIXTURES / "server_log_ready.txt").stat().st_size
    assert disk["reclaimable_bytes"] == 30 + 40 + 7


def test_the_way_back(serving: Spark, look: Look) -> None:
    before = {**serving.record, "deployment": "before", "method": "draft_target", "draft_length": 4}
    serving.write("previous.json", {**before, "image": {"id": "sha256:9"}, "models": {"meta/old": {"commit": COMMIT}}})
    serving.docker.pages["/images/sha256:9/json"] = {**IMAGE, "Id": "sha256:9", "Size": 3}
    serving.model("meta/old", {}, weights=5)
    result = look()
    assert result["previous"] == {
        "deployment": "before",
        "method": "draft_target",
        "draft_length": 4,
        "deployed_at": "2026-10-04T09:12:44Z",
        "nodes": [],
        "engine": None,
        "speculation": None,
        "differs": [],
        "variant": None,
    }
    assert result["disk"]["previous_image_bytes"] == 3
    assert (result["disk"]["models_used_bytes"], result["disk"]["unused_models"]) == (5, [])
    # One that is well has no reason to.
    assert not [line for line in result["lines"] if "Roll back to" in line]


def test_images_of_earlier_deployments(serving: Spark, look: Look) -> None:
    other = {**serving.record, "image": {"reference": "r/release:1.2.0rc1", "id": "sha256:8"}}
    (serving.state / "other").mkdir()
    serving.write("other/record.json", {**other, "deployment": "other"})
    assert look()["disk"]["unused_images"] == []
    serving.docker.pages["/images/r/release:1.2.0rc1/json"] = {**IMAGE, "Id": "sha256:8", "Size": 20_000_000_000}
    result = look()
    assert result["disk"]["unused_images"] == [{"reference": "r/release:1.2.0rc1", "bytes": 20_000_000_000}]
    assert result["disk"]["reclaimable_bytes"] >= 20_000_000_000
    assert "    unused images    r/release:1.2.0rc1 20.0 GB" in result["lines"]


@pytest.mark.parametrize(
    ("driver", "compressed"), [("io.containerd.snapshotter.v1", True), ("Backing Filesystem", False)]
)
def test_with_containerds_store_sizes_of_images_are_compressed(
    serving: Spark, look: Look, driver: str, compressed: bool
) -> None:
    serving.docker.pages["/info"]["DriverStatus"] = [["driver-type", driver]]
    assert look()["disk"]["compressed_images"] is compressed


def test_caches_of_kernels(serving: Spark, look: Look) -> None:
    pages, name = serving.docker.pages, "dgx-spark-speculative-cache"
    assert look()["disk"]["caches"] == []
    # As the deployment's image, as a stopped container's, and as the image of no deployment.
    images = ("1" * 12, "2" * 12, "3" * 12)
    serving.record["image"]["id"] = f"sha256:{'1' * 64}"
    serving.write("mine/record.json", serving.record)
    rows = [{"Name": f"{name}-{image}"} for image in images]
    pages[f"/volumes?filters={quote(json.dumps({'name': [name]}))}"] = {"Volumes": rows}
    usage = [
        {"Size": 2_000_000_000, "RefCount": 0},
        {"Size": 30, "RefCount": 1},
        {"Size": 4_000_000_000, "RefCount": 0},
    ]
    sized = [{**row, "UsageData": data} for row, data in zip(rows, usage)]
    # Docker 29 has a new spelling.
    for answer in ({"Volumes": sized}, {"VolumeUsage": {"Items": sized}}):
        pages["/system/df?type=volume&verbose=1"] = answer
        result = look()
        found = [(row["image"], row["bytes"], row["in_use"]) for row in result["disk"]["caches"]]
        assert found == [
            ("1" * 12, 2_000_000_000, True),
            ("2" * 12, 30, True),
            ("3" * 12, 4_000_000_000, False),
        ]
        assert 4_000_000_000 <= result["disk"]["reclaimable_bytes"] < 5_000_000_000
    # While the Engine measures for another, it does so for none.
    pages["/system/df?type=volume&verbose=1"] = (500, {"message": "a disk usage operation is already running"})
    result = look()
    assert [row["bytes"] for row in result["disk"]["caches"]] == [None] * 3
    assert result["not_checked"] == []
    # Without the records any image may be in use.
    (serving.state / "other").mkdir()
    (serving.state / "other/record.json").write_text("{", encoding="utf-8")
    assert [row["in_use"] for row in look()["disk"]["caches"]] == [True] * 3


def test_a_download_under_way(serving: Spark, look: Look) -> None:
    job = serving.state / "jobs/fetch"
    job.mkdir(parents=True)
    me = process_stat(os.getpid())
    assert me is not None
    state = {"finished": False, "boot": boot_id(), "pid": os.getpid(), "start_time": me[3]}
    serving.write("jobs/fetch/job.json", {**state, "progress": {"percent": 42.0, "text": "a model"}})
    assert look()["jobs"] == [{"name": "fetch", "percent": 42.0, "text": "a model"}]
    serving.write("jobs/fetch/job.json", {**state, "finished": True})
    assert look()["jobs"] == []


def test_a_run_that_changes_the_spark(serving: Spark, look: Look, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock, "NAME", f"dgx-spark-speculative-status-{os.getpid()}")
    assert look()["lease"] is None
    run = {"run": "1", "owner": "alice@laptop", "activity": "two_sparks.yml"}
    assert lease.take(run) == {"state": "held"}
    try:
        result = look()
    finally:
        lock.ask({**run, "do": "release"})
    assert (result["lease"]["owner"], result["lease"]["activity"]) == ("alice@laptop", "two_sparks.yml")
    assert any("alice@laptop has been running two_sparks.yml for" in line for line in result["lines"])


RAIL = {"interface": "fabric0", "address": "127.0.0.1", "peer_address": "127.0.0.1", "mtu": 9000, "speed_mbps": 200_000}


def paired(spark: Spark, rank: int, listening: bool = True) -> None:
    """Make it half of two, the other of which is this machine as well."""
    server = socket.socket()
    server.bind(("127.0.0.1", 0))
    if listening:
        server.listen()
    spark.labels["dgx_spark.speculative.rank"] = str(rank)
    spark.labels["dgx_spark.speculative.options"] = "abc"
    spark.record["cluster"] = {"rank": rank, "nodes": ["spark-1", "spark-2"], "image": "p", "rails": [RAIL]}
    spark.write("mine/record.json", spark.record)
    spark.slot("running")
    spark.docker.pages[CONTAINER]["Config"]["Env"] = [f"DGX_SPARK_WORKER_PORT={server.getsockname()[1]}"]
    spark.other = server
    spark.carrier.parent.mkdir(parents=True)
    spark.carrier.write_text("1\n")


def test_the_head_of_two(serving: Spark, look: Look) -> None:
    paired(serving, 0)
    serving.says("running", peers=[{"address": "127.0.0.1", "reachable": True, "since": 1}])
    result = look()
    assert (result["state"], result["measured"]) == ("ready", "now")
    assert (result["cluster"]["role"], result["cluster"]["options"]) == ("head", "abc")
    assert (result["cluster"]["peer"]["name"], result["cluster"]["peer"]["answers"]) == ("spark-2", "open")
    assert result["cluster"]["peer"]["noticed"] == {"address": "127.0.0.1", "reachable": True, "since": 1}
    assert (result["cluster"]["rails"][0]["up"], result["cluster"]["rails"][0]["address_here"]) == (True, True)
    assert result["lines"][0] == "spark-1 and spark-2 serve target with EAGLE-3, draft length 5"


@pytest.mark.parametrize(("mtu", "told"), [("1500", ["other_mtu"]), ("9000", [])])
def test_an_mtu_that_somebody_has_changed(serving: Spark, look: Look, mtu: str, told: list[str]) -> None:
    paired(serving, 1)
    serving.says("rank_runs")
    serving.carrier.with_name("mtu").write_text(f"{mtu}\n", encoding="ascii")
    findings = look()["findings"]
    assert [one["id"] for one in findings] == told
    assert [one["message"] for one in findings] == [
        "fabric0 has MTU 1500, but had 9000 when this was deployed. Larger packets of the other Spark are lost. Run "
        "'sudo ip link set fabric0 mtu 9000'."
        for _one in told
    ]


def ranks(serving: Spark, device: str | None, *differences: dict[str, str]) -> None:
    """What both ranks said of themselves before the server was started."""
    verbs = {} if device is None else {device: "uverbs1"}
    said = [{"rank": rank, "verbs": verbs} for rank in (0, 1)]
    serving.write("mine/state/ranks.json", {"at": 1, "ranks": said, "differences": list(differences)})


RDMA = ["NCCL_IB_HCA set to rocep1s0f1", "NET/IB : Using [0]rocep1s0f1:1/RoCE [RO]; OOB a:1<0>", "Using network IB"]
SOCKETS = [
    "NCCL_IB_HCA set to ^roce",
    "NET/IB : No device found.",
    "NET/Socket : Using [0]a:1<0>",
    "Using network Socket",
]


def nccl_says(spark: Spark, *lines: str) -> None:
    """What this Spark's rank's NCCL writes while it starts."""
    text = "".join(f"spark-1:71:90 [0] NCCL INFO {line}\n" for line in lines)
    (spark.state / "mine/state/nccl.spark-1.71").write_text(text, encoding="utf-8")


def line_of(result: dict[str, t.Any], name: str) -> str:
    """What a row of the table says."""
    text = "\n".join(result["lines"])
    found = re.search(rf"^  {name} +(.*(?:\n {{10,}}.*)*)", text, re.MULTILINE)
    return " ".join(found[1].split()) if found else ""


def test_the_head_of_two_says_what_nccl_uses(serving: Spark, look: Look) -> None:
    paired(serving, 0)
    serving.says("running")
    ranks(serving, "rocep1s0f1")
    # That the devices could be used is no proof that they are.
    result = look()
    assert (result["cluster"]["rdma"], result["cluster"]["nccl"]) == ("rocep1s0f1", None)
    assert line_of(result, "RDMA") == "rocep1s0f1 ready; not known whether NCCL uses it"
    nccl_says(serving, *RDMA)
    result = look()
    assert result["cluster"]["nccl"]["rdma"] is True
    assert line_of(result, "RDMA") == "NCCL uses RDMA (IB) over rocep1s0f1"
    assert "pair_by_tcp" not in [one["id"] for one in result["findings"]]
    # The plug-in does not say which devices it should use; the container does.
    serving.docker.pages[CONTAINER]["Config"]["Env"].append("NCCL_IB_HCA=rocep1s0f1,roceP2p1s0f1")
    nccl_says(serving, RDMA[1], "Using network IBext_v10")
    (told,) = [one["message"] for one in look()["findings"] if one["id"] == "rdma_partly"]
    assert told.startswith("NCCL of this Spark uses RDMA over rocep1s0f1 only: roceP2p1s0f1 is not active")
    nccl_says(serving, *SOCKETS)
    result = look()
    reason = "no active RDMA device matches NCCL_IB_HCA=^roce"
    assert line_of(result, "RDMA") == f"NCCL uses Socket over a and not RDMA: {reason}"
    (told,) = [one["message"] for one in result["findings"] if one["id"] == "pair_by_tcp"]
    assert told.startswith("NCCL of this Spark uses Socket over a and not RDMA")
    # What an earlier start has written says nothing of this one.
    serving.says("loading")
    assert look()["cluster"]["nccl"] is None


def test_nccls_own_word_counts_more_than_its_settings(serving: Spark, look: Look) -> None:
    paired(serving, 0)
    serving.says("running")
    told = {"what": "transport", "severity": "warning", "message": "rank 0 goes by TCP, as NCCL_IB_DISABLE=1 says"}
    ranks(serving, None, told)
    assert "pair_by_tcp" in [one["id"] for one in look()["findings"]]
    nccl_says(serving, *RDMA)
    assert "pair_by_tcp" not in [one["id"] for one in look()["findings"]]


def test_a_worker_says_what_its_own_nccl_uses(serving: Spark, look: Look) -> None:
    paired(serving, 1)
    serving.says("rank_runs")
    assert line_of(look(), "RDMA") == "not known whether NCCL uses it"
    nccl_says(serving, *SOCKETS)
    result = look()
    assert line_of(result, "RDMA").startswith("NCCL uses Socket over a and not RDMA")
    assert [one["id"] for one in result["findings"]] == ["pair_by_tcp"]


def test_the_head_of_two_tells_how_they_talk(serving: Spark, look: Look) -> None:
    paired(serving, 0)
    serving.says("running")
    ranks(serving, "rocep1s0f1")
    result = look()
    assert result["cluster"]["rdma"] == "rocep1s0f1"
    assert "pair_by_tcp" not in [one["id"] for one in result["findings"]]
    told = "rank 0 on a uses TCP instead of RDMA, as NCCL_IB_DISABLE=1 says"
    ranks(serving, None, {"what": "transport", "severity": "warning", "message": told})
    result = look()
    assert result["cluster"]["rdma"] is None
    assert {"id": "pair_by_tcp", "message": f"R{told[1:]}."} in result["findings"]
    # What an earlier start has proven says nothing of this one.
    ranks(serving, "rocep1s0f1")
    serving.says("loading")
    assert look()["cluster"]["rdma"] is None


def test_one_spark_is_no_half(serving: Spark, look: Look) -> None:
    assert look()["cluster"] is None


@pytest.mark.parametrize(
    ("state", "reason", "found", "why"),
    [
        ("rank_runs", None, "rank_runs", None),
        ("ready", None, "waiting", "It waits for its head to start the rank here."),
        (
            "waiting for the fabric",
            "it does not have 10.0.0.2",
            "waiting",
            "It waits for the fabric: it does not have 10.0.0.2.",
        ),
        (
            "waiting for the fabric",
            "is the cable in?",
            "waiting",
            "It waits for the fabric: is the cable in?",
        ),
        ("failed", "port 2233 is taken", "failed", "It cannot run a rank: port 2233 is taken."),
        ("starting", None, "loading", "starting"),
        ("stopped", None, "stopped", "The worker was stopped."),
    ],
)
def test_the_worker_is_not_asked(
    serving: Spark, look: Look, server: Server, state: str, reason: str | None, found: str, why: str | None
) -> None:
    paired(serving, 1)
    serving.says(state, reason=reason)
    result = look()
    assert (result["state"], result["reason"]) == (found, why)
    assert server.requests == []
    # These are the head's.
    assert (result["findings"], result["tokens_per_second"]) == ([], None)
    assert "rank 1 of mine; its head is spark-1" in result["lines"][0]


def test_a_clock_that_was_set_back_makes_no_worker_dead(serving: Spark, look: Look) -> None:
    paired(serving, 1)
    serving.slot("running", started=time.time() + 86400)
    serving.says("rank_runs")
    assert look()["state"] == "rank_runs"


def test_a_worker_whose_health_check_fails(serving: Spark, look: Look) -> None:
    paired(serving, 1)
    serving.docker.pages[CONTAINER]["State"]["Health"] = {"Status": "unhealthy"}
    serving.says("ready")
    result = look()
    assert (result["state"], result["reason"]) == ("unhealthy", "Docker's health check of the container fails.")


def test_a_worker_whose_container_does_not_run(serving: Spark, look: Look) -> None:
    paired(serving, 1, listening=False)
    serving.says("stopped")
    serving.slot("exited")
    result = look()
    assert (result["state"], result["lines"][0]) == (
        "stopped",
        "spark-1 does not run rank 1 of mine; its head is spark-1",
    )


@pytest.mark.parametrize(
    ("state", "verdict", "why"),
    [
        ("waiting for the worker", None, "The worker has not come up: no answer from 10.0.0.2."),
        ("peer lost", None, "The worker is lost: no answer from 10.0.0.2."),
        ("restarting", "peer lost", "The worker is lost: no answer from 10.0.0.2."),
    ],
)
def test_the_head_without_its_worker(silent: Spark, look: Look, state: str, verdict: str | None, why: str) -> None:
    paired(silent, 0, listening=False)
    silent.says(state, verdict=verdict, reason="no answer from 10.0.0.2", restarts=1)
    result = look()
    assert (result["state"], result["reason"]) == ("waiting", why)
    assert result["cluster"]["peer"]["answers"] == "refused"
    assert result["lines"][0].startswith("spark-1 waits for spark-2 to serve ")


def test_a_server_that_lost_its_worker_is_not_busy(serving: Spark, look: Look, server: Server) -> None:
    def hang(handler: Handler) -> None:
        handler.told.release.wait()

    server.ask = hang
    paired(serving, 0)
    serving.says("running", verdict="peer lost", reason="no answer from 10.0.0.2")
    result = look(answer_timeout=0.3)
    assert result["state"] == "unhealthy"
    assert result["reason"].endswith(" The watchdog says peer lost: no answer from 10.0.0.2.")


def test_without_the_cable_nothing_is_asked_and_nobody_answers(serving: Spark, look: Look, server: Server) -> None:
    paired(serving, 0)
    serving.carrier.write_text("0\n")
    serving.carrier.with_name("mtu").write_text("1500\n")
    serving.says("running", peers=[{"address": "127.0.0.1", "reachable": True, "since": 1}])
    result = look()
    assert "other_mtu" not in [one["id"] for one in result["findings"]]
    # Although the other one would be found by another way.
    assert result["cluster"]["peer"]["answers"] == "silent"
    assert (result["state"], result["reason"]) == (
        "unhealthy",
        "The server listens, but cannot generate: spark-2 does not answer on the cable.",
    )
    assert [one for one in server.requests if "prompt" in one] == []
    shown = " ".join(" ".join(result["lines"]).split())
    assert "the link is down" in shown
    assert "other Spark spark-2 does not answer at 127.0.0.1" in shown


def test_a_pair_that_was_never_seen_to_serve(serving: Spark, look: Look) -> None:
    paired(serving, 1)
    (serving.state / "mine/record.json").unlink()
    serving.docker.pages[CONTAINER]["Config"]["Env"] += [
        "DGX_SPARK_FABRIC_ADDRESSES=127.0.0.1",
        "DGX_SPARK_PEER_ADDRESSES=127.0.0.1",
    ]
    serving.says("rank_runs")
    result = look()
    assert (result["state"], result["cluster"]["nodes"], result["cluster"]["peer"]["answers"]) == (
        "rank_runs",
        [],
        "open",
    )
    assert result["lines"][0] == "spark-1 is rank 1 of mine; its head is 127.0.0.1"


def test_another_format_is_refused(serving: Spark, look: Look) -> None:
    del serving.labels["dgx_spark.speculative.format"]
    serving.slot("running")
    result = look(fails=True)
    assert result["msg"].startswith("mine was deployed by an unreleased state of this collection.")


def test_another_format_of_what_does_not_run_is_no_obstacle(serving: Spark, look: Look) -> None:
    idle = {"deployment": "idle"}
    (serving.state / "idle").mkdir()
    serving.write("idle/record.json", idle)
    serving.write("previous.json", idle)
    result = look()
    # serve.yml would refuse to bring it back.
    assert (result["state"], result["previous"]) == ("ready", None)


def test_where_the_roles_have_things_is_the_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    result = modules.run(deployment_info, {"gather": ["log"], "socket": str(tmp_path / "none")})
    assert f"{tmp_path}/.local/share/dgx-spark-speculative." in result["log"]["detail"]


def test_all_that_is_returned_is_documented() -> None:
    told = yaml.safe_load(deployment_info.RETURN)
    documented = {Status: told, Disk: told["disk"]["contains"], Previous: told["previous"]["sample"]}
    for kind, names in documented.items():
        assert {field.name for field in dataclasses.fields(kind)} - names.keys() == set()


def test_what_is_documented_is_returned(serving: Spark, look: Look) -> None:
    paired(serving, 0)
    ranks(serving, "rocep1s0f1")
    nccl_says(serving, *RDMA)
    serving.says("running", peers=[{"address": "127.0.0.1", "reachable": True, "since": 1}])
    result = look(gather=["status", "log"])
    documented = yaml.safe_load(deployment_info.RETURN)
    assert modules.wrong_documentation(documented, result) == []
    assert modules.wrong_documentation(documented["cluster"]["contains"], result["cluster"]) == []


@pytest.mark.parametrize(
    ("engine", "option", "section", "words"),
    [
        (None, "speculative_config", {"decoding_type": "MTP"}, "MTP, by a speculative_config of its own"),
        ("vllm", "speculative-config", {"method": "ngram"}, "n-gram, by a speculative-config of its own"),
    ],
)
def test_options_that_say_how_to_draft(
    serving: Spark, look: Look, engine: str | None, option: str, section: dict[str, t.Any], words: str
) -> None:
    serving.record |= {"engine": engine, "method": "", "draft_length": 0, "options": {option: section}}
    serving.write("mine/record.json", serving.record)
    result = look()
    assert (result["method"], result["speculation"]) == ("", section)
    assert words in result["lines"][0]
    serving.write("mine/record.json", {**serving.record, "method": "eagle3"})
    assert look()["speculation"] is None

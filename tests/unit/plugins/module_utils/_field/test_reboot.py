# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What stands against a reboot, and what is said of one."""

from __future__ import annotations

import functools
import json
import typing as t
from pathlib import Path

import pytest
from ansible_collections.dgx_spark.speculative.plugins.module_utils._field import reboot
from ansible_collections.dgx_spark.speculative.plugins.module_utils._field.sensor import (
    NotMeasured,
    World,
    measured,
)

from tests.unit import web
from tests.unit.docker_server import DockerServer
from tests.unit.entrypoint_container import lease_until

LABELS = {"dgx_spark.speculative.deployment": "demo", "dgx_spark.speculative.url": "http://127.0.0.1:8000"}
LISTENING = "0: 0100007F:1F40 00000000:0000 0A"
CONNECTED = "1: 0100007F:1F40 0100007F:C001 01"
OTHER_PORT = "2: 0100007F:1F41 0100007F:C002 01"

OBJECTIONS = functools.partial(reboot.problems, controller={})


class Spark:
    """One that serves, as far as anybody looks."""

    def __init__(self, place: Path) -> None:
        self.sessions = ""
        self.containers: list[dict[str, t.Any]] = []
        self.status, self.rank = "running", "0"
        self.world = World(place / "root", place / "state", "slot", str(place / "docker.sock"), self.run)
        self.state(state="running", verdict="answering")
        self.connections(LISTENING)

    def run(self, command: t.Sequence[str], **_how: t.Any) -> tuple[int, str, str]:
        return 0, self.sessions, ""

    def state(self, **values: str) -> None:
        path = self.world.state_directory / "demo" / "state" / "state.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(values))

    def connections(self, *lines: str) -> None:
        path = self.world.path("/proc/net/tcp")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(["  sl  local_address rem_address   st", *lines, ""]))

    def lease(self, seconds: float) -> None:
        path = self.world.state_directory / "demo" / "trial" / "lease.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"id": "1", "title": "draft length 3", **lease_until(seconds)}))

    def ask(self, question: t.Callable[[World], t.Any]) -> t.Any:
        container = {
            "Config": {"Labels": {**LABELS, "dgx_spark.speculative.rank": self.rank}},
            "State": {"Status": self.status},
        }
        answers = {"/containers/slot/json": container, "/containers/json": self.containers}
        server = DockerServer(Path(self.world.socket), answers)
        try:
            return question(self.world)
        finally:
            server.shutdown()
            server.server_close()
            Path(self.world.socket).unlink()


@pytest.fixture(name="spark")
def fixture_spark(tmp_path: Path) -> Spark:
    return Spark(tmp_path)


def test_a_spark_that_nobody_uses(spark: Spark) -> None:
    spark.containers = [
        {"Names": ["/slot"], "Labels": {}},
        {"Names": ["/webui"], "Labels": {"dgx_spark.speculative.role": "x"}},
    ]
    # The screen that waits for a user, root, and a name that nobody has.
    spark.sessions = "c1 120 gdm seat0 tty1\n2 0 root - -\n"
    assert spark.ask(OBJECTIONS) == []
    assert spark.ask(reboot.serves) == "http://127.0.0.1:8000"


def test_each_of_them_is_named(spark: Spark) -> None:
    spark.lease(600)
    spark.containers = [{"Names": ["/vllm"], "Labels": None}, {"Names": ["/comfy"]}]
    spark.sessions = "3 1001 lisa - pts/0\n4 1002 marge seat0 tty2\n"
    assert spark.ask(OBJECTIONS) == [
        "a benchmark is running (draft length 3); wait for it, or end it with stop.yml and start.yml",
        "containers that are not this collection's run; stop them with 'docker stop comfy vllm'",
        "lisa and marge are logged in; ask them to log out ('loginctl' lists the sessions)",
    ]


def test_who_becomes_root_is_nobody_else(spark: Spark, monkeypatch: pytest.MonkeyPatch) -> None:
    spark.sessions = "3 1001 lisa - pts/0\n"
    monkeypatch.setattr(reboot.getpass, "getuser", lambda: "root")
    monkeypatch.setenv("SUDO_USER", "lisa")
    assert spark.ask(OBJECTIONS) == []
    monkeypatch.delenv("SUDO_USER")
    assert spark.ask(OBJECTIONS) == ["lisa is logged in; ask them to log out ('loginctl' lists the sessions)"]


def test_where_docker_cannot_be_asked_nobody_knows_what_runs(spark: Spark) -> None:
    assert OBJECTIONS(spark.world) == [
        "whether others' containers run cannot be seen: the Docker Engine cannot be asked (No such file or directory);"
        " let this user ask Docker first"
    ]


HERE = "Ansible runs on this very machine; run it on another one"


@pytest.mark.parametrize(
    ("controller", "own", "found"),
    [
        ({"connection": "ssh", "machine_id": "a1", "lost": []}, "b2\n", []),
        ({"connection": "ssh", "machine_id": "a1"}, "a1\n", [HERE]),
        ({"connection": "ssh", "machine_id": "a1"}, None, []),
        # One that is no Linux machine has none.
        ({"connection": "ssh", "machine_id": ""}, "", []),
        ({"connection": None, "machine_id": None, "lost": None}, "b2\n", []),
        ({"connection": "local", "machine_id": ""}, "b2\n", [HERE]),
        ({"connection": "ansible.builtin.local"}, None, [HERE]),
        ({"lost": ["spark-2"]}, None, ["spark-2 has failed or cannot be reached; mend that first"]),
        ({"lost": ["a", "b"]}, None, ["a and b have failed or cannot be reached; mend that first"]),
    ],
)
def test_what_only_the_controller_knows(
    spark: Spark, controller: dict[str, t.Any], own: str | None, found: list[str]
) -> None:
    if own is not None:
        (spark.world.root / "etc").mkdir(parents=True)
        (spark.world.root / "etc/machine-id").write_text(own)
    assert spark.ask(functools.partial(reboot.problems, controller=controller)) == found


@pytest.mark.parametrize(
    ("verdict", "lines", "busy"),
    [
        ("busy", [LISTENING, CONNECTED], True),
        ("busy", [LISTENING, OTHER_PORT], False),
        # The watchdog's own, or a health check.
        ("answering", [LISTENING, CONNECTED], False),
    ],
)
def test_whoever_is_answered_just_now(spark: Spark, verdict: str, lines: list[str], busy: bool) -> None:
    spark.state(state="running", verdict=verdict)
    spark.connections(*lines)
    assert bool(spark.ask(OBJECTIONS)) is busy


def test_a_benchmark_that_was_cut_off_is_no_objection(spark: Spark) -> None:
    spark.lease(-1)
    assert spark.ask(OBJECTIONS) == []


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"rank": "2"}, "a worker has no API"),
        ({"status": "exited"}, "nothing was serving before"),
    ],
)
def test_where_no_answer_is_waited_for(spark: Spark, change: dict[str, str], why: str) -> None:
    for name, value in change.items():
        setattr(spark, name, value)
    with pytest.raises(NotMeasured, match=why):
        spark.ask(reboot.serves)


def test_a_server_that_loads_has_not_served(spark: Spark) -> None:
    spark.state(state="loading")
    with pytest.raises(NotMeasured, match="nothing was serving before"):
        spark.ask(reboot.serves)


LINK = {"id": "link_tcp", "value": ["rail0 96 Gb/s by TCP"]}


def report(before: t.Sequence[dict[str, t.Any]], now: t.Sequence[dict[str, t.Any]], world: World) -> dict[str, t.Any]:
    made = reboot.read({"before": {"rows": before}, "rebooted": {"elapsed": 60}, "answered": {"answer_s": None}})
    empty = [{"id": name, "not_measured": "no"} for name in ("link_rdma", "hotplug_state")]
    return {row["id"]: row for row in (measured(one, world) for one in reboot.sensors(made, [*now, *empty]))}


def test_before_and_now_stand_side_by_side(spark: Spark) -> None:
    rows = report([LINK], [{"id": "link_tcp", "value": ["rail0 13 Gb/s by TCP"]}], spark.world)
    assert rows["reboot_link_tcp"]["value"] == ["before: rail0 96 Gb/s by TCP", "now: rail0 13 Gb/s by TCP"]
    assert rows["reboot_ssh"]["value"] == 60
    assert rows["reboot_answer"]["not_measured"] == "the server did not answer again"


def test_what_is_gone_after_it_is_told(spark: Spark) -> None:
    rows = report([LINK], [{"id": "link_tcp", "not_measured": "the cable is out"}], spark.world)
    assert rows["reboot_link_tcp"]["not_measured"] == "after the reboot: the cable is out"


@pytest.mark.parametrize(
    ("answered", "seconds", "otherwise"),
    [
        # Counted from the beginning of the reboot on: another Spark may have taken longer than this one.
        ({"answer_s": 340.5}, 340.5, "the server did not answer again"),
        ({"answer_s": None}, None, "the server did not answer again"),
        ({"skipped": True}, None, "another Spark did not restart"),
    ],
)
def test_the_first_answer(answered: dict[str, t.Any], seconds: float | None, otherwise: str) -> None:
    made = reboot.read({"before": {"unanswered": ""}, "rebooted": {"elapsed": 60}, "answered": answered})
    assert made is not None
    assert made == (60, seconds, otherwise, {})


def test_what_has_passed_before_the_wait_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reboot, "answered", lambda _url: True)
    assert reboot.first_answer("http://127.0.0.1:8000", 1, passed=90) == pytest.approx(90, abs=0.5)


class Models(web.Handler):
    """Lists what it is told, and answers a question with what it is told."""

    def do_GET(self) -> None:
        self.reply(200, self.told["models"])

    def do_POST(self) -> None:
        self.read()
        self.reply(self.told["status"], self.told["answer"])


LISTED = {"data": [{"id": "m"}]}
ANSWER = {"choices": [{"text": " 4"}]}


@pytest.mark.parametrize(
    ("models", "status", "answer", "answered"),
    [
        (LISTED, 200, ANSWER, True),
        (LISTED, 503, ANSWER, False),
        (LISTED, 200, {"choices": []}, False),
        (LISTED, 200, b"<html>", False),
        ({"data": None}, 200, ANSWER, False),
        ([], 200, ANSWER, False),
        (b"<html>", 200, ANSWER, False),
    ],
)
def test_what_is_an_answer(models: t.Any, status: int, answer: t.Any, answered: bool) -> None:
    server = web.Server(Models, {"models": models, "status": status, "answer": answer})
    assert reboot.answered(server.url) is answered
    server.server_close()
    assert not reboot.answered(server.url)


@pytest.mark.parametrize("given", [None, {}, {"rebooted": {}}, {"before": {}, "rebooted": {"skipped": True}}])
def test_without_a_reboot(given: dict[str, t.Any] | None) -> None:
    assert reboot.read(given) is None

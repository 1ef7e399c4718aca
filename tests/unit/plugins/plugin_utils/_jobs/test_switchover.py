# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""From one container to another, against an Engine and a lease on real sockets; cut off after each of its steps."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
import typing as t
import urllib.parse
from pathlib import Path

import pytest
from ansible_collections.dgx_spark.speculative.plugins.module_utils._data.files import locked_directory
from ansible_collections.dgx_spark.speculative.plugins.module_utils._docker import engine as look
from ansible_collections.dgx_spark.speculative.plugins.module_utils._spark import lease, lock
from ansible_collections.dgx_spark.speculative.plugins.module_utils._spark.patience import Patience
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._jobs import switchover
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._jobs.engine import Engine, EngineError

from tests.unit.docker_server import DockerServer, Handler
from tests.unit.waiting import WITHIN_S, Clock, until

SLOT = "dgx-spark-speculative"
OLD, NEW = "a" * 64, "b" * 64
Container = dict[str, t.Any]


class ContainerHandler(Handler):
    server: Containers

    def do_GET(self) -> None:
        found = self.server.find(self.path.split("/")[2])
        self.reply(*((200, found) if found else (404, {"message": "No such container"})))

    def do_POST(self) -> None:
        self.act("POST")

    def do_DELETE(self) -> None:
        self.act("DELETE")

    def act(self, method: str) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"] or 0))
        if body:
            assert self.headers["Content-Type"] == "application/json"
        answer = self.server.act(method, self.path, json.loads(body or b"{}"))
        if answer:
            self.reply(*answer)
        else:
            self.close_connection = True


class Containers(DockerServer):
    """An Engine with containers, which does what it is told until it has had enough."""

    handler = ContainerHandler

    def __init__(self, path: Path, containers: dict[str, Container]) -> None:
        self.containers = containers
        # Steps that it still takes.
        self.left = 100
        self.steps: list[str] = []
        # Those that it refuses, and those at which it goes away, and how often.
        self.refuses: set[str] = set()
        self.gone: dict[str, int] = {}
        super().__init__(path, {})

    def find(self, key: str) -> Container | None:
        return next((each for each in self.containers.values() if key in (each["Id"], each["Name"])), None)

    def act(self, method: str, path: str, body: t.Mapping[str, t.Any]) -> tuple[int, t.Any] | None:
        url = urllib.parse.urlsplit(path)
        _empty, _containers, key, *rest = url.path.split("/")
        what = rest[0] if rest else "remove"
        found = self.find(key)
        if found is None:
            return 404, {"message": "No such container"}
        if self.gone.get(what):
            self.gone[what] -= 1
            return None
        if not self.left or what in self.refuses:
            return 500, {"message": "cut off"}
        self.left -= 1
        self.steps.append(what)
        if what == "rename":
            (name,) = urllib.parse.parse_qs(url.query)["name"]
            if self.find(name):
                return 409, {"message": "in use"}
            found["Name"] = name
        elif what == "update":
            found["HostConfig"] = dict(body)
        elif what == "remove":
            del self.containers[found["Id"]]
        else:
            found["State"] = {"Running": what == "start"}
        return 200, {}

    def seen(self) -> dict[str, tuple[str, bool, str]]:
        """By name, which it is, whether it runs and what Docker does with it after a power cut."""
        return {
            each["Name"]: (
                each["Id"][0],
                each["State"]["Running"],
                each["HostConfig"]["RestartPolicy"]["Name"],
            )
            for each in self.containers.values()
        }

    def power_cut(self) -> None:
        """What Docker does when it is there again; by hand it was stopped what does not run."""
        for each in self.containers.values():
            policy = each["HostConfig"]["RestartPolicy"]["Name"]
            runs = policy == "always" or (policy == "unless-stopped" and each["State"]["Running"])
            each["State"] = {"Running": runs}


def container(identity: str, name: str, directory: Path, configuration: str, policy: str, running: bool) -> Container:
    labels = {f"{switchover.LABEL}configuration": configuration, f"{switchover.LABEL}directory": str(directory)}
    return {
        "Id": identity,
        "Name": name,
        "Config": {"Labels": labels},
        "State": {"Running": running},
        "HostConfig": {"RestartPolicy": {"Name": policy}},
    }


def record(path: Path, configuration: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    labels = {f"{switchover.LABEL}configuration": configuration}
    path.write_text(json.dumps({"container": {"labels": labels}}), encoding="utf-8")


class Scene:
    """A Spark where a deployment serves, and perhaps another is to."""

    def __init__(self, place: Path, engine: Containers) -> None:
        self.state, self.engine = place / "state", engine
        self.jobs = self.state / "jobs"
        self.jobs.mkdir(parents=True)
        self.switch = switchover.Switchover(SLOT, Engine(str(engine.path)), self.jobs)

    def serve(self, deployment: str = "mine") -> None:
        record(self.state / deployment / "record.json", "old")
        self.engine.containers[OLD] = container(OLD, SLOT, self.state / deployment, "old", "unless-stopped", True)

    def succeed_it(self, deployment: str = "mine", configuration: str = "new") -> None:
        directory = self.state / deployment
        self.engine.containers[NEW] = container(NEW, SLOT, directory, configuration, "no", True)

    def keep(self, deployment: str = "mine") -> None:
        record(self.state / "previous.json", "old")
        record(self.state / deployment / "record.json", "new")


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """By which one who stays behind looks."""
    clock = Clock()
    monkeypatch.setattr(switchover, "time", clock)
    return clock


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clock: Clock) -> t.Iterator[Scene]:
    monkeypatch.setattr(switchover, "BEGUN_S", 0.0)
    with Containers(tmp_path / "docker.sock", {}) as engine:
        yield Scene(tmp_path, engine)


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> t.Iterator[t.Callable[[], None]]:
    """The lease, as its real holder serves it; call this, and it is gone."""
    name = f"dgx-spark-speculative-{tmp_path.name}"
    monkeypatch.setattr(lock, "NAME", name)
    gone = threading.Event()
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(f"\0{name}")
    listener.listen(socket.SOMAXCONN)
    of_a_run = lease.Lease({"run": "this", "owner": "bob@desk", "activity": "stop.yml"}, lease.since_boot())
    monkeypatch.setattr(of_a_run, "is_over", lambda _now: gone.is_set())

    def hold() -> None:
        with listener:
            lease.Lock(listener, of_a_run).serve()

    thread = threading.Thread(target=hold)
    thread.start()

    def end() -> None:
        gone.set()
        thread.join()

    yield end
    end()


@pytest.fixture
def no_lease(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(lock, "NAME", f"nobody-{tmp_path.name}")


@pytest.fixture
def watchers(monkeypatch: pytest.MonkeyPatch) -> list[t.Callable[[], None]]:
    """What would stay behind as a process."""
    found: list[t.Callable[[], None]] = []
    monkeypatch.setattr(switchover, "spawn_watcher", found.append)
    return found


def test_what_serves_is_put_aside_and_comes_back_after_a_power_cut(
    scene: Scene, held: t.Callable[[], None], watchers: list[t.Callable[[], None]]
) -> None:
    scene.serve()
    assert scene.switch.to_standby("this") == "standby"
    assert scene.engine.seen() == {f"{SLOT}-standby": ("a", False, "always")}
    # Somebody looks on before anything is done.
    assert watchers == [scene.switch.watch]
    scene.succeed_it()
    scene.engine.power_cut()
    assert scene.engine.seen() == {f"{SLOT}-standby": ("a", True, "always"), SLOT: ("b", False, "no")}
    # As those see it who look at the slot.
    slot = look.Engine(str(scene.engine.path)).slot(SLOT)
    assert slot is not None
    assert slot["Id"] == OLD
    assert scene.switch.finalize("") == "back"
    assert scene.engine.seen() == {SLOT: ("a", True, "unless-stopped")}


@pytest.mark.parametrize("cut", range(4))
def test_cut_off_while_it_is_put_aside_it_serves_after_a_power_cut_and_is_found(
    scene: Scene, held: t.Callable[[], None], watchers: list[t.Callable[[], None]], cut: int
) -> None:
    scene.serve()
    scene.engine.left = cut
    if cut < 3:
        with pytest.raises(EngineError, match="cut off"):
            scene.switch.to_standby("this")
    else:
        scene.switch.to_standby("this")
    scene.engine.left = 100
    scene.engine.power_cut()
    ((_name, runs, _policy),) = scene.engine.seen().values()
    assert runs
    slot = look.Engine(str(scene.engine.path)).slot(SLOT)
    assert slot is not None
    assert slot["State"]["Running"]
    scene.switch.finalize("")
    assert scene.engine.seen() == {SLOT: ("a", True, "unless-stopped")}


@pytest.mark.parametrize("cut", range(3))
def test_cut_off_while_it_is_kept_docker_starts_one_at_least_and_it_is_kept_in_the_end(
    scene: Scene, held: t.Callable[[], None], watchers: list[t.Callable[[], None]], cut: int
) -> None:
    scene.serve()
    scene.switch.to_standby("this")
    scene.succeed_it()
    scene.keep()
    scene.engine.left = cut
    if cut < 2:
        with pytest.raises(EngineError):
            scene.switch.finalize("")
    else:
        assert scene.switch.finalize("") == "kept"
    scene.engine.left = 100
    scene.engine.power_cut()
    # Of two, one waits until the other has ended: server/supervisor.py.
    assert sum(runs for _id, runs, _policy in scene.engine.seen().values()) == (2 if cut == 1 else 1)
    assert scene.switch.finalize("") == ("" if cut == 2 else "kept")
    ((name, found),) = scene.engine.seen().items()
    assert (name, found[0], found[2]) == (SLOT, "b", "unless-stopped")


@pytest.mark.parametrize("cut", range(4))
def test_cut_off_on_the_way_back_it_is_gone_on_with(
    scene: Scene, held: t.Callable[[], None], watchers: list[t.Callable[[], None]], cut: int
) -> None:
    scene.serve()
    scene.switch.to_standby("this")
    scene.succeed_it()
    scene.engine.left = cut
    if cut < 2:
        with pytest.raises(EngineError):
            scene.switch.finalize("")
    elif cut == 2:
        # It was not started, and who wants it to serve sees why.
        assert scene.switch.finalize("") == "back"
    scene.engine.left = 100
    scene.engine.power_cut()
    scene.switch.finalize("")
    ((name, found),) = scene.engine.seen().items()
    assert (name, found[0], found[2]) == (SLOT, "a", "unless-stopped")


# Which records there are, by whose configuration, and what becomes of it.
RECORDS = [
    ({"mine/record.json": "old"}, "mine", "back"),
    # Written, but not yet that of what it replaces: of what served it is as before.
    ({"mine/record.json": "new"}, "mine", "back"),
    ({"mine/record.json": "old", "previous.json": "old"}, "mine", "back"),
    ({"mine/record.json": "new", "previous.json": "old"}, "mine", "kept"),
    # It has answered at another time, which says nothing of now.
    ({"mine/record.json": "old", "other/record.json": "new"}, "other", "back"),
    ({"mine/record.json": "old", "other/record.json": "new", "previous.json": "new"}, "other", "back"),
    ({"mine/record.json": "old", "other/record.json": "new", "previous.json": "old"}, "other", "kept"),
    ({}, "mine", "back"),
]


@pytest.mark.parametrize(("records", "deployment", "did"), RECORDS)
def test_only_what_is_on_record_in_its_place_is_kept(
    scene: Scene, no_lease: None, records: dict[str, str], deployment: str, did: str
) -> None:
    scene.engine.containers[OLD] = container(OLD, f"{SLOT}-standby", scene.state / "mine", "old", "always", False)
    scene.succeed_it(deployment)
    for name, configuration in records.items():
        record(scene.state / name, configuration)
    assert scene.switch.finalize("") == did
    assert [each[0] for each in scene.engine.seen().values()] == ["b" if did == "kept" else "a"]


@pytest.mark.parametrize("damaged", ["", "{", "[]", '{"container": {"labels": []}}', "[" * 100_000])
def test_a_damaged_record_keeps_nothing(scene: Scene, no_lease: None, damaged: str) -> None:
    scene.engine.containers[OLD] = container(OLD, f"{SLOT}-standby", scene.state / "mine", "old", "always", False)
    scene.succeed_it()
    scene.keep()
    (scene.state / "mine" / "record.json").write_text(damaged, encoding="utf-8")
    assert scene.switch.finalize("") == "back"


def test_what_is_made_anew_as_it_was_needs_no_other_record(scene: Scene, no_lease: None) -> None:
    scene.engine.containers[OLD] = container(OLD, f"{SLOT}-standby", scene.state / "mine", "old", "always", False)
    record(scene.state / "mine" / "record.json", "old")
    scene.succeed_it(configuration="old")
    assert scene.switch.finalize("") == "kept"
    assert scene.engine.seen() == {SLOT: ("b", True, "unless-stopped")}


def test_the_first_one_is_kept_once_it_is_on_record(scene: Scene, no_lease: None) -> None:
    assert scene.switch.finalize("") == ""
    scene.succeed_it()
    assert scene.switch.finalize("") == ""
    record(scene.state / "mine" / "record.json", "new")
    assert scene.switch.finalize("") == "kept"
    assert scene.engine.seen() == {SLOT: ("b", True, "unless-stopped")}


def test_one_that_cannot_be_started_is_in_its_place(scene: Scene, no_lease: None) -> None:
    scene.engine.containers[OLD] = container(OLD, f"{SLOT}-standby", scene.state / "mine", "old", "always", False)
    scene.engine.refuses = {"start"}
    assert scene.switch.finalize("") == "back"
    # Under way still: who runs it says why it does not start, and a restart of Docker starts it.
    assert scene.engine.seen() == {SLOT: ("a", False, "always")}


def test_one_that_does_not_start_at_once_is_tried_again(scene: Scene, no_lease: None, clock: Clock) -> None:
    """What Docker needs for it may be restarting, too."""
    scene.engine.containers[OLD] = container(OLD, f"{SLOT}-standby", scene.state / "mine", "old", "always", False)
    scene.engine.refuses = {"start"}
    clock.at(60, scene.engine.refuses.clear)
    scene.switch.watch()
    assert clock.monotonic() >= 60
    assert scene.engine.seen() == {SLOT: ("a", True, "unless-stopped")}


def test_one_that_never_starts_is_given_up(scene: Scene, no_lease: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(switchover, "TRIES", 3)
    scene.engine.containers[OLD] = container(OLD, f"{SLOT}-standby", scene.state / "mine", "old", "always", False)
    scene.engine.refuses = {"start"}
    scene.switch.watch()
    assert scene.engine.seen() == {SLOT: ("a", False, "always")}


@pytest.mark.parametrize("step", ["rename", "start", "update"])
def test_an_engine_that_is_restarted_on_the_way_back_is_asked_again(scene: Scene, no_lease: None, step: str) -> None:
    """Nobody else would bring it back: it was stopped, so Docker does not start it."""
    scene.serve()
    scene.engine.containers[OLD] = container(OLD, f"{SLOT}-standby", scene.state / "mine", "old", "always", False)
    scene.engine.gone = {step: 2}
    scene.switch.watch()
    assert scene.engine.seen() == {SLOT: ("a", True, "unless-stopped")}


@pytest.mark.parametrize("policy", ["no", "unless-stopped"])
def test_what_somebody_has_stopped_is_left_alone(scene: Scene, no_lease: None, policy: str) -> None:
    scene.serve()
    scene.engine.containers[OLD].update(State={"Running": False}, HostConfig={"RestartPolicy": {"Name": policy}})
    assert scene.switch.finalize("") == ""
    assert scene.engine.steps == []


def test_what_has_its_name_again_is_started_also_if_its_record_was_deleted(scene: Scene, no_lease: None) -> None:
    """Docker was restarted between the two."""
    scene.engine.containers[OLD] = container(OLD, SLOT, scene.state / "mine", "old", "always", False)
    assert scene.switch.finalize("") == "back"
    assert scene.engine.seen() == {SLOT: ("a", True, "unless-stopped")}


def test_without_a_lease_it_is_stopped_and_no_more(
    scene: Scene, no_lease: None, watchers: list[t.Callable[[], None]]
) -> None:
    assert scene.switch.to_standby("") == ""
    scene.serve()
    assert scene.switch.to_standby("") == "standby"
    assert scene.engine.seen() == {SLOT: ("a", False, "unless-stopped")}
    assert watchers == []


def test_the_lease_of_another_run_does_not_bring_it_back(
    scene: Scene, held: t.Callable[[], None], watchers: list[t.Callable[[], None]]
) -> None:
    """When that ends, what this run has started would make room for what it has stopped."""
    scene.serve()
    scene.switch.to_standby("")
    assert scene.engine.seen() == {SLOT: ("a", False, "unless-stopped")}
    assert watchers == []


def test_a_run_whose_lease_is_gone_stops_nothing(
    scene: Scene, no_lease: None, watchers: list[t.Callable[[], None]]
) -> None:
    """It would take nothing back: its lock was killed since it looked."""
    scene.serve()
    with pytest.raises(
        switchover.EngineError, match=r"the lease of this run is gone\. So it changes nothing more; run it again"
    ):
        scene.switch.to_standby("this")
    assert scene.engine.seen() == {SLOT: ("a", True, "unless-stopped")}
    assert watchers == []


@pytest.mark.parametrize("act", ["to_standby", "finalize"])
def test_a_run_that_another_one_has_followed_changes_nothing(
    scene: Scene, held: t.Callable[[], None], watchers: list[t.Callable[[], None]], act: str
) -> None:
    """That the Spark is somebody's says nothing: it has to be this run's."""
    scene.serve()
    scene.engine.containers[NEW] = container(NEW, f"{SLOT}-standby", scene.state / "mine", "new", "always", False)
    before = scene.engine.seen()
    with pytest.raises(
        switchover.EngineError, match=r"another run took over \(bob@desk has been running stop\.yml for \d+ s"
    ):
        getattr(scene.switch, act)("another")
    assert (scene.engine.seen(), scene.engine.steps, watchers) == (before, [], [])


def test_nobody_gets_the_spark_before_it_is_put_aside(
    scene: Scene, held: t.Callable[[], None], watchers: list[t.Callable[[], None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[t.Any] = []

    def stop(*_step: t.Any) -> None:
        lock.ask({"do": "release", "run": "this"})
        seen.append(lock.ask({"do": "take", "run": "another"})["state"])

    monkeypatch.setattr(scene.switch, "_do", stop)
    scene.serve()
    scene.switch.to_standby("this")
    assert set(seen) == {"wait"}


def foreign(scene: Scene) -> Container:
    """One of somebody's own that has the name of what is put aside."""
    theirs = container(OLD, f"{SLOT}-standby", scene.state, "", "no", True)
    theirs["Config"] = {"Labels": None}
    scene.engine.containers[OLD] = theirs
    return theirs


@pytest.mark.parametrize("proven", [False, True])
def test_what_somebody_else_calls_so_is_left_alone(scene: Scene, no_lease: None, proven: bool) -> None:
    theirs = {**foreign(scene)}
    scene.succeed_it()
    if proven:
        scene.keep()
    assert scene.switch.finalize("") == ("kept" if proven else "")
    assert scene.engine.containers[OLD] == theirs
    assert scene.engine.seen()[SLOT] == ("b", True, "unless-stopped" if proven else "no")


def test_nothing_is_put_aside_where_somebody_else_has_the_name(
    scene: Scene, held: t.Callable[[], None], watchers: list[t.Callable[[], None]]
) -> None:
    foreign(scene)
    scene.succeed_it()
    with pytest.raises(
        EngineError, match=rf"the container {SLOT}-standby was not made by this collection\. Nothing was"
    ):
        scene.switch.to_standby("this")
    assert (scene.engine.steps, watchers) == ([], [])


@pytest.fixture
def mute(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> t.Iterator[subprocess.Popen[bytes]]:
    """A process that has the name of the lock and says nothing."""
    monkeypatch.setattr(lock, "ANSWER_S", 0.1)
    monkeypatch.setattr(lock, "NAME", f"mute-{tmp_path.name}")
    program = (
        "import socket, sys, time; s = socket.socket(socket.AF_UNIX); s.bind(chr(0) + sys.argv[1]); s.listen();"
        "print(flush=True); time.sleep(600)"
    )
    process = subprocess.Popen([sys.executable, "-c", program, lock.NAME], stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    yield process
    process.kill()
    process.wait()
    process.stdout.close()


def test_a_lock_that_says_nothing_is_held_at_first(mute: subprocess.Popen[bytes]) -> None:
    assert switchover.has_lease(Patience())


def test_one_that_says_nothing_for_long_is_ended_and_what_was_put_aside_comes_back(
    scene: Scene, mute: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lock, "TTL_S", 0.3)
    scene.engine.containers[OLD] = container(OLD, f"{SLOT}-standby", scene.state / "mine", "old", "always", False)
    scene.switch.watch()
    assert mute.wait(WITHIN_S) == -9
    assert scene.engine.seen() == {SLOT: ("a", True, "unless-stopped")}


def test_a_user_without_rights_who_has_the_name_holds_nothing(
    mute: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lock, "has_rights", lambda _uid: False)
    assert not switchover.has_lease(Patience())


def test_who_stays_behind_brings_it_back_when_nobody_has_the_spark(
    scene: Scene, held: t.Callable[[], None], watchers: list[t.Callable[[], None]], clock: Clock
) -> None:
    scene.serve()
    scene.switch.to_standby("this")
    scene.succeed_it()
    seen = [scene.engine.seen()]
    clock.at(60, lambda: seen.append(scene.engine.seen()))
    # An Engine that does not answer for a while is asked again.
    clock.at(60, lambda: setattr(scene.engine, "left", 0))
    clock.at(60, held)
    clock.at(90, lambda: seen.append(scene.engine.seen()))
    clock.at(90, lambda: setattr(scene.engine, "left", 100))
    scene.switch.watch()
    assert clock.monotonic() >= 90
    assert seen == seen[:1] * 3
    assert scene.engine.seen() == {SLOT: ("a", True, "unless-stopped")}


def test_what_a_run_had_begun_when_it_was_killed_comes_first(
    scene: Scene, held: t.Callable[[], None], monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    """A module makes the successor where what was put aside would have its name again, and would be removed."""
    monkeypatch.setattr(switchover, "BEGUN_S", 15.0)
    scene.engine.containers[OLD] = container(OLD, f"{SLOT}-standby", scene.state / "mine", "old", "always", False)
    steps: list[int] = []
    clock.at(5, held)
    clock.at(19, lambda: steps.append(len(scene.engine.steps)))
    clock.at(19, scene.succeed_it)
    scene.switch.watch()
    assert steps == [0]
    assert scene.engine.seen() == {SLOT: ("a", True, "unless-stopped")}


def test_a_run_that_comes_back_after_that_has_lost_the_spark(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It would stop what came back, and nobody would know of that."""
    monkeypatch.setattr(lock, "NAME", f"lapsed-{tmp_path.name}")
    request = {"run": "this", "owner": "alice@laptop", "activity": "single_eagle3.yml"}
    assert lease.take({**request, "ttl": 0.2})["state"] == "held"
    # Whoever only asks leaves it to the run that comes back.
    until(lambda: lock.ask({"do": "ask"}) == {"state": "free"})
    assert lock.ask({**request, "do": "renew", "ttl": 0.2}) == {"state": "held"}
    scene.engine.containers[OLD] = container(OLD, f"{SLOT}-standby", scene.state / "mine", "old", "always", False)
    scene.switch.watch()
    assert scene.engine.seen() == {SLOT: ("a", True, "unless-stopped")}
    assert lock.ask({**request, "do": "renew"}) == {"state": "none"}


def test_what_a_run_without_a_record_has_left_does_not_prove_the_next_one(
    scene: Scene, held: t.Callable[[], None], watchers: list[t.Callable[[], None]]
) -> None:
    """The disk was full between the two records; then an older deployment, which has one, is cut off."""
    scene.serve()
    record(scene.state / "previous.json", "old")
    record(scene.state / "other" / "record.json", "older")
    scene.switch.to_standby("this")
    scene.succeed_it("other", "older")
    assert scene.switch.finalize("") == "back"
    # Any other way back stays.
    record(scene.state / "previous.json", "older")
    scene.switch.to_standby("this")
    assert switchover.recorded_configuration(scene.state / "previous.json") == "older"


def test_who_stays_behind_starts_what_was_kept_if_it_is_not_up(scene: Scene, no_lease: None) -> None:
    scene.engine.containers[OLD] = container(OLD, f"{SLOT}-standby", scene.state / "mine", "old", "always", False)
    scene.succeed_it()
    scene.keep()
    scene.engine.containers[NEW]["State"] = {"Running": False}
    scene.switch.watch()
    assert scene.engine.seen() == {SLOT: ("b", True, "unless-stopped")}


def test_who_stays_behind_ends_with_the_switch(scene: Scene, held: t.Callable[[], None]) -> None:
    scene.serve()
    scene.switch.watch()
    assert scene.engine.steps == []


def test_one_at_a_time(scene: Scene, no_lease: None) -> None:
    scene.engine.containers[OLD] = container(OLD, f"{SLOT}-standby", scene.state / "mine", "old", "always", False)
    with locked_directory(scene.jobs):
        other = threading.Thread(target=scene.switch.finalize, args=("",))
        other.start()
        other.join(0.3)
        assert other.is_alive()
        assert scene.engine.steps == []
    other.join(WITHIN_S)
    assert scene.engine.seen() == {SLOT: ("a", True, "unless-stopped")}


def test_an_engine_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="start it with"):
        switchover.Switchover(SLOT, Engine(str(tmp_path / "none.sock")), tmp_path).finalize("")


def test_it_is_left_behind_as_a_process_of_its_own_session(tmp_path: Path) -> None:
    program = (
        "import os, sys, time; sys.path.insert(0, sys.argv[1])\n"
        "from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._jobs import switchover\n"
        "def main():\n"
        "    while not os.path.exists(sys.argv[3]): time.sleep(0.02)\n"
        "    open(sys.argv[2], 'w').write(f'{os.getsid(0)} {len(os.listdir(\"/proc/self/fd\"))}')\n"
        "switchover.spawn_watcher(main)\n"
        "print(os.getsid(0))\n"
    )
    seen, ended = tmp_path / "seen", tmp_path / "ended"
    root = next(path for path in map(Path, sys.path) if (path / "ansible_collections").is_dir())
    command = [sys.executable, "-c", program, *map(str, (root, seen, ended))]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=WITHIN_S)
    ended.touch()
    until(lambda: seen.exists() and seen.read_text())
    session, descriptors = seen.read_text().split()
    assert session != done.stdout.strip()
    # The three, the file and the directory that is listed.
    assert int(descriptors) <= 5

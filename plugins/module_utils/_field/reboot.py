# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this module util is internal to the collection; its interface may change at any time.

"""Find what a reboot of a Spark would interrupt, and report the result of one: times, and changed facts."""

from __future__ import annotations

import contextlib
import functools
import getpass
import os
import time
import typing as t
from urllib.parse import urlsplit

from .._deployment.names import LABEL
from .._deployment.records import leased_trial
from .._fabric.ports import ESTABLISHED
from .._server.client import HttpClient, ProbeError
from .sensor import NotMeasured, Sensor, World, measured

# Users of people, as distributions number them; a screen that waits for one has a lower number.
FIRST_PERSON = 1000
ANSWER_S = 30.0
PAUSE_S = 1.0
SECTION = "After a reboot"
NOT_ASKED = "the Spark was not rebooted for it; ask for that with -e reboot=true"

Row = t.Mapping[str, t.Any]
# Facts of the controller: connection, machine_id, lost.
Controller = t.Mapping[str, t.Any]


# Before


def problems(world: World, controller: Controller) -> list[str]:
    """Return what a reboot of this Spark would interrupt; a check that cannot run reports nothing."""
    result: list[str] = []
    for look in (functools.partial(same_machine, controller), at_work, other_containers, other_people):
        with contextlib.suppress(NotMeasured):
            result += look(world)
    return [*lost_sparks(controller), *result]


def lost_sparks(controller: Controller) -> list[str]:
    """Return those that a cluster needs to serve again."""
    lost = controller.get("lost") or []
    have = "has" if len(lost) == 1 else "have"
    return [f"{' and '.join(lost)} {have} failed or cannot be reached; mend that first"] if lost else []


def same_machine(controller: Controller, world: World) -> list[str]:
    """Return the problem that Ansible runs on this Spark, with any connection."""
    local = (controller.get("connection") or "").rpartition(".")[2] == "local"
    its_own = controller.get("machine_id")
    same = local or (bool(its_own) and world.read_text("/etc/machine-id") == its_own)
    return ["Ansible runs on this very machine; run it on another one"] if same else []


def at_work(world: World) -> list[str]:
    """Return the work that the server is doing."""
    trial = leased_trial(world.directory())
    if trial:
        return [f"a benchmark is running ({trial['title']}); wait for it, or end it with stop.yml and start.yml"]
    # The container looks once a minute: who has left since is no reason.
    busy = world.state().get("verdict") == "busy" and connected(world, urlsplit(world.labels()[f"{LABEL}url"]).port)
    return ["a client is connected to the server; wait until it is idle"] if busy else []


def connected(world: World, port: int | None) -> bool:
    """Return whether a connection to this port is open, by the kernel's tables."""
    result = False
    for table in ("tcp", "tcp6"):
        with contextlib.suppress(NotMeasured):
            for line in world.read_text(f"/proc/net/{table}").splitlines()[1:]:
                _number, local, _peer, state = line.split()[:4]
                result |= state == ESTABLISHED and int(local.rpartition(":")[2], 16) == port
    return result


def other_containers(world: World) -> list[str]:
    """Return the running ones that do not belong to this collection."""
    try:
        running = world.ask("/containers/json") or []
    except NotMeasured as reason:
        return [f"whether others' containers run cannot be seen: {reason}; let this user ask Docker first"]
    names = []
    for one in running:
        name = (one.get("Names") or ["?"])[0].lstrip("/")
        labels = one.get("Labels") or {}
        if not name.startswith(world.container) and not any(label.startswith(LABEL) for label in labels):
            names.append(name)
    listed = " ".join(sorted(names))
    return [f"containers that are not this collection's run; stop them with 'docker stop {listed}'"] if names else []


def other_people(world: World) -> list[str]:
    """Return the other logged-in users."""
    lines = [line.split() for line in world.output("loginctl", "list-sessions", "--no-legend").splitlines()]
    users = {words[2] for words in lines if len(words) > 2 and words[1].isdigit() and int(words[1]) >= FIRST_PERSON}
    others = sorted(users - {os.environ.get("SUDO_USER") or getpass.getuser()})
    listed = f"{' and '.join(others)} {'is' if len(others) == 1 else 'are'} logged in"
    return [f"{listed}; ask them to log out ('loginctl' lists the sessions)"] if others else []


def serves(world: World) -> str:
    """Return the URL of the server on this Spark."""
    world.require_head()
    if world.slot()["State"]["Status"] != "running" or world.state().get("state") != "running":
        raise NotMeasured("nothing was serving before")
    url: str = world.labels()[f"{LABEL}url"]
    return url


# After


def answered(url: str) -> bool:
    """Return whether the server generates a token."""
    try:
        client = HttpClient(url)
        model = client.get("/v1/models", ANSWER_S).json["data"][0]["id"]
        question = {"model": model, "prompt": "1, 2, 3,", "max_tokens": 1}
        reply = client.post("/v1/completions", question, ANSWER_S)
        return reply.status == 200 and bool(reply.json["choices"])
    except (ProbeError, ValueError, TypeError, LookupError):
        return False


def first_answer(url: str, deadline: float, passed: float = 0.0) -> float | None:
    """Return the seconds, with those passed before, until the server answers without a start; None if it does not."""
    began = time.monotonic()
    while not answered(url):
        if time.monotonic() - began > deadline:
            return None
        time.sleep(PAUSE_S)
    return round(passed + time.monotonic() - began, 1)


class Reboot(t.NamedTuple):
    """The result of a reboot: seconds, and the rows before it."""

    ssh_s: float
    answer_s: float | None
    unanswered: str
    before: t.Mapping[str, Row]


def read(inputs: t.Mapping[str, t.Any] | None) -> Reboot | None:
    """From the results of what the playbook has done; None if the Spark was not rebooted."""
    before, rebooted, answered = ((inputs or {}).get(name) or {} for name in ("before", "rebooted", "answered"))
    if rebooted.get("elapsed") is None:
        return None
    away = "another Spark did not restart" if answered.get("skipped") else "the server did not answer again"
    rows = {row["id"]: row for row in before.get("rows") or []}
    return Reboot(float(rebooted["elapsed"]), answered.get("answer_s"), before.get("unanswered") or away, rows)


def seconds(name: str, made: Reboot | None) -> t.Callable[[World], float]:
    """Return a sensor of one of the figures."""

    def look(_world: World) -> float:
        if made is None:
            raise NotMeasured(NOT_ASKED)
        value: float | None = getattr(made, name)
        if value is None:
            raise NotMeasured(made.unanswered)
        return value

    return look


def compared(made: Reboot | None, name: str, now: Row) -> t.Callable[[World], list[str]]:
    """Return a sensor of a row that was looked at before and is looked at again."""

    def look(_world: World) -> list[str]:
        if made is None:
            raise NotMeasured(NOT_ASKED)
        before = made.before.get(name) or {"not_measured": "it was not checked"}
        for when, row in (("before", before), ("after", now)):
            if "not_measured" in row:
                raise NotMeasured(f"{when} the reboot: {row['not_measured']}")
        return [f"{when} {line}" for when, row in (("before:", before), ("now:", now)) for line in words(row["value"])]

    return look


def words(value: t.Any) -> list[str]:
    return [str(one) for one in value] if isinstance(value, list) else [str(value)]


def sensors(made: Reboot | None, rows: t.Sequence[Row]) -> tuple[Sensor, ...]:
    """Return the rows of a reboot, from what is found now."""
    now = {row["id"]: row for row in rows}
    pairs = (
        ("link_tcp", "Link by TCP", "the role spark_network's test"),
        ("link_rdma", "Link by RDMA", "ib_write_bw"),
        ("hotplug_state", "State of the network card's slot", "sysfs"),
    )
    return (
        Sensor("reboot_ssh", SECTION, "SSH again after", seconds("ssh_s", made), "ansible.builtin.reboot", "s"),
        Sensor("reboot_answer", SECTION, "First answer after", seconds("answer_s", made), "/v1/completions", "s"),
        *(Sensor(f"reboot_{name}", SECTION, what, compared(made, name, now[name]), how) for name, what, how in pairs),
    )


def before(world: World, controller: Controller, looks: t.Sequence[Sensor]) -> dict[str, t.Any]:
    """Return the facts before a reboot.

    `problems` prevent it. `url` is that of the server, or `unanswered` is why no server is expected afterwards.
    """
    result: dict[str, t.Any] = {"problems": problems(world, controller), "url": "", "unanswered": ""}
    try:
        result["url"] = serves(world)
    except NotMeasured as reason:
        result["unanswered"] = str(reason)
    # No user has to wait for a measurement that is not needed.
    result["rows"] = [] if result["problems"] else [measured(sensor, world) for sensor in looks]
    return result

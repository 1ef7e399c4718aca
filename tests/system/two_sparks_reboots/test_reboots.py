# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A pair that is rebooted, with a card that is late or stays away: it answers again, and nobody does anything."""

from __future__ import annotations

import concurrent.futures
import contextlib
import json
import time
import typing as t
from pathlib import Path

import pytest

from tests import playbook
from tests.field import rows
from tests.pair import Node
from tests.twin import cables, engine
from tests.twin.control import Spark

MARKER = "/etc/nvidia/cx7-hotplug-enabled"
OURS = f"{MARKER}.dgx-spark-speculative"
UNIT = "dgx-spark-speculative-nic.path"
FILES = "ls /usr/local/sbin /etc/systemd/system | grep dgx-spark-speculative-nic"
REFUSED = 'adding custom device "/dev/infiniband"'
# So late is the card, and so soon afterwards the pair answers.
LATE_S, LIMIT_S = 60.0, 180.0


def each(nodes: t.Sequence[Node], act: t.Callable[[Spark], None]) -> None:
    with concurrent.futures.ThreadPoolExecutor() as pool:
        list(pool.map(lambda node: act(node.spark), nodes))


def reboot(*nodes: Node) -> None:
    """All at once."""
    each(nodes, Spark.switch_off)
    engine.docker("start", *(node.spark.container for node in nodes))
    # Once: the cable has two ends.
    cables.connect()
    each(nodes, Spark.wait)


@contextlib.contextmanager
def late(*nodes: Node) -> t.Iterator[None]:
    """Have these rebooted without a card, which comes afterwards."""
    cables.record(cables.Cable(rails=()))
    try:
        reboot(*nodes)
        yield
    finally:
        cables.plug()


def refused(node: Node) -> bool:
    state = node.inspect()["State"]
    return not state["Running"] and REFUSED in state["Error"]


def said(outcome: playbook.Outcome) -> str:
    return " ".join(outcome.output.split())


def nodes(node: Node) -> list[str]:
    return node.spark.exec("ls /dev/infiniband | grep uverbs").stdout.split()


def wait_seconds(seconds: float) -> None:
    """Let something be late, or nothing happen."""
    time.sleep(seconds)


def assert_stays_down(*both: Node) -> None:
    both[0].wait_until(lambda: all(map(nodes, both)))
    wait_seconds(15)
    assert [node.inspect()["State"]["Running"] for node in both] == [False, False]


Wait = t.Callable[[], None]


@pytest.fixture
def answers_in_time(head: Node, record_property: t.Callable[[str, object], None]) -> t.Callable[[], Wait]:
    """Call it when all that is needed is there, and what it returns to wait for the answer."""

    def begin() -> Wait:
        begun = time.monotonic()

        def wait() -> None:
            head.wait_until(head.answers, LIMIT_S)
            took = time.monotonic() - begun
            record_property("seconds", round(took, 1))
            print(f"It answers again after {took:.1f} s.")

        return wait

    return begin


def test_the_first_run_watches_for_the_card_and_tells_what_may_take_it_away(
    deployed: playbook.Outcome, head: Node, worker: Node
) -> None:
    for node in (head, worker):
        assert node.spark.exec(f"systemctl is-enabled {UNIT}; systemctl is-active {UNIT}").stdout.split() == [
            "enabled",
            "active",
        ]
    assert "DGX OS turns the NIC off without a cable" in said(deployed)
    again = playbook.succeed("two_sparks", "-e", "ansible_become_password=")
    assert again.changed == []


def test_a_field_check_that_reboots_both_times_the_first_answer(head: Node, worker: Node) -> None:
    with head.spark.powered(), worker.spark.powered():
        found = rows(playbook.succeed("field_check", "-e", "reboot=true"))
    assert 0 < found[0]["reboot_ssh"]["value"] < found[0]["reboot_answer"]["value"]
    assert found[1]["reboot_ssh"]["value"] > 0
    assert found[1]["reboot_answer"]["not_measured"]
    assert head.answers()


def test_a_card_that_left_with_the_other_spark_stays_away_and_is_told(
    head: Node, worker: Node, answers_in_time: t.Callable[[], Wait]
) -> None:
    worker.spark.switch_off()
    head.wait_until(lambda: not nodes(head))
    worker.spark.switch_on()
    head.wait_until(lambda: head.state["state"] in ("peer lost", "waiting for the worker"))
    assert not nodes(head), "the carrier alone has brought it back"
    told = said(playbook.fail("two_sparks"))
    assert "spark-1: the ConnectX NIC is switched off" in told
    assert f"'sudo {cables.HANDLER} plug-in' on spark-1" in told
    assert "DGX OS removed the NIC from the bus" in said(playbook.run("diagnose"))
    # A container that starts anew now gets what is left in /dev/infiniband, and no device of the card.
    before = head.inspect()
    head.spark.exec(["kill", "-9", str(before["State"]["Pid"])])
    head.wait_until(lambda: head.inspect()["RestartCount"] > before["RestartCount"])
    wait = answers_in_time()
    assert head.spark.exec([cables.HANDLER, "plug-in"]).returncode == 0
    wait()


@pytest.mark.parametrize("turn", ["first", "second", "third"])
def test_both_rebooted_with_the_card_late_answer_again(
    head: Node, worker: Node, answers_in_time: t.Callable[[], Wait], turn: str
) -> None:
    with late(head, worker):
        assert refused(head)
        assert refused(worker)
        wait_seconds(LATE_S)
        assert refused(head), turn
    # The minute that the card was late does not count.
    answers_in_time()()


def test_stopped_while_the_card_is_away_it_stays_down_when_that_comes(head: Node, worker: Node) -> None:
    with late(head, worker):
        playbook.succeed("stop")
        assert playbook.succeed("stop").changed == []
    assert_stays_down(head, worker)
    # Nor does Docker start it at boot, with the card and without.
    with late(head, worker):
        assert not head.inspect()["State"]["Running"]
    assert_stays_down(head, worker)
    playbook.succeed("start")
    assert head.answers()
    assert head.inspect()["HostConfig"]["RestartPolicy"]["Name"] == "unless-stopped"


def test_a_container_of_somebody_elses_is_left_alone(head: Node) -> None:
    # The same error, and no half of a model.
    cables.record(cables.Cable(rails=()))
    reboot(head)
    run = "docker run --detach --name theirs --restart unless-stopped --device /dev/infiniband"
    image = head.inspect()["Image"]
    assert head.spark.exec(f"{run} --entrypoint sleep {image} infinity").returncode != 0
    cables.plug()
    head.wait_until_it_answers()
    state = head.spark.exec("docker inspect --format '{{.State.Status}}' theirs; docker rm --force theirs").stdout
    assert state.split() == ["created", "theirs"]


def test_who_does_not_want_it_is_told_how_to_start(head: Node, worker: Node, tmp_path: Path) -> None:
    playbook.succeed("two_sparks", variables={"spark_network_start_on_nic": False})
    assert [node.spark.exec(FILES).stdout for node in (head, worker)] == ["", ""]
    assert playbook.succeed("two_sparks", "-e", "ansible_become_password=").changed == []
    with late(head, worker):
        pass
    head.wait_until(lambda: bool(nodes(head)) and bool(nodes(worker)))
    wait_seconds(10)
    assert refused(head)
    assert refused(worker)
    path = tmp_path / "status.json"
    assert "The NIC was missing when Docker tried to start the container" in said(playbook.run("diagnose"))
    playbook.run("status", variables={"json": str(path)})
    for status in json.loads(path.read_text(encoding="utf-8")).values():
        assert status["state"] == "dead"
        assert "start.yml" in status["reason"]
    playbook.succeed("start")
    assert "-e spark_network_start_on_nic=true" in said(playbook.succeed("two_sparks"))
    dry = playbook.succeed("two_sparks", "--check", variables={"spark_network_start_on_nic": True})
    assert "Install the NIC watcher" in dry.changed
    assert head.spark.exec(FILES).stdout == ""
    playbook.succeed("two_sparks", variables={"spark_network_start_on_nic": True})
    assert len(head.spark.exec(FILES).stdout.split()) == 3


def test_the_card_can_be_kept(head: Node, worker: Node) -> None:
    playbook.succeed("two_sparks", variables={"spark_network_keep_nic_on": True})
    for node in (head, worker):
        assert node.spark.exec(f"ls {MARKER}*").stdout.split() == [OURS]
    assert playbook.succeed("two_sparks", "-e", "ansible_become_password=").changed == []
    reboot(head, worker)
    head.wait_until_it_answers()


@pytest.mark.parametrize("turn", ["first", "second", "third"])
@pytest.mark.parametrize("which", ["head", "worker", "both"])
def test_rebooted_it_answers_again(
    head: Node, worker: Node, which: str, turn: str, answers_in_time: t.Callable[[], Wait]
) -> None:
    rebooted = {"head": [head], "worker": [worker], "both": [head, worker]}[which]
    begun = [node.inspect()["State"]["StartedAt"] for node in rebooted]
    reboot(*rebooted)
    answers_in_time()()
    after = [node.inspect()["State"]["StartedAt"] for node in rebooted]
    assert not set(begun) & set(after), turn


def test_it_is_put_back_and_removed(head: Node, worker: Node) -> None:
    playbook.succeed("cleanup", variables={"network": True})
    for node in (head, worker):
        assert node.spark.exec(f"ls {MARKER}*").stdout.split() == [MARKER]
        assert node.spark.exec(FILES.removesuffix("-nic")).stdout == ""
        assert node.spark.exec(["systemctl", "is-active", UNIT]).stdout.strip() == "inactive"

# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Only the cable leads to the ports on the fabric's addresses, although a machine of the LAN routes them by a Spark."""

from __future__ import annotations

import typing as t

import pytest

from tests import playbook
from tests.joining import IMPATIENT, ROLES, Pair, run
from tests.twin.control import Neighbour, Spark

UNIT = "dgx-spark-speculative-fabric.service"
# Some port of a rank.
PORT = 29500
FIRST, OTHER = "192.168.100.10", "192.168.200.12"
OTHERS = [
    {"subnet": "192.168.200.0/24", "addresses": [OTHER, "192.168.200.13"]},
    {"subnet": "192.168.201.0/24", "addresses": ["192.168.201.12", "192.168.201.13"]},
]
CLOSED = {"cable": True, "itself": True, "LAN": False}


def rules(spark: Spark) -> str:
    shown = spark.exec(["iptables", "-t", "raw", "-S"])
    assert shown.returncode == 0, shown.stderr
    return shown.stdout


def assert_removed(*sparks: Spark) -> None:
    for spark in sparks:
        assert "SPECULATIVE" not in rules(spark)
        assert spark.exec(["test", "-e", f"/etc/systemd/system/{UNIT}"]).returncode == 1


def reaches(machine: Spark | Neighbour, address: str) -> bool:
    ask = ["curl", "-sf", "--max-time", "3", "--output", "/dev/null", f"http://{address}:{PORT}/"]
    return machine.exec(ask).returncode == 0


@pytest.fixture(scope="module", autouse=True)
def joined(pair: Pair) -> t.Iterator[None]:
    """Both have addresses on the cable; afterwards all is as it was."""
    before = pair.look()
    run("spark_network/main")
    yield
    run("spark_network/absent")
    assert_removed(*pair.sparks)
    assert pair.look() == before


@pytest.fixture(scope="module")
def lan(pair: Pair) -> t.Iterator[Neighbour]:
    """A machine that sends what is for the fabric to the head's address on the LAN."""
    with Neighbour() as neighbour:
        neighbour.route("192.168.0.0/16", pair.head.address)
        yield neighbour


Ways = t.Callable[..., dict[str, bool]]


@pytest.fixture
def ways(pair: Pair, lan: Neighbour) -> Ways:
    """Return from where a server on a fabric address of the head is reached."""

    def look(address: str = FIRST) -> dict[str, bool]:
        # A Spark that has just started may still be without its addresses.
        wait = f"for i in $(seq 300); do ip -4 -oneline address | grep -q {address}/ && exit; sleep 0.1; done; exit 1"
        assert pair.head.exec(wait).returncode == 0
        with pair.head.listener(PORT, address):
            machines: dict[str, Spark | Neighbour] = {"cable": pair.worker, "itself": pair.head, "LAN": lan}
            return {name: reaches(machine, address) for name, machine in machines.items()}

    return look


def test_the_run_that_sets_the_addresses_closes_them(pair: Pair, lan: Neighbour, ways: Ways) -> None:
    assert ways() == CLOSED
    # The head forwards nothing to the worker, either.
    with pair.worker.listener(PORT, "192.168.100.11"):
        assert reaches(pair.head, "192.168.100.11")
        assert not reaches(lan, "192.168.100.11")
    # Its own network is open as it was.
    with pair.head.listener(PORT, pair.head.address):
        assert reaches(lan, pair.head.address)
    assert playbook.succeed(ROLES, variables={**IMPATIENT, "steps": ["spark_network/main"]}).changed == []


def test_it_holds_over_restarts(pair: Pair, ways: Ways) -> None:
    assert pair.head.exec(["systemctl", "restart", "docker"]).returncode == 0
    assert ways() == CLOSED
    before = rules(pair.head)
    assert pair.head.exec(["systemctl", "restart", UNIT]).returncode == 0
    assert rules(pair.head) == before
    pair.head.restart()
    assert ways() == CLOSED


def test_other_addresses_are_closed_and_the_rules_of_the_old_ones_are_gone(pair: Pair, ways: Ways) -> None:
    run("spark_network/main", spark_network_mode="configure", spark_network_addresses=OTHERS)
    for spark in pair.sparks:
        assert "192.168.100." not in rules(spark)
    assert ways(OTHER) == CLOSED


def test_who_does_not_want_it_is_open_and_told_how_to_close_it(pair: Pair, ways: Ways) -> None:
    run("spark_network/main", spark_network_close_fabric=False)
    assert_removed(*pair.sparks)
    assert ways(OTHER) == {**CLOSED, "LAN": True}
    assert "-e spark_network_close_fabric=true" in run("spark_network/main")
    assert_removed(*pair.sparks)
    wishes = {**IMPATIENT, "steps": ["spark_network/main"], "spark_network_close_fabric": True}
    assert "Install the fabric filter" in playbook.succeed(ROLES, "--check", variables=wishes).changed
    assert_removed(*pair.sparks)
    assert "Install the fabric filter" in playbook.succeed(ROLES, variables=wishes).changed
    assert ways(OTHER) == CLOSED

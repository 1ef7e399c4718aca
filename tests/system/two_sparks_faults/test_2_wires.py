# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""More than one cable, and others on the same switch: what is on the wire is asked before anything is changed."""

from __future__ import annotations

import typing as t

import pytest

from tests.joining import Pair, refused, run
from tests.twin import cables

FIRST = cables.interface(1, 0)
pytestmark = pytest.mark.usefixtures("unchanged")


@pytest.fixture
def taken_away(unchanged: None, pair: Pair) -> t.Iterator[None]:
    yield
    run("spark_network/absent")


@pytest.fixture
def unmanaged(unchanged: None, pair: Pair) -> t.Iterator[None]:
    """Somebody has taken a port of the head out of NetworkManager's hands."""
    assert pair.head.exec(f"nmcli device set {FIRST} managed no").returncode == 0
    yield
    assert pair.head.exec(f"nmcli device set {FIRST} managed yes").returncode == 0


def methods(pair: Pair, port: int) -> set[str]:
    """What NetworkManager does about IPv6 on the interfaces of a port of the head."""
    asked = "nmcli --get-values ipv6.method,connection.autoconnect-priority connection show netplan-"
    return {pair.head.exec(f"{asked}{cables.interface(port, rail)}").stdout for rail in cables.RAILS}


@pytest.mark.usefixtures("taken_away")
def test_of_two_ports_with_a_link_the_one_that_reaches_the_other_spark_is_used(pair: Pair) -> None:
    with cables.leads_elsewhere((1, 0), (2, 0)):
        text = run("spark_network/main")
        assert "port 1 is used" in text
        assert pair.stages() == ["confirmed", "confirmed"]
        # A router's advertisement gives no default route.
        assert methods(pair, 1) == {"disabled\n100\n"}
        text = run("spark_network/main")
        assert text.count("changed=0") == 2
    shown = pair.look()[pair.head.container]
    assert f"{FIRST} inet 192.168.100.10/24" in " ".join(shown.split())


def test_of_crossed_cables_too(pair: Pair) -> None:
    with cables.changed(port_a=0, port_b=1), cables.leads_elsewhere((1, 1), (2, 0)):
        text = run("spark_network/main")
        assert f"the cable joins port 0 ({cables.interface(0, 0)} and {cables.interface(0, 1)}) with port 1" in text
        run("spark_network/absent")


def test_ports_that_do_not_reach_each_other(pair: Pair) -> None:
    with cables.changed(rails=()), cables.leads_elsewhere((1, 0), (1, 1), (2, 0), (2, 1)):
        text = refused("spark_network/preflight")
    assert "spark-1 and spark-2: ports of both have a link, but no port reaches another Spark" in text
    assert "spark_network_interfaces" in text


@pytest.mark.usefixtures("taken_away")
def test_addresses_that_somebody_on_the_switch_has_are_left_to_them(pair: Pair) -> None:
    with cables.stranger("192.168.100.10/24"):
        text = run("spark_network/main")
    assert f"spark-1: on {FIRST} " in text
    assert "192.168.102.0/24 and 192.168.103.0/24" in text
    assert "192.168.102.11/24" in pair.look()[pair.worker.container]


def test_a_plan_with_an_address_that_somebody_on_the_switch_has(pair: Pair) -> None:
    plan = [{"subnet": f"192.168.{n}.0/24", "addresses": [f"192.168.{n}.1", f"192.168.{n}.2"]} for n in (7, 8)]
    with cables.stranger("192.168.8.2/24", rail=1):
        text = refused("spark_network/preflight", spark_network_addresses=plan)
    assert f"spark-1: on {cables.interface(1, 1)} " in text
    assert "has 192.168.8.2" in text
    assert "spark_network_addresses" in text


@pytest.mark.usefixtures("unmanaged")
def test_a_port_that_networkmanager_does_not_manage() -> None:
    text = refused("spark_network/preflight")
    assert f"spark-1: NetworkManager does not manage {FIRST}" in text
    assert f"'sudo nmcli device set {FIRST} managed yes'" in text

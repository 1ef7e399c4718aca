# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The twin's ports and cable, as far as no kernel is needed for them."""

from __future__ import annotations

import pathlib
import typing as t

import pytest
from ansible_collections.dgx_spark.speculative.plugins.module_utils._spark.machine import CONNECTX7, count_functions

from tests.twin import __main__ as command_line
from tests.twin import cables
from tests.twin.names import TwinError, spark_name
from tests.twin.spark import fabric

ZERO = "0000:0000:0000:0000:0000:0000:0000:0000"
LINK_LOCAL = "fe80:0000:0000:0000:4ebb:47ff:fe01:0211"
FIRST, SECOND = (f"0000:0000:0000:0000:0000:ffff:c0a8:{end}" for end in ("640a", "650a"))


def link(*addresses: str, up: bool = True) -> dict[str, t.Any]:
    """What `ip` tells of an interface."""
    return {
        "address": "4c:bb:47:01:02:11",
        "flags": ["BROADCAST", "UP", *(["LOWER_UP"] if up else ["NO-CARRIER"])],
        "addr_info": [{"local": address} for address in addresses],
    }


@pytest.fixture
def laid(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> list[cables.Cable | None]:
    """What was on record each time the cables were laid."""
    found: list[cables.Cable | None] = []
    monkeypatch.setattr(cables, "RECORD", tmp_path / "state" / "cables.json")
    monkeypatch.setattr(cables, "connect", lambda by_hand=False: found.append(cables.recorded()))
    return found


def test_ports_are_named_as_on_a_spark() -> None:
    assert {(port.interface, port.rdma, port.pci) for port in fabric.PORTS} == {
        ("enp1s0f0np0", "rocep1s0f0", "0000:01:00.0"),
        ("enp1s0f1np1", "rocep1s0f1", "0000:01:00.1"),
        ("enP2p1s0f0np0", "roceP2p1s0f0", "0002:01:00.0"),
        ("enP2p1s0f1np1", "roceP2p1s0f1", "0002:01:00.1"),
    }
    assert len({port.bridge for port in fabric.PORTS}) == 4
    assert cables.interface() == "enp1s0f1np1"
    assert cables.interface(0, 1) == "enP2p1s0f0np0"


def test_hardware_addresses_last_and_differ() -> None:
    found = {fabric.mac(machine, port) for machine in ("one", "two") for port in fabric.PORTS}
    assert len(found) == 8
    assert found == {fabric.mac(machine, port) for machine in ("one", "two") for port in fabric.PORTS}


def test_gids_are_those_the_kernel_would_make() -> None:
    assert fabric.default_gid("4c:bb:47:01:02:11") == LINK_LOCAL
    assert fabric.address_gid("192.168.100.10") == FIRST
    assert fabric.address_gid("fe80::1") == "fe80:0000:0000:0000:0000:0000:0000:0001"


def test_a_gid_stays_where_it_is_while_others_come_and_go() -> None:
    before = fabric.table([], [LINK_LOCAL, FIRST, SECOND])
    assert before[:6] == [LINK_LOCAL, LINK_LOCAL, FIRST, FIRST, SECOND, SECOND]
    without = fabric.table(before, [LINK_LOCAL, SECOND])
    assert without[:6] == [LINK_LOCAL, LINK_LOCAL, ZERO, ZERO, SECOND, SECOND]
    assert fabric.table(without, [LINK_LOCAL, SECOND, FIRST]) == before
    assert len(before) == fabric.GIDS


def test_no_more_gids_than_there_are_places() -> None:
    many = [fabric.address_gid(f"10.0.0.{number}") for number in range(20)]
    assert fabric.table([], many) == [gid for gid in many[: fabric.GIDS // 2] for _ in (1, 2)]


@pytest.mark.parametrize(
    ("up", "state", "physical", "rate"),
    [
        (True, "4: ACTIVE", "5: LinkUp", "200 Gb/sec (4X HDR)"),
        (False, "1: DOWN", "3: Disabled", "40 Gb/sec (4X QDR)"),
    ],
)
def test_rdma_device_follows_its_interface(
    tmp_path: pathlib.Path, up: bool, state: str, physical: str, rate: str
) -> None:
    port = cables.port(1, 1)
    fabric.describe(port, link("192.168.101.10", up=up), {}, tmp_path)
    directory = tmp_path / "class/infiniband/roceP2p1s0f1/ports/1"
    texts = {name: (directory / name).read_text() for name in ("state", "phys_state", "rate", "link_layer")}
    assert texts == {
        "state": f"{state}\n",
        "phys_state": f"{physical}\n",
        "rate": f"{rate}\n",
        "link_layer": "Ethernet\n",
    }
    device = tmp_path / "class/infiniband/roceP2p1s0f1/device"
    assert device.resolve() == tmp_path / "bus/pci/devices/0002:01:00.1"
    assert [path.name for path in (device / "net").iterdir()] == ["enP2p1s0f1np1"]


def test_the_functions_are_on_the_bus_with_their_device(tmp_path: pathlib.Path) -> None:
    fabric.describe(cables.port(1, 1), link(), {}, tmp_path)
    assert count_functions(tmp_path / "bus/pci/devices", CONNECTX7) == 1


def test_a_card_without_power_leaves_nothing_behind(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sys, nodes = tmp_path / "sys", tmp_path / "infiniband"
    batches: list[str | None] = []
    monkeypatch.setattr(fabric, "SYS", sys)
    monkeypatch.setattr(fabric, "NODES", nodes)
    monkeypatch.setattr(fabric, "links", lambda _kind: {"eth0": {}, "enp1s0f0np0": {}})
    monkeypatch.setattr(fabric, "ip", lambda *_arguments, batch: batches.append(batch))
    for port in fabric.PORTS:
        fabric.describe(port, link(), {}, sys)
    nodes.mkdir()
    for name in ("uverbs0", "uverbs1", "uverbs2", "uverbs3", "rdma_cm"):
        (nodes / name).touch()
    fabric.power_off()
    assert batches == ["link del enp1s0f0np0\n"]
    assert not list((sys / "bus/pci/devices").iterdir())
    assert not list((sys / "class/infiniband").iterdir())
    assert [path.name for path in nodes.iterdir()] == ["rdma_cm"]
    # One that starts without a card has nothing to take away.
    fabric.power_off()


def test_a_card_goes_late_and_comes_at_once() -> None:
    card = fabric.Card(True)
    assert not card.follow(armed=True, cabled=True, now=100)
    assert not card.follow(armed=True, cabled=False, now=100)
    assert card.due == 120
    assert not card.follow(armed=True, cabled=False, now=119.9)
    # A cable that is back in time counts as one that was never away.
    assert not card.follow(armed=True, cabled=True, now=119.9)
    assert not card.follow(armed=True, cabled=False, now=121)
    assert card.due == 141
    assert card.follow(armed=True, cabled=False, now=141)
    assert (card.powered, card.due) == (False, None)
    # The other Spark is back, and nobody has looked for the card.
    assert not card.follow(armed=True, cabled=True, now=142)
    card.left = False
    assert card.follow(armed=True, cabled=True, now=143)
    assert card.powered


def test_a_card_that_was_never_there_comes_with_the_cable() -> None:
    card = fabric.Card(False)
    assert not card.follow(armed=True, cabled=False, now=100)
    assert card.follow(armed=True, cabled=True, now=160)


@pytest.mark.parametrize(
    ("links", "by_hand", "expected"),
    [
        ({"enp1s0f1np1": {"flags": ["UP"]}, "enp1s0f0np0": {"flags": []}}, False, True),
        ({"enp1s0f1np1": {"flags": []}}, False, False),
        ({}, False, True),
        ({}, True, False),
    ],
    ids=["link", "no link", "card away", "card on its way"],
)
def test_a_card_that_is_away_is_not_waited_for(
    links: dict[str, dict[str, t.Any]], by_hand: bool, expected: bool
) -> None:
    assert cables.alive({"enp1s0f1np1"}, by_hand, links) is expected


@pytest.mark.parametrize("powered", [True, False])
def test_a_card_stays_as_it_is_without_the_marker(powered: bool) -> None:
    card = fabric.Card(powered)
    assert not any(card.follow(armed=False, cabled=cabled, now=now) for now in (0, 99) for cabled in (True, False))
    assert (card.powered, card.due) == (powered, None)


@pytest.mark.parametrize(
    ("armed", "names"),
    [
        (True, ("cx7-hotplug-disabled", "cx7-hotplug-enabled")),
        (False, ("cx7-hotplug-enabled", "cx7-hotplug-disabled")),
    ],
)
def test_the_marker_gets_another_name(armed: bool, names: tuple[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[str, ...]] = []
    monkeypatch.setattr(cables.engine, "docker", lambda *arguments: calls.append(arguments))
    cables.arm(2, armed)
    assert calls[0][-2:] == tuple(f"/etc/nvidia/{name}" for name in names)


@pytest.mark.parametrize(
    ("flags", "expected"), [(["UP", "LOWER_UP"], {"enp1s0f1np1"}), (["UP"], set())], ids=["alive", "dead"]
)
def test_a_port_is_cabled_by_its_wire_and_not_by_its_interface(flags: list[str], expected: set[str]) -> None:
    there = {
        "wire1-1": {"ifname": "wire1-1", "master": "bridge1", "flags": flags},
        "enp1s0f0np0": {"ifname": "enp1s0f0np0", "master": "bridge0", "flags": ["UP", "LOWER_UP"]},
        "bridge1": {"ifname": "bridge1", "flags": ["UP", "LOWER_UP"]},
    }
    assert {port.interface for port in fabric.alive(there)} == expected


def test_gid_files_follow_the_addresses(tmp_path: pathlib.Path) -> None:
    port = cables.port(1, 0)
    directory = tmp_path / "class/infiniband/rocep1s0f1/ports/1"
    fabric.describe(port, link("192.168.100.10"), {}, tmp_path)
    assert (directory / "gids/3").read_text() == f"{FIRST}\n"
    assert (directory / "gid_attrs/types/2").read_text() == "IB/RoCE v1\n"
    assert (directory / "gid_attrs/types/3").read_text() == "RoCE v2\n"
    assert (directory / "gid_attrs/ndevs/3").read_text() == "enp1s0f1np1\n"
    fabric.describe(port, link(), {}, tmp_path)
    assert (directory / "gids/3").read_text() == f"{ZERO}\n"
    assert {path.name for path in (directory / "gid_attrs/types").iterdir()} == {"0", "1"}


def test_a_device_can_tell_something_else(tmp_path: pathlib.Path) -> None:
    port = cables.port(1, 0)
    fabric.describe(port, link(), {"rate": "25 Gb/sec (1X EDR)"}, tmp_path)
    rate = tmp_path / "class/infiniband/rocep1s0f1/ports/1/rate"
    assert rate.read_text() == "25 Gb/sec (1X EDR)\n"
    fabric.describe(port, link(), {}, tmp_path)
    assert rate.read_text() == "200 Gb/sec (4X HDR)\n"


def test_what_is_on_record_stays_until_it_is_changed(laid: list[cables.Cable | None]) -> None:
    assert cables.recorded() is None
    cables.plug(1, 0)
    cables.unplug(0)
    cables.unplug()
    cables.plug()
    assert laid == [
        cables.Cable(1, 0),
        cables.Cable(1, 0, rails=(1,)),
        cables.Cable(1, 0, rails=()),
        cables.Cable(),
    ]
    cables.record(None)
    assert cables.recorded() is None


def test_a_switch_stays_one_when_it_is_cabled_anew(laid: list[cables.Cable | None]) -> None:
    on_switch = cables.delivered(4)
    cables.record(on_switch)
    cables.unplug()
    cables.plug()
    assert laid[-1] == on_switch


def test_a_changed_cable_is_put_back_whatever_happens(laid: list[cables.Cable | None]) -> None:
    cables.plug()
    with pytest.raises(RuntimeError), cables.changed(mtu=1500, mbit=200):
        raise RuntimeError
    assert laid == [cables.Cable(), cables.Cable(mtu=1500, mbit=200), cables.Cable()]


def test_a_cable_has_a_wire_for_each_rail() -> None:
    names = [[cables.name(*ends) for ends in cable.wires()] for cable in (cables.Cable(), cables.Cable(0, 1, (1,)))]
    assert names == [["wire1p1-2p1", "wire1p3-2p3"], ["wire1p2-2p3"]]
    [(here, there)] = cables.Cable(0, 1, (1,)).wires()
    assert (here.port, there.port) == (cables.port(0, 1), cables.port(1, 1))


@pytest.mark.parametrize(
    ("sparks", "wiring", "names"),
    [
        (2, "", ["wire1p1-2p1", "wire1p3-2p3"]),
        (2, "switch", ["wire1p1-switch", "wire2p1-switch", "wire1p3-switch", "wire2p3-switch"]),
        (4, "", [f"wire{spark}p{index}-switch" for index in (1, 3) for spark in (1, 2, 3, 4)]),
        (
            3,
            "ring",
            [
                f"wire{ends}"
                for index in ("1p1-2p0 2p1-3p0 3p1-1p0", "1p3-2p2 2p3-3p2 3p3-1p2")
                for ends in index.split()
            ],
        ),
    ],
)
def test_what_is_between_so_many_sparks(sparks: int, wiring: str, names: list[str]) -> None:
    cable = cables.delivered(sparks, wiring)
    assert cable
    assert [cables.name(*wire) for wire in cable.wires()] == names
    # As the kernel has it.
    assert all(len(name) < 16 for name in names)


def test_one_spark_has_no_cable_and_three_have_more_than_one() -> None:
    assert cables.delivered(1) is None
    with pytest.raises(TwinError, match="3 are joined by a switch or a ring"):
        cables.delivered(3, "cable")


def test_the_link_is_there_when_exactly_these_interfaces_have_it() -> None:
    links = {port.interface: {"flags": ["UP"] if port.number else []} for port in fabric.PORTS}
    assert cables.alive({"enp1s0f1np1", "enP2p1s0f1np1"}, False, links)
    assert not cables.alive({"enp1s0f1np1"}, False, links)
    assert not cables.alive({"enp1s0f1np1", "enP2p1s0f1np1"}, True, {})


@pytest.mark.parametrize(
    ("cable", "expected", "unexpected"),
    [
        (cables.Cable(), ["ethtool -K wire1-1 tso on gso on", "tc qdisc del dev wire1-1 root"], "htb"),
        (cables.Cable(mtu=1500), ["ethtool -K wire1-1 tso off gso off"], "htb"),
        (cables.Cable(mbit=200), ["tso on", "htb rate 200mbit"], "off"),
    ],
)
def test_a_poor_cable_is_made_with_the_kernels_own_means(
    monkeypatch: pytest.MonkeyPatch, cable: cables.Cable, expected: list[str], unexpected: str
) -> None:
    calls: list[tuple[str, ...]] = []
    monkeypatch.setattr(cables.engine, "docker", lambda *arguments: calls.append(arguments))
    cables.shape(cables.Namespace(2, 7), cable, ["wire1-1"])
    [call] = calls
    assert all(part in call[-1] for part in expected)
    assert unexpected not in call[-1]
    assert f"--net={fabric.CABLE}" in call


def test_nothing_is_laid_where_a_spark_is_off(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cables, "RECORD", tmp_path / "cables.json")
    cables.record(cables.Cable())
    states = {spark_name(1): {"State": {"Running": True, "Pid": 7}}, spark_name(2): {"State": {"Running": False}}}
    monkeypatch.setattr(cables.engine, "inspect", lambda _kind, name: states.get(name))
    monkeypatch.setattr(cables.subprocess, "run", lambda *_arguments, **_options: pytest.fail("touched a Spark"))
    cables.connect()


def test_a_command_that_fails_says_what_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cables, "as_root", lambda *_command: ["sh", "-c", "echo no such device >&2; exit 1"])
    with pytest.raises(TwinError, match=r"`ip link del wire1-1`: no such device"):
        cables.Namespace(1, 7).run("ip", "link", "del", "wire1-1")


def test_the_command_line_pulls_the_cable_and_puts_it_in_again(laid: list[cables.Cable | None]) -> None:
    for command in ("unplug", "plug"):
        command_line.run(command_line.parser().parse_args([command]))
    assert [cable and cable.rails for cable in laid] == [(), cables.Cable().rails]


def test_the_command_line_restarts_one_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    restarted: list[str] = []
    monkeypatch.setattr(command_line.Spark, "restart", lambda self: restarted.append(self.container))
    command_line.run(command_line.parser().parse_args(["reboot", "2"]))
    assert restarted == [spark_name(2)]

# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import socket
import types
import typing as t
from pathlib import Path

import pytest
from ansible_collections.dgx_spark.speculative.plugins.module_utils._fabric import link_check as fabric_proof
from ansible_collections.dgx_spark.speculative.plugins.module_utils._fabric.link_check import LinkCheck, Row
from ansible_collections.dgx_spark.speculative.plugins.modules import fabric_check

from tests.unit import modules

F1, P1 = "enp1s0f1np1", "enP2p1s0f1np1"
GONE = "From 192.168.100.10 icmp_seq=1 Destination Host Unreachable"


def rail(name: str, third: int, **values: t.Any) -> dict[str, t.Any]:
    return {
        "interface": name,
        "rdma": "rocep1s0f1" if name == F1 else "roceP2p1s0f1",
        "address": f"192.168.{third}.10",
        "peer_address": f"192.168.{third}.11",
        "peer_interface": name,
        "subnet": f"192.168.{third}.0/24",
        "mtu": 9000,
        "speed_mbps": 200_000,
        **values,
    }


class Cable:
    """A host's end of the cable: what sysfs and the programs say."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.addresses = {F1: ["192.168.100.10"], P1: ["192.168.101.10"]}
        self.routes = {"192.168.100.11": F1, "192.168.101.11": P1}
        self.carries = 9000
        self.silent: set[str] = set()
        # How many packets are lost before the first one arrives.
        self.cold = 0
        self.neighbours: list[dict[str, t.Any]] = []
        self.error = GONE
        self.counts = True
        # Why no answer comes from an address, or from one of its ports.
        self.blocked: dict[str | tuple[str, int], str] = {}
        # How many packets of a hundred are lost, in each try; the last one goes on.
        self.losses = [0]
        self.connects: list[tuple[str, str, int]] = []
        # Only waiting takes time: a busy machine gets as many tries as any other.
        self.now = 0.0
        self.commands: list[str] = []
        self.pings: list[list[str]] = []
        for name in (F1, P1):
            self.write(f"class/net/{name}/carrier", "1")
            self.write(f"class/net/{name}/mtu", "9000")
            self.write(f"class/net/{name}/statistics/tx_bytes", "1000")

    def write(self, path: str, text: str) -> None:
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(text + "\n")

    def run(self, command: t.Sequence[str]) -> tuple[int, str, str]:
        text = " ".join(command)
        self.commands.append(text)
        if command[0] == "ping":
            return self._ping(list(command))
        if "address show" in text:
            rows = [
                {"ifname": name, "addr_info": [{"family": "inet", "local": a, "prefixlen": 24} for a in each]}
                for name, each in self.addresses.items()
            ]
            return 0, json.dumps(rows), ""
        if "route get" in text:
            device = self.routes.get(command[4])
            # iproute2 leaves fields out now and then.
            return (
                (0, json.dumps([{"dst": command[4], "dev": device}]), "")
                if device
                else (2, "", "Network is unreachable")
            )
        if "neighbour" in text:
            return 0, json.dumps(self.neighbours), ""
        raise AssertionError(text)

    def _ping(self, command: list[str]) -> tuple[int, str, str]:
        self.pings.append(command)
        size, count = int(command[command.index("-s") + 1]) + 28, int(command[command.index("-c") + 1])
        peer = command[-1]
        if self.cold or peer in self.silent or size > self.carries:
            self.cold = max(0, self.cold - 1)
            return 1, "", self.error
        if self.counts:
            counter = self.root / "class/net" / self.routes[peer] / "statistics/tx_bytes"
            counter.write_text(f"{int(counter.read_text()) + size * count}\n")
        gone = 0
        if count == 100:
            gone = self.losses.pop(0) if len(self.losses) > 1 else self.losses[0]
        counted = f"{count} packets transmitted, {count - gone} received, {gone}% packet loss, time 990ms\n"
        return 0, f"64 bytes from {peer}: icmp_seq=1 ttl=64 time=0.123 ms\n{counted}", ""

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def connect(self, address: str, peer: str, port: int) -> str | None:
        self.connects.append((address, peer, port))
        return self.blocked.get((peer, port)) or self.blocked.get(peer)

    def proof(self, *rails: dict[str, t.Any], seconds: float = 1, port: int = 2233) -> LinkCheck:
        both = rails or (rail(F1, 100), rail(P1, 101))
        return LinkCheck(both, "spark-2", seconds, self.run, self.root, self.sleep, port, self.connect, lambda: 45678)

    def error_of(self, *rails: dict[str, t.Any]) -> str:
        return str(self.proof(*rails).check()[0].error)


@pytest.fixture(name="cable")
def fixture_cable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cable:
    cable = Cable(tmp_path)
    monkeypatch.setattr(fabric_proof, "time", types.SimpleNamespace(monotonic=lambda: cable.now))
    return cable


def test_a_sound_cable(cable: Cable) -> None:
    assert cable.proof().check() == [
        Row(F1, "192.168.100.10", "192.168.100.11", True, True, F1, True, True, 0.123, True, 0, True),
        Row(P1, "192.168.101.10", "192.168.101.11", True, True, P1, True, True, 0.123, True, 0, True),
    ]
    assert sorted(cable.connects) == [
        ("192.168.100.10", "192.168.100.11", 2233),
        ("192.168.100.10", "192.168.100.11", 45678),
        ("192.168.101.10", "192.168.101.11", 2233),
        ("192.168.101.10", "192.168.101.11", 45678),
    ]
    # One look at the addresses for all, and one route and two pings for each.
    assert sorted(command.split()[0] for command in cable.commands) == ["ip"] * 3 + ["ping"] * 4
    assert next(ping for ping in cable.pings if ping[-1] == "192.168.100.11") == [
        *(
            "ping",
            "-n",
            "-M",
            "do",
            "-c",
            "3",
            "-i",
            "0.002",
            "-W",
            "1",
            "-s",
            "8972",
            "-I",
            "192.168.100.10",
            "192.168.100.11",
        )
    ]


def test_the_first_packets_to_a_cold_neighbour_may_be_lost(cable: Cable) -> None:
    cable.cold = 3
    assert cable.proof(seconds=30).check()[0].error is None


def test_one_bad_interface_does_not_hide_the_other(cable: Cable) -> None:
    cable.silent = {"192.168.100.11"}
    first, second = cable.proof().check()
    assert (first.reached, second.reached, second.error) == (False, True, None)


def test_no_link(cable: Cable) -> None:
    cable.write(f"class/net/{F1}/carrier", "0")
    assert cable.error_of() == (
        "enp1s0f1np1 has no link: the cable is out, damaged or hot, or spark-2 is off. Plug it into the same port of "
        "both Sparks until it clicks; try another cable if that does not help."
    )


def test_no_interface(cable: Cable) -> None:
    assert cable.error_of(rail("enp9", 100)) == "there is no interface enp9. See its name with 'ip -br link'."


def test_the_address_is_not_on_the_interface(cable: Cable) -> None:
    cable.addresses = {F1: [], "br0": ["192.168.100.10"]}
    assert cable.error_of().startswith("192.168.100.10 is not on enp1s0f1np1; it is on br0. See 'ip -br address'")
    cable.addresses = {}
    assert "no interface has it." in cable.error_of()


def test_both_have_the_same_address(cable: Cable) -> None:
    cable.addresses["br0"] = ["192.168.100.11"]
    assert cable.error_of().startswith("192.168.100.11 should be spark-2's, but is on this host's br0.")


def test_the_route_leaves_elsewhere(cable: Cable) -> None:
    cable.routes["192.168.100.11"] = "wg0"
    assert cable.error_of() == (
        "packets from 192.168.100.10 to 192.168.100.11 leave by wg0 instead of enp1s0f1np1. Another route, perhaps of "
        "a VPN, covers 192.168.100.0/24: see 'ip route get 192.168.100.11 from 192.168.100.10'."
    )
    cable.routes = {}
    assert "there is no route from 192.168.100.10 to 192.168.100.11 (Network is unreachable)." in cable.error_of()


def test_twins_in_one_subnet_may_leave_by_either(cable: Cable) -> None:
    twins = [rail(F1, 100, subnet="192.168.0.0/16"), rail(P1, 101, subnet="192.168.0.0/16")]
    cable.routes["192.168.101.11"] = F1
    proof = cable.proof(*twins)
    assert [row.error for row in proof.check()] == [None, None]
    assert proof.findings == [
        "Packets from 192.168.101.10 leave by enp1s0f1np1 instead of enP2p1s0f1np1, since both are in 192.168.0.0/16. "
        "Give each twin a subnet of its own."
    ]


def test_an_mtu_that_the_link_does_not_carry(cable: Cable) -> None:
    cable.carries = 1500
    row = cable.proof().check()[0]
    assert (row.reached, row.full_frames) == (True, False)
    assert row.error == (
        "192.168.100.11 answers packets of 1500 bytes, but none of 9000 ('ping -M do -s 8972'). enp1s0f1np1 has MTU "
        "9000; see that enp1s0f1np1 of spark-2 and any switch in between have the same, or set spark_network_mtu to "
        "1500."
    )


def test_a_small_mtu_is_proven_as_it_is(cable: Cable) -> None:
    cable.carries = 1400
    assert cable.error_of(rail(F1, 100, mtu=1400)) == "None"


def test_a_dead_link(cable: Cable) -> None:
    cable.silent = {"192.168.100.11"}
    assert cable.error_of() == (
        "192.168.100.11 does not answer on enp1s0f1np1. See on spark-2 that enp1s0f1np1 has this address ('ip -br "
        "address'), and that the cable joins just these ports."
    )


def test_a_firewall(cable: Cable) -> None:
    cable.silent = {"192.168.100.11"}
    cable.neighbours = [{"dst": "192.168.100.11", "lladdr": "4c:bb:47:00:00:02", "state": ["REACHABLE"]}]
    assert cable.error_of().startswith(
        "spark-2 is there, but 192.168.100.11 does not answer to ping from 192.168.100.10. A firewall on either Spark "
        "drops it"
    )


@pytest.mark.parametrize("why", ["no answer within 2 s", "No route to host"])
def test_a_firewall_that_lets_only_ping_in(cable: Cable, why: str) -> None:
    cable.blocked = {"192.168.100.11": why}
    first, second = cable.proof().check()
    assert (first.left_by_interface, first.connects, second.connects) == (True, False, True)
    assert first.error == (
        f"192.168.100.11 answers to ping, but not on TCP port 2233 from 192.168.100.10 ({why}), not even with "
        "a refusal. A firewall on either Spark drops it: allow what arrives on enp1s0f1np1 of spark-2 from "
        "192.168.100.0/24 (for example 'sudo ufw allow in on enp1s0f1np1 from 192.168.100.0/24')."
    )


def test_a_firewall_that_lets_only_the_known_port_in(cable: Cable) -> None:
    cable.blocked = {("192.168.100.11", 45678): "no answer within 2 s"}
    assert cable.error_of().startswith(
        "192.168.100.11 answers to ping, but not on TCP port 45678 from 192.168.100.10 (no answer within 2 s), not even"
    )


def test_high_ports_are_those_of_programs_that_name_none() -> None:
    for _number in range(20):
        assert 32768 <= LinkCheck([], "spark-2", 0)._high_port() <= 60999


def test_a_cable_that_loses_every_tenth_packet(cable: Cable) -> None:
    cable.losses = [12, 10, 11]
    row = cable.proof(rail(F1, 100)).check()[0]
    assert row.lost == 10
    assert row.error == (
        "192.168.100.11 answers, but of 100 small packets by enp1s0f1np1 10 were lost, while it counted 0 broken ones. "
        "Reseat the cable at both ends, or try another one."
    )


@pytest.mark.parametrize(
    ("output", "lost"),
    [
        ("100 packets transmitted, 98 received, +2 errors, 2% packet loss, time 1002ms", 2),
        ("100 packets transmitted, 100 received, 0% packet loss, time 1002ms", 0),
        # Where ping was killed, it says nothing; that proves nothing.
        ("", 100),
        ("'ping' did not end within 15 s", 100),
    ],
)
def test_what_ping_says_of_its_losses(output: str, lost: int) -> None:
    assert fabric_proof.lost_packets(output) == lost


def test_a_late_answer_is_no_loss(cable: Cable) -> None:
    cable.losses = [1, 0]
    assert cable.proof(rail(F1, 100), seconds=30).check()[0].error is None


def test_no_port_is_tried_without_one(cable: Cable) -> None:
    assert [row.connects for row in cable.proof(port=0).check()] == [None, None]
    assert cable.connects == []


def test_an_open_port_and_a_closed_one_are_both_answers() -> None:
    with socket.create_server(("127.0.0.2", 0)) as server:
        port = server.getsockname()[1]
        assert fabric_proof.connect("127.0.0.1", "127.0.0.2", port) is None
    assert fabric_proof.connect("127.0.0.1", "127.0.0.2", port) is None
    assert fabric_proof.connect("192.0.2.1", "127.0.0.2", port) == "Cannot assign requested address"


def test_a_port_that_keeps_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fabric_proof, "CONNECT_DEADLINE_S", 0.1)
    # A full queue is as silent as a firewall.
    with socket.create_server(("127.0.0.1", 0), backlog=0) as server, socket.create_connection(server.getsockname()):
        assert fabric_proof.connect("127.0.0.1", *server.getsockname()) == "no answer within 0.1 s"


@pytest.mark.parametrize(
    ("said", "text"),
    [
        ("ping is not installed", "Install it with 'sudo apt-get install iputils-ping'."),
        ("ping: socktype: SOCK_RAW\nping: socket: Operation not permitted", "ping may not be used by this user"),
        ("ping: local error: message too long, mtu=1400", "enp1s0f1np1 does not carry packets of 1500 bytes."),
    ],
)
def test_why_ping_itself_fails(cable: Cable, said: str, text: str) -> None:
    cable.silent, cable.error = {"192.168.100.11"}, said
    assert text in cable.error_of()


def test_packets_that_leave_by_nothing_known(cable: Cable) -> None:
    cable.counts = False
    row = cable.proof().check()[0]
    assert row.left_by_interface is False
    assert "the packets did not leave by enp1s0f1np1 (its counter of sent bytes did not move)" in str(row.error)


def test_what_is_known_only_when_the_link_is_up(cable: Cable) -> None:
    port = "class/infiniband/rocep1s0f1/ports/1"
    cable.write(f"{port}/rate", "100 Gb/sec (2X HDR)")
    cable.write(f"{port}/state", "4: ACTIVE")
    cable.write(f"{port}/gids/3", "0000:0000:0000:0000:0000:ffff:c0a8:640a")
    cable.write(f"{port}/gid_attrs/types/3", "RoCE v2")
    cable.write("class/infiniband/roceP2p1s0f1/ports/1/state", "1: DOWN")
    cable.write(f"class/net/{F1}/mtu", "4000")
    proof = cable.proof()
    first, second = proof.refreshed()
    assert (first["mtu"], first["speed_mbps"], first["gid_index"]) == (4000, 100_000, 3)
    assert (second["speed_mbps"], second["gid_index"]) == (200_000, None)
    assert "enP2p1s0f1np1 has no RoCE v2 entry for 192.168.101.10 in the GID table of roceP2p1s0f1" in proof.findings[0]
    assert "The RDMA port roceP2p1s0f1 is DOWN and not ACTIVE" in proof.findings[1]


class Module:
    """The module on a cable that is played."""

    def __init__(self, cable: Cable, monkeypatch: pytest.MonkeyPatch) -> None:

        def proof(rails: list[dict[str, t.Any]], peer: str, _seconds: float, port: int) -> LinkCheck:
            return LinkCheck(rails, peer, 1, cable.run, cable.root, cable.sleep, port, cable.connect)

        monkeypatch.setattr(fabric_proof, "LinkCheck", proof)

    def __call__(self, rails: list[dict[str, t.Any]]) -> dict[str, t.Any]:
        return modules.run(fabric_check, {"rails": rails, "host": "spark-1", "peer": "spark-2"})


@pytest.fixture(name="module")
def fixture_module(cable: Cable, monkeypatch: pytest.MonkeyPatch) -> Module:
    return Module(cable, monkeypatch)


def test_the_module_hands_out_table_and_rails(cable: Cable, module: Module) -> None:
    result = module([rail(F1, 100), rail(P1, 101)])
    assert (result["changed"], [row["full_frames"] for row in result["table"]]) == (False, [True, True])
    assert [row["mtu"] for row in result["rails"]] == [9000, 9000]
    assert len(result["findings"]) == 2
    assert cable.connects[0][2] == 2233


def test_the_module_names_each_fault_once(cable: Cable, module: Module) -> None:
    cable.write(f"class/net/{F1}/carrier", "0")
    cable.carries = 1500
    result = module([rail(F1, 100), rail(P1, 101)])
    assert result["failed"]
    assert result["msg"].startswith("spark-1: enp1s0f1np1 has no link")
    assert "192.168.101.11 answers packets of 1500 bytes, but none of 9000" in result["msg"]
    assert [row["link"] for row in result["table"]] == [False, True]


@pytest.mark.parametrize("rails", [[], [{"interface": F1}]])
def test_rails_that_are_none(module: Module, rails: list[dict[str, t.Any]]) -> None:
    assert module(rails)["msg"].endswith("Use those that deployment_plan returns.")


def test_the_clock_is_the_only_limit(cable: Cable) -> None:
    cable.silent = {"192.168.100.11", "192.168.101.11"}
    cable.proof(seconds=15).check()
    # Both interfaces share the time.
    assert 15 <= cable.now <= 17

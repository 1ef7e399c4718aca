# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import copy
import subprocess
import sys
import typing as t

import pytest
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._network.fabric import (
    end_of_stream,
    parsed_input,
    plan,
)
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._network.links import FabricSpec, PlanError

HEAD, WORKER = "spark-1", "spark-2"
F0, P0, F1, P1 = "enp1s0f0np0", "enP2p1s0f0np0", "enp1s0f1np1", "enP2p1s0f1np1"
SEED = [
    {"subnet": "192.168.200.0/24", "addresses": ["192.168.200.12", "192.168.200.13"]},
    {"subnet": "192.168.200.0/24", "addresses": ["192.168.200.14", "192.168.200.15"]},
]
Info = dict[str, t.Any]


def interface(name: str, pci: str, rdma: str, carrier: bool) -> Info:
    return {
        "name": name,
        "pci": pci,
        "port": int(pci[-1]),
        "rdma": rdma,
        "mac": "4c:bb:47:00:00:01",
        "up": True,
        "carrier": carrier,
        "operstate": "up",
        "speed_mbps": 200_000,
        "mtu": 1500,
        "max_mtu": 9978,
        "master": None,
        "addresses": [],
        "netplan_files": [],
        "own": False,
        "rdma_state": "ACTIVE" if carrier else "DOWN",
        "gids": [],
        "manager": "NetworkManager",
        "profile": f"Wired connection {pci[-1]}",
        "file": None,
    }


def fresh() -> Info:
    """A Spark as delivered, with the cable in port 1."""
    return {
        "ports": [
            {
                "number": 0,
                "place": "01:00.0",
                "interfaces": [
                    interface(F0, "0000:01:00.0", "rocep1s0f0", False),
                    interface(P0, "0002:01:00.0", "roceP2p1s0f0", False),
                ],
            },
            {
                "number": 1,
                "place": "01:00.1",
                "interfaces": [
                    interface(F1, "0000:01:00.1", "rocep1s0f1", True),
                    interface(P1, "0002:01:00.1", "roceP2p1s0f1", True),
                ],
            },
        ],
        "management": [{"interface": "enP7s7", "why": "the default route"}],
        "networks": [
            {"network": "192.0.2.0/24", "interface": "enP7s7"},
            {"network": "172.17.0.0/16", "interface": "docker0"},
        ],
        "renderer": "NetworkManager",
        "netplan": True,
        "netplan_unreadable": [],
        "own_file": False,
        "trial": None,
        "nccl_conf": None,
        "connectx": 4,
        "hotplug": {"armed": True, "powered": True},
    }


class Pair:
    """Two Sparks or more, to be changed by a test."""

    def __init__(self, many: int = 2) -> None:
        self.hosts = {f"spark-{number}": fresh() for number in range(1, many + 1)}

    def one(self, host: str, name: str) -> Info:
        return next(i for port in self.hosts[host]["ports"] for i in port["interfaces"] if i["name"] == name)

    def both(self, which: str, **values: t.Any) -> None:
        for host in self.hosts:
            self.one(host, which).update(copy.deepcopy(values))

    def address(self, host: str, name: str, cidr: str, **values: t.Any) -> None:
        address, _separator, prefix = cidr.partition("/")
        one = self.one(host, name)
        one["addresses"].append({"address": address, "prefix": int(prefix), "dynamic": False})
        one.update(values)
        base = address.rpartition(".")[0]
        if prefix == "24":
            self.hosts[host]["networks"].append({"network": f"{base}.0/24", "interface": name})

    def addressed(self, **values: t.Any) -> Pair:
        """As a first run of this role, or anybody else, leaves them."""
        for third, name in ((100, F1), (101, P1)):
            self.address(HEAD, name, f"192.168.{third}.10/24", **{"mtu": 9000, **values})
            self.address(WORKER, name, f"192.168.{third}.11/24", **{"mtu": 9000, **values})
        return self

    def ours(self, *which: str) -> Pair:
        for info in self.hosts.values():
            info["own_file"] = True
        for name in which or (F1, P1):
            self.both(name, own=True)
        return self

    def plan(self, **wish: t.Any) -> dict[str, t.Any]:
        return plan(self.hosts, FabricSpec(**wish))

    def refusal(self, **wish: t.Any) -> str:
        with pytest.raises(PlanError) as refused:
            self.plan(**wish)
        return str(refused.value)


@pytest.fixture(name="pair")
def fixture_pair() -> Pair:
    return Pair()


def test_without_netaddr_several_sparks_are_refused_and_one_is_planned() -> None:
    program = """
import sys
sys.modules["netaddr"] = None
sys.path[:0] = sys.argv[1:]
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._network import fabric, links
assert fabric.plan({"spark-1": {}}, links.FabricSpec())["configure"] is False
try:
    fabric.plan({"spark-1": {}, "spark-2": {}}, links.FabricSpec())
except links.PlanError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", program, *sys.path], capture_output=True, text=True, check=False)
    assert f"{sys.executable}, which runs Ansible, does not have the library netaddr" in done.stdout, done.stderr


# A port without addresses


def test_a_fresh_pair_is_configured_with_nvidias_addresses(pair: Pair) -> None:
    found = pair.plan()
    head, worker = found["hosts"][HEAD], found["hosts"][WORKER]
    assert (head["rank"], worker["rank"], found["findings"], found["configure"]) == (0, 1, [], True)
    assert head["rails"] == [
        {
            "interface": F1,
            "rdma": "rocep1s0f1",
            "port": 1,
            "address": "192.168.100.10",
            "prefix": 24,
            "subnet": "192.168.100.0/24",
            "peer_address": "192.168.100.11",
            "peer_interface": F1,
            "peer_rdma": "rocep1s0f1",
            "mtu": 9000,
            "speed_mbps": 200_000,
            "manager": "NetworkManager",
            "gid_index": None,
        },
        {
            **head["rails"][1],
            "interface": P1,
            "address": "192.168.101.10",
            "peer_address": "192.168.101.11",
            "subnet": "192.168.101.0/24",
        },
    ]
    assert [rail["address"] for rail in worker["rails"]] == ["192.168.100.11", "192.168.101.11"]
    entry = worker["document"]["network"]["ethernets"][P1]
    assert (entry["addresses"], entry["mtu"], entry["dhcp4"], entry["optional"]) == (
        ["192.168.101.11/24"],
        9000,
        False,
        True,
    )
    assert (entry["renderer"], "renderer" in worker["document"]["network"]) == ("NetworkManager", False)
    assert found["lines"][0] == (
        "spark-1: enp1s0f1np1 192.168.100.10/24, MTU 9000, to spark-2's enp1s0f1np1 192.168.100.11: to be configured"
    )


def test_the_renderer_is_the_hosts_or_the_one_asked_for(pair: Pair) -> None:
    pair.hosts[HEAD]["renderer"] = "networkd"
    hosts = pair.plan()["hosts"]
    assert (hosts[HEAD]["renderer"], hosts[WORKER]["renderer"]) == ("networkd", "NetworkManager")
    assert "networkmanager" not in hosts[HEAD]["document"]["network"]["ethernets"][F1]
    assert pair.plan(renderer="networkd")["hosts"][WORKER]["renderer"] == "networkd"


@pytest.mark.parametrize("host", [HEAD, WORKER])
@pytest.mark.parametrize("network", ["192.168.100.0/24", "192.168.101.64/26", "192.168.96.0/20"])
def test_a_network_in_use_is_avoided_and_that_is_said(pair: Pair, host: str, network: str) -> None:
    pair.hosts[host]["networks"].append({"network": network, "interface": "docker0"})
    found = pair.plan()
    third = 112 if network.endswith("/20") else 102
    assert found["hosts"][HEAD]["rails"][1]["subnet"] == f"192.168.{third + 1}.0/24"
    assert found["findings"] == [
        f"spark-1 and spark-2: 192.168.100.0/24 or its neighbour is in use, so the cable has 192.168.{third}.0/24 and "
        f"192.168.{third + 1}.0/24."
    ]


def test_no_network_is_free(pair: Pair) -> None:
    pair.hosts[HEAD]["networks"].append({"network": "192.168.0.0/16", "interface": "wg0"})
    assert (
        "no two networks in 192.168.0.0/16 are free. Give addresses of your own in spark_network_addresses."
        in pair.refusal()
    )


@pytest.mark.parametrize(
    ("width", "gts", "said"),
    [(2, 32.0, "x2 at 32 GT/s"), (4, 16.0, "x4 at 16 GT/s"), (4, 32.0, None), (None, None, None)],
)
def test_a_half_link(pair: Pair, width: int | None, gts: float | None, said: str | None) -> None:
    pair.one(WORKER, P1).update(pcie_width=width, pcie_gts=gts)
    found = [text for text in pair.plan()["findings"] if "PCIe" in text]
    assert [text.partition(" instead")[0] for text in found] == (
        [f"spark-2: {P1} has a PCIe link of {said}"] if said else []
    )


def test_what_the_cable_carries_is_measured_once_after_each_start(pair: Pair) -> None:
    assert pair.plan()["measure"]
    for name in (HEAD, WORKER):
        pair.hosts[name]["measured"] = [{"interface": F1}, {"interface": P1}]
    assert not pair.plan()["measure"]
    # One has been started again, or the cable is in the other port.
    pair.hosts[WORKER]["measured"] = []
    assert pair.plan()["measure"]
    pair.hosts[WORKER]["measured"] = [{"interface": F0}, {"interface": P0}]
    assert pair.plan()["measure"]
    # It can wait while a pair serves.
    pair.hosts[HEAD]["in_use"] = True
    assert not pair.plan()["measure"]


@pytest.mark.parametrize(("asked", "measured"), [(True, True), ("yes", True), (False, False), ("false", False)])
def test_the_bandwidth_is_tested_as_asked_for(pair: Pair, asked: t.Any, measured: bool) -> None:
    assert pair.plan(bandwidth_test=asked)["measure"] is measured
    pair.hosts[HEAD]["in_use"] = True
    assert pair.plan(bandwidth_test=asked)["measure"] is measured


@pytest.mark.parametrize("asked", ["Auto", "atuo", 2, None, ["auto"]])
def test_a_misspelt_test_of_the_bandwidth(pair: Pair, asked: t.Any) -> None:
    said = f"spark_network_bandwidth_test is {asked!r}, but must be auto, true or false."
    assert pair.refusal(bandwidth_test=asked) == said


# The cable


def test_no_cable(pair: Pair) -> None:
    for name in (F1, P1):
        pair.both(name, carrier=False)
    assert pair.refusal() == (
        "spark-1 and spark-2: no QSFP port has a link at both ends, so the cable between them is missing or not "
        "seated. Plug it into the same port of both until it clicks. If there is still no link, reboot both Sparks or "
        "try another cable. spark-1: port 0: enp1s0f0np0 has no link and enP2p1s0f0np0 has no link; port 1: "
        "enp1s0f1np1 has no link and enP2p1s0f1np1 has no link. spark-2: port 0: enp1s0f0np0 has no link and "
        "enP2p1s0f0np0 has no link; port 1: enp1s0f1np1 has no link and enP2p1s0f1np1 has no link."
    )


def test_a_link_at_one_end_only_is_no_link(pair: Pair) -> None:
    for name in (F1, P1):
        pair.one(WORKER, name)["carrier"] = False
    assert "no QSFP port has a link at both ends" in pair.refusal()


def test_the_cable_in_different_ports_works_and_is_mentioned(pair: Pair) -> None:
    for name, carrier in ((F0, True), (P0, True), (F1, False), (P1, False)):
        pair.one(WORKER, name)["carrier"] = carrier
    found = pair.plan()
    assert [rail["peer_interface"] for rail in found["hosts"][HEAD]["rails"]] == [F0, P0]
    assert [rail["port"] for rail in found["hosts"][WORKER]["rails"]] == [0, 0]
    assert found["findings"][0] == (
        "spark-1 and spark-2: the cable joins port 1 (enp1s0f1np1 and enP2p1s0f1np1) with port 0 (enp1s0f0np0 and "
        "enP2p1s0f0np0). That works, but NVIDIA recommends the same port on both."
    )


def test_only_one_twin_is_up(pair: Pair) -> None:
    pair.one(WORKER, P1)["carrier"] = False
    assert pair.refusal().startswith(
        "spark-2: only one of the two interfaces of port 1 has a link: enp1s0f1np1 has one, enP2p1s0f1np1 has none. "
        "Switch both "
    )


def test_a_twin_that_the_card_does_not_show(pair: Pair) -> None:
    del pair.hosts[HEAD]["ports"][1]["interfaces"][1]
    assert "enp1s0f1np1 has one, the NIC shows no second one." in pair.refusal()


class Wire:
    """Both ports of both Sparks have a link, and each interface its own hardware address."""

    def __init__(self, pair: Pair) -> None:
        self.pair = pair
        for number, host in enumerate(pair.hosts):
            for place, name in enumerate((F0, P0, F1, P1)):
                pair.one(host, name).update(carrier=True, mac=f"4c:bb:47:00:0{number}:0{place}")

    def asked(self, *joined: tuple[str, str], taken: dict[str, list[str]] | None = None) -> Pair:
        """After both have asked, with these interfaces joined, and who has which address on them."""
        for rank, (host, other) in enumerate(((HEAD, WORKER), (WORKER, HEAD))):
            heard: dict[str, list[str]] = {name: [] for name in (F0, P0, F1, P1)}
            for ends in joined:
                heard[ends[rank]].append(self.pair.one(other, ends[1 - rank])["mac"])
            self.pair.hosts[host]["neighbours"] = {"heard": heard, "taken": {F1: taken or {}}}
        return self.pair


@pytest.fixture(name="wire")
def fixture_wire(pair: Pair) -> Wire:
    return Wire(pair)


def test_of_two_cables_only_the_wire_tells_which_port_is_used(wire: Wire) -> None:
    found = wire.pair.plan()
    for host in (HEAD, WORKER):
        ask = found["hosts"][host]["discover"]
        assert (ask["greet"], sorted(ask["addresses"])) == (True, sorted((F0, P0, F1, P1)))
        assert ask["addresses"][F1][:2] == ["192.168.100.10", "192.168.100.11"]
        assert (found["hosts"][host]["rails"], found["hosts"][host]["configure"]) == ([], False)
    assert found["configure"]


@pytest.mark.parametrize(
    ("joined", "chosen"),
    [
        ([(F1, F1), (P1, P1)], (F1, F1)),
        ([(F0, F0), (P0, P0), (F1, F1), (P1, P1)], (F0, F0)),
        # Two cables that are crossed, and a switch, where each hears each.
        ([(F0, F1), (P0, P1), (F1, F0), (P1, P0)], (F0, F1)),
        ([(a, b) for a in (F0, P0, F1, P1) for b in (F0, P0, F1, P1)], (F0, F0)),
    ],
)
def test_the_ports_that_hear_each_other_are_used(
    wire: Wire, joined: list[tuple[str, str]], chosen: tuple[str, str]
) -> None:
    found = wire.asked(*joined).plan()
    assert tuple(found["hosts"][host]["rails"][0]["interface"] for host in (HEAD, WORKER)) == chosen
    assert [found["hosts"][host]["discover"] for host in (HEAD, WORKER)] == [{}, {}]
    told = "both ports have a cable; port 0 is used." if chosen[0] == chosen[1] else "the cable joins port 0"
    told = told if chosen[0] == F0 else "both ports have a cable; port 1 is used."
    assert found["findings"][0].startswith(f"spark-1 and spark-2: {told}")


def test_a_port_that_may_not_be_configured_comes_last(wire: Wire) -> None:
    pair = wire.asked((F0, F0), (P0, P0), (F1, F1), (P1, P1))
    pair.hosts[WORKER]["management"] = [{"interface": F0, "why": "the default route"}]
    assert pair.plan()["hosts"][HEAD]["rails"][0]["interface"] == F1


@pytest.mark.parametrize("joined", [[], [(F1, F1)]])
def test_ports_that_do_not_hear_each_other(wire: Wire, joined: list[tuple[str, str]]) -> None:
    text = wire.asked(*joined).refusal()
    assert text.startswith("spark-1 and spark-2: ports of both have a link, but no port reaches another Spark")
    assert "run again with forks of 2 or more." in text


def test_before_addresses_are_set_the_wire_is_asked_for_them(pair: Pair) -> None:
    ask = pair.plan()["hosts"][HEAD]["discover"]
    assert not ask["greet"]
    assert sorted(ask["addresses"]) == sorted((F1, P1))
    assert {"192.168.100.10", "192.168.100.11", "192.168.110.11"} <= set(ask["addresses"][F1])
    own = pair.plan(plan={HEAD: ["10.1.0.1/24", "10.2.0.1/24"], WORKER: ["10.1.0.2/24", "10.2.0.2/24"]})
    assert own["hosts"][WORKER]["discover"]["addresses"] == {F1: ["10.1.0.1", "10.1.0.2"], P1: ["10.2.0.1", "10.2.0.2"]}


def test_what_is_not_configured_is_not_asked(pair: Pair) -> None:
    pair.addressed().ours()
    assert pair.plan()["hosts"][HEAD]["discover"] == {}
    pair.both(F1, mtu=1500)
    pair.one(WORKER, F1)["mtu"] = 9000
    found = pair.plan(mode="configure")["hosts"]
    assert (bool(found[HEAD]["discover"]), found[WORKER]["discover"]) == (True, {})


def test_addresses_that_others_have_are_left_to_them(wire: Wire) -> None:
    # The other Spark may claim it, too.
    macs = sorted(["02:00:00:00:00:07", wire.pair.one(HEAD, F1)["mac"]])
    pair = wire.asked((F1, F1), (P1, P1), taken={"192.168.100.11": macs})
    found = pair.plan()
    assert found["hosts"][HEAD]["rails"][0]["address"] == "192.168.102.10"
    assert any(
        "is in use (spark-1: on enp1s0f1np1 02:00:00:00:00:07 has 192.168.100.11), so the cable has" in one
        for one in found["findings"]
    )
    own = {HEAD: ["192.168.100.10/24", "10.2.0.1/24"], WORKER: ["192.168.100.11/24", "10.2.0.2/24"]}
    assert pair.refusal(plan=own) == (
        "spark-1: on enp1s0f1np1 02:00:00:00:00:07 has 192.168.100.11, another host on the same switch. Give other "
        "addresses in spark_network_addresses."
    )


def test_what_the_other_spark_has_is_not_anothers(wire: Wire) -> None:
    taken = {"192.168.100.11": [wire.pair.one(WORKER, F1)["mac"]]}
    found = wire.asked((F1, F1), (P1, P1), taken=taken).plan()
    assert found["hosts"][HEAD]["rails"][0]["address"] == "192.168.100.10"


def test_networks_that_nobody_asked_about_are_not_chosen(wire: Wire) -> None:
    asked = [one for one in wire.pair.plan()["hosts"][HEAD]["discover"]["addresses"][F1] if one.endswith(".10")]
    last = sorted(asked, key=lambda address: int(address.split(".")[2]))[-1]
    taken = {address: ["02:00:00:00:00:07"] for address in asked}
    free = {address: macs for address, macs in taken.items() if address != last}
    assert wire.asked((F1, F1), (P1, P1), taken=free).plan()["hosts"][HEAD]["rails"][0]["address"] == last
    assert wire.asked((F1, F1), (P1, P1), taken=taken).refusal() == (
        f"spark-1 and spark-2: others on the wire have {', '.join(asked[:-1])} and {asked[-1]}, so all networks that "
        "were asked for are taken. Run again once one is free, or give addresses of your own in "
        "spark_network_addresses."
    )


def test_a_twin_that_is_left_out_and_gives_itself_an_address(pair: Pair) -> None:
    pair.addressed()
    pair.one(HEAD, P1)["addresses"] = [{"address": "169.254.7.8", "prefix": 16, "dynamic": False}]
    for wish in ({}, {"interfaces": [F1]}):
        assert any(
            one.startswith("spark-1: enP2p1s0f1np1 has only a link-local address (169.254.0.0/16).")
            for one in pair.plan(**wish)["findings"]
        )
    assert not any("link-local" in one for one in Pair().addressed().plan()["findings"])


def test_of_two_cables_the_one_with_working_addresses_is_used(pair: Pair) -> None:
    for name in (F0, P0):
        pair.both(name, carrier=True)
    pair.addressed()
    assert pair.plan()["hosts"][HEAD]["rails"][0]["interface"] == F1
    assert not pair.plan()["configure"]


def test_interfaces_that_are_switched_off_do_not_tell(pair: Pair) -> None:
    for name in (F0, P0, F1, P1):
        pair.both(name, up=False, carrier=None)
    text = pair.refusal()
    assert (
        "Some interfaces are switched off, so their link is unknown. Switch them on "
        "(on spark-1: 'sudo ip link set enp1s0f0np0 up', " in text
    )
    assert "port 1: enp1s0f1np1 is switched off and enP2p1s0f1np1 is switched off." in text


@pytest.mark.parametrize(
    ("powered", "sees"), [(False, " It detects no cable now."), (True, " It detects a cable now."), (None, "")]
)
def test_a_card_that_is_switched_off_without_a_cable(pair: Pair, powered: bool | None, sees: str) -> None:
    pair.hosts[WORKER].update(ports=[], connectx=0, hotplug={"armed": True, "powered": powered})
    assert pair.refusal() == (
        f"spark-2: the ConnectX NIC is switched off: DGX OS does that while it detects no cable.{sees} Plug "
        "one into both Sparks until it clicks and wait 30 s. If the NIC does not appear, run "
        "'sudo /opt/nvidia/dgx-spark-mlnx-hotplug/mtk-hotplug-handler.sh plug-in' on spark-2. Or run "
        "'sudo mv /etc/nvidia/cx7-hotplug-enabled "
        "/etc/nvidia/cx7-hotplug-enabled.dgx-spark-speculative' on both, so that the NIC stays on, and reboot both "
        "with the cable plugged in."
    )


def test_each_spark_without_a_card_is_told_of(pair: Pair) -> None:
    for name in (HEAD, WORKER):
        pair.hosts[name].update(ports=[], connectx=0, hotplug={"armed": True, "powered": False})
    assert [line.partition(":")[0] for line in pair.refusal().splitlines()] == [HEAD, WORKER]


def test_a_card_that_is_away_for_another_reason(pair: Pair) -> None:
    pair.hosts[WORKER].update(ports=[], connectx=0, hotplug={"armed": False, "powered": True})
    assert pair.refusal().startswith("spark-2: no ConnectX NIC is on the PCI bus, although DGX OS is not set to")


def test_a_card_without_its_driver(pair: Pair) -> None:
    pair.hosts[WORKER].update(ports=[], connectx=4, hotplug={"armed": True, "powered": True})
    assert "Load its driver with 'sudo modprobe mlx5_core mlx5_ib'" in pair.refusal()


@pytest.mark.parametrize("names", [{"enp1s0f0np0": "mlx5_0", F1: "fabric0"}, {F1: "enp9s0f1np1"}])
def test_names_are_not_taken_for_granted(pair: Pair, names: dict[str, str]) -> None:
    for old, new in names.items():
        pair.both(old, name=new)
    assert pair.plan()["hosts"][HEAD]["rails"][0]["interface"] == names[F1]


# Interfaces by name


def test_given_interfaces_are_used(pair: Pair) -> None:
    for own in ([P1, F1], {HEAD: [P1, F1], WORKER: [P1, F1]}):
        assert [r["interface"] for r in pair.plan(interfaces=own)["hosts"][HEAD]["rails"]] == [P1, F1]


def test_one_interface_of_each_is_possible(pair: Pair) -> None:
    pair.one(WORKER, P1)["carrier"] = False
    assert len(pair.plan(interfaces=[F1])["hosts"][HEAD]["rails"]) == 1


def test_an_interface_that_does_not_exist(pair: Pair) -> None:
    text = pair.refusal(interfaces=["enp1s0f1np0", P1])
    assert text.splitlines()[0] == (
        "spark-1: there is no ConnectX interface enp1s0f1np0 (spark_network_interfaces), only enp1s0f0np0, "
        "enP2p1s0f0np0, enp1s0f1np1 and enP2p1s0f1np1; did you mean 'enp1s0f1np1'?"
    )
    assert text.splitlines()[1].startswith("spark-2: there is no ConnectX interface enp1s0f1np0")


@pytest.mark.parametrize(
    ("own", "text"),
    [
        ({HEAD: [F1]}, "spark_network_interfaces does not name interfaces for spark-2."),
        ("enp1s0f1np1", "spark_network_interfaces does not name interfaces for spark-1."),
        (
            {HEAD: [F1], WORKER: [F1, P1]},
            "names 1 interfaces of spark-1 and 2 of spark-2, but must name the same number for each",
        ),
        ([F1, F1], "spark-1: spark_network_interfaces names enp1s0f1np1 twice."),
        ([F0, P0], "spark-1: enp1s0f0np0 and enP2p1s0f0np0 (spark_network_interfaces) has no link."),
    ],
)
def test_interfaces_that_cannot_be_used(pair: Pair, own: t.Any, text: str) -> None:
    assert text in pair.refusal(interfaces=own)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("enp1s0f1np1", ["enp1s0f1np1"]),
        ("enp1s0f1np1, enP2p1s0f1np1", [F1, P1]),
        ('["enp1s0f1np1"]', [F1]),
        ("{spark-1: [enp1s0f1np1]}", {HEAD: [F1]}),
        ("", None),
        ("[broken", "[broken"),
        ([F1], [F1]),
    ],
)
def test_what_comes_from_the_command_line(text: t.Any, value: t.Any) -> None:
    assert parsed_input(text) == value


# Own plans


@pytest.mark.parametrize(
    "own",
    [SEED, {HEAD: ["192.168.200.12/24", "192.168.200.14/24"], WORKER: ["192.168.200.13/24", "192.168.200.15/24"]}],
)
def test_the_seeds_plan_is_possible_with_a_warning(pair: Pair, own: t.Any) -> None:
    found = pair.plan(plan=own)
    assert [rail["address"] for rail in found["hosts"][WORKER]["rails"]] == ["192.168.200.13", "192.168.200.15"]
    assert found["findings"] == [
        "spark-1 and spark-2: both interfaces of the port share 192.168.200.0/24. That works, but packets may take "
        "either of them. NVIDIA's newer pages give each interface its own subnet."
    ]


def test_addresses_by_host_and_small_subnets(pair: Pair) -> None:
    own = [
        {"addresses": {WORKER: "10.9.0.1/31", HEAD: "10.9.0.0/31"}},
        {"subnet": "10.9.1.0/30", "addresses": ["10.9.1.1", "10.9.1.2"]},
    ]
    rails = pair.plan(plan=own)["hosts"][HEAD]["rails"]
    assert [(rail["address"], rail["subnet"]) for rail in rails] == [
        ("10.9.0.0", "10.9.0.0/31"),
        ("10.9.1.1", "10.9.1.0/30"),
    ]


def row(*addresses: str, **more: t.Any) -> dict[str, t.Any]:
    return {"addresses": list(addresses), **more}


SECOND = row("10.0.1.1/24", "10.0.1.2/24")


@pytest.mark.parametrize(
    ("own", "text"),
    [
        ([row("10.0.0.1/24", "10.0.0.1/24"), SECOND], "spark_network_addresses gives 10.0.0.1 more than once."),
        ([row("10.0.1.1/24", "10.0.1.3/24"), SECOND], "spark_network_addresses gives 10.0.1.1 more than once."),
        ([row("10.0.0.1/24", "10.0.2.2/24"), SECOND], "entry 1: 10.0.0.1/24 and 10.0.2.2/24 are not in one subnet"),
        ([row("10.0.0.1/16", "10.0.0.2/16"), SECOND], "spark_network_addresses: 10.0.0.0/16 and 10.0.1.0/24 overlap."),
        ([row("10.0.0.1", "10.0.0.2/24"), SECOND], "entry 1: '10.0.0.1' is no IPv4 address (it has no prefix length"),
        ([row("10.0.0.0/24", "10.0.0.2/24"), SECOND], "entry 1: 10.0.0.0/24 cannot be the address of a host."),
        ([row("10.0.0.1/24", "10.0.0.255/24"), SECOND], "entry 1: 10.0.0.255/24 cannot be the address of a host."),
        ([row("10.0.0.1/24", "10.0.0.300/24"), SECOND], "entry 1: '10.0.0.300/24' is no IPv4 address"),
        ([SECOND, row("127.0.0.1/8", "127.0.0.2/8")], "entry 2: 127.0.0.1/8 cannot be the address of a host."),
        ([row("0.0.0.1/24", "0.0.0.2/24"), SECOND], "entry 1: 0.0.0.1/24 cannot be the address of a host."),
        ([row("240.0.0.1/24", "240.0.0.2/24"), SECOND], "entry 1: 240.0.0.1/24 cannot be the address of a host."),
        ([row("169.254.1.1/24", "169.254.1.2/24"), SECOND], "entry 1: 169.254.1.1/24 cannot be the address of a host."),
        ([row("10.0.0.1", "10.0.9.2", subnet="10.0.0.0/24"), SECOND], "entry 1: 10.0.9.2 is not in 10.0.0.0/24."),
        ([row("10.0.0.1", "10.0.0.2", subnet="10.0.0.1/24"), SECOND], "entry 1: '10.0.0.1/24' is no IPv4 subnet"),
        ([row("10.0.0.1/24"), SECOND], "entry 1: 'addresses' must hold two, that of spark-1 and that of spark-2."),
        ([{"address": "10.0.0.1"}], "entry 1: it must look like {subnet:"),
        ("10.0.0.0/24", "entry 1: it must look like {subnet:"),
        (
            [SECOND],
            "has addresses for 1 interfaces of each Spark, but 2 are used (enp1s0f1np1 and enP2p1s0f1np1 on spark-1)",
        ),
        ({HEAD: ["10.0.0.1/24"]}, "spark_network_addresses has no list of addresses for spark-2"),
        (
            {HEAD: ["10.0.0.1/24"], WORKER: ["10.0.0.2/24", "10.0.1.2/24"]},
            "has 1 addresses for spark-1 and 2 for spark-2. Give both the same number.",
        ),
    ],
)
def test_plans_that_clash(pair: Pair, own: t.Any, text: str) -> None:
    assert text in pair.refusal(plan=own)


def test_a_plan_that_overlaps_a_network_in_use(pair: Pair) -> None:
    own = [row("172.17.4.1/24", "172.17.4.2/24"), SECOND]
    assert pair.refusal(plan=own).splitlines() == [
        f"{host}: the plan's 172.17.4.0/24 overlaps 172.17.0.0/16, which is in use by docker0. Give other addresses in "
        "spark_network_addresses."
        for host in (HEAD, WORKER)
    ]


# What others have set up


def test_working_addresses_are_adopted(pair: Pair) -> None:
    found = pair.addressed(netplan_files=["/etc/netplan/40-cx7.yaml"]).plan()
    assert (found["configure"], found["findings"]) == (False, [])
    assert found["hosts"][HEAD]["document"] == {}
    assert found["lines"][3].endswith(
        "enP2p1s0f1np1 192.168.101.11/24, MTU 9000, to spark-1's enP2p1s0f1np1 192.168.101.10: as it is"
    )


def test_the_gid_index_is_that_of_the_address(pair: Pair) -> None:
    pair.addressed().one(HEAD, F1)["gids"] = [
        {"index": 1, "address": "10.1.1.1"},
        {"index": 3, "address": "192.168.100.10"},
    ]
    rails = pair.plan()["hosts"][HEAD]["rails"]
    assert [rail["gid_index"] for rail in rails] == [3, None]


def test_another_mtu_is_left_and_mentioned(pair: Pair) -> None:
    pair.addressed(mtu=1500, netplan_files=["/etc/netplan/40-cx7.yaml"])
    found = pair.plan()
    assert not found["configure"]
    assert found["hosts"][HEAD]["rails"][0]["mtu"] == 1500
    assert found["findings"] == [
        "spark-1 and spark-2: the fabric uses MTU 1500, not 9000. It is not changed, because this collection did not "
        "set it."
    ]
    pair.one(HEAD, F1)["mtu"] = 9000
    found = pair.plan()
    assert found["hosts"][HEAD]["rails"][0]["mtu"] == 1500
    assert "enp1s0f1np1 has MTU 9000 and enp1s0f1np1 has 1500; the smaller one is used." in found["findings"][0]


def test_adopted_twins_in_one_subnet_are_a_warning(pair: Pair) -> None:
    for last, (host, name) in enumerate([(HEAD, F1), (WORKER, F1), (HEAD, P1), (WORKER, P1)], start=12):
        pair.address(host, name, f"192.168.200.{last}/24", mtu=9000)
    found = pair.plan()
    assert not found["configure"]
    assert "both interfaces of the port share 192.168.200.0/24" in found["findings"][0]


def test_twins_that_meet_crosswise(pair: Pair) -> None:
    for host, name, cidr in (
        (HEAD, F1, "10.0.0.1/24"),
        (HEAD, P1, "10.0.1.1/24"),
        (WORKER, P1, "10.0.0.2/24"),
        (WORKER, F1, "10.0.1.2/24"),
    ):
        pair.address(host, name, cidr)
    rails = pair.plan()["hosts"]
    assert [(r["interface"], r["peer_interface"]) for r in rails[HEAD]["rails"]] == [(F1, P1), (P1, F1)]
    assert [(r["interface"], r["peer_address"]) for r in rails[WORKER]["rails"]] == [(P1, "10.0.0.1"), (F1, "10.0.1.1")]


def test_addresses_by_hand_or_from_dhcp_are_mentioned(pair: Pair) -> None:
    pair.addressed(manager="none", profile=None)
    pair.one(HEAD, F1)["addresses"][0]["dynamic"] = True
    findings = pair.plan()["findings"]
    assert "spark-1: enp1s0f1np1 has 192.168.100.10 from DHCP." in findings[0]
    assert (
        "spark-2: the addresses of enp1s0f1np1 and enP2p1s0f1np1 were set by hand and are lost at the next reboot."
        in findings[2]
    )


def test_addresses_on_one_twin_only_are_used_with_a_finding(pair: Pair) -> None:
    pair.address(HEAD, F1, "10.0.0.1/24", mtu=9000)
    pair.address(WORKER, F1, "10.0.0.2/24", mtu=9000)
    found = pair.plan()
    assert [rail["interface"] for rail in found["hosts"][HEAD]["rails"]] == [F1]
    assert (
        "only enp1s0f1np1 and enp1s0f1np1 have addresses in a common subnet, so half the rate is used."
        in found["findings"][0]
    )


def test_a_plan_beside_working_addresses_is_not_used_and_that_is_said(pair: Pair) -> None:
    found = pair.addressed().plan(plan=SEED)
    assert not found["configure"]
    assert "spark_network_addresses is not used, because the port already has working addresses" in found["findings"][0]
    same = [row("192.168.100.10/24", "192.168.100.11/24"), row("192.168.101.10/24", "192.168.101.11/24")]
    assert pair.plan(plan=same)["findings"] == []


def test_addresses_that_hosts_give_themselves_do_not_count(pair: Pair) -> None:
    pair.address(HEAD, F1, "169.254.3.4/16")
    pair.address(WORKER, F1, "169.254.9.4/16")
    assert pair.plan()["configure"]


@pytest.mark.parametrize(
    ("values", "unreadable", "who"),
    [
        ({"netplan_files": ["/etc/netplan/40-cx7.yaml"]}, [], "/etc/netplan/40-cx7.yaml"),
        ({"profile": "fabric"}, [], "NetworkManager's profile 'fabric'"),
        (
            {"manager": "networkd", "file": "/etc/systemd/network/x.network"},
            [],
            "systemd-networkd with /etc/systemd/network/x.network",
        ),
        (
            {"file": "/run/NetworkManager/system-connections/netplan-enp1s0f1np1.nmconnection"},
            ["/etc/netplan/40-cx7.yaml"],
            "netplan (/etc/netplan/40-cx7.yaml, which only root can read)",
        ),
        ({"manager": "none"}, [], "hand ('ip address add', lost at a reboot)"),
    ],
)
def test_what_others_have_set_up_is_not_reconfigured(
    pair: Pair, values: dict[str, t.Any], unreadable: list[str], who: str
) -> None:
    pair.addressed(**values)
    pair.hosts[HEAD]["netplan_unreadable"] = unreadable
    text = pair.refusal(mode="configure", plan=SEED)
    others = "NetworkManager's profile 'Wired connection 1'"
    assert text.splitlines() == [
        f"{host}: addresses are already set on enp1s0f1np1 (192.168.100.{last}/24) and enP2p1s0f1np1 "
        f"(192.168.101.{last}/24) by {by}, so nothing is configured there. Use them (spark_network_mode: auto, with "
        "addresses in the same subnet on the other Sparks), or remove them first."
        for host, last, by in ((HEAD, 10, who), (WORKER, 11, others if unreadable else who))
    ]


def test_addresses_at_one_end_only_are_refused(pair: Pair) -> None:
    pair.address(HEAD, F1, "10.0.0.1/24", netplan_files=["/etc/netplan/40-cx7.yaml"])
    text = "spark-1: addresses are already set on enp1s0f1np1 (10.0.0.1/24) by /etc/netplan/40-cx7.yaml, so nothing is "
    assert text in pair.refusal()


def test_a_plan_may_complete_what_one_end_has(pair: Pair) -> None:
    for name, third in ((F1, 0), (P1, 1)):
        pair.address(HEAD, name, f"10.0.{third}.1/24", mtu=1500)
    found = pair.plan(plan=[row("10.0.0.1/24", "10.0.0.2/24"), SECOND])
    assert (found["hosts"][HEAD]["configure"], found["hosts"][WORKER]["configure"]) == (False, True)
    # The other end keeps its MTU.
    assert found["hosts"][WORKER]["rails"][0]["mtu"] == 1500


def test_a_netplan_file_that_sets_up_the_port_without_addresses(pair: Pair) -> None:
    pair.one(WORKER, P1)["netplan_files"] = ["/etc/netplan/90-cable.yaml"]
    assert pair.refusal() == (
        "spark-2: /etc/netplan/90-cable.yaml configures enP2p1s0f1np1 and is not this collection's, so nothing is "
        "changed there. Add usable addresses to it and set spark_network_mode to adopt, or take "
        "enP2p1s0f1np1 out of it, run 'sudo netplan apply', then run again."
    )


def test_a_profile_that_networkmanager_keeps(pair: Pair) -> None:
    uuid = "0f3c2b1a-5d4e-4c3b-9a8f-7e6d5c4b3a21"
    pair.one(WORKER, P1)["netplan_files"] = [f"/etc/netplan/90-NM-{uuid}.yaml"]
    # NetworkManager would write it again.
    assert pair.refusal().endswith(
        f", or delete NetworkManager's profile with 'sudo nmcli connection delete {uuid}', then run again."
    )


def test_adopt_without_addresses(pair: Pair) -> None:
    pair.address(HEAD, F1, "10.0.0.1/24")
    pair.address(WORKER, F1, "10.0.9.2/24")
    assert pair.refusal(mode="adopt") == (
        "spark-1 and spark-2: spark_network_mode is adopt, but the port with the cable has no addresses in a common "
        "subnet. Set such addresses, or set spark_network_mode to auto. spark-1: enp1s0f1np1 10.0.0.1/24, "
        "enP2p1s0f1np1 has no address. spark-2: enp1s0f1np1 10.0.9.2/24, enP2p1s0f1np1 has no address."
    )


# What this collection has set up


def test_a_second_run_changes_nothing(pair: Pair) -> None:
    pair.addressed().ours()
    for mode in ("auto", "configure", "adopt"):
        found = pair.plan(mode=mode)
        assert (found["configure"], found["findings"]) == (False, [])


def test_what_was_set_up_stays_though_another_network_would_be_free_by_now(pair: Pair) -> None:
    for third, name in ((102, F1), (103, P1)):
        pair.address(HEAD, name, f"192.168.{third}.10/24", mtu=9000)
        pair.address(WORKER, name, f"192.168.{third}.11/24", mtu=9000)
    assert not pair.ours().plan()["configure"]


def test_own_addresses_follow_a_new_plan_and_a_new_mtu_only_if_asked_to(pair: Pair) -> None:
    pair.addressed().ours()
    found = pair.plan(mtu=1500)
    assert (found["configure"], found["hosts"][HEAD]["rails"][1]["mtu"]) == (False, 9000)
    assert found["findings"] == [
        "spark-1 and spark-2: the fabric uses MTU 9000, not 1500. To change it, set spark_network_mode to configure."
    ]
    found = pair.plan(plan=SEED)
    assert (found["configure"], len(found["findings"])) == (False, 1)
    assert found["findings"][0].startswith(
        "spark-1 and spark-2: spark_network_addresses is not used, because the port already has working addresses, set "
        "by an earlier run. To change them, set spark_network_mode to configure. spark-1: enp1s0f1np1 "
        "192.168.100.10/24, "
    )
    found = pair.plan(mode="configure", mtu=1500)
    assert found["configure"]
    assert found["hosts"][HEAD]["rails"][1]["address"] == "192.168.101.10"
    assert found["hosts"][HEAD]["rails"][1]["mtu"] == 1500
    found = pair.plan(mode="configure", plan=SEED)
    assert found["hosts"][HEAD]["configure"]
    assert found["hosts"][WORKER]["configure"]
    assert found["hosts"][WORKER]["rails"][0]["address"] == "192.168.200.13"


def test_a_run_that_ended_halfway_is_taken_up(pair: Pair) -> None:
    pair.addressed().ours()
    for name in (F1, P1):
        pair.one(WORKER, name)["addresses"] = []
        pair.one(WORKER, name)["own"] = False
    pair.hosts[WORKER]["own_file"] = False
    found = pair.plan()
    assert (found["hosts"][HEAD]["configure"], found["hosts"][WORKER]["configure"]) == (False, True)


def test_a_change_that_is_being_tried_has_to_be_confirmed(pair: Pair) -> None:
    pair.addressed().ours().hosts[HEAD].update(own_file=False, trial={"state": "waiting", "id": "1"})
    pair.hosts[WORKER]["trial"] = {"state": "confirmed", "id": "2"}
    found = pair.plan()
    assert (found["hosts"][HEAD]["configure"], found["hosts"][WORKER]["configure"]) == (True, False)


def move_the_cable(pair: Pair) -> None:
    for name, carrier in ((F0, True), (P0, True), (F1, False), (P1, False)):
        pair.both(name, carrier=carrier, rdma_state="ACTIVE" if carrier else "DOWN")


def test_the_cable_was_moved(pair: Pair) -> None:
    move_the_cable(pair.addressed().ours())
    found = pair.plan()
    assert [rail["interface"] for rail in found["hosts"][HEAD]["rails"]] == [F0, P0]
    assert found["hosts"][HEAD]["rails"][0]["address"] == "192.168.100.10"


@pytest.mark.parametrize("mode", ["auto", "configure", "adopt"])
def test_the_cable_was_moved_to_where_somebody_elses_addresses_work(pair: Pair, mode: str) -> None:
    move_the_cable(pair.addressed().ours())
    for name, third in ((F0, 0), (P0, 1)):
        pair.address(HEAD, name, f"10.0.{third}.1/24", mtu=1500, profile="mine")
        pair.address(WORKER, name, f"10.0.{third}.2/24", mtu=1500, profile="mine")
    found = pair.plan(mode=mode)
    assert [rail["address"] for rail in found["hosts"][WORKER]["rails"]] == ["10.0.0.2", "10.0.1.2"]
    assert (found["configure"], found["hosts"][HEAD]["document"]) == (False, {})
    assert found["findings"] == [
        "spark-1 and spark-2: the fabric uses MTU 1500, not 9000. It is not changed, because this collection did not "
        "set it."
    ]


@pytest.mark.parametrize("mode", ["auto", "configure"])
def test_a_file_of_ours_for_one_port_gives_no_right_to_the_other(pair: Pair, mode: str) -> None:
    move_the_cable(pair.addressed().ours())
    pair.address(WORKER, F0, "10.0.0.2/24", profile="mine")
    assert pair.refusal(mode=mode).startswith(
        "spark-2: addresses are already set on enp1s0f0np0 (10.0.0.2/24) by NetworkManager's profile 'mine', so "
        "nothing is configured there."
    )


def test_networks_of_others_on_the_other_port_are_in_use(pair: Pair) -> None:
    pair.ours(F0).address(HEAD, P0, "192.168.100.77/24", profile="mine")
    assert pair.plan()["hosts"][HEAD]["rails"][0]["subnet"] == "192.168.102.0/24"


def test_a_twin_of_ours_that_lost_its_address_gets_it_again(pair: Pair) -> None:
    pair.addressed().ours()
    pair.one(WORKER, P1)["addresses"] = []
    found = pair.plan()
    assert (found["hosts"][HEAD]["configure"], found["hosts"][WORKER]["configure"]) == (False, True)
    assert found["hosts"][WORKER]["rails"][1]["address"] == "192.168.101.11"


def test_of_two_cables_the_one_that_is_ours_is_changed(pair: Pair) -> None:
    for name in (F0, P0):
        pair.both(name, carrier=True)
    pair.addressed().ours()
    found = pair.plan(mode="configure", mtu=1500)
    assert (found["configure"], found["hosts"][HEAD]["rails"][0]["interface"]) == (True, F1)


# What must not be touched


def test_the_way_to_the_host_is_not_configured(pair: Pair) -> None:
    pair.hosts[WORKER]["management"].append(
        {"interface": P1, "why": "the route to 192.0.2.1, from where this run reaches the host"}
    )
    assert pair.refusal() == (
        "spark-2: enP2p1s0f1np1 carries the route to 192.0.2.1, from where this run reaches the host, so it is not "
        "configured. Reach the host by another interface, or set the addresses yourself and set spark_network_mode "
        "to adopt."
    )
    # To use what is there touches nothing.
    assert not pair.addressed().plan()["configure"]


def test_part_of_a_bond(pair: Pair) -> None:
    pair.one(HEAD, F1)["master"] = "bond0"
    assert "spark-1: enp1s0f1np1 is part of bond0, so it is not configured." in pair.refusal()


def test_no_netplan(pair: Pair) -> None:
    pair.hosts[HEAD]["netplan"] = False
    assert "spark-1: netplan is not installed, so enp1s0f1np1 and enP2p1s0f1np1 cannot be configured." in pair.refusal()
    assert not pair.addressed().plan()["configure"]


def test_an_mtu_that_the_interface_does_not_carry(pair: Pair) -> None:
    text = "spark-1: spark_network_mtu is 9979, but enp1s0f1np1 and enP2p1s0f1np1 can have an MTU of at most 9978."
    assert text in pair.refusal(mtu=9979)
    assert pair.plan(mtu=9978)["configure"]


@pytest.mark.parametrize("mtu", [0, 1279, 65536])
def test_an_mtu_that_makes_no_sense(pair: Pair, mtu: int) -> None:
    assert pair.refusal(mtu=mtu).startswith(f"spark_network_mtu is {mtu}, but must be from 1280 to 65535")


# Speed and RDMA


def test_a_slow_link(pair: Pair) -> None:
    pair.one(WORKER, F1)["speed_mbps"] = 100_000
    pair.one(WORKER, P1)["speed_mbps"] = None
    assert pair.plan()["findings"] == [
        "spark-2: enp1s0f1np1 runs at 100 Gb/s instead of 200 Gb/s. Reseat the cable, or try another one made for "
        "that rate.",
        "spark-2: the speed of enP2p1s0f1np1 is unknown.",
    ]
    assert pair.refusal(minimum_speed_mbps=150_000).startswith(
        "spark-2: enp1s0f1np1 runs at 100 Gb/s, but spark_network_minimum_speed_mbps is 150 Gb/s."
    )


def test_rdma(pair: Pair) -> None:
    pair.one(HEAD, F1)["rdma_state"] = "INIT"
    assert "spark-1: the RDMA port of enp1s0f1np1 is INIT, not ACTIVE" in pair.plan()["findings"][0]
    pair.one(HEAD, F1)["rdma"] = None
    assert pair.refusal() == (
        "spark-1: enp1s0f1np1 has no RDMA device, which NCCL needs. Load its driver with 'sudo modprobe mlx5_ib'."
    )


def test_a_left_over_nccl_conf(pair: Pair) -> None:
    pair.hosts[WORKER]["nccl_conf"] = "# test\nNCCL_SOCKET_IFNAME=enP7s7\n"
    assert pair.plan()["findings"] == [
        "spark-2: /etc/nccl.conf sets NCCL_SOCKET_IFNAME=enP7s7. The deployment's container does not read that file, "
        "but programs outside of it do."
    ]
    pair.hosts[WORKER]["nccl_conf"] = "# nothing\n\n"
    assert pair.plan()["findings"] == []


# Hosts


@pytest.mark.parametrize("bandwidth_test", ["auto", True])
def test_one_spark_has_nothing_to_be_joined_with(bandwidth_test: t.Any) -> None:
    found = plan({HEAD: {}}, FabricSpec(bandwidth_test=bandwidth_test))
    nothing = {"rank": 0, "rails": [], "configure": False, "document": {}, "renderer": "", "discover": {}}
    assert found == {"hosts": {HEAD: nothing}, "configure": False, "measure": False, "findings": [], "lines": []}


def test_a_host_of_which_nothing_is_known(pair: Pair) -> None:
    pair.hosts[WORKER] = {}
    assert pair.refusal().startswith("The network of spark-2 is unknown. Run the playbook for both Sparks")


# Any number of them on a switch


class Switch(Pair):
    """Sparks of which each has a cable in its second port, and hardware addresses of its own."""

    def __init__(self, many: int) -> None:
        super().__init__(many)
        for number, host in enumerate(self.hosts):
            for place, name in enumerate((F0, P0, F1, P1)):
                self.one(host, name)["mac"] = f"4c:bb:47:00:{number:02x}:{place:02x}"

    def heard(self, host: str, name: str, *others: tuple[str, str]) -> None:
        """What an interface has heard, of which interfaces of others."""
        info = self.hosts[host].setdefault("neighbours", {"heard": {}, "taken": {}})
        info["heard"][name] = [self.one(*other)["mac"] for other in others]

    def greeted(self) -> Switch:
        """After all have asked, with the second port of each on the same switch."""
        for host in self.hosts:
            for name in (F1, P1):
                self.heard(host, name, *((other, name) for other in self.hosts if other != host))
        return self

    def ring(self) -> Switch:
        """Both ports of each have a cable: the second leads to the next one's first."""
        names = list(self.hosts)
        for host, after in zip(names, [*names[1:], names[0]]):
            for second, first in ((F1, F0), (P1, P0)):
                self.one(after, first)["carrier"] = True
                self.heard(host, second, (after, first))
                self.heard(after, first, (host, second))
        return self


@pytest.mark.parametrize("many", [3, 4])
def test_sparks_on_a_switch_share_a_subnet_for_each_twin(many: int) -> None:
    switch = Switch(many).greeted()
    found = switch.plan()
    assert (found["configure"], found["findings"]) == (True, [])
    for rank, host in enumerate(switch.hosts):
        one = found["hosts"][host]
        assert (one["rank"], one["configure"], one["discover"]) == (rank, True, {})
        assert [(row["subnet"], row["address"]) for row in one["rails"]] == [
            ("192.168.100.0/24", f"192.168.100.{10 + rank}"),
            ("192.168.101.0/24", f"192.168.101.{10 + rank}"),
        ]
        # Each proves the way to the next, and the last to the first.
        assert one["rails"][0]["peer_address"] == f"192.168.100.{10 + (rank + 1) % many}"
        assert one["document"]["network"]["ethernets"][P1]["addresses"] == [f"192.168.101.{10 + rank}/24"]
    assert found["lines"][-2] == (
        f"spark-{many}: {F1} 192.168.100.{9 + many}/24, MTU 9000, to spark-1's {F1} 192.168.100.10: to be configured"
    )


def test_many_ask_first_whether_one_switch_has_them_all() -> None:
    switch = Switch(4)
    found = switch.plan()
    asked = [found["hosts"][host]["discover"] for host in switch.hosts]
    assert [one["greet"] for one in asked] == [True] * 4
    assert asked[3]["addresses"][F1][:4] == [f"192.168.100.{host}" for host in (10, 11, 12, 13)]


def test_many_that_have_working_addresses_are_left_alone() -> None:
    switch = Switch(4)
    for rank, host in enumerate(switch.hosts):
        for third, name in ((100, F1), (101, P1)):
            switch.address(host, name, f"192.168.{third}.{10 + rank}/24", mtu=9000)
    found = switch.plan()
    assert (found["configure"], found["findings"]) == (False, [])
    assert [found["hosts"][host]["rails"][1]["address"] for host in switch.hosts] == [
        f"192.168.101.{10 + rank}" for rank in range(4)
    ]
    switch.one("spark-4", F1)["mtu"] = 1500
    assert switch.plan()["findings"] == [
        f"spark-1, spark-2, spark-3 and spark-4: {F1} of spark-1, {F1} of spark-2 and {F1} of spark-3 have MTU 9000 "
        f"and {F1} of spark-4 has 1500; the smaller one is used. Set the same MTU on all."
    ]


def test_addresses_that_are_there_twice_are_told_and_others_are_used() -> None:
    switch = Switch(3)
    for rank, host in enumerate(switch.hosts):
        for third, name in ((100, F1), (101, P1)):
            # The third has the second's, too.
            switch.address(host, name, f"192.168.{third}.{10 + min(rank, 1)}/24", mtu=9000)
    for third, name in ((100, F1), (101, P1)):
        switch.address("spark-3", name, f"192.168.{third}.12/24")
    found = switch.plan()
    assert [row["address"] for row in found["hosts"]["spark-3"]["rails"]] == ["192.168.100.12", "192.168.101.12"]
    twice = [
        f"spark-1, spark-2 and spark-3: {name} of spark-2 and {name} of spark-3 have the same address, {address}. Each "
        "interface needs its own address."
        for name, address in ((F1, "192.168.100.11"), (P1, "192.168.101.11"))
    ]
    assert found["findings"] == twice
    # Without another, the twin is left out.
    switch.one("spark-3", P1)["addresses"].pop()
    found = switch.plan()
    assert [row["interface"] for row in found["hosts"]["spark-3"]["rails"]] == [F1]
    assert found["findings"][:2] == twice
    assert f": only {F1}" in found["findings"][2]
    # Nor without any.
    switch.one("spark-3", F1)["addresses"].pop()
    for mode in ("adopt", "auto"):
        assert all(sentence in switch.refusal(mode=mode) for sentence in twice)


def test_an_own_plan_for_many() -> None:
    switch = Switch(3).greeted()
    rows = [
        {"subnet": f"10.0.{number}.0/24", "addresses": [f"10.0.{number}.{n}" for n in (1, 2, 3)]} for number in (0, 1)
    ]
    hosts = switch.plan(plan=rows)["hosts"]
    assert [row["address"] for row in hosts["spark-3"]["rails"]] == ["10.0.0.3", "10.0.1.3"]
    by_host = {host: [f"10.0.0.{n}/24", f"10.0.1.{n}/24"] for n, host in enumerate(switch.hosts, start=1)}
    assert switch.plan(plan=by_host)["hosts"] == hosts
    assert switch.refusal(plan=[{**rows[0], "addresses": rows[0]["addresses"][:2]}]) == (
        "spark_network_addresses, entry 1: 'addresses' must hold three, that of spark-1, that of spark-2 and that of "
        "spark-3."
    )
    assert switch.refusal(plan={**by_host, "spark-2": ["10.0.0.2/24"]}) == (
        "spark_network_addresses has 2 addresses for spark-1, 1 for spark-2 and 2 for spark-3. Give all the same "
        "number."
    )


RING = (
    "spark-1, spark-2 and spark-3 are connected as a ring, each to the next by its own cable, so no subnet has "
    "all of them. A ring is not supported. Connect each Spark to one switch, or use "
    "two of them (--limit). spark-1: port 0 leads to spark-3, port 1 leads to spark-2; spark-2: port 0 leads to "
    "spark-1, port 1 leads to spark-3; spark-3: port 0 leads to spark-2, port 1 leads to spark-1."
)


def test_a_ring_is_refused_by_what_was_heard() -> None:
    assert Switch(3).ring().refusal() == RING


def test_a_ring_is_refused_by_its_addresses() -> None:
    switch = Switch(3).ring()
    names = list(switch.hosts)
    for number, (host, after) in enumerate(zip(names, [*names[1:], names[0]])):
        switch.address(host, F1, f"10.0.{number}.1/24")
        switch.address(after, F0, f"10.0.{number}.2/24")
        switch.hosts[host].pop("neighbours", None)
    for mode in ("auto", "adopt", "configure"):
        assert switch.refusal(mode=mode) == RING


def test_two_ports_on_one_switch_are_no_ring() -> None:
    switch = Switch(3)
    for host in switch.hosts:
        others = [other for other in switch.hosts if other != host]
        for name, twin in ((F0, F1), (P0, P1), (F1, F0), (P1, P0)):
            switch.one(host, name)["carrier"] = True
            switch.heard(host, name, *((other, end) for other in others for end in (name, twin)))
    rails = switch.plan()["hosts"]["spark-3"]["rails"]
    assert [row["interface"] for row in rails] == [F0, P0]


def test_a_switch_that_has_not_all() -> None:
    switch = Switch(4).greeted()
    for name in (F1, P1):
        switch.heard("spark-4", name)
    assert switch.refusal().startswith(
        "spark-1, spark-2, spark-3 and spark-4: ports of all have a link, but no port reaches another Spark: the "
        "cables lead elsewhere, or discovery did not run at the same time on all. Connect the Sparks by one switch,"
    )


def test_one_of_many_has_no_cable() -> None:
    switch = Switch(3)
    for name in (F1, P1):
        switch.one("spark-2", name)["carrier"] = False
    assert switch.refusal().startswith("spark-2: no QSFP port has a link, so the cable to the switch is missing")


def test_what_many_carry_is_measured_by_twos() -> None:
    assert [[end_of_stream(rank, many) for rank in range(many)] for many in (1, 2, 3, 4)] == [
        [""],
        ["send", "receive"],
        ["send", "receive", ""],
        ["send", "receive", "send", "receive"],
    ]
    switch = Switch(3).greeted()
    for host in ("spark-1", "spark-2"):
        switch.hosts[host]["measured"] = [{"interface": F1}, {"interface": P1}]
    assert not switch.plan()["measure"]

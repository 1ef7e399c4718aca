# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import typing as t
from pathlib import Path

import pytest
from ansible_collections.dgx_spark.speculative.plugins.module_utils._fabric import ports as fabric
from ansible_collections.dgx_spark.speculative.plugins.module_utils._fabric.netplan import render

F0, F1, P1 = "enp1s0f0np0", "enp1s0f1np1", "enP2p1s0f1np1"


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text + "\n", encoding="utf-8")


def card(root: Path, pci: str, name: str, rdma: str | None, vendor: str = "0x15b3") -> Path:
    """One function of a network card in sysfs."""
    device = root / "sys/devices" / pci
    write(device / "vendor", vendor)
    (device / "net" / name).mkdir(parents=True)
    net = root / "sys/class/net" / name
    write(net / "carrier", "1")
    write(net / "operstate", "up")
    write(net / "speed", "10000")
    (net / "device").symlink_to(device)
    port = root / "sys/class/infiniband" / str(rdma) / "ports/1"
    if rdma:
        write(port / "rate", "200 Gb/sec (4X HDR)")
        write(port / "state", "4: ACTIVE")
        (port.parents[1] / "device").symlink_to(device)
    return port


class Programs:
    """What the host's programs answer."""

    def __init__(self) -> None:
        self.links: list[dict[str, t.Any]] = []
        self.addresses: list[dict[str, t.Any]] = []
        self.routes: list[dict[str, t.Any]] = [{"dst": "default", "gateway": "192.0.2.1", "dev": "enP7s7"}]
        self.way_back = [{"dst": "192.0.2.9", "dev": "enP7s7"}]
        self.devices: str | None = None
        self.files = ""
        self.networkd = False

    def link(self, name: str, index: int, **values: t.Any) -> None:
        self.links.append({"ifname": name, "ifindex": index, "flags": ["UP"], "mtu": 1500, "max_mtu": 9978, **values})

    def __call__(self, command: t.Sequence[str]) -> tuple[int, str, str]:
        text = " ".join(command)
        if text.startswith("nmcli"):
            answer = self.files if "FILENAME" in text else self.devices
            return (0, answer, "") if answer is not None else (127, "", "nmcli is not installed")
        if text.startswith("systemctl"):
            return (0 if self.networkd else 3), "", ""
        answers: dict[str, list[dict[str, t.Any]]] = {
            "ip -details -json link show": self.links,
            "ip -json address show": self.addresses,
            "ip -json -4 route show table all": self.routes,
            "ip -json -6 route show default": [],
            "ip -json route get 192.0.2.9": self.way_back,
        }
        return 0, json.dumps(answers[text]), ""


@pytest.fixture(name="programs")
def fixture_programs() -> Programs:
    return Programs()


def look(root: Path, programs: Programs, **environment: str) -> fabric.Fabric:
    return fabric.Look(programs, root, environment).look()


def test_twins_are_the_same_place_in_different_domains(tmp_path: Path, programs: Programs) -> None:
    for pci, name, rdma in (
        ("0002:01:00.1", P1, "mlx5_3"),
        ("0000:01:00.0", F0, "mlx5_0"),
        ("0000:01:00.1", F1, "mlx5_1"),
    ):
        card(tmp_path, pci, name, rdma)
    card(tmp_path, "0003:02:00.0", "enP3s0", None, vendor="0x10ec")
    ports = look(tmp_path, programs)["ports"]
    assert [(port["number"], [i["name"] for i in port["interfaces"]]) for port in ports] == [(0, [F0]), (1, [F1, P1])]
    assert [i["rdma"] for i in ports[1]["interfaces"]] == ["mlx5_1", "mlx5_3"]


def test_an_interface_as_the_kernel_shows_it(tmp_path: Path, programs: Programs) -> None:
    port = card(tmp_path, "0000:01:00.1", F1, "rocep1s0f1")
    for index, (gid, kind) in enumerate(
        [
            ("fe80:0000:0000:0000:0000:0000:0000:0001", "RoCE v2"),
            ("0000:0000:0000:0000:0000:ffff:c0a8:640a", "IB/RoCE v1"),
            ("0000:0000:0000:0000:0000:ffff:c0a8:640a", "RoCE v2"),
            ("0000:0000:0000:0000:0000:0000:0000:0000", "RoCE v2"),
        ]
    ):
        write(port / "gids" / str(index), gid)
        write(port / "gid_attrs/types" / str(index), kind)
        write(port / "gid_attrs/ndevs" / str(index), F1)
    write(tmp_path / "sys/bus/pci/devices/0000:01:00.1/current_link_width", "4")
    write(tmp_path / "sys/bus/pci/devices/0000:01:00.1/current_link_speed", "32.0 GT/s PCIe")
    programs.link(F1, 7, address="4c:bb:47:00:00:01", mtu=9000)
    # iproute2 prints empty objects, and addresses without some of the fields.
    programs.addresses = [
        {},
        {"ifname": F1, "addr_info": [{"local": "192.168.100.10", "prefixlen": 24}, {"family": "inet6"}]},
    ]
    found = look(tmp_path, programs)["ports"][0]["interfaces"][0]
    assert found == {
        "name": F1,
        "pci": "0000:01:00.1",
        "port": 1,
        "rdma": "rocep1s0f1",
        "pcie_width": 4,
        "pcie_gts": 32.0,
        "mac": "4c:bb:47:00:00:01",
        "up": True,
        "carrier": True,
        "operstate": "up",
        "speed_mbps": 200_000,
        "mtu": 9000,
        "max_mtu": 9978,
        "master": None,
        "addresses": [{"address": "192.168.100.10", "prefix": 24, "dynamic": False}],
        "netplan_files": [],
        "own": False,
        "rdma_state": "ACTIVE",
        "gids": [{"index": 2, "address": "192.168.100.10"}],
        "manager": "none",
        "profile": None,
        "file": None,
    }


def test_an_interface_that_is_switched_off_knows_no_carrier(tmp_path: Path, programs: Programs) -> None:
    card(tmp_path, "0000:01:00.1", F1, None)
    programs.link(F1, 7, flags=["BROADCAST"])
    found = look(tmp_path, programs)["ports"][0]["interfaces"][0]
    # Without an RDMA device the speed is that of the interface.
    assert (found["up"], found["carrier"], found["rdma"], found["speed_mbps"]) == (False, None, None, 10_000)


def test_a_directory_instead_of_a_link_tells_its_address(tmp_path: Path, programs: Programs) -> None:
    entry = tmp_path / "sys/class/infiniband/rocep1s0f1"
    write(entry / "device/vendor", "0x15b3")
    write(entry / "device/uevent", "DRIVER=mlx5_core\nPCI_SLOT_NAME=0000:01:00.1")
    (entry / "device/net" / F1).mkdir(parents=True)
    assert look(tmp_path, programs)["ports"][0]["place"] == "01:00.1"


def test_virtual_functions_are_left_out(tmp_path: Path, programs: Programs) -> None:
    card(tmp_path, "0000:01:00.2", "enp1s0f0v0", "mlx5_4")
    (tmp_path / "sys/devices/0000:01:00.2/physfn").mkdir()
    assert look(tmp_path, programs)["ports"] == []


@pytest.mark.parametrize(
    ("devices", "files", "expected"),
    [
        (
            f"{F1}:connected:Wired connection 2\n",
            f"{F1}:/run/NetworkManager/x\n",
            ("NetworkManager", "Wired connection 2", "/run/NetworkManager/x"),
        ),
        (f"{F1}:connecting (getting IP configuration):a\\:b\n", ":/etc/y\n", ("NetworkManager", "a:b", None)),
        (f"{F1}:disconnected:\n", "", ("NetworkManager", None, None)),
        (f"{F1}:unmanaged:\n", "", ("networkd", None, "/run/systemd/network/10-netplan-x.network")),
        (f"{F1}:connected (externally):{F1}\n", "", ("networkd", None, "/run/systemd/network/10-netplan-x.network")),
        (None, "", ("networkd", None, "/run/systemd/network/10-netplan-x.network")),
    ],
)
def test_who_manages_an_interface(
    tmp_path: Path, programs: Programs, devices: str | None, files: str, expected: tuple[str | None, ...]
) -> None:
    card(tmp_path, "0000:01:00.1", F1, "rocep1s0f1")
    programs.link(F1, 7)
    programs.devices, programs.files, programs.networkd = devices, files, True
    state = "ADMIN_STATE=configured\nNETWORK_FILE=/run/systemd/network/10-netplan-x.network"
    write(tmp_path / "run/systemd/netif/links/7", state)
    result = look(tmp_path, programs)
    found = result["ports"][0]["interfaces"][0]
    assert (found["manager"], found["profile"], found["file"]) == expected
    assert result["renderer"] == expected[0]


def test_networkd_that_leaves_an_interface_alone(tmp_path: Path, programs: Programs) -> None:
    card(tmp_path, "0000:01:00.1", F1, "rocep1s0f1")
    programs.link(F1, 7)
    programs.networkd = True
    write(tmp_path / "run/systemd/netif/links/7", "ADMIN_STATE=unmanaged\n")
    assert look(tmp_path, programs)["ports"][0]["interfaces"][0]["manager"] == "none"


@pytest.mark.parametrize(
    ("nm_manages", "declared", "nm", "networkd", "expected"),
    [
        (True, "networkd", True, True, "NetworkManager"),
        (False, "NetworkManager", False, True, "NetworkManager"),
        (False, "networkd", True, False, "networkd"),
        (False, None, True, False, "NetworkManager"),
        (False, None, True, True, "networkd"),
        (False, None, False, False, "networkd"),
    ],
)
def test_the_renderer(nm_manages: bool, declared: str | None, nm: bool, networkd: bool, expected: str) -> None:
    assert fabric.renderer(nm_manages, declared, nm, networkd) == expected


def test_netplan_files_that_name_an_interface(tmp_path: Path, programs: Programs) -> None:
    card(tmp_path, "0000:01:00.1", F1, "rocep1s0f1")
    write(tmp_path / "etc/netplan/40-cx7.yaml", f"network:\n  ethernets:\n    {F1}: {{addresses: [10.0.0.1/24]}}")
    write(tmp_path / "etc/netplan/40-dgx-spark-speculative.yaml", f"network: {{ethernets: {{{F1}: {{}}}}}}")
    write(tmp_path / "lib/netplan/00-all.yaml", "network:\n  renderer: NetworkManager")
    write(tmp_path / "usr/sbin/netplan", "")
    found = look(tmp_path, programs)
    assert found["ports"][0]["interfaces"][0]["netplan_files"] == ["/etc/netplan/40-cx7.yaml"]
    assert (found["own_file"], found["netplan"], found["renderer"]) == (True, True, "NetworkManager")
    assert (found["netplan_unreadable"], found["trial"]) == ([], None)


@pytest.mark.parametrize(
    ("file", "own"),
    [
        (f"/run/systemd/network/10-netplan-{F1}.network", True),
        (f"/run/systemd/network/10-netplan-{F1}0.network", False),
        (f"/etc/systemd/network/{F1}.network", False),
        ("", False),
    ],
)
def test_the_login_user_knows_our_interfaces_by_what_netplan_made(
    tmp_path: Path, programs: Programs, monkeypatch: pytest.MonkeyPatch, file: str, own: bool
) -> None:
    card(tmp_path, "0000:01:00.1", F1, "rocep1s0f1")
    programs.link(F1, 7)
    programs.networkd = True
    write(tmp_path / "run/systemd/netif/links/7", f"ADMIN_STATE=configured\nNETWORK_FILE={file}")
    monkeypatch.setattr(fabric, "read_text", lambda _path: None)
    assert look(tmp_path, programs)["ports"][0]["interfaces"][0]["own"] is False
    status = tmp_path / "run/dgx-spark-speculative/network.json"
    write(status, json.dumps({"state": "waiting"}))
    assert look(tmp_path, programs)["ports"][0]["interfaces"][0]["own"] is own
    status.unlink()
    write(tmp_path / "etc/netplan/40-dgx-spark-speculative.yaml", "")
    assert look(tmp_path, programs)["ports"][0]["interfaces"][0]["own"] is own


def test_root_knows_our_interfaces_by_the_file(tmp_path: Path, programs: Programs) -> None:
    for number, name in (("0", F0), ("1", F1)):
        card(tmp_path, f"0000:01:00.{number}", name, f"rocep1s0f{number}")
        programs.link(name, 7 + int(number))
    document = {"network": {"version": 2, "ethernets": {F1: {"addresses": ["10.0.0.1/24"], "mtu": 9000}}}}
    write(tmp_path / "etc/netplan/40-dgx-spark-speculative.yaml", render(document, {}))
    ports = look(tmp_path, programs)["ports"]
    assert [(i["name"], i["own"]) for port in ports for i in port["interfaces"]] == [(F0, False), (F1, True)]


def test_files_of_roots_are_listed(tmp_path: Path, programs: Programs, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "etc/netplan/50-cloud-init.yaml", "network: {}")

    def refuse(_path: Path) -> str | None:
        return None

    monkeypatch.setattr(fabric, "read_text", refuse)
    assert look(tmp_path, programs)["netplan_unreadable"] == ["/etc/netplan/50-cloud-init.yaml"]


def test_a_change_that_is_being_tried(tmp_path: Path, programs: Programs) -> None:
    state = {"id": "1", "action": "present", "state": "waiting", "error": None, "deadline": 5}
    write(tmp_path / "run/dgx-spark-speculative/network.json", json.dumps(state))
    assert look(tmp_path, programs)["trial"] == {"id": "1", "action": "present", "state": "waiting", "error": None}


def test_the_ways_to_the_host(tmp_path: Path, programs: Programs) -> None:
    programs.addresses = [
        {"ifname": "wlP9s9", "addr_info": [{"family": "inet", "local": "192.0.2.30", "prefixlen": 24}]},
        {"ifname": F1, "addr_info": [{"family": "inet6", "local": "fe80::1", "prefixlen": 64}]},
    ]
    fabric_facts = look(tmp_path, programs, SSH_CONNECTION="192.0.2.9 40000 192.0.2.30 22")
    assert fabric_facts["login"] == ("192.0.2.9", "192.0.2.30")
    assert fabric_facts["management"] == [
        {"interface": "enP7s7", "why": "the route to 192.0.2.9, from where this run reaches the host"},
        {"interface": "wlP9s9", "why": "the address 192.0.2.30, at which this run reaches the host"},
    ]
    assert look(tmp_path, programs)["management"] == [{"interface": "enP7s7", "why": "the default route"}]
    scoped = look(tmp_path, programs, SSH_CONNECTION=f"fe80::2%{F1} 40000 fe80::1%{F1} 22")["management"]
    assert scoped[0]["interface"] == F1


def test_networks_in_use(tmp_path: Path, programs: Programs) -> None:
    programs.addresses = [
        {"ifname": "lo", "addr_info": [{"family": "inet", "local": "127.0.0.1", "prefixlen": 8}]},
        {"ifname": "docker0", "addr_info": [{"family": "inet", "local": "172.17.0.1", "prefixlen": 16}]},
    ]
    programs.routes = [
        {"dst": "default", "dev": "enP7s7"},
        {"dst": "0.0.0.0/1", "dev": "tun0"},
        {"dst": "172.17.0.0/16", "dev": "docker0"},
        {"dst": "192.168.100.0/22", "dev": "wg0", "table": "52"},
        {"dst": "10.1.2.3"},
        {"type": "local", "dst": "172.17.0.1", "dev": "docker0", "table": "local"},
        {"type": "unreachable", "dst": "10.0.0.0/8"},
    ]
    assert look(tmp_path, programs)["networks"] == [
        {"network": "10.1.2.3/32", "interface": ""},
        {"network": "172.17.0.0/16", "interface": "docker0"},
        {"network": "192.168.100.0/22", "interface": "wg0"},
    ]


TCP = """  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0A64A8C0:08B9 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1 1 0 100 0 0 10 0
   1: 0100007F:1F90 0100007F:9C40 01 00000000:00000000 00:00000000 00000000     0        0 2 1 0 100 0 0 10 0
   2: 0A64A8C0:08B9 0B64A8C0:9C40 01 00000000:00000000 00:00000000 00000000     0        0 3 1 0 100 0 0 10 0
"""


@pytest.mark.parametrize(
    ("text", "gts"), [("32.0 GT/s PCIe", 32.0), ("2.5 GT/s PCIe", 2.5), ("Unknown", None), (None, None)]
)
def test_the_speed_of_a_pcie_link(text: str | None, gts: float | None) -> None:
    assert fabric.pcie_speed(text) == gts


def test_whether_somebody_uses_the_cable() -> None:
    assert fabric.in_use(TCP, ["192.168.100.10"])
    assert not fabric.in_use(TCP, ["192.168.101.10"])
    assert not fabric.in_use(TCP.replace("0A64A8C0:08B9 0B", "0A64A8C0:0016 0B"), ["192.168.100.10"])
    # To listen is not to use.
    assert not fabric.in_use("".join(TCP.splitlines(keepends=True)[:3]), ["192.168.100.10"])
    assert not fabric.in_use("", ["192.168.100.10"])


def test_no_ip_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(fabric.FabricError, match=r"'ip -details -json link show' failed .there is no such program."):
        fabric.Look(lambda _command: (127, "", "there is no such program"), tmp_path, {}).look()


def test_a_program_that_hangs_or_is_missing_is_no_exception() -> None:
    assert fabric.run(["sleep", "5"], deadline=0.1) == (124, "", "'sleep 5' did not end within 0 s")
    assert fabric.run(["no-such-program-here"]) == (127, "", "no-such-program-here is not installed")
    assert fabric.run(["echo", "yes"])[:2] == (0, "yes\n")


def test_this_machine_can_be_looked_at() -> None:
    found = fabric.Look().look()
    assert isinstance(found["ports"], list)
    assert all(set(row) == {"network", "interface"} for row in found["networks"])


@pytest.mark.parametrize(
    ("text", "mbps"), [("200 Gb/sec (4X HDR)", 200_000), ("2.5 Gb/sec (1X SDR)", 2_500), ("", None), (None, None)]
)
def test_rates(text: str | None, mbps: int | None) -> None:
    assert fabric.rate_mbps(text) == mbps

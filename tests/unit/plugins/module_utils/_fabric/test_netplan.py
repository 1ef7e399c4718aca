# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from ansible_collections.dgx_spark.speculative.plugins.module_utils._fabric import netplan

NAME, MAC = "enp1s0f1np1", "4c:bb:47:00:00:01"
DOCUMENT = {
    "network": {
        "version": 2,
        "ethernets": {
            NAME: {
                "renderer": "NetworkManager",
                "dhcp4": False,
                "link-local": [],
                "mtu": 9000,
                "addresses": ["192.168.100.10/24"],
                "networkmanager": {"passthrough": {"connection.autoconnect-priority": "100"}},
            }
        },
    }
}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"network:\n  ethernets:\n    {NAME}:\n      dhcp4: true\n", True),
        (f"network: {{ethernets: {{{NAME}: {{dhcp4: true}}}}}}\n", True),
        (f'    "{NAME}": {{}}\n', True),
        (f"  bonds:\n    bond0:\n      interfaces: [{NAME}, other]\n", True),
        ('      match:\n        name: "en*"\n', True),
        ("      match: {name: 'enp1s0f?np?'}\n", True),
        ("      match:\n        driver: mlx5_core\n", True),
        ('      match:\n        macaddress: "4C:BB:47:00:00:01"\n', True),
        (f"    # {NAME}:\n    enP7s7: {{}} # not {NAME}\n", False),
        ("    enp1s0f1np11:\n      dhcp4: true\n", False),
        (f"    x{NAME}: {{}}\n    {NAME}.100: {{}}\n", False),
        ('      match:\n        name: "wl*"\n      macaddress: "4c:bb:47:00:00:02"\n', False),
        ("network:\n  version: 2\n  renderer: NetworkManager\n", False),
    ],
)
def test_whether_a_file_sets_up_an_interface(text: str, expected: bool) -> None:
    assert netplan.names_interface(text, NAME, MAC) is expected


CX7 = f"""network:
  version: 2
  ethernets:
    enp1s0f0np0:
      link-local: [ ipv4 ]
    {NAME}:
      link-local: [ ipv4 ]
"""


@pytest.mark.parametrize(
    ("file", "text", "expected"),
    [
        (
            "00-installer-config.yaml",
            f"  ethernets:\n    eth0: {{addresses: [10.0.0.1/24]}}\n    {NAME}: {{dhcp4: true}}\n",
            False,
        ),
        (
            "00-installer-config.yaml",
            f"    {NAME}:\n      dhcp4: true\n\n      optional: true\n    eth0:\n      mtu: 9\n",
            False,
        ),
        ("00-installer-config.yaml", f'    "{NAME}": {{}}\n', False),
        # Later than ours, it has the last word.
        ("90-NM-1.yaml", f"    {NAME}: {{dhcp4: true}}\n", True),
        # All of NVIDIA's own file for the "automatic" way, of which ours takes one entry over.
        ("40-cx7.yaml", CX7, False),
        ("40-cx7.yaml", f"    {NAME}: {{link-local: [ipv4, ipv6]}}\n", False),
        ("60-cx7.yaml", CX7, True),
        ("40-cx7.yaml", f"    {NAME}: {{link-local: [ipv4], mtu: 1500}}\n", True),
        ("40-cx7.yaml", f"    {NAME}:\n      dhcp4: true\n      addresses:\n      - 10.0.0.1/24\n", True),
        ("40-cx7.yaml", f"    {NAME}: {{dhcp4: false, addresses: [10.0.0.1/24]}}\n", True),
        ("40-cx7.yaml", f"    {NAME}: {{dhcp4: true}}\n  bonds:\n    bond0: {{interfaces: [{NAME}]}}\n", True),
        ("40-cx7.yaml", f"    {NAME}: {{dhcp4: true}}\n    all: {{match: {{name: 'en*'}}}}\n", True),
        ("40-cx7.yaml", "    all:\n      match: {name: 'en*'}\n      dhcp4: true\n", True),
        ("40-cx7.yaml", "network: {version: 2}\n", False),
    ],
)
def test_whether_a_file_is_in_the_way(file: str, text: str, expected: bool) -> None:
    assert netplan.claims(file, text, NAME, MAC) is expected


SAVED = "/etc/netplan/90-NM-0f3c2b1a-5d4e-4c3b-9a8f-7e6d5c4b3a21.yaml"
DELETE = "delete NetworkManager's profile with 'sudo nmcli connection delete 0f3c2b1a-5d4e-4c3b-9a8f-7e6d5c4b3a21'"


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        (["/etc/netplan/60-x.yaml"], f"take {NAME} out of it, run 'sudo netplan apply', then run again."),
        ([SAVED], f"{DELETE}, then run again."),
        ([SAVED.replace(".yaml", "-Lab.yaml")], f"{DELETE}, then run again."),
        (
            [SAVED, "/etc/netplan/60-x.yaml"],
            f"{DELETE}, take {NAME} out of /etc/netplan/60-x.yaml, run 'sudo netplan apply', then run again.",
        ),
    ],
)
def test_the_way_out_of_files_of_others(files: list[str], expected: str) -> None:
    assert netplan.way_out(files, NAME) == expected


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["network:\n  version: 2\n  renderer: NetworkManager\n"], "NetworkManager"),
        (["network:\n    renderer: networkd\n"], "networkd"),
        (["network: {version: 2, renderer: networkd}\n"], "networkd"),
        (["network:\n  renderer: networkd\n", "network:\n  renderer: NetworkManager # desktop\n"], "NetworkManager"),
        (["network:\n  ethernets:\n    eth0:\n      renderer: networkd\n", "# renderer: x\n"], None),
    ],
)
def test_the_renderer_of_the_whole_host(texts: list[str], expected: str | None) -> None:
    assert netplan.declared_renderer(texts) == expected


def test_what_is_written_can_be_read() -> None:
    before = {NAME: {"mtu": 1500, "up": True}}
    text = netplan.render(DOCUMENT, before)
    assert yaml.safe_load(text) == DOCUMENT
    assert netplan.is_ours(text)
    assert not netplan.is_ours("network: {}\n")
    assert netplan.before_of(text) == before
    entry = {"renderer": "NetworkManager", "addresses": ["192.168.100.10/24"]}
    assert netplan.document_of(text) == {"network": {"ethernets": {NAME: entry}}}
    assert netplan.addresses_of(netplan.document_of(text)) == {NAME: ["192.168.100.10/24"]}


def test_comments_that_were_changed_by_hand_are_no_error() -> None:
    for comment in ("# before: [1]", "# before: {broken", "#"):
        text = f"{netplan.MARKER}\n{comment}\nnetwork: {{}}\n"
        assert netplan.before_of(text) == {}
        assert netplan.addresses_of(netplan.document_of(text)) == {}


def test_files_come_in_netplans_order_and_once(tmp_path: Path) -> None:
    for place in ("etc/netplan/20-b.yaml", "usr/lib/netplan/00-a.yaml", "run/netplan/10-c.yaml", "etc/netplan/x.conf"):
        (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / place).touch()
    (tmp_path / "lib").symlink_to(tmp_path / "usr/lib")
    assert [path.name for path in netplan.netplan_files(tmp_path)] == ["00-a.yaml", "10-c.yaml", "20-b.yaml"]

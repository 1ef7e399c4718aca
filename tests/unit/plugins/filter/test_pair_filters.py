# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.dgx_spark.speculative.plugins.filter.pair import pair_comparison, pair_files, pair_room

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIE0f2b0c1d2e3f4a5b6c7d8e9f0a1b2c3d4e5f6a7b8c9d0"
SHARED: dict[str, t.Any] = {
    "directory": "/home/me/state/pair",
    "user": "me",
    "python": "/usr/bin/python3.12",
    "head_addresses": ["10.0.0.1", "10.0.1.1"],
    "worker_addresses": ["10.0.0.2", "10.0.1.2"],
    "ssh_port": "2233",
    "copy_port": 2234,
    "client_key": KEY + " head",
    "host_key": KEY[:-1] + "1 worker",
}


def test_each_side_gets_the_other_ones_key() -> None:
    (known,) = pair_files(SHARED, "head")
    assert known["name"] == "known_hosts"
    assert known["content"].count(KEY[:-1] + "1") == 4
    (container,) = pair_files(SHARED, "worker")
    assert container["content"] == (
        f'restrict,from="10.0.0.1,10.0.1.1",command="/usr/bin/python3 /deployment/entrypoint.py launch" {KEY}\n'
    )
    settings, copies = pair_files(SHARED, "copies")
    assert settings["name"] == "sshd_config"
    folder = "/home/me/state/pair/copy"
    assert f'command="/usr/bin/python3.12 {folder}/receive.py {folder}/receive.json"' in copies["content"]
    assert {file["mode"] for file in (known, container, settings, copies)} == {"0600"}


@pytest.mark.parametrize(
    "changes", [{"client_key": "secret"}, {"directory": "/home/my name/pair"}, {"head_addresses": []}]
)
def test_what_cannot_be_written_is_refused(changes: dict[str, t.Any]) -> None:
    with pytest.raises(AnsibleFilterError, match="Writing what the two Sparks share failed"):
        pair_files({**SHARED, **changes}, "copies")


def test_wrong_uses_are_told() -> None:
    with pytest.raises(AnsibleFilterError, match="one of head, worker, copies"):
        pair_files(SHARED, "other")
    with pytest.raises(AnsibleFilterError, match="two hosts"):
        pair_comparison([{}], ["a"])
    with pytest.raises(AnsibleFilterError, match="spark_info returned as pair"):
        pair_comparison([{}, {}], ["a", "b"])
    with pytest.raises(AnsibleFilterError, match="spark_info"):
        pair_room([{}, {}], ["a", "b"], {})

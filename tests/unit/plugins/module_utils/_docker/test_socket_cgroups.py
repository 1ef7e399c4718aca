# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest
from ansible_collections.dgx_spark.speculative.plugins.module_utils._docker.socket_cgroups import (
    listening_cgroups,
    parse_cgroups,
)

# Of iproute2 6.1, as a user who is not root: a group, the root group, a group with a space, and one that was removed.
PRINTED = """\
LISTEN 0 128 127.0.0.1:50353 0.0.0.0:* uid:1000 ino:5538952 sk:382 cgroup:/a.slice/b <-> cgroup:/a.slice/b
LISTEN 0 4096 127.0.0.1%lo:53 0.0.0.0:* ino:552 sk:93 cgroup:/ <-> cgroup:/
LISTEN 0 128 [::1]:44577    [::]:* ino:5538953 sk:383 cgroup:/gone/a b v6only:1 <-> cgroup:/gone/a b
LISTEN 0 128 *:22          *:* ino:5538954 sk:384 cgroup:unreachable:12cc2 v6only:0 <-> cgroup:unreachable:12cc2
"""
WITHOUT_CGROUPS = "LISTEN 0      128    127.0.0.1:50353 0.0.0.0:* uid:1000 ino:5538952 sk:382 <->\n"


def test_paths_and_ids_are_read(tmp_path: Path) -> None:
    group = tmp_path / "a.slice/b"
    group.mkdir(parents=True)
    ids = {5538952: group.stat().st_ino, 552: tmp_path.stat().st_ino, 5538954: 0x12CC2}
    assert parse_cgroups(PRINTED, tmp_path) == ids
    # A kernel without control groups for sockets tells nothing.
    assert parse_cgroups(WITHOUT_CGROUPS, tmp_path) == {}


@pytest.mark.parametrize(("family", "address"), [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")])
def test_ss_tells_of_a_real_listener(family: socket.AddressFamily, address: str) -> None:
    with socket.create_server((address, 0), family=family) as server:
        inode = os.fstat(server.fileno()).st_ino
        found = listening_cgroups()
    # A kernel without control groups for sockets tells nothing.
    assert not found or inode in found


def test_without_ss_nothing_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    assert listening_cgroups() == {}

# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest
from ansible_collections.dgx_spark.speculative.plugins.module_utils._docker import image_marks
from ansible_collections.dgx_spark.speculative.plugins.module_utils._docker.access import Machine
from ansible_collections.dgx_spark.speculative.plugins.module_utils._docker.inspector import Inspector

from tests.unit.docker_server import DockerServer

PAGES: dict[str, t.Any] = {
    "/containers/slot/json": {"Id": "1", "State": {"Running": False}},
    "/images/release:1/json": {"Id": "sha256:1"},
    "/containers/json": [{"Id": "1", "Names": ["/slot"]}, {"Id": "2", "Names": ["/gone"]}],
    "/containers/1/json": {"Id": "1", "State": {"Pid": 7}},
}


@pytest.fixture(name="socket")
def fixture_socket(tmp_path: Path) -> t.Iterator[str]:
    with DockerServer(tmp_path / "docker.sock", PAGES) as server:
        yield str(server.path)


@pytest.mark.parametrize(("container", "found"), [("slot", "1"), ("other", None), (None, None)])
def test_the_serving_container(socket: str, container: str | None, found: str | None) -> None:
    slot = Inspector({"socket": socket, "container": container}, Machine()).find_slot()
    assert (slot or {}).get("Id") == found


def test_an_image_counts_once_it_is_on_the_disk(socket: str, tmp_path: Path) -> None:
    inspector = Inspector({"socket": socket}, Machine())
    assert inspector.find_image(tmp_path, "release:2") is None
    image_marks.begin(tmp_path, "release:1")
    # A run of this boot still brings it, and the Engine knows how far it is.
    assert inspector.find_image(tmp_path, "release:1") == {"Id": "sha256:1"}
    image_marks.mark_of(tmp_path, "release:1").write_text("an earlier boot", encoding="ascii")
    assert inspector.find_image(tmp_path, "release:1") is None


def test_a_container_that_ends_meanwhile_has_no_process(socket: str) -> None:
    running = Inspector({"socket": socket}, Machine()).list_running()
    assert [(container["name"], container["pid"]) for container in running] == [("slot", 7), ("gone", None)]


def test_files_are_those_below_the_root(tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/meminfo").write_bytes(b"MemTotal: 2 kB\nStrange: \xff\n")
    inspector = Inspector({"socket": "/nonexistent"}, Machine(tmp_path))
    assert inspector.read_memory() == {"MemTotal": 2048}
    with pytest.raises(FileNotFoundError):
        inspector.read_text("/proc/uptime")

# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest
from ansible_collections.dgx_spark.speculative.plugins.modules import field_info

from tests.unit import modules
from tests.unit.docker_server import DockerServer


def run(**parameters: t.Any) -> dict[str, t.Any]:
    return modules.run(field_info, parameters)


@pytest.fixture(name="nowhere")
def fixture_nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Arguments for a machine without anything to look at."""
    monkeypatch.setattr(field_info, "ROOT", tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    return {"state_directory": str(tmp_path), "socket": str(tmp_path / "docker.sock")}


def test_a_machine_that_tells_nothing(nowhere: dict[str, str]) -> None:
    result = run(**nowhere)
    assert result["changed"] is False
    rows = {row["id"]: row for row in result["rows"]}
    assert len(rows) == len(result["rows"]) > 35
    assert rows["memory_loading"]["not_measured"].endswith("add -e restart=true to do that")
    assert rows["reboot_ssh"]["not_measured"].endswith("ask for that with -e reboot=true")
    assert rows["reboot_link_tcp"]["not_measured"] == rows["reboot_ssh"]["not_measured"]
    assert rows["docker_version"]["not_measured"] == "the Docker Engine cannot be asked (No such file or directory)"


def test_what_was_watched_before_is_reported(nowhere: dict[str, str]) -> None:
    rows = run(**nowhere, samples=[[0.0, 5, 6], [1.0, 4, 5]])["rows"]
    assert [row["value"] for row in rows if row["id"] == "memory_loading"] == [[[0.0, 5, 6], [1.0, 4, 5]]]


def test_watching(nowhere: dict[str, str], tmp_path: Path) -> None:
    failed = run(**nowhere, watch_until=str(tmp_path / "end"), deadline=0.01)
    assert failed["msg"].startswith("Watching the memory failed: there is no /proc/meminfo.")
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/meminfo").write_text("MemFree: 1 kB\nMemAvailable: 2 kB\n")
    result = run(**nowhere, watch_until=str(tmp_path / "end"), deadline=0.01)
    assert result["rows"] == []
    assert result["samples"][0][1:] == [1024, 2048]


def test_what_came_of_a_reboot_is_reported(nowhere: dict[str, str]) -> None:
    before = {"unanswered": "", "rows": [{"id": "hotplug_state", "value": "0"}]}
    made = {"before": before, "rebooted": {"elapsed": 62}, "answered": {"answer_s": 302.5}}
    rows = {row["id"]: row for row in run(**nowhere, reboot=made)["rows"]}
    assert (rows["reboot_ssh"]["value"], rows["reboot_answer"]["value"]) == (62.0, 302.5)
    assert rows["reboot_hotplug_state"]["not_measured"].startswith("after the reboot: there is no /sys")
    assert rows["reboot_link_tcp"]["not_measured"] == "before the reboot: it was not checked"


def test_what_a_reboot_is_compared_with(nowhere: dict[str, str]) -> None:
    with_docker = DockerServer(Path(nowhere["socket"]), {"/containers/json": []})
    try:
        result = run(**nowhere, phase="before_reboot")
        lost = run(**nowhere, phase="before_reboot", controller={"lost": ["spark-2"]})
    finally:
        with_docker.shutdown()
        with_docker.server_close()
    assert [row["id"] for row in result["rows"]] == ["link_tcp", "link_rdma", "hotplug_state"]
    assert (result["problems"], result["url"]) == ([], "")
    assert result["unanswered"].startswith("nothing is deployed here")
    assert (lost["problems"], lost["rows"]) == (["spark-2 has failed or cannot be reached; mend that first"], [])


@pytest.mark.parametrize(
    ("given", "wrong"),
    [
        ({"phase": "first_answer"}, "phase is first_answer but all of the following are missing: url"),
        ({"phase": "before_reboot", "watch_until": "/end"}, "parameters are mutually exclusive: watch_until|phase"),
    ],
)
def test_what_does_not_go_together(nowhere: dict[str, str], given: dict[str, str], wrong: str) -> None:
    assert run(**nowhere, **given)["msg"] == wrong


def test_waiting_in_vain_for_an_answer(nowhere: dict[str, str]) -> None:
    result = run(**nowhere, phase="first_answer", url="http://127.0.0.1:9", deadline=0)
    assert result["answer_s"] is None

# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""That every rank's NCCL writes down which network it uses, into the state directory of its own Spark."""

from __future__ import annotations

import json
import os
import typing as t
from pathlib import Path

import pytest
from server import nccl
from server.launchers.mpi import login, sshd

from tests.unit.pair_container import Listener, PairContainer

STATE = Path("/deployment/state")
WRITES = {
    "NCCL_DEBUG": "INFO",
    "NCCL_DEBUG_SUBSYS": "INIT,ENV",
    "NCCL_DEBUG_FILE": "/deployment/state/nccl.%h.%p",
}


@pytest.mark.parametrize("own", [{}, {"NCCL_IB_HCA": "rocep1s0f1"}])
def test_nccl_writes(own: dict[str, str]) -> None:
    assert nccl.settings(STATE, own) == WRITES


@pytest.mark.parametrize(
    "own", [{"NCCL_DEBUG": "WARN"}, {"NCCL_DEBUG_FILE": "/dev/stdout"}, {"NCCL_DEBUG_SUBSYS": "ALL"}]
)
def test_settings_of_the_user_are_left_alone(own: dict[str, str]) -> None:
    assert nccl.settings(STATE, own) == {}


def test_the_head_has_its_rank_write_into_a_directory_without_earlier_files(tmp_path: Path) -> None:
    listener = Listener()
    listener.open()
    state = tmp_path / "state"
    state.mkdir()
    (state / "nccl.spark-1.7").touch()
    writes = "writes $NCCL_DEBUG $NCCL_DEBUG_SUBSYS $NCCL_DEBUG_FILE"
    script = f'ls "$(dirname "$NCCL_DEBUG_FILE")"; echo "{writes}"; sleep 60'
    head = PairContainer(tmp_path, port=listener.port, script=script)
    try:
        head.wait_for("loading")
        head.wait_until(lambda _found: (state / "server.log").exists() and "writes" in head.log())
        assert f"writes INFO INIT,ENV {state}/nccl.%h.%p\n" in head.log()
        assert "nccl.spark-1.7" not in head.log()
    finally:
        head.end()
        listener.close()


def test_the_worker_has_its_rank_write_into_a_directory_without_earlier_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[t.Mapping[str, str]] = []
    state = tmp_path / "state"
    state.mkdir()
    (state / "nccl.spark-2.7").touch()
    monkeypatch.setattr(sshd, "RUN", tmp_path)
    for name in WRITES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NCCL_IB_HCA", "rocep1s0f1")
    sshd.save_environment(tmp_path)
    monkeypatch.setattr(login, "end_ranks", lambda _worker: set())
    monkeypatch.setattr(login.os, "kill", lambda *_arguments: None)
    monkeypatch.setattr(login.os, "execvpe", lambda _file, _arguments, environment: given.append(environment))
    monkeypatch.setenv("SSH_ORIGINAL_COMMAND", "orted -mca ess env")
    login.main([str(tmp_path / "worker.json")])
    assert [os.fspath(path) for path in state.glob("nccl.*")] == []
    assert {name: given[0][name] for name in ("NCCL_IB_HCA", *WRITES)} == {
        "NCCL_IB_HCA": "rocep1s0f1",
        **WRITES,
        "NCCL_DEBUG_FILE": f"{state}/nccl.%h.%p",
    }


def test_the_rank_of_a_worker_has_the_users_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sshd, "RUN", tmp_path)
    monkeypatch.setenv("NCCL_DEBUG", "WARN")
    sshd.save_environment(tmp_path)
    environment = json.loads((tmp_path / "worker.json").read_text(encoding="utf-8"))["environment"]
    assert (environment["NCCL_DEBUG"], "NCCL_DEBUG_FILE" in environment) == ("WARN", False)

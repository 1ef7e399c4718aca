# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whatever changes a Spark, or counts what it saw there, ends with a run that another one has taken over."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest
from ansible.errors import AnsibleActionFail
from ansible_collections.dgx_spark.speculative.plugins.action import (
    completions_probe,
    deployment_files,
    deployment_plan,
    fabric_network,
    watched_job,
)
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._lease import run_state

from tests.unit import actions

HOLDER = {"owner": "bob@desk", "activity": "stop.yml", "for_s": 4}
TAKEN_OVER = r"^spark-1: another run took over \(bob@desk has been running stop\.yml for 4 s\)\."
FAILURE = {"result": {"failure": {"result": {"msg": "It died."}, "rollback_text": "It serves again."}}}

CALLS: list[tuple[t.Any, dict[str, t.Any]]] = [
    (deployment_files, {"directory": "/srv"}),
    (watched_job, {"name": "pull", "directory": "/srv", "program": ""}),
    (watched_job, {"name": "pull", "directory": "/srv", "state": "absent"}),
    (watched_job, {"name": "copies", "directory": "/srv", "program": "", "follow": False}),
    (completions_probe, {"url": "http://127.0.0.1:8000", "follow": True}),
    *((fabric_network, {"state": state, "change": "1"}) for state in ("absent", "confirmed", "reverted")),
    (fabric_network, {"document": {}}),
    (fabric_network, {"state": "reverted", "change": "1", "because": "It failed."}),
    (deployment_plan, FAILURE),
]


@pytest.fixture(autouse=True)
def lease(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> run_state.Lease:
    monkeypatch.setattr(run_state, "directory", lambda: tmp_path)
    lease = run_state.Lease("spark-1")
    lease.record_renewal(run_state.now(), python="python3", taken=run_state.now())
    return lease


@pytest.mark.parametrize(("module", "arguments"), CALLS)
def test_nothing_is_changed_after_that(module: t.Any, arguments: dict[str, t.Any], lease: run_state.Lease) -> None:
    lease.record_loss({"state": "lost", "holder": HOLDER})
    action = actions.made(module, arguments)
    with pytest.raises(AnsibleActionFail, match=TAKEN_OVER):
        action.run(task_vars={"inventory_hostname": "spark-1"})
    assert action.calls == []


def test_an_answer_that_came_after_that_does_not_count(lease: run_state.Lease) -> None:
    def answered(*_: t.Any) -> dict[str, t.Any]:
        lease.record_loss({"state": "lost", "holder": HOLDER})
        return {"changed": False, "finished": True, "answer": "42"}

    action = actions.made(completions_probe, {"url": "http://127.0.0.1:8000", "follow": True}, answered)
    with pytest.raises(AnsibleActionFail, match=TAKEN_OVER):
        action.run(task_vars={"inventory_hostname": "spark-1"})


def test_looking_at_the_network_needs_no_lease(lease: run_state.Lease) -> None:
    lease.record_loss({"state": "lost", "holder": HOLDER})
    action = actions.made(fabric_network, {"state": "tried", "change": "1"}, lambda *_: {"stage": "undone"})
    assert action.run(task_vars={"inventory_hostname": "spark-1"}) == {"stage": "undone"}

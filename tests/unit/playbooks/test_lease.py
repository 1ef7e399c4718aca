# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Where a run takes the lease, and where it looks whether it still has it."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest
import yaml

from tests.unit import plays

ROOT = Path(__file__).parents[3]
LEASE = "dgx_spark.speculative.lease"
CONTAINER = "community.docker.docker_container"
# Containers that look at something, and are gone when they have; what is removed was fenced when it was stopped.
PASSING = ("-gpu-check", "-option-check", "-endpoint-check")

Task = dict[str, t.Any]


def tasks(path: Path) -> list[Task]:
    return t.cast("list[Task]", yaml.safe_load(path.read_text(encoding="utf-8")) or [])


def flat(found: t.Iterable[Task]) -> t.Iterator[Task]:
    """Tasks in the order in which they run, without the rescues."""
    for task in found:
        yield from flat(task["block"]) if "block" in task else [task]


# Before what stops or replaces the server the Spark is asked in any case.
STATED = {
    "trtllm_container/tasks/stop.yml": "confirmed",
    "trtllm_container/tasks/main.yml": "{{ 'confirmed' if trtllm_container_provisional | bool else 'checked' }}",
}


def lasting(task: Task) -> bool:
    asked: Task = task.get(CONTAINER) or {}
    return asked.get("state") in ("started", "stopped") and not str(asked["name"]).endswith(PASSING)


def test_no_container_is_started_or_stopped_by_a_run_that_has_lost_the_spark() -> None:
    seen = []
    for path in sorted(ROOT.glob("roles/*/tasks/*.yml")):
        order = list(flat(tasks(path)))
        for before, task in zip([{}, *order], order):
            if lasting(task):
                seen.append(path.relative_to(ROOT / "roles").as_posix())
                assert before.get(LEASE) == {"state": STATED.get(seen[-1], "checked")}, (path, task["name"])
    assert seen == [
        "api_proxy/tasks/run.yml",
        "open_webui/tasks/main.yml",
        *(f"trtllm_container/tasks/{name}.yml" for name in ("main", "start", "stop")),
    ]


@pytest.mark.parametrize("name", ["recipe", "previous"])
def test_who_has_lost_it_says_so_before_anything_else(name: str) -> None:
    rescue = next(task["rescue"] for task in tasks(ROOT / f"playbooks/tasks/{name}.yml") if "rescue" in task)
    assert rescue[0]["ansible.builtin.include_tasks"] == "failed.yml"
    checked, why = tasks(ROOT / "playbooks/tasks/failed.yml")
    assert checked[LEASE] == {"state": "checked"}
    assert why["dgx_spark.speculative.deployment_diagnosis"]["fails"] is True


def test_what_writes_to_a_spark_writes_nothing_then(tmp_path: Path) -> None:
    # In the directory of the run, whatever that is called.
    lose = f"for run in {tmp_path}/local/*; do mkdir $run/lease; printf Lost. > $run/lease/spark-1.lost; done"
    made = tmp_path / "made"
    writers = {
        "api_keys": {"directory": str(made), "names": ["laptop"]},
        "deployment_files": {"directory": str(made)},
        "huggingface_cache_prune": {"state_directory": str(made), "cache_directory": str(made), "labels": {}},
    }
    lost: Task = {"name": "Lose the lease", "ansible.builtin.shell": lose}
    tries: list[Task] = [
        {
            "name": name,
            "block": [
                {"name": name, f"dgx_spark.speculative.{name}": asked},
                {"name": "Go on", "ansible.builtin.fail": {}},
            ],
            "rescue": [
                {
                    "name": "See why",
                    "ansible.builtin.assert": {"that": ["ansible_failed_result.msg is search('Lost[.]$')"]},
                }
            ],
        }
        for name, asked in writers.items()
    ]
    done = plays.run(tmp_path, {"name": "Play", "hosts": "all", "gather_facts": False, "tasks": [lost, *tries]})
    assert done.returncode == 0, done.stdout
    assert not made.exists()


def takes(task: Task) -> bool:
    included = task.get("ansible.builtin.include_tasks") or task.get("ansible.builtin.import_tasks") or ""
    return str(included).endswith("lease.yml") or (task.get(LEASE) or {}).get("state") == "held"


@pytest.mark.parametrize("name", ["start", "stop", "cleanup", "benchmark", "open_webui", "field_check"])
def test_a_playbook_that_changes_something_takes_it_first(name: str) -> None:
    (play,) = [play for play in tasks(ROOT / f"playbooks/{name}.yml") if "tasks" in play]
    order = [task["name"] for task in play["tasks"] if takes(task)]
    assert len(order) == 1
    names = [task["name"] for task in play["tasks"]]
    # Who may use Docker, and what only looks, is all that comes before.
    looks = [task["name"] for task in play["tasks"] if task.get("vars", {}).get("huggingface_cache_only_look")]
    assert len([name for name in names[: names.index(order[0])] if name not in looks]) <= 2


def test_what_serves_takes_it_before_it_looks_at_what_others_change() -> None:
    machine = tasks(ROOT / "playbooks/tasks/machine.yml")
    assert takes(machine[-1])
    assert "not look_only | default(false)" in machine[-1]["when"]
    for name in ("look_and_plan", "previous"):
        included = [task.get("ansible.builtin.import_tasks") for task in tasks(ROOT / f"playbooks/tasks/{name}.yml")]
        before = included[: included.index("machine.yml")]
        assert before == [None] * len(before)


@pytest.mark.parametrize("name", ["status", "diagnose", "logs", "preflight"])
def test_looking_takes_none(name: str) -> None:
    assert "lease" not in (ROOT / f"playbooks/{name}.yml").read_text(encoding="utf-8")

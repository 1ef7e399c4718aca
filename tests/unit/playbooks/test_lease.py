# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Where a run takes the lease, and where it looks whether it still has it."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest
import yaml
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._lease.harmless import HARMLESS

from tests.unit import plays

ROOT = Path(__file__).parents[3]
LEASE = "dgx_spark.speculative.lease"
CONTAINER = "community.docker.docker_container"

Task = dict[str, t.Any]


def tasks(path: Path) -> list[Task]:
    return t.cast("list[Task]", yaml.safe_load(path.read_text(encoding="utf-8")) or [])


SECTIONS = ("block", "rescue", "always", "tasks", "pre_tasks", "post_tasks", "handlers")


# Actions that send no module to a Spark; they only reckon, ask or write on the controller.
ON_THE_CONTROLLER = {
    *(f"ansible.builtin.{name}" for name in ("assert", "debug", "fail", "meta", "pause", "set_fact")),
    *(f"ansible.builtin.{name}" for name in ("import_tasks", "include_role", "include_tasks", "import_playbook")),
    *(f"dgx_spark.speculative.{name}" for name in ("benchmark", "check_inputs", "deployment_plan", "recipe_info")),
    "dgx_spark.speculative.report",
}
# What changes a Spark without a module of which the guard could be put in front.
UNGUARDED = {
    # The person who asked for it sits before it; it begins with a look that the action takes as a module.
    ("playbooks/tasks/field_reboot.yml", "ansible.builtin.reboot"),
}
# These modules run on the Spark as any other does, and so ask its lock there. Another kind is tried on the twin first
# (tests/system/lease/test_3_late.py), and its name is added here.
GUARDED = {
    *(f"ansible.builtin.{name}" for name in ("apt", "command", "copy", "file", "get_url", "iptables", "user")),
    "ansible.builtin.systemd_service",
    "community.crypto.openssh_keypair",
    *(
        f"community.docker.docker_{name}"
        for name in ("container", "container_exec", "image_remove", "image_tag", "volume")
    ),
    *(f"dgx_spark.speculative.{name}" for name in ("api_keys", "deployment_files", "fabric_network", "watched_job")),
    "dgx_spark.speculative.huggingface_cache_prune",
}


def every(found: t.Iterable[Task], outer: Task) -> t.Iterator[Task]:
    """All tasks, with what blocks and plays around them say: those of blocks, of rescues, and of plays."""
    for each in found:
        task: Task = {**{key: outer[key] for key in ("delegate_to", "hosts") if key in outer}, **each}
        inner = [part for key in SECTIONS for part in task.get(key) or []]
        yield from every(inner, task) if inner else [task]


def sent() -> t.Iterator[tuple[str, str, Task]]:
    """All tasks of the collection whose action runs on a Spark: file, action and task."""
    for path in sorted(
        [*ROOT.glob("roles/*/*/*.yml"), *ROOT.glob("playbooks/*.yml"), *ROOT.glob("playbooks/tasks/*.yml")]
    ):
        found = tasks(path)
        for task in every(found if isinstance(found, list) else [], {}):
            (action,) = [key for key in task if "." in key] or [""]
            if action not in {*ON_THE_CONTROLLER, *HARMLESS, ""} and "localhost" not in (
                task.get("delegate_to"),
                task.get("hosts"),
            ):
                yield path.relative_to(ROOT).as_posix(), action, task


def test_what_changes_a_spark_asks_there_whether_the_run_still_has_it() -> None:
    everything = list(sent())
    assert {(path, action) for path, action, _task in everything if action not in GUARDED} == UNGUARDED
    # The wrapper of what goes on in the background would be sent without it.
    assert [path for path, action, task in everything if "async" in task] == []
    # The lease of another host than the task's is not known.
    assert [path for path, action, task in everything if "delegate_to" in task] == []
    # Each kind is there, or the list is too long.
    assert {action for _path, action, _task in everything} == GUARDED | {"ansible.builtin.reboot"}
    assert sum(action == CONTAINER for _path, action, _task in everything) >= 10


def test_each_reason_to_ask_nothing_is_needed() -> None:
    used = {
        key for path in ROOT.glob("**/tasks/*.yml") for task in every(tasks(path), {}) for key in task if "." in key
    }
    used |= {
        key for path in ROOT.glob("playbooks/*.yml") for task in every(tasks(path), {}) for key in task if "." in key
    }
    assert set(HARMLESS) - used <= {"gather_facts", "ansible.builtin.gather_facts", "ansible.builtin.wait_for"}


def test_playbooks_have_the_guard_before_their_modules() -> None:
    everywhere = yaml.safe_load((ROOT / "playbooks/group_vars/all.yml").read_text(encoding="utf-8"))
    assert everywhere["ansible_shell_type"] == "dgx_spark.speculative.fenced"
    said = [path for path in ROOT.glob("roles/**/*.yml") if "ansible_shell_type" in path.read_text(encoding="utf-8")]
    assert said == []


@pytest.mark.parametrize("name", ["deploy", "rollback"])
def test_who_has_lost_it_says_so_before_anything_else(name: str) -> None:
    rescue = next(task["rescue"] for task in tasks(ROOT / f"playbooks/tasks/{name}.yml") if "rescue" in task)
    assert rescue[0]["ansible.builtin.include_tasks"] == "diagnose_failure.yml"
    checked, why = tasks(ROOT / "playbooks/tasks/diagnose_failure.yml")
    assert checked[LEASE] == {"state": "confirmed"}
    assert why["dgx_spark.speculative.deployment_diagnosis"]["always_fail"] is True


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
    fenced = {"ansible_shell_type": "dgx_spark.speculative.fenced"}
    play = {"name": "Play", "hosts": "all", "gather_facts": False, "vars": fenced, "tasks": [lost, *tries]}
    done = plays.run(tmp_path, play)
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
    looks = [
        task["name"]
        for task in play["tasks"]
        if task.get("vars", {}).get("huggingface_cache_handover", {}).get("check_only")
    ]
    assert len([name for name in names[: names.index(order[0])] if name not in looks]) <= 2


def test_what_serves_takes_it_before_it_looks_at_what_others_change() -> None:
    machine = tasks(ROOT / "playbooks/tasks/inspect_machine.yml")
    assert takes(machine[-1])
    assert "not look_only | default(false)" in machine[-1]["when"]
    for name in ("preflight_and_plan", "rollback"):
        included = [task.get("ansible.builtin.import_tasks") for task in tasks(ROOT / f"playbooks/tasks/{name}.yml")]
        before = included[: included.index("inspect_machine.yml")]
        assert before == [None] * len(before)


@pytest.mark.parametrize("name", ["status", "diagnose", "logs", "preflight"])
def test_looking_takes_none(name: str) -> None:
    assert "lease" not in (ROOT / f"playbooks/{name}.yml").read_text(encoding="utf-8")
